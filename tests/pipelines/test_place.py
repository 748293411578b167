"""Boxes of a caption's noun phrases: by the captioner's attention, or by a phrase grounder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from deixis import DeixisError, GroundedCaption, Grounding, HeatMap, Regions
from deixis.language.parse import parse_words
from deixis.language.queries import Query, caption_query, visible_phrases
from deixis.language.vocabulary import Vocabulary
from deixis.pipelines.caption import CaptionOptions, caption, finish
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.pipelines.place import place, place_rule
from deixis.types import AttentionTrace, Candidate
from deixis.vision.extractor import RegionExtractor, named_extractor
from small_models import noise, small_captioner, small_fusion, small_matcher

WORDS = ("a", "man", "holds", "a", "tennis", "ball", "near", "a", "red", "bike")
PHRASES = ["a man", "a tennis ball", "a red bike"]
SHOWN = [("man", 1, 2), ("tennis ball", 4, 6), ("red bike", 8, 10)]  # without the article
HEADS = [("man", 1), ("ball", 5), ("bike", 9)]
VOCABULARY = Vocabulary.build([WORDS], minimum=1)
BOXES = np.array([[0, 0, 10, 10], [10, 0, 40, 20], [5, 5, 60, 40], [30, 10, 50, 30]], np.float32)
REGIONS = Regions(BOXES, np.zeros((4, 16), np.float32), (60, 40), extractor=named_extractor("tiny", "grid").name)


def candidate(words: Sequence[str] = WORDS, branches: int = 1) -> Candidate:
    """A sentence; at word t all branches attend most to region t % 4."""
    attention = np.full((len(words), branches, len(BOXES)), 0.1, np.float32)
    for t in range(len(words)):
        attention[t, :, t % len(BOXES)] = 0.7
    trace = AttentionTrace(attention, np.ones((len(words), branches), bool), BOXES, (60, 40))
    return Candidate(tuple(words), -2.5, -2.5, trace)


class WidthGrounder:
    """Finds a phrase of n letters in a box that is n pixels wide, and records the queries."""

    name, hash, extractor, rerank_weights = "widths", "w1", None, None

    def __init__(self) -> None:
        self.queries: list[Query] = []

    def encode(self, photos: Sequence[Any]) -> list[Any]:
        return list(photos)

    def ground(self, photo: Any, queries: Sequence[Query], place: Any = None) -> list[Grounding]:
        self.queries += queries
        heat = HeatMap(np.ones((2, 2)), (60, 40))
        return [
            Grounding(p.text, (0, 0, len(p.text), 10), len(p.text) / 100, p.start, p.end, point=(2.0, 5.0), heat=heat)
            for query in queries
            for p in query.phrases
        ]


def placed(words: Sequence[str] = WORDS, heat: bool = False) -> tuple[GroundedCaption, WidthGrounder]:
    """A caption with boxes of the width grounder."""
    grounder = WidthGrounder()
    models = Models(small_captioner(), grounder)  # type: ignore[arg-type]
    options = CaptionOptions(rerank="none", checks=(), heat=heat)
    photo = Photo(noise(), "i.png", REGIONS)
    return finish(photo, candidate(words), math.inf, models, options).caption, grounder


# By a grounder ------------------------------------------------------------------------------------------------------


def test_noun_phrases_get_the_boxes_that_the_grounder_finds() -> None:
    found, grounder = placed()
    (query,) = grounder.queries  # all phrases at once, each once, in their sentence
    assert [phrase.text for phrase in query.phrases] == PHRASES
    assert query.parse.tokens == WORDS
    assert [(g.text, g.start, g.end) for g in found.groundings] == SHOWN
    widths = [len(phrase) for phrase in PHRASES]
    assert [g.box for g in found.groundings] == [(0, 0, n, 10) for n in widths]
    assert [g.score for g in found.groundings] == [n / 100 for n in widths]
    assert all(g.pointing() == (2.0, 5.0) for g in found.groundings)
    assert all(g.parts == () and g.heat is None for g in found.groundings)
    assert found.model == "small, placed by widths"
    assert (found.words, found.logprob) == (WORDS, -2.5)
    assert (found.image, found.width, found.height) == ("i.png", 60, 40)
    assert GroundedCaption.from_json(found.to_json()) == found


def test_head_words_have_the_boxes_of_their_phrases() -> None:
    found, _ = placed()
    assert [(g.text, g.start) for g in found.word_groundings] == HEADS
    assert [g.head for g in found.groundings] == [at for _, at in HEADS]
    assert [g.box for g in found.word_groundings] == [g.box for g in found.groundings]
    assert {g.pos for g in found.word_groundings} == {"NOUN"}
    assert found.nouns() == found.word_groundings


def test_heat_maps_are_kept_on_request() -> None:
    found, _ = placed(heat=True)
    assert all(g.heat is not None for g in found.groundings)
    assert all(g.heat is None for g in found.word_groundings)


def test_a_sentence_without_nouns_has_no_query() -> None:
    found, grounder = placed(("running",))
    assert (found.groundings, found.word_groundings, grounder.queries) == ((), (), [])
    assert found.model == "small, placed by widths"


def test_queries_have_the_generated_words_even_where_a_tokeniser_would_split_them() -> None:
    words = ("a", "dog's", "red", "ball")  # written text would have five tokens
    found, grounder = placed(words)
    (query,) = grounder.queries
    assert query.parse.tokens == words
    assert found.groundings[-1].end == 4
    assert found.groundings[-1].text.endswith("red ball")


def test_nouns_outside_all_phrases_are_phrases_too_and_directions_are_not() -> None:
    (parsed,) = parse_words([WORDS])
    assert [phrase.text for phrase in visible_phrases(parsed)] == PHRASES
    (parsed,) = parse_words([("a", "man", "in", "front", "of", "a", "house", "looks", "at", "the", "camera")])
    assert [phrase.text for phrase in visible_phrases(parsed)] == ["a man", "a house"]
    for words in (("dog", "runs"), ("running", "dogs", "outside"), ("a", "surfer", "surfing", "wave")):
        (parsed,) = parse_words([words])
        covered = {at for phrase in visible_phrases(parsed) for at in range(phrase.start, phrase.end)}
        assert {at for at, noun in enumerate(parsed.nouns) if noun} <= covered


def test_a_matcher_grounds_the_phrases_of_a_caption() -> None:
    """The boxes are those that it finds for the phrases of the sentence."""
    matcher, captioner = small_matcher(VOCABULARY), small_captioner()
    models = Models(captioner, matcher)
    rng = np.random.default_rng(1)
    boxes = np.sort(rng.uniform(0, 40, (12, 2, 2)), axis=1).reshape(12, 4).astype(np.float32)
    features = rng.normal(size=(12, 16)).astype(np.float32)
    regions = Regions(boxes, features, (60, 40), extractor=matcher.extractor.name)
    photo = Photo("x.png", regions=regions)
    found = finish(photo, candidate(), math.inf, models, CaptionOptions(rerank="none", checks=())).caption
    (parsed,) = parse_words([WORDS])
    expected = matcher.ground(matcher.encode([regions])[0], [caption_query(parsed)])
    assert [(g.box, g.score, g.point) for g in found.groundings] == [(g.box, g.score, g.point) for g in expected]
    assert len({g.box for g in found.groundings}) > 1


def test_points_lie_in_their_boxes() -> None:
    """Also where the heat map's maximum lies outside of the box."""
    photo = Photo(noise())
    for grounder in (small_matcher(VOCABULARY), small_fusion([" ".join(WORDS)], pixels=False)):
        models = Models(small_captioner(), grounder)
        for seed in range(5):
            photo = Photo(noise(seed))
            groundings, words = place(candidate(), photo, models, "grounder", heat=True)
            assert groundings
            for one in (*groundings, *words):
                x, y = one.pointing()
                assert one.box[0] <= x <= one.box[2]
                assert one.box[1] <= y <= one.box[3]


