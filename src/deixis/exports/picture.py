"""Predictions grouped by image, independent of the file format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from deixis.data.reading import BadRecord, box_in_image
from deixis.data.sample import Skipped
from deixis.language.tokenise import align, tokens
from deixis.photographs import SUFFIXES
from deixis.types import Box, GroundedCaption, Grounding

Size = tuple[int, int]

LONGEST_NAME = 200
"""Maximum length of a file name in bytes, below the limit of 255 to allow for an extension."""


@dataclass(frozen=True)
class Answer:
    """A phrase prediction without a caption."""

    grounding: Grounding
    model: str = ""
    caption: int | None = None  # number of the caption with the phrase, from 0, if given
    start: int | None = None  # its first word in that caption


@dataclass(frozen=True)
class Picture:
    """One image with its captions and phrase predictions."""

    image: str  # name in the predictions
    size: Size | None = None  # width, height if known
    captions: tuple[GroundedCaption, ...] = ()
    answers: tuple[Answer, ...] = ()
    file: str = ""  # path relative to the image folder; empty if not found

    def places(self) -> list[Grounding]:
        """All groundings, those of captions first."""
        in_captions = [grounding for caption in self.captions for grounding in caption.groundings]
        return in_captions + [answer.grounding for answer in self.answers]


@dataclass
class _Entry:
    size: Size | None = None
    captions: list[GroundedCaption] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)


class PictureBuilder:
    """Builder of pictures: groups captions and phrases by image, in the order of first occurrence."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add_image(self, image: str, size: Size | None = None) -> None:
        """Add an image; raise :class:`BadRecord` if it has another size than before."""
        known = self._entries[image].size if image in self._entries else None
        if known is not None and size is not None and known != size:
            raise BadRecord(
                f"{image} has size {size[0]} x {size[1]} here, but {known[0]} x {known[1]} in an earlier record"
            )
        self._entries.setdefault(image, _Entry()).size = known or size

    def add_caption(self, caption: GroundedCaption) -> None:
        """Add a caption; clip its boxes to the image and raise :class:`BadRecord` if one becomes empty."""
        size = (caption.width, caption.height) if caption.width > 0 and caption.height > 0 else None
        _check_encodable(caption.image, caption.caption, caption.model, *caption.words)
        phrases, words = (tuple(_clip(g, size) for g in each) for each in (caption.groundings, caption.word_groundings))
        self.add_image(caption.image, size)
        self._entries[caption.image].captions.append(replace(caption, groundings=phrases, word_groundings=words))

    def add_answer(self, image: str, answer: Answer, size: Size | None = None) -> None:
        """Add a phrase prediction; clip its box to the image."""
        _check_encodable(image, answer.model)
        clipped = _clip(answer.grounding, size)
        self.add_image(image, size)
        self._entries[image].answers.append(replace(answer, grounding=clipped))

    def pictures(self) -> list[Picture]:
        """Return the pictures; captions without a size get the size of their image."""
        return [
            with_size(Picture(image, None, tuple(entry.captions), tuple(entry.answers)), entry.size)
            for image, entry in self._entries.items()
        ]


def with_size(picture: Picture, size: Size | None) -> Picture:
    """Set the size of a picture and of its captions; None changes nothing."""
    if size is None:
        return picture
    captions = tuple(replace(caption, width=size[0], height=size[1]) for caption in picture.captions)
    return replace(picture, size=size, captions=captions)


