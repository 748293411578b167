"""Hard negatives of phrases, by hand."""

from __future__ import annotations

import pytest

from deixis.language.negatives import CoOccurrence, base_word, hard_negatives


@pytest.mark.parametrize(
    ("word", "base"),
    [("dogs", "dog"), ("bikes", "bicycle"), ("men", "man"), ("benches", "bench"), ("buses", "bus"), ("grass", "gras")],
)
def test_base_words(word: str, base: str) -> None:
    assert base_word(word) == base


def test_noun_colour_and_number_are_swapped_for_what_is_not_named() -> None:
    words = ["two", "brown", "dogs", "run", "after", "a", "cat", "and", "a", "white", "horse"]
    assert dict(hard_negatives("two brown dogs", words, 0)) == {
        "category": "two brown cows",  # cat and horse are named
        "attribute": "two red dogs",
        "count": "three brown dogs",
    }
    assert dict(hard_negatives("two brown dogs", words, 1))["category"] == "two brown sheep"


def test_what_is_not_in_a_category_has_no_negative() -> None:
    assert list(hard_negatives("the sky", ["the", "sky"], 0)) == []
    assert list(hard_negatives("", ["the", "sky"], 0)) == []


def test_a_number_beside_other_numbers_is_not_swapped() -> None:
    assert "count" not in dict(hard_negatives("two dogs", ["two", "dogs", "and", "three", "cats"], 0))


def test_the_likeliest_noun_is_one_that_is_often_named_beside_others() -> None:
    images = [["dog", "ball"], ["dogs", "frisbee"], ["dog", "frisbee"], ["cat", "couch"]]
    counted = CoOccurrence.count(images)
    assert counted.likeliest(["a", "dog"]) == "frisbee"  # beside two of three dogs
    assert counted.likeliest(["a", "dog", "frisbee"]) == "ball"
    assert counted.likeliest(["sky"]) is None
