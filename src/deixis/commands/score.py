"""``deixis score``: what any model's output is worth, with the protocol of every number beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deixis.commands.answers import answers
from deixis.metrics.evaluate import CURVES, Evaluation, Options, evaluate
from deixis.metrics.formats import read_lemmas, read_predictions, read_proposals
from deixis.metrics.references import read_reference
from deixis.metrics.score import Score, save_scores

Flag = tyro.conf.FlagCreatePairsOff[bool]


def score(
    predictions: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PREDICTIONS")],
    reference: Path,
    split: str = "test",
    split_file: Path | None = None,
    metrics: tuple[str, ...] = (),
    format: Literal["auto", "deixis", "coco", "gvd", "florence-2", "kosmos-2"] = "auto",
    protocol: Literal["official", "paper"] = "official",
    missing: Literal["error", "zero", "skip"] = "error",
    lemmas: Path | None = None,
    min_count: int | None = None,
    proposals: Path | None = None,
    spice_jars: Path | None = None,
    as_json: Annotated[Flag, tyro.conf.arg(name="json")] = False,
    out: Path | None = None,
    html: Path | None = None,
    quiet: Flag = False,
) -> int:
    """Score predictions of any model against a reference: captions, grounded words, phrases, pointing.

    For example: deixis score answers.jsonl --reference path/to/flickr30k-entities --split test

    Predictions may be ours (JSON lines), COCO results, a GVD submission for Flickr30k or ActivityNet, outputs of
    Florence-2 for phrase grounding, or outputs of Kosmos-2; what a file is shows in its content.

    Args:
        predictions: the file to score.
        reference: a data set's folder, or GVD's reference JSON.
        split: which split of it.
        split_file: GVD's split JSON, which names the images of each split of its reference.
        metrics: what to score, all that applies if not given: captions, grounding, errors, words, hallucination,
            phrases, or names of scores such as F1_all or CIDEr.
        format: what the predictions are, where their content does not tell.
        protocol: conventions of grounded captions, as the published evaluators have them or as the papers say.
        missing: what a missing prediction is: an error, wrong, or left out.
        lemmas: JSON map from words to lemmas in place of spaCy's, to compare runs of different tools.
        min_count: how often training captions must name an object class of a data set; 100 for all of Flickr30k
            Entities and in proportion to the training images elsewhere, if not given.
        proposals: COCO results file of boxes, for the upper bound of choosing the best of them.
        spice_jars: folder with the CoreNLP jars that SPICE needs.
        as_json: write the scores to stdout as JSON.
        out: write scores with their per-item statistics, for 'deixis compare'.
        html: write a page with charts.
        quiet: no progress, no notes and no table.
    """
    talk = Console(stderr=True, quiet=quiet, highlight=False)
    with talk.status(f"reading {reference}") as status:
        truth = read_reference(reference, split, split_file)
        status.update(f"reading {predictions}")
        said = read_predictions(predictions, truth.images, format)
        options = Options(
            metrics=metrics,
            missing=missing,
            protocol=protocol,
            lemmas=None if lemmas is None else read_lemmas(lemmas),
            min_count=min_count,
            proposals=None if proposals is None else read_proposals(proposals, truth.images),
            spice_jars=spice_jars,
            quiet=quiet,
        )
    result = evaluate(said, truth, options)
    about = {
        "predictions": str(predictions),
        "format": said.format,
        "reference": str(reference),
        "data": truth.name,
        "split": truth.split,
    }
    if out is not None:
        save_scores(out, result.scores, about)
    if html is not None:
        from deixis.show.score_page import write_score_page

        write_score_page(html, result, about)
    tell(result, about, talk, as_json)
    for file in (out, html):
        if file is not None:
            talk.print(f"wrote {file}", markup=False, soft_wrap=True)
    return 0


def tell(result: Evaluation, about: Mapping[str, str], talk: Console, as_json: bool) -> None:
    """Scores on stdout, for people or as JSON; then what is absent and what else should be known."""
    if as_json:
        document = {
            **about,
            "scores": {
                s.name: {"value": s.value, "signature": s.signature, "items": len(s.ids)} for s in result.scores
            },
            "absent": dict(result.absent),
            "notes": list(result.notes),
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _show(result.scores, answers(talk.quiet))
    for note in result.notes:
        talk.print(f"note: {note}.", markup=False, soft_wrap=True)
    for metric, reason in result.absent.items():
        talk.print(f"{metric} is absent: {reason}", markup=False, soft_wrap=True)


def _show(scores: Sequence[Score], said: Console) -> None:
    """Tables of scores, those of one protocol together with the protocol below them; curves are for --json, --html."""
    shown = [each for each in scores if not each.name.startswith(CURVES)]
    name_width = max((len(each.name) for each in shown), default=0)
    for signature, same in groupby(shown, key=lambda each: each.signature):
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(min_width=name_width, no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True, style="dim")
        for each in same:
            table.add_row(escape(each.name), f"{each.value:.4f}", f"{len(each.ids):,} items")
        said.print(table)
        said.print(f"{signature}\n", style="dim", markup=False, soft_wrap=True)
