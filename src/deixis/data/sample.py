"""Common format of all data sets: a :class:`Dataset` of :class:`Sample`, with the skipped records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from deixis.clips import FRAMES, ClipFrames, load_frames, sample_clip, sample_times
from deixis.types import Phrase

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Caption:
    """One sentence about an image."""

    text: str  # original text, without markup
    tokens: tuple[str, ...]  # deixis.language.tokenise.tokens(text): lower case, without punctuation
    phrases: tuple[Phrase, ...] = ()  # spans refer to `tokens`
    tags: tuple[str, ...] = ()  # part of speech of each token (Penn Treebank), where the data set has them


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
class Segment:
    """Part of a video, in seconds."""

    start: float
    end: float  # infinite: the end of the video
    duration: float  # of the whole video; infinite: not annotated
    path: Path | None = None  # video file; may not exist; None: only sampled frames are known
    number: int = 0  # of the segment in its video
    count: int = 1  # number of the last segment of the video, plus 1
    width: int = 0  # frames are resized to this width, in whose pixels boxes are annotated; 0: as they are


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
    segment: Segment | None = None  # of a video; its file is used where there are no frames

    @property
    def is_video(self) -> bool:
        """Whether this is a video segment."""
        return bool(self.frames) or self.segment is not None or (self.pixels is not None and self.pixels.ndim == 4)

    def entity(self, entity_id: str) -> Entity | None:
        """Entity with this id, or None."""
        return next((entity for entity in self.entities if entity.id == entity_id), None)

    def open(self, frame: int = 0) -> Image.Image:
        """Read the image (or one frame) as RGB."""
        from PIL import Image

        from deixis.images import load_image

        if self.pixels is not None:
            return Image.fromarray(self.pixels if self.pixels.ndim == 3 else self.pixels[frame])
        if self.frames:
            width = 0 if self.segment is None else self.segment.width
            return ClipFrames((load_image(self.frames[frame]),), (0.0,), 0.0, 1.0).resized(width).images[0]
        if self.is_video:
            return self.clip().images[frame]
        if self.path is None:
            raise FileNotFoundError(f"sample {self.image_id} has no image")
        return load_image(self.path)

    def clip(self, count: int = FRAMES) -> ClipFrames:
        """Read the frames of a video segment: generated, files, or sampled in the video (``count`` frames)."""
        from PIL import Image

        if self.pixels is not None:
            images = tuple(Image.fromarray(one) for one in self.pixels)
            last = float(len(images)) if self.segment is None else self.segment.end
            return ClipFrames(images, sample_times(0.0, last, len(images)), 0.0, last)
        if self.frames:
            found = load_frames(self.frames)
            if self.segment is None or math.isinf(self.segment.end):
                return found
            times = sample_times(self.segment.start, self.segment.end, len(found.images))
            found = ClipFrames(found.images, times, self.segment.start, self.segment.end)
            return found.resized(self.segment.width)
        if self.segment is None or self.segment.path is None:
            raise FileNotFoundError(f"sample {self.image_id} has no video")
        end = None if math.isinf(self.segment.end) else self.segment.end
        found = sample_clip(self.segment.path, self.segment.start, end, count)
        return found.resized(self.segment.width)

    def image_size(self) -> tuple[int, int]:
        """(width, height) from the annotation, else from the image's header."""
        from deixis.images import image_size

        if self.size is not None:
            return self.size
        if self.pixels is not None:
            return self.pixels.shape[-2], self.pixels.shape[-3]
        if self.segment is not None and not self.frames:
            return self.clip(1).images[0].size
        path = self.frames[0] if self.frames else self.path
        if path is None:
            raise FileNotFoundError(f"sample {self.image_id} has no image")
        width, height = image_size(path)
        wanted = 0 if self.segment is None else self.segment.width
        return (wanted, max(1, round(height * wanted / width))) if wanted else (width, height)


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
