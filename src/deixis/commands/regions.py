"""``deixis regions``: extract the regions of one photograph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from deixis.commands.console import (
    AsJson,
    Device,
    Extractor,
    Quiet,
    print_json,
    stderr_console,
    stdout_console,
)
from deixis.errors import DeixisError, UsageError
from deixis.images import load_image
from deixis.pipelines.models import DEFAULT_CAPTIONER
from deixis.show.drawing import save_drawing
from deixis.show.regions import draw_regions, regions_json, regions_table, select_regions
from deixis.vision.fill import build_extractor, build_variant

if TYPE_CHECKING:
    from deixis.vision.extractor import RegionExtractor
    from deixis.vision.grid_extractor import GridExtractor


def regions(
    photo: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")],
    draw: Path | None = None,
    top: int = 12,
    model: str = DEFAULT_CAPTIONER,
    proposals: str | None = None,
    boxes: int | None = None,
    backbone: str | None = None,
    extractor: Extractor | None = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Extract the regions of one photograph and show their classes.

    By default the regions are those of the default captioner. With --extractor, --proposals, --boxes or --backbone they
    come from another extractor.

    For example: deixis regions photo.jpg --draw regions.png

    Args:
        photo: the photograph.
        draw: write the photograph with the selected regions drawn on it (.png, .svg, .jpg, ...).
        top: maximum number of regions to draw and list, with probable classes and little overlap; --json has all.
        model: extract the regions of this model, a name of the package or a folder (see deixis models).
        extractor: extractor instead of the model's (see deixis features).
        proposals: box proposal method instead of the model's (see deixis proposals); by default selective-search.
        boxes: maximum number of boxes, including the whole image; by default 100.
        backbone: backbone instead of the model's: efficientnet-lite2, or timm-MODEL if timm is installed.
        as_json: write all regions to stdout as JSON.
    """
    if top < 1:
        raise UsageError("--top must be at least 1.")
    console = stderr_console(quiet)
    image = load_image(photo)
    with console.status("loading the extractor"):
        made = _build(model, extractor, proposals, boxes, backbone, device)
    with console.status(f"extracting regions of {photo}"):
        found = made.extract(image, image_id=photo.stem)
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


def _build(
    model: str, extractor: str | None, proposals: str | None, boxes: int | None, backbone: str | None, device: str
) -> RegionExtractor | GridExtractor:
    """Return the extractor that the options describe."""
    own = proposals is not None or boxes is not None or backbone is not None
    if extractor in ("v2", "v2-detector"):
        if own:
            raise UsageError(f"--extractor {extractor} has its own proposals, boxes and backbone. Leave these out.")
        return build_variant(extractor, grid=0)
    if extractor is None and not own:
        return _extractor_of(model, device)
    return build_extractor(
        backbone or "efficientnet-lite2", proposals or "selective-search", boxes or 100, grid=0, device=device
    )


def _extractor_of(model: str, device: str) -> RegionExtractor:
    """Return the extractor of a captioner or grounder."""
    from deixis.pipelines.models import load_model

    extractor = load_model(model, device).extractor
    if extractor is None:
        raise DeixisError(f"{model} reads pixels and has no regions. Choose another --model, or give --proposals.")
    return extractor
