"""``deixis caption``: caption photographs; each noun phrase has a box."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from deixis.commands.captions_file import CaptionsFile
from deixis.commands.caption_output import Summary, picture_files, save_branches, save_picture, show
from deixis.commands.clock import Clock
from deixis.commands.features import cores, terminable, watched
from deixis.errors import UsageError
from deixis.pipelines.models import DEFAULT_CAPTIONER
from deixis.types import Json

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def caption(
    photos: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO|DIR")],
    model: str = DEFAULT_CAPTIONER,
    grounder: str | None = None,
    rerank: RerankOption = "grounder",
    place: PlaceOption | None = None,
    check: CheckOption = "all",
    draw: Path | None = None,
    branches: Path | None = None,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    device: str = "auto",
    processes: int | None = None,
    threads: int = 0,
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    profile: Switch = False,
    quiet: Switch = False,
) -> int:
    """Caption photographs; each noun phrase has a box.

    With --out, an interrupted run resumes with the same command. Unreadable files are skipped and listed at the end.
    "Low confidence" marks a sentence that a check found unreliable.

    For example: deixis caption photo.jpg --draw captioned.png

    Args:
        photos: photographs, and folders of photographs (with subfolders).
        model: captioner, a name of the package or a folder (see deixis models).
        grounder: phrase grounder that reranks the sentences and grounds their noun phrases, by name or folder. If not
            given, the default captioner uses the default grounder and others none; "none": none.
        rerank: choose the sentence with the grounder's match scores, or by its own probability (none).
        place: rule for the boxes: the captioner's attention (attention, vote), the grounder (grounder), or one of the
            grounder's rules (heat, alpha, threshold). If not given: the grounder where there is one.
        check: run the checks of a caption (second look, out of distribution, match, information gain), or none.
        draw: write the photograph with boxes and sentence (.png, .jpg, .svg); for several photographs a folder.
        branches: write the attention of each branch of the captioner for each noun phrase, for one photograph.
        out: append a line of JSON for each photograph to this file; photographs that it has are skipped.
        device: auto (the fastest here), cpu, cuda, cuda:1, mps.
        processes: processes that extract regions; by default one per core if there are many photographs.
        threads: threads of torch; 0: one per core.
        as_json: write a line of JSON for each photograph to stdout instead of its sentence.
        profile: print time and memory of each part.
        quiet: no progress, no notes, no picture in the terminal.
    """
