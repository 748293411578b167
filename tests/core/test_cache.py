"""The table of texts on disk: kept, shared by processes, and never the cause of a failure."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from deixis.cache import TextCache, cache_disabled, cache_folder

NAMES = [f"name {i}" for i in range(1200)]  # more than one query's worth


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "table.sqlite"


def test_texts_are_found_again(path: Path) -> None:
    TextCache(path).write({name: name.upper() + "\né" for name in NAMES})
    found = TextCache(path).read([*NAMES, "another"])
    assert found == {name: name.upper() + "\né" for name in NAMES}


def test_the_last_text_of_a_name_counts(path: Path) -> None:
    cache = TextCache(path)
    cache.write({"a": "first", "b": "kept"})
    cache.write({"a": "second"})
    assert cache.read(["a", "b"]) == {"a": "second", "b": "kept"}


def test_nothing_is_kept_where_nothing_may_be(path: Path) -> None:
    cache = TextCache(path)
    with cache_disabled():
        cache.write({"a": "text"})
        assert cache.read(["a"]) == {}
    assert not path.exists()
    cache.write({"a": "text"})
    with cache_disabled():
        assert cache.read(["a"]) == {}
    assert cache.read(["a"]) == {"a": "text"}


def test_a_file_of_rubbish_is_begun_anew(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a table" * 100)
    cache = TextCache(path)
    assert cache.read(["a"]) == {}
    cache.write({"a": "text"})
    assert TextCache(path).read(["a"]) == {"a": "text"}
    assert not capsys.readouterr().err


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_torn_file_gives_right_texts_or_none(path: Path, share: float) -> None:
    TextCache(path).write({name: name * 20 for name in NAMES})
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    cache = TextCache(path)
    assert all(text == name * 20 for name, text in cache.read(NAMES).items())
    cache.write({"new": "text"})
    assert TextCache(path).read(["new"]) == {"new": "text"}


def test_an_entry_that_was_changed_counts_as_absent(path: Path) -> None:
    TextCache(path).write({"a": "text", "b": "other"})
    with sqlite3.connect(path) as table:
        table.execute("UPDATE texts SET text = x'74657874ff' WHERE text = x'74657874'")
    table.close()
    assert TextCache(path).read(["a", "b"]) == {"b": "other"}


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    cache = TextCache(tmp_path / "file" / "table.sqlite")
    cache.write({"a": "text"})
    assert cache.read(["a"]) == {}
    assert capsys.readouterr().err.count("table.sqlite cannot be used") == 1


def test_processes_write_at_once(path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom deixis.cache import TextCache\n"
        "cache = TextCache(Path(sys.argv[1]))\n"
        "for i in range(40): cache.write({f'{sys.argv[2]} {i}': sys.argv[2], f'both {i}': 'same'})\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), who]) for who in ("one", "two")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    names = [f"{who} {i}" for who in ("one", "two", "both") for i in range(40)]
    assert len(TextCache(path).read(names)) == 120


def test_the_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("DEIXIS_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "deixis"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "deixis" / "cache"
