"""``deixis demo``: from made pictures to a grounded caption of one that was not seen, in a minute or two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
import tyro
from rich.console import Console
from rich.progress import track

from deixis.data import Sample
from deixis.recipes import CAPTIONERS, CaptionerRecipe, Phase, Schedule
from deixis.recipes.captioners import Supervision
from deixis.types import GroundedCaption, Regions

if TYPE_CHECKING:
    from deixis.vision.extractor import Extractor

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

TRAINING, VALIDATION, SHOWN = 500, 100, 6
SHORT = 11  # words: longer captions are left out, so that a minute is enough
NOTE = (
    "A captioner that learnt for a minute, from made pictures with captions and the boxes of their things; these "
    "pictures it has not seen. Hover or tab to a word to see where it points."
)


def demo(
    out: Path = Path("demo"),
    seed: int = 0,
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Train a small grounded captioner on pictures made by code, and caption a picture it has not seen.

    The regions it looks at are the true boxes of the things in a picture, and it is told which of them each noun
    means: a minute is too short to find that out from captions alone, as the recipes without boxes do on real data.
    The trained captioner is kept in the folder's work/, so that the second time is quick.

    For example: deixis demo --out demo

    Args:
        out: where the picture, the page and the trained captioner go.
        seed: of the pictures and the training.
        as_json: write the captions to stdout as JSON lines instead of a sentence.
        quiet: no progress.
    """
    import torch

    from deixis.data.scenes import make_scenes
    from deixis.models.captioner import Captioner
    from deixis.show.draw import draw_caption
    from deixis.show.drawing import save_drawing
    from deixis.show.page import Shown, caption_page
    from deixis.vision.extractor import named_extractor

    talk = Console(stderr=True, quiet=quiet, highlight=False)
    eyes = named_extractor("efficientnet-lite2@288", "grid")  # the pictures are small, and their boxes are given
    model = out / "work" / f"seed-{seed}"
    if not (model / "done").exists():
        scenes = {split: make_scenes(n, seed, split) for split, n in (("train", TRAINING), ("val", VALIDATION))}
        talk.print(f"1. {TRAINING} pictures with captions, drawn by code; what the machine sees in them:")
        every = [sample for split in scenes.values() for sample in split]
        bar = track(every, "looking", console=talk, transient=True, disable=not talk.is_terminal)
        regions = {sample.image_id: look(eyes, sample) for sample in bar}
        talk.print(f"2. a small captioner learns: {model}")
        torch.set_num_threads(1)  # the network is small: a second thread would wait more than it helps
        learn(recipe(seed), scenes["train"], scenes["val"], regions, eyes, model, talk)
        (model / "done").touch()
    talk.print("3. pictures that it has not seen:")
    captioner = Captioner.from_pretrained(model)
    unseen = make_scenes(SHOWN, seed, "test")
    captions = list(captioner.captions([look(eyes, sample) for sample in unseen], [s.image_id for s in unseen]))
    pictures = [sample.open() for sample in unseen]
    save_drawing(draw_caption(pictures[0], captions[0]), out / "caption.png")
    page = caption_page("Deixis: words tied to pixels", {"": list(map(Shown, pictures, captions))}, NOTE)
    (out / "index.html").write_text(page, encoding="utf-8")
    tell(captions, as_json)
    talk.print(f"\npicture: {out / 'caption.png'}   page: {out / 'index.html'}")
    return 0


def look(eyes: Extractor, sample: Sample) -> Regions:
    """The whole picture, its things and what people wear as regions."""
    return eyes.extract(sample.open(), boxes=things(sample))


def things(sample: Sample) -> npt.NDArray[np.float64]:
    """Boxes ``[N, 4]``: the whole picture first, then every thing and every piece of clothing."""
    width, height = sample.image_size()
    kept = [entity.boxes for entity in sample.entities if "." not in entity.id or "clothing" in entity.types]
    return np.concatenate([[[0, 0, width, height]], *(boxes for boxes in kept if len(boxes))])


def recipe(seed: int) -> CaptionerRecipe:
    """Up-Down with supervised attention, small enough for a minute."""
    found = CAPTIONERS["supervised-small"]
    model = replace(found.model, words=128, hidden=192, attention=96, dropout=0.1, location=16)
    return replace(
        found,
        name="demo",
        model=model,
        phases=(Phase(epochs=13, objective="supervised"),),
        schedule=Schedule(rate=3e-3, decay=0.8, every=1, clip=1.0),
        boxes=Supervision(attention=0.5),
        images=12,
        minimum=2,
        max_words=SHORT,
        seed=seed,
    )


def learn(
    recipe: CaptionerRecipe,
    training: Sequence[Sample],
    validation: Sequence[Sample],
    regions: dict[str, Regions],
    eyes: Extractor,
    model: Path,
    talk: Console,
) -> None:
    """Train on the short captions."""
    from deixis.commands.train import Bar
    from deixis.training.run import Material, run_recipe

    extractor = {"name": eyes.name, "description": eyes.describe()}
    material = Material(short(training), short(validation), regions, extractor, "scenes")
    with Bar(talk, "training") as bar:
        run_recipe(recipe, material, model, bar.talk())


def short(samples: Sequence[Sample]) -> list[Sample]:
    """The samples with their short captions only."""
    kept = [replace(s, captions=tuple(c for c in s.captions if len(c.tokens) <= SHORT)) for s in samples]
    return [sample for sample in kept if sample.captions]


def tell(captions: Sequence[GroundedCaption], as_json: bool) -> None:
    """The captions as JSON lines, or the first one as a sentence with its boxes."""
    if as_json:
        for caption in captions:
            print(json.dumps(caption.to_json()))
        return
    first = captions[0]
    print(f"\n{first.caption}")
    for grounding in first.groundings:
        x1, y1, x2, y2 = (round(number) for number in grounding.box)
        print(f"  {grounding.text:<12} box {x1:>3}, {y1:>3}, {x2:>3}, {y2:>3}   attention {grounding.score:.2f}")
