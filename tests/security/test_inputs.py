"""Sources of many images and published features that are made to hang, to fill the memory or to leave their folder."""

from __future__ import annotations

import ast
import io
import os
import shutil
import signal
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest
from hostile import picture

import deixis
from deixis import cli
from deixis.clips import ClipLimits, load_frames
from deixis.corpus import sources
from deixis.corpus.parts import Parts
from deixis.corpus.sources import Item, list_items, load_item
from deixis.corpus.work import answer_all, open_item
from deixis.data.hdf5 import find_array, open_hdf5, read_array
from deixis.data.reading import BadFile, BadRecord
from deixis.errors import DeixisError
from deixis.pipelines.caption import _batches
from deixis.pipelines.clip import Clip
from deixis.pipelines.photo import Photo, extract_batch
from deixis.vision.bulk import Job, outcomes_of
from deixis.vision.extractor import RegionExtractor, named_extractor
from deixis.vision.layouts import plain
from deixis.vision.layouts.records import open_archive

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'deixis[formats]'")
pq = pytest.importorskip("pyarrow.parquet")

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")


def png(seed: int = 0, size: tuple[int, int] = (60, 40)) -> bytes:
    file = io.BytesIO()
    picture(seed, size).save(file, "PNG")
    return file.getvalue()


# Pipes and devices --------------------------------------------------------------------------------------------------

OPENING = {
    *("open", "read_text", "read_bytes", "File", "ParquetFile", "read_table", "load_file", "safe_open", "memmap"),
    *("connect", "ZipFile", "TarFile", "loadtxt", "genfromtxt", "fromfile", "load"),
}
"""Names of functions that open a file by its path."""

CHECKED = {"read_text", "read_bytes", "read_table", "files.read_bytes", "load"}
"""Functions of files.py and data/reading.py; ``load`` of safetensors takes bytes."""

OPENED = {
    "cache.py": {"os.open", "sqlite3.connect"},  # the user's own folder
    "cli.py": {"os.open"},  # /dev/null
    "clips.py": {"av.open"},  # an open file
    "corpus/sources.py": {"pyarrow.parquet.ParquetFile", "tarfile.open", "fs.open"},  # an open file; a URL
    "data/reading.py": {"gzip.open"},  # bytes
    "exports/table.py": {"tmp_path.open"},  # to write
    "files.py": {"os.open", "path.open"},
    "images.py": {"Image.open"},  # an open file
    "language/tagger.py": {"np.load"},  # of the package
    "layers/checkpoint_file.py": {"torch.load", "zipfile.ZipFile", "archive.open"},  # after open_regular
    "layers/minilm.py": {"load_file"},  # after require_sha256
    "metrics/java.py": {"output_path.read_text"},  # of a program that ran just before
    "model_folder.py": {"load_file"},  # after require_regular
    "pipelines/captions_file.py": {"path.open"},  # refuses what is no file before
    "serve/app.py": {"file.read_bytes"},  # of scikit-image
    "show/clip.py": {"av.open"},  # to write
    "study/database.py": {"sqlite3.connect"},
    "training/log.py": {"(run / LOG).open"},  # to write
    "vision/layouts/bottom_up.py": {"lmdb.open"},  # after require_regular
    "vision/layouts/records.py": {"zipfile.ZipFile", "tarfile.open"},  # bytes, and an open file
    "vision/layouts/plain.py": {"zipfile.ZipFile"},  # bytes
    "vision/networks.py": {"Path('/proc/cpuinfo').read_text", "lzma.open", "path.read_bytes"},  # after require_sha256
    "vision/proposals/lookup.py": {"zipfile.ZipFile", "np.load"},  # bytes
    "vision/store.py": {"np.memmap"},  # after require_regular
}
"""Calls that need no check, because they write, or take an open file, bytes or a checked path."""


def test_files_are_opened_in_one_place() -> None:
    """Every other module opens the files of others by functions of files.py, which refuse pipes and devices."""
    root, found = Path(deixis.__file__).parent, []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called not in OPENING:
                continue
            function = ast.unparse(node.func)
            if function in CHECKED | OPENED.get(name, set()):
                continue
            if called == "load" and function not in ("np.load", "numpy.load", "torch.load", "pickle.load", "json.load"):
                continue
            if called == "open" and function.endswith(("sample.open", "samples[image].open", "_sample(image_id).open")):
                continue
            if "require_regular(" not in ast.unparse(node) and "files('deixis" not in function:
                found.append(f"{name}, line {node.lineno}: {function}")
    assert found == [], "open these with open_regular, read_bytes or read_text of deixis.files"


