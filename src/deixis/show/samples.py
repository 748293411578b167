"""A contact sheet of a data set: photographs with their boxes, and captions with phrases in the box colours."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten

from deixis import boxes as geometry
from deixis.data import Caption, Dataset, Sample, recognise
from deixis.data.triplets import data_triplets
from deixis.data.visual_genome import MIN_AREA, Triplet
from deixis.errors import DeixisError
from deixis.language.tokenise import align
from deixis.show.draw import Mark, Span, colour
from deixis.show.drawing import Drawing
from deixis.show.sheet import Card, contact_sheet

CAPTIONS_SHOWN = 2
TRIPLETS_SHOWN = 4
SOURCES = ("spatial", "attribute", "region", "object")
"""Sources of triplets, in the order in which they are drawn."""
COLOURS = 8
"""Maximum number of entities drawn per photograph, so that their colours can be distinguished."""


@dataclass(frozen=True)
class SampleSheet:
    """A contact sheet and its content."""

    drawing: Drawing
    split: str
    shown: int
    total: int  # images of the split


def draw_samples(root: Path, split: str | None, count: int, seed: int, triplets: bool = False) -> SampleSheet:
    """Draw ``count`` images of a split of a data set, images with boxes first.

    Without a split a validation split is taken, or the first split if there is none. With ``triplets``, the texts with
    boxes of AMC's training are drawn instead of captions (AMC, Fig. 3).
    """
    loader = recognise(root)
    names = loader.splits(root)
    if not names:
        raise DeixisError(f"{root} has no split. 'deixis data check' lists what is missing.")
    chosen = split or next((name for name in names if name.split(":")[-1].startswith("val")), names[0])
    dataset = loader.load(root, chosen)
    make = data_triplets(loader.NAME)
    card = partial(triplet_card, make=make) if triplets else sample_card
    cards = sample_cards(dataset, count, seed, card)
    title = f"{loader.NAME} · {chosen} · {len(cards)} of {len(dataset):,}"
    drawing = contact_sheet(cards, title, columns=3 if count > 4 else 2)
    return SampleSheet(drawing, chosen, len(cards), len(dataset))


def sample_cards(dataset: Dataset, count: int, seed: int, card: Callable[[Sample], Card] | None = None) -> list[Card]:
    """Cards of ``count`` images in random order, images with boxes first; images that cannot be opened are skipped."""
    samples = list(dataset)
    random.Random(seed).shuffle(samples)
    samples.sort(key=lambda sample: not any(len(entity.boxes) for entity in sample.entities))
    cards: list[Card] = []
    reason = "the split is empty"
    for sample in samples:
        try:
            cards.append((card or sample_card)(sample))
        except (DeixisError, FileNotFoundError) as error:
            reason = str(error)
        if len(cards) == count:
            break
    if not cards:
        raise DeixisError(f"No image of {dataset.split} can be drawn: {reason}")
    return cards


def triplet_card(sample: Sample, make: Callable[[Sample, float], Iterable[Triplet]]) -> Card:
    """The image with boxes of different objects, each with one text: positions first, then attributes."""
    found = sorted(make(sample, MIN_AREA), key=lambda triplet: SOURCES.index(triplet.source))
    chosen = list({triplet.box: triplet for triplet in reversed(found)}.values())[::-1][:TRIPLETS_SHOWN]
    if not chosen:
        raise DeixisError(f"image {sample.image_id} has no triplet. Choose another split.")
    marks = tuple(Mark(triplet.box, "", colour(number)) for number, triplet in enumerate(chosen))
    sentences = tuple((Span(triplet.text, colour(number)),) for number, triplet in enumerate(chosen))
    return Card(sample.open(), marks, sentences, note=sample.image_id)


def sample_card(sample: Sample) -> Card:
    """The image with its boxes, and the captions that mention most of them."""
    frame, boxes = _boxes(sample)
    captions = _select_captions(sample.captions, set(boxes))
    mentions: dict[str, list[str]] = defaultdict(list)  # entity with a box -> its phrases in the captions shown
    for caption in captions:
        for phrase in caption.phrases:
            if phrase.entity in boxes:
                mentions[phrase.entity].append(phrase.text)
    if mentions:
        labels = {entity: _label(min(texts, key=len)) for entity, texts in list(mentions.items())[:COLOURS]}
        colours = {entity: colour(index) for index, entity in enumerate(labels)}
    else:  # no phrase has a box: one colour per class
        named = {entity.id: entity.label for entity in sample.entities if entity.id in boxes}
        classes = list(dict.fromkeys(named.values()))[:COLOURS]
        labels = {entity: label for entity, label in named.items() if label in classes}
        colours = {entity: colour(classes.index(label)) for entity, label in labels.items()}
    marks = [
        Mark(tuple(box), labels[entity] if index == 0 else "", colours[entity])
        for entity in labels
        for index, box in enumerate(sorted(boxes[entity].tolist(), key=lambda box: -geometry.area(box)))
    ]
    marks.sort(key=lambda mark: -geometry.area(mark.box))  # small boxes and their labels on top
    sentences = tuple(tuple(caption_spans(caption, colours)) for caption in captions)
    return Card(sample.open(frame), tuple(marks), sentences, note=sample.image_id)


def caption_spans(caption: Caption, colours: Mapping[str, str]) -> Iterator[Span]:
    """Split the text of a caption into spans, with phrases in the colour of their entity."""
    places = align(caption.text)
    parts: list[tuple[str, str | None]] = []
    at = 0
    for phrase in sorted(caption.phrases, key=lambda phrase: phrase.start):
        ink = colours.get(phrase.entity or "")
        if ink and phrase.start < phrase.end and places.starts[phrase.start] >= at:
            start, end = places.starts[phrase.start], places.ends[phrase.end - 1]
            parts += [(caption.text[at:start], None), (caption.text[start:end], ink)]
            at = end
    parts.append((caption.text[at:], None))
    before = " "
    for text, ink in parts:
        text = re.sub(r"\s+([.,;:!?])", r"\1", text)
        if text.strip():
            yield Span(text, ink, glue=not (before.isspace() or text[0].isspace()))
        before = text[-1:] or before


def _boxes(sample: Sample) -> tuple[int, dict[str, geometry.Array]]:
    """The frame with the most boxes (0 for a photograph), and the boxes ``[M, 4]`` of each entity on it, M > 0."""
    boxed = [entity for entity in sample.entities if len(entity.boxes)]
    frames = [frame for entity in boxed if entity.frames is not None for frame in entity.frames.tolist()]
    best = max(sorted(set(frames)), key=frames.count, default=0)
    here = {e.id: e.boxes if e.frames is None else e.boxes[e.frames == best] for e in boxed}
    return best, {entity: boxes for entity, boxes in here.items() if len(boxes)}


def _select_captions(captions: Sequence[Caption], boxed: Set[str]) -> list[Caption]:
    """Select captions greedily: each time the one that mentions most entities with boxes not mentioned yet."""
    left = list(captions)
    selected: list[Caption] = []
    mentioned: set[str | None] = set()
    while left and len(selected) < CAPTIONS_SHOWN:
        best = max(left, key=lambda c: len({p.entity for p in c.phrases if p.entity in boxed} - mentioned))
        mentioned |= {phrase.entity for phrase in best.phrases}
        left.remove(best)
        selected.append(best)
    return selected


def _label(phrase: str) -> str:
    """A phrase without its article, shortened at a word boundary."""
    return shorten(re.sub(r"^(an?|the) (?=\S)", "", phrase, flags=re.IGNORECASE), 28, placeholder=" …")
