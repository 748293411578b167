"""``deixis features``: a folder of images becomes a store, also when the command is interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis import cli
from deixis.vision.extractor import named_extractor
from deixis.vision.store import FeatureStore

OPTIONS = ["--backbone", "tiny", "--boxes", "10"]


def photo(seed: int = 0) -> Image.Image:
    """Blocks of colour."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((60, 40), Image.Resampling.NEAREST)


def cut(path: Path) -> None:
    """Write a JPEG without its end."""
    photo().save(path)
    path.write_bytes(path.read_bytes()[:-300])


@pytest.mark.slow
def test_a_folder_becomes_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, store = tmp_path / "photos", tmp_path / "store"
    (images / "deeper").mkdir(parents=True)
    (images / ".thumbnails").mkdir()
    for number in range(6):
        photo(number).save(images / f"{number}.jpg")
    photo(7).save(images / "deeper" / "7.PNG")
    photo(8).save(images / ".thumbnails" / "8.png")
    (images / "notes.txt").write_text("not an image")
    cut(images / "cut.jpg")
    (images / "text.png").write_bytes(b"not an image")

    assert cli.run(["features", str(images), "-o", str(store), "--processes", "2", "--json", "--verify", *OPTIONS]) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert (summary["images"], summary["added"], set(summary["skipped"])) == (7, 7, {"text.png", "cut.jpg"})
    assert "truncated" in summary["skipped"]["cut.jpg"]
    assert "text.png" in said.err
    assert "all checksums match" in said.err
    opened = FeatureStore(store)
    assert sorted(opened) == ["0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg", "deeper/7.PNG"]
    expected = named_extractor("tiny", "selective-search", 10).extract(Image.open(images / "deeper" / "7.PNG"))
    np.testing.assert_allclose(opened["deeper/7.PNG"].features, expected.features, atol=2e-3)
    np.testing.assert_array_equal(opened["deeper/7.PNG"].boxes, expected.boxes)
    assert opened.extractor == expected.extractor

    # Again: the mended image is tried, the text is not, nothing is done twice.
    photo(9).save(images / "cut.jpg")
    assert cli.run(["features", str(images), "-o", str(store), "--processes", "1", "--json", *OPTIONS]) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert (summary["images"], summary["added"], set(summary["skipped"])) == (8, 1, {"text.png"})
    assert "8 of 9 images are already done" in said.err


@pytest.mark.slow
def test_a_folder_without_a_usable_image_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    cut(tmp_path / "photos" / "cut.jpg")
    assert cli.run(["features", str(tmp_path / "photos"), "-o", str(tmp_path / "store"), *OPTIONS]) == 1
    assert "None of the 1 images could be used" in capsys.readouterr().err


@pytest.mark.slow
def test_shards_and_sources_give_the_store_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = tmp_path / "photos"
    images.mkdir()
    for number in range(6):
        photo(number).save(images / f"{number}.png")
    (images / "text.png").write_bytes(b"not an image")
    options = [*OPTIONS, "--batch", "4", "--processes", "1", "--json"]
    assert cli.run(["features", str(images), "-o", str(tmp_path / "whole"), *options]) == 0
    for part in ("1/2", "2/2"):
        assert cli.run(["features", str(images), "-o", str(tmp_path / "parts"), *options, "--shard", part]) == 0
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"photos/{path.name}\n" for path in sorted(images.iterdir())))
    capsys.readouterr()
    for added in (6, 0):  # the second run has nothing to do
        assert cli.run(["features", str(listed), "-o", str(tmp_path / "listed"), *options]) == 0
        summary = json.loads(capsys.readouterr().out)
        assert (summary["images"], summary["added"], set(summary["skipped"])) == (6, added, {"photos/text.png"})
    whole, parts, rows = (FeatureStore(tmp_path / name) for name in ("whole", "parts", "listed"))
    assert sorted(whole) == sorted(parts)
    assert set(whole.skipped()) == set(parts.skipped()) == {"text.png"}
    for image_id, regions in whole.items():
        for other in (parts[image_id], rows[f"photos/{image_id}"]):
            np.testing.assert_array_equal(other.boxes, regions.boxes)
            np.testing.assert_allclose(other.features, regions.features, atol=2e-3)
    assert cli.run(["features", "scenes:4", "-o", str(tmp_path / "scenes"), "--processes", "1", *OPTIONS]) == 0
    assert len(FeatureStore(tmp_path / "scenes")) >= 4
    assert cli.run(["features", str(listed), "-o", str(tmp_path / "other"), "--split", "val", *OPTIONS]) == 2
    assert "--split" in capsys.readouterr().err
    assert cli.run(["features", str(images), "-o", str(tmp_path / "other"), "--actors", "2", *OPTIONS]) == 2
    assert "--engine ray" in capsys.readouterr().err


INTERRUPTED = """
import os, signal, sys
from deixis import cli
from deixis.vision.store import StoreWriter
add = StoreWriter.add
def add_or_stop(self, image_id, regions):
    add(self, image_id, regions)
    if len(self.image_ids) == 5:
        os.killpg(0, signal.SIGINT)  # what a terminal does on Ctrl-C: to this process and to its workers
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    StoreWriter.add = add_or_stop
    cli.main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups to send Ctrl-C to")
def test_ctrl_c_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, store = tmp_path / "photos", tmp_path / "store"
    images.mkdir()
    for number in range(12):
        photo(number).save(images / f"{number:02d}.png")
    options = ["features", str(images), "-o", str(store), "--processes", "1", *OPTIONS]
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert process.returncode == 130
    assert "has 5 images. The same command resumes." in process.stderr.replace("\n", " ")
    assert "Traceback" not in process.stderr
    assert len(FeatureStore(store)) == 5
    assert cli.run(options) == 0
    assert "5 of 12 images are already done" in capsys.readouterr().err
    assert sorted(FeatureStore(store)) == [f"{number:02d}.png" for number in range(12)]