@pytest.fixture
def soon() -> Iterator[None]:
    """Whoever waits for the writer of a pipe gets a TimeoutError."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError("waited for a pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 30.0, 1.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


CORPORA = ("a.txt", "a.tsv", "a.jsonl", "a.tar", "a.parquet")
LAYOUTS = (
    *(("npz", "a.npz"), ("parquet", "a.parquet"), ("bottom-up", "a.tsv"), ("bottom-up", "a.tar.gz")),
    *(("bottom-up", "a_att.h5"), ("bottom-up", "a_att.lmdb"), ("bottom-up", "train_ims.npy")),
)


def refused(command: Sequence[str], path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command that ends with one line about a file."""
    assert cli.run(list(command)) == 1, command
    printed = capsys.readouterr().err
    assert "unexpected" not in printed, command
    assert str(path) in printed.splitlines()[-1], command


@posix
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.usefixtures("soon")
def test_sources_and_features_are_regular_files(
    kind: str, models: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [(name, ["caption", "--model", str(models[0]), "--parts", str(tmp_path / "out")]) for name in CORPORA]
    store = ["-o", str(tmp_path / "store"), "--from"]
    commands += [(name, ["features", "--layout", layout, *store]) for layout, name in LAYOUTS]
    for number, (name, command) in enumerate(commands):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        _special(path, kind)
        refused([*command, str(path)], path, capsys)
    [place] = list_items([f"file://{path}"]) if (path := _special(tmp_path / "a.png", kind)) else ()
    with pytest.raises(DeixisError, match="not a regular file"):
        load_item(place)


def _special(path: Path, kind: str) -> Path:
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@posix
@pytest.mark.usefixtures("soon")
def test_files_of_model_folders_and_stores_are_regular(
    models: tuple[Path, Path], world_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture().save(tmp_path / "a.png")
    names = ("config.json", "weights.safetensors", "vocabulary.json", "familiar.safetensors", "blank.safetensors")
    for name in names:
        folder = Path(shutil.copytree(models[0], tmp_path / f"{name} folder"))
        (folder / name).unlink(missing_ok=True)
        path = _special(folder / name, "pipe")
        refused(["caption", str(tmp_path / "a.png"), "--model", str(folder)], path.parent, capsys)
    [shard] = [path.name for path in world_store.glob("*.safetensors")]
    for name in ("store.json", shard):
        store = Path(shutil.copytree(world_store, tmp_path / f"{name} store"))
        (store / name).unlink(missing_ok=True)
        path = _special(store / name, "pipe")
        refused(["search", str(store), "a dog", "--model", str(models[1])], path.parent, capsys)


@pytest.fixture
def world_store(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    picture().save(tmp_path / "photos" / "1.png")
    tiny = ["--backbone", "tiny", "--proposals", "grid", "--processes", "1", "--quiet"]
    assert cli.run(["features", str(tmp_path / "photos"), "-o", str(tmp_path / "store"), *tiny]) == 0
    return tmp_path / "store"


# Lists, tar shards and parquet files --------------------------------------------------------------------------------


def test_a_list_has_names_of_any_bytes(tmp_path: Path) -> None:
    name = b"\xff\x1b[31m.png"
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(png())
    except OSError:
        pytest.skip("this file system takes only names that are UTF-8")
    (tmp_path / "list.txt").write_bytes(name + b"\ta \xff dog\n")
    for shard in ((1, 1), (1, 2), (2, 2)):
        for item in list_items([str(tmp_path / "list.txt")], shard):
            assert load_item(item).size == (60, 40)
            assert item.caption == "a \ufffd dog"
    assert len(list(list_items([str(tmp_path / "list.txt")]))) == 1


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_parts_keep_names_of_any_bytes(format: Literal["jsonl", "parquet"], tmp_path: Path) -> None:
    """A run that resumes finds the names that are done."""
    parts = Parts(tmp_path / "parts", {"verb": "size"}, format)
    names = [os.fsdecode(b"\xff\x1b[31m.png"), "plain.png", "\\udcff.png"]
    parts.write([{"image": name, "caption": "a dog"} for name in names])
    assert sorted(row["image"] for row in parts.rows()) == sorted(names)
    assert all(name in parts.done() for name in names)


def test_urls_of_files_keep_their_slashes() -> None:
    urls = ("file:///tmp/a.tar", "s3://bucket/a.tar", "https://host/a.txt")
    assert tuple(sources.as_source(Path(url)) for url in urls) == urls


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"x" * (sources.MAX_LINE + 10), "line 1 has over"),
        ("a.jsonl", b'{"image": null}', "line 1: expected JSON"),
        ("a.jsonl", b'{"image": "a.png", "caption": {"a": 1}}', "line 1: expected JSON"),
        ("a.jsonl", b'{"image": ' + b"[" * 100_000, "line 1: expected JSON"),
    ],
    ids=["long line", "no name", "no caption", "deep"],
)
def test_a_hostile_list_is_named(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DeixisError, match=said):
        list(list_items([str(tmp_path / name)]))


