"""Search pipeline: the photographs of a feature store that match a sentence best, with its noun phrases grounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.language.queries import caption_query
from deixis.pipelines.ground import ground_queries
from deixis.pipelines.models import PhraseGrounder
from deixis.pipelines.photo import Photo, encode_batch
from deixis.types import SCHEMA, Grounding, Json
from deixis.vision.store import FeatureStore

BATCH = 64  # photographs that are encoded together


@dataclass(frozen=True)
class Hit:
    """A photograph that was found."""

    image: str
    score: float
    groundings: tuple[Grounding, ...]  # of the sentence's noun phrases

    def to_json(self) -> Json:
        """Return image, score and groundings, without heat maps."""
        found = [replace(grounding, heat=None).to_json() for grounding in self.groundings]
        return {"image": self.image, "score": self.score, "groundings": found, "schema": SCHEMA}


def search(
    store: FeatureStore,
    sentence: str,
    grounder: PhraseGrounder,
    top: int,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[Hit]:
    """Return the best photographs first; equal scores keep the order of the store. ``track`` shows the progress."""
    check_store(store, grounder)
    (parsed,) = parse([sentence])
    if not len(parsed):
        raise DeixisError("the sentence has no words. Write what to search for.")
    vocabulary = getattr(grounder, "vocabulary", None)  # a fusion model spells every word with word pieces
    if vocabulary is not None and not any(word in vocabulary for word in parsed.tokens):
        raise DeixisError(f"no word of '{sentence}' is in the vocabulary of {grounder.name}. Use other words.")
    whole = replace(parsed.phrase(0, len(parsed)), text=sentence)
    names = list(store)
    scores: list[float] = []
    for start in track(range(0, len(names), BATCH)):
        photos = list(_photos(store, names[start : start + BATCH]))
        encode_batch(photos, grounder)
        scores += [grounder.evidence(photo.encoded(grounder), [whole])[0] for photo in photos]
    best = sorted(range(len(names)), key=lambda i: -scores[i])[:top]
    query = caption_query(parsed)
    return [
        Hit(photo.name, scores[i], tuple(ground_queries(photo, [query], grounder) if query.phrases else ()))
        for i, photo in zip(best, _photos(store, [names[i] for i in best]), strict=True)
    ]


def check_store(store: FeatureStore, grounder: PhraseGrounder) -> None:
    """Raise an error that says what to do if a grounder cannot read a store."""
    extractor = grounder.extractor
    if extractor is None:
        raise DeixisError(f"{grounder.name} reads pixels, and a store has regions. Choose another --model.")
    if not len(store):
        raise DeixisError(f"{store.path} has no photographs. Fill it first (deixis features).")
    store.require(extractor.name)
    if not extractor.accepts(next(iter(store.values()))):
        raise DeixisError(
            f"{grounder.name} reads feature grids, and {store.path} has none. "
            f"Extract again with `deixis features --grid {extractor.grid}`."
        )


def _photos(store: FeatureStore, names: Iterable[str]) -> Iterator[Photo]:
    for name in names:
        yield Photo(name, regions=store[name])
