"""Class head for the classes of a data set, from the head of a detector with other classes.

A class takes weights and bias of the detector's class with the nearest name: the highest cosine of mean GloVe vectors.
Classes are matched by their number. The published Python 3 code numbers them by the order of ``wtod`` in its file, so
that a row belongs to another class wherever this order is not that of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data.reading import BadFile
from deixis.errors import DeixisError
from deixis.files import open_text
from deixis.vision.head import ClassHead

BACKGROUND = "__background__"

Vectors = dict[str, npt.NDArray[np.float64]]


def map_classes(head: ClassHead, classes: Sequence[str], glove: Path) -> tuple[ClassHead, tuple[str, ...]]:
    """Return the head of these classes, background first, and the classes without a GloVe vector.

    A class without a vector gets zero weights, which training changes; the published code takes a random row.
    """
    vectors = read_glove(glove, {word for name in (*classes, *head.names) for word in (name, *words_of(name))})
    source = np.stack([_mean(name, vectors) for name in head.names[1:]])  # [C, D], not the background
    source = source / np.maximum(np.linalg.norm(source, axis=1, keepdims=True), 1e-12)
    weight = np.zeros((1 + len(classes), head.class_weight.shape[1]), np.float32)
    bias = np.zeros(len(weight), np.float32)
    weight[0], bias[0] = head.class_weight[0], head.class_bias[0]
    unknown = []
    for row, name in enumerate(classes, start=1):
        vector = vectors[name] if name in vectors else _mean(name, vectors)
        if not vector.any():
            unknown.append(name)
            continue
        nearest = 1 + int(np.argmax(source @ vector))
        weight[row], bias[row] = head.class_weight[nearest], head.class_bias[nearest]
    names = (BACKGROUND, *classes)
    return ClassHead(head.fc7_weight, head.fc7_bias, weight, bias, names), tuple(unknown)


def words_of(name: str) -> list[str]:
    """Words of a class name such as ``tennis racket,racket``."""
    return name.replace(",", " ").split()


def read_glove(path: Path, wanted: Iterable[str]) -> Vectors:
    """Read the vectors of some words from a text file of GloVe."""
    words, found = set(wanted), Vectors()
    size = 0
    try:
        with open_text(path, errors="replace") as file:
            for line, text in enumerate(file, start=1):
                word, _, rest = text.rstrip().partition(" ")
                if word not in words:
                    continue
                try:
                    vector = np.array(rest.split(" "), dtype=np.float64)
                except ValueError:
                    raise BadFile(path, "expected a word and numbers", line) from None
                size = size or len(vector)
                if len(vector) != size or not np.isfinite(vector).all():
                    raise BadFile(path, f"expected {size} finite numbers, found {len(vector)}", line)
                found[word] = vector
    except OSError as error:
        raise DeixisError(f"{path} cannot be read ({error.strerror}). Give a file such as glove.6B.300d.txt.") from None
    if not found:
        raise BadFile(path, "no class name has a vector")
    return found


def _mean(name: str, vectors: Vectors) -> npt.NDArray[np.float64]:
    """Mean vector of the words of a name that have one; zeros if none has."""
    known = [vectors[word] for word in words_of(name) if word in vectors]
    size = len(next(iter(vectors.values())))
    return np.mean(known, axis=0) if known else np.zeros(size)
