"""Display of regions: selection, picture, table and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image
from rich.table import Column, Table

from deixis import boxes as geometry
from deixis.show.draw import Mark, colour, draw_boxes
from deixis.show.drawing import Drawing
from deixis.types import Json, Regions

MAX_IOU = 0.45  # with a better region; more overlap would be hard to distinguish
MAX_INSIDE = 0.4  # share of the smaller box inside another region of the same class
MIN_PROB = 0.1  # of the best class
MAX_AREA = 0.9  # share of the image; larger regions are the image itself


def select_regions(regions: Regions, count: int) -> list[int]:
    """Select at most ``count`` regions to show: probable class, little overlap, no duplicates of one class.

    Regions are ordered by p(class) * area^0.25: a part of an object often has the same probability as the whole, and
    the whole is preferred. The most probable region is returned if no region qualifies.
    """
    areas = geometry.area(regions.boxes)
    fraction = areas / (regions.size[0] * regions.size[1])
    prob = np.ones(len(regions)) if regions.labels is None else regions.labels.probs[:, 0].astype(np.float64)
    order = np.where((prob >= MIN_PROB) & (fraction < MAX_AREA), prob * fraction**0.25, 0)
    shared = geometry.intersection(regions.boxes, regions.boxes)
    inside = shared / np.maximum(np.minimum(areas[:, None], areas[None, :]), 1e-9)
    kept: list[int] = []
    for i in map(int, geometry.nms(regions.boxes, order, MAX_IOU)):
        repeated = any(inside[i, j] > MAX_INSIDE and _best(regions, i)[0] == _best(regions, j)[0] for j in kept)
        if order[i] > 0 and not repeated:
            kept.append(i)
    return kept[:count] or [int(np.argmax(prob))]


def draw_regions(image: Image.Image, regions: Regions, shown: Sequence[int]) -> Drawing:
    """Draw the regions with these indices, with class and probability."""
    marks = []
    for number, i in enumerate(shown):
        x1, y1, x2, y2 = (float(x) for x in regions.boxes[i])
        name, prob = _best(regions, i)
        marks.append(Mark((x1, y1, x2, y2), f"{name} {prob:.0%}" if name else "", colour(number), score=prob))
    return draw_boxes(image, marks)


def regions_table(regions: Regions, shown: Sequence[int]) -> Table:
    """Class, probability and box of the regions with these indices."""
    numbers = (Column(name, justify="right", no_wrap=True) for name in ("prob", "x1", "y1", "x2", "y2"))
    table = Table("class", *numbers, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i in shown:
        name, prob = _best(regions, i)
        table.add_row(name, "" if regions.labels is None else f"{prob:.2f}", *(f"{x:.0f}" for x in regions.boxes[i]))
    return table


def regions_json(regions: Regions, image: str) -> Json:
    """All regions of an image, best proposal first."""
    entries = []
    for i in range(len(regions)):
        entry: Json = {"box": [round(float(x), 2) for x in regions.boxes[i]]}
        if regions.scores is not None:
            entry["score"] = float(regions.scores[i])
        if regions.labels is not None:
            names = [regions.labels.names[int(k)] for k in regions.labels.ids[i]]
            labels = [
                {"label": name, "prob": round(float(p), 6)}
                for name, p in zip(names, regions.labels.probs[i], strict=True)
            ]
            entry |= {**labels[0], "labels": labels}
        entries.append(entry)
    width, height = regions.size
    return {"image": image, "width": width, "height": height, "extractor": regions.extractor, "regions": entries}


def _best(regions: Regions, i: int) -> tuple[str, float]:
    """The most probable class of a region; no name and probability 1 without labels."""
    return ("", 1.0) if regions.labels is None else regions.labels.best(i)
