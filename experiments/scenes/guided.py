"""Matchers on made scenes with partial proposals, and what captioners learn from them.

    python experiments/scenes/guided.py --work path/to/folder

trains SCAN and POS-SCAN, then the baseline captioner of ``captioners.py`` with the attention of one of them, and with
rewards; all with every seed. Lines go to ``guided.jsonl``, the tables to ``guided.md``. What has its line is not done
again. ``captioners.py`` has to have trained its baseline in the same folder.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from captioners import COLUMNS, EPOCHS, WIDTH, rows, test
from kept import HERE, between_marks, cell, keep, markdown, options, read, read_log, signed, undone
from material import Scenes, naming_things, scenes, whitened
from rich.console import Console

from deixis.evaluation.evaluate import evaluate_finder, set_place
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.recipes import SCAN_RECIPES, ScanRecipe
from deixis.methods.updown.losses.distillation import DistilConfig
from deixis.methods.updown.losses.self_critical import CriticConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.runs.run import InitFrom, run_recipe
from deixis.training.recipe import Phase, Recipe, Schedule

CRITICAL = Phase(epochs=2, loss="self-critical", lr=3e-4)
MATCHER_COLUMNS = {
    "attention_accuracy": "attention accuracy",
    "accuracy": "accuracy at IoU .5",
    "pointing": "pointing",
    "t2i_R@1": "R@1 of images",
}
CAPTIONER_COLUMNS = dict(list(COLUMNS.items())[:6])  # without the kinds of error that no row here is about


def matchers() -> dict[str, ScanRecipe]:
    """SCAN and POS-SCAN, small enough for a minute."""

    def sized(recipe: ScanRecipe) -> ScanRecipe:
        return replace(
            recipe,
            model=replace(recipe.model, words=96, embed=128),
            phases=(Phase(epochs=2, loss="all"), Phase(epochs=4, lr=1e-3)),
            schedule=Schedule(lr=2e-3, decay=0.7, decay_every=1, clip_norm=2.0),
            max_words=10,
        )

    return {name: sized(SCAN_RECIPES[f"{name}-small"]) for name in ("scan", "pos-scan")}


def captioners() -> dict[str, UpDownRecipe]:
    """The baseline taught and rewarded, and what no paper has tried: branches, a teacher and a cycle together."""
    baseline, four = rows()["baseline"], rows()["distributed attention"]
    critical = replace(baseline, phases=(*baseline.phases, CRITICAL))
    first, second = EPOCHS
    taught = DistilConfig("pos-scan-small")
    matched = CriticConfig(match=1.0, reward_model="pos-scan-small")
    return {
        "+ scan": replace(baseline, distillation=DistilConfig("scan-small")),
        "+ pos-scan": replace(baseline, distillation=taught),
        "then CIDEr": replace(critical, self_critical=CriticConfig()),
        "then CIDEr and pos-scan": replace(critical, self_critical=matched),
        "then CIDEr and ten times pos-scan": replace(critical, self_critical=replace(matched, match=10.0)),
        "+ pos-scan, then CIDEr": replace(critical, distillation=taught, self_critical=CriticConfig()),
        "+ pos-scan, then CIDEr and pos-scan": replace(critical, distillation=taught, self_critical=matched),
        "+ pos-scan, then CIDEr and ten times pos-scan": replace(
            critical, distillation=taught, self_critical=replace(matched, match=10.0)
        ),
        "+ pos-scan, then CIDEr and consistency": replace(
            critical, distillation=taught, self_critical=CriticConfig(consistency=1.0, reward_model="pos-scan-small")
        ),
        "distributed attention + pos-scan": replace(four, distillation=taught),
        "distributed attention + pos-scan for each branch": replace(
            four, distillation=replace(taught, branches="each")
        ),
        "distributed attention + pos-scan + cycle": replace(
            four, distillation=taught, phases=(Phase(epochs=first, branches=1), Phase(epochs=second, loss="cycle"))
        ),
    }


def place(row: str, seed: int, work: Path) -> Path:
    """The folder of a run."""
    return work / "guided" / f"{row.replace(' ', '-').replace('-+', '')}-{seed}"


def init_from(recipe: UpDownRecipe, work: Path) -> InitFrom:
    """The matcher that the row learns from, and the captioner that rewards begin with."""
    seed, taught = recipe.seed, recipe.distillation.teacher.removesuffix("-small")
    reward_model = place("pos-scan", seed, work) if recipe.self_critical.reward_model else None
    if recipe.phases[-1] != CRITICAL:
        return InitFrom(teacher=place(taught, seed, work))
    start = place(f"+ {taught}", seed, work) if taught else work / "captioners" / f"baseline-{seed}"
    return InitFrom(model=start, reward_model=reward_model)


def run(row: str, recipe: Recipe, made: Scenes, work: Path) -> dict[str, Any]:
    """Train and score one row with one seed; the line to keep."""
    recipe = replace(recipe, name=f"{row}, seed {recipe.seed}")
    folder = place(row, recipe.seed, work)
    blind = [replace(sample, entities=()) for sample in made.validation]  # no box helps to choose an epoch
    began = time.process_time()
    helped = init_from(recipe, work) if isinstance(recipe, UpDownRecipe) else None
    run_recipe(recipe, replace(made.material, validation=blind), folder, init=helped)
    trained = {
        "recipe": recipe.to_json(),
        "log": read_log(folder),
        "seconds": round(time.process_time() - began),
    }
    if isinstance(recipe, UpDownRecipe):
        scored = test(Captioner.from_pretrained(folder), made)
    else:
        aligner = ScanGrounder.from_pretrained(folder)
        set_place(aligner, "attention")  # the paper's attention accuracy is of the region with the most attention
        scored = test_matcher(aligner, made)
    return {"row": row, "seed": recipe.seed, **scored, **trained}


def test_matcher(aligner: ScanGrounder, made: Scenes) -> dict[str, Any]:
    """Phrases of the test split's captions, and retrieval among its pictures."""
    _, result = evaluate_finder(aligner, made.reference(made.test), made.regions)
    return {
        "scores": {score.name: round(score.value, 5) for score in result.scores},
        "signatures": sorted({score.signature for score in result.scores if score.name in MATCHER_COLUMNS}),
    }


