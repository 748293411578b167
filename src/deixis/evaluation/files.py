"""Files of an evaluation: predictions, scores, and pages of the worst and best captions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from deixis.errors import DeixisError
from deixis.files import make_folder, write_atomic
from deixis.metrics.densevid import write_dense_captions
from deixis.metrics.evaluate import Evaluation, dense_events
from deixis.metrics.formats import Predictions
from deixis.metrics.references import Reference
from deixis.metrics.score import save_scores
from deixis.pipelines.results import CaptionResult
from deixis.show.page import Shown, caption_page
from deixis.show.score_page import write_score_page
from deixis.types import GroundedCaption, Json

ORDER = ("F1_all_per_sent", "CIDEr")
"""Scores that determine the order of the captions on the page: the first, then the second."""
HEADLINE = ("CIDEr", "BLEU-1", "BLEU-4", "SPICE", "F1_all", "F1_loc", "attention_accuracy")


def write_evaluation(
    folder: Path,
    predictions: Predictions,
    evaluation: Evaluation,
    about: Mapping[str, str],
    results: Mapping[str, CaptionResult] | None = None,
    reference: Reference | None = None,
) -> None:
    """Write captions.jsonl, phrases.jsonl and scores.json; scored words have a ``kind`` of error.

    Captions of video segments are also written as GVD's dense captions, where the ``reference`` is given.

    The captions have the format of ``deixis caption``, with the image id as the image name.
    """
    make_folder(folder)
    captions = [
        _with_kinds((results[image] if results else None), caption, evaluation.kinds.get(image, {}))
        for image, caption in predictions.captions.items()
    ]
    phrases = [
        {
            "image": mention.image,
            "caption": mention.caption,
            "start": mention.start,
            **best.to_phrase_json(about["model"]),
        }
        for mention, (best, *_) in predictions.phrases.items()
    ]
    for name, records in (("captions.jsonl", captions), ("phrases.jsonl", phrases)):
        if records:
            write_atomic(folder / name, "".join(json.dumps(record) + "\n" for record in records))
    if reference is not None and reference.video and predictions.captions:
        texts = {image: caption.caption for image, caption in predictions.captions.items()}
        write_dense_captions(folder / "dense-captions.json", dense_events(reference, texts, texts)[0])
    classes = [[each.name, each.trained, each.count, each.right] for each in evaluation.classes]
    save_scores(folder / "scores.json", evaluation.scores, {**about, "classes": classes})


def _with_kinds(result: CaptionResult | None, caption: GroundedCaption, kinds: Mapping[int, str]) -> Json:
    record = caption.to_json() if result is None else result.to_dict() | {"image": caption.image}
    for field in ("groundings", "word_groundings"):
        for entry in record[field]:
            found = [kinds[at] for at in range(entry["start"], entry["end"]) if at in kinds]
            entry |= {"kind": found[0]} if found else {}
    return record


def write_pages(
    folder: Path,
    predictions: Predictions,
    reference: Reference,
    evaluation: Evaluation,
    about: Mapping[str, str],
    shown: int,
) -> None:
    """Write a page of all scores and, for captions, a page of the ``shown`` worst and best."""
    write_score_page(folder / "scores.html", evaluation, about)
    if not predictions.captions:
        return
    order = rank_images(evaluation, predictions.captions)
    half = min(shown, len(order) // 2)
    samples = {sample.image_id: sample for sample in reference.samples}

    def pictures(chosen: Sequence[tuple[str, str]]) -> list[Shown]:
        found = []
        for image, note in chosen:
            try:
                found.append(Shown(samples[image].open(), predictions.captions[image], note))
            except (DeixisError, OSError):
                continue  # images without a file are scored, but not shown
        return found

    sections = {"Worst": pictures(order[:half]), "Best": pictures(order[len(order) - half :][::-1])}
    values = {score.name: score.value for score in evaluation.scores}
    note = " · ".join(f"{name} {values[name]:.3f}" for name in HEADLINE if name in values)
    title = f"{about['model']} on {about['data']} {about['split']}"
    links = '<p><a href="scores.html">All scores, with their protocols</a></p>'
    write_atomic(folder / "index.html", caption_page(title, sections, note, links))


def rank_images(evaluation: Evaluation, captions: Mapping[str, GroundedCaption]) -> list[tuple[str, str]]:
    """Order images by F1 of grounded words, then CIDEr, worst first; each with its scores as a note."""
    tables = [
        (s.name, dict(zip(s.ids, s.items, strict=True))) for name in ORDER for s in evaluation.scores if s.name == name
    ]
    rated = []
    for image in captions:
        values = [float(table.get(image, math.nan)) for _, table in tables]
        if not any(map(math.isnan, values)):  # images without boxes have no F1 and are left out
            note = ", ".join(f"{name} {value:.2f}" for (name, _), value in zip(tables, values, strict=True))
            rated.append((values, image, note))
    return [(image, note) for _, image, note in sorted(rated)]
