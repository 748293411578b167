"""The verb that searches: the right photographs first, places of nouns, and sentences for what goes wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import DeixisError, cli
from deixis.commands.search import search
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, FeatureStore, StoreWriter

VOCABULARY = Vocabulary.build([["a", "dog", "ball", "and"]], minimum=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of noise, their store and an untrained matcher."""
    root = tmp_path_factory.mktemp("search")
    eyes = named_extractor("tiny", "grid")
    (root / "photos").mkdir()
    with StoreWriter(root / "store", Contents(eyes.name, eyes.description, {})) as store:
        for i in range(6):
            pixels = np.random.default_rng(i).integers(0, 255, (40 + 10 * i, 60, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "photos" / f"{i}.png")
            regions = eyes.extract(pixels)
            store.add(f"{i}.png", regions)
    torch.manual_seed(0)
    matcher = ScanNet(ScanConfig(len(VOCABULARY), regions.features.shape[1], words=8, embed=12))
    ScanGrounder(matcher, VOCABULARY, eyes.to_json(), "test").save_pretrained(root / "model")
    return root


def ask(folder: Path, *more: str) -> list[str]:
    return ["search", str(folder / "store"), "a dog and a ball", "--model", str(folder / "model"), *more]


def test_photographs_come_by_score_with_their_nouns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(ask(folder, "--top", "4", "--json")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    store, aligner = FeatureStore(folder / "store"), ScanGrounder.from_pretrained(folder / "model")
    expected = {name: aligner.score(store[name], "a dog and a ball") for name in store}
    assert [line["image"] for line in lines] == sorted(expected, key=lambda name: -expected[name])[:4]
    for line in lines:
        assert line["score"] == pytest.approx(expected[line["image"]], abs=1e-6)
        assert [g["word"] for g in line["groundings"]] == ["a dog", "a ball"]
        width, height = store[line["image"]].size
        assert all(0 <= g["point"][0] < width and 0 <= g["point"][1] < height for g in line["groundings"])
        assert "heat" not in line["groundings"][0]


def test_a_sheet_is_drawn_from_the_photographs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sheet.png"
    assert cli.run(ask(folder, "--images", str(folder / "photos"), "--draw", str(out))) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 6
    assert "a dog [" in said.out
    with Image.open(out) as sheet:
        assert sheet.width == pytest.approx(2000, abs=50)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--draw", "x.png"], 2, "--images"),
        (["--draw", "x.png", "--images", "elsewhere"], 1, "elsewhere"),
        (["--top", "0"], 2, "at least 1"),
    ],
)
def test_what_goes_wrong_is_told(
    folder: Path,
    args: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert cli.run(ask(folder, *args)) == code
    assert said in capsys.readouterr().err
    assert not Path("x.png").exists()


def test_words_that_nobody_knows_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["search", str(folder / "store"), "zyzzyva", "--model", str(folder / "model")]) == 1
    assert "knows no word" in capsys.readouterr().err


def test_photographs_of_another_extractor_are_refused(folder: Path, tmp_path: Path) -> None:
    with StoreWriter(tmp_path, Contents("another", {}, {})) as store:
        store.add("x", replace(FeatureStore(folder / "store")["0.png"], extractor="another"))
    with pytest.raises(DeixisError, match="another"):
        search(tmp_path, "a dog", folder / "model")
