"""Probabilities of the classes that nouns name, by hand."""

import numpy as np

from deixis.localize.class_names import class_probabilities, detector_classes, names_part
from deixis.types import Labels

CLASSES = ("dog", "person", "tree")
LABELS = Labels(np.array([[0, 2], [1, 0]]), np.array([[0.7, 0.2], [0.6, 0.3]]), CLASSES)


def test_by_hand() -> None:
    """A puppy is a dog and a man a person; nothing is known of the sky, nor of a phrase without a noun."""
    found = class_probabilities(["puppy", "dog", "tree", "man", "sky", ""], LABELS, CLASSES)
    np.testing.assert_allclose(found, [[0.7, 0.3], [0.7, 0.3], [0.2, 0], [0, 0.6], [1, 1], [1, 1]])


def test_classes_of_the_backbone_do_not_count() -> None:
    """Both lists have a dog; the names of the backbone follow those of the detector."""
    labels = Labels(np.array([[0, 3], [3, 1]]), np.array([[0.7, 0.2], [0.9, 0.1]]), (*CLASSES, "dog", "cat"))
    classes = detector_classes(labels, ("dog", "cat"))
    assert classes == CLASSES
    np.testing.assert_allclose(class_probabilities(["dog", "cat"], labels, classes), [[0.7, 0.0], [1.0, 1.0]])
    assert detector_classes(LABELS, ("dog", "cat")) == CLASSES


def test_nouns_of_clothes_name_parts_of_people() -> None:
    """A shirt has the region of the upper body; a hat was not located, so it excludes no region."""
    classes = ("", "person", "top", "hat", "foot", "feet")
    labels = Labels(np.array([[1, 2], [2, 0], [4, 5]]), np.array([[0.9, 0.1], [0.8, 0.0], [0.6, 0.2]]), classes)
    found = class_probabilities(["shirt", "helmet", "shoe", "man"], labels, classes)
    np.testing.assert_allclose(found, [[0.1, 0.8, 0], [1, 1, 1], [0, 0, 0.6], [0.9, 0, 0]])
    assert names_part("jacket")
    assert not names_part("man")
