"""Controls without a model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deixis import DeixisError
from deixis.data.scenes import make_scenes
from deixis.evaluation.controls import evaluate_control
from deixis.metrics.phrases import REFER, baselines
from deixis.metrics.references import make_reference
from deixis.vision.extractor import named_extractor


def test_controls_agree_with_the_baselines_of_the_evaluator() -> None:
    reference = make_reference(make_scenes(2, 0, "test"), tuple)
    extractor = named_extractor("tiny", "grid")
    regions = {sample.image_id: extractor.extract(sample.open()) for sample in reference.samples}
    known = {
        score.name: score.value
        for score in baselines(reference.phrases, REFER, {image: seen.boxes for image, seen in regions.items()})
    }
    whole = {score.name: score.value for score in evaluate_control("whole-image", reference, regions).scores}
    best = {score.name: score.value for score in evaluate_control("best-proposal", reference, regions).scores}
    assert whole["accuracy"] == known["baseline_whole_image"]
    assert whole["pointing"] == known["baseline_image_centre"]
    assert best["accuracy"] == known["bound_best_proposal"]


def test_a_split_without_boxes_is_refused() -> None:
    reference = replace(make_reference(make_scenes(1, 0, "test"), tuple), phrases=[])
    with pytest.raises(DeixisError, match="no phrases with boxes"):
        evaluate_control("whole-image", reference, {})
