"""``deixis eval``: predictions, scores and pages of a trained model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deixis import GroundedCaption, cli
from deixis.data import Sample
from deixis.data.scenes import make_scenes
from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.decode import GenerationConfig
from deixis.metrics.score import load_scores
from deixis.pipelines.models import Models
from small_models import small_captioner, small_matcher

pytestmark = pytest.mark.usefixtures("without_java")

SAMPLES: Sequence[Sample] = list(make_scenes(4, 0, "test"))
VOCABULARY = Vocabulary.build((c.tokens for s in SAMPLES for c in s.captions), 1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four photographs with captions and no boxes."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = []
    for number, sample in enumerate(SAMPLES):
        sample.open().save(folder / f"{number}.png")
        lines += [json.dumps({"image": f"{number}.png", "caption": c.text, "split": "test"}) for c in sample.captions]
    (folder / "captions.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An untrained captioner of the words of these captions."""
    small_captioner(GenerationConfig(max_words=6), VOCABULARY, "tiny").save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def captions(folder: Path) -> list[GroundedCaption]:
    lines = (folder / "captions.jsonl").read_text().splitlines()
    return [GroundedCaption.from_json(json.loads(line)) for line in lines]


def evaluated(capsys: pytest.CaptureFixture[str], model: Path, data: Path, *more: str) -> dict[str, Any]:
    assert cli.run(["eval", str(model), "--data", str(data), "--json", "--quiet", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_files_of_an_evaluation(run: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A data set without boxes gives scores of captions only; without a store, regions are extracted."""
    scores = evaluated(capsys, run, data, "--shown", "1")
    assert scores["supervision"] == "unknown"
    folder = run / "eval-test"
    stored, _ = load_scores(folder / "scores.json")
    assert stored["CIDEr"].value == pytest.approx(scores["scores"]["CIDEr"]["value"])
    assert {caption.image for caption in captions(folder)} == {"0.png", "1.png", "2.png", "3.png"}
    page = (folder / "index.html").read_text()
    assert page.count('<script type="text/plain" id="photo') == 2
    assert page.index("Worst") < page.index("Best")
    assert (folder / "scores.html").exists()
    assert cli.run(["report", str(run), "--quiet"]) == 0  # the evaluation says where the photographs are
    assert (run / "report.html").read_text().count('<script type="text/plain" id="photo') == 4


def test_a_grounder_gives_the_boxes_of_the_same_sentences(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = evaluated(capsys, run, data)
    recipe = {"recipe.json": json.dumps({"supervision": "boxes"})}
    small_matcher(VOCABULARY, "finds").save_pretrained(tmp_path / "grounder", recipe)
    placed = evaluated(capsys, run, data, "--grounder", str(tmp_path / "grounder"))
    assert (placed["model"], placed["grounder"]) == ("tiny, placed by finds", "finds")
    assert placed["supervision"] == "unknown; grounder: boxes"
    assert placed["scores"]["CIDEr"]["value"] == own["scores"]["CIDEr"]["value"]
    assert "place:grounder" in placed["scores"]["CIDEr"]["signature"]
    before, after = captions(run / "eval-test"), captions(run / "eval-test-grounder")
    assert [caption.words for caption in after] == [caption.words for caption in before]
    assert [g.box for c in after for g in c.groundings] != [g.box for c in before for g in c.groundings]


def test_a_grounder_with_another_extractor_extracts_its_own_regions(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_matcher(VOCABULARY, "finds", proposals="selective-search").save_pretrained(tmp_path / "other")
    found = evaluated(capsys, run, data, "--grounder", str(tmp_path / "other"))
    assert found["model"] == "tiny, placed by finds"
    grounded = [json.loads(line) for line in (run / "eval-test-other" / "captions.jsonl").read_text().splitlines()]
    for record in grounded:
        order = ["caption", str(data / record["image"]), "--model", str(run), "--grounder", str(tmp_path / "other")]
        assert cli.run([*order, "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        assert [g["box"] for g in record["groundings"]] == [g["box"] for g in alone["groundings"]]
        assert record["caption"] == alone["caption"]


def test_rules_of_generation_are_options_and_stand_in_the_signature(
    run: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = ["--beam", "3", "--vote-branches", "1", "--max-words", "4", "--length-power", "0.5", "--repeats", "any"]
    found = evaluated(capsys, run, data, *rules, "--check", "none")
    marks = "|beam:3|branches:1|sentence:0-4|repeats:any|length_power:0.5|place:"
    assert all(marks in score["signature"] for score in found["scores"].values())
    records = [json.loads(line) for line in (run / "eval-test" / "captions.jsonl").read_text().splitlines()]
    assert all(len(record["words"]) <= 4 for record in records)
    for record in records[:2]:
        order = ["caption", str(data / record["image"]), "--model", str(run), *rules, "--check", "none", "--json"]
        assert cli.run(order) == 0
        assert json.loads(capsys.readouterr().out)["caption"] == record["caption"]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [(["--beam", "0"], "--beam must be from 1 to 100"), (["--vote-branches", "9"], "--vote-branches 9: tiny has")],
)
def test_rules_that_a_model_cannot_follow_are_refused(
    run: Path, data: Path, capsys: pytest.CaptureFixture[str], rules: list[str], reason: str
) -> None:
    assert cli.run(["eval", str(run), "--data", str(data), *rules]) != 0
    assert reason in capsys.readouterr().err


def test_options_of_the_pipeline_are_recorded(run: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluated(capsys, run, data, "--place", "vote", "--rerank", "none", "--check", "none")
    assert found["place"] == "vote"
    for score in found["scores"].values():
        assert score["signature"].endswith("|place:vote|words:own|rerank:none|checks:none")
    _, about = load_scores(run / "eval-test" / "scores.json")
    assert about["place"] == "vote"


def test_a_phrase_grounder_takes_no_other_grounder(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_matcher(VOCABULARY, "finds").save_pretrained(tmp_path / "grounder")
    order = ["eval", str(tmp_path / "grounder"), "--data", str(data), "--quiet"]
    for option in (["--grounder", str(tmp_path / "grounder")], ["--place", "grounder"]):
        assert cli.run([*order, *option]) == 2
        assert "is a phrase grounder" in capsys.readouterr().err
    assert cli.run([*order, "--place", "alpha"]) == 1
    assert "Its --place is attention or vote or heat, not alpha." in capsys.readouterr().err


def test_a_grounder_that_needs_a_grid_gets_it_without_a_store(
    loaded_once: Models, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps({"image": "0.png", "caption": SAMPLES[0].captions[0].text, "split": "test"})
    (data / "captions.jsonl").write_text(line + "\n")
    order = ["eval", "deixis-8k", "--grounder", "deixis-8k-grounder", "--data", str(data)]
    assert cli.run([*order, "--out", str(tmp_path / "out"), "--device", "cpu", "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["grounder"] == "deixis-8k-grounder"
    assert captions(tmp_path / "out")[0].model == loaded_once.name


def test_errors(run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert cli.run(["eval", str(tmp_path / "empty"), "--data", str(data)]) == 1
    assert "config.json" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert cli.run(["eval", str(run), "--data", str(data), "--out", str(tmp_path / "file"), "--quiet"]) == 1
    assert "It is a file; choose a folder." in capsys.readouterr().err
