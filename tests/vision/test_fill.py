"""Filling a store: which images there are, which are still to do, and what is written of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.errors import DeixisError
from deixis.types import Regions
from deixis.vision.bulk import Job, Outcome
from deixis.vision.fill import find_jobs, pending_jobs, report_fill, store_outcomes, verify_store
from deixis.vision.store import Contents, FeatureStore, StoreWriter

CONTENTS = Contents("tiny", {})


def photo() -> Image.Image:
    return Image.new("RGB", (6, 4))


def regions(value: float = 0.5) -> Regions:
    return Regions(np.array([[0, 0, 6, 4.0]]), np.full((1, 3), value), (6, 4), extractor="tiny")


def test_jobs_of_data_sets_and_folders(tmp_path: Path) -> None:
    photo().save(tmp_path / "b.jpg")
    photo().save(tmp_path / "a.png")
    assert [job.image_id for job in find_jobs(tmp_path)] == ["a.png", "b.jpg"]
    with pytest.raises(DeixisError, match="plain folder of images and has no split 'val'"):
        find_jobs(tmp_path, "val")
    (tmp_path / "captions.csv").write_text(
        "image,caption,split\na.png,a dog,train\na.png,one dog,train\nb.jpg,cats,val\n"
    )
    assert sorted(path.name for job in find_jobs(tmp_path) for path in job.paths) == ["a.png", "b.jpg"]
    assert [job.paths[0].name for job in find_jobs(tmp_path, "val")] == ["b.jpg"]
    (tmp_path / "empty").mkdir()
    for nothing in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(DeixisError, match=nothing.name):
            find_jobs(nothing)


def test_what_failed_is_pending_again_only_when_its_file_has_changed(tmp_path: Path) -> None:
    names = ("good.png", "bad.png", "infinite.png")
    for name in names:
        photo().save(tmp_path / name)
    jobs = find_jobs(tmp_path)
    outcomes = {
        "good.png": Outcome(jobs[1], regions()),
        "bad.png": Outcome(jobs[0], reason="bad.png is bad."),
        "infinite.png": Outcome(jobs[2], regions(np.inf)),  # half precision cannot hold it
    }
    with StoreWriter(tmp_path / "store", CONTENTS) as writer:
        assert pending_jobs(jobs, writer) == jobs
        assert list(store_outcomes(outcomes.values(), writer)) == list(outcomes.values())
    with StoreWriter(tmp_path / "store", CONTENTS) as writer:
        assert pending_jobs(jobs, writer) == []
        (tmp_path / "bad.png").write_bytes(b"another file")
        assert pending_jobs(jobs, writer) == [jobs[0]]
    found = report_fill(tmp_path / "store", [job.image_id for job in jobs], 1, 2.04)
    assert (found.images, found.added, found.seconds, found.extractor) == (1, 1, 2.0, "tiny")
    assert found.skipped["bad.png"] == "bad.png is bad."
    assert "half precision" in found.skipped["infinite.png"]
    with pytest.raises(DeixisError, match=r"None of the 1 images could be used\. The first error: bad\.png is bad\."):
        report_fill(tmp_path / "store", [jobs[0].image_id], 0, 0.0)


def test_a_damaged_store_is_reported(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, CONTENTS) as writer:
        list(store_outcomes([Outcome(Job("a", ()), regions())], writer))
    verify_store(tmp_path)
    (shard,) = tmp_path.glob("shard-*")
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    assert len(FeatureStore(tmp_path)) == 1
    with pytest.raises(DeixisError, match=f"damaged shards: {shard.name}. Delete these files"):
        verify_store(tmp_path)
