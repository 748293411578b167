"""Caption scores of video segments as in densevid_eval, and its files.

Every video is a corpus of its own: each predicted segment is compared with every reference segment whose temporal IoU
reaches a threshold, one pair for each, and every reference file makes pairs of its own. A prediction without such a
segment is compared with a word that occurs nowhere. The score is the mean over videos (a video without a prediction
counts 0), then over the thresholds. The corpus CIDEr of other data sets is another number; these have the prefix
``densevid_``.

Reference file: ``{video: {"timestamps": [[start, end], ...], "sentences": [...]}}``. Submission: ``{"results": {video:
[{"sentence", "timestamp": [start, end]}]}, "version", "external_data"}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deixis.data.reading import BadFile, read_json
from deixis.errors import DeixisError
from deixis.files import write_atomic
from deixis.language.tokenise import tokens
from deixis.metrics.captions import caption_scores
from deixis.metrics.score import Score, mean_score, signature

THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
METRICS = ("BLEU", "ROUGE-L", "CIDEr")
PREFIX = "densevid_"
MAX_EVENTS = 1000  # segments of a video that are read


@dataclass(frozen=True)
class Event:
    """A described segment of a video, in seconds."""

    start: float
    end: float
    words: tuple[str, ...]  # tokens of the sentence
    text: str = ""


Events = Mapping[str, Sequence[Event]]
"""Video -> its described segments."""


def temporal_iou(one: Event, other: Event) -> float:
    """Return the IoU of two segments; 1e-8 is added to the union, as densevid_eval does."""
    both = max(0.0, min(one.end, other.end) - max(one.start, other.start))
    lengths = one.end - one.start + other.end - other.start
    union = min(max(one.end, other.end) - min(one.start, other.start), lengths)
    return both / (union + 1e-8)


def densevid_scores(
    predictions: Events,
    references: Sequence[Events],
    metrics: Sequence[str] = METRICS,
    thresholds: Sequence[float] = THRESHOLDS,
    **about: object,
) -> list[Score]:
    """Score described segments against several reference files, e.g. ``densevid_CIDEr``; one item per video."""
    videos = sorted({video for reference in references for video in reference})
    if not videos:
        raise DeixisError("The reference has no videos. Check its path.")
    values: dict[str, list[float]] = {}  # score -> mean over the thresholds of each video
    for video in videos:
        given = [reference.get(video, ()) for reference in references]
        rows = [_video_scores(predictions.get(video, ()), given, threshold, metrics) for threshold in thresholds]
        for name in rows[0]:
            values.setdefault(name, []).append(float(np.mean([row[name] for row in rows])))
    mark = signature(**about, refs=len(references), tiou="+".join(f"{t:g}" for t in thresholds), corpus="video")
    return [mean_score(f"{PREFIX}{name}", videos, items, mark) for name, items in values.items()]


def _video_scores(
    predicted: Sequence[Event], references: Sequence[Sequence[Event]], threshold: float, metrics: Sequence[str]
) -> dict[str, float]:
    """Score the segments of one video at one threshold; all 0 where nothing is predicted."""
    pairs: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for event in predicted:
        close = [true for group in references for true in group if temporal_iou(event, true) >= threshold]
        pairs += [(event.words, true.words) for true in close] or [(event.words, (f"<none-{len(pairs)}>",))]
    hypotheses = {str(i): words for i, (words, _) in enumerate(pairs)} or {"0": ()}
    given = {str(i): [words] for i, (_, words) in enumerate(pairs)} or {"0": [("<none>",)]}
    scores, absent = caption_scores(hypotheses, given, metrics)
    if absent:
        raise DeixisError(next(iter(absent.values())))
    return {score.name: score.value if pairs else 0.0 for score in scores}


# Files --------------------------------------------------------------------------------------------------------------


def is_dense_reference(path: Path) -> bool:
    """Return whether a file is a reference file of densevid_eval, by its first video."""
    if not path.is_file() or path.suffix.lower() != ".json":
        return False
    document = read_json(path)
    first = next(iter(document.values()), None) if isinstance(document, dict) else None
    return isinstance(first, dict) and "timestamps" in first and "sentences" in first


def read_dense_reference(path: Path) -> Events:
    """Read a reference file, such as ``anet_entities_val_1.json``."""
    document = read_json(path)
    if not isinstance(document, dict) or not document:
        raise BadFile(path, "expected an object of videos")
    found: dict[str, list[Event]] = {}
    for video, record in document.items():
        times, sentences = (
            record.get(name) if isinstance(record, dict) else None for name in ("timestamps", "sentences")
        )
        if not isinstance(times, list) or not isinstance(sentences, list) or len(times) != len(sentences):
            raise BadFile(path, f'{video}: expected lists "timestamps" and "sentences" of one length')
        found[video] = [_event(path, video, time, text) for time, text in zip(times, sentences, strict=True)]
    return found


def read_dense_captions(path: Path) -> Events:
    """Read a submission of dense captions."""
    document = read_json(path)
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, dict):
        raise BadFile(path, 'the object "results" is missing: not a submission of dense captions')
    found: dict[str, list[Event]] = {}
    for video, records in results.items():
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise BadFile(path, f"{video}: expected a list of segments")
        found[video] = [
            _event(path, video, record.get("timestamp"), record.get("sentence")) for record in records[:MAX_EVENTS]
        ]
    return found


def write_dense_captions(path: Path, captions: Events) -> None:
    """Write a submission of dense captions; times have two decimals, as GVD writes them."""
    results = {
        video: [
            {"sentence": one.text or " ".join(one.words), "timestamp": [round(one.start, 2), round(one.end, 2)]}
            for one in events
        ]
        for video, events in captions.items()
    }
    external = {"used": True, "details": "see the model card"}
    write_atomic(path, json.dumps({"results": results, "version": "VERSION 1.0", "external_data": external}))


def _event(path: Path, video: str, time: Any, text: Any) -> Event:
    numbers = isinstance(time, list) and len(time) == 2 and all(isinstance(x, int | float) for x in time)
    if not numbers or not all(abs(x) < 1e12 for x in time):
        raise BadFile(path, f"{video}: a time is {str(time)[:40]}, expected [start, end] in seconds")
    if not isinstance(text, str):
        raise BadFile(path, f"{video}: a sentence is missing")
    plain = "".join(letter if ord(letter) < 128 else " " for letter in text)  # as densevid_eval
    return Event(float(time[0]), float(time[1]), tokens(plain), text)
