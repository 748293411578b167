"""Texts as vectors of meaning, so that "a puppy" is near "golden retriever" though no letter agrees.

The sentence encoder is all-MiniLM-L6-v2, whose weights come as a package: nothing is downloaded when it is used. A text
is encoded once on a machine; its vector is kept on disk.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from deixis.cache import TextCache, cache_folder
from deixis.language.wordpiece import WordPieces
from deixis.layers.bert import TextEncoder
from deixis.methods.albef.published import minilm_folder, minilm_reader

WIDTH = 384
VERSION = 1
"""Of what this module makes of a text: raise it with every change, and older caches are left behind."""

BATCH = 32  # texts of like length
KEPT = 1024  # texts that are written to the disk together
LONGEST = 128  # word pieces of a text; the encoder was taught on no more

Vectors = npt.NDArray[np.float32]

_known: dict[str, Vectors] = {}


def text_vectors(texts: Sequence[str]) -> Vectors:
    """Vectors ``[n, 384]`` of length 1; the inner product of two tells how near their texts are in meaning."""
    missing = list(dict.fromkeys(text for text in texts if text not in _known))
    if missing:
        store = TextCache(cache_folder() / f"vectors-all-minilm-l6-v2-{VERSION}.sqlite")
        _known.update({text: _from_text(row) for text, row in store.read(missing).items()})
        new = [text for text in missing if text not in _known]
        for start in _told(range(0, len(new), KEPT)):
            some = new[start : start + KEPT]
            found = _encode(some)
            store.write({text: _to_text(vector) for text, vector in zip(some, found, strict=True)})
            # the same numbers as from the disk, whether this is the first time or not
            _known.update({text: _from_text(_to_text(vector)) for text, vector in zip(some, found, strict=True)})
    return np.stack([_known[text] for text in texts]) if texts else np.zeros((0, WIDTH), np.float32)


def _told(rounds: range) -> Iterable[int]:
    """The same with a progress bar on stderr, where the work is long and somebody watches."""
    if len(rounds) < 3 or not sys.stderr.isatty():
        return rounds
    from rich.console import Console
    from rich.progress import track

    return track(rounds, "reading phrases", console=Console(stderr=True), transient=True)


def _to_text(vector: Vectors) -> str:
    return base64.b85encode(vector.astype("<f2").tobytes()).decode()


def _from_text(row: str) -> Vectors:
    return np.frombuffer(base64.b85decode(row), dtype="<f2").astype(np.float32)


@torch.inference_mode()
def _encode(texts: Sequence[str]) -> Vectors:
    """Mean of the last layer over the pieces of each text, of length 1."""
    pieces, reader = _loaded()
    ids = [pieces.encode(text, LONGEST) for text in texts]
    out = np.zeros((len(texts), WIDTH), np.float32)
    order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        lengths = torch.tensor([len(ids[i]) for i in rows])
        padded = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
        for row, i in enumerate(rows):
            padded[row, : len(ids[i])] = torch.tensor(ids[i])
        real = torch.arange(padded.shape[1]) < lengths[:, None]
        bias = torch.zeros(real.shape).masked_fill(~real, -torch.inf)[:, None, None]
        states = reader(padded, bias) * real.unsqueeze(-1)
        out[rows] = F.normalize(states.sum(1) / lengths[:, None], dim=1).numpy()
    return out


@lru_cache(maxsize=1)
def _loaded() -> tuple[WordPieces, TextEncoder]:
    folder = minilm_folder()
    return WordPieces.load(folder / "vocab.txt"), minilm_reader(folder)
