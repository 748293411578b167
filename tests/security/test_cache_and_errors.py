"""The private cache, and errors that nobody foresaw."""

from __future__ import annotations

import importlib
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import picture

from deixis import cli
from deixis.cache import TextCache, cache_folder, clear_cache, make_cache_folder
from deixis.errors import DeixisError, display_name, doing, safe_text
from deixis.files import encode_text, json_text, make_folder
from deixis.show.plain_console import PlainConsole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DEIXIS_CACHE", str(folder))
    return folder


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of files")


@posix
def test_the_cache_is_of_the_user_alone(cache: Path) -> None:
    before = os.umask(0)
    try:
        TextCache(cache_folder() / "parses-x.sqlite").write({"a": "b"})
    finally:
        os.umask(before)
    assert (mode(cache), mode(cache / "parses-x.sqlite")) == (0o700, 0o600)


@posix
def test_an_older_cache_becomes_private(cache: Path) -> None:
    cache.mkdir(mode=0o755)
    file = cache / "parses-x.sqlite"
    file.touch(mode=0o644)
    TextCache(file).write({"a": "b"})
    assert (mode(cache), mode(file)) == (0o700, 0o600)


@posix
def test_the_picture_of_a_caption_is_private(
    cache: Path, models: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture().save(tmp_path / "a.png")
    monkeypatch.setenv("COLORTERM", "truecolor")  # rich remembers the codes of a style from its first use
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("deixis.pipelines.output.find_protocol", lambda environment: None)
    assert cli.run(["caption", str(tmp_path / "a.png"), "--model", str(models[0]), "--processes", "1"]) == 0
    assert mode(cache / "captioned.png") == 0o600


def test_the_cache_is_cleared(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TextCache(make_cache_folder() / "parses-x.sqlite").write({"a": "b"})
    (cache / "captioned.png").write_bytes(b"x")
    (cache / "of-somebody-else.txt").write_text("x")
    assert cli.run(["cache", "clear", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["folder"], told["files"]) == (str(cache), 2)
    assert [file.name for file in cache.iterdir()] == ["of-somebody-else.txt"]
    assert clear_cache().files == 0


def test_clearing_a_cache_that_is_not_there_is_no_error(cache: Path) -> None:
    assert cli.run(["cache", "clear"]) == 0
    assert not cache.exists()


# Unforeseen errors --------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(root: Path) -> int:
        with doing(f"counting the images of {root}"):
            return 1 // 0

    monkeypatch.setattr("deixis.commands.data.check", check)


@pytest.mark.usefixtures("broken")
def test_an_unforeseen_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "check", "--root", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"deixis data check: unexpected error while counting the images of {tmp_path} (ZeroDivisionError: integer "
        "division or modulo by zero). Run the command again with --debug for the traceback.\n"
    )


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("debug", ["first", "last", "environment"])
def test_debug_shows_the_traceback(
    debug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "check", "--root", str(tmp_path)]
    if debug == "environment":
        monkeypatch.setenv("DEIXIS_DEBUG", "1")
    else:
        command = ["--debug", *command] if debug == "first" else [*command, "--debug"]
    assert cli.run(command) == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "in check" in printed


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_no_verb_shows_a_traceback(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a verb raises, whether it reads its options itself or not."""
    module, function, _ = cli.VERBS[verb]
    commands = importlib.import_module(f"deixis.commands.{module}")

    def broken(*args: object) -> int:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(commands, "cli" if hasattr(commands, "cli") else function, broken)
    (tmp_path / "file").touch()
    monkeypatch.setattr("tyro.cli", lambda verb, **options: verb(*options["args"]))
    assert cli.run([*verb.split(), str(tmp_path / "file")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"deixis {verb}: unexpected error with {tmp_path / 'file'} (RuntimeError: first line second")
    assert "--debug" in line


def test_what_was_being_done_is_named_by_the_line_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(root: Path, said: object) -> None:
        said("val")  # type: ignore[operator]
        raise KeyError("x")

    monkeypatch.setattr("deixis.commands.data.inspect", broken)
    assert cli.run(["data", "check", str(tmp_path)]) == 1
    assert f"unexpected error while reading val of {tmp_path} (KeyError: 'x')" in capsys.readouterr().err


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    words = f"{sys.executable} -m deixis models --json | head -c 1"
    done = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain \xc3\xa9.jpg", "plain é.jpg"),
        (b"\xff.jpg", r"\xff.jpg"),
        (b"a\x1b[31mb", r"a\x1b[31mb"),
        (b"a\nb\tc\rd", r"a\nb\tc\x0dd"),
        ("a\x9b1mb".encode(), r"a\x9b1mb"),
        ("gpj.\u202eexe".encode(), r"gpj.\u202eexe"),
    ],
)
def test_a_name_for_display(name: bytes, shown: str) -> None:
    assert display_name(os.fsdecode(name)) == shown
    assert display_name(Path(os.fsdecode(name))) == shown


def test_a_console_prints_brackets_as_they_are() -> None:
    file = io.StringIO()
    PlainConsole(file=file, width=80).print("[red]a[/nope] :dog: [1]")
    assert file.getvalue() == "[red]a[/nope] :dog: [1]\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DeixisError, match=r"file/run cannot be written \(Not a directory\)\. Create the folder"):
        make_folder(tmp_path / "file" / "run")


@pytest.mark.parametrize("name", [b"\xff", b"\x1b[2J", b"\x7f", "\x9b\u202e é 日本".encode(), b"\xed\xa0\x80"])
def test_json_of_any_name_is_safe_and_reversible(name: bytes) -> None:
    text = json_text({"image": os.fsdecode(name)})
    assert safe_text(text) == text or "\u202e" in text
    encode = text.encode()  # no surrogate is left
    assert os.fsencode(json.loads(encode)["image"]) == name
    assert os.fsencode(json.loads(encode_text(json.dumps({"n": os.fsdecode(name)}, ensure_ascii=False)))["n"]) == name
