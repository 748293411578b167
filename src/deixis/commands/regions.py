"""``deixis regions``: regions of one photograph and their classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from deixis.commands.console import (
    AsJson,
    Backbone,
    Boxes,
    Device,
    Proposals,
    Quiet,
    print_json,
    stderr_console,
    stdout_console,
)
from deixis.errors import UsageError
from deixis.images import load_image
from deixis.show.drawing import save_drawing
from deixis.show.regions import draw_regions, regions_json, regions_table, select_regions
from deixis.vision.fill import build_extractor


def regions(
    photo: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")],
    draw: Path | None = None,
    top: int = 12,
    proposals: Proposals = "selective-search",
    boxes: Boxes = 100,
    backbone: Backbone = "efficientnet-lite2",
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Extract the regions of one photograph and show their classes.

    For example: deixis regions photo.jpg --draw regions.png

    Args:
        photo: the photograph.
        draw: write the photograph with the selected regions drawn on it (.png, .svg, .jpg, ...).
        top: maximum number of regions to draw and list, with probable classes and little overlap; --json has all.
        as_json: write all regions to stdout as JSON.
    """
    if top < 1:
        raise UsageError("--top must be at least 1.")
    console = stderr_console(quiet)
    image = load_image(photo)
    with console.status("loading the extractor"):
        extractor = build_extractor(backbone, proposals, boxes, grid=0, device=device)
    with console.status(f"extracting regions of {photo}"):
        found = extractor.extract(image, image_id=photo.stem)
    shown = select_regions(found, top)
    if draw is not None:
        save_drawing(draw_regions(image, found, shown), draw)
    if as_json:
        print_json(regions_json(found, str(photo)), indent=None)
    else:
        console.print(f"{photo}: {len(shown)} of {len(found)} regions of {found.extractor}", markup=False)
        stdout_console(quiet).print(regions_table(found, shown))
    if draw is not None:
        console.print(f"drawn: {draw}", markup=False)
    return 0
