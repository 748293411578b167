"""Triplet files of AMC's authors: rows of image, caption and boxes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.cli import run
from deixis.data import recognise, vg_triplets
from deixis.data.report import inspect
from deixis.errors import DeixisError
from small_models import save_noise


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "VG_100K").mkdir()
    for name in ("2", "5"):
        save_noise(tmp_path / "VG_100K" / f"{name}.jpg", int(name), (60, 40))
    rows = {
        "vg_descriptions.json": [
            {"image": "VG_100K/2.jpg", "caption": "the clock is green", "bbox": [[1, 2, 30, 38]]},
            {"image": "VG_100K/5.jpg", "caption": "", "bbox": [[0, 0, 9, 9]]},
            {"image": "../5.jpg", "caption": "outside", "bbox": [[0, 0, 60, 40]]},
        ],
        "vg_attributes.json": [
            {"image": "VG_100K/2.jpg", "caption": ["a red dog", "a dog"], "bbox": [[0, 0, 30, 20], [20, 10, 70, 40]]}
        ],
        "vg_attributes_spatial.json": [
            {"image": "VG_100K/5.jpg", "caption": "top dog", "bbox": [[0, 0, 40, 20]]},
            {"image": "VG_100K/5.jpg", "caption": "bottom dog", "bbox": [0, 1]},
        ],
    }
    for name, content in rows.items():
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path


def test_rows_become_triplets(root: Path) -> None:
    assert recognise(root).NAME == "vg_triplets"
    dataset = vg_triplets.load(root)
    found = [(t.image_id, t.text, t.box, t.source) for sample in dataset for t in vg_triplets.triplets(sample)]
    assert found == [
        ("VG_100K/2.jpg", "the clock is green", (1, 2, 30, 38), "region"),
        ("VG_100K/2.jpg", "a red dog", (0, 0, 30, 20), "attribute"),
        ("VG_100K/2.jpg", "a red dog", (20, 10, 60, 40), "attribute"),  # cut to the image
        ("VG_100K/2.jpg", "a dog", (0, 0, 30, 20), "attribute"),
        ("VG_100K/2.jpg", "a dog", (20, 10, 60, 40), "attribute"),
        ("VG_100K/5.jpg", "top dog", (0, 0, 40, 20), "spatial"),
    ]
    reasons = [entry.reason for entry in dataset.skipped]
    assert any("row 1" in reason and "caption" in reason for reason in reasons)
    assert any("row 1" in reason and "bbox" in reason for reason in reasons)
    assert any("../5.jpg" in reason for reason in reasons)
    with pytest.raises(DeixisError, match="--val-data"):
        vg_triplets.load(root, "val")


def test_triplets_are_counted_and_drawn(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(root).splits["train"].triplets == {"region": 1, "attribute": 4, "spatial": 1}
    assert run(["data", "check", str(root)]) == 0
    assert "region 1, attribute 4, spatial 1" in " ".join(capsys.readouterr().out.split())
    assert run(["data", "show", str(root), "--triplets", "--out", str(tmp_path / "sheet.svg")]) == 0
    drawn = (tmp_path / "sheet.svg").read_text()
    assert "top dog" in drawn
    assert "a red dog" in drawn
