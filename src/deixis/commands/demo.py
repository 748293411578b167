"""``deixis demo``: caption photographs that come with installed packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from PIL import Image

from deixis.commands.console import AsJson, Device, Quiet, print_json, stderr_console
from deixis.errors import DeixisError
from deixis.files import make_folder, write_atomic
from deixis.images import load_image
from deixis.pipelines.models import DEFAULT_CAPTIONER

PHOTOS = {
    "astronaut": ("skimage", "data/astronaut.png"),
    "chelsea": ("skimage", "data/chelsea.png"),
    "coffee": ("skimage", "data/coffee.png"),
    "rocket": ("skimage", "data/rocket.jpg"),
    "motorcycle": ("skimage", "data/motorcycle_left.png"),
    "grace-hopper": ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
}
"""Name of each photograph -> package and file in it."""

NOTE = (
    "Six photographs from scikit-image and matplotlib. Hover over a phrase or select it with the Tab key to see its "
    "box; hover over a box to see its phrase."
)


def demo(
    out: Path = Path("demo"),
    model: str = DEFAULT_CAPTIONER,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Caption six photographs of installed packages; write a picture of each and a page of all.

    For example: deixis demo --out demo

    Args:
        out: folder for the pictures and the page.
        model: captioner, a name of the package or a folder (see deixis models).
        as_json: write the captions to stdout as JSON lines instead of sentences.
    """
    console = stderr_console(quiet)
    photographs = {name: photograph(name) for name in PHOTOS}
    make_folder(out)  # an error before the models are loaded
    with console.status("loading the models"):
        from deixis.pipelines.caption import caption
        from deixis.pipelines.models import load_models
        from deixis.pipelines.output import print_caption, save_picture
        from deixis.pipelines.photo import Photo
        from deixis.show.page import Shown, caption_page

        models = load_models(model, device=device)
    with console.status(f"captioning {', '.join(PHOTOS)}"):
        results = caption([Photo(image, name) for name, image in photographs.items()], models)
    shown = []
    for name, result in zip(photographs, results, strict=True):
        save_picture(result, out / f"{name}.png")
        shown.append(Shown(photographs[name], result.caption, "" if result.confident else "low confidence"))
    write_atomic(out / "index.html", caption_page("Deixis: grounded captions", {"": shown}, NOTE))
    for result in results:
        if as_json:
            print_json(result.to_dict(), indent=None)
        else:
            print_caption(result, console, alone=False, drawn=True)
    console.print(f"pictures: {out}/{{{','.join(PHOTOS)}}}.png   page: {out / 'index.html'}", markup=False)
    return 0


def photograph(name: str) -> Image.Image:
    """Return a photograph of an installed package; the package is not imported."""
    package, inside = PHOTOS[name]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise DeixisError(f"the photograph {name} is part of {package}: pip install 'deixis[demo]'")
    return load_image(Path(spec.origin).parent / inside)
