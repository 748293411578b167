"""Phrases of several images as tensors, and vectors of the class names of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from deixis.language.descriptions import Description
from deixis.language.vocabulary import Vocabulary
from deixis.layers.text_vectors import WIDTH, text_vectors
from deixis.methods.reir import names
from deixis.types import Regions


@dataclass(frozen=True)
class PaddedPhrases:
    """Descriptions of I images, up to C of each, and their phrases, up to P of each image over all captions."""

    words: Tensor  # [I, C, T] word ids, without bos and eos
    members: Tensor  # [I, P, C * T] weights of the mean over a phrase's words (Eq. 1)
    mask: Tensor  # [I, P] True where there is a phrase
    caption: Tensor  # [I, P] number of the phrase's caption
    spelling: Tensor  # [I, P, W] its word ids from bos to eos, as they are reconstructed
    related: Tensor  # [I, P, P] True where two phrases have a relation of any kind, symmetric
    relation: Tensor  # [I, P, P] category of the relation from subject to object; 0: none, or a rare one
    vectors: Tensor | None = None  # [I, P, E] sentence embedding of the phrase


def pad_phrases(
    descriptions: Sequence[Sequence[Description]],
    vocabulary: Vocabulary,
    categories: Mapping[str, int] | None = None,
    embed: bool = True,
) -> PaddedPhrases:
    """Pad the descriptions of several images; ``categories`` number the relations from 1, ``embed`` adds vectors."""
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
        vectors=_phrase_vectors(descriptions, most) if embed else None,
    )


def _phrase_vectors(descriptions: Sequence[Sequence[Description]], most: int) -> Tensor:
    texts = [[text for d in row for text in d.texts()] for row in descriptions]
    flat = iter(text_vectors([text for row in texts for text in row]))
    out = np.zeros((len(texts), most, WIDTH), dtype=np.float32)
    for i, row in enumerate(texts):
        for p in range(len(row)):
            out[i, p] = next(flat)
    return torch.from_numpy(out)


def name_vectors(regions: Sequence[Regions], top: int = 0) -> Tensor:
    """Vectors ``[I, N, E]`` of the class names of regions; see :func:`deixis.methods.reir.names.name_vectors`."""
    out = np.zeros((len(regions), max(len(r) for r in regions), WIDTH), dtype=np.float32)
    for i, r in enumerate(regions):
        out[i, : len(r)] = names.name_vectors(r, top)
    return torch.from_numpy(out)