def test_a_tar_file_is_never_unpacked_and_its_links_lead_nowhere(tmp_path: Path) -> None:
    path, inner = tmp_path / "in" / "a.tar", tmp_path / "in"
    inner.mkdir()
    picture().save(tmp_path / "secret.png")
    with tarfile.open(path, "w") as tar:
        for name, kind in (
            *(
                ("../../out.png", tarfile.REGTYPE),
                ("/tmp/deixis-out.png", tarfile.REGTYPE),
                ("ok.png", tarfile.REGTYPE),
            ),
            *(("soft.png", tarfile.SYMTYPE), ("hard.png", tarfile.LNKTYPE), ("pipe.png", tarfile.FIFOTYPE)),
            *(("device.png", tarfile.CHRTYPE), ("huge.png", tarfile.REGTYPE)),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(tmp_path / "secret.png")
            member.size = len(png()) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(png()))
    items = list(list_items([str(path)]))
    names = ["../../out.png", "/tmp/deixis-out.png", "ok.png", "huge.png"]
    assert sorted(item.image for item in items) == sorted(f"{path}/{name}" for name in names)
    assert {load_item(item).size for item in items} == {(60, 40)}
    huge = Item("huge.png", str(path), offset=0, size=sources.MAX_IMAGE + 1)
    with pytest.raises(DeixisError, match=r"huge\.png has .* bytes; the limit is"):
        load_item(huge)
    assert [each.name for each in inner.iterdir()] == ["a.tar"]
    assert not Path("/tmp/deixis-out.png").exists()


def test_headers_of_tar_files_are_bounded(tmp_path: Path) -> None:
    """A header of long names says that it has 3 GB; the file has holes in place of them."""
    path = tmp_path / "a.tar"
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        header = tarfile.TarInfo("name")
        header.type, header.size = kind, 3 * 2**30
        with path.open("wb") as file:
            file.write(header.tobuf(tarfile.GNU_FORMAT))
            file.truncate(header.size + 2048)
        with pytest.raises(DeixisError, match=r"a header of 3,221,225,472 bytes"):
            list(list_items([str(path)]))
        with pytest.raises(BadFile, match="a header of"):
            open_archive(path)


def write_parquet(path: Path, **columns: Any) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_a_repeated_value_of_a_parquet_file_is_in_memory_once(tmp_path: Path) -> None:
    """100 rows with one value of 1 MB: 1 MB in the file."""
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array([bytes(2**20)], pa.binary()))
    path = write_parquet(tmp_path / "a.parquet", image=rows)
    assert sources._column(path, 0, "image").nbytes < 3 * 2**20
    with pytest.raises(DeixisError, match=r"a\.parquet#0\.7 cannot be read as an image"):
        load_item(list(list_items([path]))[7])


def test_columns_of_a_parquet_file_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", image=[png(), png(1)])
    monkeypatch.setattr(sources, "MAX_GROUP", 1000)
    [first, _] = list_items([path])
    with pytest.raises(DeixisError, match=r"row group 0 has .* bytes of the column image"):
        load_item(first)
    monkeypatch.undo()
    path = write_parquet(tmp_path / "b.parquet", image=[png()], caption=["x" * (sources.MAX_TEXT + 1)])
    with pytest.raises(DeixisError, match="a name or caption has over"):
        list(list_items([path]))


