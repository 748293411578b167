"""Which box a fusion model's heat map means: the rules of ``models/heat.py``, chosen on the validation split.

    python experiments/flickr8k-entities/boxes.py DATA STORE RUN [PROPOSALS]

STORE holds the grids that RUN looks at, and a detector's boxes. PROPOSALS is a store with other boxes of the same
photographs, whose scores are no detector's. Prints the best of the grid, the rule of the package, the published rule,
and the package's with votes and with near duplicates merged.

The validation boxes have no phrases of several things. For these the truth is the box around all that a detector finds
of what they name (detections-coco80.json.gz of the data).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import torch

from deixis import boxes as geometry
from deixis.data import load
from deixis.data.triplets import caption_triplets, read_detections
from deixis.language.number import several
from deixis.language.parse import parse
from deixis.localize.alpha import rank_boxes
from deixis.localize.class_names import class_probabilities, detector_classes
from deixis.localize.heat_rules import DETECTOR_RULES, PROPOSAL_RULES, HeatRule
from deixis.localize.votes import votes
from deixis.methods.albef.model import AlbefGrounder
from deixis.metrics.phrases import FLICKR30K, PhraseReference, overlaps
from deixis.metrics.references import phrase_references
from deixis.types import HeatMap, Regions
from deixis.vision.backbone import imagenet_classes
from deixis.vision.store import FeatureStore

FLOORS, AREAS, TRUSTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), (0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (0.0, 0.1, 0.2, 0.3, 0.4)
NAMES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)


@dataclass(frozen=True)
class Photograph:
    """The phrases of a photograph, their heat, and the boxes to choose from."""

    phrases: list[PhraseReference]
    maps: np.ndarray  # [P, rows, columns]
    regions: Regions

    def worth(self, rule: HeatRule) -> np.ndarray:
        """What the rule makes of each box ``[P, N]``."""
        return rule.scores(self.maps, self.regions, self.named)

    @cached_property
    def named(self) -> np.ndarray:
        """How likely each box is what each phrase names ``[P, N]``."""
        parses = parse([one.phrase for one in self.phrases], quiet=True)
        lemmas = [one.phrase(0, len(one)).lemma for one in parses]
        classes = detector_classes(self.regions.labels, imagenet_classes())
        return class_probabilities(lemmas, self.regions.labels, classes)


def look(references: Sequence[PhraseReference], store: FeatureStore, pointer: AlbefGrounder) -> list[Photograph]:
    """The photographs of the phrases, with the boxes of the store."""
    asked = defaultdict(list)
    for reference in references:
        asked[reference.image].append(reference)
    found = []
    for image, phrases in asked.items():
        heats = [one.heat for one in pointer.ground(store[image], [each.phrase for each in phrases], box="threshold")]
        found.append(Photograph(phrases, np.stack([heat.grid for heat in heats if heat is not None]), store[image]))
    return found


def of_several(data: Path) -> list[PhraseReference]:
    """Phrases of several things that a detector finds at least two of."""
    things, found = read_detections(data / "detections-coco80.json.gz", 0.4), []
    for sample in load(data, "val").samples:
        parses = parse([caption.text for caption in sample.captions], quiet=True)
        boxes = defaultdict(list)
        for triplet in caption_triplets(sample, parses, things.get(sample.image_id, ())):
            boxes[triplet.text].append(triplet.box)
        for text, grammar in zip(boxes, parse(list(boxes), quiet=True), strict=True):
            if several(grammar) and len(boxes[text]) > 1:
                name = f"{sample.image_id} {text}"
                found.append(PhraseReference(name, sample.image_id, text, np.array(boxes[text]), sample.image_size()))
    return found


def scores(photographs: list[Photograph], boxes: Iterator[np.ndarray]) -> tuple[float, float]:
    """Accuracy and mean IoU of one box for each phrase, ``[P, 4]`` of each photograph in turn."""
    phrases = [phrase for one in photographs for phrase in one.phrases]
    iou = overlaps(phrases, np.concatenate(list(boxes)), FLICKR30K)
    return float(FLICKR30K.right(iou).mean()), float(iou.mean())


def by_rule(one: Photograph, rule: HeatRule) -> np.ndarray:
    """The box that the rule chooses."""
    return one.regions.boxes[one.worth(rule).argmax(1)]


def by_votes(one: Photograph, rule: HeatRule, sharp: int) -> np.ndarray:
    """The box that all boxes vote for, by what they are worth to the rule to the power ``sharp``."""
    weight = one.worth(rule) ** sharp
    weight = torch.from_numpy(weight / weight.sum(1, keepdims=True))
    boxes = torch.from_numpy(np.asarray(one.regions.boxes, dtype=np.float64))
    return one.regions.boxes[votes(boxes, weight).argmax(1).numpy()]


def merged(one: Photograph, rule: HeatRule, least: float) -> np.ndarray:
    """The mean, by worth, of the rule's box and all that overlap with it by ``least``."""
    worth, boxes = one.worth(rule), np.asarray(one.regions.boxes, dtype=np.float64)
    near = geometry.iou(boxes, boxes)[worth.argmax(1)] >= least
    weight = worth * near
    return weight @ boxes / weight.sum(1, keepdims=True)


