"""Models by name: what the package brings, what half precision keeps, and what is said where there is no such model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from deixis import DeixisError, load_captioner
from deixis.language.vocabulary import Vocabulary
from deixis.metrics.score import mean_score, save_scores
from deixis.models import pretrained
from deixis.models.captioner import Captioner
from deixis.models.decoder import Decoder, DecoderConfig
from deixis.models.folder import pack_model
from deixis.models.pretrained import PACKAGE, load_finder, load_model, model_folder, model_names
from deixis.vision.extractor import named_extractor

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "flickr8k-entities"))
import ship

LARGEST = 20_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small captioner's folder as training leaves it."""
    torch.manual_seed(0)
    eyes = named_extractor("tiny", "grid")
    vocabulary = Vocabulary.build([["a", "dog", "runs", "ball", "and", "red"]], minimum=1)
    width = eyes.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    decoder = Decoder(DecoderConfig(len(vocabulary), width, words=8, hidden=12, attention=6, branches=2))
    folder = tmp_path_factory.mktemp("run")
    recipe = {"name": "a-recipe", "paper": "A Paper", "seed": 3, "supervision": "photographs with captions, no boxes"}
    metrics = {"epoch": 2, "validation": {"CIDEr": 0.5}}
    Captioner(decoder, vocabulary, {"name": eyes.name, "description": eyes.describe()}, "old").save_pretrained(
        folder, {"recipe.json": json.dumps(recipe), "metrics.json": json.dumps(metrics)}
    )
    return folder


def test_a_packed_model_is_half_as_large_and_computes_in_single_precision(run: Path, tmp_path: Path) -> None:
    pack_model(run, tmp_path, "new", {"README.md": "a card"})
    before, after = load_file(run / "weights.safetensors"), load_file(tmp_path / "weights.safetensors")
    assert {value.dtype for value in after.values()} == {torch.float16}
    loaded = load_captioner(tmp_path)
    for name, value in loaded.decoder.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name].half().float())
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8))
    old, new = load_captioner(run).caption(photo), loaded.caption(photo)
    assert (old.model, new.model) == ("old", "new")
    assert new.logprob == pytest.approx(old.logprob, abs=0.01)
    assert (tmp_path / "README.md").read_text() == "a card"


def test_weights_that_half_precision_cannot_hold_are_refused(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "large"
    source.mkdir()
    for file in run.iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    weights = load_file(run / "weights.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: torch.full_like(weights[name], 1e6)}, source / "weights.safetensors")
    with pytest.raises(DeixisError, match=f"large.*{name}"):
        pack_model(source, tmp_path / "packed", "x", {})
    assert not (tmp_path / "packed").exists()


def test_a_name_of_the_package_and_a_folder_are_both_taken(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained, "PACKAGE", tmp_path / "package")
    pack_model(run, tmp_path / "package" / "deixis-8k", "deixis-8k", {})
    (tmp_path / "package" / "half-copied").mkdir()  # without weights it is no model
    assert model_names() == ["deixis-8k"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deixis-8k").mkdir()  # as an evaluation may have left it here
    assert model_folder("deixis-8k") == tmp_path / "package" / "deixis-8k"
    assert model_folder(run) == run
    assert isinstance(load_model("deixis-8k"), Captioner)
    assert load_captioner().name == "deixis-8k"


def test_what_is_no_model_is_told_with_the_names_there_are(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained, "PACKAGE", tmp_path)
    pack_model(run, tmp_path / "deixis-8k", "deixis-8k", {})
    with pytest.raises(DeixisError, match=r"no model deixis_8k.*the package has deixis-8k\. Did you mean deixis-8k\?"):
        model_folder("deixis_8k")
    with pytest.raises(DeixisError, match=r"no model runs/nothing.*the package has deixis-8k\.$"):
        model_folder("runs/nothing")
    with pytest.raises(DeixisError, match="deixis-8k-grounder does not come with this version; give --model"):
        load_finder()
    with pytest.raises(DeixisError, match="does not hold a matcher or grounder or fusion"):
        load_finder("deixis-8k")


@pytest.mark.parametrize("name", model_names())
def test_what_comes_with_the_package_is_whole(name: str) -> None:
    assert load_model(name).name == name
    folder = PACKAGE / name
    assert all(file.stat().st_size <= LARGEST for file in folder.iterdir())
    assert load_file(folder / "weights.safetensors").popitem()[1].dtype == torch.float16
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "non-commercial research and education" in card
    for score, found in metrics["test"].items():
        assert f"| {score} | {found['value']:.3f} |" in card
        assert "split:test" in found["signature"]


def test_the_package_has_a_captioner() -> None:
    assert "deixis-8k" in model_names()


def test_a_run_is_shipped_with_its_test_figures(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ship, "PACKAGE", tmp_path)
    with pytest.raises(DeixisError, match=r"eval-test.scores\.json does not exist"):
        ship.ship(run, "deixis-8k")
    (run / "eval-test").mkdir()
    chosen = [("CIDEr", [0.2, 0.6]), ("CHAIRs", [1.0, 0.0]), ("wrong_partial", [0.25, 0.25])]
    chosen += [("wrong_enlarged", [0.25, 0.25]), ("wrong_deviated", [0.5, 0.5])]
    scores = [mean_score(name, ["1", "2"], values, "split:test|v0") for name, values in chosen]
    save_scores(run / "eval-test" / "scores.json", scores, {"data": "flickr30k_entities"})
    (tmp_path / "deixis-8k").mkdir()
    (tmp_path / "deixis-8k" / "of-the-last-model").touch()
    folder = ship.ship(run, "deixis-8k")
    card = (folder / "README.md").read_text()
    assert "| CIDEr | 0.400 |" in card
    assert "50% of the test captions" in card
    assert "photographs with captions, no boxes" in card
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["test"] == {"CIDEr": {"value": pytest.approx(0.4), "signature": "split:test|v0"}}
    assert metrics["validation"] == {"CIDEr": 0.5}
    assert not (folder / "of-the-last-model").exists()
    assert load_model(folder).name == "deixis-8k"


def test_names_and_configurations_are_read_without_torch() -> None:
    code = "import sys; import deixis.models.pretrained as p; p.model_names(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
