"""AlbefNet models on made scenes: how well they point after pairs alone, and after attention map consistency on boxes.

    python experiments/scenes/fusions.py --work path/to/folder

trains every row with every seed, scores it on the test split, and writes ``fusions.jsonl`` (one line a run: recipe,
scores with their signature, log) and the table in ``fusions.md``. What has its line is not done again, and a run that
was stopped goes on. ``--rows`` and ``--seeds`` choose a share of the work.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept import HERE, between_marks, cell, keep, markdown, options, read, read_log, signed, undone
from material import Scenes, naming_things
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from deixis.commands.training_progress import TrainingProgress
from deixis.data import Dataset
from deixis.data.scenes import make_scenes
from deixis.layers.whitening import fit_whitening
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.momentum import MomentumConfig
from deixis.methods.albef.recipes import ALBEF_RECIPES, AlbefRecipe
from deixis.methods.albef.train import Looking, Validation
from deixis.metrics.phrases import PhraseReference, baselines, phrase_scores
from deixis.metrics.references import phrase_references
from deixis.model_folder import read_supervision
from deixis.runs.run import InitFrom, run_recipe
from deixis.training.data import TrainingData
from deixis.training.recipe import Phase, Schedule
from deixis.types import Grounding
from deixis.vision.extractor import extractor_name, named_extractor
from deixis.vision.store import Contents, FeatureStore, StoreWriter

TRAINING, VALIDATION, TEST = 1800, 120, 300
WIDTH = 128  # of cells and of the whole network
LONG, SHORT = 10, 3  # epochs
ROWS = {  # all but the first begin with what the first has learnt
    "ALBEF": ("albef-small", LONG),
    "+ 3 epochs of pairs": ("albef-small", SHORT),
    "+ 10 epochs of pairs": ("albef-small", LONG),
    "+ L_mean": ("amc-mean-small", SHORT),
    "+ L_max": ("amc-max-small", SHORT),
    "+ cosine": ("amc-cosine-small", SHORT),
    "+ AMC (L_mean and L_max)": ("amc-small", SHORT),
}
FIRST = next(iter(ROWS))
COLUMNS = {"pointing": "pointing", "accuracy": "box at IoU .5", "R@1": "R@1 of pictures"}


def recipe(row: str, seed: int) -> AlbefRecipe:
    """The row's recipe with a network of a size for scenes, whose language is small: fresh word pieces."""
    name, epochs = ROWS[row]
    found = ALBEF_RECIPES[name]
    text = {"hidden": WIDTH, "heads": 4, "feed": 256, "text_layers": 2, "positions": 32}
    image = {"image_hidden": WIDTH, "image_heads": 4, "image_feed": 256, "image_layers": 1, "shared": 64}
    return replace(
        found,
        model=replace(found.model, **text, **image, fusion_layers=2, map_layer=0, map_source="gradcam"),
        phases=(Phase(epochs, "amc" if found.monitor == "pointing" else "albef"),),
        schedule=Schedule(lr=1e-3, decay=0.9 if epochs == LONG else 0.7, decay_every=1, clip_norm=1.0),
        batch_images=16,
        max_words=25,
        align=0.0,
        text="fresh",
        min_count=2,
        # a copy of a network that learns this fast drifts: a queue would be known by its age, not by what it shows
        momentum=MomentumConfig(queue=0, soft=0.0, mask=0.4),
        seed=seed,
    )


def grids(work: Path, talk: Console) -> Scenes:
    """The first pictures of each split with captions that name things, and their feature grids, kept in ``work``."""
    with talk.status("drawing scenes"):
        counts = (("train", TRAINING), ("val", VALIDATION), ("test", TEST))
        splits = [make_scenes(count, 0, name) for name, count in counts]
    eyes = named_extractor("efficientnet-lite2@288", "grid", grid=10)
    path = work / "grids.store"
    with StoreWriter(path, Contents(eyes.name, eyes.description, {"grid": eyes.grid})) as writer:
        missing = [s for dataset in splits for s in dataset if s.image_id not in writer.image_ids]
        for sample in track(missing, "looking", console=talk, transient=True, disable=not talk.is_terminal):
            regions = eyes.extract(sample.open(), image_id=sample.image_id)
            writer.add(sample.image_id, replace(regions, labels=None))
    store = FeatureStore(path)
    made = Scenes(*splits, store, {"name": store.extractor, "description": store.contents.description})
    return narrowed(naming_things(made), WIDTH)