def published(one: Photograph) -> np.ndarray:
    """AMC's rule."""
    heats = [HeatMap(grid, one.regions.size) for grid in one.maps]
    return np.stack([one.regions.boxes[rank_boxes(heat, one.regions.boxes)[0]] for heat in heats])


def compare(photographs: list[Photograph], ours: HeatRule, trusts: tuple[float, ...]) -> None:
    """Print the table of one kind of proposals."""

    def tell(name: str, found: tuple[float, float]) -> None:
        print(f"{name:46} accuracy {100 * found[0]:.1f}  mean IoU {100 * found[1]:.1f}", flush=True)

    chosen = f"floor {ours.floor} area^{ours.area_power} score^{ours.score_power} name^{ours.class_power}"
    grid = [HeatRule(*values, ours.class_power) for values in product(FLOORS, AREAS, trusts)]
    found = {rule: scores(photographs, (by_rule(one, rule) for one in photographs)) for rule in grid}
    for trust in trusts:
        best = max((rule for rule in grid if rule.score_power == trust), key=lambda rule: found[rule])
        tell(f"best with score^{trust}: floor {best.floor} area^{best.area_power}", found[best])
    around = [rule for rule in grid if near(rule, ours)]
    low, high = (100 * pick(found[rule][0] for rule in around) for pick in (min, max))
    tell(f"ours: {chosen}", found[ours])
    print(f"{f'its {len(around)} neighbours in the grid':46} accuracy {low:.1f} to {high:.1f}")
    if ours.class_power:
        for name in NAMES:
            other = replace(ours, class_power=name)
            tell(f"ours, name^{name}", scores(photographs, (by_rule(one, other) for one in photographs)))
    tell("AMC's rule", scores(photographs, map(published, photographs)))
    for sharp in (1, 2, 4, 8):
        tell(f"ours, votes by worth^{sharp}", scores(photographs, (by_votes(one, ours, sharp) for one in photographs)))
    for least in (0.6, 0.7, 0.8, 0.9):
        tell(f"ours, merged from IoU {least}", scores(photographs, (merged(one, ours, least) for one in photographs)))


def near(one: HeatRule, other: HeatRule) -> bool:
    """Whether two rules of the grid differ by one step in one number."""
    names = ("floor", "area_power", "score_power")
    steps = [abs(getattr(one, name) - getattr(other, name)) / 0.1 for name in names]
    return round(sum(steps)) == 1


def part(photographs: list[Photograph], named: bool) -> list[Photograph]:
    """The phrases that a detector has a name for, or the others; photographs without such phrases go."""
    found = []
    for one in photographs:
        kept = [i for i, chances in enumerate(one.named) if bool((chances < 1).any()) == named]
        if kept:
            found.append(Photograph([one.phrases[i] for i in kept], one.maps[kept], one.regions))
    return found


def main(data: Path, store: Path, run: Path, proposals: Path | None) -> None:
    """Tables of one thing, with a name and without, and of several, for a detector's boxes and for other proposals."""
    torch.set_num_threads(1)
    pointer, grids = AlbefGrounder.from_pretrained(run), FeatureStore(store)
    others = None if proposals is None else FeatureStore(proposals)

    def tell(kind: str, photographs: list[Photograph], rule: HeatRule, trusts: tuple[float, ...]) -> None:
        print(f"{run.name}: {sum(len(one.phrases) for one in photographs)} validation phrases of {kind}")
        compare(photographs, rule, trusts)

    one, more = look(phrase_references(load(data, "val")), grids, pointer), look(of_several(data), grids, pointer)
    tell("one thing that a detector has a name for, boxes of a detector", part(one, True), DETECTOR_RULES.known, TRUSTS)
    tell("one other thing, boxes of a detector", part(one, False), DETECTOR_RULES.other, TRUSTS)
    tell("several things, boxes of a detector", more, DETECTOR_RULES.plural, TRUSTS)
    if others is not None:
        for kind, found, rule in (
            ("one thing", one, PROPOSAL_RULES.other),
            ("several things", more, PROPOSAL_RULES.plural),
        ):
            moved = [replace(each, regions=others[each.phrases[0].image]) for each in found]
            tell(f"{kind}, other proposals without their scores", moved, rule, (0.0,))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:4]), Path(sys.argv[4]) if len(sys.argv) == 5 else None)
