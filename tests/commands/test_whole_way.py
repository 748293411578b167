"""From official files to a scored submission, for every layout: import, train two steps, eval, export, score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import official_files as official
from deixis import cli

pytest.importorskip("h5py")
pytest.importorskip("pyarrow")

TINY = [
    *("--model.words", "16", "--model.hidden", "16", "--model.attention", "16"),
    "--batch-images",
    "2",
    "--phases.0.epochs",
    "1",
    "--max-words",
    "8",
    "--device",
    "cpu",
]


def features(layout: str, folder: Path) -> list[str]:
    """Write the features of a layout; return the options that import them."""
    folder.mkdir()
    match layout:
        case "gvd":
            official.gvd_flickr30k(folder)
            official.glove(folder / "glove.txt")
            return ["--from", str(folder), "--layout", "gvd", "--glove", str(folder / "glove.txt")]
        case "bottom-up":
            official.feature_folders(folder, official.bottom_up())
            official.talk(folder)
            return ["--from", str(folder), "--layout", "bottom-up"]
        case _:
            official.tsv(folder / "some.tsv", official.bottom_up())
            store, plain = folder / "store", folder / f"plain.{layout}"
            run("features", "--from", str(folder / "some.tsv"), "--layout", "bottom-up", "-o", str(store))
            run("export", str(store), "--to", layout, "-o", str(plain))
            return ["--from", str(plain), "--layout", layout]


def run(*args: str) -> None:
    assert cli.run(list(args)) == 0, args


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["gvd", "bottom-up", "npz", "parquet"])
def test_files_to_row(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, store, model = tmp_path / "data", tmp_path / "my.store", tmp_path / "model"
    official.gvd_annotations(data)
    run("features", *features(layout, tmp_path / "features"), "-o", str(store))
    words, classes = ["--vocabulary", str(data / "dic_flickr30k.json")], ["--classes", str(data / "dic_flickr30k.json")]
    common = ["--data", str(data), "--features", str(store)]
    recipe = "gvd-small" if layout == "gvd" else "updown-small"
    small = [*TINY, "--model.grid", "0"] if layout == "gvd" else TINY
    run("train", recipe, *common, "--out", str(model), *words, *classes, *small)
    vocabulary = json.loads((model / "vocabulary.json").read_text())["words"]
    assert vocabulary == list(official.WORDS[:-1])  # the paper's own words
    out = tmp_path / "eval"
    alone = ["--grounder", "none", "--shown", "0"]
    run("eval", str(model), *common, *classes, *alone, "--split", "test", "--out", str(out))
    capsys.readouterr()
    reference = [
        *("--reference", str(data / "flickr30k_cleaned_class.json"), "--split", "test"),
        *("--split-file", str(data / "split_ids_flickr30k_entities.json")),
    ]
    grounding = {"gen": ["--metrics", "grounding"], "GT": []}
    for name, mode in (("captions.jsonl", "gen"), ("phrases.jsonl", "GT")):
        submission = tmp_path / f"{mode}.json"
        run("export", str(out / name), "--to", "gvd", *reference, *classes, "-o", str(submission))
        written = json.loads(submission.read_text())
        assert written["eval_mode"] == mode
        assert {len(entries) for entries in written["results"].values()} == {1 if mode == "gen" else 5}
        run("score", str(submission), *reference, *classes, *grounding[mode], "--json")
        scores = json.loads(capsys.readouterr().out)["scores"]
        assert all("split:test" in score["signature"] for score in scores.values())
        if mode == "gen":
            run("score", str(out / name), *reference, *classes, *grounding[mode], "--json")
            direct = json.loads(capsys.readouterr().out)["scores"]
            for metric, score in scores.items():
                assert score["value"] == pytest.approx(direct[metric]["value"], abs=1e-9)
            assert "classes_generated" in scores
        else:
            own = json.loads((out / "scores.json").read_text())["scores"]
            value = (
                next(s["value"] for s in own if s["name"] == "attention_accuracy") if isinstance(own, list) else None
            )
            value = own["attention_accuracy"]["value"] if value is None else value
            assert scores["attention_accuracy"]["value"] == pytest.approx(value, abs=1e-9)
