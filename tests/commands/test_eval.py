"""``deixis eval``: predictions, scores and pages of a trained model."""

import json
from pathlib import Path

import pytest
import torch

from deixis import GroundedCaption, Regions, cli
from deixis.data import Sample
from deixis.data.scenes import make_scenes
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.model import Captioner, Style
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.metrics.score import load_scores
from deixis.vision.extractor import named_extractor


def captioner(vocabulary: Vocabulary, features: int, extractor: dict[str, object], branches: int = 1) -> Captioner:
    torch.manual_seed(0)
    decoder = Decoder(
        DecoderConfig(len(vocabulary), features, words=8, hidden=12, attention=6, dropout=0.0, branches=branches)
    )
    return Captioner(decoder, vocabulary, extractor, "tiny", Style(max_words=6))


@pytest.fixture(scope="module")
def world() -> tuple[list[Sample], dict[str, Regions], Captioner]:
    samples = list(make_scenes(4, 0, "test"))
    eyes = named_extractor("tiny", "grid")
    regions = {sample.image_id: eyes.extract(sample.open()) for sample in samples}
    vocabulary = Vocabulary.build((c.tokens for s in samples for c in s.captions), 1)
    extractor = {"name": eyes.name, "description": eyes.describe()}
    return samples, regions, captioner(vocabulary, regions[samples[0].image_id].features.shape[1], extractor, 2)


def matcher_like(model: Captioner, features: int, extractor: str = "") -> ScanGrounder:
    torch.manual_seed(0)
    matcher = ScanNet(ScanConfig(len(model.vocabulary), features, words=8, embed=8))
    eyes = model.eyes.to_json()
    return ScanGrounder(matcher, model.vocabulary, {**eyes, "name": extractor or eyes["name"]}, "finds")


def test_the_verb(
    world: tuple[list[Sample], dict[str, Regions], Captioner], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one's own pairs there are no boxes: captions only. Photographs are looked at as there is no store."""
    samples, regions, model = world
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    lines = []
    for number, sample in enumerate(samples):
        sample.open().save(data / f"{number}.png")
        lines += [json.dumps({"image": f"{number}.png", "caption": c.text, "split": "test"}) for c in sample.captions]
    (data / "captions.jsonl").write_text("\n".join(lines) + "\n")
    model.save_pretrained(run)
    assert cli.run(["eval", str(run), "--data", str(data), "--json", "--shown", "1", "--quiet"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["supervision"] == "unknown"
    folder = run / "eval-test"
    stored, _ = load_scores(folder / "scores.json")
    assert stored["CIDEr"].value == pytest.approx(scores["scores"]["CIDEr"]["value"])
    records = map(json.loads, (folder / "captions.jsonl").read_text().splitlines())
    kept = [GroundedCaption.from_json(record) for record in records]
    assert {caption.image for caption in kept} == {"0.png", "1.png", "2.png", "3.png"}
    page = (folder / "index.html").read_text()
    assert page.count('<script type="text/plain" id="photo') == 2
    assert page.index("Worst") < page.index("Best")
    assert (folder / "scores.html").exists()
    assert cli.run(["report", str(run), "--quiet"]) == 0  # it knows from the evaluation where the photographs are
    assert (run / "report.html").read_text().count('<script type="text/plain" id="photo') == 4

    # the same words, with boxes of another model, beside the model's own
    width = regions[samples[0].image_id].features.shape[1]
    recipe = {"recipe.json": json.dumps({"supervision": "boxes"})}
    matcher_like(model, width).save_pretrained(tmp_path / "finder", recipe)
    order = ["eval", str(run), "--data", str(data), "--quiet", "--json", "--finder"]
    assert cli.run([*order, str(tmp_path / "finder"), "--place", "vote"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["finder"], told["place"]) == ("tiny, placed by finds", "finds", "vote")
    assert told["supervision"] == "unknown; finder: boxes"
    assert told["scores"]["CIDEr"]["value"] == scores["scores"]["CIDEr"]["value"]
    records = map(json.loads, (run / "eval-test-finder" / "captions.jsonl").read_text().splitlines())
    placed = [GroundedCaption.from_json(record) for record in records]
    assert [caption.words for caption in placed] == [caption.words for caption in kept]
    assert [g.box for caption in placed for g in caption.groundings] != [g.box for c in kept for g in c.groundings]
    matcher_like(model, width, "others").save_pretrained(tmp_path / "other")
    assert cli.run([*order, str(tmp_path / "other")]) == 1
    assert "finds sees regions of others, and tiny regions of" in capsys.readouterr().err.replace("\n", " ")
    order[1] = str(tmp_path / "finder")
    assert cli.run([*order, str(tmp_path / "finder")]) == 1
    assert "finds phrases itself" in capsys.readouterr().err


def test_a_finder_that_needs_a_grid_looks_at_the_photographs(
    world: tuple[list[Sample], dict[str, Regions], Captioner], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The models of the package, without a store: what they see of a photograph has the grid that the finder needs."""
    (tmp_path / "data").mkdir()
    world[0][0].open().save(tmp_path / "data" / "0.png")
    (tmp_path / "data" / "captions.jsonl").write_text(
        json.dumps({"image": "0.png", "caption": world[0][0].captions[0].text, "split": "test"}) + "\n"
    )
    order = ["eval", "deixis-8k", "--finder", "deixis-8k-grounder", "--data", str(tmp_path / "data")]
    assert cli.run([*order, "--out", str(tmp_path / "out"), "--device", "cpu", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finder"] == "deixis-8k-grounder"


def test_a_folder_without_a_model_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["eval", str(tmp_path), "--data", str(tmp_path)]) == 1
    assert "config.json" in capsys.readouterr().err
