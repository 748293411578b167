"""Submissions to the evaluators of Grounded Video Description, for Flickr30k and ActivityNet.

``{"results": {image: [{"clss", "idx_in_sent", "bbox"}]}, "eval_mode", "external_data"}``; for ActivityNet ``{video:
{segment: {"clss", "idx_in_sent", "bbox_for_all_frames"}}}``. Corners are 0-based and inclusive. Generated sentences
(``"gen"``) have one entry per image, with positions in the generated caption. Ground-truth sentences (``"GT"``) have
one entry for each sentence of the reference, five for Flickr30k, with positions in its tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deixis import boxes as geometry
from deixis.data.gvd import joined
from deixis.errors import DeixisError
from deixis.files import write_atomic
from deixis.language.tokenise import align
from deixis.metrics.evaluate import Options, generated_words
from deixis.metrics.formats import Predictions
from deixis.metrics.grounded_captions import ObjectWord, Sentence, Sentences
from deixis.metrics.object_words import place_of
from deixis.metrics.references import Reference
from deixis.types import Json

FRAMES = 10
DETAILS = "Regions of an object detector; see the model card."


def write_submission(predictions: Predictions, reference: Reference, options: Options, out: Path) -> tuple[str, int]:
    """Write a submission from captions (generated) or phrases (ground truth); return its mode and number of images."""
    if not reference.sentences:
        raise DeixisError("a GVD submission needs GVD's reference file, such as flickr30k_cleaned_class.json.")
    if predictions.sentences:
        raise DeixisError(f"{predictions.path} is a GVD submission already.")
    if predictions.captions:
        mode, sentences = "gen", generated_words(predictions, reference, options)
    elif predictions.phrases:
        mode, sentences = "GT", _at_reference_words(predictions, reference)
    else:
        raise DeixisError(f"{predictions.path} has neither captions nor phrases.")
    results = _videos(sentences) if reference.video else _images(sentences)
    external = {"used": True, "details": DETAILS}
    write_atomic(out, json.dumps({"results": results, "eval_mode": mode, "external_data": external}))
    return mode, len(sentences)


def _at_reference_words(predictions: Predictions, reference: Reference) -> Sentences:
    """Image -> reference sentences whose object words have the predicted boxes; words without one are left out."""
    places = {
        (mention.image, mention.caption or 0, mention.start): place_of(found[0])
        for mention, found in predictions.phrases.items()
        if mention.start is not None
    }
    answered = {image for image, _, _ in places}
    if not answered:
        raise DeixisError(
            f'{predictions.path} does not say where its phrases are. Each needs "caption" and "start", as deixis eval '
            "writes them."
        )
    sentences: dict[str, list[Sentence]] = {}
    for image, group in reference.sentences.items():
        for number, sentence in enumerate(group if image in answered else ()):
            starts = _starts(list(sentence.tokens))
            words = [
                ObjectWord(word.name, word.index, *place)
                for word in sentence.objects
                if (place := places.get((image, number, starts[word.index]))) is not None
            ]
            sentences.setdefault(image, []).append(Sentence(tuple(words), sentence.tokens))
    return sentences


def _starts(official: list[str]) -> list[int]:
    """First token of our tokenisation of each token of the reference."""
    text, spans = joined(official)
    aligned = align(text)
    return [aligned.span(*span)[0] for span in spans]


def _images(sentences: Sentences) -> Json:
    return {
        image: [_entry(sentence, "bbox", [_corners(word)[0] for word in sentence.objects]) for sentence in group]
        for image, group in sentences.items()
    }


def _videos(sentences: Sentences) -> Json:
    results: Json = {}
    for name, (sentence, *_) in sentences.items():
        video, _, segment = name.rpartition("_segment_")
        rows = [_by_frame(word) for word in sentence.objects]
        results.setdefault(video, {})[segment] = _entry(sentence, "bbox_for_all_frames", rows)
    return results


def _entry(sentence: Sentence, boxes: str, rows: Sequence[object]) -> Json:
    return {
        "clss": [word.name for word in sentence.objects],
        "idx_in_sent": [word.index for word in sentence.objects],
        boxes: list(rows),
    }


def _corners(word: ObjectWord) -> list[list[float]]:
    found: list[list[float]] = geometry.to_zero_based_inclusive(np.array(word.boxes, dtype=np.float64)).tolist()
    return found


def _by_frame(word: ObjectWord) -> list[list[float]]:
    """One box for each frame; zeros where a frame has none."""
    rows = [[0.0] * 4 for _ in range(FRAMES)]
    frames = word.frames or range(FRAMES)
    for frame, corners in zip(frames, _corners(word), strict=False):
        if 0 <= frame < FRAMES:
            rows[frame] = corners
    return rows
