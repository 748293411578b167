"""``deixis features --from DIR --layout gvd``: GVD's files of Flickr30k and ActivityNet."""

from __future__ import annotations

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

h5py = pytest.importorskip("h5py")


def run(root: Path, out: Path, *options: str) -> FeatureStore:
    assert cli.run(["features", "--from", str(root), "--layout", "gvd", "-o", str(out), *options]) == 0
    return FeatureStore(out)


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def test_flickr30k(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "gvd"
    content = official.gvd_flickr30k(root, weights=False)
    weights = official.detectron_weights(root)
    store = run(root, tmp_path / "store", "--json", "--verify")
    assert json.loads(capsys.readouterr().out)["images"] == len(official.IDS)
    assert list(store) == [str(i) for i in official.IDS]
    for image_id, (table, features) in content.items():
        kept = table[:, 5] > np.float32(0.2)
        assert not kept[1]  # a score of exactly .2
        assert kept[2]  # background is kept
        found = store[str(image_id)]
        expected = table[kept]
        np.testing.assert_allclose(found.features, features[kept], atol=2e-3)
        np.testing.assert_allclose(found.boxes, expected[:, :4] + [0, 0, 1, 1], atol=1e-4)
        np.testing.assert_array_equal(found.scores, expected[:, 5])
        assert found.size == official.SIZE
        assert found.labels is not None
        np.testing.assert_array_equal(found.labels.ids[:, 0], expected[:, 4])
        hidden = np.maximum(features[kept] @ weights["fc7_w"].T + weights["fc7_b"], 0)
        probs = softmax(hidden @ np.maximum(weights["cls_score_w"], 0).T + weights["cls_score_b"])
        np.testing.assert_allclose(found.class_probs, probs, atol=1e-3)
        assert found.class_names == ("__background__", *official.VG)
    head = store.head()
    assert head is not None
    np.testing.assert_array_equal(head.class_weight, weights["cls_score_w"])


def test_the_class_head_takes_the_classes_of_the_data_set(tmp_path: Path) -> None:
    root = tmp_path / "gvd"
    official.gvd_flickr30k(root, weights=False)
    weights = official.detectron_weights(root)
    official.glove(tmp_path / "glove.txt")
    store = run(root, tmp_path / "store", "--glove", str(tmp_path / "glove.txt"), "--no-background")
    head = store.head()
    assert head is not None
    assert head.names == ("__background__", *official.CLASSES)  # by number, not by the order of wtod in the file
    nearest = [0, 1, 2, 3, 4]  # background, "dog,puppy", "man", "ball", "green grass"
    np.testing.assert_array_equal(head.class_weight, weights["cls_score_w"][nearest])
    np.testing.assert_array_equal(head.class_bias, weights["cls_score_b"][nearest])
    assert all((store[i].labels.ids != 0).all() for i in store)  # type: ignore[union-attr]


def test_archive_and_resumption_give_the_same_store(tmp_path: Path) -> None:
    root = tmp_path / "gvd"
    official.gvd_flickr30k(root)
    whole = run(root, tmp_path / "whole")
    official.packed(root / official.FEATURES)
    assert len(run(root, tmp_path / "part", "--limit", "3")) == 3
    other = run(root, tmp_path / "part")
    assert set(other) == set(whole)
    assert other.extractor == whole.extractor
    for image_id in whole:
        np.testing.assert_array_equal(other[image_id].features, whole[image_id].features)
    moved = tmp_path / "elsewhere"
    root.rename(moved)
    assert run(moved, tmp_path / "again").extractor == whole.extractor


def test_activitynet(tmp_path: Path) -> None:
    root = tmp_path / "anet"
    content = official.gvd_activitynet(root)
    resnet, motion = (np.load(root / "rgb_motion_1d" / f"abc_{kind}.npy") for kind in ("resnet", "bn"))
    store = run(root, tmp_path / "store")
    assert list(store) == ["v_abc_segment_0", "v_abc_segment_1", "v_xyz-1_segment_0"]
    table, features = content["v_abc_segment_00"]
    found = store["v_abc_segment_0"]
    kept = table[:, 6] > np.float32(0.2)
    assert len(found) == 300
    assert found.size == (720, 540)
    np.testing.assert_array_equal(found.frames, np.repeat([0, 1, 2], 100))
    np.testing.assert_allclose(found.features[kept], features.reshape(-1, 2048)[kept], atol=2e-3)
    expected = np.minimum(table[kept, :4] + [0, 0, 1, 1], [720, 540, 720, 540])
    np.testing.assert_allclose(found.boxes[kept], expected, atol=1e-3)
    assert not found.features[~kept].any()
    assert not found.boxes[~kept].any()
    assert not found.scores[~kept].any()  # type: ignore[index]
    rows = np.concatenate([resnet, motion], axis=1)
    assert found.temporal is not None
    assert found.temporal.shape == rows.shape
    np.testing.assert_allclose(found.temporal, rows, atol=2e-3)
    short = store["v_xyz-1_segment_0"]
    assert short.temporal is not None
    assert short.temporal.shape == (7, 3072)


def test_activitynet_from_archives(tmp_path: Path) -> None:
    root = tmp_path / "anet"
    official.gvd_activitynet(root)
    official.detectron_weights(root)
    whole = run(root, tmp_path / "whole")
    official.packed(root / "fc6_feat_100rois")
    official.packed(root / "rgb_motion_1d")
    official.packed(root / "detectron_weights")
    other = run(root, tmp_path / "other")
    assert not (tmp_path / "other.unpacked").exists()
    for name in whole:
        np.testing.assert_array_equal(other[name].features, whole[name].features)
        np.testing.assert_array_equal(other[name].class_probs, whole[name].class_probs)
        np.testing.assert_array_equal(other[name].temporal, whole[name].temporal)


def test_bad_records_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "gvd"
    official.gvd_flickr30k(root)
    folder = root / official.FEATURES
    first, second, third, fourth = official.IDS[:4]
    (folder / f"{first}.npy").unlink()
    np.save(folder / f"{second}.npy", np.zeros((20, 1024), np.float32))
    np.save(folder / f"{third}.npy", np.zeros((20, 2048), np.int64))
    (folder / f"{fourth}.npy").write_bytes(b"\x93NUMPY\x01\x00 damaged")
    store = run(root, tmp_path / "store", "--json")
    said = json.loads(capsys.readouterr().out)["skipped"]
    assert len(store) == len(official.IDS) - 4
    assert f"no file {first}.npy" in said[str(first)]
    assert "shape [20, 1024], expected [n, 2048]" in said[str(second)]
    assert "type int64" in said[str(third)]
    assert "cannot be read" in said[str(fourth)]
    assert set(store.skipped()) == {str(i) for i in (first, second, third, fourth)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.move("dets_labels", "labels"), "'dets_labels' is missing"),
        (lambda f: replaced(f, "dets_labels", np.zeros((8, 100, 7), np.float32)), r"shape \[8, 100, 7\]"),
        (lambda f: replaced(f, "dets_labels", np.zeros((7, 100, 6), np.float32)), r"expected \[8, 100, 6\]"),
        (lambda f: replaced(f, "dets_labels", np.zeros((8, 100, 6), np.int64)), "type int64"),
        (lambda f: f.move("nms_num", "num"), "'nms_num' is missing"),
    ],
)
def test_a_wrong_detections_file_is_refused(tmp_path: Path, change: object, message: str) -> None:
    official.gvd_flickr30k(tmp_path, weights=False)
    with h5py.File(tmp_path / official.DETECTIONS, "a") as file:
        change(file)  # type: ignore[operator]
    with pytest.raises(DeixisError, match=message):
        import_features(tmp_path, "gvd", tmp_path / "store", ImportOptions())