# By attention -------------------------------------------------------------------------------------------------------


def test_attention_grounds_a_phrase_by_its_head_and_every_noun_and_verb_by_itself() -> None:
    groundings, words = place(candidate(), Photo("x", regions=REGIONS), Models(small_captioner()), "attention")
    assert [(g.text, g.start, g.end) for g in groundings] == SHOWN
    assert [g.box for g in groundings] == [tuple(BOXES[at % 4]) for _, at in HEADS]
    assert [g.score for g in groundings] == pytest.approx([0.7] * 3)
    assert [(g.text, g.pos) for g in words] == [
        ("man", "NOUN"),
        ("holds", "VERB"),
        ("tennis", "NOUN"),
        ("ball", "NOUN"),
        ("bike", "NOUN"),
    ]
    assert [g.box for g in words] == [tuple(BOXES[g.start % 4]) for g in words]


def test_attention_unites_the_boxes_of_branches_and_votes_choose_one_region() -> None:
    sentence = candidate(branches=2)
    sentence.trace.attention[1, 1] = [0.0, 0.1, 0.1, 0.8]  # the second branch at "man"
    photo, models = Photo("x", regions=REGIONS), Models(small_captioner())
    (man, *_), _ = place(sentence, photo, models, "attention")
    assert man.box == (10, 0, 50, 30)
    assert set(man.parts) == {tuple(BOXES[1]), tuple(BOXES[3])}
    (man, *_), _ = place(sentence, photo, models, "vote")
    assert man.box in {tuple(box) for box in BOXES}


