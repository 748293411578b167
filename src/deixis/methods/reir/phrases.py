"""The phrases of several images as tensors, and what the words of a phrase have in common with the names of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.names import COCO_NOUNS
from deixis.language.parse import Parse
from deixis.language.relations import Relation, relations
from deixis.language.vocabulary import Vocabulary
from deixis.layers.text_vectors import WIDTH, Vectors, text_vectors
from deixis.types import Labels, Phrase, Regions
from deixis.vision.backbone import imagenet_classes


@dataclass(frozen=True)
class Description:
    """A sentence, the phrases in it that are to be found, and how they stand to each other."""

    words: tuple[str, ...]
    phrases: tuple[tuple[int, int], ...]  # spans [start, end) of words, none empty
    relations: tuple[Relation, ...] = ()

    def texts(self) -> list[str]:
        """The words of each phrase."""
        return [" ".join(self.words[start:end]) for start, end in self.phrases]


def describe(parse: Parse, phrases: Sequence[Phrase] | None = None) -> Description:
    """A parsed caption with its noun phrases, or with given ones, and the relations between them."""
    found = [phrase for phrase in (parse.phrases if phrases is None else phrases) if phrase.start < phrase.end]
    spans = tuple((phrase.start, phrase.end) for phrase in found)
    return Description(parse.tokens, spans, relations(parse, found))


@dataclass(frozen=True)
class PaddedPhrases:
    """The descriptions of I images, up to C of each, and all their phrases, P of each image, whatever caption from."""

    words: Tensor  # [I, C, T] ids of the words, without begin and end
    members: Tensor  # [I, P, C * T] a phrase's share of each word: Eq. 1's mean as one product
    mask: Tensor  # [I, P] True where there is a phrase
    caption: Tensor  # [I, P] which caption of its image a phrase stands in
    spelling: Tensor  # [I, P, W] its words between begin and end, as they are reconstructed
    related: Tensor  # [I, P, P] True where a relation of any kind ties two phrases, in both directions
    relation: Tensor  # [I, P, P] category of the relation from subject to object; 0: none, or a rare one
    vectors: Tensor | None = None  # [I, P, E] meaning of the phrase


def pad_phrases(
    descriptions: Sequence[Sequence[Description]],
    vocabulary: Vocabulary,
    categories: Mapping[str, int] | None = None,
    meaning: bool = True,
) -> PaddedPhrases:
    """Stack the descriptions of several images; ``categories`` number the relations from 1."""
    images, captions = len(descriptions), max(len(row) for row in descriptions)
    longest = max(1, max((len(d.words) for row in descriptions for d in row), default=0))
    most = max(1, max(sum(len(d.phrases) for d in row) for row in descriptions))
    spelled = 2 + max((end - start for row in descriptions for d in row for start, end in d.phrases), default=0)
    words = np.full((images, captions, longest), Vocabulary.pad, dtype=np.int64)
    members = np.zeros((images, most, captions, longest), dtype=np.float32)
    mask = np.zeros((images, most), dtype=bool)
    caption = np.zeros((images, most), dtype=np.int64)
    spelling = np.full((images, most, spelled), Vocabulary.pad, dtype=np.int64)
    related = np.zeros((images, most, most), dtype=bool)
    relation = np.zeros((images, most, most), dtype=np.int64)
    for i, row in enumerate(descriptions):
        first = 0
        for c, description in enumerate(row):
            ids = vocabulary.encode(description.words, ends=False)
            words[i, c, : len(ids)] = ids
            for p, (start, end) in enumerate(description.phrases, first):
                members[i, p, c, start:end] = 1 / (end - start)
                mask[i, p], caption[i, p] = True, c
                spelling[i, p, : end - start + 2] = [Vocabulary.bos, *ids[start:end], Vocabulary.eos]
            for r in description.relations:
                a, b = first + r.subject, first + r.object
                related[i, a, b] = related[i, b, a] = True
                relation[i, a, b] = (categories or {}).get(r.name, 0)
            first += len(description.phrases)
    return PaddedPhrases(
        words=torch.from_numpy(words),
        members=torch.from_numpy(members).flatten(2),
        mask=torch.from_numpy(mask),
        caption=torch.from_numpy(caption),
        spelling=torch.from_numpy(spelling),
        related=torch.from_numpy(related),
        relation=torch.from_numpy(relation),
        vectors=_meaning(descriptions, most) if meaning else None,
    )


def _meaning(descriptions: Sequence[Sequence[Description]], most: int) -> Tensor:
    texts = [[text for d in row for text in d.texts()] for row in descriptions]
    flat = iter(text_vectors([text for row in texts for text in row]))
    out = np.zeros((len(texts), most, WIDTH), dtype=np.float32)
    for i, row in enumerate(texts):
        for p in range(len(row)):
            out[i, p] = next(flat)
    return torch.from_numpy(out)


def name_vectors(regions: Sequence[Regions], top: int = 0) -> Tensor:
    """What the regions of several images are called, ``[I, N, E]``: the vectors of their class names.

    Of ``top`` classes (0: all that are kept) the vectors are averaged by probability. Because Eq. 3 is an inner
    product, that is the average of the similarities too.
    """
    out = np.zeros((len(regions), max(len(r) for r in regions), WIDTH), dtype=np.float32)
    for i, r in enumerate(regions):
        if r.labels is None:
            raise DeixisError(
                f"the regions of {r.extractor or 'this image'} have no class names, and this model compares phrases "
                "with them; use an extractor whose backbone classifies, or a recipe with --model.names none."
            )
        kept = slice(0, top or None)
        weight = r.labels.probs[:, kept].astype(np.float32)
        weight /= np.maximum(weight.sum(1, keepdims=True), 1e-9)
        out[i, : len(r)] = np.einsum("nk,nke->ne", weight, _table(r.labels.names)[r.labels.ids[:, kept]])
    return torch.from_numpy(out)


def named_chances(nouns: Sequence[str], labels: Labels) -> npt.NDArray[np.float64]:
    """Return the probability ``[P, N]`` that a region shows a noun (a lemma), by the classes that a detector gave it.

    A noun is a class, or names one of COCO's (a puppy is a dog). The row of a noun that names no class is all ones.
    """
    numbers = {name: number for number, name in enumerate(detector_names(labels))}
    out = np.ones((len(nouns), len(labels)))
    for row, noun in zip(out, nouns, strict=True):
        number = numbers.get(COCO_NOUNS.get(noun, noun)) if noun else None
        if number is not None:
            row[:] = np.where(labels.ids == number, labels.probs, 0).sum(1, dtype=np.float64)
    return out


def detector_names(labels: Labels) -> tuple[str, ...]:
    """The names that regions have from a detector; those of the backbone follow them, and some are in both."""
    own = len(labels.names) - len(imagenet_classes())
    return labels.names[:own] if labels.names[own:] == imagenet_classes() else labels.names


@lru_cache(maxsize=8)
def _table(names: tuple[str, ...]) -> Vectors:
    return text_vectors(names)
