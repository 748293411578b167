"""ActivityNet-Entities from its official files to a scored submission: import, train, eval, export, score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import official_files as official
from deixis import cli
from deixis.metrics.score import load_scores

pytest.importorskip("h5py")

SIZES = {"model.words": 12, "model.hidden": 12, "model.attention": 8, "model.location": 4, "model.dropout": 0.0}
SIZES |= {"batch-images": 1, "phases.0.epochs": 1, "max-words": 8}
TINY = ["--device", "cpu", *(part for name, value in SIZES.items() for part in (f"--{name}", str(value)))]
TRAINVAL = "anet_entities_cleaned_class_thresh50_trainval.json"
DURATIONS = {"v_abc": 20.0, "v_xyz-1": 8.0}
TIMES = {("v_abc", 0): [0.0, 9.0], ("v_abc", 1): [10.0, 19.5], ("v_xyz-1", 0): [0.5, 7.5]}


def annotations(root: Path) -> None:
    """The official files of ActivityNet-Entities and the two reference files of dense captions, for SEGMENTS."""
    videos: dict[str, dict[str, object]] = {}
    for number, (video, segment) in enumerate(official.SEGMENTS):
        text, objects = official.SENTENCES[number]
        rows = [[40.0 * i, 30.0, 40.0 * i + 300, 400.0] for i in range(len(objects))]
        record = {
            "tokens": text.split(),
            "process_idx": [[word] for word in objects],
            "process_clss": [[name] for name in objects.values()],
            "process_bnd_box": rows,
            "frame_ind": [i % 2 for i in range(len(objects))],
            "crowds": [0] * len(objects),
            "timestamps": TIMES[video, segment],
        }
        about = videos.setdefault(video, {"duration": DURATIONS[video], "segments": {}})
        about["segments"][str(segment)] = record  # type: ignore[index]
    official.write_json(root / TRAINVAL, {"vocab": list(official.CLASSES), "annotations": videos})
    lists = {"training": ["v_abc"], "validation": ["v_xyz-1"], "testing": []}
    official.write_json(root / "split_ids_anet_entities.json", lists)
    for number in (1, 2):  # annotators with timestamps of their own
        value = {
            "v_xyz-1": {"duration": 8.0, "timestamps": [[0.5, 7.5 - number]], "sentences": ["A man throws the ball."]}
        }
        official.write_json(root / f"anet_entities_val_{number}.json", value)


def run(*args: object) -> None:
    assert cli.run([str(arg) for arg in args]) == 0, args


@pytest.mark.slow
@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("recipe", ["supervised-video-small", "distributed-attention-video-small"])
def test_activitynet_from_files_to_row(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, files, store, model, out = (tmp_path / name for name in ("data", "gvd", "my.store", "model", "eval"))
    annotations(data)
    official.gvd_activitynet(files)
    official.detectron_weights(files)
    official.glove(files / "glove.txt")
    run("features", "--from", files, "--layout", "gvd", "--glove", files / "glove.txt", "-o", store)
    common = ["--data", data, "--features", store]
    names = ["--classes", files / "dic_anet.json"]
    phases = ["--phases.1.epochs", "1"] if recipe.startswith("distributed") else []
    run("train", recipe, *common, *names, "--vocabulary", files / "dic_anet.json", "--out", model, *TINY, *phases)
    config = json.loads((model / "config.json").read_text())["decoder"]
    assert (config["temporal"], config["motion"], config["steps"]) == (3072, 1024, 480)  # rows of the whole video
    assert (config["classes"], config["fc7"]) == (1 + len(official.CLASSES), 16)  # the detector's class head
    log = [json.loads(line) for line in (model / "log.jsonl").read_text().splitlines()]
    if recipe.startswith("supervised"):
        assert {"words", "attention", "classes"} <= set(log[0]["losses"])
    run("eval", model, *common, *names, "--grounder", "none", "--shown", "0", "--split", "val", "--out", out)
    (line,) = (out / "captions.jsonl").read_text().splitlines()
    caption = json.loads(line)
    assert caption["image"] == "v_xyz-1_segment_0"
    assert all([box["frame"] for box in one["track"]] == [0, 1] for one in caption["word_groundings"])
    reference = ["--reference", data / TRAINVAL, "--split", "validation"]
    reference += ["--split-file", data / "split_ids_anet_entities.json"]
    for name, mode in (("captions.jsonl", "gen"), ("phrases.jsonl", "GT")):
        submission = tmp_path / f"{mode}.json"
        run("export", out / name, "--to", "gvd", *reference, "-o", submission)
        written = json.loads(submission.read_text())
        assert written["eval_mode"] == mode
        entry = written["results"]["v_xyz-1"]["0"]
        assert all(len(boxes) == 10 for boxes in entry["bbox_for_all_frames"])
        assert all(box == [0, 0, 0, 0] for boxes in entry["bbox_for_all_frames"] for box in boxes[2:])  # no such frames
        metrics = ["--metrics", "grounding"] if mode == "gen" else []
        capsys.readouterr()
        run("score", submission, *reference, *metrics, "--json")
        scores = json.loads(capsys.readouterr().out)["scores"]
        if mode == "gen":
            run("score", out / name, *reference, *metrics, "--json")
            direct = json.loads(capsys.readouterr().out)["scores"]
            for metric in ("F1_all", "F1_loc", "F1_loc_per_sent"):
                assert scores[metric]["value"] == pytest.approx(direct[metric]["value"], abs=1e-9)
        else:
            own = load_scores(out / "scores.json")[0]["attention_accuracy"].value
            assert scores["attention_accuracy"]["value"] == pytest.approx(own, abs=1e-9)
    dense = [out / "dense-captions.json", "--reference", data / "anet_entities_val_1.json"]
    run("score", *dense, "--other-references", data / "anet_entities_val_2.json", "--json")
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert {"densevid_CIDEr", "densevid_BLEU-4"} <= set(scores)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("dets_labels", r"'dets_labels' has shape \[3, 1000, 6\]"),
        ("type", "'dets_labels' has type int64"),
        ("hw", r"'hw' has shape \[3, 3\]"),
        ("dets_num", "'dets_num' is missing"),
        ("fc6", "shape"),
        ("resnet", r"expected \[n, 2048\]"),
    ],
)
def test_wrong_files_of_activitynet_are_refused(file: str, message: str, tmp_path: Path) -> None:
    import h5py
    import numpy as np

    from deixis.errors import DeixisError
    from deixis.vision.layouts.fill import import_features
    from deixis.vision.layouts.records import ImportOptions

    official.gvd_activitynet(tmp_path)
    rows = len(official.SEGMENTS)
    wrong = {
        "dets_labels": np.zeros((rows, 1000, 6), np.float32),
        "type": np.zeros((rows, 1000, 7), np.int64),
        "hw": np.zeros((rows, 3)),
    }
    with h5py.File(tmp_path / "anet_detection_vg_fc6_feat_100rois.h5", "a") as detections:
        if file == "dets_num":
            detections.move("dets_num", "num")
        elif file in wrong:
            name = "dets_labels" if file == "type" else file
            del detections[name]
            detections[name] = wrong[file]
    for video, segment in official.SEGMENTS:
        if file == "fc6":
            np.save(tmp_path / "fc6_feat_100rois" / f"{video}_segment_{segment:02d}.npy", np.zeros((2, 100, 7), "f4"))
        if file == "resnet":
            np.save(tmp_path / "rgb_motion_1d" / f"{video.removeprefix('v_')}_resnet.npy", np.zeros((9, 7), "f4"))
    with pytest.raises(DeixisError, match=message):
        import_features(tmp_path, "gvd", tmp_path / "store", ImportOptions())
