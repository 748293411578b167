"""``deixis regions``: the JSON, the picture and the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis import cli
from deixis.images import load_image
from deixis.pipelines.models import load_captioner

TINY = ["--backbone", "tiny", "--boxes", "20"]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    blocks = np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize((160, 120), Image.Resampling.NEAREST).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_the_default_regions_are_those_of_the_default_captioner(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["regions", str(photo), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    extractor = load_captioner().extractor
    assert found["extractor"] == extractor.name
    expected = extractor.extract(load_image(photo)).boxes
    assert np.allclose([region["box"] for region in found["regions"]], expected, atol=0.1)


def test_json_has_every_region(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["regions", str(photo), "--json", *TINY]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["image"], found["width"], found["height"]) == (str(photo), 160, 120)
    assert found["extractor"].startswith("tiny+selective-search-")
    assert 1 < len(found["regions"]) <= 20
    assert found["regions"][0]["box"] == [0, 0, 160, 120]
    for region in found["regions"]:
        assert set(region) == {"box", "score", "label", "prob", "labels"}
        assert len(region["labels"]) == 5
        assert {"label": region["label"], "prob": region["prob"]} == region["labels"][0]


def test_the_picture_is_drawn_and_people_get_a_table(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = photo.with_name("out.png")
    assert cli.run(["regions", str(photo), "--draw", str(drawn), "--top", "3", *TINY]) == 0
    said = capsys.readouterr()
    assert "prob" in said.out
    assert f"drawn: {drawn}" in said.err
    with Image.open(drawn) as picture, Image.open(photo) as original:
        plain = np.asarray(original.convert("RGB").resize(picture.size, Image.Resampling.LANCZOS)).astype(int)
        changed = np.abs(np.asarray(picture).astype(int) - plain).max(2) > 40
    assert 0.01 < changed.mean() < 0.6


def test_wrong_use_is_answered_in_sentences(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, code, sentence in (
        ([str(photo.with_name("absent.jpg"))], 1, "absent.jpg does not exist"),
        ([str(photo), "--draw", str(photo.with_name("out.docx")), *TINY], 1, "out.docx cannot be written"),
        ([str(photo), "--backbone", "resnet"], 1, "unknown backbone 'resnet'"),
        ([str(photo), "--top", "0"], 2, "--top must be at least 1"),
    ):
        assert cli.run(["regions", *options]) == code
        assert sentence in capsys.readouterr().err