def test_a_template_keeps_its_own_boxes() -> None:
    own = Grounding("cup of coffee", (1, 1, 20, 20), 0.9, 1, 4, head=1)
    sentence = Candidate(("a", "cup", "of", "coffee"), None, 0.0, candidate().trace, (own,))
    groundings, words = place(sentence, Photo("x", regions=REGIONS), Models(small_captioner()), "attention")
    assert groundings == (own,)
    assert [(g.text, g.start, g.end, g.box) for g in words] == [("cup", 1, 2, own.box)]


# Rules --------------------------------------------------------------------------------------------------------------


def test_default_rule_is_the_grounder_else_that_of_the_captioner() -> None:
    captioner = small_captioner()
    assert place_rule(Models(captioner), None) == captioner.generation.place == "attention"
    assert place_rule(Models(captioner, small_matcher()), None) == "grounder"


@pytest.mark.parametrize("option", ["grounder", "heat", "alpha", "threshold"])
def test_rules_of_a_grounder_need_a_grounder(option: Any) -> None:
    with pytest.raises(DeixisError, match=f"--place {option} needs a grounder"):
        caption([Photo(noise())], Models(small_captioner()), CaptionOptions(place=option))


@pytest.mark.parametrize("option", ["heat", "alpha"])
def test_a_model_of_pixels_has_no_proposals_to_choose_from(option: Any) -> None:
    models = Models(small_captioner(), small_fusion([" ".join(WORDS)]))
    with pytest.raises(DeixisError, match=f"Its --place is threshold, not {option}"):
        caption([Photo(noise())], models, CaptionOptions(place=option))
    assert caption([Photo(noise())], models, CaptionOptions(place="threshold"))


@pytest.mark.parametrize("option", ["alpha", "threshold"])
def test_a_matcher_has_not_all_rules_of_heat_maps(option: Any) -> None:
    models = Models(small_captioner(), small_matcher())
    with pytest.raises(DeixisError, match=f"Its --place is attention or vote or heat, not {option}"):
        caption([Photo(noise())], models, CaptionOptions(place=option))


def test_a_wrong_rule_is_an_error_even_where_it_would_not_be_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template has boxes of its own, and a sentence without nouns needs none."""
    own = Grounding("cat", (1, 1, 20, 20), 0.9, 1, 2)
    template = Candidate(("a", "cat"), None, 0.0, candidate().trace, (own,))
    monkeypatch.setattr("deixis.pipelines.caption.run_checks", lambda *_: (template, ()))
    models = Models(small_captioner(), small_fusion([" ".join(WORDS)]))
    with pytest.raises(DeixisError, match="not alpha"):
        caption([Photo(noise())], models, CaptionOptions(place="alpha"))


# Regions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "needed", "grid", "accepted"),
    [
        ("own", 0, None, True),
        ("others", 0, None, False),
        ("own", 2, None, False),
        ("own", 2, np.zeros((2, 2, 3)), True),
        ("own", 0, np.zeros((2, 2, 3)), True),
    ],
)
def test_an_extractor_accepts_its_own_regions(name: str, needed: int, grid: np.ndarray | None, accepted: bool) -> None:
    regions = Regions(np.zeros((1, 4)), np.zeros((1, 3)), (100, 80), grid=grid, extractor="own")
    assert RegionExtractor({}, needed, name=name).accepts(regions) == accepted


def test_models_with_equal_extractors_share_regions_and_others_do_not() -> None:
    captioner = small_captioner()
    grid = small_fusion(["a dog"], pixels=False)
    shared = Models(captioner, grid)
    assert shared.shares_regions
    assert shared.extractor is grid.extractor  # it makes the grid too
    assert not Models(captioner, small_fusion(["a dog"])).shares_regions
    other = small_captioner(proposals="selective-search")
    assert not Models(other, grid).shares_regions
    assert Models(other, grid).extractor is other.extractor
