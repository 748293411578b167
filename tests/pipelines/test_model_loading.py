"""Models by name or folder: those of the package, packed weights, and the errors for unknown names."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from deixis import DeixisError
from deixis import model_folder as packing
from deixis.data import Caption, Dataset, Sample
from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.config import small
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.network import AlbefNet
from deixis.methods.updown.model import Captioner
from deixis.metrics.score import mean_score, save_scores
from deixis.model_folder import Precision, folder_hash, load_network, open_model, pack_model, write_model
from deixis.pipelines import models
from deixis.pipelines.api import CaptionPipeline
from deixis.pipelines.ground import ground
from deixis.pipelines.models import (
    PACKAGE,
    Models,
    load_captioner,
    load_grounder,
    load_model,
    load_models,
    model_folder,
    model_names,
)
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CaptionResult
from deixis.vision.extractor import named_extractor
from small_models import noise, small_captioner, small_matcher

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import ship

LARGEST = 20_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small captioner's folder as training leaves it."""
    folder = tmp_path_factory.mktemp("run")
    recipe = {"name": "a-recipe", "paper": "A Paper", "seed": 3, "supervision": "photographs with captions, no boxes"}
    metrics = {"epoch": 2, "validation": {"CIDEr": 0.5}}
    small_captioner(name="old").save_pretrained(
        folder, {"recipe.json": json.dumps(recipe), "metrics.json": json.dumps(metrics)}
    )
    return folder


def captioned(folder: Path) -> CaptionResult:
    """The caption of a picture of noise, by the captioner in a folder."""
    return CaptionPipeline(Models(load_captioner(folder)))(noise())


def test_a_packed_model_is_half_as_large_and_computes_in_single_precision(run: Path, tmp_path: Path) -> None:
    pack_model(run, tmp_path, "new", {"README.md": "a card"})
    before, after = load_file(run / "weights.safetensors"), load_file(tmp_path / "weights.safetensors")
    assert {value.dtype for value in after.values()} == {torch.float16}
    loaded = Captioner.from_pretrained(tmp_path, backend="torch").network.state_dict()
    arrays = load_captioner(tmp_path).network.state_dict()
    assert loaded.keys() == arrays.keys()
    for name, value in loaded.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name].half().float())
        assert torch.equal(torch.from_numpy(arrays[name]), value)
    old, new = captioned(run).caption, captioned(tmp_path).caption
    assert (old.model, new.model) == ("old", "new")
    assert new.logprob == pytest.approx(old.logprob, abs=0.01)
    assert old.model_hash != new.model_hash
    assert (tmp_path / "README.md").read_text() == "a card"


def test_a_model_packed_in_bytes_has_each_weight_to_half_a_step_of_its_row(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "LARGE", 100)
    pack_model(run, tmp_path / "int8", "new", {}, "int8")
    before, stored = load_file(run / "weights.safetensors"), load_file(tmp_path / "int8" / "weights.safetensors")
    large = {name for name, value in before.items() if value.ndim > 1 and value.numel() >= 100}
    assert large
    assert {name for name, value in stored.items() if value.dtype == torch.int8} == large
    assert {name for name, value in stored.items() if value.dtype == torch.float16} == set(before) - large
    after = Captioner.from_pretrained(tmp_path / "int8", backend="torch").network.state_dict()
    for name, value in load_captioner(tmp_path / "int8").network.state_dict().items():
        torch.testing.assert_close(torch.from_numpy(value), after[name], rtol=1e-6, atol=0)
    assert all(value.dtype == torch.float32 for value in after.values())
    for name in large:
        step = before[name].abs().amax(1, keepdim=True) / 127
        assert ((after[name] - before[name]).abs() <= step * 0.5001).all()
    old, new = captioned(run).caption, captioned(tmp_path / "int8").caption
    assert new.logprob == pytest.approx(old.logprob, abs=0.05)
    pack_model(tmp_path / "int8", tmp_path / "again", "new", {}, "int8")  # nothing more is lost
    for name, value in Captioner.from_pretrained(tmp_path / "again", backend="torch").network.state_dict().items():
        torch.testing.assert_close(value, after[name], rtol=1e-6, atol=0)


