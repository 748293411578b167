"""``deixis regions``: what the machine sees in one photograph, before any model has read a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from PIL import Image
from rich.console import Console
from rich.table import Column, Table

from deixis import boxes as geometry
from deixis.commands.answers import answers
from deixis.errors import UsageError
from deixis.images import load_image
from deixis.types import Box, Json, Regions

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

OVERLAP = 0.45
"""Regions that overlap more than this (IoU) with a better one are not shown: a reader can tell the rest apart."""
INSIDE = 0.4
"""Nor is a region that lies so far inside one with the same class name, or holds it: it says nothing new."""
SURE = 0.1
"""Nor one whose best class is less probable than this."""
WHOLE = 0.9
"""Regions that cover more of the image than this stand for the image itself."""


def regions(
    photo: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")],
    draw: Path | None = None,
    top: int = 12,
    proposals: str = "selective-search",
    boxes: int = 100,
    backbone: str = "efficientnet-lite2",
    device: str = "auto",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """See what the machine sees in one photograph: its regions, with the names of their classes.

    For example: deixis regions photo.jpg --draw regions.png

    Args:
        photo: the photograph.
        draw: write the photograph with its clearest regions drawn on it (.png, .svg, .jpg, ...).
        top: how many regions to draw and list, the clearest that overlap little; --json gives all.
        proposals: where boxes come from (see deixis proposals).
        boxes: at most this many boxes, the whole image among them.
        backbone: efficientnet-lite2, or timm-MODEL where timm is installed.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        as_json: write every region to stdout as JSON.
        quiet: no table.
    """
    if top < 1:
        raise UsageError("--top must be at least 1.")
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    image = load_image(photo)
    with talk.status("loading the extractor"):
        from deixis.device import choose
        from deixis.vision.extractor import named_extractor

        extractor = named_extractor(backbone, proposals, boxes).to(choose(device))
    with talk.status(f"looking at {photo}"):
        found = extractor.extract(image, image_id=photo.stem)
    shown = clearest(found, top)
    if draw is not None:
        _draw(image, found, shown, draw)
    if as_json:
        print(json.dumps(to_json(found, photo), ensure_ascii=False))
    else:
        talk.print(f"{photo}: the clearest {len(shown)} of {len(found)} regions of {found.extractor}", markup=False)
        answers(quiet).print(_table(found, shown))
    if draw is not None:
        talk.print(f"drawn: {draw}", markup=False)
    return 0


def clearest(found: Regions, count: int) -> list[int]:
    """Indices of the regions worth showing: sure of their class, overlapping little, no name twice in one place.

    A part is often as sure as the whole (a cat's eye is all cat), so of two equally sure regions the larger counts
    for more. The whole image is shown only where there is nothing else.
    """
    areas = geometry.area(found.boxes)
    fraction = areas / (found.size[0] * found.size[1])
    sureness = np.ones(len(found)) if found.labels is None else found.labels.probs[:, 0].astype(np.float64)
    worth = np.where((sureness >= SURE) & (fraction < WHOLE), sureness * fraction**0.25, 0)
    shared = geometry.intersection(found.boxes, found.boxes)
    inside = shared / np.maximum(np.minimum(areas[:, None], areas[None, :]), 1e-9)
    kept: list[int] = []
    for i in map(int, geometry.nms(found.boxes, worth, OVERLAP)):
        if worth[i] > 0 and not any(inside[i, j] > INSIDE and _name(found, i) == _name(found, j) for j in kept):
            kept.append(i)
    return kept[:count] or [int(np.argmax(sureness))]


def to_json(found: Regions, photo: Path) -> Json:
    """Every region, best proposal first."""
    entries = []
    for i in range(len(found)):
        entry: Json = {"box": [round(float(x), 2) for x in found.boxes[i]]}
        if found.scores is not None:
            entry["score"] = float(found.scores[i])
        if found.labels is not None:
            names = [found.labels.names[int(k)] for k in found.labels.ids[i]]
            labels = [
                {"label": name, "prob": round(float(p), 6)}
                for name, p in zip(names, found.labels.probs[i], strict=True)
            ]
            entry |= {**labels[0], "labels": labels}
        entries.append(entry)
    width, height = found.size
    return {"image": str(photo), "width": width, "height": height, "extractor": found.extractor, "regions": entries}


def _name(found: Regions, i: int) -> str:
    return "" if found.labels is None else found.labels.best(i)[0]


def _draw(image: Image.Image, found: Regions, shown: list[int], draw: Path) -> None:
    from deixis.show.draw import Mark, colour, draw_boxes
    from deixis.show.drawing import save_drawing

    marks = []
    for number, i in enumerate(shown):
        x1, y1, x2, y2 = (float(x) for x in found.boxes[i])
        box: Box = (x1, y1, x2, y2)
        name, sure = ("", 1.0) if found.labels is None else found.labels.best(i)
        marks.append(Mark(box, f"{name} {sure:.0%}" if name else "", colour(number), sure=sure))
    save_drawing(draw_boxes(image, marks), draw)


def _table(found: Regions, shown: list[int]) -> Table:
    numbers = (Column(name, justify="right", no_wrap=True) for name in ("prob", "x1", "y1", "x2", "y2"))
    table = Table("class", *numbers, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i in shown:
        name, prob = ("", "") if found.labels is None else (_name(found, i), f"{found.labels.best(i)[1]:.2f}")
        table.add_row(name, prob, *(f"{x:.0f}" for x in found.boxes[i]))
    return table
