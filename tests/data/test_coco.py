"""COCO's official files and Karpathy's splits, small, good and bad."""

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.data import coco
from deixis.data.reading import BadFile
from deixis.data.report import inspect
from deixis.errors import DeixisError

IMAGES = [
    {"id": 9, "file_name": "COCO_val2014_000000000009.jpg", "width": 100, "height": 80, "license": 3},
    {"id": 4, "file_name": "COCO_val2014_000000000004.jpg", "width": 50, "height": 60, "license": 3},
]
CAPTIONS = [
    {"image_id": 4, "id": 1, "caption": "A dog near two people."},
    {"image_id": 9, "id": 2, "caption": "A plate with food\n"},
    {"image_id": 4, "id": 3, "caption": "The dog's ball."},
]
CATEGORIES = [
    {"id": 1, "name": "person", "supercategory": "person"},
    {"id": 18, "name": "dog", "supercategory": "animal"},
]
ANNOTATIONS = [
    {"id": 31, "image_id": 4, "category_id": 18, "bbox": [10.5, 20, 5, 8.25], "iscrowd": 0, "segmentation": [[1, 2]]},
    {"id": 32, "image_id": 9, "category_id": 18, "bbox": [0, 0, 100, 80], "iscrowd": 0, "area": 8000},
    {"id": 33, "image_id": 4, "category_id": 1, "bbox": [40, 50, 20, 20], "iscrowd": 1},
]


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def build(root: Path, captions=CAPTIONS, annotations=ANNOTATIONS, images=IMAGES, split="val2014") -> Path:
    write(root / "annotations" / f"captions_{split}.json", {"info": {}, "images": images, "annotations": captions})
    content = {"images": IMAGES, "annotations": annotations, "categories": CATEGORIES}
    write(root / "annotations" / f"instances_{split}.json", content)
    (root / split).mkdir(exist_ok=True)
    return root


def reasons(dataset) -> list[tuple[str, str]]:
    return [(Path(entry.file).name, entry.reason) for entry in dataset.skipped]


def test_captions_and_instances(tmp_path):
    root = build(tmp_path)
    assert coco.recognise(root)
    assert coco.splits(root) == ("val2014",)
    dataset = coco.load(root, "val2014")
    assert not dataset.skipped
    assert [sample.image_id for sample in dataset] == ["9", "4"]
    food, dog = dataset
    assert food.captions[0].text == "A plate with food"
    assert [caption.tokens for caption in dog.captions] == [
        ("a", "dog", "near", "two", "people"),
        ("the", "dog", "'s", "ball"),
    ]
    assert dog.size == (50, 60)
    assert dog.path == root / "val2014" / "COCO_val2014_000000000004.jpg"


def test_boxes_labels_and_crowds(tmp_path):
    food, dog = coco.load(build(tmp_path), "val2014")
    np.testing.assert_array_equal(food.entities[0].boxes, [[0, 0, 100, 80]])
    animal, crowd = dog.entities
    np.testing.assert_array_equal(animal.boxes, [[10.5, 20, 15.5, 28.25]])
    assert (animal.id, animal.label, animal.types) == ("31", "dog", ("animal",))
    np.testing.assert_array_equal(crowd.boxes, [[40, 50, 50, 60]])  # cut to the image
    assert (crowd.label, crowd.types) == ("person", ("person", "crowd"))


def test_categories_need_no_supercategory(tmp_path):
    root = build(tmp_path)
    path = root / "annotations" / "instances_val2014.json"
    content = json.loads(path.read_text())
    content["categories"] = [{"id": entry["id"], "name": entry["name"]} for entry in CATEGORIES]
    write(path, content)
    dataset = coco.load(root, "val2014")
    assert not dataset.skipped
    assert [(entity.label, entity.types) for entity in dataset[1].entities] == [("dog", ()), ("person", ("crowd",))]


def test_without_instances_there_are_captions_and_no_entities(tmp_path):
    root = build(tmp_path)
    (root / "annotations" / "instances_val2014.json").unlink()
    dataset = coco.load(root, "val2014")
    assert not dataset.skipped
    assert [sample.entities for sample in dataset] == [(), ()]


def test_files_beside_the_images_and_the_2017_names(tmp_path):
    build(tmp_path, split="val2017")
    for path in (tmp_path / "annotations").iterdir():
        path.rename(tmp_path / path.name)
    (tmp_path / "images").mkdir()
    (tmp_path / "val2017").rename(tmp_path / "images" / "val2017")
    dataset = coco.load(tmp_path, "val2017")
    assert dataset[0].path.parent == tmp_path / "images" / "val2017"
    assert len(dataset[1].entities) == 2


