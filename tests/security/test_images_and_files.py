"""Images that are not photographs, files that are not regular, full disks, killed writers and two writers."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hostile import picture

from deixis import cli
from deixis.errors import DeixisError
from deixis.files import exclusive, open_regular, write_atomic
from deixis.images import image_format, image_size, load_image
from deixis.pipelines.captions_file import CaptionsFile
from deixis.study.match import match_predictions
from small_models import assert_close

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"


# Images -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["photo.eps", "photo.jpg", "photo.png"])
def test_ghostscript_is_never_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *args, **kwargs: pytest.fail("Ghostscript was run"))
    (tmp_path / name).write_bytes(EPS)
    for read in (load_image, image_size, image_format):
        with pytest.raises(DeixisError, match="cannot be read as an image"):
            read(tmp_path / name)


@pytest.mark.parametrize("kind", ["PSD", "PCX", "ICNS", "TGA", "SGI", "DDS", "ICO", "IM"])
def test_formats_that_no_camera_writes_stay_shut(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    try:
        picture(size=(64, 64)).save(path, kind)
    except (KeyError, OSError):
        path.write_bytes(b"8BPS\x00\x01" + bytes(200))  # Pillow does not write PSD
    with pytest.raises(DeixisError, match="cannot be read as an image"):
        load_image(path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM", "JPEG2000"])
def test_a_format_is_known_by_its_content(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "photo.eps"  # whatever it is called
    try:
        picture().save(path, kind)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow does not write {kind}")
    assert (image_format(path), load_image(path).size) == (kind, (60, 40))


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A pipe; whoever waits for its writer gets a TimeoutError after a while."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError("waited for the pipe")

    path = tmp_path / "pipe.jpg"
    os.mkfifo(path)
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 20.0, 1.0)
    yield path
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_pipe_is_refused_and_not_waited_for(
    pipe: Path, models: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    picture().save(pipe.parent / "1.png")
    (pipe.parent / "captions.jsonl").write_text('{"image": "1.png", "caption": "a dog", "split": "test"}\n')
    for command in (
        ["caption", str(pipe), "--model", str(models[0])],
        ["regions", str(pipe)],
        ["score", str(pipe), "--reference", str(pipe.parent)],
        ["export", str(pipe), "--to", "csv", "--out", str(pipe.parent / "x.csv")],
        ["import", "scan", str(pipe), "--out", str(pipe.parent / "model")],
    ):
        assert cli.run(command) == 1
        printed = capsys.readouterr().err
        assert "regular file" in printed, command
        assert "unexpected" not in printed, command


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="not a regular file"):
        load_image("/dev/zero")
    link = tmp_path / "photo.jpg"
    link.symlink_to("/dev/zero")
    with pytest.raises(DeixisError, match="not a regular file"):
        load_image(link)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_captions_are_not_appended_to_a_device(models: tuple[Path, Path]) -> None:
    """The file of captions is read first, and /dev/zero has no end."""
    with pytest.raises(DeixisError, match="/dev/zero is a pipe or a device"):
        CaptionsFile(Path("/dev/zero"), "m")


FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_image_is_read_or_named(kind: str, tmp_path: Path) -> None:
    """Changed, cut and repeated bytes, mostly in the header, where the sizes are."""
    path, random = tmp_path / "photo.jpg", np.random.default_rng(FORMATS.index(kind))
    picture().save(path, kind)
    sound = path.read_bytes()
    refused = []
    for _ in range(40):
        data = bytearray(sound)
        for place in random.integers(0, min(len(data), random.choice([64, 4096])), random.integers(1, 8)):
            data[place] = random.integers(0, 256)
        if random.random() < 0.3:
            data = data[: random.integers(1, len(data))]
        path.write_bytes(data)
        try:
            assert load_image(path).mode == "RGB"
        except DeixisError as error:
            refused.append(str(error))
    assert refused
    assert all(str(path) in reason for reason in refused)


def test_a_file_has_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    with path.open("wb") as file:
        file.truncate(1001)
    with pytest.raises(DeixisError, match="1,001 bytes, over the limit of 1,000"):
        open_regular(path, 1000)


# Writers ------------------------------------------------------------------------------------------------------------

CAPTION = {"image": "a.png", "width": 60, "height": 40, "caption": "a dog", "words": ["a", "dog"], "groundings": []}

KILLED = """
import os, sys, signal
from pathlib import Path
from deixis import cli
write = Path.write_bytes
def half(path, data):
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "csv":
    import csv
    csv.DictWriter.writerow = lambda self, row: os.kill(os.getpid(), signal.SIGKILL)
