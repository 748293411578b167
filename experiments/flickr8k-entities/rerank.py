"""What a finder should count for when it judges a captioner's beam, and what that is worth.

    python experiments/flickr8k-entities/rerank.py CAPTIONER FINDER --data DIR --features STORE

Weights and widths on the validation split; then, on the test split, the captioner alone, with its nouns placed by the
finder, and with its beam judged too, as :mod:`deixis.pipelines.rerank` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import tyro
from deixis.pipelines.load import PhraseGrounder, load_captioner, load_finder

from deixis.data import Sample, load
from deixis.evaluation.evaluate import caption_images
from deixis.language.sentence import echoes
from deixis.layers.padding import pad_regions
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.decode import beam_search
from deixis.methods.updown.model import Captioner
from deixis.metrics.bootstrap import paired_bootstrap
from deixis.metrics.captions import caption_scores
from deixis.metrics.evaluate import Options, evaluate
from deixis.metrics.formats import Predictions
from deixis.metrics.references import read_reference
from deixis.metrics.score import Score
from deixis.pipelines import rerank as judging
from deixis.pipelines.place import reground
from deixis.pipelines.rerank import COSINE, LEAST, PAIR, assist
from deixis.types import GroundedCaption, Regions
from deixis.vision.store import FeatureStore

WIDTHS = (8, 12, 16, 24)
TOLD = ("CIDEr", "BLEU-4", "F1_all", "F1_loc", "F1_loc_per_sent")


@dataclass(frozen=True)
class Beam:
    """The sentences of an image: their words, and what speaks for each ``[S]``."""

    words: list[tuple[str, ...]]
    own: np.ndarray  # log-probability over the power of the length; far down where a word is said twice
    whole: np.ndarray  # what the finder makes of the sentence
    least: np.ndarray  # log-chance of the phrase that it finds least of

    def best(self, whole: float, least: float) -> int:
        """The sentence to take."""
        return int((self.own + whole * self.whole + least * self.least).argmax())


def main(captioner: tyro.conf.Positional[str], finder: tyro.conf.Positional[str], data: Path, features: Path) -> None:
    torch.set_num_threads(1)
    speaker, judge, store = load_captioner(captioner, "cpu"), load_finder(finder, "cpu"), FeatureStore(features)
    matcher = isinstance(judge, ScanGrounder)
    chosen = (COSINE, 0.0) if matcher else (PAIR, LEAST)
    samples = load(data, "val").samples
    print(f"{speaker.name} judged by {judge.name}: {len(samples)} validation photographs")
    for width in WIDTHS:
        beams = dict(read(speaker, judge, [s.image_id for s in samples], store, width))
        for whole in (0.0, chosen[0] / 2, chosen[0], chosen[0] * 1.5, chosen[0] * 2):
            for least in (0.0,) if matcher else (0.0, 0.4, 0.8, 1.2, 1.6):
                mark = " (chosen)" if (whole, least) == chosen else ""
                print(f"beam {width:>2}, whole {whole:4.1f}, least {least:.1f}: ", end="")
                print(told(beams, samples, whole, least) + mark, flush=True)
    test(speaker, judge, data, store)


@torch.no_grad()
def read(
    captioner: Captioner, finder: PhraseGrounder, ids: Sequence[str], store: Mapping[str, Regions], width: int
) -> Iterator[tuple[str, Beam]]:
    """The beam of each image, read by the finder."""
    power = captioner.generation.length_power
    for image in ids:
        regions = store[image]
        encoded = captioner.decoder.encode_regions(pad_regions([regions]))
        said = beam_search(captioner.decoder, encoded, replace(captioner.generation, beam=width))
        length = (said.words[0] != captioner.vocabulary.pad).sum(-1)
        words = [captioner.vocabulary.decode(row) for row in said.words[0].tolist()]
        twice = np.array([echoes(each) for each in words])
        own = (said.scores[0] / length**power).numpy() - 1e4 * twice
        yield image, Beam(words, own, *judged(finder, regions, [" ".join(each) for each in words]))


def judged(finder: PhraseGrounder, regions: Regions, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """What a finder makes of whole sentences, and the log-chance of the phrase found least (a matcher: 0)."""
    if isinstance(finder, ScanGrounder):
        return finder.scores([regions], texts)[0], np.zeros(len(texts))
    assert isinstance(finder, AlbefGrounder)
    assert finder.presence is not None
    whole, least = zip(*judging.read(finder, finder.presence, regions, texts), strict=True)
    return np.array(whole), np.array(least)


def told(beams: Mapping[str, Beam], samples: Sequence[Sample], whole: float, least: float) -> str:
    """CIDEr and BLEU-4 of the sentences that are taken, and how many of them name what is hardly found."""
    taken = {image: one.best(whole, least) for image, one in beams.items()}
    references = {sample.image_id: [caption.tokens for caption in sample.captions] for sample in samples}
    hypotheses = {image: one.words[taken[image]] for image, one in beams.items()}
    scores, _ = caption_scores(hypotheses, references, metrics=("CIDEr", "BLEU"))
    values = {score.name: score.value for score in scores}
    rare = sum(one.least[taken[image]] < np.log(0.3) for image, one in beams.items())
    return f"CIDEr {values['CIDEr']:.4f}, BLEU-4 {values['BLEU-4']:.4f}; {rare} name what has a chance below .3"


def test(captioner: Captioner, finder: PhraseGrounder, data: Path, store: Mapping[str, Regions]) -> None:
    """The captioner alone, placed, judged, and both; each difference with its interval."""
    reference = read_reference(data, "test")

    def scored(captions: Mapping[str, GroundedCaption]) -> dict[str, Score]:
        options = Options(metrics=("captions", "grounding"), missing="skip", quiet=True)
        result = evaluate(Predictions(Path(captioner.name), "deixis", dict(captions)), reference, options)
        return {score.name: score for score in result.scores if score.name in TOLD}

    def placed(captions: Mapping[str, GroundedCaption]) -> dict[str, GroundedCaption]:
        return {image: reground(finder, store[image], caption) for image, caption in captions.items()}

    own = caption_images(captioner, reference.samples, store)
    assist(captioner, finder)
    judged_ = caption_images(captioner, reference.samples, store)
    ways = {"alone": own, "placed": placed(own), "judged": judged_, "judged and placed": placed(judged_)}
    scores = {way: scored(captions) for way, captions in ways.items()}
    print(f"{len(own)} test photographs; {sum(own[i].words != judged_[i].words for i in own)} sentences are others")
    for way, found in scores.items():
        print(f"{way:18}", ", ".join(f"{name} {found[name].value:.4f}" for name in TOLD))
    for a, b in (("placed", "alone"), ("judged", "alone"), ("judged and placed", "placed")):
        for one in paired_bootstrap(scores[b], scores[a]):
            low, high = one.difference_interval
            print(f"{a} against {b}: {one.name} {one.difference:+.4f} ({low:+.4f} to {high:+.4f}), p {one.p:.4f}")


if __name__ == "__main__":
    tyro.cli(main)
