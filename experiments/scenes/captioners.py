"""Grounded captioners on made scenes with partial proposals: what each method adds to one baseline.

    python experiments/scenes/captioners.py --work path/to/folder

trains every row with every seed, scores it on the test split, and writes ``captioners.jsonl`` (one line a run: recipe,
scores with their signatures, log), the table in ``captioners.md`` and the picture of the branches. What has its line
is not done again, and a run that was stopped goes on. ``--rows`` and ``--seeds`` choose a share of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from kept import HERE, between_marks, cell, keep, markdown, options, read, read_log, signed, undone
from material import Scenes, naming_things, scenes, whitened
from rich.console import Console

from deixis.commands.training_progress import TrainingProgress
from deixis.data import Sample
from deixis.evaluation.evaluate import evaluate_captioner
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder
from deixis.methods.updown.recipes import UPDOWN_RECIPES, SupervisedConfig, UpDownRecipe
from deixis.metrics.evaluate import Options
from deixis.model_folder import read_supervision
from deixis.runs.run import run_recipe
from deixis.show.drawing import Drawing, stack
from deixis.show.panels import draw_branches
from deixis.training.recipe import BOXES, Phase, Schedule

WIDTH = 128  # of the whitened region features
EPOCHS = (3, 3)  # of rows with two phases; the others have their sum
SHOWN = 4  # scenes in the picture of the branches, the first of the test split
COLUMNS = {
    "CIDEr": "CIDEr",
    "F1_all": "F1_all",
    "F1_loc": "F1_loc",
    "attention_accuracy": "attention accuracy",
    "errors_correct": "correct",
    "errors_partial": "partial",
    "errors_other": "enlarged or deviated",
    "errors_hallucinated": "hallucinated",
    "errors_missing": "missing",
}


def rows() -> dict[str, UpDownRecipe]:
    """The recipes of the table: one network, one schedule; each row changes what its method is about."""
    found = UPDOWN_RECIPES["updown-small"]
    both = sum(EPOCHS)
    baseline = replace(
        found,
        model=replace(found.model, words=96, hidden=128, attention=64, dropout=0.1),
        phases=(Phase(epochs=both),),
        schedule=Schedule(lr=3e-3, decay=0.85, decay_every=1, clip_norm=1.0),
        batch_images=8,
        min_count=3,
        max_words=10,
    )
    first, second = EPOCHS
    branches = (Phase(epochs=first, branches=1), Phase(epochs=second))
    four = replace(baseline, model=replace(baseline.model, branches=4), phases=branches)
    copies, all_seen, cyclical_copies = CHANGED
    cyclical = replace(baseline, phases=(Phase(epochs=first), Phase(epochs=second, loss="cycle")))
    return {
        "baseline": baseline,
        copies: baseline,
        "distributed attention": four,
        all_seen: four,
        "without elimination": replace(four, model=replace(four.model, eliminate=False)),
        "cyclical": cyclical,
        cyclical_copies: cyclical,
        "supervised": replace(
            baseline,
            phases=(Phase(epochs=both, loss="supervised"),),
            supervised=SupervisedConfig(attention=0.5),
        ),
    }


def run(row: str, recipe: UpDownRecipe, made: Scenes, work: Path, talk: Console) -> dict[str, Any]:
    """Train and score one row with one seed; the line to keep."""
    trained_as, change = CHANGED.get(row, (row, None))
    recipe = replace(recipe, name=f"{trained_as}, seed {recipe.seed}")
    folder = work / "captioners" / f"{trained_as.replace(' ', '-')}-{recipe.seed}"
    # no box of the validation split helps to choose an epoch
    blind = [replace(sample, entities=()) for sample in made.validation]
    began = time.process_time()
    with TrainingProgress(talk, recipe.name) as progress:
        run_recipe(recipe, replace(made.material, validation=blind), folder, progress.callbacks())
    trained = {
        "recipe": recipe.to_json(),
        "supervision": read_supervision(folder),
        "log": read_log(folder),
        "seconds": round(time.process_time() - began),
    }
    captioner = Captioner.from_pretrained(folder)
    if change is not None:
        captioner = change(captioner)
    return {"row": row, "seed": recipe.seed, **test(captioner, made), **trained}


def test(captioner: Captioner, made: Scenes) -> dict[str, Any]:
    """Scores on the test split, and the signatures of those in the table."""
    asked = Options(metrics=("CIDEr", "grounding", "errors", "words", "phrases"), quiet=True)
    _, result = evaluate_captioner(captioner, made.reference(made.test), made.regions, asked)
    return {
        "scores": {score.name: round(score.value, 5) for score in result.scores},
        "signatures": sorted({score.signature for score in result.scores if score.name in COLUMNS}),
    }


def copied(captioner: Captioner, branches: int = 4) -> Captioner:
    """A captioner of one branch with copies of it: by elimination the k-th copy looks at the k-th best region.

    What it shows is merging alone, without branches that learnt to differ.
    """
    decoder = captioner.decoder
    many = Decoder(replace(decoder.config, branches=branches))
    per_branch = ("energy", "key.weight", "key.bias", "query.weight", "query.bias")
    many.load_state_dict(
        {
            name: torch.cat([value] * branches) if name in per_branch else value
            for name, value in decoder.state_dict().items()
        }
    )
    return Captioner(many, captioner.vocabulary, captioner.eyes.to_json(), captioner.name, captioner.generation)


def seeing_all(captioner: Captioner) -> Captioner:
    """The same weights, but no branch is kept from the regions that others took."""
    decoder = Decoder(replace(captioner.decoder.config, eliminate=False))
    decoder.load_state_dict(captioner.decoder.state_dict())
    return Captioner(decoder, captioner.vocabulary, captioner.eyes.to_json(), captioner.name, captioner.generation)


CHANGED: dict[str, tuple[str, Callable[[Captioner], Captioner]]] = {
    "baseline, branch copied four times": ("baseline", copied),
    "distributed attention, elimination only in training": ("distributed attention", seeing_all),
    "cyclical, branch copied four times": ("cyclical", copied),
}
"""Rows that train nothing: another row's captioner, changed for the test."""


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Mean ± standard deviation over the seeds of each row, in per cent but for CIDEr."""
    found = []
    for row in rows():
        runs = [line for line in lines if line["row"] == row]
        if runs:
            cells = [cell([100 * run["scores"][name] for run in runs]) for name in COLUMNS]
            # lines of version 0.1 have the supervision in their recipe
            supervision = runs[0].get("supervision") or runs[0]["recipe"]["supervision"]
            seen = "boxes" if BOXES in supervision else "captions"
            found.append([row, seen, len(runs), *cells])
    marks = [mark for line in lines for mark in line["signatures"]]
    return markdown(["", "supervision", "seeds", *COLUMNS.values()], found) + "\n\n" + signed(marks)


def strips(captioner: Captioner, made: Scenes, samples: Sequence[Sample]) -> Drawing:
    """For the first noun said of each scene: where each branch looks, and the box of those that voted for the noun."""
    rows = []
    for sample in samples:
        regions = made.regions[sample.image_id]
        ((caption, looks),) = captioner.looks([regions])
        first = replace(caption, groundings=caption.groundings[:1])
        places, votes = looks.places(first, regions), [looks.voted[one.start] for one in first.groundings]
        rows.append(draw_branches(sample.open(), first, places, votes, width=224))
    return stack(rows)


def main() -> None:
    """Do what is not done yet."""
    chosen = options("Compare grounded captioners on made scenes.", list(rows()))
    torch.set_num_threads(1)
    talk = Console(stderr=True, highlight=False)
    kept = HERE / "captioners.jsonl"
    made: Scenes | None = None
    for row, seed in undone(kept, chosen.rows, chosen.seeds):
        made = made or whitened(naming_things(scenes(chosen.work, talk=talk)), WIDTH)
        line = run(row, replace(rows()[row], seed=seed), made, chosen.work, talk)
        keep(kept, line)
        between_marks(HERE / "captioners.md", table(read(kept)))
        talk.print(f"{row}, seed {seed}: F1_loc {100 * line['scores']['F1_loc']:.1f}")
    if made is not None and (folder := chosen.work / "captioners" / "distributed-attention-0").exists():
        captioner = Captioner.from_pretrained(folder)
        picture = strips(captioner, made, made.test[:SHOWN]).to_image()
        picture.quantize(128).save(HERE / "branches.png", optimize=True)
    print(table(read(kept)))


if __name__ == "__main__":
    main()
