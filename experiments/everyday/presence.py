"""Presence of phrases: area under the ROC curve for each kind of absent phrase, and a reliability table.

    python presence.py DATA STORE [DATA STORE ...] --grounder MODEL

Present phrases are those of the captions of validation photographs. Absent phrases are those of the next photograph
("other"), and hard negatives (deixis.language.negatives). The reliability table has, for each tenth of the probability,
the share of phrases that are present; both groups have the same weight.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tyro

from deixis.calibration import auc
from deixis.data import load
from deixis.data.descriptions import caption_descriptions
from deixis.language.negatives import CoOccurrence, hard_negatives
from deixis.language.queries import phrase_queries
from deixis.pipelines.models import DEFAULT_GROUNDER, load_grounder
from deixis.vision.store import FeatureStore


def texts(root: Path, store: FeatureStore) -> Iterator[tuple[str, list[str], dict[str, list[str]]]]:
    """Yield each image with its phrases and its absent phrases by kind."""
    samples = [sample for sample in load(root, "val") if sample.image_id in store]
    descriptions = {image: found for image, found in caption_descriptions(samples).items() if found}
    words = {image: {word for one in found for word in one.words} for image, found in descriptions.items()}
    phrases = {
        image: list(dict.fromkeys(text for one in found for text in one.texts()))
        for image, found in descriptions.items()
    }
    together = CoOccurrence.count(list(words.values()))
    images = list(phrases)
    for turn, (image, other) in enumerate(zip(images, images[1:] + images[:1], strict=True)):
        absent = defaultdict(list)
        absent["other"] = [text for text in phrases[other] if text.split()[-1] not in words[image]]
        for phrase in phrases[image]:
            for kind, text in hard_negatives(phrase, words[image], turn):
                absent[kind].append(text)
        likely = together.likeliest(words[image])
        absent["co-occurrence"] = [] if likely is None else [f"a {likely}"]
        yield image, phrases[image], absent


def main(places: tyro.conf.Positional[tuple[Path, ...]], grounder: str = DEFAULT_GROUNDER, limit: int = 10**9) -> None:
    """Print one JSON line for each data set.

    Args:
        places: data sets, each followed by its feature store.
        grounder: phrase grounder, by name or folder.
        limit: use only this many photographs of each data set.
    """
    model = load_grounder(grounder, "cpu")
    for root, place in zip(places[::2], places[1::2], strict=True):
        store = FeatureStore(place)
        found: dict[str, list[float]] = defaultdict(list)
        for number, (image, present, absent) in enumerate(texts(root, store)):
            if number == limit:
                break
            (encoded,) = model.encode([store[image]])
            asked = [("present", text) for text in present]
            asked += [(kind, text) for kind, several in absent.items() for text in several]
            groundings = model.ground(encoded, phrase_queries([text for _, text in asked]))
            for (kind, _), one in zip(asked, groundings, strict=True):
                found[kind].append(one.score)
        kinds = {kind: auc(found["present"], scores) for kind, scores in found.items() if kind != "present"}
        result = {
            "data": root.name,
            "grounder": model.name,
            "phrases": {kind: len(scores) for kind, scores in found.items()},
            "auc": {kind: round(value, 4) for kind, value in kinds.items()},
            "reliability": reliability(found),
        }
        print(json.dumps(result))


def reliability(found: dict[str, list[float]]) -> list[tuple[float, float]]:
    """Return the share of present phrases, and the weight of the bin, for each tenth of the probability."""
    present = np.array(found["present"])
    absent = np.concatenate([scores for kind, scores in found.items() if kind != "present"])
    edges = np.linspace(0, 1, 11)
    right, wrong = (np.histogram(scores, edges)[0] / len(scores) for scores in (present, absent))
    total = right + wrong
    shares = np.divide(right, total, out=np.full(10, np.nan), where=total > 0)
    return [(round(float(share), 3), round(float(weight / 2), 3)) for share, weight in zip(shares, total, strict=True)]


if __name__ == "__main__":
    tyro.cli(main)
