"""``deixis export``: a format of another tool and back, and what is refused."""

import json
from dataclasses import replace

import pytest

from deixis import cli
from deixis.types import GroundedCaption, Grounding

DOG = Grounding("dog", (10.25, 20.0, 59.5, 79.75), 0.75, 2, 3, parts=((10.25, 20.0, 30.0, 40.0),))
BOY = Grounding("boys", (0.0, 0.0, 100.0, 80.0), 0.5, 6, 7)
SAID = GroundedCaption(
    ("a", "brown", "dog", "and", "the", "two", "boys"),
    (DOG, BOY),
    logprob=-3.5,
    image="beach.jpg",
    width=100,
    height=80,
    model="da",
    caption="A brown dog, and the two boys.",
)


def test_the_verb(tmp_path, capsys):
    source = tmp_path / "p.jsonl"
    source.write_text(json.dumps(SAID.to_json()) + "\n{broken\n")
    out = tmp_path / "f30k"
    assert cli.run(["export", str(source), "--to", "flickr30k-entities", "--out", str(out), "--json"]) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert (summary["images"], summary["captions"], summary["boxes"]) == (1, 1, 2)
    assert summary["skipped"][0]["line"] == 2
    assert "1 records skipped:" in said.err
    assert cli.run(["data", "check", str(out), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["dataset"] == "flickr30k_entities"
    assert cli.run(["export", str(out), "--to", "jsonl", "--out", str(tmp_path / "b.jsonl"), "--quiet"]) == 0
    back = GroundedCaption.from_json(json.loads((tmp_path / "b.jsonl").read_text()))
    assert [g.text for g in back.groundings] == ["dog", "boys"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("to", ["coco", "label-studio", "pascal-voc"])
def test_an_export_without_image_sizes_writes_nothing_and_fails(to, tmp_path, capsys):
    source = tmp_path / "p.jsonl"
    source.write_text(json.dumps(replace(SAID, width=0, height=0).to_json()))
    out = tmp_path / "out"
    assert cli.run(["export", str(source), "--to", to, "--out", str(out)]) == 1
    assert f"p.jsonl has no image sizes, which {to} needs; nothing was written." in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "more", "code", "reason"),
    [
        ("{broken", [], 1, "has nothing to export (1 bad records"),
        (None, [], 1, "does not exist"),
        ('{"x": 1}', [], 1, "unknown format"),
        (json.dumps(SAID.to_json()), ["--split", "../x"], 2, "a plain name"),
        (json.dumps(SAID.to_json()), ["--images", "no-such"], 1, "is not a folder"),
    ],
)
def test_refusals(tmp_path, capsys, content, more, code, reason):
    source = tmp_path / "p.jsonl"
    if content is not None:
        source.write_text(content)
    assert cli.run(["export", str(source), "--to", "csv", "--out", str(tmp_path / "o.csv"), *more]) == code
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
