"""Compare rules that select a box from a fusion model's heat map, on the validation split.

    python experiments/flickr8k-entities/boxes.py DATA STORE RUN [--proposals STORE]

STORE has the feature grids of RUN and boxes of a detector; the store of --proposals has other boxes of the same
photographs. Prints the best rules of a grid, the rule of the package (localize/heat_rules.py), AMC's rule, and the rule
of the package with votes and with near duplicates merged.

The validation split has no boxes for phrases that name several objects. Their truth is the box around all objects of
that name that a detector finds (detections-coco80.json.gz of the data). The output is kept in boxes.txt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import torch
import tyro

from deixis import boxes as geometry
from deixis.data import Dataset, load
from deixis.data.triplets import caption_triplets, read_detections
from deixis.language.queries import phrase_queries
from deixis.language.spacy_parse import spacy_parse
from deixis.localize.alpha import rank_boxes
from deixis.localize.class_names import class_probabilities, detector_classes
from deixis.localize.heat_rules import DETECTOR_RULES, PROPOSAL_RULES, HeatRule
from deixis.localize.votes import votes
from deixis.methods.albef.model import AlbefGrounder
from deixis.metrics.phrases import FLICKR30K, PhraseReference, overlaps
from deixis.metrics.references import phrase_references
from deixis.pipelines.models import load_grounder
from deixis.types import HeatMap, Regions
from deixis.vision.backbone import imagenet_classes
from deixis.vision.store import FeatureStore

FLOORS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
AREA_POWERS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
SCORE_POWERS = (0.0, 0.1, 0.2, 0.3, 0.4)
CLASS_POWERS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)


@dataclass(frozen=True, eq=False)
class Photograph:
    """The phrases of a photograph, their heat maps, and the boxes to select from."""

    phrases: list[PhraseReference]
    maps: np.ndarray  # [P, rows, columns]
    regions: Regions

    def box_scores(self, rule: HeatRule) -> np.ndarray:
        """Return the score of each box by the rule ``[P, N]``."""
        return rule.scores(self.maps, self.regions, self.class_probs)

    @cached_property
    def class_probs(self) -> np.ndarray:
        """Probability that each box shows the head noun of each phrase ``[P, N]``."""
        parses = spacy_parse([p.phrase for p in self.phrases], quiet=True)
        lemmas = [parsed.phrase(0, len(parsed)).lemma for parsed in parses]
        if self.regions.labels is None:
            return np.ones((len(lemmas), len(self.regions)))
        classes = detector_classes(self.regions.labels, imagenet_classes())
        return class_probabilities(lemmas, self.regions.labels, classes)


def heat_of(references: Sequence[PhraseReference], store: FeatureStore, grounder: AlbefGrounder) -> list[Photograph]:
    """Return the photographs of the phrases with their heat maps and the boxes of the store."""
    by_image: dict[str, list[PhraseReference]] = defaultdict(list)
    for reference in references:
        by_image[reference.image].append(reference)
    found = []
    for image, phrases in by_image.items():
        (encoded,) = grounder.encode([store[image]])
        groundings = grounder.ground(encoded, phrase_queries([one.phrase for one in phrases]), "threshold")
        maps = np.stack([one.heat.grid for one in groundings if one.heat is not None])
        found.append(Photograph(phrases, maps, store[image]))
    return found


def plural_references(data: Path, dataset: Dataset) -> list[PhraseReference]:
    """Return phrases that name several objects of which a detector finds at least two."""
    detections = read_detections(data / "detections-coco80.json.gz", 0.4)
    found = []
    for sample in dataset:
        parses = spacy_parse([caption.text for caption in sample.captions], quiet=True)
        boxes = defaultdict(list)
        for triplet in caption_triplets(sample, parses, detections.get(sample.image_id, ())):
            boxes[triplet.text].append(triplet.box)
        for text, parsed in zip(boxes, spacy_parse(list(boxes), quiet=True), strict=True):
            if parsed.phrase(0, len(parsed)).plural and len(boxes[text]) > 1:
                name = f"{sample.image_id} {text}"
                found.append(PhraseReference(name, sample.image_id, text, np.array(boxes[text]), sample.image_size()))
    return found


def scores(photographs: list[Photograph], boxes: Iterator[np.ndarray]) -> tuple[float, float]:
    """Return accuracy and mean IoU of one box for each phrase; ``boxes`` yields ``[P, 4]`` for each photograph."""
    phrases = [phrase for one in photographs for phrase in one.phrases]
    iou = overlaps(phrases, np.concatenate(list(boxes)), FLICKR30K)
    return float(FLICKR30K.right(iou).mean()), float(iou.mean())


def by_rule(one: Photograph, rule: HeatRule) -> np.ndarray:
    """Return the boxes with the highest score."""
    return one.regions.boxes[one.box_scores(rule).argmax(1)]


def by_votes(one: Photograph, rule: HeatRule, power: int) -> np.ndarray:
    """Return the boxes with the most votes; a box votes with its score to the given power."""
    weights = one.box_scores(rule) ** power
    weights = torch.from_numpy(weights / weights.sum(1, keepdims=True))
    boxes = torch.from_numpy(np.asarray(one.regions.boxes, dtype=np.float64))
    return one.regions.boxes[votes(boxes, weights).argmax(1).numpy()]


def merged(one: Photograph, rule: HeatRule, min_iou: float) -> np.ndarray:
    """Return the mean, weighted by score, of the best box and all boxes with at least this IoU with it."""
    scored, boxes = one.box_scores(rule), np.asarray(one.regions.boxes, dtype=np.float64)
    weights = scored * (geometry.iou(boxes, boxes)[scored.argmax(1)] >= min_iou)
    return weights @ boxes / weights.sum(1, keepdims=True)


def by_amc(one: Photograph) -> np.ndarray:
    """Return the boxes by AMC's rule."""
    heats = [HeatMap(grid, one.regions.size) for grid in one.maps]
    return np.stack([one.regions.boxes[rank_boxes(heat, one.regions.boxes)[0]] for heat in heats])


