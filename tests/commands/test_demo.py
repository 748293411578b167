"""``deixis demo``: captions, pictures and a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from deixis import GroundedCaption, cli
from deixis.commands import demo

NAMES = ["astronaut", "chelsea", "coffee", "rocket", "motorcycle", "grace-hopper"]


def test_pictures_a_page_and_sentences(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert cli.run(["demo", "--out", str(out), "--model", str(model), "--json"]) == 0
    said = capsys.readouterr()
    captions = [GroundedCaption.from_json(json.loads(line)) for line in said.out.splitlines()]
    assert [caption.image for caption in captions] == NAMES
    assert [(caption.width, caption.height) for caption in captions] == [
        *((512, 512), (451, 300), (600, 400)),
        *((640, 427), (741, 500), (512, 600)),
    ]
    assert str(out / "index.html") in said.err
    for name in NAMES:
        with Image.open(out / f"{name}.png") as drawn:
            assert min(drawn.size) >= 300
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg;base64,") == 6
    assert all(name in page for name in NAMES)
    assert not any(json.loads(line)["sure"] for line in said.out.splitlines())  # the captioner is untrained
    assert "low confidence" in page
    assert cli.run(["demo", "--out", str(out), "--model", str(model), "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [f"{caption.image}\t{caption.caption}" for caption in captions]
    assert said.err == ""


def test_what_is_missing_is_an_error(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert cli.run(["demo", "--out", str(tmp_path / "file"), "--model", str(model)]) == 1
    assert (
        f"{tmp_path / 'file'} cannot be written (File exists). It is a file; choose a folder."
        in capsys.readouterr().err
    )
    monkeypatch.setattr(demo, "PHOTOS", {"astronaut": ("missing_package", "astronaut.png")})
    assert cli.run(["demo", "--out", str(tmp_path), "--model", str(model)]) == 1
    assert "pip install 'deixis[demo]'" in capsys.readouterr().err
