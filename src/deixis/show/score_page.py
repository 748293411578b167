"""Scores as one HTML page with charts, which needs nothing from elsewhere and follows light and dark."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from deixis.errors import DeixisError
from deixis.metrics.evaluate import CURVES, GROUPS, Evaluation, group_of
from deixis.metrics.score import Score
from deixis.show.draw import PALETTE

BLUE, RED, GREEN, PINK, AMBER, SKY, *_ = PALETTE

TITLES = {
    "captions": "Captions",
    "grounding": "Grounded object words",
    "errors": "Kinds of error",
    "words": "Words of reference sentences",
    "hallucination": "Hallucinated objects",
    "phrases": "Phrases",
    "retrieval": "Images for sentences, sentences for images",
}
HEADLINES = ("CIDEr", "BLEU-4", "F1_all", "F1_loc", "attention_accuracy", "accuracy", "mean_iou", "pointing", "CHAIRi")
ERRORS = {
    "missing": ("missing class", AMBER),
    "hallucinated": ("hallucinated class", PINK),
    "correct": ("correct", GREEN),
    "partial": ("partial box", BLUE),
    "other": ("other wrong box", RED),
}
WRONG = {
    "partial": ("partial: inside the true box", BLUE),
    "enlarged": ("enlarged: around the true box", SKY),
    "deviated": ("deviated", RED),
}

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --faint: #63636e; --line: #dcdce3; --card: #f6f6f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf1; --paper: #16161a; --faint: #a2a2ae; --line: #35353e; --card: #1f1f25; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 76rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .8rem; }
.about { color: var(--faint); margin: 0 0 1.6rem; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .9rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.75rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.card span { color: var(--faint); }
.charts { columns: 2 28rem; column-gap: 1.2rem; margin-top: 1.6rem; }
figure { break-inside: avoid; margin: 0 0 1.2rem;
         background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.1rem; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
figcaption small { display: block; font-weight: 400; color: var(--faint); }
svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .faint { fill: var(--faint); }
svg .slice { stroke: var(--card); stroke-width: 2; }
svg .grid { stroke: var(--line); stroke-width: 1; } svg .track { fill: var(--line); opacity: .45; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--faint); }
th, td { padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; width: 8rem; }
td.signature { font: 12.5px/1.45 ui-monospace, monospace; color: var(--faint); word-break: break-all; border: 0;
               padding: .35rem 0 1.3rem; }
summary { cursor: pointer; color: var(--faint); margin: .4rem 0; }
ul.notes { color: var(--faint); padding-left: 1.2rem; }
"""


def write_score_page(path: Path, result: Evaluation, about: Mapping[str, str]) -> None:
    """Write :func:`score_page` to a file."""
    try:
        path.write_text(score_page(result, about), encoding="utf-8")
    except OSError as error:
        raise DeixisError(f"{path} cannot be written ({error.strerror}); choose another --html.") from None


