"""``deixis report``: one page of whatever a run's folder has."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from deixis import GroundedCaption, Grounding, cli
from deixis.metrics.score import mean_score, save_scores

IMAGES = ("one", "two", "three", "four")
MARK = "data:own|split:test|v0"


def caption(image: str, noun: str) -> GroundedCaption:
    grounding = Grounding(noun, (5, 5, 40, 30), 0.5, 1, 2)
    return GroundedCaption(("a", noun), (grounding,), image=image, width=60, height=40, model="m")


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    log = [
        {"epoch": i, "step": i, "losses": {"words": 4.0 - i}, "scores": {"CIDEr": 0.1 * i, "F1_all": 0.01}}
        for i in range(3)
    ]
    write_lines(folder / "log.jsonl", log)
    recipe = {"name": "a <recipe>", "paper": "A Paper", "supervision": "captions, no boxes", "seed": 7}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    (folder / "metrics.json").write_text(json.dumps({"epoch": 2, "validation": {"CIDEr": 0.2}}))
    for split in ("val", "test"):
        captions = [caption(image, noun) for image, noun in zip(IMAGES, ("dog", "cat", "hat", "car"), strict=True)]
        records = [each.to_json() for each in captions]
        for record, kind in zip(records, ("correct", "partial", "correct", "partial"), strict=True):
            record["groundings"][0]["kind"] = kind
        write_lines(folder / f"eval-{split}" / "captions.jsonl", records)
        scores = [
            mean_score("CIDEr", IMAGES, [0.5, 0.1, 0.9, 0.3], f"{MARK}|cider"),
            mean_score("F1_all_per_sent", IMAGES, [0.5, 0.0, 1.0, 0.0], f"{MARK}|f1"),
        ]
        about = {"data": "own", "split": split, "supervision": "captions, no boxes"}
        classes = [["dog", 300, 10, 4], ["cat", 20, 8, 8], ["rare", 5, 1, 0]]
        save_scores(folder / f"eval-{split}" / "scores.json", scores, {**about, "classes": classes})
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for image in IMAGES[:3]:  # the fourth is lost
        Image.new("RGB", (1200, 800), "#406080").save(folder / f"{image}.png")
    return folder


def gallery(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="items">(.*?)</script>', page)
    return json.loads(found)


def test_a_run_becomes_one_page(run: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", str(run), "--images", str(photos)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "4 images" in err
    page = (run / "report.html").read_text()
    assert "<h1>a &lt;recipe&gt;</h1>" in page
    assert "A Paper · captions, no boxes · seed 7" in page
    titles = re.findall(r'<h2 id="[^"]*">([^<]*)</h2>', page)
    assert titles == ["Learning", "Scores on test", "Scores on val", "Recipe", "Gallery of test"]
    for title in titles:
        assert f'href="#{title.lower().replace(" ", "-")}"' in page
    assert f"{MARK}|cider" in page
    assert page.count("<polyline") == 3  # a loss and two scores
    assert 'r="7"' in page  # the kept epoch
    assert "cat: 8 of 8 right, named 20 times in training" in page
    assert "rare:" not in page
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) == []


def test_the_gallery_has_small_pictures_notes_and_lists(run: Path, photos: Path) -> None:
    assert cli.run(["report", str(run), "--images", str(photos), "--quiet"]) == 0
    page = (run / "report.html").read_text()
    told = gallery(page)
    assert [item["words"][1] for item in told["items"]] == [" dog", " cat", " hat", " car"]
    assert told["lists"] == {"worst": [1], "best": [2], "correct": [0, 2], "partial": [1, 3]}
    assert told["items"][1]["note"] == "two · F1_all_per_sent 0.00, CIDEr 0.10 · cat partial"
    assert [item["size"] for item in told["items"]] == [[60, 40]] * 4
    kept = dict(re.findall(r'id="photo(\d)">data:image/jpeg;base64,([^<]*)<', page))
    assert sorted(kept) == ["0", "1", "2"]
    assert Image.open(io.BytesIO(base64.b64decode(kept["0"]))).size == (320, 213)


def test_photographs_may_stay_where_they_are(run: Path, photos: Path, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "a.html"
    page.parent.mkdir()
    assert cli.run(["report", str(run), "--images", str(photos), "--link", "--split", "val", "--out", str(page)]) == 0
    told = gallery(page.read_text())
    assert [item["src"] for item in told["items"]] == [f"../photos/{name}.png" for name in IMAGES[:3]] + [""]
    assert "Gallery of val" in page.read_text()
    assert 'id="photo' not in page.read_text()


def test_without_photographs_the_page_still_tells(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", str(run)]) == 0
    assert "--images" in capsys.readouterr().err
    assert len(gallery((run / "report.html").read_text())["items"]) == 4


def test_found_phrases_are_shown_in_the_caption_that_has_most(tmp_path: Path) -> None:
    found = Grounding("a dog", (0, 0, 50.5, 30), 0.5)
    records = [
        {"image": "i", "caption": c, "start": s, **found.to_phrase_json("m"), "phrase": text}
        for c, s, text in [(0, 0, "a dog"), (1, 3, "a ball"), (1, 0, "the dog")]
    ]
    write_lines(tmp_path / "eval-test" / "phrases.jsonl", records)
    ids = ["i#0.0-2 a dog", "i#1.0-2 the dog #1", "i#1.3-5 a ball"]
    save_scores(tmp_path / "eval-test" / "scores.json", [mean_score("mean_iou", ids, [0.2, 0.3, 0.4], MARK)], {})
    assert cli.run(["report", str(tmp_path), "--quiet"]) == 0
    page = (tmp_path / "report.html").read_text()
    (item,) = gallery(page)["items"]
    assert "".join(item["words"]) == "the dog · a ball"
    assert [(one["start"], one["end"]) for one in item["found"]] == [(0, 2), (3, 5)]
    assert item["size"] == [51, 30]
    assert item["note"] == "i · mean IoU 0.30"


def test_a_run_without_evaluation_has_its_curves(run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    write_lines(alone / "log.jsonl", [{"epoch": 0, "losses": {"words": 1.0}, "scores": {}}])
    assert cli.run(["report", str(alone), "--quiet"]) == 0
    assert "<h1>alone</h1>" in (alone / "report.html").read_text()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.jsonl", "{}\n", "epoch"),
        ("log.jsonl", "no JSON\n", "line 1"),
        ("recipe.json", "[]", "not a JSON object"),
        ("eval-test/captions.jsonl", "{}\n", 'the field "words" is missing'),
    ],
)
def test_a_damaged_file_is_named(
    run: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    (run / name).write_text(text)
    assert cli.run(["report", str(run)]) == 1
    told = capsys.readouterr().err
    assert name in told
    assert message in told


def test_what_is_not_there_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        ([str(tmp_path / "no")], "is not a folder"),
        ([str(tmp_path / "empty")], "no log and no evaluation"),
        ([str(run), "--split", "train"], "it has: test, val"),
        ([str(run), "--images", str(tmp_path / "no")], "is not a folder"),
        ([str(run), "--out", str(tmp_path / "no" / "a.html")], "cannot be written"),
    ]:
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert cli.run(["report", *arguments]) == 1
        assert message in capsys.readouterr().err


def test_two_evaluations_are_drawn_where_they_differ_most(
    run: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(run / f"eval-{split}" / "scores.json") for split in ("val", "test")]
    values = mean_score("F1_all_per_sent", IMAGES, [0.5, 0.9, 0.8, 1.0], f"{MARK}|f1")  # differ by 0, .9, .2, 1
    save_scores(run / "eval-test" / "scores.json", [values], {})
    drawn = tmp_path / "differ.svg"
    options = ["--n", "100", "--draw", str(drawn), "--shown", "2", "--images", str(photos)]
    assert cli.run(["compare", *files, *options]) == 0
    assert f"drawn: {drawn}" in capsys.readouterr().err.replace("\n", "")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn.read_text())
    # the photograph of "four" is lost
    assert [text for text in texts if "F1" in text] == [
        "two: F1_all_per_sent 0.00, 0.90",
        "three: F1_all_per_sent 1.00, 0.80",
    ]
    assert drawn.read_text().count("<use ") == 4
    assert cli.run(["compare", *files, "--n", "100", "--draw", str(drawn)]) == 1
    assert "--images" in capsys.readouterr().err