def print_scores(name: str, found: tuple[float, float]) -> None:
    """Print one line."""
    print(f"{name:46} accuracy {100 * found[0]:.1f}  mean IoU {100 * found[1]:.1f}", flush=True)


def compare(photographs: list[Photograph], ours: HeatRule, score_powers: Sequence[float]) -> None:
    """Print the table of one kind of phrases and proposals."""

    def score_rule(rule: HeatRule) -> tuple[float, float]:
        return scores(photographs, (by_rule(one, rule) for one in photographs))

    grid = [HeatRule(*values, ours.class_power) for values in product(FLOORS, AREA_POWERS, score_powers)]
    found = {rule: score_rule(rule) for rule in grid}
    for power in score_powers:
        best = max((rule for rule in grid if rule.score_power == power), key=lambda rule: found[rule])
        print_scores(f"best with score^{power}: floor {best.floor} area^{best.area_power}", found[best])
    powers = f"area^{ours.area_power} score^{ours.score_power} class^{ours.class_power}"
    print_scores(f"ours: floor {ours.floor} {powers}", found[ours])
    around = [100 * found[rule][0] for rule in grid if are_neighbours(rule, ours)]
    print(f"{f'its {len(around)} neighbours in the grid':46} accuracy {min(around):.1f} to {max(around):.1f}")
    if ours.class_power:
        for power in CLASS_POWERS:
            print_scores(f"ours, class^{power}", score_rule(replace(ours, class_power=power)))
    print_scores("AMC's rule", scores(photographs, map(by_amc, photographs)))
    for sharp in (1, 2, 4, 8):
        found_by_votes = scores(photographs, (by_votes(one, ours, sharp) for one in photographs))
        print_scores(f"ours, votes by score^{sharp}", found_by_votes)
    for least in (0.6, 0.7, 0.8, 0.9):
        print_scores(
            f"ours, merged from IoU {least}", scores(photographs, (merged(p, ours, least) for p in photographs))
        )


def are_neighbours(one: HeatRule, other: HeatRule) -> bool:
    """Return whether two rules of the grid differ by one step in one value."""
    names = ("floor", "area_power", "score_power")
    steps = [abs(getattr(one, name) - getattr(other, name)) / 0.1 for name in names]
    return round(sum(steps)) == 1


def part(photographs: list[Photograph], known: bool) -> list[Photograph]:
    """Return the phrases whose head noun is a class of the detector, or the other phrases."""
    found = []
    for one in photographs:
        kept = [i for i, probs in enumerate(one.class_probs) if bool((probs < 1).any()) == known]
        if kept:
            found.append(Photograph([one.phrases[i] for i in kept], one.maps[kept], one.regions))
    return found


def main(
    data: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    run: tyro.conf.Positional[str],
    proposals: Path | None = None,
    limit: int | None = None,
) -> None:
    """Print a table for each kind of phrases, with a detector's boxes and with other proposals.

    Args:
        data: the data set.
        store: features of its validation split with grids and boxes of a detector.
        run: a fusion model, by name or folder.
        proposals: a store with other boxes of the same photographs.
        limit: use only this many photographs.
    """
    torch.set_num_threads(1)
    grounder = load_grounder(run, "cpu")
    if not isinstance(grounder, AlbefGrounder):
        raise SystemExit(f"{run} has no heat rules. Give a fusion model (albef, amc).")
    dataset = load(data, "val")
    dataset = replace(dataset, samples=dataset.samples[:limit])
    single = heat_of(phrase_references(dataset), FeatureStore(store), grounder)
    plural = heat_of(plural_references(data, dataset), FeatureStore(store), grounder)
    tables = [
        ("one object of a known class, detector", part(single, True), DETECTOR_RULES.known, SCORE_POWERS),
        ("one other object, detector", part(single, False), DETECTOR_RULES.other, SCORE_POWERS),
        ("several objects, detector", plural, DETECTOR_RULES.plural, SCORE_POWERS),
    ]
    if proposals is not None:
        boxes = FeatureStore(proposals)
        for kind, found, rule in (
            ("one object, other proposals", single, PROPOSAL_RULES.other),
            ("several objects, other proposals", plural, PROPOSAL_RULES.plural),
        ):
            moved = [replace(one, regions=boxes[one.phrases[0].image]) for one in found]
            tables.append((kind, moved, rule, SCORE_POWERS[:1]))
    for kind, photographs, rule, score_powers in tables:
        print(f"{grounder.name}: {sum(len(one.phrases) for one in photographs)} validation phrases: {kind}")
        if photographs:
            compare(photographs, rule, score_powers)


if __name__ == "__main__":
    tyro.cli(main)
