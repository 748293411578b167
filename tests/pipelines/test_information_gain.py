"""Confidence: what a photograph adds to its sentence, and what is no photograph adds nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from deixis.pipelines.load import load_captioner
from PIL import Image, ImageDraw

from deixis import GroundedCaption
from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.model import Captioner, Style
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.pipelines import information_gain as confidence
from deixis.pipelines.information_gain import SURE, Confidence, blanks
from deixis.vision.extractor import named_extractor


def small(style: Style) -> Captioner:
    torch.manual_seed(0)
    eyes = named_extractor("tiny", "grid")
    vocabulary = Vocabulary.build([["a", "dog", "runs", "ball", "and", "red"]], minimum=1)
    width = eyes.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    decoder = Decoder(DecoderConfig(len(vocabulary), width, words=8, hidden=12, attention=6, branches=2))
    return Captioner(decoder, vocabulary, eyes.to_json(), "small", style)


@pytest.mark.parametrize("style", [Style(max_words=4, min_words=4), Style(max_words=12, min_words=2)])
def test_nothing_to_see_adds_nothing(style: Style, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a blank image is as likely there as it is said to be: the gain is zero."""
    grey = blanks()[0]
    monkeypatch.setattr(confidence, "blanks", lambda: [grey])
    captioner = small(style)
    seen = captioner.eyes.extractor.extract(grey, boxes=[[0, 0, *grey.size]])
    assert Confidence(captioner).gains(list(captioner.captions([seen, seen]))) == pytest.approx([0, 0], abs=1e-5)


def test_the_kind_of_nothing_counts_that_explains_most() -> None:
    captioner = small(Style(max_words=12, min_words=2))
    photo = Image.fromarray(np.random.default_rng(5).integers(0, 90, (60, 80, 3), dtype=np.uint8))
    caption = captioner.caption(photo)
    assert caption.logprob is not None
    judge = Confidence(captioner)
    (gain,) = judge.gains([caption])
    blind = []
    for blank in blanks():
        seen = captioner.eyes.extractor.extract(blank, boxes=[[0, 0, *blank.size]])
        encoded = captioner.decoder.encode_regions(confidence.pad_regions([seen]))
        weights = captioner.decoder.weights(2)
        state, word, total = captioner.decoder.start(encoded, 1), Vocabulary.bos, 0.0
        for t, said in enumerate([*map(captioner.vocabulary.id, caption.words), Vocabulary.eos]):
            if t < captioner.style.max_words:
                state, logprobs, _ = captioner.decoder.step(encoded, torch.tensor([[word]]), state, weights)
                total += float(logprobs.detach().exp().mean(-2).log()[0, 0, said])
                word = said
        blind.append(total)
    assert gain == pytest.approx((caption.logprob - max(blind)) / (len(caption.words) + 1), abs=1e-4)


def test_a_caption_without_words_is_never_sure() -> None:
    assert Confidence(small(Style())).gains([GroundedCaption((), logprob=-1.0)]) == [float("-inf")]
    assert Confidence(small(Style())).gains([]) == []


def test_the_model_of_the_package_is_not_sure_of_what_is_no_photograph() -> None:
    captioner = load_captioner()
    screen = Image.new("RGB", (320, 200), "white")
    pen = ImageDraw.Draw(screen)
    for y in range(10, 190, 12):
        pen.text((10, y), "def caption(photo): return words", fill="#222222")
    found = captioner.caption([Image.new("RGB", (64, 48), "white"), Image.new("RGB", (64, 48), "black"), screen])
    assert all(gain < SURE for gain in Confidence(captioner).gains(found))
    assert all(caption.words for caption in found)
