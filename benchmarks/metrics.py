"""How fast the metrics are, side by side with pycocoevalcap in the same run.

    python benchmarks/metrics.py            all of it, a minute or two
    python benchmarks/metrics.py --quick    without the larger corpora

Captions are made: words drawn from a Zipf distribution, so that n-grams repeat as they do in English. Times are CPU
seconds of this process, the best of a few runs; on a busy machine only the ratios mean something. Values are
compared before anything is timed. Exit code 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.cider.cider_scorer import CiderScorer
from pycocoevalcap.rouge.rouge import Rouge

from deixis.metrics.bleu import bleu
from deixis.metrics.bootstrap import paired_bootstrap
from deixis.metrics.captions import caption_scores
from deixis.metrics.cider import CiderD, cider, document_frequencies
from deixis.metrics.grounded_captions import ObjectWord, Sentence, grounding_scores
from deixis.metrics.retrieval import retrieval
from deixis.metrics.rouge import rouge_l

WORDS, CLASSES, REFERENCES, END = 8_000, 480, 5, 0
Ids = list[int]


class Made:
    """A seeded corpus: for each image one caption and five references, as word ids from 1 up."""

    def __init__(self, images: int, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.images = [str(number) for number in range(images)]
        chance = 1 / np.arange(1, WORDS + 1)
        lengths = np.maximum(5, self.generator.poisson(11, size=images * (1 + REFERENCES)))
        drawn = 1 + self.generator.choice(WORDS, p=chance / chance.sum(), size=lengths.sum())
        sentences = [part.tolist() for part in np.split(drawn, np.cumsum(lengths)[:-1])]
        self.caption: dict[str, Ids] = dict(zip(self.images, sentences, strict=False))
        rest = sentences[images:]
        self.references = {image: rest[REFERENCES * n : REFERENCES * (n + 1)] for n, image in enumerate(self.images)}

    def words(self) -> tuple[dict[str, list[str]], dict[str, list[list[str]]]]:
        """Captions and references as words."""
        name = "w{}".format
        return (
            {image: list(map(name, ids)) for image, ids in self.caption.items()},
            {image: [list(map(name, ids)) for ids in many] for image, many in self.references.items()},
        )

    def object_words(self) -> tuple[dict[str, list[Sentence]], dict[str, list[Sentence]]]:
        """References and predictions for the grounding evaluator: about three object words in each sentence."""
        chance = 1 / np.arange(1, CLASSES + 1)

        def sentence() -> Sentence:
            n = 1 + self.generator.integers(5)
            names = self.generator.choice(CLASSES, p=chance / chance.sum(), size=n, replace=False)
            corner = self.generator.uniform(0, 250, size=(n, 2))
            boxes = np.concatenate([corner, corner + self.generator.uniform(20, 250, size=(n, 2))], axis=1)
            rows = zip(names.tolist(), boxes.tolist(), strict=True)
            return Sentence(tuple(ObjectWord(f"c{c}", place, (tuple(box),)) for place, (c, box) in enumerate(rows)))

        references = {image: [sentence() for _ in range(REFERENCES)] for image in self.images}
        return references, {image: [sentence()] for image in self.images}


def joined(hypotheses: dict[str, list[str]], references: dict[str, list[list[str]]]) -> tuple[dict, dict]:
    """What pycocoevalcap takes: references and captions as strings."""
    theirs = {image: [" ".join(words) for words in many] for image, many in references.items()}
    return theirs, {image: [" ".join(words)] for image, words in hypotheses.items()}


def cpu(work: Callable[[], object], runs: int = 5) -> float:
    """CPU seconds of the fastest run."""
    best = math.inf
    for _ in range(runs):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


class Report:
    """Prints one line for each measurement, and remembers whether a target was missed."""

    def __init__(self) -> None:
        self.missed = False

    def versus(self, name: str, ours: float, theirs: float, target: float) -> None:
        """Ours against theirs; the target is how many times faster ours has to be."""
        ratio = theirs / ours
        self.missed |= ratio < target
        verdict = "met" if ratio >= target else "MISSED"
        print(
            f"{name:<44} {1e3 * ours:9.1f} ms {1e3 * theirs:9.1f} ms {ratio:7.1f} x   at least {target:g} x: {verdict}"
        )

    def under(self, name: str, ours: float, limit: float) -> None:
        """Ours against a limit in seconds."""
        self.missed |= ours >= limit
        verdict = "met" if ours < limit else "MISSED"
        print(f"{name:<44} {1e3 * ours:9.1f} ms {'':>24}under {limit:g} s: {verdict}")


def against_pycocoevalcap(report: Report) -> None:
    """Corpus metrics on 1,000 images with five references."""
    hypotheses, references = Made(1_000).words()
    theirs, mine = joined(hypotheses, references)
    np.testing.assert_allclose(cider(hypotheses, references).items, Cider().compute_score(theirs, mine)[1], atol=1e-9)
    np.testing.assert_allclose(rouge_l(hypotheses, references).items, Rouge().compute_score(theirs, mine)[1], atol=1e-9)
    published = Bleu(4).compute_score(theirs, mine, verbose=0)[0]
    np.testing.assert_allclose([score.value for score in bleu(hypotheses, references)], published, atol=1e-9)

    print(f"{'1,000 images, 5 references each':<44} {'deixis':>12} {'pycocoevalcap':>12}")
    pairs: list[tuple[str, Callable[[], object], Callable[[], object], float]] = [
        ("CIDEr", lambda: cider(hypotheses, references), lambda: Cider().compute_score(theirs, mine), 4),
        ("BLEU-1..4", lambda: bleu(hypotheses, references), lambda: Bleu(4).compute_score(theirs, mine, verbose=0), 1),
        ("ROUGE-L", lambda: rouge_l(hypotheses, references), lambda: Rouge().compute_score(theirs, mine), 1),
    ]
    for name, ours, published_way, target in pairs:
        report.versus(name, cpu(ours), cpu(published_way, runs=2), target)


def rewards(report: Report) -> None:
    """One self-critical step: five samples for each of 64 images of a training set of 5,000, as word ids."""
    made = Made(5_000)
    references = {image: [[*ids, END] for ids in many] for image, many in made.references.items()}
    frequencies = document_frequencies(references)
    scorer = CiderD(references, frequencies)
    images = [image for image in made.images[:64] for _ in range(5)]
    samples = [[*made.caption[made.images[number]], END] for number in range(len(images))]
    ids = np.zeros((len(samples), max(map(len, samples)) + 2), dtype=np.int64)
    for row, sample in zip(ids, samples, strict=True):
        row[: len(sample)] = sample

    cached: dict[tuple[str, ...], float] = {}
    for many in references.values():
        for ngram in {
            tuple(map(str, words[i : i + n])) for words in many for n in range(1, 5) for i in range(len(words) - n + 1)
        }:
            cached[ngram] = cached.get(ngram, 0.0) + 1

    class CachedScorer(CiderScorer):
        """As self-critical training uses it: document frequencies and their number of images are given."""

        ref_len = property(lambda self: math.log(len(references)), lambda self, value: None)

    strings = [" ".join(map(str, sample)) for sample in samples]
    reference_strings = {image: [" ".join(map(str, words)) for words in references[image]] for image in set(images)}

    def prepared() -> CachedScorer:
        step = CachedScorer()
        step.document_frequency.update(cached)
        return step

    def published(step: CachedScorer) -> list[float]:
        for string, image in zip(strings, images, strict=True):
            step += (string, reference_strings[image])
        return step.compute_cider()

    np.testing.assert_allclose(scorer.score_ids(ids, images), published(prepared()), atol=1e-9)
    print("\na step of self-critical training")
    steps = [prepared() for _ in range(3)]  # copying the cached table is not the scorer's fault: it is not timed
    theirs = cpu(lambda: published(steps.pop()), runs=len(steps))
    report.versus("CIDEr-D, 320 samples, cached references", cpu(lambda: scorer.score_ids(ids, images)), theirs, 10)


def other_evaluators(report: Report) -> None:
    """Grounding, retrieval and the bootstrap on 1,000 images."""
    made = Made(1_000)
    references, predictions = made.object_words()
    print("\n1,000 images")
    report.under("grounding evaluator, all F1 scores", cpu(lambda: grounding_scores(references, predictions)), 1)
    similarities = made.generator.normal(size=(1_000, 5_000)).astype(np.float32)
    print(
        f"{'retrieval, 1,000 x 5,000, both ways':<44} {1e3 * cpu(lambda: retrieval(similarities, made.images)):9.1f} ms"
    )
    systems = [
        {score.name: score for score in [*caption_scores(*corpus)[0], *grounding_scores(references, predictions)]}
        for corpus in (made.words(), made.words())
    ]
    seconds = cpu(lambda: paired_bootstrap(*systems), runs=1)
    print(f"{f'paired bootstrap, {len(systems[0])} metrics, 10,000 draws':<44} {1e3 * seconds:9.1f} ms")


def growth(sizes: Sequence[int]) -> None:
    """The cost of more images; linear cost doubles from column to column."""
    print(f"\n{'images':<24}" + "".join(f"{size:>18,}" for size in sizes))
    rows: dict[str, list[float]] = {}
    for size in sizes:
        made = Made(size)
        hypotheses, references = made.words()
        boxes, predictions = made.object_words()
        for name, work in {
            "CIDEr": lambda h=hypotheses, r=references: cider(h, r),
            "BLEU-1..4": lambda h=hypotheses, r=references: bleu(h, r),
            "ROUGE-L": lambda h=hypotheses, r=references: rouge_l(h, r),
            "grounding evaluator": lambda b=boxes, p=predictions: grounding_scores(b, p),
        }.items():
            rows.setdefault(name, []).append(cpu(work, runs=3))
    for name, seconds in rows.items():
        times = [
            f"{1e3 * now:.0f} ms" + (f" (x {now / was:.2f})" if was else "")
            for was, now in zip([0, *seconds], seconds, strict=False)
        ]
        print(f"{name:<24}" + "".join(f"{text:>18}" for text in times))


def main() -> int:
    """Run everything; 1 when a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the larger corpora")
    quick = parser.parse_args().quick
    report = Report()
    against_pycocoevalcap(report)
    rewards(report)
    other_evaluators(report)
    growth([1_000, 2_000] if quick else [1_000, 2_000, 4_000, 8_000])
    return int(report.missed)


if __name__ == "__main__":
    sys.exit(main())
