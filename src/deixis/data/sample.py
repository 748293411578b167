"""Common format of all data sets: a :class:`Dataset` of :class:`Sample`, with the skipped records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from deixis.types import Phrase

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Caption:
    """One sentence about an image."""

    text: str  # original text, without markup
    tokens: tuple[str, ...]  # deixis.language.tokenise.tokens(text): lower case, without punctuation
    phrases: tuple[Phrase, ...] = ()  # spans refer to `tokens`


@dataclass(frozen=True, eq=False)
class Entity:
    """An object in the image that captions refer to, with its annotated boxes."""

    id: str
    boxes: npt.NDArray[np.floating]  # [M, 4], M may be 0
    types: tuple[str, ...] = ()  # the data set's types, e.g. ("people",)
    label: str = ""  # class name if the data set has one, e.g. "dog"
    frames: npt.NDArray[np.integer] | None = None  # [M] frame of each box in a video segment
    scene: bool = False  # the whole scene, or a part of it without clear borders
    no_box: bool = False  # annotated as having no box


@dataclass(frozen=True)
class Sample:
    """One image (or one video segment) with its captions and entities. Image files are opened on demand."""

    image_id: str
    captions: tuple[Caption, ...]
    path: Path | None = None  # image file; may not exist
    frames: tuple[Path, ...] = ()  # sampled frames of a video segment, instead of one image
    size: tuple[int, int] | None = None  # width, height if annotated; see image_size()
    entities: tuple[Entity, ...] = ()
    labels: tuple[str, ...] | None = None  # image-level labels: names of the classes in the image; None: not annotated
    pixels: npt.NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)
    # [H, W, 3] (video: [F, H, W, 3]) of a generated image

    def entity(self, entity_id: str) -> Entity | None:
        """Entity with this id, or None."""
        return next((entity for entity in self.entities if entity.id == entity_id), None)

    def open(self, frame: int = 0) -> Image.Image:
        """Read the image (or one frame) as RGB."""
        from PIL import Image

        from deixis.images import load_image

        if self.pixels is not None:
            return Image.fromarray(self.pixels if self.pixels.ndim == 3 else self.pixels[frame])
        path = self.frames[frame] if self.frames else self.path
        if path is None:
            raise FileNotFoundError(f"sample {self.image_id} has no image")
        return load_image(path)

    def image_size(self) -> tuple[int, int]:
        """(width, height) from the annotation, else from the image's header."""
        from deixis.images import image_size

        if self.size is not None:
            return self.size
        if self.pixels is not None:
            return self.pixels.shape[-2], self.pixels.shape[-3]
        path = self.frames[0] if self.frames else self.path
        if path is None:
            raise FileNotFoundError(f"sample {self.image_id} has no image")
        return image_size(path)


@dataclass(frozen=True)
class Skipped:
    """A skipped record: its place and the reason."""

    file: str
    reason: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.file}{'' if self.line is None else f', line {self.line}'}: {self.reason}"


@dataclass(frozen=True)
class Expected:
    """A file or folder of a data set's official distribution, with its purpose and publisher."""

    path: str  # relative to the data set's root
    purpose: str
    publisher: str
    required: bool = True  # False: the data set can be used without it


@dataclass(frozen=True)
class Dataset(Sequence[Sample]):
    """Samples of one split, in the order of the official list, and the skipped records."""

    name: str
    split: str
    samples: tuple[Sample, ...]
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        return self.samples[index]

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)
