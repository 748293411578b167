"""Captions for people: a coloured line in a terminal, a picture in it, and files of pictures."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from deixis.cache import PICTURE, make_cache_folder
from deixis.errors import DeixisError, UsageError, display_name
from deixis.files import json_text, make_folder
from deixis.localize.attention import branch_groundings
from deixis.pipelines.captions_file import CaptionsFile
from deixis.pipelines.results import CaptionResult
from deixis.show.draw import caption_spans, text_on
from deixis.show.drawing import save_drawing
from deixis.show.plain_console import PlainConsole
from deixis.show.terminal import encode_picture, find_protocol
from deixis.types import GroundedCaption

PICTURES = (".png", ".jpg", ".jpeg", ".svg", ".webp")


@dataclass(frozen=True, eq=False)
class CaptionOutput:
    """Where captions are written: to stdout, as lines of a file, as pictures."""

    console: PlainConsole  # for notes
    alone: bool  # there is one photograph
    as_json: bool  # lines of JSON to stdout
    file: CaptionsFile | None
    pictures: Mapping[str, Path]  # of :func:`picture_files`; empty: none are drawn
    branches: Path | None  # of :func:`save_branches`

    def write(self, result: CaptionResult) -> None:
        """Write one caption to all of them; without a file, sentences for people are printed."""
        if self.pictures:
            save_picture(result, self.pictures[result.caption.image])
        if self.branches is not None:
            save_branches(result, self.branches)
        if self.file is not None:
            self.file.write(result.to_dict())
        if self.as_json:
            print(json_text(result.to_dict()), flush=True)
        elif self.file is None:
            print_caption(result, self.console, self.alone, bool(self.pictures))


def print_caption(result: CaptionResult, console: Console, alone: bool, drawn: bool) -> None:
    """Print a sentence to stdout: coloured on a terminal, plain in a pipe; notes go to ``console``.

    A single photograph is also shown as a picture, where the terminal can. Where it cannot, the picture is written to
    the cache folder and its path is printed, unless it was ``drawn`` to a file already.
    """
    if not sys.stdout.isatty():
        print(result.text if alone else f"{display_name(result.caption.image)}\t{result.text}")
        if alone and result.note:
            console.print(result.note, markup=False)
        return
    pictured = alone and not console.quiet
    protocol = find_protocol(os.environ)
    if pictured and protocol is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(encode_picture(result.image(), protocol))
        sys.stdout.buffer.flush()
    line = Text().append("" if alone else f"{display_name(result.caption.image)}  ", "dim")
    line.append(coloured(result.caption))
    line.append("" if alone or result.confident else "  (low confidence)", "dim")
    Console(highlight=False, soft_wrap=True).print(line)
    if alone and result.note:
        console.print(result.note, markup=False, style="dim")
    if pictured and protocol is None and not drawn:
        with suppress(DeixisError, OSError):  # a full disk costs the picture only
            file = make_cache_folder() / PICTURE
            save_picture(result, file)
            file.chmod(0o600)
            console.print(f"picture: {file}", markup=False, style="dim")


def coloured(caption: GroundedCaption) -> Text:
    """Return the sentence; every grounded phrase has the colour of its box."""
    line = Text()
    for span in caption_spans(caption):
        line.append(" " if line and not span.glue else "")
        line.append(span.text, f"bold {text_on(span.colour)} on {span.colour}" if span.colour else "")
    return line


def picture_files(draw: Path, photographs: Sequence[Path], alone: bool) -> dict[str, Path]:
    """Return photograph -> file of its picture: the given file, or one with the photograph's name in a folder."""
    if alone:
        return {str(photographs[0]): draw}
    if draw.suffix.lower() in PICTURES:
        raise UsageError(f"there are several photographs: --draw {draw} must be a folder for their pictures.")
    absolute = [path.absolute() for path in photographs]
    root = Path(os.path.commonpath([path.parent for path in absolute]))
    owners: dict[Path, str] = {}
    for path, full in zip(photographs, absolute, strict=True):
        file = draw / full.relative_to(root).with_suffix(".png")
        if file in owners:  # a.jpg and a.png
            file = file.with_name(f"{full.name}.png")
        owners[file] = str(path)
    return {photograph: file for file, photograph in owners.items()}


def save_picture(result: CaptionResult, file: Path) -> None:
    """Write the photograph with its boxes and sentence; a file named words.png has the attention at every word."""
    make_folder(file.parent)
    if file.stem == "words" or file.stem.endswith("-words"):
        save_drawing(result.words_drawing(), file)
    else:
        result.save(file)


def save_branches(result: CaptionResult, file: Path) -> None:
    """Write the attention of each branch at each noun phrase."""
    from deixis.show.panels import draw_branches

    groundings, trace = result.groundings, result.trace
    masks = [trace.branch_mask[one.start if one.head is None else one.head] for one in groundings]
    branches = branch_groundings(trace, groundings)
    if result.caption.times:
        raise DeixisError("--branches draws one photograph. For a clip, use --draw words.png.")
    save_drawing(draw_branches(result.photograph(), result.caption, branches, masks), file)
