"""How sure a captioner is: how much of its sentence it owes to the photograph.

A captioner always says something, and its favourite sentences are likely whatever it sees, so the probability of a
sentence alone says little. What the photograph adds to it says more: the sentence's log-probability, less the one that
the same sentence has when there is nothing to see.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from deixis.device import device_of, to_device
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_ragged, pad_regions
from deixis.methods.updown.decode import force_decode
from deixis.methods.updown.model import Captioner
from deixis.types import GroundedCaption
from deixis.vision.eyes import Eyes

SURE = 0.65
"""Nats a word, for the captioner of the package. Below it lies a tenth of the validation photographs, whose captions
are much worse than the others', and most blank images, screens and drawings that were tried
(``experiments/flickr8k-entities/confidence.txt``). It was raised from .6 when a judge came to
choose the sentences, after a wrong one about a photograph of the demo had passed."""


class Confidence:
    """A captioner's own judge; it looks with the captioner's eyes, or with ``eyes`` that see the same."""

    def __init__(self, captioner: Captioner, eyes: Eyes | None = None) -> None:
        self.captioner = captioner
        extractor = (eyes or captioner.eyes).extractor
        self._nothing = pad_regions([extractor.extract(image, boxes=[[0, 0, *image.size]]) for image in blanks()])

    def gains(self, captions: Sequence[GroundedCaption]) -> list[float]:
        """By how much the photograph makes each of its captions likelier than nothing to see does, in nats a word.

        Of the kinds of nothing the one counts under which the caption is likeliest.
        """
        spoken = [caption for caption in captions if caption.words and caption.logprob is not None]
        blind = iter(self._blind(spoken))
        return [
            float("-inf")
            if caption.logprob is None or not caption.words
            else (caption.logprob - next(blind)) / (len(caption.words) + 1)
            for caption in captions
        ]

    @torch.inference_mode()
    def _blind(self, captions: Sequence[GroundedCaption]) -> list[float]:
        """The log-probability of each caption where there is nothing to see."""
        if not captions:
            return []
        decoder, generation, vocabulary = self.captioner.decoder, self.captioner.generation, self.captioner.vocabulary
        sentences = [vocabulary.encode(caption.words) for caption in captions]
        # a sentence of the greatest length was cut off before its end: its own probability does not count the end
        sentences = [ids[:-1] if len(ids) - 2 == generation.max_words else ids for ids in sentences]
        device = device_of(decoder)
        ids = pad_ragged([sentences] * len(blanks()), Vocabulary.pad).to(device)  # [blanks, captions, T + 1]
        encoded = decoder.encode_regions(to_device(self._nothing, device))
        scores = force_decode(decoder, encoded, ids, generation).scores  # [blanks, captions]
        return [float(value) for value in scores.amax(0)]


def blanks() -> list[Image.Image]:
    """Nothing to see: even grey, and noise. Narrow, because they are then quick to look at."""
    noise = np.random.default_rng(0).integers(0, 256, (40, 320, 3), dtype=np.uint8)
    return [Image.new("RGB", (320, 40), "#808080"), Image.fromarray(noise)]
