"""Grammatical number of phrases."""

import pytest

from deixis.language.parse import parse

ONE = [
    "a dog", "one", "the grass", "blue jeans", "sunglasses", "a bus", "a piece of cake", "a black and white dog",
    "a man with glasses", "a dog with two tails", "",
]  # fmt: skip
MORE = [
    "two dogs", "people", "Three girls", "a crowd", "a group of people", "a bunch of flowers", "a young couple",
    "a football team", "a man and a woman", "men in red shirts", "a pair of shoes", "two", "the others",
]  # fmt: skip


@pytest.mark.parametrize(("texts", "expected"), [(ONE, False), (MORE, True)])
def test_one_or_several(texts: list[str], expected: bool) -> None:
    found = {text: grammar.is_plural(0, len(grammar)) for text, grammar in zip(texts, parse(texts), strict=True)}
    assert found == dict.fromkeys(texts, expected)


def test_part_of_a_sentence() -> None:
    (grammar,) = parse(["Two men chase a dog."])
    assert grammar.is_plural(0, 2)
    assert not grammar.is_plural(3, 5)