def test_bad_captions_are_named_and_the_others_stay(tmp_path):
    captions = [*CAPTIONS, {"image_id": 7, "caption": "x"}, {"image_id": 4}, {"image_id": 4, "caption": " "}, None]
    images = [*IMAGES, IMAGES[0], {"id": 5, "file_name": "../5.jpg", "width": 1, "height": 1}, {"id": 6}]
    images.append({"id": 8, "file_name": "8.jpg", "width": 5, "height": 5})
    dataset = coco.load(build(tmp_path, captions, images=images), "val2014")
    assert [len(sample.captions) for sample in dataset] == [1, 2]
    assert reasons(dataset) == [
        ("captions_val2014.json", reason)
        for reason in (
            "image 2: duplicate image 9",
            "image 3: '../5.jpg' is not a file name without a folder",
            'image 4: the field "file_name" is missing',
            "annotation 3: image 7 is not in the list of images",
            'annotation 4: the field "caption" is missing',
            'annotation 5: "caption" is empty',
            "annotation 6: expected a JSON object, got None",
            "image 8 has no usable caption",
        )
    ]


def test_bad_instances_are_named_and_the_others_stay(tmp_path):
    good = ANNOTATIONS[0]
    bad = [
        good | {"bbox": [1, 2, 3]},
        good | {"bbox": [1, 2, 3, "4"]},
        good | {"category_id": 99},
        good | {"image_id": 77},
        good | {"id": 41, "bbox": [10, 10, -5, 5]},
        good | {"id": 42, "bbox": [50, 10, 5, 5]},
        good | {"id": 43, "bbox": [5, 5, 0, 5]},
    ]
    dataset = coco.load(build(tmp_path, annotations=[*bad, *ANNOTATIONS]), "val2014")
    assert [[entity.id for entity in sample.entities] for sample in dataset] == [["32"], ["31", "33"]]
    assert reasons(dataset) == [
        ("instances_val2014.json", reason)
        for reason in (
            'annotation 0: "bbox" is [1, 2, 3]. Expected 4 numbers',
            "annotation 1: \"bbox\" is [1, 2, 3, '4']. Expected 4 numbers",
            "annotation 2: category 99 is not in the list of categories",
            "annotation 3: image 77 is not in the list of images",
            "annotation id 41: the box [10.0, 10.0, -5.0, 5.0] is empty or outside the image",
            "annotation id 42: the box [50.0, 10.0, 5.0, 5.0] is empty or outside the image",
            "annotation id 43: the box [5.0, 5.0, 0.0, 5.0] is empty or outside the image",
        )
    ]


def test_broken_instances_cost_the_boxes_only(tmp_path):
    root = build(tmp_path)
    write(root / "annotations" / "instances_val2014.json", '{"images": [],\n "annotations": [}')
    dataset = coco.load(root, "val2014")
    assert [sample.entities for sample in dataset] == [(), ()]
    (entry,) = dataset.skipped
    assert (Path(entry.file).name, entry.line) == ("instances_val2014.json", 2)


def test_instances_are_read_again_when_the_file_changes(tmp_path):
    root = build(tmp_path)
    assert sum(len(sample.entities) for sample in coco.load(root, "val2014")) == 3
    build(root, annotations=ANNOTATIONS[:1])
    assert sum(len(sample.entities) for sample in coco.load(root, "val2014")) == 1


def test_broken_captions_are_an_error_that_names_file_and_line(tmp_path):
    root = build(tmp_path)
    path = write(root / "annotations" / "captions_val2014.json", '{"images": [],\n\n"annotations": [1,]}')
    with pytest.raises(BadFile, match=r"captions_val2014\.json, line 3: not valid JSON"):
        coco.load(root, "val2014")
    write(path, {"images": []})
    with pytest.raises(BadFile, match='the list "annotations" is missing'):
        coco.load(root, "val2014")
    with pytest.raises(DeixisError, match=r"no split 'train2014'. Available: val2014"):
        coco.load(root, "train2014")


# Karpathy ---------------------------------------------------------------------------------------------------------


def karpathy(name: str) -> dict:
    def image(number: int, split: str, *sentences: str) -> dict:
        record = {
            "split": split,
            "filename": f"{number}.jpg",
            "imgid": 0,
            "sentids": [0],
            "sentences": [{"raw": text, "tokens": ["wrong"], "sentid": 0} for text in sentences],
        }
        if name == "coco":
            record |= {"cocoid": number, "filepath": "train2014" if split == "train" else "val2014"}
        return record

    splits = ("train", "restval", "val", "test") if name == "coco" else ("train", "val", "test")
    numbers = (9, 4, 6, 7)
    images = [image(n, split, f"A dog in {split}.", "It runs!") for n, split in zip(numbers, splits, strict=False)]
    return {"dataset": name, "images": images}


def test_karpathy_coco_takes_boxes_from_the_official_instances(tmp_path):
    root = build(tmp_path)
    (root / "annotations" / "captions_val2014.json").unlink()
    write(root / "dataset_coco.json", karpathy("coco"))
    assert coco.splits(root) == ("train", "restval", "val", "test")
    (train,) = coco.load(root, "train")
    (restval,) = coco.load(root, "restval")
    assert train.path == root / "train2014" / "9.jpg"
    assert (train.size, train.entities) == (None, ())  # there are no train2014 instances here
    assert restval.path == root / "val2014" / "4.jpg"
    assert restval.image_id == "4"
    assert restval.size == (50, 60)
    assert [entity.label for entity in restval.entities] == ["dog", "person"]
    assert restval.captions[0].tokens == ("a", "dog", "in", "restval")


