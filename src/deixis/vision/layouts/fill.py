"""Write imported region features to a feature store, with a feature grid of the photographs if one is asked for."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.photographs import Photographs
from deixis.types import Json, Regions
from deixis.vision.fill import FillReport
from deixis.vision.layouts import open_source
from deixis.vision.layouts.records import ImportOptions, Record, Source
from deixis.vision.store import Contents, FeatureStore, StoreWriter

if TYPE_CHECKING:
    from deixis.vision.backbone import Backbone

IMAGES_PER_SHARD = 64
"""Images per shard; fewer than of our own extractor, because published features are larger."""
VIDEOS_PER_SHARD = 16

Track = Callable[[Iterable[None], int], Iterable[None]]
"""Shows the progress of an iterable with a known number of items."""


@dataclass(frozen=True, eq=False)
class Map:
    """Backbone whose feature map of the photograph becomes the grid, and its mean the image vector."""

    backbone: Backbone
    cells: int  # at most this many per side
    photographs: Photographs
    training_cells: int = 0  # of training images, in a larger input of the same scale; 0: the same number

    def describe(self) -> Json:
        """Return the part of the extractor's description; maps of training images are parts of the same maps."""
        return {"map": self.backbone.describe(), "cells": self.cells}

    def add(self, image_id: str, regions: Regions, training: bool = False) -> Regions:
        """Return the regions with grid and image vector of the photograph."""
        from deixis.vision.map_extractor import image_map

        path = self.photographs.find(image_id)
        if path is None:
            raise DeixisError(f"{self.photographs.folder} has no photograph of {image_id}")
        cells = self.training_cells if training and self.training_cells else self.cells
        grid = image_map(self.backbone, load_image(path), cells, cells / self.cells)
        return replace(regions, grid=grid, image_vector=grid.reshape(-1, grid.shape[-1]).mean(0, dtype=np.float32))


def named_map(backbone: str, cells: int, device: str, options: ImportOptions, layout: str) -> Map | None:
    """Return the map of a backbone by name, or None for 0 cells; imports torch."""
    images, training = options.images, options.training_grid
    if training and (layout != "gvd" or not 0 < cells < training or not backbone.startswith("resnet101")):
        raise DeixisError("--training-grid needs --layout gvd, a smaller --grid and a backbone resnet101:FILE.pth.")
    if not cells:
        return None
    from deixis.device import choose
    from deixis.vision.backbone import by_name

    if images is None:
        raise DeixisError("--grid computes a feature map of the photographs. Give their folder with --images.")
    found = by_name(backbone)
    found.to(choose(device))
    return Map(found, cells, Photographs(images), training)


Open = Callable[[Path, Any, ImportOptions, Path], Source]
"""Opens the files of a layout."""


def import_features(
    path: Path,
    layout: str,
    out: Path,
    options: ImportOptions,
    image_map: Map | None = None,
    limit: int | None = None,
    track: Track = lambda items, _: items,
    notify: Callable[[str], None] = lambda _: None,
    open_files: Open = open_source,
) -> FillReport:
    """Import features into a store; the same call resumes an interrupted import.

    A record that cannot be used is skipped and named in the report and in the store's ``skipped.json``; it is tried
    again by the next call. Memory is bounded by the images of one shard.
    """
    from deixis.vision.descriptions import extractor_name

    started = time.monotonic()
    unpack = out.with_name(f"{out.name}.unpacked")
    source = open_files(path, layout, options, unpack)
    for note in source.notes:
        notify(note)
    description = source.description if image_map is None else source.description | image_map.describe()
    name = source.extractor if image_map is None and source.extractor else extractor_name(description)
    video = int(description.get("proposals", {}).get("limit", 0)) > 500
    contents = Contents(name, description, {"imported": layout, **source.settings})
    skipped: dict[str, str] = {}
    with StoreWriter(out, contents, VIDEOS_PER_SHARD if video else IMAGES_PER_SHARD) as writer:
        if source.head is not None:
            source.head.save(out)
        before = len(writer.image_ids)
        if before:
            notify(f"{before:,} images are already done.")
        total = (source.total if limit is None else min(limit, source.total or limit)) or 0
        items = _write(source, writer, name, image_map, limit, skipped)
        for _ in track(items, max(0, total - before)):
            pass
        added = len(writer.image_ids) - before
    shutil.rmtree(unpack, ignore_errors=True)
    store = FeatureStore(out)
    if not len(store):
        first = next(iter(skipped.items()), ("", "it has no records"))
        raise DeixisError(f"No record of {path} could be used. The first error: {': '.join(filter(None, first))}")
    seconds = round(time.monotonic() - started, 1)
    return FillReport(str(out), store.extractor, len(store), added, skipped, store.bytes, seconds)


def _write(
    source: Source, writer: StoreWriter, name: str, image_map: Map | None, limit: int | None, skipped: dict[str, str]
) -> Iterator[None]:
    """Add the records that the store does not have; yield once for each."""
    done = frozenset(writer.image_ids)
    for number, record in enumerate(source.records(done), start=len(done) + 1):
        if limit is not None and number > limit:
            return
        reason = record.reason or _add(record, writer, name, image_map)
        if reason:
            skipped[record.image_id] = reason
            writer.skip(record.image_id, reason)
        yield


def _add(record: Record, writer: StoreWriter, name: str, image_map: Map | None) -> str:
    """Add one record to the store; return the reason if it cannot be used."""
    assert record.regions is not None
    try:
        regions = replace(record.regions, extractor=name)
        writer.add(
            record.image_id, regions if image_map is None else image_map.add(record.image_id, regions, record.training)
        )
        return ""
    except (DeixisError, ValueError) as error:
        return str(error)
