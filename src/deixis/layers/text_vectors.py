"""Sentence embeddings of texts by MiniLM, cached on disk.

Texts of similar meaning have similar vectors: "a puppy" and "golden retriever". Nothing is downloaded: the weights come
with a pip package.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from deixis.cache import TextCache, cache_folder
from deixis.language.wordpiece import WordPieces
from deixis.layers.arrays import unit
from deixis.layers.minilm import MiniLm, minilm_folder

WIDTH = 384
VERSION = 1
"""Version of the vectors; raise it with every change of this module, so that older caches are not used."""

BATCH = 32  # texts of similar length
WRITE_BATCH = 1024  # texts that are written to disk together
MAX_PIECES = 128  # word pieces of a text, as in the encoder's training

Vectors = npt.NDArray[np.float32]

_known: dict[str, Vectors] = {}


def text_vectors(texts: Sequence[str]) -> Vectors:
    """Unit vectors ``[n, 384]`` of texts; the inner product of two is the similarity of meaning."""
    missing = list(dict.fromkeys(text for text in texts if text not in _known))
    if missing:
        store = TextCache(cache_folder() / f"vectors-all-minilm-l6-v2-{VERSION}.sqlite")
        _known.update({text: _from_text(row) for text, row in store.read(missing).items()})
        new = [text for text in missing if text not in _known]
        for start in _with_progress(range(0, len(new), WRITE_BATCH)):
            some = new[start : start + WRITE_BATCH]
            vectors = _encode(some)
            store.write({text: _to_text(vector) for text, vector in zip(some, vectors, strict=True)})
            # rounded as on disk, so that the first call returns the same numbers as later ones
            _known.update({text: _from_text(_to_text(vector)) for text, vector in zip(some, vectors, strict=True)})
    return np.stack([_known[text] for text in texts]) if texts else np.zeros((0, WIDTH), np.float32)


def _with_progress(starts: range) -> Iterable[int]:
    """The same with a progress bar on stderr, for long work in a terminal."""
    if len(starts) < 3 or not sys.stderr.isatty():
        return starts
    from rich.console import Console
    from rich.progress import track

    return track(starts, "encoding phrases", console=Console(stderr=True), transient=True)


def _to_text(vector: Vectors) -> str:
    return base64.b85encode(vector.astype("<f2").tobytes()).decode()


def _from_text(row: str) -> Vectors:
    return np.frombuffer(base64.b85decode(row), dtype="<f2").astype(np.float32)


def _encode(texts: Sequence[str]) -> Vectors:
    """Mean of the last layer over the word pieces of each text, normalised to length 1."""
    pieces, encoder = _loaded()
    ids = [pieces.encode(text, MAX_PIECES) for text in texts]
    out = np.zeros((len(texts), WIDTH), np.float32)
    order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        out[rows] = unit(encoder.means([ids[i] for i in rows]))
    return out


@lru_cache(maxsize=1)
def _loaded() -> tuple[WordPieces, MiniLm]:
    folder = minilm_folder()
    return WordPieces.load(folder / "vocab.txt"), MiniLm(folder)
