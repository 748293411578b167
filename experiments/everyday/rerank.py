"""Choose the rerank weights of a grounder on validation captions.

    python rerank.py DATA STORE [DATA STORE ...] [--model MODEL] [--grounder GROUNDER] [--step 3]

Every third validation photograph gets a beam of 16 sentences. Prints CIDEr and BLEU-4 of each data set for weights of
the evidence of the sentence, of its weakest noun phrase, and of the objects that the detector is certain of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import tyro

from deixis.data import Sample, load
from deixis.language.queries import visible_phrases
from deixis.language.sentence import repeats_word
from deixis.metrics.captions import caption_scores
from deixis.pipelines.models import DEFAULT_CAPTIONER, DEFAULT_GROUNDER, Models, load_models
from deixis.pipelines.photo import Photo, parse_batch
from deixis.pipelines.rerank import MIN_PROB, REPEAT_PENALTY, named_share
from deixis.pipelines.second_look import seen_classes
from deixis.types import Regions
from deixis.vision.store import FeatureStore

BEAM = 16
CAPTION, PHRASE, SEEN = (0.0, 2.0, 4.0, 6.0, 8.0, 12.0), (0.0, 0.2, 0.4), (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Beam:
    """The sentences of a photograph with the terms of their rerank score."""

    texts: list[str]
    terms: np.ndarray  # [4, S]: own score, evidence, log-probability of the weakest phrase, share of certain objects

    def best(self, weights: tuple[float, ...]) -> str:
        """Return the sentence with the highest score."""
        return self.texts[int((np.array([1.0, *weights]) @ self.terms).argmax())]


def beam_of(sample: Sample, regions: Regions, models: Models) -> Beam:
    """Decode a photograph and compute the terms."""
    photo = Photo(Path(sample.image_id), sample.image_id, open_image=sample.open, regions=regions)
    (found,) = models.captioner.decode([regions], BEAM)
    parse_batch([photo], [[one.words for one in found]])
    parses = [photo.parse(one.words) for one in found]
    grounder = models.grounder
    assert grounder is not None
    encoded = photo.encoded(grounder)
    evidence = grounder.evidence(encoded, [parsed.phrase(0, len(parsed)) for parsed in parses])
    weakest = []
    for parsed in parses:
        phrases = visible_phrases(parsed)
        probs = [grounder.phrase_probability(e) for e in grounder.evidence(encoded, phrases)] if phrases else [0.0]
        weakest.append(math.log(max(min(probs), MIN_PROB)))
    seen = seen_classes(photo, models.extractor)
    shares = [named_share(one, photo, seen) if seen else 0.0 for one in found]
    own = [one.score - REPEAT_PENALTY * repeats_word(one.words) for one in found]
    return Beam([" ".join(one.words) for one in found], np.array([own, evidence, weakest, shares]))


def main(
    places: tyro.conf.Positional[tuple[Path, ...]],
    model: str = DEFAULT_CAPTIONER,
    grounder: str = DEFAULT_GROUNDER,
    step: int = 3,
) -> None:
    """Print one line for each set of weights.

    Args:
        places: data sets, each followed by its feature store.
        model: captioner, by name or folder.
        grounder: phrase grounder, by name or folder.
        step: use every n-th photograph.
    """
    models = load_models(model, grounder, "cpu")
    sets = []
    for root, place in zip(places[::2], places[1::2], strict=True):
        store, samples = FeatureStore(place), list(load(root, "val"))[::step]
        beams = {one.image_id: beam_of(one, store[one.image_id], models) for one in samples}
        sets.append((root.name, beams, {one.image_id: [caption.text for caption in one.captions] for one in samples}))
        print(f"{root.name}: {len(samples)} photographs")
    print("caption  phrase  seen  CIDEr and BLEU-4 of each data set, in per cent")
    for weights in product(CAPTION, PHRASE, SEEN):
        line = []
        for _, beams, references in sets:
            found, _ = caption_scores({i: b.best(weights) for i, b in beams.items()}, references, ("CIDEr", "BLEU"))
            line += [f"{100 * one.value:.1f}" for one in found if one.name in ("CIDEr", "BLEU-4")]
        print("  ".join([*(f"{weight:g}" for weight in weights), *line]))


if __name__ == "__main__":
    tyro.cli(main)
