"""``deixis score``: scores of predictions, each with the signature of its protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from deixis.commands.console import AsJson, Quiet, Switch, print_evaluation, stderr_console
from deixis.data.dictionary import read_classes
from deixis.errors import UsageError
from deixis.metrics.densevid import (
    METRICS,
    densevid_scores,
    is_dense_reference,
    read_dense_captions,
    read_dense_reference,
)
from deixis.metrics.evaluate import Evaluation, Options, evaluate
from deixis.metrics.formats import read_lemmas, read_predictions, read_proposals
from deixis.metrics.references import read_reference
from deixis.metrics.score import save_scores


def score(
    predictions: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PREDICTIONS")],
    reference: Path,
    split: tuple[str, ...] = ("test",),
    split_file: Path | None = None,
    other_references: tuple[Path, ...] = (),
    metrics: tuple[str, ...] = (),
    format: Literal["auto", "deixis", "coco", "gvd", "florence-2", "kosmos-2"] = "auto",
    protocol: Literal["official", "paper"] = "official",
    accept_partial: Switch = False,
    missing: Literal["error", "zero", "skip"] = "error",
    lemmas: Path | None = None,
    min_count: int | None = None,
    proposals: Path | None = None,
    classes: Path | None = None,
    eval_mode: Literal["", "gen", "GT"] = "",
    spice_jars: Path | None = None,
    as_json: AsJson = False,
    out: Path | None = None,
    html: Path | None = None,
    quiet: Quiet = False,
) -> int:
    """Score predictions of any model against a reference: captions, grounded words, phrases, pointing.

    For example: deixis score answers.jsonl --reference path/to/flickr30k-entities --split test

    The format of the predictions is recognised by content: Deixis JSON lines, COCO results, a GVD submission for
    Flickr30k or ActivityNet, Florence-2 phrase grounding or Kosmos-2 output.

    Args:
        predictions: the file to score.
        reference: folder of a data set, or GVD's reference JSON.
        split: split of the reference; several are scored as one.
        split_file: GVD's split JSON, which lists the images of each split of its reference.
        other_references: further reference files of densevid_eval, such as anet_entities_val_2.json; the reference
            is then the first of them, and the predictions are dense captions.
        metrics: what to score: captions, grounding, errors, words, hallucination, phrases, or names of scores such as
            F1_all or CIDEr. Everything that applies if not given.
        format: format of the predictions, if it is not recognised.
        protocol: conventions of grounded captions: those of the published evaluators or those of the papers.
        accept_partial: count a box inside the true box as correct, the upper bound of Distributed Attention (Sec. 4.5).
        missing: how a missing prediction counts: as an error of the command, as wrong (zero), or not at all (skip).
        lemmas: JSON map from words to lemmas, used instead of spaCy to compare with other tools.
        min_count: minimum frequency of an object class in the training captions. If not given: 100 for the whole of
            Flickr30k Entities, elsewhere in proportion to the number of training images.
        proposals: COCO results file of boxes, for the upper bound of selecting the best of them.
        classes: list of object classes, such as dic_flickr30k.json or flickr30k_class_name.txt.
        eval_mode: sentences of a GVD submission that does not state it: generated (gen) or ground truth (GT).
        spice_jars: folder with the CoreNLP jars for SPICE.
        as_json: write the scores to stdout as JSON.
        out: write the scores with their per-item statistics, for 'deixis compare'.
        html: write a page with charts.
    """
    console = stderr_console(quiet)
    if is_dense_reference(reference):
        return _score_dense(predictions, (reference, *other_references), metrics, as_json, out, console)
    if other_references:
        raise UsageError("--other-references are files of densevid_eval, and so must be --reference.")
    with console.status(f"reading {reference}") as status:
        truth = read_reference(reference, split, split_file)
        status.update(f"reading {predictions}")
        predicted = read_predictions(predictions, truth.images, format)
        options = Options(
            metrics=metrics,
            missing=missing,
            protocol=protocol,
            accept_partial=accept_partial,
            lemmas=None if lemmas is None else read_lemmas(lemmas),
            min_count=min_count,
            proposals=None if proposals is None else read_proposals(proposals, truth.images),
            spice_jars=spice_jars,
            quiet=quiet,
            classes=None if classes is None else read_classes(classes),
            eval_mode=eval_mode,
        )
    result = evaluate(predicted, truth, options)
    about = {
        "predictions": str(predictions),
        "format": predicted.format,
        "reference": str(reference),
        "data": truth.name,
        "split": truth.split,
    }
    if out is not None:
        save_scores(out, result.scores, about)
    if html is not None:
        from deixis.show.score_page import write_score_page

        write_score_page(html, result, about)
    print_evaluation(result, about, console, as_json)
    for file in (out, html):
        if file is not None:
            console.print(f"written: {file}", markup=False)
    return 0


def _score_dense(
    predictions: Path,
    references: Sequence[Path],
    metrics: tuple[str, ...],
    as_json: bool,
    out: Path | None,
    console: Console,
) -> int:
    """Score dense captions as densevid_eval does."""
    wanted = metrics or METRICS
    true = [read_dense_reference(path) for path in references]
    scores = densevid_scores(read_dense_captions(predictions), true, wanted, data=references[0].stem)
    about = {"predictions": str(predictions), "format": "dense-captions", "reference": ", ".join(map(str, references))}
    if out is not None:
        save_scores(out, scores, about)
    print_evaluation(Evaluation(tuple(scores)), about, console, as_json)
    return 0