def test_bytes_and_scales_by_hand(tmp_path: Path) -> None:
    rows = torch.tensor([[127.0, -63.6, 0.4], [-0.254, 0.1, 0.0], [0.0, 0.0, 0.0]])
    network = torch.nn.Linear(3, 3)
    network.weight.data = rows
    write_model(tmp_path / "run", {"kind": "k"}, network, extras={"vocabulary.json": "", "recipe.json": ""})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packing, "LARGE", 9)
        pack_model(tmp_path / "run", tmp_path / "packed", "x", {}, "int8")
    stored = load_file(tmp_path / "packed" / "weights.safetensors")
    assert stored["weight"].tolist() == [[127, -64, 0], [-127, 50, 0], [0, 0, 0]]
    torch.testing.assert_close(stored["weight:scale"], torch.tensor([1.0, 0.002, 1.0]))
    with open_model(tmp_path / "packed", "k") as config:
        other = load_network(lambda size: torch.nn.Linear(size, size), 3, tmp_path / "packed")
    assert config["name"] == "x"
    assert folder_hash(tmp_path / "packed") != folder_hash(tmp_path / "run")
    torch.testing.assert_close(other.weight.data, torch.tensor([[127.0, -64, 0], [-0.254, 0.1, 0], [0, 0, 0]]))