@torch.no_grad()
def narrowed(made: Scenes, width: int) -> Scenes:
    """The same with cells whitened and cut to ``width`` dimensions: the network's own first step, done once for all."""

    def cells(image_id: str) -> Tensor:
        return torch.from_numpy(np.asarray(made.regions[image_id].grid, dtype=np.float32))  # [rows, columns, D]

    some = torch.stack([cells(sample.image_id) for sample in made.training[::6]])
    layer = nn.Linear(some.shape[-1], width)
    fit_whitening(layer, some.flatten(0, 2))
    description = {**made.extractor["description"], "whitened": width}
    name = extractor_name(description)
    images = [s.image_id for dataset in (made.training, made.validation, made.test) for s in dataset]
    regions = {i: replace(made.regions[i], grid=layer(cells(i)).numpy(), extractor=name) for i in images}
    return replace(made, regions=regions, extractor={"name": name, "description": description})


def run(row: str, seed: int, made: Scenes, work: Path, talk: Console) -> dict[str, Any]:
    """Train and score one row with one seed; the line to keep."""
    chosen = recipe(row, seed)
    material = made.material if chosen.monitor == "pointing" else blind(made.material)
    start = None if row == FIRST else place(FIRST, seed, work)
    folder = place(row, seed, work)
    began = time.process_time()
    with TrainingProgress(talk, f"{row}, seed {seed}") as progress:
        run_recipe(chosen, material, folder, progress.callbacks(), InitFrom(model=start))
    seconds = time.process_time() - began
    pointer = AlbefGrounder.from_pretrained(folder)
    references = phrase_references(made.test)
    scores = phrase_scores(references, answers(pointer, made, references), split="test")
    kept = {score.name: score for score in scores if score.name in COLUMNS}
    return {
        "row": row,
        "seed": seed,
        "seconds": round(seconds),
        "supervision": read_supervision(folder),
        "scores": {name: round(score.value, 5) for name, score in kept.items()} | recall(pointer, made),
        "signatures": sorted(score.signature for score in kept.values()),
        "recipe": chosen.to_json(),
        "log": read_log(folder),
    }


def place(row: str, seed: int, work: Path) -> Path:
    """The model's folder."""
    return work / "fusions" / f"{re.sub('[^a-zA-Z0-9]+', '-', row).strip('-').lower()}-{seed}"


def blind(material: TrainingData) -> TrainingData:
    """The same without boxes on validation scenes: none helps to choose an epoch."""
    return replace(material, validation=[replace(sample, entities=()) for sample in material.validation])


def recall(pointer: AlbefGrounder, made: Scenes) -> dict[str, float]:
    """How often the whole test picture nearest to a caption is the caption's own."""
    material = blind(replace(made.material, validation=made.test.samples))
    return Validation(material).scores(pointer, Looking(material, pointer.network.config))


def answers(pointer: AlbefGrounder, made: Scenes, references: Sequence[PhraseReference]) -> dict[str, list[Grounding]]:
    """What the pointer says of every phrase of the test split."""
    asked: dict[str, list[PhraseReference]] = {}
    for reference in references:
        asked.setdefault(reference.image, []).append(reference)
    found: dict[str, list[Grounding]] = {}
    for image, several in asked.items():
        groundings = pointer.ground(made.regions[image], [one.phrase for one in several], box="threshold")
        found |= {one.id: [grounding] for one, grounding in zip(several, groundings, strict=True)}
    return found


def table(lines: Sequence[Mapping[str, Any]], test: Dataset) -> str:
    """Mean ± standard deviation over the seeds of each row, in per cent."""
    references = phrase_references(test)
    centre = next(s for s in baselines(references, split="test") if s.name == "baseline_image_centre")
    chance = 1 / len(test)
    found: list[Sequence[object]] = [
        ("always the picture's centre", "none", "-", f"{100 * centre.value:.1f}", "-", f"{100 * chance:.1f}", "-")
    ]
    for row in ROWS:
        runs = [line for line in lines if line["row"] == row]
        if runs:
            scores = [cell([100 * run["scores"][name] for run in runs]) for name in COLUMNS]
            seconds = statistics.mean(run["seconds"] for run in runs)
            found.append((row, runs[0]["supervision"], len(runs), *scores, f"{seconds:.0f}"))
    head = ("", "supervision", "seeds", *COLUMNS.values(), "CPU seconds a run")
    marks = signed([mark for line in lines for mark in line["signatures"]])
    return "\n\n".join([markdown(head, found), f"{len(references)} phrases.", marks])


def main() -> None:
    """Do what is not done yet."""
    chosen = options("Compare fusion models on made scenes.", list(ROWS))
    torch.set_num_threads(1)
    talk = Console(stderr=True, highlight=False)
    kept = HERE / "fusions.jsonl"
    made = grids(chosen.work, talk)
    for row, seed in undone(kept, chosen.rows, chosen.seeds):
        line = run(row, seed, made, chosen.work, talk)
        keep(kept, line)
        between_marks(HERE / "fusions.md", table(read(kept), made.test))
        talk.print(f"{row}, seed {seed}: pointing {100 * line['scores']['pointing']:.1f}")
    print(table(read(kept), made.test))


if __name__ == "__main__":
    main()
