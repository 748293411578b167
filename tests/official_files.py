"""Small files in the formats of published features and annotations, written without any code of the package."""

from __future__ import annotations

import base64
import csv
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

RNG = np.random.default_rng(24)
DIM = 2048
SIZE = (64, 48)  # width, height
CLASSES = ("dog", "man", "ball", "grass")
VG = ("dog,puppy", "man", "ball", "green grass", "tree", "sky")
WORDS = ("a", "dogs", "dog", "man", "men", "ball", "grass", "plays", "with", "on", "the", "throws", "big", "red", "UNK")
LEMMAS = {"dogs": "dog", "men": "man", "plays": "play", "throws": "throw"}
SENTENCES = (
    ("a dog plays with the ball", {1: "dog", 5: "ball"}),
    ("a man throws the red ball", {1: "man", 5: "ball"}),
    ("men with dogs on the grass", {0: "man", 2: "dog", 5: "grass"}),
    ("the big dog on grass", {2: "dog", 4: "grass"}),
    ("a man with a dog", {1: "man", 4: "dog"}),
)
SPLITS = ("train", "train", "train", "train", "val", "val", "test", "test")
IDS = tuple(1000 + 7 * i for i in range(len(SPLITS)))


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def photographs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for image_id in IDS:
        blocks = RNG.integers(0, 256, (4, 6, 3), dtype=np.uint8)
        Image.fromarray(blocks).resize(SIZE, Image.Resampling.NEAREST).save(folder / f"{image_id}.jpg")


def corners(rows: int) -> np.ndarray:
    """Inclusive corners inside the photograph; the first covers it."""
    x, y = RNG.uniform(0, 30, rows), RNG.uniform(0, 20, rows)
    found = np.stack([x, y, x + RNG.uniform(5, 30, rows), y + RNG.uniform(5, 25, rows)], axis=1)
    found[0] = (0, 0, SIZE[0] - 1, SIZE[1] - 1)
    return found.astype(np.float32)


# Grounded Video Description -----------------------------------------------------------------------------------------

FEATURES = "flickr30k_detection_vg_X-101-64x4d-FPN_2x_feature"
DETECTIONS = "flickr30k_detection_vg_X-101-64x4d-FPN_2x_feat_map_100prop_box_only.h5"


def dictionary(images: list[dict[str, Any]], key: str = "images") -> dict[str, Any]:
    return {
        "ix_to_word": {str(i): word for i, word in enumerate(WORDS, start=1)},
        # the file has another order than the numbers
        "wtod": {name: CLASSES.index(name) for name in reversed(CLASSES)},
        "wtol": {word: LEMMAS.get(word, word) for word in WORDS},
        key: images,
    }


def gvd_annotations(root: Path) -> None:
    """``dic_``, ``cap_``, ``flickr30k_cleaned_class.json`` and the split file."""
    entries = [{"split": split, "file_path": f"{i}.jpg", "id": i} for i, split in zip(IDS, SPLITS, strict=True)]
    write_json(root / "dic_flickr30k.json", dictionary(entries))
    captions, annotations = [], []
    for number, image_id in enumerate(IDS):
        group, cleaned = [], []
        for at in range(5):
            text, objects = SENTENCES[(number + at) % len(SENTENCES)]
            boxes = [
                [float(3 * CLASSES.index(name)), 4.0, 30.0 + CLASSES.index(name), 40.0] for name in objects.values()
            ]
            group.append({"caption": text.split(), "clss": list(objects.values()), "bbox": boxes, "idx": list(objects)})
            cleaned.append(
                {
                    "tokens": text.split(),
                    "process_clss": list(objects.values()),
                    "process_bnd_box": boxes,
                    "process_idx": list(objects),
                }
            )
        captions.append(group)
        annotations.append({"image_id": image_id, "image_size": list(SIZE), "captions": cleaned})
    write_json(root / "cap_flickr30k.json", captions)
    write_json(root / "flickr30k_cleaned_class.json", {"vocab": list(CLASSES), "annotations": annotations})
    lists = {s: [str(i) for i, each in zip(IDS, SPLITS, strict=True) if each == s] for s in ("train", "val", "test")}
    write_json(root / "split_ids_flickr30k_entities.json", lists)


def gvd_flickr30k(root: Path, weights: bool = True) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """A GVD data folder; returns image id -> detections ``[n, 6]`` and features ``[n, 2048]``."""
    import h5py

    gvd_annotations(root)
    (root / FEATURES).mkdir(parents=True, exist_ok=True)
    table = np.zeros((len(IDS), 100, 6), np.float32)
    used = RNG.integers(8, 14, len(IDS))
    content = {}
    for row, (image_id, n) in enumerate(zip(IDS, used, strict=True)):
        features = np.maximum(RNG.normal(size=(n, DIM)), 0).astype(np.float32)
        scores = RNG.uniform(0.05, 0.95, n).astype(np.float32)
        scores[:3] = 0.9, 0.2, 0.3  # exactly at the threshold: not kept
        labels = RNG.integers(0, len(VG) + 1, n)
        labels[2] = 0
        table[row, :n] = np.concatenate([corners(n), labels[:, None], scores[:, None]], axis=1)
        np.save(root / FEATURES / f"{image_id}.npy", features)
        content[image_id] = table[row, :n].copy(), features
    with h5py.File(root / DETECTIONS, "w") as file:
        file.create_dataset("dets_labels", data=table)
        file.create_dataset("nms_num", data=used)
    if weights:
        detectron_weights(root)
    return content


