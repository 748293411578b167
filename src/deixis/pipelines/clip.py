"""One clip on its way through a pipeline: sampled frames, their regions, and each frame as a photograph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from PIL import Image

from deixis.clips import ClipFrames, is_clip, sample_clip
from deixis.pipelines.photo import Photo
from deixis.types import Regions
from deixis.vision.extractor import RegionExtractor

Segment = tuple[float, float, float, float]
"""Place of a segment in its video: number, count, start and end as fractions of the duration."""


class Clip(Photo):
    """A clip: its image is the middle frame, its regions are those of all sampled frames.

    ``open_clip`` opens it where the source is not a file (an upload, a sample). ``times`` are the seconds of the frames
    where they are known before it is opened.
    """

    def __init__(
        self,
        source: str | Path,
        name: str | None = None,
        regions: Regions | dict[str, Regions] | None = None,
        open_clip: Callable[[], ClipFrames] | None = None,
        times: tuple[float, ...] = (),
        segment: Segment | None = None,
    ) -> None:
        super().__init__(source, name, regions)
        self._open_clip, self._times, self._segment = open_clip, times, segment
        self._frames: dict[int, Photo] = {}

    @cached_property
    def frames(self) -> ClipFrames:
        """The sampled frames."""
        return sample_clip(str(self.source)) if self._open_clip is None else self._open_clip()

    @cached_property
    def image(self) -> Image.Image:
        """The middle frame."""
        return self.frames.images[self.frames.middle]

    @property
    def large(self) -> bool:
        """False: clips are processed one at a time anyway."""
        return False

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds of the frames."""
        return self._times or self.frames.times

    @property
    def middle(self) -> int:
        """Index of the middle frame."""
        return len(self.times) // 2

    def regions(self, extractor: RegionExtractor) -> Regions:
        """Return the regions of all frames by this extractor."""
        found = self._regions.get(extractor.name)
        if found is None or not extractor.accepts(found):
            found = extractor.extract_video(self.frames.images, self.name)
            self._regions[extractor.name] = found
        return found if self._segment is None else replace(found, segment=self._segment)

    def photo(self, frame: int) -> Photo:
        """Return one frame as a photograph, with its part of the regions that are already there."""
        if frame not in self._frames:
            given = {name: found.frame(frame) for name, found in self._regions.items() if found.frames is not None}
            self._frames[frame] = Photo(self.source, self.name, given, open_image=lambda: self.frames.images[frame])
        return self._frames[frame]


def open_source(source: str | Path) -> Photo:
    """Return the photograph or the clip of a path."""
    return Clip(source) if is_clip(Path(source)) else Photo(source)
