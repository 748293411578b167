"""Captions, vocabularies and classes in the preparation files of captioning papers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import official_files as official
from deixis.data import flickr30k_entities, load, recognise
from deixis.data.dictionary import read_classes, read_dictionary, read_vocabulary
from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary


def test_vocabulary_and_classes(tmp_path: Path) -> None:
    official.gvd_annotations(tmp_path)
    path = tmp_path / "dic_flickr30k.json"
    dictionary = read_dictionary(path)
    assert dictionary.words == official.WORDS
    assert dictionary.classes == official.CLASSES  # by number; the file has another order
    assert [entry.image_id for entry in dictionary.entries] == [str(i) for i in official.IDS]
    words = read_vocabulary(path)
    assert words.words[4:] == official.WORDS[:-1]  # UNK is our <unk>
    assert words.id("UNK") == Vocabulary.unk
    classes = read_classes(path)
    assert classes.names == official.CLASSES
    assert (classes.of("dogs"), classes.of("men"), classes.of("plays")) == ("dog", "man", None)
    (tmp_path / "names.txt").write_text("dog, puppy\nman\n")
    listed = read_classes(tmp_path / "names.txt")
    assert (listed.names, listed.of("puppy"), listed.of("men")) == (("dog", "man"), "dog", None)
    scan = {"word2idx": {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "dog": 4, "a": 5}, "idx": 6}
    (tmp_path / "vocab.json").write_text(json.dumps(scan))
    assert read_vocabulary(tmp_path / "vocab.json").words[4:] == ("dog", "a")
    words.save(tmp_path / "own.json")
    assert read_vocabulary(tmp_path / "own.json") == words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ix_to_word": {"1": "a", "3": "b"}}, "1 to 2"),
        ({"ix_to_word": ["a"]}, "ix_to_word"),
        ({"wtod": {"dog": 1}}, "wtod"),
        ({"images": [{"split": "train"}]}, '"id"'),
    ],
)
def test_wrong_dictionaries_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "dic_flickr30k.json"
    path.write_text(json.dumps(official.dictionary([]) | change))
    with pytest.raises(DeixisError, match=message):
        read_dictionary(path)


@pytest.mark.parametrize("cleaned", [True, False])
def test_gvd(tmp_path: Path, cleaned: bool) -> None:
    official.gvd_annotations(tmp_path)
    if not cleaned:
        (tmp_path / "flickr30k_cleaned_class.json").unlink()
    assert recognise(tmp_path).NAME == "gvd"
    dataset = load(tmp_path, "val")
    assert [sample.image_id for sample in dataset] == ["1028", "1035"]
    assert dataset.skipped == ()
    sample = dataset[0]
    assert sample.size == (official.SIZE if cleaned else None)
    assert len(sample.captions) == 5
    caption = sample.captions[1]  # "a dog plays with the ball"
    assert caption.tokens == ("a", "dog", "plays", "with", "the", "ball")
    assert [(p.head, p.start, p.types) for p in caption.phrases] == [("dog", 1, ("dog",)), ("ball", 5, ("ball",))]
    entity = sample.entity(caption.phrases[1].entity or "")
    assert entity is not None
    np.testing.assert_array_equal(entity.boxes, [[6, 4, 33, 41]])  # inclusive corners


def test_the_split_file_decides(tmp_path: Path) -> None:
    official.gvd_annotations(tmp_path)
    path = tmp_path / "split_ids_flickr30k_entities.json"
    path.write_text(json.dumps({"train": ["1035"], "val": ["1000"], "test": ["1028"]}))
    assert [sample.image_id for sample in load(tmp_path, "test")] == ["1028"]


def test_bad_gvd_records_are_named(tmp_path: Path) -> None:
    official.gvd_annotations(tmp_path)
    path = tmp_path / "flickr30k_cleaned_class.json"
    value = json.loads(path.read_text())
    value["annotations"][4]["captions"][0]["process_idx"][0] = 99
    value["annotations"][5]["captions"][0]["process_bnd_box"][0] = [90, 0, 99, 9]
    path.write_text(json.dumps(value))
    dataset = load(tmp_path, "val")
    assert len(dataset[0].captions) == 4
    assert "image 1028, caption 0: the object word 99" in str(dataset.skipped[0])
    assert len(dataset[1].captions) == 5  # only the word without a box is left out
    assert len(dataset[1].captions[0].phrases) == 1
    assert "image 1035, caption 0: the box of word" in str(dataset.skipped[1])


def test_talk(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    official.talk(tmp_path)
    assert recognise(tmp_path).NAME == "talk"
    dataset = load(tmp_path, "train")
    assert len(dataset) == 4
    assert dataset[1].captions[0].text == official.SENTENCES[1][0]
    assert dataset[0].size == official.SIZE
    with h5py.File(tmp_path / "flickrtalk_label.h5", "a") as file:
        file.move("labels", "label")
    with pytest.raises(DeixisError, match="labels"):
        load(tmp_path, "train")


@pytest.mark.parametrize("h5", [True, False])
def test_scan(tmp_path: Path, h5: bool) -> None:
    pytest.importorskip("h5py")
    official.scan(tmp_path, official.bottom_up(36), h5)
    assert recognise(tmp_path).NAME == "scan_precomp"
    dataset = load(tmp_path, "dev")
    assert [sample.image_id for sample in dataset] == ["1028", "1035"]
    caption = dataset[0].captions[1]
    assert caption.text == official.SENTENCES[0][0]
    assert caption.tags == ("DT", "NN", "VBZ", "IN", "DT", "NN")
    (tmp_path / "dev_tags.txt").write_text("NN\n")
    with pytest.raises(DeixisError, match="1 lines, but dev_caps"):
        load(tmp_path, "dev")


def test_karpathy_and_gvd_splits_of_entities(tmp_path: Path) -> None:
    for folder in ("Sentences", "Annotations"):
        (tmp_path / folder).mkdir()
    for image_id in ("1", "2", "3"):
        line = "A [/EN#7/animals dog] .\n"
        (tmp_path / "Sentences" / f"{image_id}.txt").write_text(5 * line)
        (tmp_path / "Annotations" / f"{image_id}.xml").write_text(
            "<annotation><size><width>40</width><height>30</height></size><object><name>7</name><bndbox><xmin>1</xmin>"
            "<ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>"
        )
    (tmp_path / "test.txt").write_text("1\n")
    images = [{"filename": f"{i}.jpg", "split": s} for i, s in (("1", "train"), ("2", "val"), ("3", "test"))]
    official.write_json(tmp_path / "dataset_flickr30k.json", {"images": images})
    official.write_json(tmp_path / "split_ids_flickr30k_entities.json", {"train": ["3"], "val": ["1"], "test": ["2"]})
    assert "karpathy:test" in flickr30k_entities.splits(tmp_path)
    found = {split: [s.image_id for s in load(tmp_path, split)] for split in ("test", "karpathy:test", "gvd:test")}
    assert found == {"test": ["1"], "karpathy:test": ["3"], "gvd:test": ["2"]}
    assert len(load(tmp_path, "karpathy:test")[0].entities[0].boxes) == 1
