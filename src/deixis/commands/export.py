"""``deixis export``: predictions in the formats of other tools, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from deixis.data import Skipped, load
from deixis.errors import DeixisError, UsageError
from deixis.exports import FILES, Format, look_up, put_into_captions, read, write
from deixis.photographs import Photographs

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

LISTED = 10
"""How many of the records that were left out people are shown; --json lists all."""


def export(
    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="IN")],
    *,
    to: Format,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    images: Path | None = None,
    data: Path | None = None,
    split: str = "",
    image: str = "",
    prefix: str = "/data/local-files/?d=",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Write predictions in the format of another tool, or bring that format back.

    What is read is recognised: our JSON lines (captions or phrases), outputs of Florence-2 and Kosmos-2, COCO results,
    and every format that is written. Captions of your own become boxes to correct: find their phrases, and give the
    folder of the captions as --data.

    For example: deixis export captions.jsonl --to label-studio --out tasks --images photos

    Args:
        source: the predictions, or an export.
        to: the format to write. coco, label-studio, flickr30k-entities and pascal-voc are folders, csv and jsonl files.
        out: where it goes; nothing is written anywhere else.
        images: the folder of the photographs, for sizes and file names that the predictions do not tell.
        data: a data set whose captions the phrases are of; they come back as grounded captions.
        split: which split of --data (test if not given), and what the split that is written is called.
        image: the photograph that is meant where the predictions name none.
        prefix: what makes the name of an image its address in Label Studio.
        as_json: write a summary to stdout as JSON.
        quiet: say nothing.
    """
    if out.is_dir() if to in FILES else out.is_file():
        kind = f"a file such as predictions{FILES[to]}" if to in FILES else "a folder"
        raise DeixisError(f"{out} is in the way; {to} is written to {kind}.")
    if split and Path(split).name != split:
        raise UsageError(f"--split is '{split}'; a plain name such as test belongs there.")
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    skipped: list[Skipped] = []
    with talk.status(escape(f"reading {source}")) as status:
        pictures = read(source, skipped, image)
        if data is not None:
            status.update(escape(f"reading {data}"))
            pictures = put_into_captions(pictures, load(data, split or "test"))
        if images is not None:
            pictures = look_up(pictures, Photographs(images), skipped)
        if not pictures:
            raise DeixisError(f"{source} holds nothing to export{_first(skipped)}.")
        status.update(escape(f"writing {out}"))
        skipped += write(pictures, to, out, split=split, prefix=prefix, quiet=quiet)
    captions = sum(len(picture.captions) for picture in pictures)
    boxes = sum(len(picture.places()) for picture in pictures)
    if as_json:
        counts = {"images": len(pictures), "captions": captions, "boxes": boxes}
        left_out = [{"file": note.file, "line": note.line, "reason": note.reason} for note in skipped]
        print(json.dumps({"out": str(out), "format": to, **counts, "skipped": left_out}, ensure_ascii=False, indent=2))
    for note in skipped[:LISTED]:
        talk.print(f"left out: {note}", markup=False)
    if len(skipped) > LISTED:
        talk.print(f"and {len(skipped) - LISTED:,} more left out; --json lists them all")
    talk.print(f"{out}: {len(pictures):,} images, {captions:,} captions, {boxes:,} boxes as {to}", markup=False)
    return 0


def _first(skipped: Sequence[Skipped]) -> str:
    return f" ({len(skipped):,} records are bad; the first: {skipped[0]})" if skipped else ""
