"""Batches of a captioner: padded regions, captions as word ids, marks and targets of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.data.sample import Sample
from deixis.language.vocabulary import Vocabulary
from deixis.layers.noise import fold, uniform
from deixis.layers.padding import PaddedRegions, pad_ragged, pad_regions
from deixis.types import Box, Regions


@dataclass(frozen=True)
class Target:
    """A word of a caption and the true box of what it names, for the loss 'supervised'."""

    caption: int
    word: int  # index into the caption's words, bos not counted
    box: Box
    label: int = -1  # object class, where there is one
    frame: int | None = None  # of a clip


@dataclass(frozen=True)
class Example:
    """One image for training: its captions as word ids, bos first, eos last."""

    image_id: str
    captions: tuple[tuple[int, ...], ...]
    visual: tuple[tuple[bool, ...], ...] = ()  # of each caption's words: nouns and verbs; empty: not needed
    nouns: tuple[tuple[bool, ...], ...] = ()  # the same for nouns of the distillation
    targets: tuple[Target, ...] | None = None  # None: no loss needs boxes


@dataclass(frozen=True)
class Batch:
    """Images with all their captions, padded."""

    regions: PaddedRegions
    words: Tensor  # [I, C, T] bos first, eos last, pad behind; all pad where an image has fewer captions
    images: tuple[str, ...] = ()  # [I] their ids
    visual: Tensor | None = None  # [I, C, T - 1] of the words behind bos
    nouns: Tensor | None = None  # [I, C, T - 1] likewise
    overlap: Tensor | None = None  # [I, C, T - 1, N] IoU of each region with the word's true boxes, 0 where none
    classes: Tensor | None = None  # [I, N] object class of each region by its best true box, -1 where none
    labels: Tensor | None = None  # [I, C, T - 1] object class of each word with a box, -1 where none
    within: Tensor | None = None  # [I, C, T - 1, N] regions of the frames in which a word of a clip is annotated


def make_examples(samples: Sequence[Sample], vocabulary: Vocabulary, max_words: int) -> list[Example]:
    """Examples of the samples with at least one caption; captions are cut to ``max_words`` words."""
    examples = []
    for sample in samples:
        captions = tuple(tuple(vocabulary.encode(c.tokens[:max_words])) for c in sample.captions if c.tokens)
        if captions:
            examples.append(Example(sample.image_id, captions))
    return examples


def collate(
    examples: Sequence[Example],
    regions: Mapping[str, Regions],
    pad: int,
    keys: Tensor | None = None,
    crop: int = 0,
) -> Batch:
    """Pad regions and captions to the longest of the batch; ``keys [I]`` are the random keys of the examples.

    Image maps with more than ``crop`` cells per side are cut to a random window of that size (0: never).
    """
    seen = [regions[example.image_id] for example in examples]
    if crop and keys is not None:
        windows = [random_window(one, crop, key) for one, key in zip(seen, keys, strict=True)]
        examples = [_cropped_targets(*pair) for pair in zip(examples, windows, strict=True)]
        seen = [crop_regions(*pair) for pair in zip(seen, windows, strict=True)]
    padded = replace(pad_regions(seen), keys=keys)
    words = pad_ragged([example.captions for example in examples], pad)
    steps = words.shape[2] - 1
    visual, nouns = _marks([e.visual for e in examples], steps), _marks([e.nouns for e in examples], steps)
    batch = Batch(padded, words, tuple(e.image_id for e in examples), visual, nouns)
    if examples[0].targets is None:
        return batch
    overlap, classes, labels, within = _supervise(examples, seen, words.shape, padded.mask.shape[1])
    return replace(batch, overlap=overlap, classes=classes, labels=labels, within=within)


Window = tuple[int, int, int, float, float, float, float]
"""Row, column and cells per side of a part of an image map, and its corners in pixels of the image."""


def random_window(regions: Regions, cells: int, key: Tensor) -> Window | None:
    """Draw a window of ``cells`` cells per side in the image map of a photograph; None where the map is not larger.

    GVD crops 512 pixels at random from a photograph stretched to 576: 16 of 18 cells of the map.
    """
    if regions.grid is None or regions.grid.ndim != 3 or max(regions.grid.shape[:2]) <= cells:
        return None
    rows, columns = regions.grid.shape[:2]
    high, wide = min(cells, rows), min(cells, columns)
    keyed = fold(key, 13)
    assert keyed is not None
    down, across = uniform(keyed, 2).tolist()
    top, left = int(down * (rows - high + 1)), int(across * (columns - wide + 1))
    x, y = regions.size[0] / columns, regions.size[1] / rows
    return top, left, cells, left * x, top * y, (left + wide) * x, (top + high) * y


def crop_regions(regions: Regions, window: Window | None) -> Regions:
    """Cut regions to a window of the image map: boxes in pixels of the window, those outside it left out."""
    if window is None or regions.grid is None:
        return regions
    top, left, cells, *_ = window
    boxes = crop_boxes(regions.boxes, window)
    kept = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    if not kept.any():
        return regions  # no region is in the window
    x1, y1, x2, y2 = window[3:]
    grid = regions.grid[top : top + cells, left : left + cells]
    size = max(1, round(x2 - x1)), max(1, round(y2 - y1))
    return replace(regions, boxes=boxes, grid=grid, size=size).select(kept)


def crop_boxes(boxes: geometry.Array, window: Window) -> geometry.Array:
    """Boxes in pixels of a window, clipped to it."""
    x1, y1, x2, y2 = window[3:]
    return geometry.clip(np.asarray(boxes, np.float64) - [x1, y1, x1, y1], x2 - x1, y2 - y1)


def _cropped_targets(example: Example, window: Window | None) -> Example:
    """Cut the boxes of the words along; words whose box is outside the window have no target."""
    if window is None or not example.targets:
        return example
    boxes = crop_boxes(np.array([target.box for target in example.targets]), window).tolist()
    targets = [
        replace(target, box=(x1, y1, x2, y2))
        for target, (x1, y1, x2, y2) in zip(example.targets, boxes, strict=True)
        if x2 > x1 and y2 > y1
    ]
    return replace(example, targets=tuple(targets))


def _marks(marks: Sequence[tuple[tuple[bool, ...], ...]], steps: int) -> Tensor | None:
    """Marks of words ``[I, C, steps]``; None where no loss needs them."""
    if not marks[0]:
        return None
    padded = pad_ragged(marks, 0)[..., :steps].bool()
    return torch.nn.functional.pad(padded, (0, steps - padded.shape[2]))


def one_caption_each(examples: Sequence[Example]) -> list[Example]:
    """Examples with one caption each, for batches that count captions."""
    return [
        Example(
            example.image_id,
            (caption,),
            example.visual[number : number + 1],
            example.nouns[number : number + 1],
            example.targets and tuple(replace(t, caption=0) for t in example.targets if t.caption == number),
        )
        for example in examples
        for number, caption in enumerate(example.captions)
    ]


def _supervise(
    examples: Sequence[Example], seen: Sequence[Regions], shape: Sequence[int], most: int
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    images, captions, length = shape
    overlaps = np.zeros((images, captions, length - 1, most), dtype=np.float32)
    within = np.zeros(overlaps.shape, dtype=bool)
    classes = np.full((images, most), -1, dtype=np.int64)
    labels = np.full((images, captions, length - 1), -1, dtype=np.int64)
    for i, (example, r) in enumerate(zip(examples, seen, strict=True)):
        if not example.targets:
            continue
        overlap = geometry.iou([target.box for target in example.targets], r.boxes)  # [targets, N]
        for target, row in zip(example.targets, overlap, strict=True):
            if r.frames is not None:
                row[r.frames != target.frame] = 0  # boxes of different frames do not overlap
            if target.word < length - 1:
                place = overlaps[i, target.caption, target.word, : len(r)]
                np.maximum(place, row, out=place)
                labels[i, target.caption, target.word] = target.label
                if r.frames is not None:
                    within[i, target.caption, target.word, : len(r)] |= r.frames == target.frame
        named = np.array([target.label for target in example.targets])
        overlap[named < 0] = 0  # a box without a class names no region
        classes[i, : len(r)] = np.where(overlap.max(0) > 0.5, named[overlap.argmax(0)], -1)
    clips = any(r.frames is not None for r in seen)
    found = torch.from_numpy(overlaps), torch.from_numpy(classes), torch.from_numpy(labels)
    return *found, torch.from_numpy(within) if clips else None
