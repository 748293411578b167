"""The precondition of attention distillation: attention accuracy of teacher and student."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data.scenes import make_scenes
from deixis.evaluation.precondition import Precondition, teacher_precondition
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.training.data import TrainingData
from deixis.types import Regions
from deixis.vision.extractor import named_extractor
from small_models import small_captioner


def test_the_message_says_whether_it_is_met() -> None:
    assert Precondition(0.3, 0.1).message().endswith("teacher 0.300, student 0.100")
    assert "Precondition not met" in Precondition(0.1, 0.1).message()


@pytest.fixture
def data() -> TrainingData:
    samples = list(make_scenes(6, 0, "train"))
    extractor = named_extractor("tiny", "grid")
    regions = {sample.image_id: extractor.extract(sample.open()) for sample in samples}
    return TrainingData(samples[:4], samples[4:], regions, extractor.to_json(), "scenes")


def test_both_are_measured_on_validation_boxes(data: TrainingData, tmp_path: Path) -> None:
    """With regions that are all the true box of a phrase, any attention is right; with tiny ones, none is."""
    vocabulary = Vocabulary.build([caption.tokens for sample in data.training for caption in sample.captions], 1)
    torch.manual_seed(0)
    network = ScanNet(ScanConfig(len(vocabulary), 16, words=8, embed=12))
    ScanGrounder(network, vocabulary, data.extractor, "teacher").save_pretrained(tmp_path / "teacher")
    small_captioner(vocabulary=vocabulary).save_pretrained(tmp_path / "student")

    def with_boxes(box: tuple[float, float, float, float]) -> TrainingData:
        changed: dict[str, Regions] = {}
        for image, regions in data.regions.items():
            width, height = regions.size
            boxes = np.tile(np.array(box) * [width, height, width, height], (len(regions), 1)).astype(np.float32)
            changed[image] = replace(regions, boxes=boxes)
        return replace(data, regions=changed)

    nothing = teacher_precondition(tmp_path / "teacher", tmp_path / "student", with_boxes((0, 0, 0.01, 0.01)))
    assert nothing == Precondition(0.0, 0.0)
    assert not nothing.met
    unboxed = [replace(sample, entities=()) for sample in data.validation]
    assert teacher_precondition(tmp_path / "teacher", tmp_path / "student", replace(data, validation=unboxed)) is None
