"""RefCOCO and its kin in the official layout, small, good and bad."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from deixis.data import recognise, refer
from deixis.data.reading import BadFile
from deixis.errors import DeixisError

INSTANCES = {
    "info": {},
    "images": [
        {"id": 98304, "file_name": "COCO_train2014_000000098304.jpg", "width": 640, "height": 424},
        {"id": 131074, "file_name": "COCO_train2014_000000131074.jpg", "width": 428, "height": 640},
        {"id": 5, "file_name": "../outside.jpg", "width": 10, "height": 10},
    ],
    "annotations": [
        {
            "id": 3007,
            "image_id": 98304,
            "category_id": 18,
            "bbox": [267.03, 104.32, 229.19, 320],
            "segmentation": [[1]],
        },
        {"id": 3008, "image_id": 98304, "category_id": 1, "bbox": [-10, 5, 60, 20.5], "iscrowd": 0},
        {"id": 3009, "image_id": 131074, "category_id": 77, "bbox": [1, 2, 3, 4]},
        {"id": 3010, "image_id": 131074, "category_id": 1, "bbox": [1, 2, 0, 4]},
        {"id": 3011, "image_id": 131074, "category_id": 1, "bbox": [500, 2, 10, 4]},
        {"id": 3012, "image_id": 131074, "category_id": 1, "bbox": [1, 2, 10]},
        {"id": 3013, "image_id": 131074, "category_id": 1},
        {"id": 3014, "image_id": 5, "category_id": 1, "bbox": [1, 2, 3, 4]},
    ],
    "categories": [{"id": 1, "name": "person", "supercategory": "person"}, {"id": 18, "name": "dog"}],
}


def ref(ref_id, ann_id, image_id, split, *sentences):
    return {
        "ref_id": ref_id,
        "ann_id": ann_id,
        "image_id": image_id,
        "category_id": 18,
        "file_name": f"COCO_train2014_{image_id:012d}_{ann_id}.jpg",
        "split": split,
        "sent_ids": list(range(len(sentences))),
        "sentences": [
            {"tokens": text.split(), "raw": text.upper(), "sent_id": index, "sent": text}
            for index, text in enumerate(sentences)
        ],
    }


REFS = [
    ref(0, 3007, 98304, "testA", "brown dog", "the dog on the right", "right"),
    ref(1, 3009, 131074, "testA", "man"),
    ref(2, 3008, 98304, "testA", "person's hand"),
    ref(3, 3009, 131074, "testB", "lady"),
    ref(4, 3008, 98304, "train", "left person"),
]


def build(root: Path, name="refcoco+", partition="unc", refs=REFS, instances=INSTANCES, protocol=2) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    content = instances if isinstance(instances, str) else json.dumps(instances)
    (folder / "instances.json").write_text(content)
    (folder / f"refs({partition}).p").write_bytes(refs if isinstance(refs, bytes) else pickle.dumps(refs, protocol))
    return root


def reasons(dataset) -> list[tuple[str, str]]:
    return [(Path(entry.file).name, entry.reason) for entry in dataset.skipped]


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_sentences_of_one_image_come_together(tmp_path, protocol):
    root = build(tmp_path, protocol=protocol)
    assert refer.recognise(root)
    assert recognise(root).NAME == "refer"
    assert refer.splits(root) == ("refcoco+:unc:train", "refcoco+:unc:testA", "refcoco+:unc:testB")
    dataset = refer.load(root, "refcoco+:unc:testA")
    assert (dataset.name, dataset.split) == ("refer", "refcoco+:unc:testA")
    assert not dataset.skipped
    assert [sample.image_id for sample in dataset] == ["98304", "131074"]
    dog, man = dataset
    assert dog.size == (640, 424)
    assert dog.path == root / "images/mscoco/images/train2014/COCO_train2014_000000098304.jpg"
    assert [caption.text for caption in dog.captions] == ["brown dog", "the dog on the right", "right", "person's hand"]
    assert dog.captions[3].tokens == ("person", "'s", "hand")
    for caption in (*dog.captions, *man.captions):
        [phrase] = caption.phrases
        assert (phrase.text, phrase.start, phrase.end) == (caption.text, 0, len(caption.tokens))
    assert [caption.phrases[0].entity for caption in dog.captions] == ["3007", "3007", "3007", "3008"]
    assert [(entity.id, entity.label) for entity in dog.entities] == [("3007", "dog"), ("3008", "person")]
    assert np.allclose(dog.entities[0].boxes, [[267.03, 104.32, 496.22, 424]])  # cut at the lower edge
    assert np.allclose(dog.entities[1].boxes, [[0, 5, 50, 25.5]])  # and at the left one
    assert man.entities[0].label == ""  # its category is not in the list


def test_a_split_may_be_named_shortly(tmp_path):
    root = build(tmp_path)
    for short in ("testB", "refcoco+:testB", "unc:testB"):
        dataset = refer.load(root, short)
        assert dataset.split == "refcoco+:unc:testB"
        assert [caption.text for caption in dataset[0].captions] == ["lady"]
    build(root, "refcocog", "umd", REFS[4:])
    build(root, "refcocog", "google", REFS[3:])
    assert len(refer.load(root, "umd:train")) == 1
    assert refer.splits(root)[-2:] == ("refcocog:google:testB", "refcocog:umd:train")
    with pytest.raises(
        DeixisError, match=r"must select one reference file.*refcoco\+:unc, refcocog:google, refcocog:umd"
    ):
        refer.load(root, "train")
    with pytest.raises(DeixisError, match="refcocog:google, refcocog:umd"):
        refer.load(root, "refcocog:train")
    with pytest.raises(DeixisError, match=r"no split 'val'\. Available: train, testA, testB"):
        refer.load(root, "refcoco+:val")


def test_the_root_may_be_one_data_set(tmp_path, monkeypatch):
    build(tmp_path)
    monkeypatch.chdir(tmp_path / "refcoco+")
    for root in (Path(), tmp_path / "refcoco+"):
        assert refer.recognise(root)
        assert refer.splits(root) == ("unc:train", "unc:testA", "unc:testB")
        sample = refer.load(root, "testB")[0]
        assert sample.path.resolve().is_relative_to(tmp_path / "images/mscoco/images/train2014")
        wanted = [(entry.path, entry.required) for entry in refer.expected(root)]
        assert wanted == [("instances.json", True), ("refs(unc).p", False), ("../images/mscoco/images/train2014", True)]


def test_images_can_be_excluded(tmp_path):
    root = build(tmp_path)
    for exclude in ([98304], {"98304"}, np.array([98304])):
        clean = refer.load(root, "testA", exclude=exclude)
        assert [sample.image_id for sample in clean] == ["131074"]
        assert not clean.skipped


def test_refclef_has_its_own_images_and_shared_test_sets(tmp_path):
    instances = {
        "images": [{"id": 8756, "file_name": "8756.jpg", "width": 480, "height": 360}],
        "annotations": [{"id": "8756_1", "image_id": 8756, "category_id": 0, "bbox": [0, 0, 479, 100]}],
        "categories": [{"id": 0, "name": "sky"}],
    }
    refs = [ref(n, "8756_1", 8756, split, split) for n, split in enumerate(["testB", "testAB", "testC", "val"])]
    for each in refs:
        each["ann_id"] = "8756_1"
    root = build(tmp_path, "refclef", refs=refs, instances=instances)
    assert refer.splits(root) == ("refclef:unc:val", "refclef:unc:testA", "refclef:unc:testB", "refclef:unc:testC")

    def texts(split):
        return [caption.text for sample in refer.load(root, split) for caption in sample.captions]

    assert texts("testA") == ["testAB"]
    assert texts("testB") == ["testB", "testAB"]
    assert texts("test") == ["testB", "testAB", "testC"]
    assert texts("val") == ["val"]
    [sample] = refer.load(root, "testA")
    assert sample.path == root / "images/saiapr_tc-12/8756.jpg"
    assert sample.entities[0].label == "sky"


def test_one_bad_reference_does_not_hide_the_others(tmp_path):
    no_sentence = ref(20, 3007, 98304, "val")
    bad_sentences = ref(21, 3007, 98304, "val", "good one", "second", "third")
    bad_sentences["sentences"][1] = {"sent": "", "raw": " ?! ", "sent_id": 8}
    bad_sentences["sentences"][2] = 7
    odd = {**ref(22, 3007, 98304, "val", "x"), "image_id": [1, 2]}
    del odd["file_name"]
    refs = [
        ref(10, 3010, 131074, "val", "empty box"),
        ref(11, 3011, 131074, "val", "outside box"),
        ref(12, 3012, 131074, "val", "three numbers"),
        ref(13, 3013, 131074, "val", "no box"),
        ref(14, 3014, 5, "val", "a path that leaves"),
        ref(15, 9999, 131074, "val", "unknown annotation"),
        ref(16, 3007, 424242, "val", "unknown image"),
        ref(17, 3007, 131074, "val", "box of another image"),
        {key: value for key, value in ref(18, 3007, 98304, "val", "x").items() if key != "split"},
        "not a reference",
        no_sentence,
        bad_sentences,
        odd,
        ref(30, 3009, 131074, "val", "the good one"),
    ]
    dataset = refer.load(build(tmp_path, refs=refs), "val")
    texts = [caption.text for sample in dataset for caption in sample.captions]
    assert sorted(texts) == ["good one", "the good one"]
    assert all(name == "refs(unc).p" for name, _ in reasons(dataset))
    assert [reason for _, reason in reasons(dataset)] == [
        'reference 8: the field "split" is missing',
        "reference 9: expected a JSON object, got 'not a reference'",
        "reference 10: the reference has no usable sentence",
        "reference 21, sentence 1: the sentence has no words",
        "reference 21, sentence 2: expected a JSON object, got 7",
        'reference 12: "image_id" must be an integer or a nonempty string',
        "reference 10: the box from (1, 2) to (1, 6) is empty or outside the image",
        "reference 11: the box from (500, 2) to (510, 6) is empty or outside the image",
        'reference 12: "bbox" is [1, 2, 10]. Expected 4 numbers',
        'reference 13: the field "bbox" is missing',
        "reference 14: the path '../outside.jpg' contains '..' or a null character",
        "reference 15: annotation 9999 is not in instances.json",
        "reference 16: image 424242 is not in instances.json",
        "reference 17: annotation 3007 belongs to another image",
    ]


def test_bad_instances_records_are_noted(tmp_path):
    instances = {**INSTANCES, "images": [*INSTANCES["images"], {"file_name": "x.jpg"}], "annotations": []}
    dataset = refer.load(build(tmp_path, instances=instances), "testB")
    assert len(dataset) == 0
    assert reasons(dataset) == [
        ("instances.json", 'image 3: the field "id" is missing'),
        ("refs(unc).p", "reference 3: annotation 3009 is not in instances.json"),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"instances\.json, line 1: not valid JSON"),
        ('{"images": [],\n"annotations": [1,]}', r"instances\.json, line 2: not valid JSON"),
        ("[]", r"instances\.json: the list \"images\" is missing"),
        (
            '{"images": [], "annotations": {}, "categories": []}',
            r"instances\.json: expected a list of annotation records",
        ),
    ],
)
def test_unusable_instances_are_named(tmp_path, content, says):
    with pytest.raises(BadFile, match=says):
        refer.load(build(tmp_path, instances=content), "testA")


def test_absent_instances_are_named(tmp_path):
    root = build(tmp_path)
    (root / "refcoco+/instances.json").unlink()
    with pytest.raises(DeixisError, match=r"instances\.json does not exist"):
        refer.load(root, "testA")


HOSTILE = b"cos\nsystem\n(S'touch ran'\ntR."


@pytest.mark.parametrize("data", [HOSTILE, b"", pickle.dumps(REFS, 2)[:-9], pickle.dumps({"refs": REFS}, 2)])
def test_an_unusable_pickle_is_named_and_hides_no_other_file(tmp_path, data):
    root = build(tmp_path)
    build(root, "refcoco", refs=data)
    with pytest.raises(BadFile, match=r"refcoco/refs\(unc\)\.p"):
        refer.load(root, "refcoco:unc:train")
    assert refer.splits(root)[0] == "refcoco:unc:train"
    assert len(refer.load(root, "refcoco+:testA")) == 2


def test_a_pickle_that_shares_its_sentences_without_end_is_refused(tmp_path):
    # 300 bytes for each reference, and each names the same 20,000 sentences again: 20 million sentences.
    sentences = [{"sent": "x"}] * 20_000
    refs = [{**ref(n, 3007, 98304, "val"), "sentences": sentences} for n in range(1000)]
    with pytest.raises(BadFile, match="more sentences than bytes"):
        refer.load(build(tmp_path, refs=refs), "val")


def test_a_changed_file_is_read_again(tmp_path):
    root = build(tmp_path)
    assert len(refer.load(root, "testA")) == 2
    build(root, refs=REFS[:1])
    assert len(refer.load(root, "testA")) == 1


def test_what_belongs_to_the_official_distribution(tmp_path):
    assert not refer.recognise(tmp_path)
    nothing = refer.expected(tmp_path)
    assert [entry.path for entry in nothing] == ["refcoco", "refcoco+", "refcocog", "refclef"]
    assert all(entry.required for entry in nothing)
    build(tmp_path, "refcocog", "google")
    (tmp_path / "refcoco").mkdir()
    (tmp_path / "refcoco/instances.json").write_text("{}")
    needed = {entry.path: entry.required for entry in refer.expected(tmp_path)}
    assert needed == {
        "refcoco/instances.json": True,
        "refcoco/refs(unc).p": True,
        "refcoco/refs(google).p": False,
        "refcocog/instances.json": True,
        "refcocog/refs(umd).p": False,  # the sentences are there, as google split them
        "refcocog/refs(google).p": False,
        "refcoco+": False,
        "refclef": False,
        "images/mscoco/images/train2014": True,
    }
    assert all(entry.purpose and entry.publisher for entry in refer.expected(tmp_path))
