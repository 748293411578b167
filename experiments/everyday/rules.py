"""Compare box rules for the attention of a matcher to boxes of a detector, on validation phrases.

    python rules.py DATA STORE MODEL [--split val]

Prints the number of phrases, the accuracy of the rule of the package (localize.heat_rules.MATCHER_RULES) and the five
best rules of a grid, for each kind of phrase: a class of the detector, a part of a person, a place, another object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import tyro

from deixis import boxes as geometry
from deixis.data import load
from deixis.language.names import SCENE_NOUNS
from deixis.language.queries import caption_query
from deixis.language.spacy_parse import spacy_parse
from deixis.localize.class_names import names_part, phrase_class_probabilities
from deixis.localize.heat import heat_map
from deixis.localize.heat_rules import MATCHER_RULES, HeatRule
from deixis.methods.scan.model import ScanGrounder
from deixis.pipelines.models import load_grounder
from deixis.types import Phrase, Regions
from deixis.vision.classes import imagenet_classes
from deixis.vision.store import FeatureStore

AREA_POWERS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
SCORE_POWERS = (0.0, 0.1, 0.2, 0.3, 0.5)
CLASS_POWERS = (0.0, 0.1, 0.2, 0.4, 0.6, 1.0)
ATTENTION_POWERS = (0.0, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True, eq=False)
class Case:
    """A phrase with the attention of the matcher, and the IoU of every region with its true box."""

    kind: str
    attention: np.ndarray  # [N]
    heat: np.ndarray  # [H, W]
    class_probs: np.ndarray  # [N]
    regions: Regions
    ious: np.ndarray  # [N]

    def right(self, rule: HeatRule) -> bool:
        """Return whether the rule selects a right region."""
        one = rule.select(self.heat[None], self.regions, self.class_probs[None], self.attention[None])[0]
        return bool(self.ious[one] >= 0.5)


def kind_of(phrase: Phrase, known: bool) -> str:
    """Return the name of the phrase's rule in ``HeatRules``."""
    if known:
        return "part" if names_part(phrase.lemma) else "known"
    return "scene" if phrase.lemma in SCENE_NOUNS else "other"


def cases(data: Path, store: FeatureStore, matcher: ScanGrounder, split: str) -> Iterator[Case]:
    """Yield the phrases of the captions that have a box."""
    for sample in load(data, split):
        true = {entity.id: geometry.union(entity.boxes) for entity in sample.entities if len(entity.boxes)}
        if sample.image_id not in store or not true:
            continue
        regions = store[sample.image_id]
        (photo,) = matcher.encode([regions])
        for caption in sample.captions:
            drawn = [phrase for phrase in caption.phrases if phrase.entity in true and phrase.end > phrase.start]
            if not drawn:
                continue
            query = caption_query(spacy_parse([caption.text], quiet=True)[0], drawn)
            attention = matcher.align(photo, [query.parse])[0][0]
            named = phrase_class_probabilities(query.phrases, regions, True, imagenet_classes())
            for phrase, given, probs in zip(query.phrases, drawn, named, strict=True):
                span = range(phrase.start, phrase.end)
                weights = attention[[t for t in span if query.parse.nouns[t]] or list(span)].mean(0)
                heat = heat_map(weights, regions.boxes, regions.size)
                ious = geometry.iou(regions.boxes, true[str(given.entity)][None])[:, 0]
                yield Case(kind_of(phrase, bool((probs < 1).any())), weights, heat.grid, probs, regions, ious)


def main(
    data: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    model: tyro.conf.Positional[str],
    split: str = "val",
) -> None:
    """Print accuracies in per cent.

    Args:
        data: a data set with boxes.
        store: its regions, of a detector.
        model: a matcher, by name or folder.
        split: split of the data set.
    """
    groups: dict[str, list[Case]] = defaultdict(list)
    matcher = load_grounder(model, "cpu")
    assert isinstance(matcher, ScanGrounder)
    for case in cases(data, FeatureStore(store), matcher, split):
        groups[case.kind].append(case)
    right = 0.0
    for kind, some in sorted(groups.items()):
        own = float(np.mean([case.right(getattr(MATCHER_RULES, kind)) for case in some]))
        right += own * len(some)
        print(f"{kind}: {len(some)} phrases; rule of the package {100 * own:.1f}")
        classes = CLASS_POWERS if kind in ("known", "part") else (0.0,)
        grid = [HeatRule(0.0, *values) for values in product(AREA_POWERS, SCORE_POWERS, classes, ATTENTION_POWERS)]
        found = sorted(((float(np.mean([c.right(rule) for c in some])), astuple(rule)) for rule in grid), reverse=True)
        for share, powers in found[:5]:
            print(f"  {100 * share:.1f}  floor, area, score, class, attention: {powers}")
    print(f"all: {100 * right / sum(map(len, groups.values())):.1f}")


if __name__ == "__main__":
    tyro.cli(main)
