"""A data set, its features and two small models, in folders whose names are hostile."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import cli
from deixis.calibration import Calibration
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.vision.extractor import named_extractor

HOSTILE = os.fsdecode(b"[red]\xff\x1b[2J[/nope]")
"""A name with rich markup, a byte that is not UTF-8, and an escape sequence that clears the terminal."""

SENTENCES = ("a dog runs after a red ball", "a man and a dog")


@dataclass(frozen=True)
class World:
    """Files that verbs work on, all below one folder with a hostile name."""

    root: Path
    photo: Path  # also with a hostile name
    photos: Path
    data: Path
    store: Path
    captioner: Path
    grounder: Path


def picture(seed: int = 0, size: tuple[int, int] = (60, 40)) -> Image.Image:
    """A picture of noise."""
    noise = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(noise)


def small_models(captioner: Path, grounder: Path) -> None:
    """Write a captioner and a matcher that were not trained."""
    torch.manual_seed(0)
    extractor = named_extractor("tiny", "grid")
    vocabulary = Vocabulary.build([sentence.split() for sentence in SENTENCES], minimum=1)
    width = extractor.extract(picture()).features.shape[1]
    sizes = DecoderConfig(len(vocabulary), width, words=8, hidden=12, attention=6, branches=2)
    generation = GenerationConfig(max_words=6, min_words=3)
    about = {"recipe.json": json.dumps({"name": "r", "supervision": "captions"}), "metrics.json": "{}"}
    network = Captioner(Decoder(sizes), vocabulary, extractor.to_json(), "small", generation)
    network.save_pretrained(captioner, about)
    matcher = ScanNet(ScanConfig(len(vocabulary), width, words=8, embed=12, count="nouns"))
    ScanGrounder(matcher, vocabulary, extractor.to_json(), "matcher", Calibration(1.0)).save_pretrained(grounder, about)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of a small captioner and a small matcher."""
    root = tmp_path_factory.mktemp("models")
    small_models(root / "captioner", root / "grounder")
    return root / "captioner", root / "grounder"


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world") / HOSTILE
    try:
        root.mkdir(parents=True)  # the slash of "[/nope]" makes two folders
    except OSError:
        pytest.skip("this file system takes only names that are UTF-8")
    photos, data = root / "photos", root / "data"
    photos.mkdir()
    data.mkdir()
    photo = photos / f"{HOSTILE.replace('/', ':')}.png"
    picture().save(photo)
    picture(1).save(photos / "plain.png")
    lines = []
    for number in range(8):
        name, split = f"[b]{number}.png", ("train", "train", "val", "test")[number % 4]
        picture(number).save(data / name)
        lines += [json.dumps({"image": name, "caption": each, "split": split}) for each in SENTENCES]
    (data / "captions.jsonl").write_text("\n".join(lines) + "\n")
    made = World(root, photo, photos, data, root / "store", root / "captioner", root / "grounder")
    small_models(made.captioner, made.grounder)
    tiny = ["--backbone", "tiny", "--proposals", "grid", "--processes", "1", "--quiet"]
    assert cli.run(["features", str(data), "-o", str(made.store), *tiny]) == 0
    return made


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parses are kept for the tests of this folder only."""
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    return None
