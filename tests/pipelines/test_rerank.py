"""Reranking: the scores that a grounder adds to the candidates of a beam, and which candidate is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deixis.calibration import Calibration
from deixis.language.vocabulary import Vocabulary
from deixis.methods.albef.model import MIN_PHRASE_WEIGHT, PAIR_WEIGHT, AlbefGrounder
from deixis.methods.scan.model import COSINE_WEIGHT
from deixis.methods.updown.decode import GenerationConfig
from deixis.pipelines.caption import CaptionOptions, caption, reranks
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.pipelines.rerank import MIN_PROB, SEEN_WEIGHT, match_scores, named_share, rank, rerank
from deixis.types import AttentionTrace, Candidate, Phrase, RerankWeights
from small_models import noise, small_captioner, small_matcher

VOCABULARY = Vocabulary.build([["a", "man", "dog", "red", "bike", "in", "front", "of", "the", "house", "runs"]] * 5, 1)
GENERATION = GenerationConfig(beam=3, rerank_beam=5, max_words=6, length_power=0.7)
TRACE = AttentionTrace(np.zeros((1, 1, 1), np.float32), np.ones((1, 1), bool), np.zeros((1, 4)), (9, 9))


def candidates(*sentences: str) -> list[Candidate]:
    return [Candidate(tuple(text.split()), -1.0, -1.0, TRACE) for text in sentences]


class FakeGrounder:
    """Has a given evidence for every text, and records the texts it was asked for."""

    name, hash, extractor = "fake", "", None

    def __init__(self, evidence: dict[str, float], weights: RerankWeights) -> None:
        self.found, self.rerank_weights = evidence, weights
        self.asked: list[list[str]] = []

    def encode(self, photos: Sequence[Any]) -> list[Any]:
        return list(photos)

    def evidence(self, _: Any, phrases: Sequence[Phrase], parses: Any = None) -> list[float]:
        self.asked.append([phrase.text for phrase in phrases])
        return [self.found[phrase.text] for phrase in phrases]

    def phrase_probability(self, evidence: float) -> float:
        return Calibration(1.0, 0.0)(evidence)  # the logistic function


def scores(grounder: FakeGrounder, *sentences: str) -> list[float]:
    return match_scores(candidates(*sentences), Photo(noise()), grounder)  # type: ignore[arg-type]


def test_a_candidate_is_scored_by_its_sentence_and_its_weakest_phrase() -> None:
    sentences = ["a man in front of a house", "a dog runs"]
    evidence = {sentences[0]: 0.7, sentences[1]: 0.5, "a man": 2.0, "a house": -1.0, "a dog": 1.0}
    grounder = FakeGrounder(evidence, RerankWeights(8.0, 1.2))
    house, dog = -math.log(1 + math.e), -math.log(1 + math.exp(-1))
    assert scores(grounder, *sentences) == pytest.approx([8 * 0.7 + 1.2 * house, 8 * 0.5 + 1.2 * dog])
    assert grounder.asked == [[*sentences, "a man", "a house", "a dog"]]  # "front" is no object; one call for all


def test_a_sentence_without_noun_phrases_has_the_least_probability() -> None:
    grounder = FakeGrounder({"in front of": 0.5}, RerankWeights(1.0, 1.0))
    assert scores(grounder, "in front of") == pytest.approx([0.5 + math.log(MIN_PROB)])


def test_phrases_are_not_scored_where_they_have_no_weight() -> None:
    grounder = FakeGrounder({"a dog runs": 0.5}, RerankWeights(2.0))
    assert scores(grounder, "a dog runs") == [1.0]
    assert grounder.asked == [["a dog runs"]]


def test_candidates_that_repeat_a_word_come_last_unless_allowed() -> None:
    beam = candidates("a dog and a dog", "a man runs")
    beam[0] = replace(beam[0], score=0.0)
    photo = Photo(noise())
    assert rerank(beam, photo, None) is beam[0]
    assert rerank(beam, photo, None, allow_repeats=False) is beam[1]
    assert rerank(beam[:1], photo, None, allow_repeats=False) is beam[0]
    evidence = {" ".join(one.words): 2.0 * (one is beam[1]) for one in beam}
    grounder = FakeGrounder(evidence, RerankWeights(1.0))
    assert rerank(beam, photo, grounder) is beam[1]  # type: ignore[arg-type]
    assert rerank(beam[:1], photo, grounder) is beam[0]  # type: ignore[arg-type]
    assert len(grounder.asked) == 1  # a single candidate is not scored


def test_the_wider_beam_is_reranked_and_the_match_scores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    models = Models(small_captioner(GENERATION, VOCABULARY), small_matcher(VOCABULARY))
    photo = Photo(noise())
    (offered,) = models.captioner.decode([photo.regions(models.extractor)], width=5)
    texts = [" ".join(one.words) for one in offered]
    asked: list[list[str]] = []
    preferred = texts[3]

    def fake_scores(beam: Sequence[Candidate], *_: Any) -> list[float]:
        asked.append([" ".join(one.words) for one in beam])
        return [5.0 if text == preferred else 0.0 for text in asked[-1]]

    monkeypatch.setattr("deixis.pipelines.rerank.match_scores", fake_scores)
    options = CaptionOptions(checks=())
    (alone,) = caption([photo], Models(models.captioner), options)
    assert " ".join(alone.caption.words) in texts[:3]
    assert asked == []
    (chosen,) = caption([photo], models, options)
    assert sorted(asked[0]) == sorted(texts)
    assert len(asked) == 1
    assert " ".join(chosen.caption.words) == preferred
    assert chosen.caption.logprob == pytest.approx(offered[3].logprob)
    preferred = "none of them"
    (chosen,) = caption([photo], models, options)
    assert " ".join(chosen.caption.words) == texts[0]


def test_a_beam_of_one_is_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    single = replace(GENERATION, beam=1, rerank_beam=0)
    models = Models(small_captioner(single, VOCABULARY), small_matcher(VOCABULARY))
    monkeypatch.setattr("deixis.pipelines.rerank.match_scores", lambda *_: pytest.fail("there is one sentence"))
    assert reranks(models, CaptionOptions())
    caption([Photo(noise())], models, CaptionOptions(checks=()))


def test_rerank_none_does_not_ask_the_grounder(monkeypatch: pytest.MonkeyPatch) -> None:
    models = Models(small_captioner(GENERATION, VOCABULARY), small_matcher(VOCABULARY))
    monkeypatch.setattr("deixis.pipelines.rerank.match_scores", lambda *_: pytest.fail("reranked"))
    options = CaptionOptions(rerank="none", checks=())
    (found,) = caption([Photo(noise())], models, options)
    (alone,) = caption([Photo(noise())], Models(models.captioner), options)
    assert found.caption.words == alone.caption.words
    assert found.caption.logprob == alone.caption.logprob


@pytest.mark.parametrize("aggregation", ["mean", "logsumexp"])
def test_a_matcher_reranks_by_its_mean_cosine(aggregation: str) -> None:
    matcher = small_matcher(VOCABULARY, aggregation=aggregation)
    models = Models(small_captioner(GENERATION, VOCABULARY), matcher)
    assert models.extractor is matcher.extractor
    assert reranks(models, CaptionOptions()) == (aggregation == "mean")
    if aggregation != "mean":
        assert matcher.rerank_weights is None
        return
    photo, sentences = Photo(noise()), ["a man runs", "a red bike"]
    expected = COSINE_WEIGHT * matcher.scores([photo.regions(matcher.extractor)], sentences)[0]
    assert match_scores(candidates(*sentences), photo, matcher) == pytest.approx(expected.tolist(), abs=1e-6)


def test_a_grounder_with_another_extractor_does_not_rerank(shipped: Models) -> None:
    captioner = small_captioner(GENERATION, VOCABULARY)
    models = Models(captioner, shipped.grounder)
    assert not reranks(models, CaptionOptions())
    assert models.extractor is captioner.extractor


def test_a_fusion_model_reranks_if_it_is_calibrated(shipped: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    grounder = shipped.grounder
    assert isinstance(grounder, AlbefGrounder)
    assert grounder.rerank_weights == RerankWeights(PAIR_WEIGHT, MIN_PHRASE_WEIGHT)
    assert reranks(shipped, CaptionOptions())
    monkeypatch.setattr(grounder, "presence", None)
    assert grounder.rerank_weights is None
    assert not reranks(shipped, CaptionOptions())


def test_a_sentence_that_names_what_is_seen_ranks_higher() -> None:
    """A man is a person; half of the classes give half of the weight."""
    photo = Photo(noise())
    beam = candidates("the house", "a man runs", "a man in front of a bike")
    assert [named_share(one, photo, ("person", "bicycle")) for one in beam] == [0, 0.5, 1]
    assert rank(beam, photo, None, seen=("person", "bicycle")) == beam[::-1]
    assert rank(beam, photo, None) == beam
    far = [replace(beam[0], score=SEEN_WEIGHT), *beam[1:]]  # better by more than the weight
    assert rank(far, photo, None, seen=("person",))[0] is far[0]
