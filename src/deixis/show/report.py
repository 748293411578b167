"""The report of a run as one HTML page: training curves, scores, recipe and gallery."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from deixis.show import charts, page, score_page
from deixis.show.charts import BLUE, RED, Point, Series
from deixis.show.document import html_page
from deixis.show.run_folder import Run
from deixis.show.run_gallery import RunGallery
from deixis.types import Json

STYLE = """
nav { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; margin: 0 0 1.6rem; }
h2 { scroll-margin-top: 1rem; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem; overflow-x: auto; }
.folded h2 { font-size: 1.05rem; margin: 1.6rem 0 .6rem; }
"""


def report_page(run: Run, gallery: RunGallery | None = None, items: Sequence[page.Shown] = ()) -> str:
    """Render the report as HTML; ``items`` are the cards of the gallery (:meth:`RunGallery.items`)."""
    about = [str(run.recipe[key]) for key in ("paper", "supervision") if run.recipe.get(key)]
    about += [f"seed {run.recipe['seed']}"] if "seed" in run.recipe else []
    sections: dict[str, str] = {}
    if run.log:
        sections["Learning"] = learning_curves(run.log, run.best_epoch)
    for number, each in enumerate(run.evaluated):
        tables = _folded("every score with its protocol", score_page.score_tables(each.scores))
        rest = score_page.score_charts(each.scores, each.classes) + tables
        about_it = " · ".join(f"{name}: {value}" for name, value in each.about.items())
        sections[f"Scores on {each.split}"] = (
            f'<p class="about">{escape(about_it)}</p>{score_page.score_cards(each.scores)}'
            f"{_folded('charts and every score', rest) if number else rest}"  # one split at a time is enough to read
        )
    if run.recipe:
        text = escape(json.dumps(run.recipe, indent=1, ensure_ascii=False))
        sections["Recipe"] = _folded("every setting", f"<pre>{text}</pre>")
    data, script = "", ""
    if gallery is not None and items:
        made = page.gallery(items, gallery.lists)
        sections[f"Gallery of {gallery.split}"] = made.body
        data, script = made.data, page.SCRIPT
    anchors = {title: title.lower().replace(" ", "-") for title in sections}
    links = "".join(f'<a href="#{escape(anchor)}">{escape(title)}</a>' for title, anchor in anchors.items())
    body = f"<nav>{links}</nav>" + "".join(
        f'<h2 id="{escape(anchors[title])}">{escape(title)}</h2>{inside}' for title, inside in sections.items()
    )
    style = score_page.STYLE + page.STYLE + STYLE
    return html_page(run.name, " · ".join(about), body, style, script, data)


def learning_curves(log: Sequence[Json], kept: int | None = None) -> str:
    """One small chart per loss and per validation score over the epochs; the best epoch has a larger dot."""
    figures = []
    for group, ink in (("losses", RED), ("scores", BLUE)):
        names = dict.fromkeys(name for record in log for name in record.get(group) or {})
        for name in names:
            points = [
                Point(_epoch(record), value, f"epoch {_epoch(record)}: {value:.4g}", 7 if _kept(record, kept) else 4)
                for record in log
                if isinstance(value := (record.get(group) or {}).get(name), int | float)
            ]
            if points:
                last = _epoch(log[-1])
                ticks = sorted({1, last, *range(1, last + 1, max(1, last // 4))})
                body = charts.plot(
                    [Series(points, ink, joined=True)], f"{name} by epoch", "epoch", ticks, width=300, height=230
                )
                note = "training loss" if group == "losses" else "validation"
                figures.append(charts.figure(name, note, body))
    return f'<div class="charts small">{"".join(figures)}</div>'


def _folded(summary: str, inside: str) -> str:
    return f'<details class="folded"><summary>{escape(summary)}</summary>{inside}</details>'


def _epoch(record: Mapping[str, Any]) -> int:
    """The epoch, counted from 1."""
    return int(record["epoch"])


def _kept(record: Mapping[str, Any], kept: int | None) -> bool:
    return kept is not None and record["epoch"] == kept
