"""Compare beam widths and length powers of a captioner on the validation split.

    python experiments/flickr8k-entities/beams.py RUN --data DATA --features STORE

Boxes come from attention, by votes. The chosen values are in the captioner's ``GenerationConfig``. The output is kept
in beams.txt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import tyro

from deixis.evaluation.split import SplitPhotos
from deixis.language.sentence import repeats_word
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.train import Validation
from deixis.pipelines.caption import CaptionOptions, caption_stream
from deixis.pipelines.models import Models, load_captioner
from deixis.training.data import TrainingData
from deixis.vision.store import FeatureStore

TRIED = ((1, 0.0), (3, 0.7), (5, 0.0), (5, 0.5), (5, 0.7), (5, 1.0), (8, 0.7), (8, 0.9), (12, 0.7))
CHOSEN = (8, 0.7)  # also tried with sentences that repeat a word ranked last
SHOWN = ("CIDEr", "BLEU-4", "F1_loc")


def configurations(generation: GenerationConfig) -> Iterator[GenerationConfig]:
    """Yield the configurations to compare."""
    for width, power in TRIED:
        tried = replace(generation, beam=width, length_power=power, allow_repeated_words=True)
        yield tried
        if (width, power) == CHOSEN:
            yield replace(tried, allow_repeated_words=False)


def main(run: tyro.conf.Positional[str], data: Path, features: Path, limit: int | None = None) -> None:
    """Print one line of scores for each configuration.

    Args:
        run: a captioner, by name or folder.
        data: the data set.
        features: features of its validation split.
        limit: use only this many photographs.
    """
    torch.set_num_threads(1)
    captioner = load_captioner(run, "cpu")
    split = TrainingData.from_folder(data, FeatureStore(features))
    validation = Validation(replace(split, validation=split.validation[:limit]))
    photos = SplitPhotos(validation.data.validation, split.regions)
    print(f"{captioner.name}: {len(photos)} validation photographs")
    for generation in configurations(captioner.generation):
        captioner.generation = generation
        results = caption_stream(photos.values(), Models(captioner), CaptionOptions(place="vote", checks=()))
        captions = [result.caption for result in results]
        values = validation.scores(captions)
        scores = ", ".join(f"{name} {values[name]:.4f}" for name in SHOWN)
        repeated = sum(repeats_word(caption.words) for caption in captions)
        last = "" if generation.allow_repeated_words else ", repeated words last"
        print(f"beam {generation.beam:>2}, length power {generation.length_power}{last}: {scores}; ", end="")
        print(f"{repeated} captions repeat a word", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
