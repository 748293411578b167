"""Attention of the nouns of a given sentence in captioners and matchers, and its picture."""

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.pipelines.photo import Photo
from deixis.pipelines.word_attention import attend_words
from deixis.show.panels import draw_word_attention
from small_models import noise, small_captioner, small_fusion, small_matcher

SENTENCE = "a red dog runs and a ball"


def test_a_captioner_attends_as_if_it_generated_the_sentence() -> None:
    captioner, photo = small_captioner(branches=2), Photo(noise())
    found = attend_words(photo, SENTENCE, captioner)
    assert found.words == ("dog", "ball")
    (parsed,) = parse([SENTENCE])
    ((candidate,),) = captioner.force_decode([photo.regions(captioner.extractor)], [[parsed.tokens]])
    expected = candidate.trace.attention[[2, 6]].mean(1)
    np.testing.assert_allclose(found.weights, expected / expected.sum(1, keepdims=True), rtol=1e-5)
    assert found.boxes.shape == (found.weights.shape[1], 4)


def test_a_matcher_attends_with_its_own_softmax() -> None:
    matcher, photo = small_matcher(), Photo(noise())
    found = attend_words(photo, SENTENCE, matcher)
    (parsed,) = parse([SENTENCE])
    (weights,), _ = matcher.align(photo.encoded(matcher), [parsed])
    np.testing.assert_allclose(found.weights, weights[[2, 6]], rtol=1e-5)
    np.testing.assert_allclose(found.weights.sum(1), 1, rtol=1e-6)


def test_sentences_without_nouns_and_models_without_words() -> None:
    with pytest.raises(DeixisError, match="no noun in"):
        attend_words(Photo(noise()), "they run and jump", small_matcher())
    fusion = small_fusion([SENTENCE], "fusion")
    with pytest.raises(DeixisError, match="fusion has no attention of words"):
        attend_words(Photo(noise()), SENTENCE, fusion)


def test_a_picture_has_a_row_for_each_model_and_the_weights_of_its_words() -> None:
    image = noise()
    boxes = np.array([[0, 0, 30, 20], [10, 10, 60, 40], [0, 0, 60, 40], [5, 5, 9, 9]], np.float32)
    weights = np.array([[0.1, 0.6, 0.25, 0.05], [0.7, 0.1, 0.1, 0.1]])
    rows = [("first", ("dog", "ball"), weights, boxes), ("second", ("dog", "ball"), weights[::-1], boxes)]
    svg = draw_word_attention(image, SENTENCE, rows, shown=2).to_svg()
    for text in ("first", "second", "dog:", "0.60,", "0.25", "ball:", "0.70,"):
        assert text in svg
    assert "0.05" not in svg
    one = draw_word_attention(image, SENTENCE, rows[:1])
    both = draw_word_attention(image, SENTENCE, rows)
    assert one.width == both.width
    assert both.height > 1.5 * one.height
