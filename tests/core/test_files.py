"""Whole-file writes: what a reader sees, what an error says, and what a killed process leaves."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from deixis import files
from deixis.errors import DeixisError
from deixis.files import TMP_PREFIX, atomic_folder, atomic_path, lock, remove_partial, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_and_bytes_are_written(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.txt", "naïve\n")
    write_atomic(tmp_path / "b.bin", b"\x00\r\n")
    assert (tmp_path / "a.txt").read_bytes() == "naïve\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\r\n"
    assert names(tmp_path) == ["a.txt", "b.bin"]


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt])
def test_the_old_file_stays_when_the_block_fails(tmp_path: Path, stop: type[BaseException]) -> None:
    write_atomic(tmp_path / "a.txt", "old")
    with pytest.raises(stop), atomic_path(tmp_path / "a.txt") as tmp:  # noqa: PT012
        tmp.write_text("half of the ne")
        assert (tmp_path / "a.txt").read_text() == "old"
        raise stop
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_temporary_path_has_the_suffix_and_is_hidden(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 250}.png"  # the longest name that a file may have has room too
    with atomic_path(path) as tmp:
        assert tmp.parent == tmp_path
        assert tmp.suffix == ".png"
        assert tmp.name.startswith(".")
        tmp.write_bytes(b"")
    assert names(tmp_path) == [path.name]


def test_others_can_read_the_file(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a.safetensors") as tmp:
        save_file({"a": np.zeros(3)}, tmp)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == 0o644
    assert load_file(tmp_path / "a.safetensors")["a"].tolist() == [0, 0, 0]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_atomic(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_atomic(pipe, "text")
    reader.join(30)
    assert read == ["text"]
    assert pipe.is_fifo()


def test_errors_name_the_file_and_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeixisError, match=r"no/a\.txt cannot be written \(No such file.*\)\. Create the folder .*/no"):
        write_atomic(tmp_path / "no" / "a.txt", "")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DeixisError, match=r"folder cannot be written .*choose a file name"):
        write_atomic(tmp_path / "folder", "")
    with (
        pytest.raises(DeixisError, match=r"no/a\.safetensors cannot be written .*Create the folder"),
        atomic_path(tmp_path / "no" / "a.safetensors") as tmp,
    ):
        save_file({"a": np.zeros(3)}, tmp)
    for number, step in ((errno.ENOSPC, "Free disk space"), (errno.EROFS, "Choose a folder with write permission")):

        def fail(path: Path, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(files, "_sync", fail)
        with pytest.raises(DeixisError, match=rf"a\.txt cannot be written \({os.strerror(number)}\)\. {step}"):
            write_atomic(tmp_path / "a.txt", "")
    assert names(tmp_path) == ["folder"]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "old.txt").write_text("old")
    with pytest.raises(ValueError, match="stop"), atomic_folder(tmp_path / "made") as tmp:  # noqa: PT012
        (tmp / "new.txt").write_text("ne")
        raise ValueError("stop")
    assert names(tmp_path / "made") == ["old.txt"]
    with atomic_folder(tmp_path / "made") as tmp:
        (tmp / "new.txt").write_text("new")
    assert names(tmp_path) == ["made"]
    assert names(tmp_path / "made") == ["new.txt"]


KILLED = """
import sys, time
from pathlib import Path
from deixis.files import atomic_path
with atomic_path(Path(sys.argv[1])) as tmp:
    tmp.write_text("half")
    print(flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_process_leaves_the_old_file_and_a_leftover_that_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "a.txt")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [name.startswith(TMP_PREFIX) for name in names(tmp_path)] == [True, False]
    (tmp_path / f"{TMP_PREFIX}folder").mkdir()
    remove_partial(tmp_path)
    assert names(tmp_path) == ["a.txt"]


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    first = lock(tmp_path / "lock")
    assert first is not None
    assert lock(tmp_path / "lock") is None
    first.close()
    second = lock(tmp_path / "lock")
    assert second is not None
    second.close()
