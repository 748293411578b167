"""Results of the pipelines: values that print, show, save and convert themselves."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from deixis.clips import DRAWING, clip_rate, decode_all, frames_at
from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.types import SCHEMA, AttentionTrace, GroundedCaption, Grounding, Json

if TYPE_CHECKING:
    from deixis.show.drawing import Drawing

MIN_PRESENCE = 0.5
"""A phrase with a smaller probability is probably absent."""


BY_FRAMES = "described_by_frames"
"""Code of the warning that a captioner of photographs described a clip."""


class Drawable:
    """What all results have in common: a drawing that can be saved, returned as an image and shown in a notebook."""

    source: Any  # path, image or array, as it was given

    def drawing(self) -> Drawing:
        """Return the photograph with its boxes as a drawing."""
        raise NotImplementedError

    def image(self) -> Image.Image:
        """Return the photograph with its boxes as a PIL image."""
        return self.drawing().to_image()

    def save(self, path: str | Path) -> None:
        """Write the photograph with its boxes (.png, .jpg, .svg); of a clip, a strip of its frames."""
        from deixis.show.drawing import save_drawing

        save_drawing(self.drawing(), Path(path))

    def photograph(self) -> Image.Image:
        """Return the photograph itself; a path is opened again."""
        if isinstance(self.source, str | Path):
            return load_image(self.source)
        return Image.fromarray(self.source) if isinstance(self.source, np.ndarray) else self.source

    def _repr_html_(self) -> str:
        file = io.BytesIO()
        self.image().save(file, "PNG")
        data = base64.b64encode(file.getvalue()).decode()
        return f'<img src="data:image/png;base64,{data}" alt="{html.escape(str(self), quote=True)}">'


@dataclass(frozen=True)
class Warning:
    """A reason not to rely on a caption: a short code and a sentence."""

    code: str
    message: str
    lowers_confidence: bool = True

    def __str__(self) -> str:
        return self.message[:1].upper() + self.message[1:]


@dataclass(frozen=True, eq=False)
class CaptionResult(Drawable):
    """A caption of a photograph with grounded noun phrases, and how far it can be relied on."""

    source: Any
    caption: GroundedCaption
    warnings: tuple[Warning, ...]
    trace: AttentionTrace

    @property
    def text(self) -> str:
        """The sentence."""
        return self.caption.caption

    @property
    def groundings(self) -> tuple[Grounding, ...]:
        """The noun phrases with their boxes."""
        return self.caption.groundings

    @property
    def absent(self) -> tuple[Grounding, ...]:
        """The phrases that the grounder found probably absent; none where boxes come from attention."""
        return tuple(one for one in self.groundings if one.point is not None and one.score < MIN_PRESENCE)

    @property
    def confident(self) -> bool:
        """Whether no check lowered the confidence."""
        return not any(warning.lowers_confidence for warning in self.warnings)

    @property
    def template(self) -> bool:
        """Whether the sentence is a template that names what a classifier found."""
        return any(warning.code == "template_caption" for warning in self.warnings)

    @property
    def note(self) -> str:
        """The first warning as a sentence for people, and how a clip was described; empty where there is none."""
        told = [warning for warning in self.warnings if warning.code == BY_FRAMES]
        others = [warning for warning in self.warnings if warning.code != BY_FRAMES][:1]
        sentences = [str(one) if self.confident else f"Low confidence: {one.message}" for one in others]
        return " ".join([*sentences, *map(str, told)])

    def to_dict(self) -> Json:
        """Return the caption's JSON, with ``sure``, ``plain``, ``note`` and ``warnings``."""
        return {
            **self.caption.to_json(),
            "sure": self.confident,
            "plain": self.template,
            "note": self.note,
            "warnings": [{"code": warning.code, "message": warning.message} for warning in self.warnings],
        }

    def drawing(self) -> Drawing:
        """Return the photograph with a box for each noun phrase, and the sentence below it."""
        from deixis.show.draw import caption_spans, draw_caption

        if self.caption.times:
            from deixis.show.clip import draw_strip

            times = self.caption.times
            spans = caption_spans(self.caption)
            return draw_strip(self.frames(), times, self.groundings, spans, self.note)
        return draw_caption(self.photograph(), self.caption, note=self.note, absent=self.absent)

    def frames(self) -> list[Image.Image]:
        """Return the photograph, or the sampled frames of a clip; the file is opened again."""
        if not self.caption.times:
            return [self.photograph()]
        return frames_at(self.source, self.caption.times)

    def words_drawing(self) -> Drawing:
        """Return a picture of every word and where the captioner attended when it wrote it."""
        from deixis.show.clip import draw_words

        frames = self.frames()
        if len(frames) > 1 and self.trace.frames is None:  # a captioner of photographs wrote of the middle frame
            frames = [frames[len(frames) // 2]]
        return draw_words(frames, self.caption, self.trace)

    def save(self, path: str | Path) -> None:
        """Write the drawing (.png, .jpg, .svg); of a clip, a strip of frames, or a clip with boxes (.mp4)."""
        if Path(path).suffix.lower() != ".mp4":
            return super().save(path)
        from deixis.show.clip import write_video

        if not self.caption.times:
            raise DeixisError(f"{path}: a photograph has no moving picture. Choose a file such as .png.")
        moving: Iterable[tuple[float, Image.Image]] = zip(self.caption.times, self.frames(), strict=True)
        rate = 1.0  # of a folder of frames
        if not Path(self.source).is_dir():
            rate, moving = clip_rate(self.source), decode_all(self.source, DRAWING)
        return write_video(moving, self.caption, Path(path), rate)

    def __str__(self) -> str:
        return self.text if self.confident else f"{self.text} (low confidence)"

    def __repr__(self) -> str:
        return f"<CaptionResult {self.text!r}: {listed(self.groundings)}>"


@dataclass(frozen=True, eq=False)
class GroundResult(Drawable, Sequence[Grounding]):
    """The groundings of phrases in a photograph; a sequence of them."""

    source: Any
    groundings: tuple[Grounding, ...]
    model: str
    model_hash: str

    def __getitem__(self, index: Any) -> Any:
        return self.groundings[index]

    def __len__(self) -> int:
        return len(self.groundings)

    def __iter__(self) -> Iterator[Grounding]:
        return iter(self.groundings)

    def to_dict(self) -> Json:
        """Return ``{"model", "model_hash", "schema", "groundings"}``."""
        found = [one.to_phrase_json(self.model) for one in self.groundings]
        return {"model": self.model, "model_hash": self.model_hash, "schema": SCHEMA, "groundings": found}

    def drawing(self) -> Drawing:
        """Return the photograph with a box and a score for each phrase; of a clip, a strip of its frames."""
        return draw_found(self.source, self.photograph, self.groundings)

    def __str__(self) -> str:
        return listed(self.groundings)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class CheckResult(Drawable):
    """A caption checked against a photograph: the probability of each noun phrase, and of the whole."""

    source: Any
    caption: GroundedCaption  # the groundings are its noun phrases; their score is the probability of presence
    match: float | None  # of the whole caption; None where the grounder has no such score

    @property
    def groundings(self) -> tuple[Grounding, ...]:
        """The noun phrases with their boxes and probabilities."""
        return self.caption.groundings

    @property
    def absent(self) -> tuple[Grounding, ...]:
        """The phrases that are probably absent."""
        return tuple(one for one in self.groundings if one.score < MIN_PRESENCE)

    def to_dict(self) -> Json:
        """Return the caption's JSON, ``match``, and ``doubtful``: the texts of the phrases probably absent."""
        absent = [grounding.text for grounding in self.absent]
        return {**self.caption.to_json(), "match": self.match, "doubtful": absent}

    def drawing(self) -> Drawing:
        """Return the photograph with a box and a probability for each phrase; of a clip, a strip of its frames."""
        return draw_found(self.source, self.photograph, self.groundings)

    def __str__(self) -> str:
        whole = "" if self.match is None else f"match {self.match:.2f}; "
        return whole + listed(self.groundings)

    __repr__ = __str__


def listed(groundings: Sequence[Grounding]) -> str:
    """Return groundings as one line: "a dog 0.93 [10, 20, 80, 90]; ..."."""
    return "; ".join(
        f"{one.text} {one.score:.2f} [{', '.join(f'{side:.0f}' for side in one.box)}]" for one in groundings
    )


def draw_found(source: Any, photograph: Callable[[], Image.Image], groundings: Sequence[Grounding]) -> Drawing:
    """Return a drawing of groundings with scores: of a photograph, or of the frames of a clip."""
    if not any(one.track for one in groundings):
        return draw_scored(photograph(), groundings)
    from deixis.show.clip import draw_strip

    times = [one.time for one in groundings[0].track]
    named = [replace(one, text=f"{one.text} {one.score:.0%}") for one in groundings]
    return draw_strip(frames_at(source, times), times, named)


def draw_scored(photograph: Image.Image, groundings: Sequence[Grounding]) -> Drawing:
    """Return a photograph with a box, a text and a score for each grounding."""
    from deixis.show.draw import Mark, colour, draw_boxes

    marks = [
        Mark.of(one, colour(i), f"{one.text} {one.score:.0%}", absent=one.score < MIN_PRESENCE)
        for i, one in enumerate(groundings)
    ]
    return draw_boxes(photograph, marks)
