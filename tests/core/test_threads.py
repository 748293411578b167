"""Threads that a command starts with."""

from __future__ import annotations

import os

import pytest

from deixis import threads


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores, no load, and none of the variables; those that are set are removed at the end."""
    for name in (*threads.COUNTS, threads.OF_NUMPY, *threads.WAITING):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.2, 0.0, 0.0))


@pytest.mark.parametrize(
    ("load", "args", "expected"),
    [
        (0.2, ["caption", "a.jpg"], "4"),
        (2.7, ["caption", "a.jpg"], "1"),
        (1.6, ["caption", "a.jpg"], "2"),
        (50.0, ["caption", "a.jpg"], "1"),
        (50.0, ["train", "scan", "--threads", "3"], "3"),
        (50.0, ["train", "--threads=2", "scan"], "2"),
        (0.2, ["train", "--threads", "0"], "4"),
        (0.2, ["train", "--threads"], "4"),
        (0.2, ["serve"], "1"),
        (0.2, [], "4"),
    ],
)
def test_threads_by_load_and_option(
    load: float, args: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    threads.configure(args)
    assert {os.environ[name] for name in threads.COUNTS} == {expected}
    assert os.environ[threads.OF_NUMPY] == "1"
    assert {name: os.environ[name] for name in threads.WAITING} == threads.WAITING


def test_the_environment_has_precedence_over_the_load_but_not_over_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.setenv(threads.OF_NUMPY, "2")
    threads.configure(["caption"])
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in os.environ
    assert os.environ["GOMP_SPINCOUNT"] == "7"
    assert os.environ[threads.OF_NUMPY] == "2"
    threads.configure(["caption", "--threads", "1"])
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_one_thread_is_not_several(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads.several_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert not threads.several_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads.several_threads()
    monkeypatch.setattr(threads, "available_cores", lambda: 1)
    assert not threads.several_threads()
