"""Hostile names, pictures of noise and small models, which the tests of this folder share."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

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
