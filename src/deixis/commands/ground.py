"""``deixis ground``: where phrases are in a photograph, and which of them are not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from PIL import Image
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from deixis.commands.console import stdout_console
from deixis.errors import UsageError
from deixis.images import load_image
from deixis.pipelines.checked import DOUBT
from deixis.pipelines.load import FINDER, load_finder
from deixis.types import Grounding

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def ground(
    photo: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")],
    phrases: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHRASE ...")] = (),
    *,
    model: str = FINDER,
    caption: str = "",
    draw: Path | None = None,
    heat: Path | None = None,
    least: float = 0.0,
    device: str = "auto",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Find phrases in a photograph: a box for each, and a score that tells whether it is there at all.

    For example: deixis ground photo.jpg "a man in a blue shirt" "a dog" --draw found.png

    Args:
        photo: the photograph.
        phrases: what to look for, each by itself.
        model: a name of the package or the folder of a trained model that finds phrases (see deixis models).
        caption: a sentence instead of phrases; its phrases are found, and their relations help.
        draw: write the photograph with the boxes drawn on it (.png, .svg, .jpg, ...).
        heat: write a sheet with the heat map of each phrase, where the model makes heat maps.
        least: leave out phrases with a score below this; from .5 on they are more likely there than not.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        as_json: write a line of JSON for each phrase to stdout.
        quiet: no progress and no notes.
    """
    if bool(phrases) == bool(caption.strip()):
        raise UsageError("say what to look for: phrases behind the photograph, or --caption with a sentence.")
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    image = load_image(photo)
    with talk.status("loading the model"):
        finder = load_finder(model, device)
    with talk.status(f"looking at {photo}"):
        found = finder.ground(image, caption or list(phrases))
    kept = [one for one in found if one.score >= least]
    if draw is not None:
        _draw(image, kept, draw)
    if heat is not None:
        _heat(image, kept, heat)
    if as_json:
        for one in kept:
            print(json.dumps({"image": str(photo), **one.to_phrase_json(finder.name)}, ensure_ascii=False))
    elif kept:
        stdout_console().print(_table(kept))
    if len(kept) < len(found):
        talk.print(f"left out, with a score below {least:g}: {_listed(found, least)}", markup=False)
    for file in (draw, heat):
        if file is not None:
            talk.print(f"drawn: {file}", markup=False)
    return 0


def _listed(found: Sequence[Grounding], least: float) -> str:
    return ", ".join(f"{one.text} ({one.score:.2f})" for one in found if one.score < least)


def _draw(image: Image.Image, found: Sequence[Grounding], draw: Path) -> None:
    from deixis.show.draw import Mark, colour, draw_boxes
    from deixis.show.drawing import save_drawing

    marks = [Mark.of(one, colour(i), f"{one.text} {one.score:.0%}") for i, one in enumerate(found)]
    save_drawing(draw_boxes(image, marks), draw)


def _heat(image: Image.Image, found: Sequence[Grounding], file: Path) -> None:
    from deixis.show.drawing import save_drawing
    from deixis.show.heat import heat_sheet

    save_drawing(heat_sheet(image, found), file)


def _table(found: Sequence[Grounding]) -> Table:
    numbers = (Column(name, justify="right", no_wrap=True) for name in ("score", "x1", "y1", "x2", "y2"))
    table = Table(Column("phrase", min_width=8), *numbers, "", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for one in found:
        doubt = "" if one.score >= DOUBT else "perhaps not there"
        table.add_row(escape(one.text), f"{one.score:.2f}", *(f"{x:.0f}" for x in one.box), doubt)
    return table
