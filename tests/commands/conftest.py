"""A small captioner and a folder of pictures, for the verbs to work on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.model import Captioner, Style
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.vision.extractor import named_extractor

RECIPE = {"name": "a-recipe", "paper": "A Paper", "seed": 3, "supervision": "photographs with captions, no boxes"}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a captioner that has learnt nothing."""
    torch.manual_seed(0)
    eyes = named_extractor("tiny", "grid")
    vocabulary = Vocabulary.build([["a", "dog", "runs", "ball", "and", "red"]], minimum=1)
    width = eyes.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    decoder = Decoder(DecoderConfig(len(vocabulary), width, words=8, hidden=12, attention=6, branches=2))
    extractor = eyes.to_json()
    captioner = Captioner(decoder, vocabulary, extractor, "small", Style(max_words=6, min_words=3))
    folder = tmp_path_factory.mktemp("models") / "small"
    metrics = {"epoch": 2, "validation": {"CIDEr": 0.5, "F1_all": 0.02}}
    captioner.save_pretrained(folder, {"recipe.json": json.dumps(RECIPE), "metrics.json": json.dumps(metrics)})
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Five pictures, one of them in a subfolder, and a file that is none."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for seed, name in enumerate(["0.png", "1.png", "2.png", "3.png", "more/0.png"]):
        picture(seed).save(folder / name)
    (folder / "broken.jpg").write_bytes(b"no picture at all")
    return folder


def picture(seed: int) -> Image.Image:
    """A picture of noise."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8))
