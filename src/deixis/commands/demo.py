"""``deixis demo``: three photographs that everybody has, captioned by the model that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import tyro
from PIL import Image
from rich.console import Console

from deixis.commands.caption import show
from deixis.errors import DeixisError
from deixis.pipelines.load import CAPTIONER

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

PHOTOS = ("astronaut", "chelsea", "coffee")
NOTE = (
    "Three photographs from scikit-image, chosen before any model saw them. Hover or tab to a word to see where it "
    "points, or hover a box to see its word."
)


def demo(
    out: Path = Path("demo"),
    model: str = CAPTIONER,
    device: str = "auto",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Caption three photographs that come with scikit-image, and make a picture of each and a page of all.

    For example: deixis demo --out demo

    Args:
        out: where the pictures and the page go.
        model: a name of the package, or the folder of a captioner (see deixis models).
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        as_json: write the captions to stdout as JSON lines instead of sentences.
        quiet: no progress and no notes.
    """
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    photos = {name: photograph(name) for name in PHOTOS}
    with talk.status("loading the model"):
        from deixis.pipelines.caption import load_teller
        from deixis.show.draw import draw_caption
        from deixis.show.drawing import save_drawing
        from deixis.show.page import Shown, caption_page

        teller = load_teller(model, device=device)
        eyes = teller.captioner.eyes
    with talk.status(f"{teller.name} looks at {', '.join(PHOTOS)}"):
        regions = [eyes.look(photo) for photo in photos.values()]
        told = teller.tell(regions, [photo.copy for photo in photos.values()], list(photos))
    try:
        out.mkdir(parents=True, exist_ok=True)
        shown = []
        for one in told:
            caption, photo = one.caption, photos[one.caption.image]
            save_drawing(draw_caption(photo, caption), out / f"{caption.image}.png")
            shown.append(Shown(photo, caption, "" if one.sure else "not sure"))
        page = caption_page("Deixis: words tied to pixels", {"": shown}, NOTE)
        (out / "index.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise DeixisError(f"{out} cannot be written ({error.strerror}); choose another --out.") from None
    for one in told:
        if as_json:
            print(json.dumps(one.to_json(), ensure_ascii=False))
        else:
            show(one, talk, alone=False)
    talk.print(f"pictures: {out}/{{{','.join(PHOTOS)}}}.png   page: {out / 'index.html'}", markup=False)
    return 0


def photograph(name: str) -> Image.Image:
    """A photograph of scikit-image's."""
    try:
        from skimage import data
    except ImportError:
        raise DeixisError(
            "the photographs of the demo come with scikit-image, which is not installed; pip install 'deixis[demo]'."
        ) from None
    return Image.fromarray(getattr(data, name)()).convert("RGB")
