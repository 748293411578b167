"""``deixis data check`` and ``deixis data show``: what a data set holds, in numbers and to the eye."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deixis import boxes as geometry
from deixis.commands.answers import answers
from deixis.data import Caption, Dataset, Sample, recognise
from deixis.data.report import Report, inspect
from deixis.errors import DeixisError, UsageError
from deixis.language.tokenise import align

if TYPE_CHECKING:
    from deixis.show.draw import Span
    from deixis.show.sheet import Card

LISTED = 10
"""How many skipped records people are shown; --json lists all."""
CAPTIONS_SHOWN = 2
COLOURS = 8
"""How many entities of a picture are drawn: as many as there are colours to tell apart."""

Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Flag = tyro.conf.FlagCreatePairsOff[bool]


def check(
    root: Folder,
    as_json: Annotated[Flag, tyro.conf.arg(name="json")] = False,
    quiet: Flag = False,
) -> int:
    """Recognise a data set, count what is there, and name what is missing or cannot be read.

    For example: deixis data check path/to/flickr30k-entities

    Args:
        root: the folder that holds the data set.
        as_json: write the report to stdout as JSON.
        quiet: no progress and no table.
    """
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    with talk.status("reading") as status:
        report = inspect(root, lambda split: status.update(escape(f"reading {split} of {root}")))
    if as_json:
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        _tell(report, root, answers(quiet))
    for warning in report.warnings:
        talk.print(f"warning: {warning}", markup=False)
    return 0


def show(
    root: Folder,
    n: int = 6,
    split: str | None = None,
    out: Path = Path("sheet.png"),
    seed: int = 0,
    quiet: Flag = False,
) -> int:
    """Draw a contact sheet: pictures with their boxes, and captions whose phrases have the colours of the boxes.

    For example: deixis data show path/to/flickr30k-entities --n 6 --out sheet.png

    Args:
        root: the folder that holds the data set.
        n: how many pictures; those with boxes are taken first.
        split: which split to draw from (default: val where there is one).
        out: the picture to write (.png, .svg, .jpg, ...).
        seed: which pictures are drawn.
        quiet: say nothing.
    """
    from deixis.show.drawing import save_drawing
    from deixis.show.sheet import contact_sheet

    if n < 1:
        raise UsageError(f"--n is {n}; a sheet needs at least one picture.")
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    with talk.status(escape(f"reading {root}")) as status:
        loader = recognise(root)
        names = loader.splits(root)
        if not names:
            raise DeixisError(f"{root} has no split to draw from; 'deixis data check' says which list is missing.")
        chosen = split or next((name for name in names if name.split(":")[-1].startswith("val")), names[0])
        dataset = loader.load(root, chosen)
        status.update("drawing")
        cards = _cards(dataset, n, seed)
        title = f"{loader.NAME} · {chosen} · {len(cards)} of {len(dataset):,}"
        sheet = contact_sheet(cards, title, columns=3 if n > 4 else 2)
    save_drawing(sheet, out)
    talk.print(f"{out}: {len(cards)} of the {len(dataset):,} pictures of {chosen}", markup=False)
    return 0


def _tell(report: Report, root: Path, said: Console) -> None:
    said.print(f"[bold]{report.dataset}[/bold] in {escape(str(root))}\n")
    table = Table("split", box=None, pad_edge=False, padding=(0, 2))
    for column in ("images", "captions", "phrases", "boxed images", "boxes"):
        table.add_column(column, justify="right")
    for split, counts in report.splits.items():
        table.add_row(split, *(f"{number:,}" for number in asdict(counts).values()))
    said.print(table)
    said.print(f"\nskipped records: {len(report.skipped):,}")
    for entry in report.skipped[:LISTED]:
        said.print(f"  {entry}", markup=False)
    if len(report.skipped) > LISTED:
        said.print(f"  and {len(report.skipped) - LISTED:,} more; --json lists them all")
    said.print(f"missing: {len(report.missing) or 'nothing'}")
    for lack in report.missing:
        much = f" ({lack.count:,} absent, such as {', '.join(lack.examples)})" if lack.examples else ""
        need = "needed" if lack.required else "not needed"
        said.print(f"  {lack.file}{much}: {lack.purpose}; {need}.\n    From {lack.publisher}.", markup=False)


# The cards of the sheet ---------------------------------------------------------------------------------------------


def _cards(dataset: Dataset, n: int, seed: int) -> list[Card]:
    """n cards, samples with boxes first, in an order that the seed decides; samples without a picture are passed by."""
    samples = list(dataset)
    random.Random(seed).shuffle(samples)
    samples.sort(key=lambda sample: not any(len(entity.boxes) for entity in sample.entities))
    cards: list[Card] = []
    trouble = "the split is empty"
    for sample in samples:
        try:
            cards.append(_card(sample))
        except (DeixisError, FileNotFoundError) as error:
            trouble = str(error)
        if len(cards) == n:
            break
    if not cards:
        raise DeixisError(f"no picture of {dataset.split} can be drawn: {trouble}")
    return cards


def _card(sample: Sample) -> Card:
    from deixis.show.draw import Mark, colour
    from deixis.show.sheet import Card

    frame, boxes = _boxes(sample)
    captions = _tell_most(sample.captions, set(boxes))
    mentions: dict[str, list[str]] = defaultdict(list)  # boxed entity -> how the captions shown call it
    for caption in captions:
        for phrase in caption.phrases:
            if phrase.entity in boxes:
                mentions[phrase.entity].append(phrase.text)
    if mentions:
        labels = {entity: _short(min(texts, key=len)) for entity, texts in list(mentions.items())[:COLOURS]}
        colours = {entity: colour(index) for index, entity in enumerate(labels)}
    else:  # no caption is tied to a box: one colour for each class
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
    sentences = tuple(tuple(_spans(caption, colours)) for caption in captions)
    return Card(sample.open(frame), tuple(marks), sentences, note=sample.image_id)


def _boxes(sample: Sample) -> tuple[int, dict[str, geometry.Array]]:
    """The frame with the most boxes (0 for a photograph), and the boxes ``[M, 4]`` of each entity on it, M > 0."""
    boxed = [entity for entity in sample.entities if len(entity.boxes)]
    frames = [frame for entity in boxed if entity.frames is not None for frame in entity.frames.tolist()]
    best = max(sorted(set(frames)), key=frames.count, default=0)
    here = {e.id: e.boxes if e.frames is None else e.boxes[e.frames == best] for e in boxed}
    return best, {entity: boxes for entity, boxes in here.items() if len(boxes)}


def _tell_most(captions: Sequence[Caption], boxed: Set[str]) -> list[Caption]:
    """The captions to show: each in turn the one that speaks of most boxed entities not spoken of yet."""
    left = list(captions)
    chosen: list[Caption] = []
    told: set[str | None] = set()
    while left and len(chosen) < CAPTIONS_SHOWN:
        best = max(left, key=lambda c: len({p.entity for p in c.phrases if p.entity in boxed} - told))
        told |= {phrase.entity for phrase in best.phrases}
        left.remove(best)
        chosen.append(best)
    return chosen


def _short(phrase: str) -> str:
    """A phrase as a label: without its article, cut at a word when it is long."""
    return shorten(re.sub(r"^(an?|the) (?=\S)", "", phrase, flags=re.IGNORECASE), 28, placeholder=" …")


def _spans(caption: Caption, colours: Mapping[str, str]) -> Iterator[Span]:
    """The caption's text, with phrases in the colour of their entity and punctuation close to its word."""
    from deixis.show.draw import Span

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