@pytest.mark.parametrize(
    "value", ["/dev/zero", "../../etc/passwd", "a\0b", 5, None, b"", {"bytes": None, "path": None}]
)
def test_an_image_of_a_parquet_file_that_is_none_is_its_row(value: Any, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", image=[value])
    [item] = list_items([path])
    opened, reason = open_item(item)
    assert opened == item
    assert isinstance(reason, str)


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    path, random = tmp_path / "a.parquet", np.random.default_rng(0)
    sound = Path(write_parquet(path, image=[png(), png(1)], id=["a", "b"])).read_bytes()
    for number in range(60):
        data = bytearray(sound)
        start = 0 if number % 2 else len(data) - 600  # the description is at the end
        for place in random.integers(start, len(data), 6):
            data[place] = random.integers(0, 256)
        changed = tmp_path / f"{number}.parquet"
        changed.write_bytes(data)
        said = error_of(lambda path=changed: [open_item(item) for item in list_items([str(path)])])  # type: ignore[misc]
        assert not said or str(changed) in said


def error_of(action: Callable[[], object]) -> str:
    """The sentence with which an action is refused; empty where it is not. Other errors are not caught."""
    try:
        action()
    except DeixisError as error:
        return str(error)
    return ""


# Large images -------------------------------------------------------------------------------------------------------


def test_large_images_of_a_corpus_are_opened_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of small files can have gigabytes of pixels."""
    monkeypatch.setattr("deixis.corpus.work.LARGE_PIXELS", 1000)
    together: list[int] = []

    def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[dict[str, Any]]:
        together.append(len(photos))
        return [{"width": photo.image.width} for photo in photos]

    for number, size in enumerate([(60, 40), (30, 30), (60, 40), (20, 20), (60, 40)]):
        picture(number, size).save(tmp_path / f"{number}.png")
    opened = [open_item(item, 1000) for item in list_items([str(tmp_path)])]
    assert [image is None for _, image in opened] == [True, False, True, False, True]
    rows = answer_all(answer, opened)
    assert [row["width"] for row in rows] == [60, 30, 60, 20, 60]
    assert sorted(together) == [1, 1, 1, 2]


def test_large_images_of_a_folder_are_decoded_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.pipelines.photo.LARGE_PIXELS", 1000)
    monkeypatch.setattr("deixis.vision.bulk.LARGE_PIXELS", 1000)
    batches: list[int] = []
    batch = RegionExtractor.extract_batch

    def counted(self: RegionExtractor, images: Sequence[Any], image_ids: Sequence[str]) -> Any:
        batches.append(len(images))
        return batch(self, images, image_ids)

    monkeypatch.setattr(RegionExtractor, "extract_batch", counted)
    for number, size in enumerate([(60, 40), (30, 30), (60, 40), (20, 20)]):
        picture(number, size).save(tmp_path / f"{number}.png")
    extractor = named_extractor("tiny", "grid")
    photos = [Photo(tmp_path / f"{number}.png") for number in range(4)]
    assert photos[0].image is not photos[0].image  # not kept
    assert photos[1].image is photos[1].image
    extract_batch(photos, extractor)
    assert batches == [2]
    assert [photo.regions(extractor).size for photo in photos] == [(60, 40), (30, 30), (60, 40), (20, 20)]
    batches.clear()
    jobs = [Job(str(number), (tmp_path / f"{number}.png",)) for number in range(4)]
    assert all(outcome.regions is not None for outcome in outcomes_of(extractor, jobs))
    assert batches == [1, 1, 1, 1]


def test_frames_of_one_clip_are_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [Photo("a.png"), Clip("a.mp4"), Clip("b.mp4"), Photo("b.png"), Photo("c.png")]
    assert [len(some) for some in _batches(iter(given))] == [2, 1, 2]
    picture().save(tmp_path / "01.png")
    monkeypatch.setattr("deixis.clips.LIMITS", ClipLimits(pixels=1000))
    with pytest.raises(DeixisError, match="over the limit of 1,000"):
        load_frames([tmp_path / "01.png"])


# Published features -------------------------------------------------------------------------------------------------


def test_an_hdf5_file_allocates_no_more_than_it_may(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("huge", (10**6, 10**6), "f4", chunks=(10, 10))  # a few bytes: no chunk is written
        file.create_dataset("chunk", (10**6, 10**6), "f4", chunks=(20_000, 20_000))
        file["rows"] = np.ones((3, 4), np.float32)
        file["soft"] = h5py.SoftLink("/rows")
        file["other"] = h5py.ExternalLink(str(tmp_path / "b.h5"), "/rows")
        file.create_dataset("outside", (4,), "u1", external=[("/etc/hostname", 0, 4)])
        file.create_group("group")
    with open_hdf5(path) as file:
        with pytest.raises(BadRecord, match="bytes"):
            read_array(find_array(file, path, "huge"))
        assert read_array(find_array(file, path, "huge"), 5).shape == (10**6,)
        for name in ("chunk", "soft", "other", "outside", "group"):
            with pytest.raises(BadFile, match=f"'{name}'"):
                find_array(file, path, name)
        assert find_array(file, path, "none") is find_array(file, path, "group/none") is None
        assert read_array(find_array(file, path, "rows"), 1).tolist() == [1, 1, 1, 1]


def test_published_parquet_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that repeat one number take no room in the file."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"features": [[1.0] * 100_000] * 4}), path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(plain, "MAX_ARRAY", 1_000_000)
    with pytest.raises(BadFile, match="16 rows have"):
        list(plain._batches(path, pq.ParquetFile(path)))
    monkeypatch.setattr(plain, "MAX_VALUES", 1000)
    with pytest.raises(BadFile, match="a row group has over 1,000 numbers"):
        list(plain._batches(path, pq.ParquetFile(path)))


def test_published_npz_files_are_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.zeros(1000), b=np.zeros(1000))
    monkeypatch.setattr(plain, "MAX_ARRAY", 10_000)
    with pytest.raises(BadRecord, match="once unpacked"):
        plain._read_npz(file.getvalue(), "a.npz")
