"""How wide to search for a sentence: the captioner's validation scores for several beams and powers of the length.

    python experiments/flickr8k-entities/beams.py RUN --data DIR --features STORE

Nothing of the test split is seen; what is chosen here goes into the model's style.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
import tyro
from deixis.pipelines.load import load_captioner

from deixis.language.sentence import echoes
from deixis.methods.updown.train import Validation
from deixis.training.data import TrainingData
from deixis.vision.store import FeatureStore

TRIED = ((1, 0.0), (3, 0.7), (5, 0.0), (5, 0.5), (5, 0.7), (5, 1.0), (8, 0.7), (8, 0.9), (12, 0.7))
CHOSEN = (8, 0.7)  # with this one, sentences that say no word twice are preferred too


def main(run: tyro.conf.Positional[Path], data: Path, features: Path) -> None:
    torch.set_num_threads(1)
    material = TrainingData.from_folder(data, FeatureStore(features), "train", "val")
    captioner, validation = load_captioner(str(run), "cpu"), Validation(material)
    ids = [sample.image_id for sample in material.validation]
    print(f"{captioner.name}: {len(ids)} validation photographs")
    for width, power in TRIED:
        for echoing in (True, False) if (width, power) == CHOSEN else (True,):
            generation = replace(captioner.generation, beam=width, length_power=power, place="vote")
            captioner.generation = replace(generation, allow_repeated_words=echoing)
            captions = list(captioner.captions([material.regions[i] for i in ids], ids))
            scores = validation.scores(captions)
            told = ", ".join(f"{name} {scores[name]:.4f}" for name in ("CIDEr", "BLEU-4", "F1_loc"))
            twice = sum(echoes(caption.words) for caption in captions)
            choice = "" if echoing else ", no word twice where there is a choice"
            print(
                f"beam {width:>2}, length to the power of {power}{choice}: {told}; {twice} say a word twice", flush=True
            )


if __name__ == "__main__":
    tyro.cli(main)
