"""Parses of the package's own network: tokens, trees, phrases, and agreement with spaCy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from deixis.language.parse import Parse, parse, parse_words, parser_name
from deixis.language.queries import visible_phrases
from deixis.language.tagger import DILATIONS, LONGEST, REACH, WEIGHTS, encode, head_scores, tagger
from deixis.language.tagger import _heads as best_heads
from deixis.language.tokenise import tokens

ODD = [
    "A man in a blue shirt is standing on a ladder, cleaning the window.",
    "Two dogs' owners don't watch them (they're talking) -- really!",
    '"Hi," says the girl to the 3-year-old.',
    "It's 5 o'clock.",
    "...",
    "",
    "日本語 ½ cup 😀",
    "zxqv " * 3 * LONGEST,
    "the " * 200,
]

CAPTIONS = {
    "A man in a blue shirt is standing on a ladder.": ["a man", "a blue shirt", "a ladder"],
    "A black and white dog runs through the grass.": ["a black and white dog", "the grass"],
    "Two young women are playing volleyball on the beach.": ["two young women", "volleyball", "the beach"],
    "a group of people standing around a kitchen": ["a group of people", "a kitchen"],
    "A plate of food with broccoli and rice.": ["a plate", "food", "broccoli", "rice"],
    "a cat sitting on top of a wooden table next to a laptop": ["a cat", "a wooden table", "a laptop"],
    "The little girl holds her mother's hand.": ["the little girl", "her mother 's hand"],
    "a red ball": ["a red ball"],
    "the man on the left": ["the man", "the left"],
    "unicorn": ["unicorn"],
    "dogs": ["dogs"],
    "two zebras and a giraffe": ["two zebras", "a giraffe"],
    "person holding umbrella": ["person", "umbrella"],
}
"""Sentence or query -> its visible noun phrases."""


def assert_is_tree(parsed: Parse) -> None:
    """Every token has a head of the sentence, and there is a root above it."""
    for token in range(len(parsed)):
        seen = set()
        while parsed.heads[token] != token:
            assert 0 <= parsed.heads[token] < len(parsed)
            assert token not in seen
            seen.add(token)
            token = parsed.heads[token]
        assert parsed.labels[token] == "ROOT"


@pytest.mark.parametrize("text", ODD)
def test_every_parse_is_on_the_tokens_of_its_text(text: str) -> None:
    (parsed,) = parse([text])
    assert parsed.tokens == tokens(text)
    lengths = {len(f) for f in (parsed.lemmas, parsed.pos, parsed.tags, parsed.heads, parsed.labels, parsed.nouns)}
    assert lengths == {len(parsed)}
    assert all(start < end <= len(parsed) for start, end in parsed.chunks)
    assert all(end <= start for (_, end), (start, _) in zip(parsed.chunks, parsed.chunks[1:], strict=False))
    assert_is_tree(parsed)


def test_words_are_tokens_as_they_are() -> None:
    odd = [("a", "dog", ".", "-lrb-", "Co-op.", "!"), (), ("a",)]
    assert [parsed.tokens for parsed in parse_words(odd)] == [("a", "dog", ".", "-lrb-", "co-op.", "!"), (), ("a",)]
    for parsed in parse_words(odd):
        assert_is_tree(parsed)
    assert parse_words([("a", "dog", ".")])[0].pos[-1] == "PUNCT"


@pytest.mark.parametrize(("text", "phrases"), CAPTIONS.items())
def test_visible_phrases_of_captions_and_queries(text: str, phrases: list[str]) -> None:
    for parsed in (*parse([text]), *parse_words([tokens(text)])):
        assert [phrase.text for phrase in visible_phrases(parsed)] == phrases


def test_heads_lemmas_and_numbers() -> None:
    (parsed,) = parse(["Three men carry a box of knives past the women's bicycles."])
    assert {p.text: (p.head, p.lemma, p.plural) for p in visible_phrases(parsed)} == {
        "three men": ("men", "man", True),
        "a box": ("box", "box", False),
        "knives": ("knives", "knife", True),
        "the women 's bicycles": ("bicycles", "bicycle", True),
    }
    assert parsed.lemmas[2] == "carry"


def test_a_sentence_has_the_same_parse_alone_and_among_others() -> None:
    texts = list(CAPTIONS) * 6  # more than one batch, of different lengths
    together = parse(texts)
    assert together == [parse([text])[0] for text in CAPTIONS] * 6


def test_the_parser_has_the_name_of_its_weights() -> None:
    assert parser_name().startswith("deixis-")
    assert WEIGHTS.stat().st_size < 420_000


def test_neither_spacy_nor_torch_is_imported() -> None:
    check = (
        "import sys; from deixis.language.parse import parse; parse(['a dog']); "
        "sys.exit(bool({'spacy', 'torch', 'rich'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


# The network ----------------------------------------------------------------------------------------------------------


def test_a_cycle_is_broken_where_it_costs_least() -> None:
    """0 and 1 prefer each other; as a root 1 loses 1, 0 loses 3, and 2 as the head of 0 costs 2."""
    scores = np.array([[1.0, 4.0, 2.0], [5.0, 4.0, 0.0], [0.0, 9.0, 1.0]], np.float32)
    assert best_heads(scores, 3) == [1, 1, 1]
    scores[1, 1] = 0.0  # now 2 as the head of 0 is cheapest, but 2 is below 1: a longer cycle, which is broken too
    assert best_heads(scores, 3) == [0, 0, 1]


def test_heads_of_random_scores_are_trees() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 7, 20):
        for _ in range(20):
            heads = best_heads(rng.normal(size=(count + 2, count + 2)).astype(np.float32), count)[:count]
            for token in range(count):
                for _ in range(count):
                    token = heads[token]
                assert heads[token] == token


def test_a_vector_depends_on_its_neighbours_only() -> None:
    """The reach of the convolutions is the sum of their dilations; padding changes nothing."""
    network, reach = tagger(), sum(DILATIONS)
    rows = np.array([[network.features("dog")] * 30])
    other = rows.copy()
    other[0, 20] = network.features("running")
    there = np.ones((1, 30), bool)
    change = np.abs(encode(network.weights, rows, there) - encode(network.weights, other, there)).max(-1)[0]
    assert np.flatnonzero(change > 1e-6).tolist() == list(range(20 - reach, 20 + reach + 1))
    short = encode(network.weights, rows[:, :9], there[:, :9])
    padded = encode(network.weights, rows[:, :12], np.arange(12)[None] < 9)
    np.testing.assert_allclose(padded[:, :9], short, atol=1e-5)
    assert not padded[:, 9:].any()


def test_scores_of_heads_by_hand() -> None:
    """Score (i, j) = relu(x_i B) P relu(x_j A) + the bias of the distance j - i, cut at REACH; no head elsewhere."""
    far = np.arange(2 * REACH + 1, dtype=np.float32)
    one = np.eye(1, dtype=np.float32)
    weights = {"below": 2 * one, "above": 3 * one, "pair": one, "below.bias": np.zeros(1), "above.bias": np.zeros(1)}
    weights |= {"distance": np.zeros((1, len(far)), np.float32), "distance.bias": far}
    x = np.array([[[1.0], [-1.0], [2.0]]], np.float32)
    found = head_scores(weights, x, np.array([[True, True, False]]))[0]
    assert found[:, :2].tolist() == [[6 + REACH, REACH + 1], [REACH - 1, REACH], [12 + REACH - 2, REACH - 1]]
    assert (found[:, 2] < -1e8).all()


# Agreement with spaCy -------------------------------------------------------------------------------------------------


def test_phrases_are_those_of_spacy() -> None:
    """Captions of drawn scenes are in no training text of the network; nine in ten phrases are equal here."""
    pytest.importorskip("spacy")
    from deixis.data.scenes import make_scenes
    from deixis.language.spacy_parse import spacy_parse

    texts = sorted({caption.text for sample in make_scenes(40, seed=5).samples for caption in sample.captions})
    equal = total = 0
    for ours, theirs in zip(parse(texts), spacy_parse(texts, cache=False, processes=1, quiet=True), strict=True):
        a, b = ({(phrase.start, phrase.end) for phrase in visible_phrases(p)} for p in (ours, theirs))
        equal, total = equal + 2 * len(a & b), total + len(a) + len(b)
    assert total > 200
    assert equal > 0.9 * total
