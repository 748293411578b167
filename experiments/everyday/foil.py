"""Score a phrase grounder on FOIL captions: true sentence against foil, true word against foil word.

    python foil.py path/to/coco-256/check [--grounder MODEL]

Prints the share of pairs whose true caption has the higher match score, the same for the phrases in which the captions
differ, and the area under the ROC curve of the phrase probabilities.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import tyro

from deixis.calibration import auc
from deixis.language.queries import visible_phrases
from deixis.language.spacy_parse import spacy_parse
from deixis.pipelines.models import DEFAULT_GROUNDER, load_grounder
from deixis.pipelines.photo import Photo
from deixis.types import Phrase


def main(check: tyro.conf.Positional[Path], grounder: str = DEFAULT_GROUNDER) -> None:
    """Print one JSON line.

    Args:
        check: folder with foil.jsonl and its images.
        grounder: phrase grounder, by name or folder.
    """
    model = load_grounder(grounder, "cpu")
    rows = [json.loads(line) for line in (check / "foil.jsonl").read_text(encoding="utf-8").splitlines()]
    sentences, words, present, absent = [], [], [], []
    for row in rows:
        photo = Photo(check / "images" / row["image"])
        true, foil = spacy_parse([row["caption"], row["foil"]], quiet=True)
        texts = [true.phrase(0, len(true)), foil.phrase(0, len(foil))]
        texts = [replace(text, text=row[key]) for text, key in zip(texts, ("caption", "foil"), strict=True)]
        a, b = model.evidence(photo.encoded(model), texts)
        sentences.append(a > b)
        pair = swapped(visible_phrases(true), visible_phrases(foil))
        if pair is not None:
            scores = model.evidence(photo.encoded(model), pair)
            words.append(scores[0] > scores[1])
            present.append(model.phrase_probability(scores[0]))
            absent.append(model.phrase_probability(scores[1]))
    result = {
        "grounder": model.name,
        "pairs": len(rows),
        "true_sentence_above_foil": float(np.mean(sentences)),
        "phrases": len(words),
        "true_phrase_above_foil": float(np.mean(words)),
        "auc": auc(present, absent),
    }
    print(json.dumps(result))


def swapped(true: tuple[Phrase, ...], foil: tuple[Phrase, ...]) -> tuple[Phrase, Phrase] | None:
    """Return the only two phrases in which the captions differ; None if there are several or none."""
    if len(true) != len(foil):
        return None
    pairs = [(a, b) for a, b in zip(true, foil, strict=True) if a.text != b.text]
    return pairs[0] if len(pairs) == 1 else None


if __name__ == "__main__":
    tyro.cli(main)
