"""``deixis demo``: the whole way from pictures with captions to a grounded caption, in about a minute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import track

from deixis.recipes import Phase, Recipe, Schedule, find
from deixis.types import GroundedCaption

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

TRAINING, VALIDATION, SHOWN = 300, 20, 6
BOXES = 50
BACKBONE = "efficientnet-lite2@288"  # the pictures are small


def demo(
    out: Path = Path("demo"),
    seed: int = 0,
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Make pictures with captions, learn from them without a single box, and caption a picture not seen before.

    The pictures are drawn by code. From there on it is what you would do with your own: features, training, captions.
    What was made once is kept in the folder's work/, so that the second time is quick.

    For example: deixis demo --out demo

    Args:
        out: where the picture, the page and the work go.
        seed: of the pictures and the training.
        as_json: write the captions to stdout as JSON lines instead of a sentence.
        quiet: no progress.
    """
    import torch

    from deixis.commands.features import features
    from deixis.commands.train import Bar
    from deixis.data.scenes import make_scene
    from deixis.models.captioner import Captioner
    from deixis.show.draw import draw_caption
    from deixis.show.page import caption_page
    from deixis.training.run import Material, run_recipe
    from deixis.vision.store import FeatureStore

    talk = Console(stderr=True, quiet=quiet, highlight=False)
    work = out / "work" / f"seed-{seed}"
    scenes, store, model = work / "scenes", work / "features.store", work / "model"
    talk.print(f"1. {TRAINING} pictures with five captions each, drawn by code: {scenes}")
    write_scenes(scenes, seed, quiet)
    talk.print(f"2. what the machine sees in them, no box given: {store}")
    features(scenes, store, boxes=BOXES, backbone=BACKBONE, quiet=quiet)
    talk.print(f"3. a small captioner learns from pictures and captions alone: {model}")
    torch.set_num_threads(1)  # the network is small: a second thread would wait more than it helps
    with Bar(talk, "training") as bar:
        run_recipe(recipe(seed), Material.from_folder(scenes, FeatureStore(store)), model, bar.talk())
    talk.print("4. pictures that it has not seen")
    captioner = Captioner.from_pretrained(model)
    unseen = [make_scene(seed, index, split="test").open() for index in range(SHOWN)]
    captions = [replace(c, image=f"scene {i}") for i, c in enumerate(captioner.caption(list(unseen)))]
    draw_caption(unseen[0], captions[0]).save(out / "caption.png")
    note = "Learnt from pictures with captions, without a box. Hover or tab to a word to see where it points."
    page = caption_page("Deixis: words tied to pixels", list(zip(unseen, captions, strict=True)), note)
    (out / "index.html").write_text(page, encoding="utf-8")
    tell(captions, as_json)
    talk.print(f"\npicture: {out / 'caption.png'}   page: {out / 'index.html'}")
    return 0


def recipe(seed: int) -> Recipe:
    """Up-Down, small enough for a minute."""
    found = find("updown-small")
    model = replace(found.model, words=128, hidden=192, attention=96, dropout=0.1)
    schedule = Schedule(rate=2e-3, decay=0.9, every=1, clip=1.0)
    return replace(
        found, name="demo", model=model, phases=(Phase(epochs=18),), schedule=schedule, images=8, minimum=2, seed=seed
    )


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


def write_scenes(folder: Path, seed: int, quiet: bool) -> None:
    """Made pictures as a folder of one's own would be: images and captions.jsonl. The captions file comes last."""
    from deixis.data.scenes import make_scene

    captions = folder / "captions.jsonl"
    if captions.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [("train", i) for i in range(TRAINING)] + [("val", i) for i in range(VALIDATION)]
    lines = []
    talk = Console(stderr=True, quiet=quiet)
    for split, index in track(wanted, "drawing", console=talk, transient=True, disable=not talk.is_terminal):
        sample = make_scene(seed, index, split=split)
        name = f"{split}-{index:04}.png"
        sample.open().save(folder / name)
        lines += [json.dumps({"image": name, "caption": c.text, "split": split}) for c in sample.captions]
    captions.write_text("\n".join(lines) + "\n", encoding="utf-8")
