"""Information gain: positive where the photograph makes the sentence likelier, about zero for blank images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.methods.updown.decode import GenerationConfig
from deixis.pipelines.information_gain import MIN_GAIN, information_gains
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.types import AttentionTrace, Candidate
from deixis.vision.blank import BlankRegions, blank_images
from small_models import noise, small_captioner


@pytest.mark.parametrize(
    "generation", [GenerationConfig(max_words=4, min_words=4), GenerationConfig(max_words=12, min_words=2)]
)
def test_caption_of_a_blank_image_has_no_gain(generation: GenerationConfig) -> None:
    """A caption of a blank image is as likely there as it was generated with."""
    captioner = small_captioner(generation)
    blank = BlankRegions(BlankRegions.extract(captioner.extractor).regions[:1])
    candidates = [candidate for (candidate,) in captioner.decode([blank.regions[0], blank.regions[0]])]
    assert information_gains(candidates, captioner, blank) == pytest.approx([0, 0], abs=1e-5)


def test_gain_is_against_the_likeliest_blank_image() -> None:
    captioner = small_captioner(GenerationConfig(max_words=12, min_words=2))
    ((candidate,),) = captioner.decode([captioner.extractor.extract(noise(5, (80, 60)))])
    blank = BlankRegions.extract(captioner.extractor)
    assert len(blank.regions) == len(blank_images())
    network, without_image = captioner.network, []
    for regions in blank.regions:
        encoded = network.encode_regions(pad_regions([regions]))
        weights = network.step_weights(2)
        state, word, total = network.initial_state(encoded, 1), Vocabulary.bos, 0.0
        for t, said in enumerate([*map(captioner.vocabulary.id, candidate.words), Vocabulary.eos]):
            if t < captioner.generation.max_words:
                state, logprobs, _ = network.step(encoded, torch.tensor([[word]]), state, weights)
                total += float(logprobs.detach().exp().mean(-2).log()[0, 0, said])
                word = said
        without_image.append(total)
    assert candidate.logprob is not None
    expected = (candidate.logprob - max(without_image)) / (len(candidate.words) + 1)
    assert information_gains([candidate], captioner, blank) == pytest.approx([expected], abs=1e-4)


@pytest.mark.parametrize(("words", "logprob"), [((), -1.0), (("a", "cat"), None)])
def test_captions_without_words_and_templates_have_no_gain(words: tuple[str, ...], logprob: float | None) -> None:
    captioner = small_captioner()
    trace = AttentionTrace(np.zeros((0, 1, 1), np.float32), np.ones((0, 1), bool), np.zeros((1, 4)), (1, 1))
    candidate = Candidate(words, logprob, 0.0, trace)
    (other,) = captioner.decode([captioner.extractor.extract(noise(5))])[0]
    gains = information_gains([candidate, other], captioner, BlankRegions.extract(captioner.extractor))
    assert gains[0] == float("-inf")
    assert gains[1:] == information_gains([other], captioner, BlankRegions.extract(captioner.extractor))


def test_default_captioner_has_a_low_gain_where_there_is_no_photograph(shipped: Models) -> None:
    screen = Image.new("RGB", (320, 200), "white")
    pen = ImageDraw.Draw(screen)
    for y in range(10, 190, 12):
        pen.text((10, y), "def caption(photo): return words", fill="#222222")
    assert shipped.captioner.ood is not None
    assert shipped.captioner.ood.is_ood(Photo(screen).regions(shipped.extractor))  # its gain is not low: it is a sign
    images = [Image.new("RGB", (64, 48), "white"), Image.new("RGB", (64, 48), "black"), noise()]
    beams = shipped.captioner.decode([Photo(image).regions(shipped.extractor) for image in images])
    assert all(beam[0].words for beam in beams)
    assert max(information_gains([beam[0] for beam in beams], shipped.captioner, shipped.blank)) < MIN_GAIN


def test_kept_blank_regions_are_those_of_the_extractor(shipped: Models) -> None:
    """The file in the model's folder saves the extraction of blank images, and has the same features."""
    assert shipped.captioner.blank is not None
    extracted = BlankRegions.extract(shipped.captioner.extractor)
    for kept, made in zip(shipped.captioner.blank.regions, extracted.regions, strict=True):
        assert kept.extractor == made.extractor
        np.testing.assert_allclose(
            kept.features.astype(np.float32), made.features.astype(np.float32), rtol=0.01, atol=0.01
        )
