"""Image-text retrieval metrics: recall at 1, 5 and 10, median and mean rank, in both directions.

``i2t`` retrieves a caption of the image among all captions, ``t2i`` the image of the caption among all images.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.metrics.score import RULES, Score, Values, make_score, signature

BLOCK_CELLS = 2**24
"""Similarities per block; limits the memory used in addition to the matrix."""

Ints = npt.NDArray[np.int64]


def retrieval_ranks(similarities: npt.NDArray[np.floating], owner: npt.ArrayLike) -> tuple[Ints, Ints]:
    """Ranks, from 0, of each image's best caption ``[I]`` and of each caption's image ``[C]``.

    ``similarities [I, C]`` may be memory-mapped: it is read in blocks of rows. ``owner [C]`` is the row of each
    caption's image. Ties count as errors: a wrong item with equal similarity is ranked first. Equal similarities
    everywhere thus give the last rank. (SCAN's code leaves ties to an unstable sort.)
    """
    images, captions = similarities.shape
    owners = np.asarray(owner, dtype=np.int64)
    if owners.shape != (captions,) or captions == 0 or owners.min() < 0 or owners.max() >= images:
        raise DeixisError(
            f"Invalid owners: expected an image row from 0 to {images - 1} for each of the {captions} captions."
        )
    without = np.flatnonzero(np.bincount(owners, minlength=images) == 0)
    if len(without):
        raise DeixisError(f"The image in row {without[0]} has no caption. Remove it from the similarities.")

    own = np.asarray(similarities[owners, np.arange(captions)])  # [C]
    best = np.full(images, -np.inf, dtype=own.dtype)
    with np.errstate(invalid="ignore"):  # NaN raises an error below
        np.maximum.at(best, owners, own)
    own_ties = np.bincount(owners, own >= best[owners], images).astype(np.int64)
    image_ranks = np.empty(images, dtype=np.int64)
    caption_ranks = np.full(captions, -1, dtype=np.int64)  # -1: its own image is counted below
    rows = max(1, BLOCK_CELLS // captions)
    for start in range(0, images, rows):
        block = np.asarray(similarities[start : start + rows])
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            raise DeixisError(f"The similarity of image row {start + row} and caption {column} is not finite.")
        span = slice(start, start + len(block))
        image_ranks[span] = (block >= best[span, None]).sum(1) - own_ties[span]
        caption_ranks += (block >= own).sum(0)
    return image_ranks, caption_ranks


def retrieval(
    similarities: npt.NDArray[np.floating],
    images: Sequence[str],
    captions_per_image: int = 5,
    owner: npt.ArrayLike | None = None,
    folds: Literal[1, 5] = 1,
) -> list[Score]:
    """Compute R@1, R@5, R@10 (fractions), median and mean rank (from 1), in both directions.

    ``similarities [I, C]`` has a row per image. The captions of an image are consecutive columns, unless ``owner [C]``
    gives the row of each caption. With 5 folds the images are split into five equal parts, each part is evaluated
    alone, and the metrics are averaged: COCO's "1k" on its 5,000 test images. The items of all scores are images,
    also for ``t2i``: the captions of one image are not independent, and resampling them separately would give
    intervals that are too narrow.
    """
    owners = np.repeat(np.arange(len(images)), captions_per_image) if owner is None else np.asarray(owner, np.int64)
    if similarities.shape != (len(images), len(owners)):
        raise DeixisError(
            f"The similarities have shape {' x '.join(map(str, similarities.shape))}. Expected {len(images)} images "
            f"x {len(owners)} captions."
        )
    if not images:
        raise DeixisError("Retrieval needs at least one image. Check the path and split of the reference.")
    if len(images) % folds:
        raise DeixisError(
            f"{len(images)} images cannot be split into {folds} equal folds. Use 1 fold, or another number of images."
        )
    size = len(images) // folds
    image_ranks = np.empty(len(images), dtype=np.int64)
    caption_ranks = np.empty(len(owners), dtype=np.int64)
    for start in range(0, len(images), size):
        member = np.flatnonzero((owners >= start) & (owners < start + size))
        part = similarities if folds == 1 else np.asarray(similarities[start : start + size])[:, member]
        image_ranks[start : start + size], caption_ranks[member] = retrieval_ranks(part, owners[member] - start)

    text = signature(images=size, captions=len(owners) // folds, folds=folds, ties="wrong-first")
    return [
        *_direction("i2t", images, image_ranks, np.arange(len(images)), folds, text),
        *_direction("t2i", images, caption_ranks, owners, folds, text),
    ]


def _direction(way: str, images: Sequence[str], ranks: Ints, owner: Ints, folds: int, text: str) -> list[Score]:
    number = np.bincount(owner)  # [I] number of queries of each image

    def mean(name: str, values: npt.ArrayLike) -> Score:
        total = np.bincount(owner, np.asarray(values, dtype=np.float64))
        return make_score(f"{way}_{name}", images, total / number, np.stack([total, number], axis=1), "mean", text)

    rule = "median_rank" if folds == 1 else f"median_rank_{folds}_folds"
    stats = _histograms(ranks, owner, folds)
    grouped = np.split(ranks[np.argsort(owner, kind="stable")], np.cumsum(number)[:-1])
    medians = [np.floor(np.median(group)) + 1 for group in grouped]
    return [
        *(mean(f"R@{k}", ranks < k) for k in (1, 5, 10)),
        make_score(f"{way}_median_rank", images, medians, stats, rule, text),
        mean("mean_rank", ranks + 1),
    ]


def _histograms(ranks: Ints, owner: Ints, folds: int) -> Values:
    """Histogram of the ranks of each image, ``[I, folds * (1 + W)]``, in the columns of its fold.

    The first column is the rank of the first bin times the number of queries. Only ranks near the median need their own
    bin. The position of a resample's median among n sorted ranks, with c ranks per image, has a standard deviation of
    at most sqrt(n c) / 2. The bins cover ten standard deviations; the first and last bins collect all other ranks.
    """
    images = int(owner.max()) + 1
    fold_of = owner // (images // folds)
    low, width = np.zeros(folds, dtype=np.int64), 0
    for fold in range(folds):
        ordered = np.sort(ranks[fold_of == fold])
        reach = 5 * int(np.ceil(np.sqrt(len(ordered) * np.bincount(owner).max())))
        low[fold] = ordered[max(0, len(ordered) // 2 - reach)]
        width = max(width, int(ordered[min(len(ordered) - 1, len(ordered) // 2 + reach)] - low[fold]) + 1)
    stats = np.zeros((images, folds, 1 + width))
    np.add.at(stats, (owner, fold_of, np.zeros_like(owner)), low[fold_of])
    np.add.at(stats, (owner, fold_of, 1 + np.clip(ranks - low[fold_of], 0, width - 1)), 1)
    return stats.reshape(images, -1)


def median_rank_of_sums(sums: Values, folds: int) -> Values:
    """Median rank ``[B]`` from 1, averaged over folds; halves are rounded down as in SCAN's evaluation."""
    parts = sums.reshape(len(sums), folds, -1)
    number = parts[:, :, 1:].sum(2)  # [B, folds]
    up_to = parts[:, :, 1:].cumsum(2)
    below = (up_to > ((number - 1) // 2)[:, :, None]).argmax(2)
    above = (up_to > (number // 2)[:, :, None]).argmax(2)
    low = np.divide(parts[:, :, 0], number, out=np.zeros(number.shape), where=number > 0)
    median = low + (below + above) // 2 + 1
    return np.average(median, axis=1, weights=number > 0)  # a small resample may have no item of a fold


RULES["median_rank"] = partial(median_rank_of_sums, folds=1)
RULES["median_rank_5_folds"] = partial(median_rank_of_sums, folds=5)