def detectron_weights(root: Path) -> dict[str, np.ndarray]:
    """Weights as Python 2 pickled them, and the list of classes."""
    (root / "detectron_weights").mkdir(parents=True, exist_ok=True)
    arrays = {
        "fc7_w": RNG.normal(size=(16, DIM)).astype(np.float32) / 30,
        "fc7_b": RNG.normal(size=16).astype(np.float32),
        "cls_score_w": RNG.normal(size=(len(VG) + 1, 16)).astype(np.float32),
        "cls_score_b": RNG.normal(size=len(VG) + 1).astype(np.float32),
    }
    for name, array in arrays.items():
        (root / "detectron_weights" / f"{name}.pkl").write_bytes(python2_pickle(array))
    (root / "vg_object_vocab.txt").write_text("\n".join(VG) + "\n")
    return arrays


def python2_pickle(array: np.ndarray) -> bytes:
    """The bytes of ``pickle.dumps(array, 2)`` under Python 2."""
    shape = b"(" + b"".join(b"M" + n.to_bytes(2, "little") for n in array.shape) + b"t"
    data = array.tobytes()
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03"
        b"(K\x01"
        + shape
        + b"cnumpy\ndtype\nq\x04U\x02f4K\x00K\x01\x87Rq\x05(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff"
        b"\xffK\x00tb\x89T" + len(data).to_bytes(4, "little") + data + b"tb."
    )


def glove(path: Path) -> dict[str, np.ndarray]:
    """Vectors such that each class is nearest to the name that it should take."""
    words = {name: RNG.normal(size=300) for name in ("dog", "puppy", "man", "ball", "green", "grass", "tree", "sky")}
    words["puppy"] = words["dog"] + 0.1 * RNG.normal(size=300)
    words["green"] = words["grass"] + 0.1 * RNG.normal(size=300)
    path.write_text("".join(f"{word} {' '.join(f'{x:.6f}' for x in v)}\n" for word, v in words.items()))
    return words


SEGMENTS = (("v_abc", 0), ("v_abc", 1), ("v_xyz-1", 0))


