"""Phrase grounders on made scenes with partial proposals: what each ingredient of ReIR's Table 2 adds.

    python experiments/scenes/grounders.py --work path/to/folder

trains every row with every seed, scores it on the test split, and writes ``grounders.jsonl`` (one line a run: recipe,
scores with their signatures, log) and the table in ``grounders.md``. What has its line is not done again, and a run
that was stopped goes on. ``--rows`` and ``--seeds`` choose a share of the work.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from kept import HERE, between_marks, cell, keep, markdown, options, read, read_log, signed, undone
from material import Scenes, scenes
from rich.console import Console

from deixis.commands.training_progress import TrainingProgress
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.recipes import REIR_RECIPES, ReirRecipe
from deixis.methods.reir.train import Validation
from deixis.metrics.phrases import FLICKR30K, baselines, phrase_scores
from deixis.model_folder import read_supervision
from deixis.runs.run import run_recipe
from deixis.training.recipe import Phase, Schedule
from deixis.types import Place

TRAINING, VALIDATION, TEST = 500, 60, 200
EPOCHS = 8
ROWS: dict[str, tuple[str, Place]] = {  # row -> (recipe, which region is the answer); WIDE is added to some of them
    "baseline, best region": ("reir-baseline-small", "attention"),
    "TSD, STR, VOGN and RC, best region": ("reir-small", "attention"),
    "baseline": ("reir-baseline-small", "vote"),
    "TSD": ("reir-two-stages-small", "vote"),
    "TSD, STR without the phrase": ("reir-region-regression-small", "vote"),
    "TSD, STR": ("reir-regression-small", "vote"),
    "TSD, VOGN and RC": ("reir-graph-small", "vote"),
    "TSD, STR, VOGN without attention and RC": ("reir-uniform-graph-small", "vote"),
    "TSD, STR, VOGN and RC": ("reir-small", "vote"),
    "TSD, STR without the phrase, wide": ("reir-region-regression-small", "vote"),
    "TSD, STR, wide": ("reir-regression-small", "vote"),
    "TSD, STR, VOGN and RC, wide": ("reir-small", "vote"),
}
WIDE = {"threshold": 0.3, "weight": 1.0}  # boxes learn from a box that they share less with (.6 and .1 in the paper)
MEASURES = ("accuracy", "mean_iou", "pointing")


def recipe(row: str, seed: int) -> ReirRecipe:
    """The row's recipe with a network of a size for scenes; regions have no names there, and captions vary little."""
    name, place = ROWS[row]
    found = REIR_RECIPES[name]
    sizes = {"words": 64, "width": 128, "hidden": 128, "dropout": 0.1, "whiten": 128}
    return replace(
        found,
        model=replace(found.model, **sizes, names="none", context=False, place=place),
        phases=(Phase(EPOCHS),),
        schedule=Schedule(lr=3e-3, decay=0.85, decay_every=1, clip_norm=1.0),
        # the matching has to be learnt before it can teach
        self_taught=replace(found.self_taught, warmup=0.375, **(WIDE if row.endswith("wide") else {})),
        seed=seed,
    )


def run(row: str, seed: int, made: Scenes, work: Path, talk: Console) -> dict[str, Any]:
    """Train and score one row with one seed; the line to keep."""
    chosen = recipe(row, seed)
    folder = work / "grounders" / f"{re.sub('[^a-z]+', '-', row.lower())}-{seed}"
    began = time.process_time()
    with TrainingProgress(talk, f"{row}, seed {seed}") as progress:
        run_recipe(chosen, made.material, folder, progress.callbacks())
    seconds = time.process_time() - began
    test = Validation(replace(made.material, validation=made.test.samples))
    scores = phrase_scores(test.references, test.answers(ReirGrounder.from_pretrained(folder)), FLICKR30K, split="test")
    kept = {score.name: score for score in scores if score.name in MEASURES}
    return {
        "row": row,
        "seed": seed,
        "seconds": round(seconds),
        "supervision": read_supervision(folder),
        "scores": {name: round(score.value, 5) for name, score in kept.items()},
        "signatures": {name: score.signature for name, score in kept.items()},
        "phrases": len(test.references),
        "recipe": chosen.to_json(),
        "log": read_log(folder),
    }


def table(lines: Sequence[Mapping[str, Any]], made: Scenes) -> str:
    """Mean ± standard deviation over the seeds of each row, in per cent, below what needs no learning."""
    references = Validation(replace(made.material, validation=made.test.samples)).references
    proposals = {sample.image_id: made.regions[sample.image_id].boxes for sample in made.test}
    known = {score.name: 100 * score.value for score in baselines(references, FLICKR30K, proposals, split="test")}
    found: list[Sequence[object]] = [
        ("best proposal every time", "-", f"{known['bound_best_proposal']:.1f}", "-", "-"),
        ("the whole picture", "-", f"{known['baseline_whole_image']:.1f}", "-", "-"),
        ("always the picture's centre", "-", "-", "-", f"{known['baseline_image_centre']:.1f}"),
    ]
    for row in ROWS:
        runs = [line for line in lines if line["row"] == row]
        if runs:
            cells = [cell([100 * one["scores"][name] for one in runs]) for name in MEASURES]
            found.append([row, len(runs), *cells])
    head = ("", "seeds", "accuracy at IoU .5", "mean IoU", "pointing")
    marks = [mark for line in lines for mark in line["signatures"].values()]
    seconds = statistics.mean(line["seconds"] for line in lines)
    taught = sorted({line["supervision"] for line in lines})
    note = (
        f"Supervision: {'; '.join(taught)}. {lines[0]['phrases']} phrases. {seconds:.0f} CPU seconds a run on average."
    )
    return "\n\n".join([markdown(head, found), note, signed(marks)])


def main() -> None:
    """Do what is not done yet."""
    chosen = options("Compare phrase grounders on made scenes.", list(ROWS))
    torch.set_num_threads(1)
    talk = Console(stderr=True, highlight=False)
    kept = HERE / "grounders.jsonl"
    made = scenes(chosen.work, TRAINING, VALIDATION, TEST, talk)
    for row, seed in undone(kept, chosen.rows, chosen.seeds):
        line = run(row, seed, made, chosen.work, talk)
        keep(kept, line)
        talk.print(f"{row}, seed {seed}: {line['scores']}, {line['seconds']} s", markup=False)
        between_marks(HERE / "grounders.md", table(read(kept), made))


if __name__ == "__main__":
    main()
