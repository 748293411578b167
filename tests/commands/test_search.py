"""``deixis search``: the best photographs first, boxes of the sentence's noun phrases, and errors."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from deixis import DeixisError, cli
from deixis.commands.search import search
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.pipelines.search import search as search_store
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, FeatureStore, StoreWriter
from small_models import noise, save_noise, small_fusion, small_matcher

VOCABULARY = Vocabulary.build([["a", "dog", "ball", "and"]], minimum=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of noise, their store and an untrained matcher."""
    root = tmp_path_factory.mktemp("search")
    extractor = named_extractor("tiny", "grid")
    (root / "photos").mkdir()
    with StoreWriter(root / "store", Contents(extractor.name, extractor.description, {})) as store:
        for i in range(6):
            save_noise(root / "photos" / f"{i}.png", i, (60, 40 + 10 * i))
            store.add(f"{i}.png", extractor.extract(noise(i, (60, 40 + 10 * i))))
    small_matcher(VOCABULARY, "test").save_pretrained(root / "model")
    return root


def ask(folder: Path, *more: str) -> list[str]:
    return ["search", str(folder / "store"), "a dog and a ball", "--model", str(folder / "model"), *more]


def test_photographs_come_by_score_with_their_noun_phrases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(ask(folder, "--top", "4", "--json")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    store, matcher = FeatureStore(folder / "store"), ScanGrounder.from_pretrained(folder / "model")
    expected = {name: matcher.scores([store[name]], ["a dog and a ball"]).item() for name in store}
    assert len(set(expected.values())) == 6
    assert [line["image"] for line in lines] == sorted(expected, key=lambda name: -expected[name])[:4]
    for line in lines:
        assert line["score"] == pytest.approx(expected[line["image"]], abs=1e-6)
        assert [g["word"] for g in line["groundings"]] == ["a dog", "a ball"]
        for g in line["groundings"]:
            assert g["box"][0] <= g["point"][0] <= g["box"][2]
            assert g["box"][1] <= g["point"][1] <= g["box"][3]
            assert "heat" not in g


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


@pytest.mark.parametrize(
    ("sentence", "said"), [("zyzzyva", "no word of 'zyzzyva' is in the vocabulary of test"), ("...", "has no words")]
)
def test_sentences_that_cannot_be_found_are_errors(
    folder: Path, capsys: pytest.CaptureFixture[str], sentence: str, said: str
) -> None:
    assert cli.run(["search", str(folder / "store"), sentence, "--model", str(folder / "model")]) == 1
    assert said in capsys.readouterr().err


def test_a_sentence_without_noun_phrases_has_no_boxes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["search", str(folder / "store"), "and", "--model", str(folder / "model"), "--json"]) == 0
    assert all(json.loads(line)["groundings"] == [] for line in capsys.readouterr().out.splitlines())


def test_equal_scores_keep_the_order_of_the_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, matcher = FeatureStore(folder / "store"), ScanGrounder.from_pretrained(folder / "model")
    monkeypatch.setattr(matcher, "evidence", lambda photo, phrases: [0.5])
    assert [hit.image for hit in search_store(store, "a dog", matcher, 4)] == list(store)[:4]


def test_photographs_of_another_extractor_are_refused(folder: Path, tmp_path: Path) -> None:
    with StoreWriter(tmp_path, Contents("another", {}, {})) as store:
        store.add("x", replace(FeatureStore(folder / "store")["0.png"], extractor="another"))
    with pytest.raises(DeixisError, match="another"):
        search(tmp_path, "a dog", str(folder / "model"))


def test_an_empty_store_is_an_error(folder: Path, tmp_path: Path) -> None:
    with StoreWriter(tmp_path, Contents(named_extractor("tiny", "grid").name, {}, {})):
        pass
    with pytest.raises(DeixisError, match="has no photographs"):
        search(tmp_path, "a dog", str(folder / "model"))


def test_a_fusion_model_searches_a_store_with_grids(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without grids it names the option that makes them; a model that reads pixels cannot search at all."""
    fusion = small_fusion(["a dog and a ball"], pixels=False)
    fusion.save_pretrained(tmp_path / "fusion")
    with pytest.raises(DeixisError, match=r"Extract again with `deixis features --grid 4`"):
        search(folder / "store", "a dog", str(tmp_path / "fusion"))
    extractor = named_extractor("tiny", "grid", grid=4)
    with StoreWriter(tmp_path / "store", Contents(extractor.name, extractor.description, {})) as store:
        for i in range(3):
            store.add(f"{i}.png", extractor.extract(noise(i)))
    order = ["search", str(tmp_path / "store"), "a dog", "--json", "--model"]
    assert cli.run([*order, str(tmp_path / "fusion")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["score"] for line in lines] == sorted((line["score"] for line in lines), reverse=True)
    assert {line["image"] for line in lines} == {"0.png", "1.png", "2.png"}
    small_fusion(["a dog"]).save_pretrained(tmp_path / "pixels")
    assert cli.run([*order, str(tmp_path / "pixels")]) == 1
    assert "reads pixels, and a store has regions" in capsys.readouterr().err
