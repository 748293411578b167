"""One photograph on its way through a pipeline, with everything that was computed for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis.errors import DeixisError
from deixis.images import LARGE_PIXELS, image_size, load_image
from deixis.language.parse import Parse, parse_words
from deixis.pipelines.models import PhraseGrounder
from deixis.types import Regions
from deixis.vision.extractor import RegionExtractor

Source = str | Path | Image.Image | npt.NDArray[np.uint8]
"""What a user gives: a path, a PIL image, or an array [H, W, 3] of RGB bytes."""


class Photo:
    """A photograph: image, regions, encodings and parses are computed at most once, when they are first needed.

    ``name`` stands in results. ``regions`` are given where they were extracted before, alone or by the names of their
    extractors; ``open_image`` opens the photograph where the source is not a file (an upload, a sample).
    """

    def __init__(
        self,
        source: Source,
        name: str | None = None,
        regions: Regions | dict[str, Regions] | None = None,
        open_image: Callable[[], Image.Image] | None = None,
    ) -> None:
        self.source = source
        self.name = name if name is not None else str(source) if isinstance(source, str | Path) else ""
        self._open = open_image
        self._image: Image.Image | None = None
        given = {} if regions is None else regions  # a dictionary that is given is filled, even if it is empty
        self._regions = {given.extractor: given} if isinstance(given, Regions) else given
        self._encoded: dict[int, Any] = {}  # by identity of the grounder
        self._parses: dict[tuple[str, ...], Parse] = {}
        self._classes: npt.NDArray[np.floating] | None = None

    @property
    def image(self) -> Image.Image:
        """The decoded photograph; a large file is decoded at each use, so that a batch does not fill the memory."""
        if self._image is not None:
            return self._image
        if self._open is not None:
            self._image = self._open()
        elif isinstance(self.source, Image.Image):
            self._image = self.source
        elif isinstance(self.source, str | Path):
            image = load_image(self.source)
            if image.width * image.height > LARGE_PIXELS:
                return image
            self._image = image
        else:
            self._image = _from_array(self.source)
        return self._image

    @property
    def large(self) -> bool:
        """Whether the photograph is processed alone: a file of many pixels that is not decoded yet."""
        if self._image is not None or self._open is not None or not isinstance(self.source, str | Path):
            return False
        width, height = image_size(self.source)
        return width * height > LARGE_PIXELS

    @property
    def size(self) -> tuple[int, int]:
        """Width and height; of the regions where there are any, so that no file is opened for it."""
        for regions in self._regions.values():
            return regions.size
        return self.image.size

    def regions(self, extractor: RegionExtractor) -> Regions:
        """Return the regions by this extractor."""
        if not self.has_regions(extractor):
            extract_batch([self], extractor)
        return self._regions[extractor.name]

    def has_regions(self, extractor: RegionExtractor) -> bool:
        """Return whether the regions by this extractor are there."""
        found = self._regions.get(extractor.name)
        return found is not None and extractor.accepts(found)

    def classes(self, extractor: RegionExtractor, side: int) -> npt.NDArray[np.floating]:
        """Return the class probabilities of the whole photograph, by the extractor's classifier at this size."""
        if self._classes is None:
            self._classes = extractor.classify_image(self.image.convert("RGB"), side)
        return self._classes

    def encoded(self, grounder: PhraseGrounder) -> Any:
        """Return the grounder's encoding."""
        if id(grounder) not in self._encoded:
            encode_batch([self], grounder)
        return self._encoded[id(grounder)]

    def parse(self, words: Sequence[str]) -> Parse:
        """Return the parse of a sentence about the photograph."""
        key = tuple(words)
        if key not in self._parses:
            parse_batch([self], [[key]])
        return self._parses[key]

    def nouns(self, words: Sequence[str]) -> list[str]:
        """Return the lemmas of the head nouns of a sentence's noun phrases, in order."""
        parsed = self.parse(words)
        heads = [parsed.head(phrase.start, phrase.end) for phrase in parsed.phrases]
        return [parsed.lemmas[head] for head in heads if head is not None and parsed.nouns[head]]


def extract_batch(photos: Sequence[Photo], extractor: RegionExtractor) -> None:
    """Extract the regions that photographs lack, in one pass of the networks; clips have passes of their own."""
    new = [photo for photo in photos if type(photo) is Photo and not photo.has_regions(extractor)]
    if len(new) > 1:
        new = [photo for photo in new if not photo.large]  # a large one is extracted alone, when its regions are needed
    if new:
        found = extractor.extract_batch([photo.image for photo in new], [photo.name for photo in new])
        for photo, regions in zip(new, found, strict=True):
            photo._regions[extractor.name] = regions


def encode_batch(photos: Sequence[Photo], grounder: PhraseGrounder) -> None:
    """Encode photographs that are not encoded yet, in one pass of the grounder."""
    new = [photo for photo in photos if id(grounder) not in photo._encoded]
    if not new:
        return
    extractor = grounder.extractor
    if extractor is not None:
        extract_batch(new, extractor)
    large = [photo for photo in new if photo.large] if extractor is None and len(new) > 1 else []
    for some in [[photo for photo in new if photo not in large], *([photo] for photo in large)]:
        inputs = [photo.image if extractor is None else photo.regions(extractor) for photo in some]
        for photo, encoded in zip(some, grounder.encode(inputs) if inputs else (), strict=True):
            photo._encoded[id(grounder)] = encoded


def parse_batch(photos: Sequence[Photo], sentences: Sequence[Sequence[tuple[str, ...]]]) -> None:
    """Parse the sentences of several photographs in one call of the parser."""
    wanted = list(dict.fromkeys(words for each in sentences for words in each if words))
    parses = dict(zip(wanted, parse_words(wanted), strict=True))
    parses[()] = Parse((), (), (), (), (), (), ())
    for photo, each in zip(photos, sentences, strict=True):
        photo._parses.update({words: parses[words] for words in each})


def _from_array(array: npt.NDArray[np.uint8]) -> Image.Image:
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise DeixisError(
            f"an array of shape {array.shape} and type {array.dtype} is not an image. "
            "Give an array [height, width, 3] of uint8 in RGB order."
        )
    return Image.fromarray(array)
