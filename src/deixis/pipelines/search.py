"""Search a feature store with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deixis.errors import DeixisError
from deixis.language.tokenise import tokens
from deixis.types import Grounding, Json
from deixis.vision.store import FeatureStore

if TYPE_CHECKING:
    from deixis.methods.scan.model import ScanGrounder

BATCH = 256  # images that are scored at a time


@dataclass(frozen=True)
class Hit:
    """An image that matches the sentence."""

    image: str
    score: float
    groundings: tuple[Grounding, ...]  # of the noun phrases of the sentence

    def to_json(self) -> Json:
        """All fields, without the heat maps, which are large."""
        found = [replace(grounding, heat=None).to_json() for grounding in self.groundings]
        return {"image": self.image, "score": self.score, "groundings": found}


def search_store(
    grounder: ScanGrounder,
    store: FeatureStore,
    sentence: str,
    top: int,
    done: Callable[[int], None] = lambda images: None,
) -> list[Hit]:
    """The ``top`` images with the highest match score; equal scores keep the order of the store.

    ``done`` is called with the number of images that were scored since its last call.
    """
    if not len(store):
        raise DeixisError(f"{store.path} has no images. Fill it with 'deixis features'.")
    store.require(grounder.eyes.name)
    if not any(word in grounder.vocabulary for word in tokens(sentence)):
        raise DeixisError(f"No word of '{sentence}' is in the vocabulary of {grounder.name}. Use other words.")
    names = list(store)
    scores: list[float] = []
    for start in range(0, len(names), BATCH):
        some = [store[name] for name in names[start : start + BATCH]]
        scores += grounder.scores(some, [sentence])[:, 0].tolist()
        done(len(some))
    best = sorted(range(len(names)), key=lambda i: -scores[i])[:top]
    return [Hit(names[i], scores[i], tuple(grounder.ground(store[names[i]], sentence))) for i in best]
