"""What is said about one image, whatever format it came in or goes to."""

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
"""Bytes of a file's name; file systems take 255, and an ending is still to come."""


@dataclass(frozen=True)
class Answer:
    """A phrase and its place, of no caption that is known here."""

    grounding: Grounding
    model: str = ""
    caption: int | None = None  # which caption of the image the phrase stands in, from 0, where that is told
    start: int | None = None  # its first word there


@dataclass(frozen=True)
class Picture:
    """One image with all that is said about it."""

    image: str  # as the predictions name it
    size: Size | None = None  # width, height where they are known
    captions: tuple[GroundedCaption, ...] = ()
    answers: tuple[Answer, ...] = ()
    file: str = ""  # the photograph's path in the folder that was searched for it; empty where it was not found

    def places(self) -> list[Grounding]:
        """All that has a box, captions first."""
        said = [grounding for caption in self.captions for grounding in caption.groundings]
        return said + [answer.grounding for answer in self.answers]


@dataclass
class _Entry:
    size: Size | None = None
    captions: list[GroundedCaption] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)


class Album:
    """Gathers what a file says, image by image, in the order in which images are first spoken of."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def see(self, image: str, size: Size | None = None) -> None:
        """Speak of an image; its size is not told twice in different ways."""
        known = self._entries[image].size if image in self._entries else None
        if known is not None and size is not None and known != size:
            raise BadRecord(f"{image} has {size[0]} x {size[1]} pixels here and {known[0]} x {known[1]} before")
        self._entries.setdefault(image, _Entry()).size = known or size

    def add_caption(self, caption: GroundedCaption) -> None:
        """A caption of ``caption.image``; its boxes are cut to the image, and :class:`BadRecord` if nothing is left."""
        size = (caption.width, caption.height) if caption.width > 0 and caption.height > 0 else None
        _whole(caption.image, caption.caption, caption.model, *caption.words)
        phrases, words = (tuple(_cut(g, size) for g in each) for each in (caption.groundings, caption.word_groundings))
        self.see(caption.image, size)
        self._entries[caption.image].captions.append(replace(caption, groundings=phrases, word_groundings=words))

    def add_answer(self, image: str, answer: Answer, size: Size | None = None) -> None:
        """A phrase of an image, its box cut like those of captions."""
        _whole(image, answer.model)
        cut = _cut(answer.grounding, size)
        self.see(image, size)
        self._entries[image].answers.append(replace(answer, grounding=cut))

    def pictures(self) -> list[Picture]:
        """What was gathered; captions without a size have their image's."""
        return [
            with_size(Picture(image, None, tuple(entry.captions), tuple(entry.answers)), entry.size)
            for image, entry in self._entries.items()
        ]


def with_size(picture: Picture, size: Size | None) -> Picture:
    """The picture with a size, its captions too; None changes nothing."""
    if size is None:
        return picture
    captions = tuple(replace(caption, width=size[0], height=size[1]) for caption in picture.captions)
    return replace(picture, size=size, captions=captions)


def _whole(*texts: str) -> None:
    """JSON can escape half a character, which no file can hold."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise BadRecord("there is half a character in it") from None


def _cut(grounding: Grounding, size: Size | None) -> Grounding:
    _whole(grounding.text)
    try:
        return replace(grounding, box=box_in_image(grounding.box, size or (math.inf, math.inf)))
    except BadRecord as error:
        raise BadRecord(f"'{grounding.text}': {error}") from None


# Words and their places in a text -----------------------------------------------------------------------------------


def letters(caption: GroundedCaption) -> tuple[str, list[tuple[int, int]]]:
    """The caption's text on one line, and the characters [start, end) of each of its words."""
    text = " ".join(caption.caption.split())
    aligned = align(text)
    if aligned.tokens == caption.words:
        return text, list(zip(aligned.starts, aligned.ends, strict=True))
    # words that are not the tokens of the text, as a model with another tokeniser says them
    places, at = [], 0
    for word in caption.words:
        places.append((at, at + len(word)))
        at += len(word) + 1
    return " ".join(caption.words), places