def replaced(file: object, name: str, value: np.ndarray) -> None:
    del file[name]  # type: ignore[attr-defined]
    file[name] = value  # type: ignore[index]


def test_without_the_dictionary_nothing_is_read(tmp_path: Path) -> None:
    official.gvd_flickr30k(tmp_path, weights=False)
    (tmp_path / "dic_flickr30k.json").unlink()
    with pytest.raises(DeixisError, match=r"dic_flickr30k\.json"):
        import_features(tmp_path, "gvd", tmp_path / "store", ImportOptions())


def test_a_wrong_activitynet_file_is_refused(tmp_path: Path) -> None:
    official.gvd_activitynet(tmp_path)
    with h5py.File(tmp_path / "anet_detection_vg_fc6_feat_100rois.h5", "a") as file:
        del file["hw"]
    with pytest.raises(DeixisError, match="'hw' is missing"):
        import_features(tmp_path, "gvd", tmp_path / "store", ImportOptions())


def test_without_image_sizes_the_extent_of_the_boxes_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "gvd"
    official.gvd_flickr30k(root, weights=False)
    (root / "flickr30k_cleaned_class.json").unlink()
    store = run(root, tmp_path / "store")
    assert "no image sizes" in capsys.readouterr().err
    assert {store[image_id].size for image_id in store} == {official.SIZE}  # the first box covers the photograph
    assert store.contents.settings["sizes"] == "extent of the boxes"
