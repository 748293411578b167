"""``deixis check``: does a caption fit a photograph, and which of its words are doubtful?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.text import Text

from deixis.commands.console import stdout_console
from deixis.images import load_image
from deixis.pipelines.load import FINDER

if TYPE_CHECKING:
    from PIL import Image

    from deixis.pipelines.checked import Checked

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def check(
    photo: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")],
    caption: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CAPTION")],
    *,
    model: str = FINDER,
    draw: Path | None = None,
    device: str = "auto",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Hold a caption against a photograph: a match score for each noun phrase, doubtful ones marked.

    For example: deixis check photo.jpg "a man riding a red bike" --draw checked.png

    Args:
        photo: the photograph.
        caption: a sentence about it, yours or a model's.
        model: a name of the package or the folder of any model that finds phrases (see deixis models).
        draw: write a sheet with the heat map of each noun phrase (.png, .svg, .jpg, ...).
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        as_json: write the result to stdout as JSON.
        quiet: no progress and no notes.
    """
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    image = load_image(photo)
    with talk.status("loading the model"):
        from deixis.pipelines.load import check_caption, load_finder

        finder = load_finder(model, device)
    with talk.status(f"looking at {photo}"):
        checked = check_caption(finder, image, caption)
    if draw is not None:
        _draw(image, checked, draw)
    if as_json:
        print(json.dumps({**checked.to_json(), "image": str(photo)}, ensure_ascii=False))
    else:
        said = stdout_console()
        said.print(_marked(checked), soft_wrap=True)
        for grounding in checked.caption.groundings:
            doubt = "  doubtful" if grounding in checked.doubtful else ""
            said.print(f"  {grounding.score:4.0%}  {grounding.text}{doubt}", markup=False)
        if checked.match is not None:
            said.print(f"  {checked.match:4.0%}  the whole caption", markup=False)
    if draw is not None:
        talk.print(f"drawn: {draw}", markup=False)
    return 0


def _marked(checked: Checked) -> Text:
    """The caption's words; doubtful ones in red between question marks, so that they stand out without colour too."""
    doubtful = {at for grounding in checked.doubtful for at in range(grounding.start, grounding.end)}
    line = Text()
    for at, word in enumerate(checked.caption.words):
        opens, closes = at in doubtful and at - 1 not in doubtful, at in doubtful and at + 1 not in doubtful
        line.append(f"{'?' if opens else ''}{word}{'?' if closes else ''}", "bold red" if at in doubtful else "")
        line.append(" ")
    return line


def _draw(image: Image.Image, checked: Checked, draw: Path) -> None:
    from deixis.show.drawing import save_drawing
    from deixis.show.heat import heat_sheet

    found = checked.caption.groundings
    notes = [f"match {one.score:.0%}{', doubtful' if one in checked.doubtful else ''}" for one in found]
    save_drawing(heat_sheet(image, found, checked.caption.caption, notes), draw)