Path.write_bytes = half
cli.run(["export", sys.argv[2], "--to", sys.argv[1], "--out", sys.argv[3]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_killed_export_leaves_the_earlier_file(format: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps(CAPTION) + "\n")
    out = tmp_path / f"out.{format}"
    out.write_text("earlier")
    words = [sys.executable, "-c", KILLED, format, str(tmp_path / "in.jsonl"), str(out)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert out.read_text() == "earlier"


@pytest.mark.parametrize(("number", "said"), [(errno.ENOSPC, "Free disk space"), (errno.EROFS, "write permission")])
def test_a_full_disk_is_one_line(
    number: int,
    said: str,
    models: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Full:
        def write(self, data: bytes) -> int:
            raise OSError(number, os.strerror(number))

    picture().save(tmp_path / "a.png")
    before = CaptionsFile._read
    monkeypatch.setattr(CaptionsFile, "_read", lambda self: (before(self), setattr(self, "_file", Full()))[0])
    out = tmp_path / "captions.jsonl"
    assert cli.run(["caption", str(tmp_path / "a.png"), "--model", str(models[0]), "--out", str(out)]) == 1
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert f"{out} cannot be written ({os.strerror(number)})" in printed
    assert said in printed


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_one_line(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr("deixis.commands.data.inspect", lambda *args: refuse(tmp_path))
    assert cli.run(["data", "check", str(tmp_path)]) == 1
    printed = capsys.readouterr().err
    assert printed.splitlines() == [printed.strip()]
    assert f"{tmp_path} cannot be written ({os.strerror(number)})" in printed


# Real errors of the system ------------------------------------------------------------------------------------------

RUN = "import sys; from deixis import cli; sys.exit(cli.run(sys.argv[1:]))"


def run_apart(words: list[str], prepare: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own; ``prepare`` is called in it first."""
    command = [sys.executable, "-c", RUN, *words]
    return subprocess.run(command, preexec_fn=prepare, capture_output=True, text=True, timeout=120, check=False)


def no_override() -> None:
    """Take the right to ignore the modes of files from root; other users do not have it."""
    if os.geteuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP


@pytest.fixture
def outputs(models: tuple[Path, Path], world_run: list[str], tmp_path: Path) -> Callable[[Path], dict[str, list[str]]]:
    """Commands that write to a folder."""
    picture().save(tmp_path / "a.png")
    (tmp_path / "in.jsonl").write_text(json.dumps(CAPTION) + "\n")
    data = world_run[world_run.index("--data") + 1]
    tiny = ["--backbone", "tiny", "--proposals", "grid", "--processes", "1"]

    def commands(folder: Path) -> dict[str, list[str]]:
        photo = ["caption", str(tmp_path / "a.png"), "--model", str(models[0])]
        return {
            "caption": [*photo, "--out", str(folder / "c.jsonl")],
            "caption --draw": [*photo, "--draw", str(folder / "a.png")],
            "train": ["train", *world_run, "--out", str(folder / "run")],
            "features": ["features", data, "--out", str(folder / "store"), *tiny],
            "export": ["export", str(tmp_path / "in.jsonl"), "--to", "csv", "--out", str(folder / "x.csv")],
        }

    return commands


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are of Linux")
@pytest.mark.parametrize("verb", ["caption", "train", "features", "export"])
def test_a_read_only_folder_is_one_line(
    verb: str, outputs: Callable[[Path], dict[str, list[str]]], tmp_path: Path
) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    done = run_apart(outputs(folder)[verb], no_override)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(f"deixis {verb.split()[0]}: {folder}")
    assert "cannot be written (Permission denied). Choose" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of file sizes")
@pytest.mark.parametrize(
    ("verb", "limit"), [("caption", 100), ("caption --draw", 100), ("train", 100), ("train", 700), ("features", 700)]
)
def test_a_file_that_cannot_grow_is_one_line(
    verb: str, limit: int, outputs: Callable[[Path], dict[str, list[str]]], tmp_path: Path
) -> None:
    """Writing fails in the middle of a file, as on a full disk: in logs, checkpoints, weights and pictures."""

    def bound() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    folder = tmp_path / "out"
    folder.mkdir()
    done = run_apart(outputs(folder)[verb], bound)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"deixis {verb.split()[0]}: {folder}")
    assert "cannot be written" in line
    assert "ulimit -f" in line
    assert not [file for file in folder.rglob("*.safetensors") if file.stat().st_size == limit]  # no part of a file


HOLDER = """
import sys, time
from pathlib import Path
from deixis.files import exclusive
with exclusive(Path(sys.argv[1]), "--out"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_refused(
    models: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo, out = tmp_path / "a.png", tmp_path / "captions.jsonl"
    picture().save(photo)
    command = ["caption", str(photo), "--model", str(models[0]), "--out", str(out), "--processes", "1"]
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(out)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert cli.run(command) == 1
            assert f"another process is writing to {out}" in capsys.readouterr().err
        finally:
            holder.kill()
    assert cli.run(command) == 0  # the lock of a killed process is free
    assert len(out.read_text().splitlines()) == 1


def test_a_second_training_is_refused(world_run: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with exclusive(out, "--out"):
        # a lock of the same process is held by another open file, as that of another process is
        assert cli.run(["train", *world_run, "--out", str(out)]) == 1
    assert f"another process is writing to {out}. Wait for it, or choose another --out." in capsys.readouterr().err
    assert not (out / "log.jsonl").exists()


@pytest.fixture
def world_run(tmp_path: Path) -> list[str]:
    data, store = tmp_path / "data", tmp_path / "store"
    data.mkdir()
    lines = []
    for number, split in enumerate(["train", "train", "val"]):
        picture(number).save(data / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "caption": "a dog runs", "split": split}))
    (data / "captions.jsonl").write_text("\n".join(lines) + "\n")
    tiny = ["--backbone", "tiny", "--proposals", "grid", "--processes", "1", "--quiet"]
    assert cli.run(["features", str(data), "-o", str(store), *tiny]) == 0
    small = ["--model.words", "8", "--model.hidden", "12", "--model.attention", "6", "--phases.0.epochs", "1"]
    return ["updown-small", "--data", str(data), "--features", str(store), *small, "--min-count", "1"]


def test_an_atomic_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("earlier")

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DeixisError, match="Free disk space"):
        write_atomic(path, "later")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "earlier"


def test_a_study_skips_what_is_no_photograph(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "a.png").write_bytes(EPS)
    box = {"word": "dog", "start": 1, "end": 2, "box": [1.0, 2.0, 30.0, 20.0], "score": 0.5}
    (tmp_path / "a.jsonl").write_text(json.dumps({**CAPTION, "groundings": [box]}) + "\n")
    matched = match_predictions(tmp_path / "a.jsonl", tmp_path / "a.jsonl", photos)
    assert (list(matched.pairs), len(matched.skipped)) == ([], 1)


# Killed processes ---------------------------------------------------------------------------------------------------

KILL = """
import os, signal, sys
from deixis import cli
from deixis.pipelines.captions_file import CaptionsFile
from deixis.training import checkpoint
count = int(sys.argv[1])
def counted(function, before):
    def call(*args, **kwargs):
        global count
        count -= 1
        if count == 0:
            before(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call
def half(self, record):
    self._file.write(b'{"image": "half')
    self._file.flush()
CaptionsFile.write = counted(CaptionsFile.write, half)
checkpoint._optimiser_state = counted(checkpoint._optimiser_state, lambda *args: None)  # after the weights
cli.run(sys.argv[2:])
"""


def killed(count: int, words: list[str]) -> None:
    """Run a command that is killed when it writes for the ``count``-th time."""
    command = [sys.executable, "-c", KILL, str(count), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_killed_captioning_resumes_to_the_same_file(models: tuple[Path, Path], tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(5):
        picture(number).save(photos / f"{number}.png")
    command = ["caption", str(photos), "--model", str(models[0]), "--processes", "1", "--quiet", "--out"]
    assert cli.run([*command, str(tmp_path / "whole.jsonl")]) == 0
    out = tmp_path / "killed.jsonl"
    for count in (1, 3):
        killed(count, [*command, str(out)])
        assert out.read_text().endswith('{"image": "half')
    assert cli.run([*command, str(out)]) == 0
    files = [sorted(file.read_text().splitlines()) for file in (out, tmp_path / "whole.jsonl")]
    resumed, whole = ([json.loads(line) for line in lines] for lines in files)
    assert_close(resumed, whole)  # last bits depend on the photographs that are computed together


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_killed_training_resumes_to_the_same_weights(world_run: list[str], tmp_path: Path) -> None:
    command = ["train", *world_run, "--phases.0.epochs", "4", "--quiet", "--threads", "1", "--out"]
    assert cli.run([*command, str(tmp_path / "whole")]) == 0
    out = tmp_path / "killed"
    for count in (2, 1):
        killed(count, [*command, str(out)])
    assert cli.run([*command, str(out)]) == 0
    weights, log = ((tmp_path / "whole" / name).read_bytes() for name in ("weights.safetensors", "log.jsonl"))
    assert (out / "weights.safetensors").read_bytes() == weights
    assert (out / "log.jsonl").read_bytes() == log