def gvd_activitynet(root: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """ActivityNet's files; returns segment name -> detections and features."""
    import h5py

    names = [f"{video}_segment_{number:02d}" for video, number in SEGMENTS]
    videos = [
        {"vid_id": video, "split": "training", "seg_id": str(number), "id": name}
        for name, (video, number) in zip(names, SEGMENTS, strict=True)
    ]
    write_json(root / "dic_anet.json", dictionary(videos, "videos"))
    (root / "fc6_feat_100rois").mkdir(parents=True)
    (root / "rgb_motion_1d").mkdir()
    table, used = np.zeros((len(names), 1000, 7), np.float32), np.zeros(len(names), np.int64)
    content = {}
    for row, name in enumerate(names):
        frames = 2 if row else 3
        n = 100 * frames
        features = RNG.normal(size=(frames, 100, DIM)).astype(np.float32)
        scores = RNG.uniform(0, 1, n).astype(np.float32)
        parts = [corners(n) * (720 / 64), np.repeat(np.arange(frames), 100)[:, None]]
        table[row, :n] = np.concatenate([*parts, RNG.integers(0, 7, (n, 1)), scores[:, None]], axis=1)
        used[row] = n
        np.save(root / "fc6_feat_100rois" / f"{name}.npy", features)
        content[name] = table[row, :n].copy(), features
    for video, rows in (("abc", 500), ("xyz-1", 7)):
        np.save(root / "rgb_motion_1d" / f"{video}_resnet.npy", RNG.normal(size=(rows, DIM)).astype(np.float32))
        np.save(root / "rgb_motion_1d" / f"{video}_bn.npy", RNG.normal(size=(rows, 1024)).astype(np.float32))
    with h5py.File(root / "anet_detection_vg_fc6_feat_100rois.h5", "w") as file:
        file.create_dataset("dets_labels", data=table)
        file.create_dataset("dets_num", data=used)
        file.create_dataset("hw", data=np.tile([540, 720], (len(names), 1)))
    return content


# Bottom-up attention ------------------------------------------------------------------------------------------------

Boxed = dict[int, tuple[np.ndarray, np.ndarray]]


def bottom_up(rows: int | None = None) -> Boxed:
    """Image id -> corners and features; ``rows`` 36, or a number for each image."""
    counts = [rows or int(n) for n in RNG.integers(5, 12, len(IDS))]
    return {
        i: (corners(n), np.maximum(RNG.normal(size=(n, DIM)), 0).astype(np.float32))
        for i, n in zip(IDS, counts, strict=True)
    }


def tsv(path: Path, content: Boxed, classes: bool = False) -> None:
    """The TSV of bottom-up attention: no header, CRLF; with ``classes`` also the columns of later tools."""
    fields = ["image_id", "image_w", "image_h", "num_boxes", "boxes", "features"]
    if classes:
        fields = ["image_id", "image_w", "image_h", "objects_id", "objects_conf", "num_boxes", "boxes", "features"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, delimiter="\t", fieldnames=fields)
        for image_id, (boxes, features) in content.items():
            n = len(boxes)
            ids, conf = np.arange(n) % len(VG), np.linspace(0.9, 0.3, n).astype(np.float32)
            record = {
                "image_id": image_id,
                "image_w": SIZE[0],
                "image_h": SIZE[1],
                "num_boxes": n,
                "boxes": base64.b64encode(boxes).decode(),
                "features": base64.b64encode(features).decode(),
                "objects_id": base64.b64encode(ids.astype(np.int64)).decode(),
                "objects_conf": base64.b64encode(conf).decode(),
            }
            writer.writerow({name: record[name] for name in fields})


def feature_folders(root: Path, content: Boxed, key: str = "feat") -> None:
    """The folders ``_att``, ``_fc`` and ``_box`` of self-critical training."""
    for kind in ("att", "fc", "box"):
        (root / f"cocobu_{kind}").mkdir(parents=True, exist_ok=True)
    for image_id, (boxes, features) in content.items():
        np.savez_compressed(root / "cocobu_att" / str(image_id), **{key: features})
        np.save(root / "cocobu_fc" / str(image_id), features.mean(0))
        np.save(root / "cocobu_box" / str(image_id), boxes)


def talk(root: Path, name: str = "flickrtalk") -> None:
    """``flickrtalk.json`` and ``flickrtalk_label.h5``."""
    import h5py

    images = [
        {"split": s, "file_path": f"{i}.jpg", "id": i, "width": SIZE[0], "height": SIZE[1]}
        for i, s in zip(IDS, SPLITS, strict=True)
    ]
    write_json(root / f"{name}.json", {"ix_to_word": {str(i): w for i, w in enumerate(WORDS, 1)}, "images": images})
    labels = np.zeros((5 * len(IDS), 16), np.uint32)
    for row in range(len(labels)):
        text = SENTENCES[(row // 5 + row % 5) % len(SENTENCES)][0]
        for at, word in enumerate(text.split()):
            labels[row, at] = 1 + WORDS.index(word)
    with h5py.File(root / f"{name}_label.h5", "w") as file:
        file.create_dataset("labels", data=labels)
        file.create_dataset("label_start_ix", data=np.arange(len(IDS), dtype=np.uint32) * 5 + 1)
        file.create_dataset("label_end_ix", data=np.arange(len(IDS), dtype=np.uint32) * 5 + 5)
        file.create_dataset("label_length", data=(labels > 0).sum(1).astype(np.uint32))


def scan(root: Path, content: Boxed, h5: bool = True) -> None:
    """SCAN's folder: captions and tags of each split; features as ``.npy``, or as POS-SCAN has them."""
    import h5py

    root.mkdir(parents=True, exist_ok=True)
    tags = {"a": "DT", "the": "DT", "plays": "VBZ", "throws": "VBZ", "with": "IN", "on": "IN", "big": "JJ", "red": "JJ"}
    for split, ours in (("train", "train"), ("dev", "val"), ("test", "test")):
        rows = [number for number, each in enumerate(SPLITS) if each == ours]
        texts = [SENTENCES[(row + at) % len(SENTENCES)][0] for row in rows for at in range(5)]
        (root / f"{split}_caps.txt").write_text("".join(f"{text}\n" for text in texts))
        (root / f"{split}_tags.txt").write_text(
            "".join(" ".join(tags.get(word, "NN") for word in text.split()) + "\n" for text in texts)
        )
        features = np.stack([content[IDS[row]][1] for row in rows])
        if not h5:
            np.save(root / f"{split}_ims.npy", features)
            (root / f"{split}_ids.txt").write_text("".join(f"{IDS[row]}\n" for row in rows))
            continue
        with h5py.File(root / f"{split}_ims.h5", "w") as file:
            file.create_dataset("feats", data=features)
        with h5py.File(root / f"{split}_ims_box.h5", "w") as file:
            file.create_dataset("boxes", data=np.stack([content[IDS[row]][0] for row in rows]))
        write_json(root / f"{split}_files.json", [f"{IDS[row]}.jpg" for row in rows])


def packed(folder: Path) -> None:
    """Replace a folder by its ``.tar.gz``."""
    with tarfile.open(folder.with_name(f"{folder.name}.tar.gz"), "w:gz") as archive:
        archive.add(folder, folder.name)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
