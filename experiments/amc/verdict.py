"""Verdict on AMC's claim from the kept runs of the table.

    python experiments/amc/verdict.py > experiments/amc/verdict.txt

Precondition: ALBEF points above the centre of the image, by the 95 % interval of the paired bootstrap over images.
Claim: AMC points better than ALBEF, than ALBEF with as many steps, and than the texts of the boxes alone. It is refuted
only if the interval of the difference from one of them excludes the effect of the paper. Phrases with a COCO name, on
which the detector was trained, are reported apart from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deixis.data.coco import CLASSES
from deixis.evaluation.claims import decide
from deixis.evaluation.tables.describe import Experiment, read_experiment
from deixis.evaluation.tables.kept import read_kept
from deixis.language.names import COCO_NOUNS
from deixis.language.queries import head_of
from deixis.language.spacy_parse import spacy_parse
from deixis.metrics.bootstrap import Comparison, paired_bootstrap
from deixis.metrics.score import Score, mean_score

Scores = Mapping[str, Score]
CONTROLS = ("albef", "albef-longer", "amc-texts")
EFFECT = 0.0745  # pointing on Flickr30k: 79.14 -> 86.59 (Table 1)


def main() -> None:
    """Print the comparisons and the verdict."""
    experiment = read_experiment(Path(__file__).parent)
    kept = read_kept(experiment)
    runs = {name: seed_scores(experiment, kept, name) for name in experiment.rows if name != "centre"}
    if not runs["albef"]:
        raise SystemExit("The row albef has no kept run. Run the table first: python experiments/amc/run.py")
    centre = [{"pointing": replace(one["baseline_image_centre"], name="pointing")} for one in runs["albef"]]
    above = compare("centre -> albef", centre, runs["albef"])
    rows = [name for name in runs if name not in ("albef", "amc") and runs[name]]
    found = {name: compare(f"{name} -> amc", runs[name], runs["amc"]) for name in ("albef", *rows) if runs["amc"]}
    print("verdict:", verdict(above, {name: found[name] for name in CONTROLS if name in found}))


def seed_scores(experiment: Experiment, kept: Mapping[str, object], name: str) -> list[Scores]:
    """Return the test scores of a row, one table for each finished seed."""
    row = experiment.rows[name]
    finished = [kept[f"{name}-{seed}"] for seed in row.seeds if f"{name}-{seed}" in kept]
    return [run.scores(experiment.report) for run in finished]  # type: ignore[attr-defined]


def compare(title: str, a: Sequence[Scores], b: Sequence[Scores]) -> Comparison:
    """Print the pointing of two rows on all phrases, and on those with and without a COCO name; return the first."""
    count = min(len(a), len(b))
    sides = [[by_name(one["pointing"]) for one in each[:count]] for each in (a, b)]
    results = paired_bootstrap(*sides)
    for one in results:
        low, high = (100 * value for value in one.difference_interval)
        change = f"{100 * one.difference:+.1f} ({low:+.1f} to {high:+.1f}, p {one.p:.4f})"
        print(f"{title}, {count} seeds, {one.name}: {100 * one.a:.1f} -> {100 * one.b:.1f}  {change}")
    return results[0]


def by_name(pointing: Score) -> dict[str, Score]:
    """Return pointing on all phrases, and on those with and without a COCO name as their head noun."""
    texts = [name.split(" ", 1)[1] for name in pointing.ids]  # "image#caption.start-end phrase"
    named = np.array([_named(text) for text in dict.fromkeys(texts)])
    known = dict(zip(dict.fromkeys(texts), named, strict=True))
    parts = {"pointing": pointing}
    for title, wanted in (("with a COCO name", True), ("without", False)):
        rows = [row for row, text in enumerate(texts) if known[text] == wanted]
        if rows:
            ids = [pointing.ids[row] for row in rows]
            parts[f"pointing, {title}"] = mean_score(
                f"pointing, {title}", ids, pointing.items[rows], pointing.signature
            )
    return parts


def _named(text: str) -> bool:
    (parsed,) = spacy_parse([text], quiet=True)
    if not len(parsed):
        return False
    noun = parsed.lemmas[head_of(parsed, parsed.phrase(0, len(parsed)))]
    return noun in COCO_NOUNS or noun in CLASSES


def verdict(above_centre: Comparison, controls: Mapping[str, Comparison]) -> str:
    """Return the verdict: the precondition, then whether AMC is better than every control."""
    if above_centre.difference_interval[0] <= 0:
        return "precondition not met: ALBEF does not point above the centre of the image"
    if set(controls) != set(CONTROLS):
        return "undecided: a row is missing"
    found = [decide(one.difference_interval, EFFECT) for one in controls.values()]
    if "refuted" in found:
        return "refuted"
    return "undecided" if "undecided" in found else max(found)  # "held, smaller effect" if one of them is


if __name__ == "__main__":
    main()
