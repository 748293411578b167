"""A small captioner and a folder of pictures, for the verbs to work on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.methods.updown.decode import GenerationConfig
from small_models import save_noise, small_captioner

RECIPE = {"name": "a-recipe", "paper": "A Paper", "seed": 3, "supervision": "photographs with captions, no boxes"}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained captioner."""
    folder = tmp_path_factory.mktemp("models") / "small"
    metrics = {"epoch": 2, "validation": {"CIDEr": 0.5, "F1_all": 0.02}}
    small_captioner(GenerationConfig(max_words=6, min_words=3)).save_pretrained(
        folder, {"recipe.json": json.dumps(RECIPE), "metrics.json": json.dumps(metrics)}
    )
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Five pictures, one of them in a subfolder, and a file that is none."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for seed, name in enumerate(["0.png", "1.png", "2.png", "3.png", "more/0.png"]):
        save_noise(folder / name, seed)
    (folder / "broken.jpg").write_bytes(b"no picture at all")
    return folder
