"""Second look: a subject that detector and classifier do not find gives a warning or a template."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.language.sentence import sentence
from deixis.pipelines.caption import CaptionOptions, finish
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.pipelines.second_look import (
    SecondLook,
    class_nouns,
    detections,
    first_supported,
    second_look,
    seen_classes,
    subject_of,
    template_sentence,
)
from deixis.types import AttentionTrace, Candidate, Labels, Regions
from deixis.vision.classes import imagenet_classes
from deixis.vision.extractor import RegionExtractor
from deixis.vision.feature_map import FeatureMap
from deixis.vision.proposals import Grid
from small_models import small_captioner

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

    def to(self, device: torch.device) -> None:
        pass

    def feature_map(self, pixels: torch.Tensor) -> FeatureMap:
        assert pixels.shape == (1, 257, 257, 3)
        self.asked += 1
        return FeatureMap(torch.ones(1, 4, 9, 9), 32, (0, 0))

    def classify(self, features: torch.Tensor) -> torch.Tensor:
        probs = self.probs.repeat(len(features), 1)
        if len(features) == 3:
            probs[[0, 2]] = 1e-6
        return probs


def extractor(classifier: Classifier, detector: bool = True) -> Any:
    description = {"backbone": {"name": "given"}, "proposals": {"name": "given"}}
    if detector:
        description["proposals"]["supervision"] = "boxes: COCO"
    made = RegionExtractor(description, parts=(classifier, Grid()))
    made.name = ""  # as of the regions below
    return made


def regions(**found: float) -> Regions:
    """Three boxes; the detector names the last one, and of the last one's names the best comes first."""
    ids, probs = np.zeros((3, 2), int), np.zeros((3, 2))
    for k, (name, prob) in enumerate(sorted(found.items(), key=lambda item: -item[1])):
        ids[2, k], probs[2, k] = COCO.index(name.replace("_", " ")), prob
    labels = Labels(ids, probs, (*COCO, *CLASSES))
    return Regions(BOXES, np.zeros((3, 4), np.float32), (100, 100), np.array([0.1, 0.1, 0.9]), labels)


def generated(words: str) -> Candidate:
    trace = AttentionTrace(np.zeros((3, 1, 3), np.float32), np.ones((3, 1), bool), BOXES, (100, 100))
    return Candidate(tuple(words.split()), -3.0, -3.0, trace)


def look(classifier: Classifier, caption: str, seen: Regions, detector: bool = True) -> SecondLook:
    photo = Photo(Image.new("RGB", (100, 100)), regions=seen)
    return second_look(generated(caption), photo, extractor(classifier, detector))


def unchanged(found: SecondLook, words: str) -> bool:
    return found.candidate.words == tuple(words.split()) and found.candidate.logprob == -3.0


def test_what_the_detector_finds_is_not_classified() -> None:
    classifier = Classifier({"espresso": 0.9})
    found = look(classifier, "a dog runs", regions(dog=0.06))
    assert unchanged(found, "a dog runs")
    assert (found.missing_subject, found.template_prob) == ("", 0)
    assert classifier.asked == 0


def test_a_subject_is_found_by_the_sum_of_its_classes() -> None:
    found = look(Classifier({"beagle": 0.03, "Norwich terrier": 0.03}), "two dogs run", regions())
    assert not found.missing_subject
    assert look(Classifier({"beagle": 0.04}), "two dogs run", regions()).missing_subject == "dog"


def test_without_a_certain_class_the_sentence_stays_and_its_subject_is_missing() -> None:
    found = look(Classifier({"espresso": 0.49}), "a puppy runs", regions())
    assert unchanged(found, "a puppy runs")
    assert (found.missing_subject, found.template_prob) == ("puppy", 0)


def test_a_template_names_what_is_certain_and_where_it_is() -> None:
    found = look(Classifier({"espresso": 0.9}), "a dog runs", regions(dining_table=0.6, cup=0.04))
    assert found.template_prob == pytest.approx(0.9)
    assert found.missing_subject == "dog"
    template = found.candidate
    assert sentence(template.words) == "A cup of coffee on a table."
    assert template.logprob is None
    coffee, table = template.groundings
    assert (coffee.text, coffee.start, coffee.end, coffee.box) == ("cup of coffee", 1, 4, (10, 10, 60, 60))
    assert (coffee.head, table.head) == (1, 6)
    assert coffee.score == pytest.approx(0.9)
    assert (table.text, table.start, table.end, table.box) == ("table", 6, 7, (0, 40, 100, 100))
    assert table.score == pytest.approx(0.6)
    attention = template.trace.attention
    assert attention.shape == (7, 1, 3)
    assert attention[2, 0].argmax() == 1
    assert attention[6, 0].tolist() == [0, 0, 1]
    assert not attention[[0, 4, 5]].any()