def score_page(result: Evaluation, about: Mapping[str, str]) -> str:
    """The page: the main numbers, a chart for whatever the scores allow, then every score with its protocol."""
    scores = {score.name: score for score in result.scores}
    title = f"{about.get('predictions', 'Predictions')} on {about.get('data', '')} {about.get('split', '')}".strip()
    cards = [_card(scores[name]) for name in HEADLINES if name in scores]
    charts = [chart for chart in (_categories(scores), _curve(scores), _baselines(scores)) if chart]
    charts += [chart for chart in (_errors(scores), _wrong(scores), _frequency(scores)) if chart]
    charts += [chart for chart in (_spread(scores, "CIDEr"), _spread(scores, "F1_all_per_sent")) if chart]
    below = " · ".join(escape(f"{name}: {value}") for name, value in about.items() if name != "predictions")
    notes = [*result.notes, *(f"{metric} is absent: {reason}" for metric, reason in result.absent.items())]
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{escape(title)}</h1><p class="about">{below}</p>
<div class="cards">{"".join(cards)}</div>
<div class="charts">{"".join(charts)}</div>
{"".join(_tables(result.scores))}
{f'<h2>Notes</h2><ul class="notes">{listed}</ul>' if notes else ""}
</body></html>
"""


def _card(score: Score) -> str:
    inside = f"<b>{score.value:.3f}</b><span>{escape(score.name)}</span>"
    return f'<div class="card" title="{escape(score.signature)}">{inside}</div>'


def _tables(scores: Sequence[Score]) -> list[str]:
    """A table for each group, in which scores of one protocol stand together; curves are folded away."""
    sections = []
    for group in GROUPS:
        mine = [score for score in scores if group_of(score.name) == group]
        curves = [score for score in mine if score.name.startswith(CURVES)]
        plain = [score for score in mine if score not in curves]
        if plain:
            sections.append(f"<h2>{TITLES[group]}</h2>{_table(plain)}")
        if curves:
            count = f"{len(curves)} more scores: what the charts show"
            sections.append(f"<details><summary>{count}</summary>{_table(curves)}</details>")
    return sections


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


@dataclass(frozen=True)
class Bar:
    """One value of a bar chart, 0 to 1, with the colour of its series."""

    label: str
    value: float
    colour: str
    note: str = ""


def _figure(title: str, note: str, body: str) -> str:
    small = f"<small>{escape(note)}</small>" if note else ""
    return f"<figure><figcaption>{escape(title)}{small}</figcaption>{body}</figure>"


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start", faint: bool = False) -> str:
    kind = ' class="faint"' if faint else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


def _rows(groups: Sequence[tuple[str, Sequence[Bar]]], label: str, legend: Sequence[tuple[str, str]] = ()) -> str:
    """Horizontal bars in groups, names on the left, values at the bars' ends, the legend on top."""
    width, left, right, thick, gap = 560, 150, 52, 15, 12
    parts, y = [], 8.0
    x = float(left)
    for name, colour in legend:
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="11" height="11" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 17, y + 10, name, faint=True))
        x += 32 + 7.2 * len(name)
    y += 28 if legend else 0
    scale = width - left - right
    for name, bars in groups:
        parts.append(_text(left - 10, y + len(bars) * (thick + 2) / 2 + 4, name, "end"))
        for bar in bars:
            parts.append(f'<rect class="track" x="{left}" y="{y:.1f}" width="{scale}" height="{thick}" rx="3"/>')
            hint = f"{name} {bar.label}: {bar.value:.4f}{f' ({bar.note})' if bar.note else ''}"
            parts.append(
                f'<rect x="{left}" y="{y:.1f}" width="{max(bar.value, 0) * scale:.1f}" height="{thick}" rx="3" '
                f'fill="{bar.colour}"><title>{escape(hint)}</title></rect>'
            )
            parts.append(_text(width - right + 8, y + thick - 3, f"{bar.value:.3f}"))
            y += thick + 2
        y += gap
    return _svg(width, y, label, parts)


def _columns(bars: Sequence[Bar], label: str, below: str) -> str:
    """Vertical bars on a scale that ends just above the highest one."""
    width, height, left, bottom, top = 560, 300, 54, 52, 16
    ceiling = _ceiling(max((bar.value for bar in bars), default=0))
    parts = _levels(ceiling, left, width, height, bottom, top)
    step = (width - left - 8) / max(len(bars), 1)
    for i, bar in enumerate(bars):
        tall = (height - bottom - top) * bar.value / ceiling
        x = left + i * step + step * 0.14
        hint = f"{bar.label}: {bar.value:.4f}{f' ({bar.note})' if bar.note else ''}"
        parts.append(
            f'<rect x="{x:.1f}" y="{height - bottom - tall:.1f}" width="{step * 0.72:.1f}" height="{tall:.1f}" rx="3" '
            f'fill="{bar.colour}"><title>{escape(hint)}</title></rect>'
        )
        parts.append(_text(x + step * 0.36, height - bottom + 18, bar.label, "middle", faint=True))
    parts.append(_text((left + width) / 2, height - 10, below, "middle", faint=True))
    return _svg(width, height, label, parts)