@pytest.mark.parametrize("precision", ["half", "int8"])
def test_weights_that_packing_cannot_hold_are_refused(run: Path, tmp_path: Path, precision: Precision) -> None:
    source = tmp_path / "large"
    source.mkdir()
    for file in run.iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    weights = load_file(run / "weights.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: torch.full_like(weights[name], 1e6)}, source / "weights.safetensors")
    with pytest.raises(DeixisError, match=f"large.*{name}.* exceed the range of {precision}"):
        pack_model(source, tmp_path / "packed", "x", {}, precision)
    assert not (tmp_path / "packed").exists()


def test_a_name_of_the_package_and_a_folder_are_both_taken(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "PACKAGE", tmp_path / "package")
    pack_model(run, tmp_path / "package" / "deixis-base", "deixis-base", {})
    (tmp_path / "package" / "half-copied").mkdir()  # without weights it is no model
    assert model_names() == ["deixis-base"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deixis-base").mkdir()  # as an evaluation may have left it here
    assert model_folder("deixis-base") == tmp_path / "package" / "deixis-base"
    assert model_folder(run) == run
    assert isinstance(load_model("deixis-base"), Captioner)
    assert load_captioner().name == "deixis-base"


def test_only_the_default_captioner_has_a_grounder_unless_one_is_named(
    run: Path, tmp_path: Path, loaded_once: Models
) -> None:
    assert load_models(device="cpu").grounder is loaded_once.grounder
    assert load_models(grounder="none", device="cpu").grounder is None
    assert load_models(run, device="cpu").grounder is None
    small_matcher().save_pretrained(tmp_path)
    both = load_models(run, tmp_path, device="cpu")
    assert both.grounder is not None
    assert both.name == "old, placed by matcher"
    assert both.shares_regions


def test_what_is_no_model_is_told_with_the_names_there_are(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "PACKAGE", tmp_path)
    pack_model(run, tmp_path / "deixis-base", "deixis-base", {})
    near = r"no model deixis_base.*the package has deixis-base\. Did you mean deixis-base\?"
    with pytest.raises(DeixisError, match=near):
        model_folder("deixis_base")
    with pytest.raises(DeixisError, match=r"no model runs/nothing.*the package has deixis-base\.$"):
        model_folder("runs/nothing")
    with pytest.raises(DeixisError, match=r"deixis-base-grounder does not come with this version\. Give --model"):
        load_grounder()
    with pytest.raises(
        DeixisError, match=r"^deixis-base writes captions; use deixis caption\. Expected here: a phrase grounder\.$"
    ):
        load_grounder("deixis-base")


@pytest.mark.parametrize("name", model_names())
def test_what_comes_with_the_package_is_whole(name: str) -> None:
    assert load_model(name).name == name
    folder = PACKAGE / name
    assert all(file.stat().st_size <= LARGEST for file in folder.iterdir())
    assert {value.dtype for value in load_file(folder / "weights.safetensors").values()} & {torch.float16, torch.int8}
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "non-commercial research and education" in card
    for score, found in metrics["test"].items():
        assert f"| {score} | {found['value']:.3f} |" in card
        assert "split:test" in found["signature"]
    for scores in metrics.get("further_tests", {}).values():
        assert all(f"| {found['value']:.3f} |" in card for found in scores.values())
        assert all("split:test" in found["signature"] for found in scores.values())


def test_the_package_has_a_captioner() -> None:
    assert "deixis-base" in model_names()


def test_a_run_is_shipped_with_its_test_figures(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ship, "PACKAGE", tmp_path)
    with pytest.raises(DeixisError, match=r"eval-test.scores\.json does not exist"):
        ship.ship(run, "deixis-base")
    (run / "eval-test").mkdir()
    chosen = [("CIDEr", [0.2, 0.6]), ("CHAIRs", [1.0, 0.0]), ("wrong_partial", [0.25, 0.25])]
    chosen += [("wrong_enlarged", [0.25, 0.25]), ("wrong_deviated", [0.5, 0.5])]
    scores = [mean_score(name, ["1", "2"], values, "split:test|v0") for name, values in chosen]
    save_scores(run / "eval-test" / "scores.json", scores, {"data": "flickr30k_entities"})
    (tmp_path / "deixis-base").mkdir()
    (tmp_path / "deixis-base" / "of-the-last-model").touch()
    (run / "README.md").write_text("# run\n\n- Data: some, 3 training and 2 validation images\n")
    folder = ship.ship(run, "deixis-base", "half")
    card = (folder / "README.md").read_text()
    assert "| CIDEr | 0.400 |" in card
    assert "50% of the test captions" in card
    assert "photographs with captions, no boxes" in card
    assert "Weights: on disk in half precision; in single" in card
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["test"] == {"CIDEr": {"value": pytest.approx(0.4), "signature": "split:test|v0"}}
    assert metrics["validation"] == {"CIDEr": 0.5}
    assert not (folder / "of-the-last-model").exists()
    assert load_model(folder).name == "deixis-base"
    assert "- Data: some, 3 training and 2 validation images" in card
    other = tmp_path / "other"
    other.mkdir()
    save_scores(other / "scores.json", scores[:1], {"data": "coco"})
    folder = ship.ship(run, "deixis-base", "int8", [run / "eval-test", other])
    card = (folder / "README.md").read_text()
    assert "Weights: on disk large matrices in bytes" in card
    assert "| score | flickr30k_entities | coco | meaning |" in card
    assert "| CIDEr | 0.400 | 0.400 |" in card
    further = json.loads((folder / "metrics.json").read_text())["further_tests"]
    assert further == {"coco": {"CIDEr": {"value": pytest.approx(0.4), "signature": "split:test|v0"}}}


def test_a_fusion_model_is_shipped_with_the_word_pieces_of_its_captions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (*WordPieces.specials, "[unused0]", "a", "##a", "d", "the", "president", "##og", "dog", "cat")
    pieces = WordPieces(names)
    extractor = named_extractor("tiny", "grid")
    network = AlbefNet(
        replace(small(16, 6), vocabulary=len(pieces), hidden=24, image_hidden=16, feed=16, image_feed=16)
    )
    run = tmp_path / "run"
    texts = {"recipe.json": json.dumps({"name": "r", "paper": "p", "seed": 0, "supervision": "captions"})}
    texts["metrics.json"] = json.dumps({"epoch": 1, "validation": {}})
    grounder = AlbefGrounder(network, pieces, extractor.to_json(), "run")
    grounder.save_pretrained(run, texts)
    (run / "eval-test").mkdir()
    about = {"data": "flickr30k_entities", "reference": str(tmp_path)}
    scores = [mean_score(name, ["1"], [0.5], "split:test|v0") for name in ("accuracy", "pointing")]
    save_scores(run / "eval-test" / "scores.json", scores, about)
    told = Sample("1", (Caption("A dog.", ("a", "dog")),))
    monkeypatch.setattr(ship, "load", lambda path, split: Dataset("some", split, (told,)))
    monkeypatch.setattr(ship, "imagenet_classes", lambda: ("cat",))
    monkeypatch.setattr(ship, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(ship, "PIECES", 11)
    shipped = load_grounder(ship.ship(run, "deixis-base-grounder", "half"))
    assert isinstance(shipped, AlbefGrounder)
    assert shipped.pieces.pieces == (*WordPieces.specials, "a", "##a", "d", "the", "dog", "cat")
    (before,), (after,) = (ground(Photo(noise()), ["the dog"], one) for one in (grounder, shipped))
    assert after.score == pytest.approx(before.score, abs=1e-3)
    assert after.point == before.point


def test_names_and_configurations_are_read_without_torch() -> None:
    code = "import sys; import deixis.pipelines.models as p; p.model_names(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loading_initialises_no_weights_and_imports_no_compiler() -> None:
    """Random weights on the meta device would make torch import its compiler, which takes a second."""
    code = (
        "import sys; from deixis.pipelines.models import load_models; load_models();"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_loaded_network_has_the_stored_weights_in_its_own_precision(tmp_path: Path) -> None:
    network = torch.nn.Linear(4, 4).half()
    write_model(tmp_path, {"kind": "k"}, network)
    torch.manual_seed(3)
    loaded = load_network(lambda size: torch.nn.Linear(size, size), 4, tmp_path)
    assert torch.equal(loaded.weight, network.weight.float())
    assert loaded.weight.requires_grad
    assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(3))  # no random number was drawn
    with pytest.raises(ValueError, match=r"'bias' are \[4\], and the configuration expects \[5\]"):
        load_network(lambda size: torch.nn.Linear(size, size), 5, tmp_path)