def test_a_template_stands_for_the_generated_sentence_in_the_result() -> None:
    """Its image, size and model are those of any other result."""
    captioner = small_captioner()
    captioner.extractor = extractor(Classifier({"espresso": 0.9}))
    photo = Photo(Image.new("RGB", (100, 100)), "x", regions(dining_table=0.6, cup=0.04))
    found = finish(
        photo, generated("a dog runs"), math.inf, Models(captioner), CaptionOptions(checks=("second-look",))
    ).caption
    assert found.caption == "A cup of coffee on a table."
    assert (found.image, found.width, found.model, found.logprob) == ("x", 100, "small", None)
    assert [one.text for one in found.groundings] == ["cup of coffee", "table"]


def test_the_detectors_box_of_the_object_itself_is_preferred() -> None:
    """The detector has found a cup; the cup is not named twice."""
    found = look(Classifier({"espresso": 0.9}), "a dog runs", regions(cup=0.8))
    assert sentence(found.candidate.words) == "A close-up of a cup of coffee."  # three fifths of the photograph
    assert found.candidate.groundings[0].box == (0, 40, 100, 100)


@pytest.mark.parametrize("caption", ["the sun sets", "a stick lies there", "running fast"])
def test_unknown_subjects_are_not_checked(caption: str) -> None:
    assert not look(Classifier({"espresso": 0.9}), caption, regions()).missing_subject


def test_without_a_detector_only_classes_of_the_classifier_are_checked() -> None:
    """ImageNet has dogs and no people."""
    classifier = Classifier({"espresso": 0.9})
    assert not look(classifier, "a man runs", regions(dog=0.9), detector=False).missing_subject
    assert look(classifier, "a dog runs", regions(dog=0.9), detector=False).template_prob


def test_a_backbone_with_other_classes_does_not_classify() -> None:
    classifier = Classifier({"espresso": 0.9})
    classifier.classes = CLASSES[:10]
    assert not look(classifier, "a dog runs", regions(), detector=False).missing_subject
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
def test_the_subject_is_the_first_noun(words: str, subject: str) -> None:
    assert subject_of(generated(words), Photo(Image.new("RGB", (9, 9)))) == subject


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
def test_template_sentences(nouns: list[str], close: bool, words: str) -> None:
    found, spans = template_sentence(nouns, close)
    assert " ".join(found) == words
    assert {noun: " ".join(found[start:end]) for noun, (start, end) in spans.items()} == {noun: noun for noun in nouns}


def test_every_class_has_one_everyday_noun() -> None:
    names = class_nouns()
    assert sorted(number for numbers in names.values() for number in numbers) == list(range(1000))
    assert CLASSES[names["cat"][0]] == "tabby cat"
    assert len(names["dog"]) == 118
    assert names["espresso maker"] == (CLASSES.index("espresso maker"),)


def test_a_sentence_whose_objects_are_found_comes_before_a_likelier_one() -> None:
    """First a sentence with all objects, else one with its subject, else the likeliest."""
    photo = Photo(Image.new("RGB", (100, 100)), regions=regions(person=0.9))
    own = extractor(Classifier({"espresso": 0.3}))
    dog, with_cup, alone = (generated(words) for words in ("a dog runs", "a man holds a cup", "a man stands"))
    plant = generated("a man holds a dog")
    assert first_supported([dog, plant, alone], photo, own) is alone
    assert first_supported([dog, plant], photo, own) is plant
    assert first_supported([dog], photo, own) is dog
    assert first_supported([with_cup, alone], photo, own) is alone  # an espresso is not a cup


def test_certain_objects_are_large_and_likely() -> None:
    own = extractor(Classifier({}))
    photo = Photo(Image.new("RGB", (100, 100)), regions=regions(person=0.9, dog=0.5))
    assert seen_classes(photo, own) == {"person"}
    small = Regions(
        np.array([[0, 0, 100, 100], [10, 10, 60, 60], [0, 40, 10, 50]], np.float32),
        np.zeros((3, 4), np.float32),
        (100, 100),
        labels=regions(person=0.9).labels,
    )
    assert seen_classes(Photo(Image.new("RGB", (100, 100)), regions=small), own) == set()
    assert seen_classes(photo, extractor(Classifier({}), detector=False)) == set()


def test_parts_of_people_are_no_objects_of_a_template() -> None:
    labels = Labels(np.array([[0], [1], [2]]), np.array([[0.0], [0.9], [0.9]]), ("", "person", "top", *CLASSES))
    found = detections(Regions(BOXES, np.zeros((3, 4)), (100, 100), labels=labels), extractor(Classifier({})))
    assert list(found) == ["person"]
