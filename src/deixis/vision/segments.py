"""Place of a segment in its video, added to its regions: a feature store does not have it, the data set does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from deixis.data import Sample
from deixis.types import Regions

Place = tuple[float, float, float, float]


def place_in_video(sample: Sample) -> Place | None:
    """Return number, count, start and end / duration of a segment; None where the data set does not give them."""
    segment = sample.segment
    if segment is None or math.isinf(segment.duration) or math.isinf(segment.end):
        return None
    start, end = segment.start / segment.duration, segment.end / segment.duration
    return float(segment.number), float(segment.count), start, end


class SegmentRegions(Mapping[str, Regions]):
    """Regions of a store with the places of their segments."""

    def __init__(self, store: Mapping[str, Regions], places: Mapping[str, Place]) -> None:
        self._store, self._places = store, places

    def __getitem__(self, image_id: str) -> Regions:
        found = self._store[image_id]
        place = self._places.get(image_id)
        return found if place is None else replace(found, segment=place)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store)

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, image_id: object) -> bool:
        return image_id in self._store


def with_segments(store: Mapping[str, Regions], samples: Iterable[Sample]) -> Mapping[str, Regions]:
    """Return the store with the places of the samples' segments; the store itself where there are none."""
    places = {sample.image_id: place for sample in samples if (place := place_in_video(sample)) is not None}
    return SegmentRegions(store, places) if places else store