@pytest.mark.parametrize(("name", "folder"), [("flickr30k", "flickr30k_images"), ("flickr8k", "Flicker8k_Dataset")])
def test_karpathy_flickr(tmp_path, name, folder):
    (tmp_path / folder).mkdir()
    write(tmp_path / f"dataset_{name}.json", karpathy(name))
    assert coco.splits(tmp_path) == ("train", "val", "test")
    (sample,) = coco.load(tmp_path, "val")
    assert (sample.image_id, sample.path) == ("4", tmp_path / folder / "4.jpg")
    assert [caption.text for caption in sample.captions] == ["A dog in val.", "It runs!"]
    assert all((tmp_path / entry.path).exists() for entry in coco.expected(tmp_path))


def test_several_karpathy_files_and_official_ones_together(tmp_path):
    root = build(tmp_path)
    write(root / "dataset_coco.json", karpathy("coco"))
    write(root / "dataset_flickr8k.json", karpathy("flickr8k"))
    assert coco.splits(root) == (
        "val2014",
        "coco:train",
        "coco:restval",
        "coco:val",
        "coco:test",
        "flickr8k:train",
        "flickr8k:val",
        "flickr8k:test",
    )
    assert coco.load(root, "coco:test")[0].image_id == "7"
    assert coco.load(root, "flickr8k:test")[0].image_id == "6"


def test_bad_karpathy_records_are_named(tmp_path):
    content = karpathy("flickr8k")
    good = content["images"][0]
    content["images"] += [
        good | {"split": "practice"},
        good | {"filename": "a/b.jpg"},
        good | {"sentences": [{"raw": ""}]},
        good | {"sentences": [{"raw": "Fine."}, {"tokens": []}], "filename": "10.jpg"},
    ]
    write(tmp_path / "dataset_flickr8k.json", content)
    dataset = coco.load(tmp_path, "train")
    assert [(sample.image_id, len(sample.captions)) for sample in dataset] == [("9", 2), ("10", 1)]
    assert [reason for _, reason in reasons(dataset)] == [
        "image 3: unknown split 'practice'",
        "image 4: 'a/b.jpg' is not a file name without a folder",
        '9.jpg, sentence 0: "raw" is empty',
        "image 5: 9.jpg has no usable caption",
        '10.jpg, sentence 1: the field "raw" is missing',
    ]


def test_expected_follows_what_is_there(tmp_path):
    nothing = {entry.path: entry.required for entry in coco.expected(tmp_path)}
    assert nothing == {
        "annotations/captions_train2014.json": True,
        "annotations/instances_train2014.json": False,
        "train2014": True,
        "annotations/captions_val2014.json": True,
        "annotations/instances_val2014.json": False,
        "val2014": True,
    }
    here = {entry.path: entry.required for entry in coco.expected(build(tmp_path, split="val2017"))}
    assert here["annotations/captions_val2017.json"]
    assert not here["annotations/captions_train2017.json"]
    assert not any("2014" in path for path in here)


def large(root: Path, captions: list[int]) -> Path:
    """Images of train2017 with 1 to 7 captions in Karpathy's layout, all in one split, with labels of images."""
    sentences = [[{"raw": f"A dog runs {i}.", "tokens": ["a"], "sentid": 0} for i in range(n)] for n in captions]
    common = {"filepath": "train2017", "split": "train", "imgid": 0, "sentids": [0]}
    images = [
        {**common, "cocoid": 10 + n, "filename": f"{10 + n:012d}.webp", "sentences": each}
        for n, each in enumerate(sentences)
    ]
    (root / "train2017").mkdir(parents=True)
    for record in images:
        (root / "train2017" / record["filename"]).touch()
    write(root / "dataset_coco.json", {"images": images, "dataset": "coco"})
    lines = [{"image_id": 10, "labels": [0, 16, 79]}, {"image_id": 11, "labels": []}, {"image_id": 12, "labels": [80]}]
    (root / "labels80.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def test_a_karpathy_file_with_one_split_and_image_labels(tmp_path):
    root = large(tmp_path / "large", [1, 7, 5])
    assert coco.splits(root) == ("train",)
    dataset = coco.load(root, "train")
    assert [len(sample.captions) for sample in dataset] == [1, 7, 5]
    assert [sample.labels for sample in dataset] == [("person", "dog", "toothbrush"), (), None]
    assert reasons(dataset) == [("labels80.jsonl", '"labels" must be numbers from 0 to 79')]
    with pytest.raises(DeixisError, match="no split 'val'"):
        coco.load(root, "val")


def test_check_of_a_karpathy_folder_of_2017_asks_for_no_other_year(tmp_path):
    report = inspect(large(tmp_path / "large", [1, 7, 5]))
    assert report.to_json()["splits"] == {
        "train": {"images": 3, "captions": 13, "phrases": 0, "boxed_images": 0, "boxes": 0, "labelled_images": 2}
    }
    assert not [entry.file for entry in report.missing if entry.required]
    assert not any("2014" in entry.file for entry in report.missing)
    assert report.warnings == ()
