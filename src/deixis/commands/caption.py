"""``deixis caption``: sentences about photographs, in which every noun points at its place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.text import Text

from deixis.cache import cache_folder
from deixis.commands.captions_file import CaptionsFile
from deixis.commands.console import Clock, stderr_console, terminable, track
from deixis.errors import DeixisError, UsageError
from deixis.images import load_image
from deixis.photographs import images_in
from deixis.pipelines.load import CAPTIONER
from deixis.types import GroundedCaption, Json, Regions
from deixis.vision.bulk import Job, Outcome, Workers, available_cores, outcome_of

if TYPE_CHECKING:
    from deixis.methods.updown.model import Captioner
    from deixis.pipelines.caption import Told
    from deixis.vision.extractor import Extractor

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

BATCH = 16  # photographs that are captioned, and written, together
SHOWN = 20  # unreadable files that are listed at the end
WORTH_PROCESSES = 24  # photographs; a process takes seconds to load torch


def caption(
    photos: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO|DIR")],
    model: str = CAPTIONER,
    finder: str | None = None,
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
    """Say what is in a photograph, or in every photograph of a folder; each noun has its box.

    With --out, stop it whenever you like: the same command goes on where it was. Files that cannot be read are named
    at the end and passed over. "Not sure" stands with a sentence that would be about as likely if there were nothing
    to see.

    For example: deixis caption photo.jpg --draw captioned.png

    Args:
        photos: photographs, and folders of them, looked through with their subfolders.
        model: a name of the package, or the folder of a captioner (see deixis models).
        finder: a model that finds phrases, by name or folder; it judges which sentence is about the photograph, if it
            can, and the nouns of the sentence get their boxes from it. If not given, the captioner of the package has
            that of the package, and others have none; "none": none.
        draw: write the photograph with its boxes and its sentence (.png, .jpg, .svg); of several photographs the
            folder for their pictures.
        branches: write where each branch of the captioner looked for each noun (.png, .svg), of one photograph.
        out: append a line of JSON for each photograph to this file; those that are in it already are passed over.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        processes: how many look at photographs at the same time; one for each core if not given, if it is worth it.
        threads: of torch; 0: one for each core.
        as_json: write a line of JSON for each photograph to stdout instead of its sentence.
        profile: tell where time and memory went.
        quiet: no progress, no notes, no picture in the terminal.
    """
    if not photos:
        print("deixis caption: name a photograph or a folder, as in: deixis caption photo.jpg", file=sys.stderr)
        return 2
    if processes is not None and processes < 1:
        raise UsageError("--processes must be at least 1.")
    wanted = find_photographs(photos)
    alone = len(wanted) == 1 and not photos[0].is_dir()
    if branches is not None and not alone:
        raise UsageError("--branches draws one photograph; name it.")
    pictures = picture_files(draw, wanted, alone)
    talk, clock = stderr_console(quiet), Clock()
    with talk.status("loading torch"), clock.measure("import"):
        import torch

        from deixis.pipelines.caption import load_teller
    if threads:
        torch.set_num_threads(threads)
    with talk.status("loading the model"), clock.measure("load"):
        teller = load_teller(model, finder, device)
    with nullcontext() if out is None else CaptionsFile(out, teller.name) as file:
        left = [path for path in wanted if file is None or str(path) not in file.done]
        done = Done(before=len(wanted) - len(left))
        if done.before:
            talk.print(f"{done.before:,} of {len(wanted):,} photographs were captioned before.")

        def deliver(waiting: list[Outcome]) -> None:
            regions = [outcome.regions for outcome in waiting if outcome.regions is not None]
            names = [outcome.job.image_id for outcome in waiting]
            with clock.measure("caption"):
                told = teller.tell(regions, [partial(load_image, name) for name in names], names)
            if branches is not None:
                draw_looks(told[0], regions[0], branches)
            for one in told:
                if draw is not None:
                    save_picture(one.caption, pictures[one.caption.image])
                if file is not None:
                    file.write(one.to_json())
                if as_json:
                    print(json.dumps(one.to_json(), ensure_ascii=False))
                elif file is None:
                    show(one, talk, alone, draw)
                done.captions += 1
                done.unsure += not one.sure
                del waiting[0]  # only now: a user who stops in between loses nothing

        outcomes = clock.each("regions", look(teller.captioner, left, _processes(processes, len(left))))
        if len(left) > 1 and (not sys.stdout.isatty() or (file is not None and not as_json)):
            outcomes = track(outcomes, len(left), talk)  # else what is said shows how far it is
        try:
            caption_all(outcomes, deliver, done.bad)
        except KeyboardInterrupt:
            if out is not None:
                safe = done.before + done.captions
                talk.print(f"{safe:,} captions are safe in {out}; the same command goes on from there.", markup=False)
            raise
    done.tell(talk, alone, out)
    for picture in (draw, branches):
        if picture is not None:
            talk.print(f"drawn: {picture}", markup=False)
    if profile:
        talk.print(clock.table())
    return 0


# The photographs --------------------------------------------------------------------------------------------------


def find_photographs(given: Sequence[Path]) -> list[Path]:
    """The files that are given, and the images of folders that are given, each once."""
    if len(given) == 1 and not given[0].exists():
        load_image(given[0])  # says so before anything is loaded
    found: dict[Path, None] = {}
    for path in given:
        inside = list(images_in(path)) if path.is_dir() else [path]
        if not inside:
            raise DeixisError(f"{path} has no photographs in it, nor have its subfolders; is it the right folder?")
        found.update(dict.fromkeys(inside))
    return list(found)


def look(captioner: Captioner, photographs: Sequence[Path], processes: int) -> Iterator[Outcome]:
    """The regions of every photograph, in their order, or why there are none."""
    jobs = [Job(str(path), (path,)) for path in photographs]
    if processes == 1:
        for job in jobs:
            yield outcome_of(captioner.eyes.extractor, job)
        return
    eyes = captioner.eyes
    with Workers(partial(_extractor, eyes.description, eyes.grid, str(eyes.device)), processes) as workers:
        outcomes = workers.run(jobs)
        early: dict[str, Outcome] = {}
        for job in jobs:
            while job.image_id not in early:
                outcome = next(outcomes)
                early[outcome.job.image_id] = outcome
            yield early.pop(job.image_id)


def _extractor(description: Json, grid: int, device: str) -> Extractor:
    from deixis.device import choose  # runs in the worker
    from deixis.vision.extractor import extractor_from

    return extractor_from(description, grid).to(choose(device))


def _processes(asked: int | None, photographs: int) -> int:
    if asked is not None:
        return max(1, min(asked, photographs))
    return available_cores() if photographs >= WORTH_PROCESSES else 1


# Captioning -------------------------------------------------------------------------------------------------------


@dataclass
class Done:
    """What has been done so far."""

    before: int  # photographs that had a caption already
    captions: int = 0
    unsure: int = 0
    bad: list[str] = field(default_factory=list)  # a reason that names the file, for each that could not be read

    def tell(self, talk: Console, alone: bool, out: Path | None) -> None:
        """Sum up; where nothing at all could be used that is an error."""
        if self.bad and not self.captions and not self.before:
            others = "" if alone else f" Not one of {len(self.bad):,} photographs could be used."
            raise DeixisError(self.bad[0] + others)
        if alone:
            return
        unsure = f", not sure of {self.unsure:,}" if self.unsure else ""
        place = "" if out is None else f" added to {out}"
        passed = f", {len(self.bad):,} file{'s' * (len(self.bad) > 1)} passed over:" if self.bad else ""
        talk.print(f"{self.captions:,} captions{place}{unsure}{passed}", markup=False)
        for reason in self.bad[:SHOWN]:
            talk.print(f"  {reason}", markup=False)
        if len(self.bad) > SHOWN:
            talk.print(f"  ... and {len(self.bad) - SHOWN:,} more")


def caption_all(outcomes: Iterator[Outcome], deliver: Callable[[list[Outcome]], None], bad: list[str]) -> None:
    """Deliver batches as they fill; what was looked at when the user stops is still delivered.

    ``deliver`` takes what it has delivered out of the list.
    """
    waiting: list[Outcome] = []
    try:
        with terminable():
            for outcome in outcomes:
                if outcome.regions is None:
                    bad.append(_named(outcome))
                    continue
                waiting.append(outcome)
                if len(waiting) == BATCH:
                    deliver(waiting)
            if waiting:
                deliver(waiting)
    except KeyboardInterrupt:
        if waiting:
            deliver(waiting)
        raise


def _named(outcome: Outcome) -> str:
    name = outcome.job.image_id
    return outcome.reason if name in outcome.reason else f"{name}: {outcome.reason}"


# Showing ----------------------------------------------------------------------------------------------------------


def picture_files(draw: Path | None, photographs: Sequence[Path], alone: bool) -> dict[str, Path]:
    """Photograph -> the file of its picture: the one that is named, or one under its own name in a folder."""
    if draw is None:
        return {}
    if alone:
        return {str(photographs[0]): draw}
    if draw.suffix.lower() in (".png", ".jpg", ".jpeg", ".svg", ".webp"):
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


def save_picture(caption: GroundedCaption, file: Path) -> None:
    """Draw the caption on its photograph."""
    from deixis.show.draw import draw_caption
    from deixis.show.drawing import save_drawing

    file.parent.mkdir(parents=True, exist_ok=True)
    save_drawing(draw_caption(load_image(caption.image), caption), file)


def draw_looks(told: Told, regions: Regions, file: Path) -> None:
    """Draw where each branch looked for each noun."""
    from deixis.show.drawing import save_drawing
    from deixis.show.panels import draw_branches

    caption, looks = told.caption, told.looks
    votes = [looks.voted[one.start] for one in caption.groundings]
    save_drawing(draw_branches(load_image(caption.image), caption, looks.places(caption, regions), votes), file)


def show(told: Told, talk: Console, alone: bool, drawn: Path | None = None) -> None:
    """The sentence on stdout: coloured on a terminal, which also shows the picture if it can; plain in a pipe.

    A terminal that cannot is told where the picture lies: the file that was ``drawn``, or else one in the cache.
    """
    caption = told.caption
    if not sys.stdout.isatty():
        print(caption.caption if alone else f"{caption.image}\t{caption.caption}")
        if alone and told.note:
            talk.print(told.note, markup=False)
        return
    from deixis.show.draw import draw_caption
    from deixis.show.terminal import encode_picture, find_protocol

    pictured = alone and not talk.quiet
    protocol = find_protocol(os.environ)
    if pictured and protocol is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(encode_picture(draw_caption(load_image(caption.image), caption).to_image(), protocol))
        sys.stdout.buffer.flush()
    line = Text().append("" if alone else f"{caption.image}  ", "dim")
    line.append(coloured(caption))
    line.append("" if alone or told.sure else "  (not sure)", "dim")
    Console(highlight=False, soft_wrap=True).print(line)
    if alone and told.note:
        talk.print(told.note, markup=False, style="dim")
    if pictured and protocol is None and drawn is None:
        with suppress(DeixisError, OSError):  # a full disk takes the picture only, the answer is given
            file = cache_folder() / "captioned.png"  # of the last photograph
            save_picture(caption, file)
            talk.print(f"picture: {file}", markup=False, style="dim")


def coloured(caption: GroundedCaption) -> Text:
    """The sentence; every grounded word stands on the colour of its box."""
    from deixis.show.draw import caption_spans, text_on

    line = Text()
    for span in caption_spans(caption):
        line.append(" " if line and not span.glue else "")
        line.append(span.text, f"bold {text_on(span.colour)} on {span.colour}" if span.colour else "")
    return line
