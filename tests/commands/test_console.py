"""Shared parts of the commands: where output goes, progress without a terminal, signals."""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import sys

import pytest
from rich.console import Console
from rich.table import Table

from deixis.commands import console as shared
from deixis.commands.console import (
    Clock,
    print_json,
    print_ready,
    print_some,
    stderr_console,
    stdout_console,
    terminable,
    track,
)
from deixis.errors import DeixisError, requires_extra


def test_results_go_to_stdout_and_messages_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    stderr_console().print("a message of " + "many " * 60 + "words")
    table = Table("x" * 300, box=None)
    stdout_console().print(table)
    print_json({"a": "é"}, indent=None)
    for console in (stderr_console(quiet=True), stdout_console(quiet=True)):
        console.print("nothing")
    out, err = capsys.readouterr()
    assert err.count("\n") == 1  # not wrapped
    assert out.splitlines()[0].strip() == "x" * 300  # not cut off in a pipe
    assert out.splitlines()[-1] == '{"a": "é"}'
    assert "nothing" not in out + err


def test_long_lists_are_cut_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    print_some(stderr_console(), ["[one]", "two", "three"], 2, "; --json lists them all")
    print_some(stderr_console(), ["four"], 2)
    assert capsys.readouterr().err == "  [one]\n  two\n  and 1 more; --json lists them all\n  four\n"


@pytest.mark.parametrize("public", [False, True])
def test_a_public_server_comes_with_a_warning(public: bool, capsys: pytest.CaptureFixture[str]) -> None:
    print_ready(stderr_console(), "http://x:1/", public, "(a model)", {"models": ["a"]})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"url": "http://x:1/", "models": ["a"]}
    assert err.endswith("ready: http://x:1/ (a model)\n")
    assert ("no password" in err) == public


def test_without_a_terminal_progress_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 30.0, 90.0, 100.0])
    monkeypatch.setattr(shared.time, "monotonic", lambda: next(ticks))
    file = io.StringIO()
    assert list(track("abc", 3, Console(file=file), "photographs")) == ["a", "b", "c"]
    assert file.getvalue() == "2 of 3 photographs, 0.0/s, 1 min left\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM handlers")
def test_sigterm_interrupts_like_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminable():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_clock_counts_each_part() -> None:
    clock = Clock()
    with clock.measure("load"), clock.measure("regions"):
        pass
    assert list(clock.parts) == ["regions", "load"]
    assert clock.parts["load"][0] >= clock.parts["regions"][0]


def test_a_missing_optional_package_is_named_with_its_extra() -> None:
    message = r"no_such_module is not installed\. Install it: pip install 'deixis\[serve\]'"
    with pytest.raises(DeixisError, match=message), requires_extra("serve"):
        importlib.import_module("no_such_module")
