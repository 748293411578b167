"""The benchmarks run, with tiny sizes; nothing is timed here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import cv2
import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import a benchmark by name; what it times runs once. Numbers of threads are restored."""
    threads = torch.get_num_threads(), cv2.getNumThreads()
    monkeypatch.syspath_prepend(str(FOLDER))

    def once(run: Callable[[], object], **options: int) -> float:
        run()
        return 1.0

    def imported(name: str) -> ModuleType:
        module = importlib.import_module(name)
        for timer, instead in (("seconds", once), ("gemm_rate", lambda *given: 1.0)):
            if hasattr(module, timer):
                monkeypatch.setattr(module, timer, instead)
        return module

    yield imported
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)
    torch.set_num_threads(threads[0])
    cv2.setNumThreads(threads[1])


@pytest.mark.parametrize("case", ["train-4-bf16", "cyclical", "greedy", "greedy-numpy"])
def test_decoder(case: str, load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("decoder").case(case, scale=64)
    assert "GFLOP" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["train-fp32", "score-bf16", "critic-fp32"])
def test_matcher(case: str, load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("matcher").case(case, scale=32)
    assert "GFLOP" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["pairs", "albef-small"])
def test_fusion(case: str, load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("fusion").CASES[case](1)
    assert " ms " in capsys.readouterr().out


@pytest.mark.slow
def test_refiner(
    load: Load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path))
    load("refiner").training("reir-small", scale=16)
    load("refiner").latency((1, 2))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[-2:]] == ["grounding 1 phrase", "grounding 2 phrases"]


def test_scenes(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("scenes").main(2)
    assert "per CPU second" in capsys.readouterr().out


@pytest.mark.slow
def test_serve(load: Load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["serve.py", "--requests", "20", "--clients", "2"])
    load("serve").main()
    assert capsys.readouterr().out.rstrip().endswith("lost 0")


@pytest.mark.slow
def test_vision(load: Load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage.data")
    given = ["--images", "2", "--backbone", "tiny", "--proposals", "grid", "--boxes", "8"]
    monkeypatch.setattr(sys, "argv", ["vision.py", *given])
    load("vision").main()
    assert "2 processes, images/s" in capsys.readouterr().out


def test_metrics_imports(load: Load) -> None:
    """It compares with another package and checks limits of time; here it is only imported."""
    pytest.importorskip("pycocoevalcap")
    assert load("metrics").Made(2).words()
