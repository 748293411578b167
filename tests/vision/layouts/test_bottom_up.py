"""``deixis features --layout bottom-up``: every published format gives the same regions."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

import official_files as official
from deixis import cli
from deixis.errors import DeixisError
from deixis.vision.layouts.fill import import_features
from deixis.vision.layouts.records import ImportOptions
from deixis.vision.store import FeatureStore


def run(source: Path, out: Path, *options: str) -> FeatureStore:
    assert cli.run(["features", "--from", str(source), "--layout", "bottom-up", "-o", str(out), *options]) == 0
    return FeatureStore(out)


def check(store: FeatureStore, content: official.Boxed, boxes: bool = True) -> None:
    assert sorted(store) == sorted(map(str, content))
    for image_id, (corners, features) in content.items():
        found = store[str(image_id)]
        np.testing.assert_allclose(found.features, features, atol=2e-3)
        assert found.features.dtype == np.float16
        if boxes:
            assert found.size == official.SIZE
            inside = np.minimum(corners + np.array([0, 0, 1, 1]), np.tile(official.SIZE, 2))
            np.testing.assert_allclose(found.boxes, inside, atol=1e-4)


def test_tsv(tmp_path: Path) -> None:
    content = official.bottom_up()
    official.tsv(tmp_path / "some.tsv", content)
    store = run(tmp_path / "some.tsv", tmp_path / "store")
    check(store, content)
    assert "bottom-up-adaptive" in store.extractor
    assert store["1000"].scores is None
    assert store["1000"].labels is None


def test_tsv_with_36_regions_in_two_parts(tmp_path: Path) -> None:
    content = official.bottom_up(36)
    folder = tmp_path / "trainval"
    folder.mkdir()
    some, others = (dict(list(content.items())[part]) for part in (slice(0, 5), slice(4, None)))  # one image twice
    official.tsv(folder / "karpathy.tsv.0", some)
    official.tsv(folder / "karpathy.tsv.1", others)
    store = run(folder, tmp_path / "store")
    check(store, content)
    assert "bottom-up-36" in store.extractor
    official.packed(folder)
    check(run(tmp_path / "trainval.tar.gz", tmp_path / "again"), content)


def test_tsv_with_classes(tmp_path: Path) -> None:
    content = official.bottom_up()
    official.tsv(tmp_path / "some.tsv", content, classes=True)
    (tmp_path / "classes.txt").write_text("\n".join(official.VG))
    store = run(tmp_path / "some.tsv", tmp_path / "store", "--classes", str(tmp_path / "classes.txt"))
    check(store, content)
    found = store["1000"]
    assert found.labels is not None
    assert found.labels.best(1)[0] == official.VG[1]
    np.testing.assert_allclose(found.scores, np.linspace(0.9, 0.3, len(found)), atol=1e-6)


@pytest.mark.parametrize("key", ["feat", "z"])
def test_folders(tmp_path: Path, key: str) -> None:
    content = official.bottom_up()
    official.feature_folders(tmp_path, content, key)
    pytest.importorskip("h5py")
    official.talk(tmp_path)  # its sizes
    store = run(tmp_path, tmp_path / "store")
    check(store, content)
    np.testing.assert_allclose(store["1007"].image_vector, content[1007][1].mean(0), atol=1e-3)


def test_hdf5_and_lmdb(tmp_path: Path) -> None:
    h5py, lmdb = pytest.importorskip("h5py"), pytest.importorskip("lmdb")
    content = official.bottom_up(36)
    official.feature_folders(tmp_path / "folders", content)
    official.photographs(tmp_path / "photos")
    (tmp_path / "h5").mkdir()
    (tmp_path / "lmdb").mkdir()
    for kind, suffix in (("att", "npz"), ("box", "npy"), ("fc", "npy")):
        database = lmdb.open(str(tmp_path / "lmdb" / f"cocobu_{kind}.lmdb"), subdir=False, map_size=2**26)
        with h5py.File(tmp_path / "h5" / f"cocobu_{kind}.h5", "w") as file, database.begin(write=True) as transaction:
            transaction.put(b"__keys__", b"a pickled list")
            for image_id, (corners, features) in content.items():
                arrays = {"att": features, "box": corners, "fc": features.mean(0)}
                file[str(image_id)] = arrays[kind]
                data = (tmp_path / "folders" / f"cocobu_{kind}" / f"{image_id}.{suffix}").read_bytes()
                transaction.put(str(image_id).encode(), data)
        database.close()
    photos = ["--images", str(tmp_path / "photos")]
    stores = [run(tmp_path / kind, tmp_path / f"{kind}.store", *photos) for kind in ("folders", "h5", "lmdb")]
    for store in stores:
        check(store, content)
        assert store.extractor == stores[0].extractor


def test_scan_and_pos_scan(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    content = official.bottom_up(36)
    official.photographs(tmp_path / "photos")
    photos = ["--images", str(tmp_path / "photos")]
    official.scan(tmp_path / "scan", content, h5=False)
    store = run(tmp_path / "scan", tmp_path / "scan.store", *photos)
    check(store, content, boxes=False)
    np.testing.assert_array_equal(store["1000"].boxes, np.tile([0, 0, *official.SIZE], (36, 1)))
    official.scan(tmp_path / "pos", content)
    check(run(tmp_path / "pos", tmp_path / "pos.store", *photos), content)
    official.gvd_annotations(tmp_path / "flickr")
    with h5py.File(tmp_path / "flickr" / "flickr_det_feat.hdf5", "w") as file:
        file["image_features"] = np.stack([features for _, features in content.values()])
        file["image_bb"] = np.stack([corners for corners, _ in content.values()])
    check(run(tmp_path / "flickr", tmp_path / "flickr.store", *photos), content)


def test_bad_lines_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = official.bottom_up()
    path = tmp_path / "some.tsv"
    official.tsv(path, content)
    lines = path.read_text().split("\n")
    lines[1] = lines[1].replace("\t", " ", 1)
    parts = lines[2].split("\t")
    parts[5] = base64.b64encode(b"12345").decode()
    lines[2] = "\t".join(parts)
    lines[3] = lines[3].replace("\t64\t48\t", "\t20\t48\t")
    path.write_text("\n".join(lines), newline="")
    store = run(path, tmp_path / "store", "--json")
    said = json.loads(capsys.readouterr().out)["skipped"]
    assert len(store) == len(content) - 3
    assert "5 columns" in said["some.tsv, line 2"]
    assert "features has 5 bytes" in said["1014"]
    assert "outside the image of 20 x 48" in said["1021"]


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("1000.npz", {"features": np.zeros((3, 8), np.float32)}, "expected feat or z"),
        ("1000.npz", {"feat": np.zeros((3, 8), np.int32)}, "type int32"),
        ("1000.npz", {"feat": np.zeros(8, np.float32)}, "shape"),
    ],
)
def test_a_wrong_key_shape_or_type_is_refused(
    tmp_path: Path, name: str, array: dict[str, np.ndarray], message: str
) -> None:
    (tmp_path / "x_att").mkdir()
    np.savez(tmp_path / "x_att" / name, **array)  # type: ignore[arg-type]
    with pytest.raises(DeixisError, match=message):
        import_features(tmp_path, "bottom-up", tmp_path / "store", ImportOptions())


def test_a_wrong_scan_file_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    official.scan(tmp_path, official.bottom_up(36))
    with h5py.File(tmp_path / "train_ims.h5", "a") as file:
        file.move("feats", "features")
    with pytest.raises(DeixisError, match="'feats' is missing"):
        import_features(tmp_path, "bottom-up", tmp_path / "store", ImportOptions())


def test_a_folder_without_features(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="no bottom-up features"):
        import_features(tmp_path, "bottom-up", tmp_path / "store", ImportOptions())
