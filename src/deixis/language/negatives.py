"""Hard negatives: phrases that are wrong for an image, made from phrases that are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

Kind = Literal["category", "attribute", "count", "co-occurrence"]

CATEGORIES = tuple(
    tuple(words.split())
    for words in (
        "dog cat horse cow sheep elephant bear zebra giraffe bird",
        "car bus train truck motorcycle bicycle boat airplane",
        "chair couch bed table bench toilet",
        "pizza sandwich cake banana apple donut carrot broccoli",
        "cup bowl fork knife spoon bottle plate",
        "laptop keyboard phone television remote",
        "ball frisbee kite skateboard surfboard snowboard bat racket",
        "shirt jacket hat dress coat helmet tie",
        "man woman boy girl",
        "beach street field kitchen bathroom forest pool",
    )
)
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
COUNTS = ("two", "three", "four", "five")
SAME = {"bike": "bicycle", "motorbike": "motorcycle", "plane": "airplane", "sofa": "couch", "tv": "television"}
"""Words for a word of CATEGORIES."""

NOUNS = frozenset(word for words in CATEGORIES for word in words)


PLURALS = {"man": "men", "woman": "women", "sheep": "sheep", "knife": "knives", "bus": "buses", "bench": "benches"}
PLURALS |= {"beach": "beaches", "sandwich": "sandwiches", "dress": "dresses", "couch": "couches"}
SINGULARS = {plural: word for word, plural in PLURALS.items()} | {"people": "man"}


def is_many(word: str) -> bool:
    """Return whether a word is a plural of a word of CATEGORIES."""
    return word in SINGULARS or (word.endswith("s") and word not in NOUNS)


def base_word(word: str) -> str:
    """Return the word of CATEGORIES that a word stands for (bikes: bicycle), or the word itself."""
    single = SINGULARS.get(word, word)
    if single not in NOUNS and single not in SAME and single.endswith("s"):
        single = single.removesuffix("s")
    return SAME.get(single, single)


@dataclass(frozen=True)
class CoOccurrence:
    """How often two nouns are named of the same image."""

    pairs: Counter[tuple[str, str]]
    single: Counter[str]

    @classmethod
    def count(cls, images: Sequence[Collection[str]]) -> CoOccurrence:
        """Count the nouns of CATEGORIES in the words of each image."""
        named = [sorted({base_word(word) for word in words} & NOUNS) for words in images]
        pairs = Counter(pair for nouns in named for pair in permutations(nouns, 2))
        return cls(pairs, Counter(noun for nouns in named for noun in nouns))

    def likeliest(self, words: Collection[str]) -> str | None:
        """Return the noun that is not named and is the likeliest beside those that are; None if there is none."""
        named = {base_word(word) for word in words} & NOUNS
        scores = {
            other: sum(self.pairs[noun, other] / self.single[noun] for noun in named if self.single[noun])
            for other in sorted(NOUNS - named)
        }
        best = max(scores, key=lambda noun: scores[noun])
        return best if scores[best] > 0 else None


def hard_negatives(phrase: str, words: Collection[str], turn: int) -> Iterator[tuple[Kind, str]]:
    """Yield changed phrases that name what no caption of the image names.

    ``words`` are those of all captions of the image. Swapped are the last noun within its category ("a dog": "a cat"),
    a colour, and a number. ``turn`` selects among the possible words.
    """
    parts = phrase.split()
    named = {base_word(word) for word in words}
    for kind, group in (("category", _category(parts)), ("attribute", COLOURS), ("count", COUNTS)):
        at = next((i for i in reversed(range(len(parts))) if base_word(parts[i]) in group), None)
        others = [word for word in group if word not in named]
        if at is None or not others or (kind == "count" and named & set(COUNTS) != {parts[at]}):
            continue
        swapped = others[turn % len(others)]
        if parts[at] != base_word(parts[at]) and kind == "category":  # a plural, or another word for it
            swapped = PLURALS.get(swapped, f"{swapped}s") if is_many(parts[at]) else swapped
        yield kind, " ".join([*parts[:at], swapped, *parts[at + 1 :]])  # type: ignore[misc]


def _category(parts: Sequence[str]) -> Sequence[str]:
    last = base_word(parts[-1]) if parts else ""
    return next((group for group in CATEGORIES if last in group), ())