def table(names: Sequence[str], columns: Mapping[str, str], lines: Sequence[dict[str, Any]]) -> str:
    """Mean ± standard deviation over the seeds of each row, in per cent."""
    found = []
    for row in names:
        runs = [line for line in lines if line["row"] == row]
        if runs:
            cells = [cell([100 * run["scores"][name] for run in runs]) for name in columns]
            found.append([row, "captions", len(runs), *cells])
    return markdown(["", "supervision", "seeds", *columns.values()], found)


def report(lines: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> str:
    """Both tables; the first rows of the second are those of ``captioners.py``."""
    shown = ("baseline", "distributed attention")
    both = [*(line for line in before if line["row"] in shown), *lines]
    marks = [mark for line in lines for mark in line["signatures"]]
    names = list(captioners())
    order = [shown[0], *names[:-3], shown[1], *names[-3:]]
    return "\n\n".join(
        [
            table(list(matchers()), MATCHER_COLUMNS, lines),
            table(order, CAPTIONER_COLUMNS, both),
            signed(marks),
        ]
    )


def main() -> None:
    """Do what is not done yet."""
    every: dict[str, Recipe] = {**matchers(), **captioners()}
    chosen = options("Compare matchers, and captioners that learn from them.", list(every))
    torch.set_num_threads(1)
    talk = Console(stderr=True, highlight=False)
    kept = HERE / "guided.jsonl"
    made: Scenes | None = None
    for row, seed in undone(kept, chosen.rows, chosen.seeds):
        made = made or whitened(naming_things(scenes(chosen.work, talk=talk)), WIDTH)
        line = run(row, replace(every[row], seed=seed), made, chosen.work)
        keep(kept, line)
        between_marks(HERE / "guided.md", report(read(kept), read(HERE / "captioners.jsonl")))
        main_score = "F1_loc" if "F1_loc" in line["scores"] else "attention_accuracy"
        talk.print(f"{row}, seed {seed}: {main_score} {100 * line['scores'][main_score]:.1f}, {line['seconds']} s")


if __name__ == "__main__":
    main()
