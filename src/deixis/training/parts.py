"""Several data sets in one training run: image ids, regions, and their shares in an epoch.

With several data sets an image id is qualified by the name of its folder, ``coco-256/000123``, so that no two images
have the same id. With one data set the ids are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data import Loader, Sample
from deixis.data.spool import Spool
from deixis.errors import DeixisError
from deixis.types import Regions
from deixis.vision.store import FeatureStore

Order = Callable[[int, int], npt.NDArray[np.integer]]
"""(seed, epoch) -> rows of the examples of an epoch, in order."""


@dataclass(frozen=True)
class Part:
    """One data set of a training run."""

    label: str  # start of its image ids; empty if there is only one data set
    name: str  # of the kind of data set, such as "coco"
    folder: str
    weight: float = 0.0  # share of its examples in an epoch, relative to the other data sets; 0: by their number

    def id(self, image_id: str) -> str:
        """Return the id of an image in this run."""
        return f"{self.label}/{image_id}" if self.label else image_id

    def has(self, image_id: str) -> bool:
        """Return whether an id of this run is of this data set."""
        return not self.label or image_id.startswith(f"{self.label}/")

    def own_id(self, image_id: str) -> str:
        """Return the id of an image in its data set."""
        return image_id.removeprefix(f"{self.label}/") if self.label else image_id


class JoinedRegions(Mapping[str, Regions]):
    """Regions of several data sets by qualified ids."""

    def __init__(self, parts: Sequence[tuple[Part, FeatureStore]]) -> None:
        self._parts = {part.label: (part, store) for part, store in parts}

    def __getitem__(self, image_id: str) -> Regions:
        label, _, own = image_id.partition("/")
        if label not in self._parts:
            raise KeyError(image_id)
        return self._parts[label][1][own]

    def __contains__(self, image_id: object) -> bool:
        label, _, own = str(image_id).partition("/")
        return label in self._parts and own in self._parts[label][1]

    def __iter__(self) -> Iterator[str]:
        return (part.id(image_id) for part, store in self._parts.values() for image_id in store)

    def __len__(self) -> int:
        return sum(len(store) for _, store in self._parts.values())


def weighted_order(parts: Sequence[Part], images: Sequence[str]) -> Order | None:
    """Return the order of examples with these images in each epoch; None: every example once, shuffled.

    An epoch has as many examples as there are. Data set i has the share w_i / sum(w) of them. Its examples are taken
    from a sequence of random permutations that continues over the epochs, so that all are used equally often.
    """
    if not any(part.weight for part in parts):
        return None
    groups = [np.array([row for row, image in enumerate(images) if part.has(image)]) for part in parts]
    weights = np.array([part.weight if len(group) else 0.0 for part, group in zip(parts, groups, strict=True)])
    counts = apportion(len(images), weights)

    def rows(seed: int, epoch: int) -> npt.NDArray[np.integer]:
        chosen = [
            group[cycled(len(group), epoch * count, count, [seed, number])]
            for number, (group, count) in enumerate(zip(groups, counts, strict=True))
            if count
        ]
        return np.random.default_rng([seed, epoch]).permutation(np.concatenate(chosen))

    return rows


def apportion(total: int, weights: npt.NDArray[np.floating]) -> list[int]:
    """Divide ``total`` into whole numbers in proportion to the weights, by the largest remainders."""
    exact = total * weights / weights.sum()
    counts = np.floor(exact).astype(int)
    for row in np.argsort(counts - exact, kind="stable")[: total - counts.sum()]:
        counts[row] += 1
    return counts.tolist()


def cycled(length: int, start: int, count: int, seed: Sequence[int]) -> npt.NDArray[np.integer]:
    """Return ``count`` numbers below ``length`` from ``start`` on, in a sequence of seeded permutations."""
    first, last = start // length, (start + count - 1) // length
    passes = [np.random.default_rng([*seed, number]).permutation(length) for number in range(first, last + 1)]
    return np.concatenate(passes)[start - first * length :][:count]


def qualified(part: Part, samples: Iterable[Sample]) -> Iterable[Sample]:
    """Return the samples of a data set with their ids in this run."""
    if not part.label:
        return samples
    return (replace(sample, image_id=part.id(sample.image_id)) for sample in samples)


def read_samples(kinds: Sequence[Loader], roots: Sequence[Path], parts: Sequence[Part], split: str) -> Sequence[Sample]:
    """Return the samples of one split of all data sets, in memory, or on disk where one of them can be streamed.

    A data set that has the function ``stream`` is read one image at a time.
    """
    read = (getattr(kind, "stream", kind.load)(root, split) for kind, root in zip(kinds, roots, strict=True))
    samples = (sample for part, some in zip(parts, read, strict=True) for sample in qualified(part, some))
    return Spool(samples) if any(hasattr(kind, "stream") for kind in kinds) else list(samples)


def labels(roots: Sequence[Path]) -> list[str]:
    """Return the names of the folders, numbered where two are equal; empty for a single data set."""
    if len(roots) == 1:
        return [""]
    names = [root.resolve().name.replace("/", "-") or "data" for root in roots]
    return [
        name if names.count(name) == 1 else f"{name}-{names[:row].count(name) + 1}" for row, name in enumerate(names)
    ]


def check_lists(roots: Sequence[Path], count: int, stores: Sequence[FeatureStore], weights: Sequence[float]) -> None:
    """Raise if the options of the data sets do not belong together; ``count`` includes that of the validation."""
    if len(stores) not in (0, 1, count):
        raise DeixisError(
            f"--features has {len(stores)} stores for {count} data sets. Give one for each, in the same order, or "
            "one that has the images of all."
        )
    if weights and len(weights) != len(roots):
        raise DeixisError(f"--data-weights has {len(weights)} numbers for {len(roots)} data sets. Give one for each.")
    if any(not 0 < weight < 1e6 for weight in weights):
        raise DeixisError("--data-weights must be greater than 0. Leave a data set out instead of giving it no weight.")
    resolved = [root.resolve() for root in roots]
    for root in roots:
        if resolved.count(root.resolve()) > 1:
            raise DeixisError(f"--data names {root} twice. Use --data-weights to give it a larger share.")


def check_stores(roots: Sequence[Path], stores: Sequence[FeatureStore]) -> None:
    """Raise if the features are not all from the same extractor."""
    for root, store in zip(roots, stores, strict=bool(stores)):
        if store.extractor != stores[0].extractor:
            raise DeixisError(
                f"{store.path} (of {root}) has features from {store.extractor}, but {stores[0].path} has features from "
                f"{stores[0].extractor}. Extract all with the same settings."
            )


def check_shared(parts: Sequence[Part], samples: Iterable[Sample], stores: Sequence[FeatureStore]) -> None:
    """Raise if two data sets of one store have an image with the same id: the store has features of one of them."""
    owner: dict[tuple[int, str], Part] = {}
    for sample in samples:
        number = next(n for n, part in enumerate(parts) if part.has(sample.image_id))
        key = id(stores[number]), parts[number].own_id(sample.image_id)
        other = owner.setdefault(key, parts[number])
        if other is not parts[number]:
            raise DeixisError(
                f"{other.folder} and {parts[number].folder} both have an image {key[1]}, and share the feature store "
                f"{stores[number].path}. Give each data set a store of its own with --features."
            )
