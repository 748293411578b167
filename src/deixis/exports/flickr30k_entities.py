"""Flickr30k Entities: ``Sentences/<id>.txt`` with marked phrases, ``Annotations/<id>.xml`` with boxes, split list.

Each grounding is a separate chain of type "other", because coreference is unknown. Boxes have 1-based inclusive
integer corners. A phrase without a caption is written as a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deixis import boxes as geometry
from deixis.data import flickr30k_entities as official
from deixis.data.sample import Caption, Sample, Skipped
from deixis.errors import DeixisError
from deixis.exports.picture import Picture, PictureBuilder, Size, box_of, file_names, split_ending, text_and_spans
from deixis.exports.xml import box_element, element, save
from deixis.files import write_atomic
from deixis.language.tokenise import tokens
from deixis.types import GroundedCaption, Grounding

SPLIT = "test"
_BRACKETS = str.maketrans("[]", "()")  # brackets mark phrases and cannot be escaped


def write(pictures: Sequence[Picture], out: Path, split: str, skipped: list[Skipped]) -> None:
    """Write sentences, boxes and the split list."""
    for folder in ("Sentences", "Annotations"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    listed, chain = [], 0
    names = file_names(pictures)
    for picture in pictures:
        lines: list[str] = []
        placed: list[Grounding] = []
        for caption in (*picture.captions, *(_phrase_caption(answer.grounding) for answer in picture.answers)):
            if caption.words:
                kept = _without_overlaps(caption, picture.image, skipped)
                lines.append(_marked(caption, kept, chain + len(placed) + 1))
                placed += kept
            else:
                skipped.append(Skipped(picture.image, "a caption without words cannot be written in this format"))
        if not lines:
            continue
        stem, ending = split_ending(names[picture.image])
        listed.append(stem)
        write_atomic(out / "Sentences" / f"{stem}.txt", "\n".join(lines) + "\n", sync=False)
        root = element("annotation", ("filename", stem + (ending or ".jpg")))
        if picture.size is not None:
            width, height = picture.size
            root.append(element("size", ("width", width), ("height", height), ("depth", 3)))
        for grounding in placed:
            chain += 1
            root.append(element("object", ("name", chain), box_element(grounding, picture.size)))
        save(root, out / "Annotations" / f"{stem}.xml")
    write_atomic(out / f"{split}.txt", "".join(f"{stem}\n" for stem in listed))


def _phrase_caption(grounding: Grounding) -> GroundedCaption:
    """Build a caption that consists of one phrase."""
    words = tokens(grounding.text)
    whole = Grounding(grounding.text, grounding.box, grounding.score, 0, len(words))
    return GroundedCaption(words, (whole,) if words else (), caption=grounding.text)


def _without_overlaps(caption: GroundedCaption, image: str, skipped: list[Skipped]) -> list[Grounding]:
    """Groundings without common words, in caption order; of two that overlap, keep the first."""
    kept: list[Grounding] = []
    for grounding in sorted(caption.groundings, key=lambda g: (g.start, -g.end)):
        if kept and grounding.start < kept[-1].end:
            reason = f"'{grounding.text}' overlaps '{kept[-1].text}'; this format has no overlapping phrases"
            skipped.append(Skipped(image, reason))
        else:
            kept.append(grounding)
    return kept


def _marked(caption: GroundedCaption, kept: Sequence[Grounding], chain: int) -> str:
    text, places = text_and_spans(caption)
    text = text.translate(_BRACKETS)
    line, at = "", 0
    for number, grounding in enumerate(kept, start=chain):
        start, end = places[grounding.start][0], places[grounding.end - 1][1]
        line += f"{text[at:start]}[/EN#{number}/other {text[start:end]}]"
        at = end
    return line + text[at:]


def read(path: Path, skipped: list[Skipped]) -> list[Picture]:
    """Read an exported folder or the data set: each phrase with a box is a grounding.

    A sentence that consists of one phrase is a caption too. Several boxes of a chain become their union, with the boxes
    as its parts.
    """
    splits = official.splits(path)
    if not splits:
        raise DeixisError(f"{path} has no split list. Expected {' or '.join(f'{s}.txt' for s in official.SPLITS)}.")
    builder = PictureBuilder()
    for split in splits:
        dataset = official.load(path, split)
        # ignore the entry "expected 5 captions", the only one for a text file without a line number
        skipped += [note for note in dataset.skipped if note.line is not None or not note.file.endswith(".txt")]
        for sample in dataset:
            builder.add_image(sample.image_id, sample.size)
            for caption in sample.captions:
                builder.add_caption(_grounded(sample, caption))
    return builder.pictures()


def _grounded(sample: Sample, caption: Caption) -> GroundedCaption:
    groundings = []
    for phrase in caption.phrases:
        entity = None if phrase.entity is None else sample.entity(phrase.entity)
        if entity is not None and len(entity.boxes) and phrase.start < phrase.end:
            parts = tuple(map(box_of, entity.boxes)) if len(entity.boxes) > 1 else ()
            box = box_of(geometry.union(entity.boxes))
            groundings.append(Grounding(phrase.text, box, 1.0, phrase.start, phrase.end, parts))
    size: Size = sample.size or (0, 0)
    return GroundedCaption(caption.tokens, tuple(groundings), None, sample.image_id, *size, caption=caption.text)
