"""``deixis search``: images of a feature store that match a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.progress import Progress

from deixis.commands.console import AsJson, Device, Quiet, print_json, stderr_console
from deixis.errors import DeixisError, UsageError
from deixis.images import load_image
from deixis.pipelines.load import FINDER, model_folder
from deixis.pipelines.search import Hit, search_store
from deixis.vision.fill import find_jobs
from deixis.vision.store import FeatureStore


def search(
    store: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")],
    sentence: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE")],
    model: Annotated[str, tyro.conf.arg(aliases=["-m"])] = FINDER,
    top: int = 12,
    draw: Path | None = None,
    images: Path | None = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Find the images of a feature store that match a sentence, and ground its noun phrases in them.

    Everything is computed on this machine. Photographs are opened only for --draw.

    For example: deixis search photos.store "two dogs in the snow" --images photos --draw dogs.png

    Args:
        store: feature store of the images (see deixis features).
        sentence: the query.
        model: name of a matcher of the package, or its folder (see deixis train pos-scan-small).
        top: number of images to return.
        draw: write a contact sheet of them (.png, .svg, .jpg, ...); needs --images.
        images: data set or folder that the store was made from.
        as_json: write a line of JSON for each image to stdout.
    """
    if top < 1:
        raise UsageError("--top must be at least 1.")
    if draw is not None and images is None:
        raise UsageError("--draw needs the photographs. Give their folder with --images.")
    features = FeatureStore(store)
    console = stderr_console(quiet)
    from deixis.device import choose
    from deixis.methods.scan.model import ScanGrounder

    grounder = ScanGrounder.from_pretrained(model_folder(model)).to(choose(device))
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("searching", total=len(features))
        hits = search_store(grounder, features, sentence, top, lambda images: progress.advance(task, images))
    if draw is not None and images is not None:
        _draw(hits, sentence, images, draw)
        console.print(f"{draw}: {len(hits)} of {len(features):,} photographs", markup=False)
    for hit in hits:
        if as_json:
            print_json(hit.to_json(), indent=None)
        else:
            places = ", ".join(f"{g.text} [{', '.join(f'{side:.0f}' for side in g.box)}]" for g in hit.groundings)
            print(f"{hit.score:.3f}  {hit.image}  {places}")
    return 0


def _draw(hits: Sequence[Hit], sentence: str, images: Path, out: Path) -> None:
    """Write a contact sheet of the hits."""
    from deixis.show.drawing import save_drawing
    from deixis.show.sheet import contact_sheet, grounding_card

    paths = {job.image_id: job.paths[0] for job in find_jobs(images)}
    missing = next((hit.image for hit in hits if hit.image not in paths), None)
    if missing is not None:
        raise DeixisError(f"{images} has no image {missing}. Give the folder that the store was made from.")
    cards = [
        grounding_card(load_image(paths[hit.image]), hit.groundings, f"{hit.score:.3f}  {hit.image}") for hit in hits
    ]
    save_drawing(contact_sheet(cards, f"“{sentence}”", columns=4), out)
