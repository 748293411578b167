"""``deixis search``: find the photographs of a feature store that match a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from deixis.commands.console import AsJson, Device, Quiet, print_json, print_line, stderr_console, track
from deixis.errors import DeixisError, UsageError
from deixis.pipelines.models import DEFAULT_GROUNDER

if TYPE_CHECKING:
    from deixis.pipelines.search import Hit


def search(
    store: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")],
    sentence: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE")],
    model: Annotated[str, tyro.conf.arg(aliases=["-m"])] = DEFAULT_GROUNDER,
    top: int = 12,
    draw: Path | None = None,
    images: Path | None = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Find the photographs that match a sentence, and ground its noun phrases in them.

    Photographs are opened only for drawing.

    For example: deixis search photos.store "two dogs in the snow" --images photos --draw dogs.png

    Args:
        store: the photographs' feature store (see deixis features). The default model reads the store of
            deixis features --proposals coco-ssd --grid 12.
        sentence: what to search for.
        model: phrase grounder, a name of the package or a folder (see deixis models).
        top: how many photographs to return.
        draw: write a contact sheet of them (.png, .svg, .jpg).
        images: the data set or folder of the store's photographs; needed for --draw.
        as_json: write the photographs to stdout as JSON, a line each.
    """
    if top < 1:
        raise UsageError("--top must be at least 1.")
    if draw is not None and images is None:
        raise UsageError("--draw needs the photographs. Give their data set or folder with --images.")
    console = stderr_console(quiet)
    with console.status("loading the model"):
        from deixis.pipelines.models import load_grounder
        from deixis.pipelines.search import search as search_store
        from deixis.vision.store import FeatureStore

        features = FeatureStore(store)
        grounder = load_grounder(model, device)
    batches = -(-len(features) // 64)
    hits = search_store(features, sentence, grounder, top, lambda rows: track(rows, batches, console, "batches", True))
    if draw is not None and images is not None:
        _draw(hits, sentence, images, draw)
        console.print(f"{draw}: {len(hits)} of {len(features):,} photographs", markup=False)
    for hit in hits:
        if as_json:
            print_json(hit.to_json(), indent=None)
        else:
            boxes = ", ".join(f"{g.text} [{', '.join(f'{side:.0f}' for side in g.box)}]" for g in hit.groundings)
            print_line(f"{hit.score:.3f}  {hit.image}  {boxes}")
    return 0


def _draw(hits: Sequence[Hit], sentence: str, images: Path, out: Path) -> None:
    """Write a contact sheet of the hits with the boxes of their phrases."""
    from deixis.images import load_image
    from deixis.show.draw import Mark, colour
    from deixis.show.drawing import save_drawing
    from deixis.show.sheet import Card, contact_sheet
    from deixis.vision.fill import find_jobs

    paths = {job.image_id: job.paths[0] for job in find_jobs(images)}
    missing = next((hit.image for hit in hits if hit.image not in paths), None)
    if missing is not None:
        raise DeixisError(f"{images} has no photograph {missing}. Give --images the data set or folder of the store.")
    cards = []
    for hit in hits:
        marks = tuple(Mark.of(grounding, colour(i)) for i, grounding in enumerate(hit.groundings))
        cards.append(Card(load_image(paths[hit.image]), marks, note=f"{hit.score:.3f}  {hit.image}"))
    save_drawing(contact_sheet(cards, f"“{sentence}”", columns=4), out)
