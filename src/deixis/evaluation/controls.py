"""Controls without a model: lower and upper bounds for phrase grounders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from deixis.errors import DeixisError
from deixis.metrics.evaluate import Evaluation, Options, evaluate
from deixis.metrics.formats import Mention, Predictions, phrase_key
from deixis.metrics.phrases import FLICKR30K, REFER, overlaps
from deixis.metrics.references import Reference
from deixis.types import Box, Grounding, Regions

Control = Literal["whole-image", "best-proposal"]


def evaluate_control(control: Control, reference: Reference, regions: Mapping[str, Regions]) -> Evaluation:
    """Score the whole image, or the proposal with the highest IoU, as the prediction for each phrase."""
    protocol = FLICKR30K if reference.name == "flickr30k_entities" else REFER
    answers = {}
    for phrase in reference.phrases:
        box: Box = (0.0, 0.0, float(phrase.size[0]), float(phrase.size[1]))
        if control == "best-proposal":
            boxes = regions[phrase.image].boxes.astype(float)
            x1, y1, x2, y2 = boxes[int(overlaps([phrase] * len(boxes), boxes, protocol).argmax())].tolist()
            box = (x1, y1, x2, y2)
        mention = Mention(phrase.image, phrase_key(phrase.phrase), phrase.caption, phrase.start)
        answers[mention] = (Grounding(phrase.phrase, box, 1.0),)
    if not answers:
        raise DeixisError(f"{reference.name}, split {reference.split}: no phrases with boxes. Choose another split.")
    predictions = Predictions(Path(control), "deixis", phrases=answers)
    return evaluate(predictions, reference, Options(metrics=("words", "phrases"), missing="skip"))
