"""Callable pipelines for Python: ``load_captioner``, ``load_grounder`` and ``check``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
from PIL import Image

from deixis.pipelines.caption import DEFAULT, CaptionOptions, caption_stream
from deixis.pipelines.check import check as check_photo
from deixis.pipelines.clip import open_source
from deixis.pipelines.ground import ground as ground_photo
from deixis.pipelines.models import DEFAULT_CAPTIONER, DEFAULT_GROUNDER, Models, PhraseGrounder, load_models
from deixis.pipelines.models import load_grounder as load_phrase_grounder
from deixis.pipelines.photo import Photo, Source
from deixis.pipelines.results import CaptionResult, CheckResult, GroundResult
from deixis.types import HeatPlace, Place


def opened(source: Source) -> Photo:
    """Return the photograph or, by the suffix of a path, the clip."""
    return open_source(source) if isinstance(source, str | Path) else Photo(source)


class CaptionPipeline:
    """Caption photographs and clips: ``caption("photo.jpg")``, ``caption("clip.mp4")``.

    Call it with a path, a PIL image or an array [H, W, 3]. A list gives a list of results. Any other iterable, such as
    a generator, gives an iterator of results, and photographs are read as they are needed.
    """

    def __init__(self, models: Models, options: CaptionOptions = DEFAULT) -> None:
        self.models, self.options = models, options

    @overload
    def __call__(self, photos: Source) -> CaptionResult: ...

    @overload
    def __call__(self, photos: list[Source] | tuple[Source, ...]) -> list[CaptionResult]: ...

    @overload
    def __call__(self, photos: Iterator[Source]) -> Iterator[CaptionResult]: ...

    def __call__(self, photos: Any) -> Any:
        """Return the result of one photograph, a list of results for a list, or an iterator for other iterables."""
        if isinstance(photos, str | Path | Image.Image | np.ndarray):
            return next(caption_stream([opened(photos)], self.models, self.options))
        results = caption_stream((opened(photo) for photo in photos), self.models, self.options)
        return list(results) if isinstance(photos, list | tuple) else results

    def __repr__(self) -> str:
        return f"<CaptionPipeline {self.models.name}>"


class GroundPipeline:
    """Ground phrases in photographs: ``ground("photo.jpg", ["a dog", "a red ball"])``."""

    def __init__(self, grounder: PhraseGrounder) -> None:
        self.grounder = grounder

    def __call__(
        self, photo: Source, wanted: str | Sequence[str], place: Place | HeatPlace | None = None
    ) -> GroundResult:
        """Ground each phrase of a list by itself; the noun phrases of a sentence are grounded together.

        The result behaves as a list of groundings with ``text``, ``box`` and ``score``, the probability of presence.
        """
        one = opened(photo)
        found = ground_photo(one, wanted, self.grounder, place)
        return GroundResult(one.source, tuple(found), self.grounder.name, self.grounder.hash)

    def __repr__(self) -> str:
        return f"<GroundPipeline {self.grounder.name}>"


def load_captioner(
    model: str | Path = DEFAULT_CAPTIONER,
    grounder: str | Path | None = None,
    options: CaptionOptions = DEFAULT,
    device: str = "auto",
) -> CaptionPipeline:
    """Load the caption pipeline: a captioner by name or folder, with the grounder that reranks and grounds.

    Without ``grounder``, the default captioner has the default grounder and other captioners have none; "none": none.
    """
    return CaptionPipeline(load_models(model, grounder, device), options)


def load_grounder(model: str | Path = DEFAULT_GROUNDER, device: str = "auto") -> GroundPipeline:
    """Load a phrase grounder by name or folder."""
    return GroundPipeline(load_phrase_grounder(model, device))


def check(photo: Source, caption: str, model: str | Path = DEFAULT_GROUNDER, device: str = "auto") -> CheckResult:
    """Return the probability that each noun phrase of a caption, and the whole caption, fits a photograph.

    The model is loaded once and kept for the next call.
    """
    return check_photo(opened(photo), caption, _loaded(str(model), device))


@lru_cache(maxsize=2)
def _loaded(model: str, device: str) -> PhraseGrounder:
    return load_phrase_grounder(model, device)