def sentence(caption: GroundedCaption) -> str:
    """The text to write for a caption: its own, or its words where these are not the tokens of the text."""
    return caption.caption if tokens(caption.caption) == caption.words else " ".join(caption.words)


def place(grounding: Grounding, words: Sequence[str], start: int, end: int) -> Grounding:
    """The grounding at the words [start, end) that a file tells, or where its text stands if that is elsewhere."""
    found = find_words(words, grounding.text, start)
    if 0 <= start < end <= len(words) and (found is None or found[0] == start):
        found = start, end
    if found is None:
        raise BadRecord(f"'{grounding.text}' is not among the {len(words)} words of its caption")
    return replace(grounding, start=found[0], end=found[1])


def find_words(words: Sequence[str], phrase: str, start: int | None = None) -> tuple[int, int] | None:
    """Where the words of a phrase stand in a caption: at ``start`` if they do, else where they come first."""
    wanted = tokens(phrase)
    starts = range(len(words) - len(wanted) + 1) if wanted else ()
    found = [at for at in starts if tuple(words[at : at + len(wanted)]) == wanted]
    if not found:
        return None
    first = start if start in found else found[0]
    return first, first + len(wanted)


# Names --------------------------------------------------------------------------------------------------------------


def file_names(pictures: Sequence[Picture]) -> dict[str, str]:
    """Image -> the name of its file: plain (no folder), safe on any system, and no two the same.

    The photograph's own name where that is all this; else its folders come into it, else a number.
    """
    bare = [_safe(_name(picture).name) for picture in pictures]
    often = {name.casefold(): 0 for name in bare}
    for name in bare:
        often[name.casefold()] += 1
    names: dict[str, str] = {}
    taken: set[str] = set()
    for picture, name in zip(pictures, bare, strict=True):
        if often[name.casefold()] > 1:
            name = _safe("_".join(part for part in _name(picture).parts if part not in ("/", "..", ".")))
        stem, ending = split_ending(name)
        number = 2
        while stem.casefold() in taken:
            stem, number = f"{split_ending(name)[0]}-{number}", number + 1
        taken.add(stem.casefold())  # without its ending: a.jpg and a.png share the name of their annotation
        names[picture.image] = stem + ending
    return names


def split_ending(name: str) -> tuple[str, str]:
    """A file name and its ending, if that is one of an image: ``("st. mary", ".jpg")``, ``("st. mary", "")``."""
    ending = next((ending for ending in SUFFIXES if name.lower().endswith(ending)), "")
    at = len(name) - len(ending)
    return name[:at], name[at:]


def _name(picture: Picture) -> PurePosixPath:
    return PurePosixPath((picture.file or picture.image).replace("\\", "/"))


def _safe(name: str) -> str:
    """Without what some file system or XML cannot hold, and not too long."""
    stem, ending = split_ending(re.sub(r'[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff/\\:*?"<>|]', "_", name))
    stem = stem.encode()[:LONGEST_NAME].decode(errors="ignore").strip(" ")
    return ("image" if not stem.strip(".") else stem) + ending


def head_nouns(pictures: Sequence[Picture], quiet: bool = False) -> dict[str, str]:
    """Phrase -> the lemma of its head noun, which is what its category is called: "two brown dogs" -> "dog"."""
    from deixis.language.parse import parse

    words = {word.text for picture in pictures for caption in picture.captions for word in caption.word_groundings}
    texts = sorted({grounding.text for picture in pictures for grounding in picture.places()} | words)
    named = {}
    for text, parsed in zip(texts, parse(texts, quiet=quiet), strict=True):
        head = parsed.head(0, len(parsed))
        named[text] = (text.strip() or "thing") if head is None else parsed.lemmas[head]
    return named


def sized(pictures: Sequence[Picture], skipped: list[Skipped]) -> Iterator[tuple[Picture, Size]]:
    """The pictures whose size is known; the others are noted."""
    for picture in pictures:
        if picture.size is None:
            skipped.append(Skipped(picture.image, "its size is not known, and this format needs it; --images helps"))
        else:
            yield picture, picture.size


def box_of(corners: Iterable[float]) -> Box:
    """Four numbers of an array as a box."""
    x1, y1, x2, y2 = (float(x) for x in corners)
    return x1, y1, x2, y2