def _check_encodable(*texts: str) -> None:
    """Raise :class:`BadRecord` for lone surrogates, which JSON allows but UTF-8 cannot encode."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise BadRecord("invalid character (lone surrogate)") from None


def _clip(grounding: Grounding, size: Size | None) -> Grounding:
    _check_encodable(grounding.text)
    try:
        return replace(grounding, box=box_in_image(grounding.box, size or (math.inf, math.inf)))
    except BadRecord as error:
        raise BadRecord(f"'{grounding.text}': {error}") from None


# Words and their positions in a text --------------------------------------------------------------------------------


def text_and_spans(caption: GroundedCaption) -> tuple[str, list[tuple[int, int]]]:
    """Text of the caption in one line, and the character span [start, end) of each word."""
    text = " ".join(caption.caption.split())
    aligned = align(text)
    if aligned.tokens == caption.words:
        return text, list(zip(aligned.starts, aligned.ends, strict=True))
    # the words are not the tokens of the text: the model has another tokeniser
    places, at = [], 0
    for word in caption.words:
        places.append((at, at + len(word)))
        at += len(word) + 1
    return " ".join(caption.words), places


def sentence(caption: GroundedCaption) -> str:
    """Text to write for a caption: its text, or its words if they are not the tokens of the text."""
    return caption.caption if tokens(caption.caption) == caption.words else " ".join(caption.words)


def place(grounding: Grounding, words: Sequence[str], start: int, end: int) -> Grounding:
    """Set the span of a grounding to [start, end), or to the position of its text if that differs."""
    found = find_words(words, grounding.text, start)
    if 0 <= start < end <= len(words) and (found is None or found[0] == start):
        found = start, end
    if found is None:
        raise BadRecord(f"'{grounding.text}' is not in the {len(words)} words of its caption")
    return replace(grounding, start=found[0], end=found[1])


def find_words(words: Sequence[str], phrase: str, start: int | None = None) -> tuple[int, int] | None:
    """Find the words of a phrase in a caption: at ``start`` if possible, else their first occurrence."""
    wanted = tokens(phrase)
    starts = range(len(words) - len(wanted) + 1) if wanted else ()
    found = [at for at in starts if tuple(words[at : at + len(wanted)]) == wanted]
    if not found:
        return None
    first = start if start in found else found[0]
    return first, first + len(wanted)


# Names --------------------------------------------------------------------------------------------------------------


def file_names(pictures: Sequence[Picture]) -> dict[str, str]:
    """Image -> a unique file name without folder, valid on all systems.

    The image's own file name if that is unique, else with its folders, else with a number.
    """
    plain_names = [_safe(_name(picture).name) for picture in pictures]
    counts = {name.casefold(): 0 for name in plain_names}
    for name in plain_names:
        counts[name.casefold()] += 1
    names: dict[str, str] = {}
    taken: set[str] = set()
    for picture, name in zip(pictures, plain_names, strict=True):
        if counts[name.casefold()] > 1:
            name = _safe("_".join(part for part in _name(picture).parts if part not in ("/", "..", ".")))
        stem, ending = split_ending(name)
        number = 2
        while stem.casefold() in taken:
            stem, number = f"{split_ending(name)[0]}-{number}", number + 1
        taken.add(stem.casefold())  # without extension: a.jpg and a.png have the same annotation name
        names[picture.image] = stem + ending
    return names


def split_ending(name: str) -> tuple[str, str]:
    """Split off an image extension: ``("st. mary", ".jpg")``, ``("st. mary", "")``."""
    ending = next((ending for ending in SUFFIXES if name.lower().endswith(ending)), "")
    at = len(name) - len(ending)
    return name[:at], name[at:]


def _name(picture: Picture) -> PurePosixPath:
    return PurePosixPath((picture.file or picture.image).replace("\\", "/"))


def _safe(name: str) -> str:
    """Replace characters that file systems or XML do not allow, and limit the length."""
    stem, ending = split_ending(re.sub(r'[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff/\\:*?"<>|]', "_", name))
    stem = stem.encode()[:LONGEST_NAME].decode(errors="ignore").strip(" ")
    return ("image" if not stem.strip(".") else stem) + ending


def head_nouns(pictures: Sequence[Picture]) -> dict[str, str]:
    """Phrase -> lemma of its head noun, used as the category: "two brown dogs" -> "dog"."""
    from deixis.language.parse import parse

    words = {word.text for picture in pictures for caption in picture.captions for word in caption.word_groundings}
    texts = sorted({grounding.text for picture in pictures for grounding in picture.places()} | words)
    nouns = {}
    for text, parsed in zip(texts, parse(texts), strict=True):
        head = parsed.head(0, len(parsed))
        nouns[text] = (text.strip() or "thing") if head is None else parsed.lemmas[head]
    return nouns


def sized(pictures: Sequence[Picture], skipped: list[Skipped]) -> Iterator[tuple[Picture, Size]]:
    """Yield the pictures with a known size; add the others to ``skipped``."""
    for picture in pictures:
        if picture.size is None:
            skipped.append(Skipped(picture.image, "unknown image size, which this format needs. Set --images"))
        else:
            yield picture, picture.size


def box_of(corners: Iterable[float]) -> Box:
    """Convert four numbers to a box."""
    x1, y1, x2, y2 = (float(x) for x in corners)
    return x1, y1, x2, y2
