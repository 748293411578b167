"""Fusion models on made scenes: how well they point after pairs alone, and after attention map consistency on boxes.

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from kept import HERE, between_marks, cell, keep, markdown, options, read, read_log, signed, undone
from rich.console import Console
from rich.progress import track

from deixis.commands.train import Bar
from deixis.data import Dataset, Sample
from deixis.data.scenes import make_scenes
from deixis.metrics.phrases import PhraseReference, baselines, phrase_scores
from deixis.metrics.references import phrase_references
from deixis.models.pointer import Pointer
from deixis.objectives.momentum import MomentumConfig
from deixis.recipes import FUSIONS, FusionRecipe, Phase, Schedule
from deixis.training.run import Given, Material, run_recipe
from deixis.types import Grounding
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, FeatureStore, StoreWriter

TRAINING, VALIDATION, TEST = 900, 60, 300
EPOCHS = (14, 4)  # of pairs, then of boxes
ROWS = {
    "ALBEF, pairs only": "albef-small",
    "+ L_mean": "amc-mean-small",
    "+ L_max": "amc-max-small",
    "+ cosine": "amc-cosine-small",
    "+ AMC (L_mean and L_max)": "amc-small",
}
FIRST = next(iter(ROWS))


def recipe(row: str, seed: int) -> FusionRecipe:
    """The row's recipe with a network of a size for scenes, whose language is small: fresh word pieces, width 128."""
    found = FUSIONS[ROWS[row]]
    sizes = {"hidden": 128, "heads": 4, "feed": 256, "text_layers": 2, "fusion_layers": 2, "positions": 32}
    image = {"image_hidden": 128, "image_heads": 4, "image_feed": 256, "image_layers": 1, "shared": 64, "map_layer": 0}
    pairs, boxes = EPOCHS
    return replace(
        found,
        model=replace(found.model, **sizes, **image),
        phases=(Phase(pairs, "albef"),) if row == FIRST else (Phase(boxes, "amc"),),
        schedule=Schedule(rate=1e-3, decay=0.9, every=1, clip=1.0),
        images=32,
        text="fresh",
        minimum=2,
        momentum=MomentumConfig(queue=512, soft=0.2),
        select="R@1" if row == FIRST else "pointing",
        seed=seed,
    )


@dataclass(frozen=True, eq=False)
class Scenes:
    """Three splits, and the grids of all their pictures."""

    training: Dataset
    validation: Dataset
    test: Dataset
    regions: FeatureStore

    def material(self) -> Material:
        """What recipes are trained on."""
        extractor = {"name": self.regions.extractor, "description": self.regions.contents.description}
        return Material(self.training.samples, self.validation.samples, self.regions, extractor, "scenes")


def scenes(work: Path, talk: Console) -> Scenes:
    """The first pictures of each split and their feature grids, which are kept in ``work``."""
    with talk.status("drawing scenes"):
        counts = (("train", TRAINING), ("val", VALIDATION), ("test", TEST))
        splits = [make_scenes(count, 0, name) for name, count in counts]
    eyes = named_extractor("efficientnet-lite2@288", "grid", grid=10)
    path = work / "grids.store"
    with StoreWriter(path, Contents(eyes.name, eyes.describe(), {"grid": eyes.grid})) as writer:
        missing = [s for dataset in splits for s in dataset if s.image_id not in writer.image_ids]
        for sample in track(missing, "looking", console=talk, transient=True, disable=not talk.is_terminal):
            regions = eyes.extract(sample.open(), image_id=sample.image_id)
            writer.add(sample.image_id, replace(regions, labels=None))
    return Scenes(*splits, FeatureStore(path))


def run(row: str, seed: int, made: Scenes, work: Path, talk: Console) -> dict[str, Any]:
    """Train and score one row with one seed; the line to keep."""
    chosen = recipe(row, seed)
    place = work / "fusions"
    start = None if row == FIRST else place / f"{ROWS[FIRST]}-{seed}"
    folder = place / f"{ROWS[row]}-{seed}"
    began = time.process_time()
    with Bar(talk, f"{row}, seed {seed}") as bar:
        run_recipe(chosen, made.material(), folder, bar.talk(), Given(start=start))
    seconds = time.process_time() - began
    references = phrase_references(made.test)
    scores = phrase_scores(references, answers(Pointer.from_pretrained(folder), made, references), split="test")
    kept = {score.name: score for score in scores if score.name in ("pointing", "accuracy")}
    card = (folder / "README.md").read_text(encoding="utf-8")
    return {
        "row": row,
        "seed": seed,
        "seconds": round(seconds),
        "supervision": re.findall(r"- Supervision: (.*)", card)[0],
        "scores": {name: round(score.value, 5) for name, score in kept.items()},
        "signature": kept["pointing"].signature,
        "phrases": len(references),
        "recipe": chosen.to_json(),
        "log": read_log(folder),
    }


def answers(pointer: Pointer, made: Scenes, references: Sequence[PhraseReference]) -> dict[str, list[Grounding]]:
    """What the pointer says of every phrase of the test split."""
    asked: dict[str, list[PhraseReference]] = {}
    for reference in references:
        asked.setdefault(reference.image, []).append(reference)
    found: dict[str, list[Grounding]] = {}
    for image, several in asked.items():
        places = pointer.ground(made.regions[image], [one.phrase for one in several], box="threshold")
        found |= {one.id: [place] for one, place in zip(several, places, strict=True)}
    return found


def table(lines: Sequence[Mapping[str, Any]], samples: Sequence[Sample]) -> str:
    """Mean ± standard deviation of the pointing game over the seeds of each row, in per cent."""
    references = phrase_references(Dataset("scenes", "test", tuple(samples)))
    centre = next(s for s in baselines(references, split="test") if s.name == "baseline_image_centre")
    found: list[Sequence[object]] = [("always the image's centre", "none", "-", f"{100 * centre.value:.1f}", "-")]
    for row in ROWS:
        runs = [line for line in lines if line["row"] == row]
        if runs:
            pointing = cell([100 * run["scores"]["pointing"] for run in runs])
            seconds = statistics.mean(run["seconds"] for run in runs)
            found.append((row, runs[0]["supervision"], len(runs), pointing, f"{seconds:.0f}"))
    head = ("", "supervision", "seeds", "pointing", "CPU seconds a run")
    return markdown(head, found) + "\n\n" + signed([line["signature"] for line in lines])


def main() -> None:
    """Do what is not done yet."""
    chosen = options("Compare fusion models on made scenes.", list(ROWS))
    torch.set_num_threads(1)
    talk = Console(stderr=True, highlight=False)
    kept = HERE / "fusions.jsonl"
    made = scenes(chosen.work, talk)
    for row, seed in undone(kept, chosen.rows, chosen.seeds):
        line = run(row, seed, made, chosen.work, talk)
        keep(kept, line)
        between_marks(HERE / "fusions.md", table(read(kept), made.test))
        talk.print(f"{row}, seed {seed}: pointing {100 * line['scores']['pointing']:.1f}")
    print(table(read(kept), made.test))


if __name__ == "__main__":
    main()
