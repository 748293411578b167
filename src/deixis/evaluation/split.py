"""Photographs of a split, with regions from a feature store or a region extractor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from deixis.clips import sample_times
from deixis.data import Sample
from deixis.errors import DeixisError
from deixis.pipelines.clip import Clip
from deixis.pipelines.photo import Photo
from deixis.types import Regions
from deixis.vision.extractor import RegionExtractor
from deixis.vision.segments import place_in_video


class SplitPhotos(Mapping[str, Photo]):
    """Image id -> photograph; each access creates a new :class:`Photo`, so that encodings are not kept in memory.

    Regions come from ``store``. Without a store they are extracted at first use and kept.
    """

    def __init__(self, samples: Iterable[Sample], store: Mapping[str, Regions] | None = None) -> None:
        self._samples = {sample.image_id: sample for sample in samples if store is None or sample.image_id in store}
        self._store = store
        self._regions: dict[str, dict[str, Regions]] = {image: {} for image in self._samples}

    def __getitem__(self, image_id: str) -> Photo:
        sample = self._samples[image_id]
        regions = self._regions[image_id] if self._store is None else self._store[image_id]
        if not sample.is_video:
            return Photo(Path(image_id), image_id, regions, sample.open)
        place = sample.segment
        times = () if place is None or math.isinf(place.end) else sample_times(place.start, place.end)
        return Clip(Path(image_id), image_id, regions, sample.clip, times, place_in_video(sample))

    def __iter__(self) -> Iterator[str]:
        return iter(self._samples)

    def __len__(self) -> int:
        return len(self._samples)

    def extract(self, extractor: RegionExtractor | None, skipped: Callable[[str], None]) -> Iterator[str]:
        """Extract the regions of each photograph and yield its id; unreadable photographs are removed and reported."""
        for image_id in list(self._samples):
            try:
                if extractor is None:
                    _ = self[image_id].image
                else:
                    self[image_id].regions(extractor)
            except (DeixisError, OSError) as error:
                del self._samples[image_id], self._regions[image_id]
                skipped(f"{image_id} is skipped: {error}")
            yield image_id
