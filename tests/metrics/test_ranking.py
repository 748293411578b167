"""Images ordered by their scores, and by the difference between two systems."""

import numpy as np

from deixis.metrics.ranking import mean_overlaps, rank_by_overlap, rank_differences, rank_images
from deixis.metrics.score import Score, make_score

IDS = ("a", "b", "c", "d")


def score(name: str, values: list[float], ids: tuple[str, ...] = IDS) -> Score:
    items = np.array(values)
    stats = np.stack([np.nan_to_num(items), np.ones(len(items))], 1)
    return make_score(name, ids, items, stats, "mean", "v")


def test_images_are_ordered_by_grounding_then_words() -> None:
    scores = (score("CIDEr", [0, 0.9, 0.2, 3]), score("F1_all_per_sent", [0.5, 0, 0, float("nan")]))
    assert rank_images(scores, IDS) == [
        ("c", "F1_all_per_sent 0.00, CIDEr 0.20"),
        ("b", "F1_all_per_sent 0.00, CIDEr 0.90"),
        ("a", "F1_all_per_sent 0.50, CIDEr 0.00"),
    ]  # "d" has no boxes, and no F1


def test_images_of_phrases_are_ordered_by_their_mean_overlap() -> None:
    phrases = ("i#0.0-2 a dog", "i#1.0-2 the dog #1", "j#0.3-5 a ball")
    scores = [score("accuracy", [1, 1, 1], phrases), score("mean_iou", [0.2, 0.4, 0.25], phrases)]
    assert mean_overlaps(scores) == {"i": np.mean([0.2, 0.4]), "j": 0.25}
    assert rank_by_overlap(scores) == [("j", "mean IoU 0.25"), ("i", "mean IoU 0.30")]
    assert mean_overlaps(scores[:1]) == {}


def test_images_are_ordered_by_the_difference_of_two_systems() -> None:
    a = [score("CIDEr", [1, 2, 3, 4]), score("F1_all_per_sent", [0.5, 0.5, 0.5, float("nan")])]
    b = [score("CIDEr", [1, 2, 3, 9]), score("F1_all_per_sent", [0.4, 0.5, 1.0, 0.5])]
    assert rank_differences(a, b) == [
        ("c", "F1_all_per_sent 0.50, 1.00"),
        ("a", "F1_all_per_sent 0.50, 0.40"),
        ("b", "F1_all_per_sent 0.50, 0.50"),
    ]
    assert rank_differences(a[:1], b)[0] == ("d", "CIDEr 4.00, 9.00")
    phrases = ("i#0.0-2 a dog", "j#0.3-5 a ball")
    one, two = ([score("mean_iou", values, phrases)] for values in ([0.5, 0.5], [0.5, 0.1]))
    assert rank_differences(one, two)[0] == ("j", "mean IoU 0.50, 0.10")
    assert rank_differences(a, one) == []
