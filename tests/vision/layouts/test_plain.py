"""The plain layout: written from a store and read back equal; written by hand and read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis import cli
from deixis.errors import DeixisError
from deixis.types import Regions
from deixis.vision.layouts.fill import import_features
from deixis.vision.layouts.records import ImportOptions
from deixis.vision.store import Contents, FeatureStore, StoreWriter

RNG = np.random.default_rng(1)
DESCRIPTION = {"version": 1, "backbone": {"name": "mine"}, "proposals": {"name": "boxes", "limit": 10}}


def regions(n: int) -> Regions:
    corner = RNG.uniform(0, 20, (n, 2))
    probs = RNG.uniform(size=(n, 3))
    return Regions(
        boxes=np.concatenate([corner, corner + RNG.uniform(1, 10, (n, 2))], axis=1).astype(np.float32),
        features=RNG.normal(size=(n, 5)).astype(np.float16),
        size=(40, 30),
        scores=RNG.uniform(size=n).astype(np.float32),
        frames=np.arange(n) % 2,
        grid=RNG.normal(size=(2, 3, 4, 6)).astype(np.float16),
        class_probs=(probs / probs.sum(1, keepdims=True)).astype(np.float16),
        class_names=("none", "cat", "dog"),
        image_vector=RNG.normal(size=7).astype(np.float16),
        temporal=RNG.normal(size=(3, 2)).astype(np.float16),
        extractor="mine+boxes-1",
    )


@pytest.mark.parametrize("layout", ["npz", "parquet"])
def test_a_store_written_and_read_back(tmp_path: Path, layout: str) -> None:
    if layout == "parquet":
        pytest.importorskip("pyarrow")
    with StoreWriter(tmp_path / "store", Contents("mine+boxes-1", DESCRIPTION)) as writer:
        for number in range(20):
            writer.add(f"deep/{number}.jpg", regions(2 + number % 3))
    out = tmp_path / f"plain.{layout}"
    assert cli.run(["export", str(tmp_path / "store"), "--to", layout, "--out", str(out)]) == 0
    again = tmp_path / "again"
    assert cli.run(["features", "--from", str(out), "--layout", layout, "-o", str(again)]) == 0
    before, after = FeatureStore(tmp_path / "store"), FeatureStore(again)
    assert after.extractor == "mine+boxes-1"  # a model of the first store takes the second
    assert list(after) == list(before)
    for image_id in before:
        for name in ("boxes", "features", "scores", "frames", "grid", "class_probs", "image_vector", "temporal"):
            np.testing.assert_array_equal(getattr(after[image_id], name), getattr(before[image_id], name))
        assert (after[image_id].size, after[image_id].class_names) == ((40, 30), ("none", "cat", "dog"))


def test_files_of_another_program(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    for name in ("a", "b"):
        np.savez(
            source / f"{name}.npz",
            boxes=np.array([[0.0, 0, 10, 10]]),
            features=np.ones((1, 4), np.float32),
            size=[20, 10],
        )
    out = tmp_path / "store"
    report = import_features(source, "npz", out, ImportOptions(detector="my-detector"))
    assert (report.images, report.skipped) == (2, {})
    assert FeatureStore(out).extractor.startswith("my-detector+given-")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boxes": None}, "'boxes' is missing"),
        ({"boxes": np.zeros((1, 5))}, r"shape \[1, 5\]"),
        ({"boxes": np.zeros((1, 4), int)}, "type int64"),
        ({"boxes": np.array([[0.0, 0, 30, 5]])}, "inside the image of 20 x 10"),
        ({"features": np.zeros((2, 4))}, r"expected \[1, n\]"),
        ({"features": np.full((1, 4), np.nan)}, "not finite"),
        ({"class_probs": np.ones((1, 2))}, "class_names"),
        ({"size": np.array([0, 3])}, "width and height"),
    ],
)
def test_a_wrong_key_shape_or_type_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    arrays = {"boxes": np.array([[0.0, 0, 10, 10]]), "features": np.ones((1, 4)), "size": np.array([20, 10])} | change
    np.savez(tmp_path / "a.npz", **{k: v for k, v in arrays.items() if v is not None})  # type: ignore[arg-type]
    with pytest.raises(DeixisError, match=message):
        import_features(tmp_path / "a.npz", "npz", tmp_path / "store", ImportOptions())


def test_a_wrong_parquet_file_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"image_id": ["a"], "width": [4], "height": [4], "boxes": [[0.0, 0.0, 1.0, 1.0]]})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DeixisError, match="column 'features' is missing"):
        import_features(tmp_path / "a.parquet", "parquet", tmp_path / "store", ImportOptions())
    (tmp_path / "b.parquet").write_bytes(b"not parquet")
    with pytest.raises(DeixisError, match="not a Parquet file"):
        import_features(tmp_path / "b.parquet", "parquet", tmp_path / "store2", ImportOptions())


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(DeixisError, match=r"deixis\[formats\]"):
        import_features(tmp_path / "a.parquet", "parquet", tmp_path / "store", ImportOptions())
