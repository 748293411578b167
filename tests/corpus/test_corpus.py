"""Corpora: every source lists the same images, and killed runs lose and repeat nothing."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_works import SizeWork
from deixis import DeixisError
from deixis.corpus.options import CorpusOptions, EngineOptions
from deixis.corpus.parts import Parts
from deixis.corpus.ray_engine import Actor, _check_gpus
from deixis.corpus.run import run_corpus
from deixis.corpus.sources import Item, as_source, list_items, load_item, parse_shard
from deixis.corpus.work import CaptionWork, answer_all, open_item
from deixis.errors import UsageError
from deixis.pipelines.photo import Photo
from deixis.types import Json
from small_models import noise, save_noise


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Thirty pictures and a file that is none."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(30):
        save_noise(folder / f"{number:02}.png", number, (20 + number, 10))
    (folder / "bad.png").write_bytes(b"no picture")
    return folder


def run(work: Any, sources: Sequence[str], parts: Path, **options: Any) -> list[Json]:
    for _ in run_corpus(work, sources, CorpusOptions(parts=parts, **options)):
        pass
    about = json.loads((parts / "corpus.json").read_text())
    return sorted(Parts(parts, work.about(), about["format"]).rows(), key=lambda row: str(row["image"]))


def png(number: int, width: int) -> bytes:
    file = io.BytesIO()
    noise(number, (width, 10)).save(file, "PNG")
    return file.getvalue()


def tar_shard(path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for number in range(4):
            for name, data in (
                (f"a/{number}.png", png(number, 20 + number)),
                (f"a/{number}.txt", f"a dog {number}".encode()),
            ):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return path


def widths(source: str) -> list[tuple[int, str]]:
    return [(load_item(item).width, item.caption) for item in list_items([source])]


def test_sources_of_files(pictures: Path, tmp_path: Path) -> None:
    names = [item.image for item in list_items([str(pictures)])]
    assert len(names) == 31
    assert [item.image for item in list_items([f"{pictures}/*.png"])] == names
    url = f"file://{pictures}"
    assert [Path(item.image).name for item in list_items([url])] == [Path(name).name for name in names]
    assert load_item(next(list_items([url]))).size == (20, 10)
    listed = tmp_path / "list.txt"
    listed.write_text("pictures/03.png\tA red ball.\n\npictures/05.png\n")
    assert widths(str(listed)) == [(23, "A red ball."), (25, "")]
    lines = tmp_path / "list.jsonl"
    lines.write_text('{"image": "pictures/03.png", "caption": "A dog."}\n')
    assert widths(str(lines)) == [(23, "A dog.")]
    lines.write_text('{"picture": 1}\n')
    with pytest.raises(DeixisError, match="line 1"):
        list(list_items([str(lines)]))
    assert as_source(Path("s3://bucket/a")) == "s3://bucket/a"
    assert as_source(Path("/a/b")) == "/a/b"


def test_tar_shards(tmp_path: Path) -> None:
    shard = tar_shard(tmp_path / "shard.tar")
    expected = [(20 + number, f"a dog {number}") for number in range(4)]
    assert widths(str(shard)) == expected
    assert widths(f"file://{shard}") == expected
    (tmp_path / "broken.tar").write_bytes(b"x" * 600)
    with pytest.raises(DeixisError, match="tar file"):
        list(list_items([str(tmp_path / "broken.tar")]))
    with pytest.raises(DeixisError, match="Unpack"):
        list(list_items(["shard.tar.gz"]))


def test_parquet_with_bytes_paths_and_structures(pictures: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    images = [png(number, 20 + number) for number in range(5)]
    captions = [f"a cat {number}" for number in range(5)]
    expected = list(zip(range(20, 25), captions, strict=True))
    for name, column in (
        ("bytes", images),
        ("image", [{"bytes": image, "path": None} for image in images]),
        ("path", [f"pictures/{number:02}.png" for number in range(5)]),
    ):
        file = tmp_path / f"{name}.parquet"
        parquet.write_table(pa.table({name: column, "caption": captions}), file, row_group_size=2)
        assert widths(str(file)) == expected
        assert len({item.image for item in list_items([str(file)])}) == 5
    parquet.write_table(pa.table({"other": [1]}), tmp_path / "other.parquet")
    with pytest.raises(DeixisError, match="no column of images"):
        list(list_items([str(tmp_path / "other.parquet")]))


def test_shards_are_disjoint_and_complete(pictures: Path, tmp_path: Path) -> None:
    whole = run(SizeWork(), [str(pictures)], tmp_path / "whole")
    for number in (1, 2, 3):
        rows = run(SizeWork(), [str(pictures)], tmp_path / "shards", shard=f"{number}/3")
    assert rows == whole
    for text in ("0/3", "4/3", "3", "a/b"):
        with pytest.raises(UsageError, match="--shard"):
            parse_shard(text)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_killed_run_loses_and_repeats_nothing(format: str, pictures: Path, tmp_path: Path) -> None:
    if format == "parquet":
        pytest.importorskip("pyarrow")
    whole = run(SizeWork(), [str(pictures)], tmp_path / "whole", format=format)
    assert [("error" in row) for row in whole].count(True) == 1
    random = np.random.default_rng(0)
    options = {"format": format, "part_rows": 3, "batch": 2}
    for number in random.integers(0, 30, 10):
        if not (child := os.fork()):  # a real process, killed before that image
            try:
                run(SizeWork(die=f"{pictures}/{number:02}.png"), [str(pictures)], tmp_path / "killed", **options)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    rows = run(SizeWork(), [str(pictures)], tmp_path / "killed", **options)
    assert rows == whole
    assert max(Counter(str(row["image"]) for row in rows).values()) == 1


def test_an_interrupted_run_keeps_its_rows(pictures: Path, tmp_path: Path) -> None:
    going = run_corpus(SizeWork(), [str(pictures)], CorpusOptions(parts=tmp_path / "out", part_rows=4, batch=3))
    next(going)
    going.close()  # as at Ctrl-C: rows of the incomplete part are written
    done = Parts(tmp_path / "out", SizeWork().about()).done()
    assert 4 <= len(done) < 31
    assert len(run(SizeWork(), [str(pictures)], tmp_path / "out")) == 31


def test_other_settings_and_other_files_are_refused(pictures: Path, tmp_path: Path) -> None:
    run(SizeWork(), [str(pictures)], tmp_path / "out")
    with pytest.raises(DeixisError, match="other settings"):
        run(CaptionWork("model"), [str(pictures)], tmp_path / "out")
    with pytest.raises(DeixisError, match="empty folder"):
        run(SizeWork(), [str(pictures)], pictures)
    with pytest.raises(UsageError, match="--parts"):
        CorpusOptions(shard="1/2").check()


def test_an_error_of_one_image_is_its_row(pictures: Path) -> None:
    def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
        if any(photo.image.width == 25 for photo in photos):
            raise ValueError("no words")
        return [{"image": photo.name} for photo in photos]

    opened = [open_item(item) for item in list_items([str(pictures)])]
    rows = answer_all(answer, opened)
    assert [row["image"] for row in rows] == [item.image for item, _ in opened]
    failed = {Path(str(row["image"])).name: str(row["error"]) for row in rows if "error" in row}
    assert set(failed) == {"05.png", "bad.png"}
    assert "no words" in failed["05.png"]


def test_actors_see_the_gpus_that_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    Actor(SizeWork(), 1, 0.5)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    Actor(SizeWork(), 1, 0)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    _check_gpus(1, EngineOptions(engine="ray", actors=2, actor_gpus=0.5))
    for options in (
        EngineOptions(engine="ray", actors=3, actor_gpus=0.5),
        EngineOptions(engine="ray", address="auto", actor_gpus=2),
    ):
        with pytest.raises(DeixisError, match="need more GPUs"):  # Ray would wait without end
            _check_gpus(1, options)
