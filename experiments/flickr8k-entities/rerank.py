"""Compare rerank weights and beam widths on the validation split, and reranking and placing on the test split.

    python experiments/flickr8k-entities/rerank.py deixis-8k deixis-8k-grounder --data DATA --features STORE

The outputs are kept: rerank.txt (deixis-8k) and rerank-pairs.txt (deixis-8k-pairs). "whole" is the weight of the
sentence's evidence, "least" that of the log-probability of its weakest noun phrase; see deixis.pipelines.rerank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
import tyro

from deixis.data import Sample
from deixis.evaluation.split import SplitPhotos
from deixis.language.queries import visible_phrases
from deixis.language.sentence import repeats_word
from deixis.metrics.bootstrap import paired_bootstrap
from deixis.metrics.captions import caption_scores
from deixis.metrics.evaluate import Options, evaluate
from deixis.metrics.formats import Predictions
from deixis.metrics.references import Reference, read_reference
from deixis.metrics.score import Score
from deixis.pipelines.caption import CaptionOptions, caption_stream
from deixis.pipelines.models import Models, PhraseGrounder, load_models
from deixis.pipelines.photo import Photo, parse_batch
from deixis.pipelines.rerank import MIN_PROB, REPEAT_PENALTY
from deixis.types import GroundedCaption, RerankWeights
from deixis.vision.store import FeatureStore

WIDTHS = (8, 12, 16, 24)
PHRASE_WEIGHTS = (0.0, 0.4, 0.8, 1.2, 1.6)
RARE = 0.3  # probability below which a phrase counts as hardly found
SHOWN = ("CIDEr", "BLEU-4", "F1_all", "F1_loc", "F1_loc_per_sent")
METRICS = ("CIDEr", "BLEU", "F1_all", "F1_loc", "F1_all_per_sent", "F1_loc_per_sent")
SYSTEMS = {
    "alone": CaptionOptions(rerank="none", place="vote", checks=()),
    "placed": CaptionOptions(rerank="none", checks=()),
    "reranked": CaptionOptions(place="vote", checks=()),
    "reranked and placed": CaptionOptions(checks=()),
}


@dataclass(frozen=True, eq=False)
class ScoredBeam:
    """The candidates of a photograph with the three terms of their rerank score, ``[S]`` each."""

    words: list[tuple[str, ...]]
    own: np.ndarray  # length-normalised log-probability; a repeated word has the penalty
    caption: np.ndarray  # evidence of the sentence
    weakest: np.ndarray  # log-probability of the weakest noun phrase

    def best(self, weights: RerankWeights) -> int:
        """Return the index of the candidate with the highest score."""
        return int((self.own + weights.caption * self.caption + weights.weakest_phrase * self.weakest).argmax())


def score_beam(photo: Photo, models: Models, grounder: PhraseGrounder, width: int) -> ScoredBeam:
    """Decode a photograph and score its candidates with the grounder."""
    (beam,) = models.captioner.decode([photo.regions(models.extractor)], width)
    words = [candidate.words for candidate in beam]
    parse_batch([photo], [words])
    parses = [photo.parse(each) for each in words]
    phrases = [visible_phrases(parsed) for parsed in parses]
    asked = [*(parsed.phrase(0, len(parsed)) for parsed in parses), *(phrase for each in phrases for phrase in each)]
    evidence = iter(grounder.evidence(photo.encoded(grounder), asked))
    captions = [next(evidence) for _ in parses]
    weakest = [min((grounder.phrase_probability(next(evidence)) for _ in each), default=0.0) for each in phrases]
    own = [candidate.score - REPEAT_PENALTY * repeats_word(candidate.words) for candidate in beam]
    return ScoredBeam(words, np.array(own), np.array(captions), np.log(np.maximum(weakest, MIN_PROB)))


def weights_to_try(chosen: RerankWeights) -> list[RerankWeights]:
    """Return a grid of weights around the chosen ones; a matcher has no weight of the weakest phrase."""
    captions = [factor * chosen.caption for factor in (0.0, 0.5, 1.0, 1.5, 2.0)]
    return [RerankWeights(*pair) for pair in product(captions, PHRASE_WEIGHTS if chosen.weakest_phrase else (0.0,))]


def scores_of(beams: Mapping[str, ScoredBeam], samples: Sequence[Sample], weights: RerankWeights) -> str:
    """Return CIDEr and BLEU-4 of the selected captions, and how many have a phrase that is hardly found."""
    selected = {image: beam.best(weights) for image, beam in beams.items()}
    references = {sample.image_id: [caption.tokens for caption in sample.captions] for sample in samples}
    hypotheses = {image: beam.words[selected[image]] for image, beam in beams.items()}
    scores, _ = caption_scores(hypotheses, references, metrics=("CIDEr", "BLEU"))
    values = {score.name: score.value for score in scores}
    rare = sum(beam.weakest[selected[image]] < math.log(RARE) for image, beam in beams.items())
    return f"CIDEr {values['CIDEr']:.4f}, BLEU-4 {values['BLEU-4']:.4f}; {rare} with a phrase below {RARE}"


def compare_weights(models: Models, grounder: PhraseGrounder, samples: Sequence[Sample], store: FeatureStore) -> None:
    """Print one line for each beam width and pair of weights, on the validation split."""
    chosen = grounder.rerank_weights
    if chosen is None:
        raise SystemExit(f"{grounder.name} cannot rerank: it has no rerank weights.")
    photos = SplitPhotos(samples, store)
    print(f"{models.captioner.name} reranked by {grounder.name}: {len(photos)} validation photographs")
    for width in WIDTHS:
        beams = {image: score_beam(photo, models, grounder, width) for image, photo in photos.items()}
        for weights in weights_to_try(chosen):
            mark = " (chosen)" if weights == chosen else ""
            line = f"beam {width:>2}, whole {weights.caption:4.1f}, least {weights.weakest_phrase:.1f}"
            print(f"{line}: {scores_of(beams, samples, weights)}{mark}", flush=True)


def compare_systems(models: Models, reference: Reference, photos: SplitPhotos) -> None:
    """Print scores with and without reranking and placing, and differences with intervals, on the test split."""
    captions: dict[str, dict[str, GroundedCaption]] = {}
    scores: dict[str, dict[str, Score]] = {}
    for name, options in SYSTEMS.items():
        results = caption_stream(photos.values(), models, options)
        captions[name] = {image: result.caption for image, result in zip(photos, results, strict=True)}
        predictions = Predictions(Path(models.captioner.name), "deixis", captions[name])
        found = evaluate(predictions, reference, Options(metrics=METRICS, missing="skip", quiet=True))
        scores[name] = {score.name: score for score in found.scores if score.name in SHOWN}
    changed = sum(captions["alone"][image].words != captions["reranked"][image].words for image in photos)
    print(f"{len(photos)} test photographs; reranking changes {changed} sentences")
    for name, found_scores in scores.items():
        print(f"{name:19}", ", ".join(f"{score} {found_scores[score].value:.4f}" for score in SHOWN))
    for a, b in (("placed", "alone"), ("reranked", "alone"), ("reranked and placed", "placed")):
        for one in paired_bootstrap(scores[b], scores[a]):
            low, high = one.difference_interval
            print(f"{a} against {b}: {one.name} {one.difference:+.4f} ({low:+.4f} to {high:+.4f}), p {one.p:.4f}")


def main(
    captioner: tyro.conf.Positional[str],
    grounder: tyro.conf.Positional[str],
    data: Path,
    features: Path,
    limit: int | None = None,
) -> None:
    """Print the comparisons of both splits.

    Args:
        captioner: a captioner, by name or folder.
        grounder: a grounder that can rerank, by name or folder.
        data: the data set.
        features: features of its validation and test splits.
        limit: use only this many photographs of each split.
    """
    torch.set_num_threads(1)
    models, store = load_models(captioner, grounder, "cpu"), FeatureStore(features)
    assert models.grounder is not None
    compare_weights(models, models.grounder, read_reference(data, "val").samples[:limit], store)
    reference = read_reference(data, "test")
    compare_systems(models, reference, SplitPhotos(reference.samples[:limit], store))


if __name__ == "__main__":
    tyro.cli(main)
