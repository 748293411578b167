"""A caption keeps its words and gets the places that a finder gives to their phrases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from deixis.pipelines.load import PhraseGrounder
from deixis.vision.eyes import Eyes, Photo

from deixis import GroundedCaption, Grounding, HeatMap, Phrase, Regions
from deixis.language.parse import parse_words
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import Placing, ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.pipelines.place import phrase_around, reground, together, understands

WORDS = ("a", "man", "holds", "a", "tennis", "ball", "near", "a", "red", "bike")
NOUNS = (1, 4, 5, 9)
PHRASES = ["a man", "a tennis ball", "a red bike"]


def said(words: Sequence[str] = WORDS, nouns: Sequence[int] = NOUNS) -> GroundedCaption:
    groundings = tuple(
        Grounding(words[t], (0, 0, 1, 1), 0.9, t, t + 1, parts=((0, 0, 1, 1), (0, 0, 1, 1))) for t in nouns
    )
    return GroundedCaption(tuple(words), groundings, -2.5, "i.jpg", 100, 80, "captioner", "A man ...")


class Widths:
    """Finds a phrase of n letters in a box that is n pixels wide, and remembers what it was asked for."""

    name, eyes = "widths", None

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []  # the sentence, "" where there was none; the phrases

    def ground(
        self, photo: Photo, wanted: str | Sequence[str], phrases: Sequence[Phrase] | None = None
    ) -> list[Grounding]:
        if isinstance(wanted, str):
            assert phrases is not None
            words = wanted.split()
            texts = [" ".join(words[phrase.start : phrase.end]) for phrase in phrases]
        else:
            texts = list(wanted)
        self.asked.append((wanted if isinstance(wanted, str) else "", texts))
        heat = HeatMap(np.ones((2, 2)), (100, 80))
        return [
            Grounding(text, (0, 0, len(text), 10), len(text) / 100, 0, 2, point=(len(text), 5), heat=heat)
            for text in texts
        ]


def test_nouns_get_the_places_of_their_phrases() -> None:
    finder, before = Widths(), said()
    after = reground(finder, "i.jpg", before)
    assert finder.asked == [(" ".join(WORDS), PHRASES)]  # all at once, each once, in their sentence
    assert [(g.text, g.start, g.end) for g in after.groundings] == [(g.text, g.start, g.end) for g in before.groundings]
    assert [g.box for g in after.groundings] == [(0, 0, n, 10) for n in (5, 13, 13, 10)]
    assert [g.score for g in after.groundings] == [0.05, 0.13, 0.13, 0.1]
    assert [g.pointing() for g in after.groundings] == [(n, 5) for n in (5, 13, 13, 10)]
    assert all(g.parts == () and g.heat is None for g in after.groundings)
    assert after.model == "captioner, placed by widths" == together("captioner", finder)
    kept = ("words", "caption", "logprob", "image", "width", "height")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert GroundedCaption.from_json(after.to_json()) == after


def test_a_sentence_without_nouns_asks_for_nothing() -> None:
    finder = Widths()
    after = reground(finder, "i.jpg", said(("running",), ()))
    assert (after.groundings, after.model, finder.asked) == ((), "captioner, placed by widths", [])


def test_words_that_would_not_be_read_as_they_were_said_are_asked_for_without_their_sentence() -> None:
    finder = Widths()
    after = reground(finder, "i.jpg", said(("a", "dog's", "red", "ball"), (3,)))  # written, it has five words
    ((sentence, phrases),) = finder.asked
    assert sentence == ""
    assert phrases[0].endswith("red ball")
    assert after.groundings[0].box == (0, 0, len(phrases[0]), 10)


def test_a_word_outside_all_phrases_is_its_own() -> None:
    (grammar,) = parse_words([WORDS])
    assert phrase_around(grammar, 8, 9).text == "a red bike"
    assert phrase_around(grammar, 2, 3) == Phrase("holds", 2, 3, head="holds")
    assert phrase_around(grammar, 1, 3).text == "man holds"  # in no phrase as a whole


def test_a_matcher_places_the_nouns_of_a_captioner() -> None:
    """The boxes are those that it finds for the phrases of the sentence."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.build([WORDS], minimum=1)
    matcher = ScanNet(ScanConfig(len(vocabulary), 6, words=8, embed=12, count="nouns"))
    torch.nn.init.normal_(matcher.embed.weight)
    aligner = ScanGrounder(
        matcher, vocabulary, {"name": "eyes", "description": {}}, "matcher", placing=Placing("attention")
    )
    corners = np.random.default_rng(0).uniform(0, 40, (12, 2, 2))
    boxes = np.concatenate([corners[:, 0], corners[:, 0] + 1 + corners[:, 1]], 1).astype(np.float32)
    features = np.random.default_rng(1).normal(size=(12, 6)).astype(np.float32)
    regions = Regions(boxes, features, (100, 80), extractor="eyes")
    after = reground(aligner, regions, said())
    man, ball, bike = aligner.ground(regions, " ".join(WORDS))
    found = [man, ball, ball, bike]
    assert [(g.box, g.score, g.point) for g in after.groundings] == [(g.box, g.score, g.point) for g in found]
    assert len({g.box for g in after.groundings}) > 1


@pytest.mark.parametrize(
    ("eyes", "grid", "alike"),
    [
        (Eyes({"name": "eyes", "description": {}}), None, True),
        (Eyes({"name": "others", "description": {}}), None, False),
        (Eyes({"name": "eyes", "description": {}}, grid=2), None, False),
        (Eyes({"name": "eyes", "description": {}}, grid=2), np.zeros((2, 2, 3)), True),
        (None, np.zeros((2, 2, 3)), False),
    ],
)
def test_who_can_use_the_regions_of_another(eyes: Eyes | None, grid: np.ndarray | None, alike: bool) -> None:
    finder: PhraseGrounder = Widths()
    finder.eyes = eyes  # type: ignore[misc]
    regions = Regions(np.zeros((1, 4)), np.zeros((1, 3)), (100, 80), grid=grid, extractor="eyes")
    assert understands(finder, regions) == alike