def _ceiling(value: float) -> float:
    """A round number at or above the value, for the top of a scale."""
    if value <= 0:
        return 1.0
    unit = 10 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 4, 6, 8, 10) if step * unit >= value * 0.999)


def _levels(ceiling: float, left: float, width: float, height: float, bottom: float, top: float) -> list[str]:
    parts = []
    for i in range(5):
        y = height - bottom - (height - bottom - top) * i / 4
        parts.append(f'<line class="grid" x1="{left}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 8, y + 4, f"{ceiling * i / 4:.3g}", "end", faint=True))
    return parts


def _pie(slices: Sequence[Bar], label: str) -> str:
    """A ring of shares that add up to 1, with its legend on the right."""
    width, height, radius, hole = 560, 260, 108, 62
    cx, cy = 124, height / 2
    parts, turn = [], 0.0
    for part in slices:
        hint = f"<title>{escape(f'{part.label}: {part.value:.1%}')}</title>"
        if part.value >= 1 - 1e-9:
            middle = (radius + hole) / 2
            parts.append(
                f'<circle cx="{cx}" cy="{cy}" r="{middle}" fill="none" stroke="{part.colour}" '
                f'stroke-width="{radius - hole}">{hint}</circle>'
            )
        elif part.value > 0:
            shape = _ring(cx, cy, radius, hole, turn, turn + part.value)
            parts.append(f'<path class="slice" d="{shape}" fill="{part.colour}">{hint}</path>')
        turn += part.value
    y = height / 2 - 15 * len(slices) + 18
    for part in slices:
        parts.append(f'<rect x="270" y="{y - 11:.0f}" width="12" height="12" rx="2" fill="{part.colour}"/>')
        parts.append(_text(348, y, f"{part.value:.1%}", "end"))
        parts.append(_text(360, y, part.label))
        y += 30
    return _svg(width, height, label, parts)


def _ring(cx: float, cy: float, radius: float, hole: float, start: float, end: float) -> str:
    """The path of a slice of a ring between two shares of a full turn, from the top, clockwise."""

    def at(r: float, turn: float) -> str:
        angle = 2 * math.pi * turn - math.pi / 2
        return f"{cx + r * math.cos(angle):.2f} {cy + r * math.sin(angle):.2f}"

    large = int(end - start > 0.5)
    return (
        f"M{at(radius, start)} A{radius} {radius} 0 {large} 1 {at(radius, end)} "
        f"L{at(hole, end)} A{hole} {hole} 0 {large} 0 {at(hole, start)} Z"
    )


# What the scores allow ----------------------------------------------------------------------------------------------


def _categories(scores: Mapping[str, Score]) -> str:
    names = [match[1] for name in scores if (match := re.fullmatch(r"pointing\[(.+)\]", name))]
    if not names:
        return ""
    groups = [
        ("all", [Bar("accuracy", scores["accuracy"].value, BLUE), Bar("pointing", scores["pointing"].value, RED)])
    ]
    for name in names:
        accuracy, pointing = scores[f"accuracy[{name}]"], scores[f"pointing[{name}]"]
        count = f"{len(pointing.ids):,} phrases"
        groups.append(
            (name, [Bar("accuracy", accuracy.value, BLUE, count), Bar("pointing", pointing.value, RED, count)])
        )
    legend = [("accuracy (IoU)", BLUE), ("pointing game", RED)]
    return _figure("Per category", "phrases of each kind, most frequent first", _rows(groups, "per category", legend))


def _curve(scores: Mapping[str, Score]) -> str:
    points = [
        (float(name.removeprefix("accuracy_at_")), s.value) for name, s in scores.items() if "accuracy_at_" in name
    ]
    if not points:
        return ""
    width, height, left, bottom, top = 560, 330, 54, 52, 16
    span_x, span_y = width - left - 26, height - bottom - top

    def place(threshold: float, value: float) -> tuple[float, float]:
        return left + span_x * threshold, height - bottom - span_y * value

    parts = _levels(1.0, left, width, height, bottom, top)
    for i in range(0, 11, 2):
        x, y = place(i / 10, 0)
        parts.append(_text(x, y + 18, f"{i / 10:g}", "middle", faint=True))
    line = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{BLUE}" stroke-width="2.5"/>')
    for threshold, value in points:
        x, y = place(threshold, value)
        hint = f"IoU {threshold:g}: {value:.4f}"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{BLUE}"><title>{escape(hint)}</title></circle>')
    for name, text, colour in (
        ("bound_best_proposal", "best proposal", GREEN),
        ("baseline_whole_image", "whole image", AMBER),
    ):
        if name in scores:
            x, y = place(0.5, scores[name].value)
            hint = f"<title>{escape(f'{text} at IoU 0.5: {scores[name].value:.4f}')}</title>"
            parts.append(f'<path d="M{x:.1f} {y - 6:.1f} l6 6 l-6 6 l-6 -6 Z" fill="{colour}">{hint}</path>')
            # the curve falls: above it the right side is free, below it the left one
            above = scores[name].value >= np.interp(0.5, [t for t, _ in points], [v for _, v in points])
            parts.append(_text(x + 12 if above else x - 12, y + 4, text, "start" if above else "end", faint=True))
    parts.append(_text((left + width) / 2, height - 10, "IoU threshold", "middle", faint=True))
    mean = f"mean IoU {scores['mean_iou'].value:.3f}" if "mean_iou" in scores else ""
    return _figure("Accuracy at every IoU threshold", mean, _svg(width, height, "accuracy by IoU threshold", parts))


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
    groups = [(text, [Bar("", scores[name].value, colour)]) for name, (text, colour) in rows.items() if name in scores]
    note = "what needs no model, and what no choice among the proposals can beat"
    return _figure("Beside the baselines", note, _rows(groups, "baselines"))


def _errors(scores: Mapping[str, Score]) -> str:
    slices = [Bar(text, scores[f"errors_{k}"].value, c) for k, (text, c) in ERRORS.items() if f"errors_{k}" in scores]
    if len(slices) < len(ERRORS):
        return ""
    note = "all object words said, and those of the references that were not"
    return _figure("What happens to object words", note, _pie(slices, "kinds of error"))


def _wrong(scores: Mapping[str, Score]) -> str:
    slices = [Bar(text, scores[f"wrong_{k}"].value, c) for k, (text, c) in WRONG.items() if f"wrong_{k}" in scores]
    if len(slices) < len(WRONG) or not any(part.value for part in slices):
        return ""
    return _figure(
        "How wrong boxes are wrong", "words with the right class and a wrong box", _pie(slices, "wrong boxes")
    )


def _frequency(scores: Mapping[str, Score]) -> str:
    bins = [s for name, s in scores.items() if name.startswith("F1_all_frequency_")]
    if not bins:
        return ""
    bars = [Bar(str(i), s.value, BLUE, f"{s.stats.shape[1] // 5} classes") for i, s in enumerate(bins, start=1)]
    body = _columns(bars, "F1_all by class frequency", f"classes in {len(bins)} groups, most frequent first")
    return _figure("F1_all by class frequency", "mean over the classes of each group", body)


def _spread(scores: Mapping[str, Score], name: str) -> str:
    if name not in scores:
        return ""
    items = scores[name].items[np.isfinite(scores[name].items)]
    if len(items) < 10:
        return ""
    high = _ceiling(float(items.max()))
    counts, edges = np.histogram(items, bins=10, range=(0, high))
    bars = [
        Bar(f"{low:.3g}", float(n) / len(items), SKY, f"{n} images") for n, low in zip(counts, edges[:-1], strict=True)
    ]
    return _figure(f"{name} of single images", "share of images; labels are lower ends", _columns(bars, name, name))
