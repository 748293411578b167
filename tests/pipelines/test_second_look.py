"""The second look: a sentence about what nobody else sees is doubted, or gives way to a plain one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.pipelines.looks import Looks
from deixis.pipelines.second_look import SecondLook, plain_names, plain_sentence, subject_of
from deixis.types import GroundedCaption, Labels, Regions
from deixis.vision.backbone import FeatureMap, imagenet_classes

CLASSES = imagenet_classes()
COCO = ("", "person", "dog", "cup", "dining table")
BOXES = np.array([[0, 0, 100, 100], [10, 10, 60, 60], [0, 40, 100, 100]], np.float32)


class Classifier:
    """A backbone that sees given classes in the whole photograph, and the same in the second region."""

    classes = CLASSES

    def __init__(self, seen: dict[str, float]) -> None:
        self.asked = 0
        self.probs = torch.full((len(CLASSES),), 1e-6)
        for name, prob in seen.items():
            self.probs[CLASSES.index(name)] = prob

    def feature_map(self, pixels: torch.Tensor) -> FeatureMap:
        assert pixels.shape == (1, 257, 257, 3)
        self.asked += 1
        return FeatureMap(torch.ones(1, 4, 9, 9), 32, (0, 0))

    def classify(self, features: torch.Tensor) -> torch.Tensor:
        probs = self.probs.repeat(len(features), 1)
        if len(features) == 3:
            probs[[0, 2]] = 1e-6
        return probs


def eyes(classifier: Classifier, detector: bool = True) -> Any:
    extractor = SimpleNamespace(backbone=classifier)
    return SimpleNamespace(extractor=extractor, detector=detector, device=torch.device("cpu"))


def regions(**found: float) -> Regions:
    """Three boxes; the detector names the last one, and of the last one's names the best comes first."""
    ids, probs = np.zeros((3, 2), int), np.zeros((3, 2))
    for k, (name, prob) in enumerate(sorted(found.items(), key=lambda item: -item[1])):
        ids[2, k], probs[2, k] = COCO.index(name.replace("_", " ")), prob
    labels = Labels(ids, probs, (*COCO, *CLASSES))
    return Regions(BOXES, np.zeros((3, 4), np.float32), (100, 100), np.array([0.1, 0.1, 0.9]), labels)


def said(words: str) -> GroundedCaption:
    return GroundedCaption(tuple(words.split()), logprob=-3.0, image="x", width=100, height=100, model="m")


LOOKS = Looks(np.zeros((3, 1, 3), np.float32), np.ones((3, 1), bool))


def look(classifier: Classifier, caption: str, seen: Regions, detector: bool = True) -> Any:
    photo = Image.new("RGB", (100, 100))
    return SecondLook(eyes(classifier, detector)).at(said(caption), LOOKS, seen, lambda: photo)


def test_what_the_detector_sees_is_not_asked_about_again() -> None:
    classifier = Classifier({"espresso": 0.9})
    found = look(classifier, "a dog runs", regions(dog=0.06))
    assert (found.caption, found.doubted, found.plain) == (said("a dog runs"), "", 0)
    assert found.looks is LOOKS
    assert classifier.asked == 0


def test_what_the_classifier_sees_is_believed_too_by_all_its_classes_together() -> None:
    found = look(Classifier({"beagle": 0.03, "Norwich terrier": 0.03}), "two dogs run", regions())
    assert not found.doubted
    assert look(Classifier({"beagle": 0.04}), "two dogs run", regions()).doubted == "dog"


def test_where_nobody_is_certain_of_anything_else_the_sentence_stays_and_is_doubted() -> None:
    found = look(Classifier({"espresso": 0.49}), "a puppy runs", regions())
    assert (found.caption, found.doubted, found.plain) == (said("a puppy runs"), "puppy", 0)


def test_a_plain_sentence_names_what_is_certain_and_where_it_is() -> None:
    found = look(Classifier({"espresso": 0.9}), "a dog runs", regions(dining_table=0.6, cup=0.04))
    assert found.plain == pytest.approx(0.9)
    assert found.doubted == "dog"
    assert found.caption.caption == "A cup of coffee on a table."
    assert found.caption.logprob is None
    assert (found.caption.image, found.caption.width, found.caption.model) == ("x", 100, "m")
    coffee, table = found.caption.groundings
    assert (coffee.text, coffee.start, coffee.end, coffee.box) == ("cup of coffee", 1, 4, (10, 10, 60, 60))
    assert coffee.score == pytest.approx(0.9)
    assert (table.text, table.start, table.end, table.box) == ("table", 6, 7, (0, 40, 100, 100))
    assert table.score == pytest.approx(0.6)
    assert found.looks.attention.shape == (7, 1, 3)
    assert found.looks.attention[2, 0].argmax() == 1
    assert found.looks.attention[6, 0].tolist() == [0, 0, 1]
    assert not found.looks.attention[[0, 4, 5]].any()


def test_the_detectors_box_of_the_thing_itself_is_preferred() -> None:
    """It has seen a cup, if faintly; the cup is not named twice."""
    found = look(Classifier({"espresso": 0.9}), "a dog runs", regions(cup=0.8))
    assert found.caption.caption == "A close-up of a cup of coffee."  # three fifths of the photograph
    assert found.caption.groundings[0].box == (0, 40, 100, 100)


@pytest.mark.parametrize("caption", ["the sun sets", "a stick lies there", "running fast"])
def test_what_nobody_knows_is_not_doubted(caption: str) -> None:
    assert not look(Classifier({"espresso": 0.9}), caption, regions()).doubted


def test_without_a_detector_only_what_the_classifier_knows_is_doubted() -> None:
    """ImageNet has dogs and no people."""
    classifier = Classifier({"espresso": 0.9})
    assert not look(classifier, "a man runs", regions(dog=0.9), detector=False).doubted
    assert look(classifier, "a dog runs", regions(dog=0.9), detector=False).plain


def test_a_backbone_with_other_classes_is_not_asked() -> None:
    classifier = Classifier({"espresso": 0.9})
    classifier.classes = CLASSES[:10]
    assert not look(classifier, "a dog runs", regions(), detector=False).doubted
    assert classifier.asked == 0


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        ("two brown dogs are running", "dog"),
        ("a group of people stand", "people"),
        ("a football player runs", "player"),
        ("running fast", ""),
        ("", ""),
    ],
)
def test_the_subject_is_the_noun_that_a_sentence_begins_with(words: str, subject: str) -> None:
    assert subject_of(said(words)) == subject


@pytest.mark.parametrize(
    ("nouns", "close", "words"),
    [
        (["cat"], True, "a close-up of a cat"),
        (["cat"], False, "a cat"),
        (["web site"], True, "a web site"),
        (["umbrella", "person"], True, "an umbrella and a person"),
        (["sunglasses"], False, "sunglasses"),
        (["cup of coffee", "table", "laptop"], False, "a cup of coffee and a laptop on a table"),
        (["table", "cup"], False, "a table and a cup"),
    ],
)
def test_plain_sentences(nouns: list[str], close: bool, words: str) -> None:
    found, spans = plain_sentence(nouns, close)
    assert " ".join(found) == words
    assert {noun: " ".join(found[start:end]) for noun, (start, end) in spans.items()} == {noun: noun for noun in nouns}


def test_every_class_has_one_plain_name() -> None:
    names = plain_names()
    assert sorted(number for numbers in names.values() for number in numbers) == list(range(1000))
    assert CLASSES[names["cat"][0]] == "tabby cat"
    assert len(names["dog"]) == 118
    assert names["espresso maker"] == (CLASSES.index("espresso maker"),)
