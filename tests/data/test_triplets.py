"""Triplets of phrases, instances and detections, and texts for mirror images."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from deixis.data.reading import BadFile
from deixis.data.sample import Caption, Entity, Sample
from deixis.data.scenes import make_scene
from deixis.data.triplets import (
    Named,
    caption_triplets,
    instance_triplets,
    mirror,
    named_triplets,
    phrase_triplets,
    read_detections,
)
from deixis.language.parse import Parse
from deixis.types import Phrase


def test_phrases_of_made_scenes_come_with_their_boxes() -> None:
    scene = make_scene(0, 0, split="test")
    found = list(phrase_triplets(scene))
    dog = scene.entity("dog1")
    assert dog is not None
    boxes = {t.box for t in found if t.text == "a grey dog"}
    assert boxes == {tuple(dog.boxes[0].tolist())}
    assert any(p.text == "the snowy ground" for c in scene.captions for p in c.phrases)
    assert not any(t.text == "the snowy ground" for t in found)  # a scene has no box
    large = list(phrase_triplets(scene, min_area=0.05))
    assert 0 < len(large) < len(found)


def coco() -> Sample:
    entities = (
        Entity("1", np.array([[0.0, 0, 30, 30]]), ("animal",), "dog"),
        Entity("2", np.array([[60.0, 40, 100, 80]]), ("animal",), "dog"),
        Entity("3", np.array([[0.0, 0, 100, 100]]), ("person", "crowd"), "person"),
        Entity("4", np.array([[10.0, 10, 12, 12]]), ("animal",), "cat"),
    )
    return Sample("7", (Caption("Two dogs.", ("two", "dogs")),), size=(100, 100), entities=entities)


def test_instances_are_named_and_told_apart_by_place() -> None:
    found = {(t.text, t.box[0], t.source) for t in instance_triplets(coco(), min_area=0.01)}
    assert ("a dog", 0.0, "object") in found
    assert ("a dog", 60.0, "object") in found
    assert ("a dog on the left", 0.0, "spatial") in found
    assert ("bottom dog", 60.0, "spatial") in found
    assert not any("animal" in text or "person" in text or "cat" in text for text, _, _ in found)


def test_small_boxes_count_for_positions() -> None:
    things = [Named("man", (0, 0, 5, 5)), Named("man", (20, 40, 60, 60)), Named("man", (60, 45, 100, 65))]
    found = [t.text for t in named_triplets("7", (100, 100), things, min_area=0.05) if t.source == "spatial"]
    assert found == ["a man on the right", "bottom man"]


def test_one_of_a_kind_has_no_place() -> None:
    found = list(named_triplets("7", (100, 100), [Named("dog", (0, 0, 30, 30)), Named("cat", (50, 50, 90, 90))]))
    assert [t.text for t in found] == ["a dog", "a cat"]


def test_phrases_of_captions_mean_what_was_detected() -> None:
    parse = Parse(
        tokens=("an", "old", "man", "walks", "a", "dog", "near", "a", "tree"),
        lemmas=("an", "old", "man", "walk", "a", "dog", "near", "a", "tree"),
        pos=("DET", "ADJ", "NOUN", "VERB", "DET", "NOUN", "ADP", "DET", "NOUN"),
        tags=("DT", "JJ", "NN", "VBZ", "DT", "NN", "IN", "DT", "NN"),
        heads=(2, 2, 3, 3, 5, 3, 3, 8, 6),
        labels=("det", "amod", "nsubj", "ROOT", "det", "dobj", "prep", "det", "pobj"),
        chunks=((0, 3), (4, 6), (7, 9)),
    )
    things = [Named("person", (0, 0, 10, 10)), Named("person", (20, 0, 30, 10)), Named("dog", (40, 0, 50, 10))]
    found = [(t.text, t.box[0]) for t in caption_triplets(coco(), [parse], things)]
    assert found == [("an old man", 0), ("an old man", 20), ("a dog", 40)]
    assert list(caption_triplets(coco(), [parse], things, names={"tree": "dog"}))[-1].text == "a tree"


def test_detections_are_read(tmp_path: Path) -> None:
    records = [
        {"image_id": "a", "category": "dog", "bbox": [1, 2, 10, 20], "score": 0.9},
        {"image_id": "a", "category": "cat", "bbox": [1, 2, 10, 20], "score": 0.1},
        {"image_id": 5, "category": "car", "bbox": [0, 0, 4, 4], "score": 0.5},
    ]
    file = tmp_path / "found.json.gz"
    file.write_bytes(gzip.compress(json.dumps(records).encode()))
    assert read_detections(file) == {"a": [Named("dog", (1, 2, 11, 22), 0.9)], "5": [Named("car", (0, 0, 4, 4), 0.5)]}
    with pytest.raises(BadFile, match=r"no detection has a score >= 0\.95"):
        read_detections(file, 0.95)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "a COCO results list"),
        ("nonsense", "invalid JSON"),
        ('[{"image_id": 1, "score": 1}]', "record 0"),
    ],
)
def test_what_is_no_file_of_detections_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "found.json").write_text(content, encoding="utf-8")
    with pytest.raises(BadFile, match=said):
        read_detections(tmp_path / "found.json")


def test_left_and_right_change_places() -> None:
    assert mirror("a dog on the left") == "a dog on the right"
    assert mirror("Right of the leftmost man, his right-hand side") == "Left of the rightmost man, his left-hand side"
    assert mirror("bright leftover copyright, LEFT!") == "bright leftover copyright, RIGHT!"
    text = "left and right of it"
    assert mirror(mirror(text)) == text


def test_phrase_without_boxes_makes_no_triplet() -> None:
    caption = Caption("a sky", ("a", "sky"), (Phrase("a sky", 0, 2, entity="1"), Phrase("a", 0, 1)))
    sample = Sample("7", (caption,), size=(10, 10), entities=(Entity("1", np.zeros((0, 4))),))
    assert list(phrase_triplets(sample)) == []
