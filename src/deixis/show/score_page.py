"""Scores as one HTML page: the main numbers, charts, and every score with its protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from deixis.files import write_atomic
from deixis.metrics.evaluate import CURVES, GROUPS, ClassCount, Evaluation, group_of
from deixis.metrics.score import Score
from deixis.show import charts
from deixis.show.charts import AMBER, BLUE, GREEN, RED, SKY, VIOLET, Bar, Point, Series
from deixis.show.document import html_page

TITLES = {
    "captions": "Captions",
    "grounding": "Grounded object words",
    "errors": "Kinds of error",
    "words": "Words of reference sentences",
    "hallucination": "Hallucinated objects",
    "phrases": "Phrases",
    "retrieval": "Images for sentences, sentences for images",
}
HEADLINES = (
    "CIDEr",
    "BLEU-1",
    "BLEU-4",
    "SPICE",
    "F1_all",
    "F1_loc",
    "attention_accuracy",
    "accuracy",
    "mean_iou",
    "pointing",
    "CHAIRi",
    "i2t_R@1",
    "t2i_R@1",
)
ERRORS = {
    "missing": ("missing class", AMBER),
    "hallucinated": ("hallucinated class", VIOLET),
    "correct": ("correct", GREEN),
    "partial": ("partial box", BLUE),
    "other": ("other wrong box", RED),
}
WRONG = {
    "partial": ("partial: inside the true box", BLUE),
    "enlarged": ("enlarged: around the true box", SKY),
    "deviated": ("deviated", RED),
}
MIN_WORDS = 5  # minimum number of words of a class in the split

STYLE = (
    charts.STYLE
    + """
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .9rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.75rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.card span { color: var(--faint); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--faint); }
th, td { padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td.n, th.n { text-align: right; width: 7rem; }
td.signature { font: 12.5px/1.45 ui-monospace, monospace; color: var(--faint); word-break: break-all; border: 0;
               padding: .35rem 0 1.3rem; }
summary { cursor: pointer; color: var(--faint); margin: .4rem 0; }
ul.notes { color: var(--faint); padding-left: 1.2rem; }
"""
)


def write_score_page(path: Path, result: Evaluation, about: Mapping[str, str]) -> None:
    """Write :func:`score_page` to a file."""
    write_atomic(path, score_page(result, about))


def score_page(result: Evaluation, about: Mapping[str, str]) -> str:
    """Return the page: main scores, charts of the available scores, then every score with its protocol."""
    title = f"{about.get('predictions', 'Predictions')} on {about.get('data', '')} {about.get('split', '')}".strip()
    below = " · ".join(f"{name}: {value}" for name, value in about.items() if name != "predictions")
    notes = [*result.notes, *(f"{metric} is missing: {reason}" for metric, reason in result.absent.items())]
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    body = f"""{score_cards(result.scores)}
{score_charts(result.scores, result.classes)}
{score_tables(result.scores)}
{f'<h2>Notes</h2><ul class="notes">{listed}</ul>' if notes else ""}"""
    return html_page(title, below, body, STYLE)


def score_cards(scores: Sequence[Score]) -> str:
    """Return the main scores as cards."""
    by_name = {score.name: score for score in scores}
    cards = [
        f'<div class="card" title="{escape(score.signature)}"><b>{score.value:.3f}</b>'
        f"<span>{escape(name).replace('_', '_<wbr>')}</span></div>"
        for name in HEADLINES
        if (score := by_name.get(name))
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def score_charts(scores: Sequence[Score], classes: Sequence[ClassCount] = ()) -> str:
    """Return the charts of the available scores."""
    by_name = {score.name: score for score in scores}
    makers = (_errors, _wrong, _categories, _curve, _baselines, _frequency)
    found = [make(by_name) for make in makers]
    found += [_classes(classes), _spread(by_name, "CIDEr"), _spread(by_name, "F1_all_per_sent")]
    return f'<div class="charts">{"".join(found)}</div>' if any(found) else ""


def score_tables(scores: Sequence[Score]) -> str:
    """Return a table for each group, ordered by protocol; points of curves are folded."""
    sections = []
    for group in GROUPS:
        mine = [score for score in scores if group_of(score.name) == group]
        curves = [score for score in mine if score.name.startswith(CURVES)]
        plain = [score for score in mine if score not in curves]
        if plain:
            sections.append(f"<h2>{TITLES[group]}</h2>{_table(plain)}")
        if curves:
            count = f"{len(curves)} more scores, which the charts show"
            sections.append(f"<details><summary>{count}</summary>{_table(curves)}</details>")
    return "".join(sections)


def _table(scores: Sequence[Score]) -> str:
    by_protocol: dict[str, list[Score]] = {}
    for score in scores:
        by_protocol.setdefault(score.signature, []).append(score)
    bodies = []
    for signature, same in by_protocol.items():
        rows = "".join(
            f'<tr><td>{escape(s.name)}</td><td class="n">{s.value:.4f}</td><td class="n">{len(s.ids):,}</td></tr>'
            for s in same
        )
        bodies.append(f'<tbody>{rows}<tr><td class="signature" colspan="3">{escape(signature)}</td></tr></tbody>')
    head = '<thead><tr><th>metric</th><th class="n">value</th><th class="n">items</th></tr></thead>'
    return f"<table>{head}{''.join(bodies)}</table>"


# Charts -------------------------------------------------------------------------------------------------------------


def _categories(scores: Mapping[str, Score]) -> str:
    names = [match[1] for name in scores if (match := re.fullmatch(r"pointing\[(.+)\]", name))]
    if not names:
        return ""
    groups = []
    for name in ("", *(f"[{name}]" for name in names)):
        accuracy, pointing = scores[f"accuracy{name}"], scores[f"pointing{name}"]
        count = f"{len(pointing.ids):,} phrases"
        both = [Bar("accuracy", accuracy.value, BLUE, count), Bar("pointing", pointing.value, RED, count)]
        groups.append((name.strip("[]") or "all", both))
    legend = [("accuracy (IoU)", BLUE), ("pointing game", RED)]
    body = charts.bars(groups, "per category", legend)
    return charts.figure("Per category", "phrases of each kind, most frequent first", body)


def _curve(scores: Mapping[str, Score]) -> str:
    values = {float(name.removeprefix("accuracy_at_")): s.value for name, s in scores.items() if "accuracy_at_" in name}
    if not values:
        return ""
    points = [Point(threshold, value, f"IoU {threshold:g}: {value:.4f}") for threshold, value in values.items()]
    series = [Series(points, BLUE, joined=True)]
    marks = (("bound_best_proposal", "best proposal", GREEN), ("baseline_whole_image", "whole image", AMBER))
    for name, text, ink in marks:
        if name in scores:
            hint = f"{text} at IoU 0.5: {scores[name].value:.4f}"
            series.append(Series([Point(0.5, scores[name].value, hint, 6)], ink, text))
    body = charts.plot(series, "accuracy by IoU threshold", "IoU threshold", [i / 5 for i in range(6)], top=1.0)
    mean = f"mean IoU {scores['mean_iou'].value:.3f}" if "mean_iou" in scores else ""
    return charts.figure("Accuracy at every IoU threshold", mean, body)


def _baselines(scores: Mapping[str, Score]) -> str:
    rows = {
        "accuracy": ("accuracy", BLUE),
        "baseline_whole_image": ("whole image", AMBER),
        "bound_best_proposal": ("best proposal", GREEN),
        "pointing": ("pointing", RED),
        "baseline_image_centre": ("image centre", AMBER),
    }
    if "baseline_whole_image" not in scores or "accuracy" not in scores:
        return ""
    groups = [(text, [Bar("", scores[name].value, ink)]) for name, (text, ink) in rows.items() if name in scores]
    note = "baselines without a model, and the upper bound of selecting among the proposals"
    return charts.figure("Comparison with baselines", note, charts.bars(groups, "baselines"))


def _errors(scores: Mapping[str, Score]) -> str:
    slices = [Bar(text, scores[f"errors_{k}"].value, c) for k, (text, c) in ERRORS.items() if f"errors_{k}" in scores]
    if len(slices) < len(ERRORS):
        return ""
    note = "object words of the captions, and those of the references that are missing"
    return charts.figure("Errors of object words", note, charts.ring(slices, "kinds of error"))


def _wrong(scores: Mapping[str, Score]) -> str:
    slices = [Bar(text, scores[f"wrong_{k}"].value, c) for k, (text, c) in WRONG.items() if f"wrong_{k}" in scores]
    if len(slices) < len(WRONG) or not any(part.value for part in slices):
        return ""
    note = "words with the right class and a wrong box"
    return charts.figure("Kinds of wrong boxes", note, charts.ring(slices, "wrong boxes"))


def _frequency(scores: Mapping[str, Score]) -> str:
    groups = [s for name, s in scores.items() if name.startswith("F1_all_frequency_")]
    if not groups:
        return ""
    values = [Bar(str(i), s.value, BLUE, f"{s.stats.shape[1] // 5} classes") for i, s in enumerate(groups, start=1)]
    below = f"classes in {len(groups)} groups, most frequent first"
    body = charts.columns(values, "F1_all by class frequency", below)
    return charts.figure("F1_all by class frequency", "mean over the classes of each group", body)


def _classes(classes: Sequence[ClassCount]) -> str:
    """Plot a dot for each object class with enough words in the split."""
    common = [each for each in classes if each.count >= MIN_WORDS and each.trained > 0]
    if not common:
        return ""
    points = [
        Point(
            each.trained,
            each.right / each.count,
            f"{each.name}: {each.right} of {each.count} right, named {each.trained:,} times in training",
            3 + min(each.count, 400) ** 0.5 / 2.5,
        )
        for each in sorted(common, key=lambda each: -each.count)  # small dots over large ones
    ]
    low, high = (10 ** round_(np.log10(f(p.x for p in points))) for round_, f in ((np.floor, min), (np.ceil, max)))
    ticks = [float(low)]
    while ticks[-1] < high or len(ticks) < 2:
        ticks.append(10 * ticks[-1])
    body = charts.plot(
        [Series(points, BLUE)], "accuracy of object classes", "mentions in training", ticks, 1.0, logarithmic=True
    )
    note = f"words of true sentences, {len(common)} classes with at least {MIN_WORDS}; hover over a dot for its name"
    return charts.figure("Accuracy of object classes by frequency", note, body)


def _spread(scores: Mapping[str, Score], name: str) -> str:
    if name not in scores:
        return ""
    items = scores[name].items[np.isfinite(scores[name].items)]
    if len(items) < 10:
        return ""
    counts, edges = np.histogram(items, bins=10, range=(0, charts.ceiling(float(items.max()))))
    values = [
        Bar(f"{low:.3g}", float(n) / len(items), SKY, f"{n} images") for n, low in zip(counts, edges[:-1], strict=True)
    ]
    body = charts.columns(values, name, name)
    return charts.figure(f"{name} of single images", "share of images; labels are lower ends", body)
