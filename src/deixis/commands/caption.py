"""``deixis caption``: sentences about photographs, in which every noun points at its place."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import tyro
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from deixis.commands.features import SHOWN, cores, terminable, watched
from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.language.sentence import end, pieces
from deixis.models.pretrained import CAPTIONER
from deixis.photographs import images_in
from deixis.types import GroundedCaption, Json, Regions
from deixis.vision.bulk import Job, Outcome, Workers, outcome_of

if TYPE_CHECKING:
    from deixis.models.captioner import Captioner, Looks
    from deixis.vision.extractor import Extractor

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

BATCH = 16  # photographs that are captioned, and written, together
WORTH_PROCESSES = 24  # photographs; a process takes seconds to load torch


def caption(
    photos: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO|DIR")],
    model: str = CAPTIONER,
    draw: Path | None = None,
    branches: Path | None = None,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
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
        draw: write the photograph with its boxes and its sentence (.png, .jpg, .svg); of several photographs the
            folder for their pictures.
        branches: write where each branch of the captioner looked for each noun (.png, .svg), of one photograph.
        out: append a line of JSON for each photograph to this file; those that are in it already are passed over.
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
        raise DeixisError("--processes must be at least 1.")
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    wanted = find_photographs(photos)
    clock = Clock()
    with talk.status("loading torch"), clock.measure("import"):
        import torch

        from deixis.models.confidence import SURE, Confidence
        from deixis.models.pretrained import load_captioner
    if threads:
        torch.set_num_threads(threads)
    with talk.status("loading the model"), clock.measure("load"):
        captioner = load_captioner(model)
        confidence = Confidence(captioner)
    alone = len(wanted) == 1 and not photos[0].is_dir()
    if branches is not None and not alone:
        raise DeixisError("--branches draws one photograph; name it.")
    pictures = Pictures(draw, wanted, alone)
    with ExitStack() as stack:
        file = None if out is None else stack.enter_context(CaptionsFile(out, captioner.name))
        left = [path for path in wanted if file is None or str(path) not in file.done]
        if len(left) < len(wanted):
            talk.print(f"{len(wanted) - len(left):,} of {len(wanted):,} photographs were captioned before.")
        told = Told()

        def deliver(outcomes: Sequence[Outcome]) -> None:
            regions = [outcome.regions for outcome in outcomes if outcome.regions is not None]
            with clock.measure("caption"):
                said = list(captioner.looks(regions, [outcome.job.image_id for outcome in outcomes]))
                found = [one for one, _ in said]
                sure = [gain >= SURE for gain in confidence.gains(found)]
            if branches is not None:
                draw_looks(*said[0], regions[0], branches)
            for one, certain in zip(found, sure, strict=True):
                pictures.save(one)
                if file is not None:
                    file.write(one.to_json())
                if as_json:
                    print(json.dumps(one.to_json(), ensure_ascii=False))
                elif file is None:
                    show(one, certain, talk, alone)
            told.captions += len(found)
            told.unsure += sure.count(False)

        outcomes = clock.each("regions", look(captioner, left, _processes(processes, len(left))))
        caption_all(watched(outcomes, len(left), talk) if len(left) > 1 else outcomes, deliver, told, file, talk)
    _summary(told, wanted, left, file, pictures, talk, alone)
    if profile:
        talk.print(clock.table())
    return 0


# The photographs --------------------------------------------------------------------------------------------------


def find_photographs(given: Sequence[Path]) -> list[Path]:
    """The files that are given, and the images of folders that are given, each once."""
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
    with Workers(partial(_extractor, captioner.eyes.description), processes) as workers:
        outcomes = workers.run(jobs)
        early: dict[str, Outcome] = {}
        for job in jobs:
            while job.image_id not in early:
                outcome = next(outcomes)
                early[outcome.job.image_id] = outcome
            yield early.pop(job.image_id)


def _extractor(description: Json) -> Extractor:
    from deixis.vision.extractor import extractor_from  # runs in the worker

    return extractor_from(description)


def _processes(asked: int | None, photographs: int) -> int:
    if asked is not None:
        return max(1, min(asked, photographs))
    return cores() if photographs >= WORTH_PROCESSES else 1


# Captioning -------------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """What has been done so far."""

    captions: int = 0
    unsure: int = 0
    bad: list[str] = field(default_factory=list)  # a reason that names the file, for each that could not be read


def caption_all(
    outcomes: Iterator[Outcome],
    deliver: Callable[[Sequence[Outcome]], None],
    told: Told,
    file: CaptionsFile | None,
    talk: Console,
) -> None:
    """Deliver batches as they fill; what was looked at when the user stops is still delivered."""
    waiting: list[Outcome] = []

    def flush() -> None:
        batch = waiting[:]
        waiting.clear()
        if batch:
            deliver(batch)

    try:
        with terminable():
            for outcome in outcomes:
                if outcome.regions is None:
                    told.bad.append(_named(outcome))
                    continue
                waiting.append(outcome)
                if len(waiting) == BATCH:
                    flush()
        flush()
    except KeyboardInterrupt:
        flush()
        if file is not None:
            talk.print(f"{file.lines:,} captions are safe in {file.path}; the same command goes on from there.")
        raise


def _named(outcome: Outcome) -> str:
    name = outcome.job.image_id
    return outcome.reason if name in outcome.reason else f"{name}: {outcome.reason}"


class CaptionsFile:
    """A file of JSON lines that is appended to. A half-written last line, of a run that was cut short, is mended."""

    def __init__(self, path: Path, model: str) -> None:
        self.path, self.model = path, model
        self.done: set[str] = set()  # photographs that have a line
        self.lines = 0
        try:
            self._file: BinaryIO = path.open("ab+")
            self._read()
        except OSError as error:
            raise DeixisError(f"{path} cannot be written ({error.strerror}); choose another --out.") from None

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0  # bytes of the lines that are sound
        for number, line in enumerate(self._file, 1):
            try:
                record = json.loads(line)
                image, model = str(record["image"]), record["model"]
            except (ValueError, KeyError, TypeError):
                if line.endswith(b"\n"):
                    raise DeixisError(
                        f"{self.path}, line {number}: not a caption of this verb; choose another --out."
                    ) from None
                self._file.truncate(whole)
                return
            if model != self.model:
                raise DeixisError(
                    f"{self.path} has captions of the model {model}, not {self.model}; choose another --out."
                )
            self.done.add(image)
            self.lines += 1
            whole += len(line)
            if not line.endswith(b"\n"):
                self._file.write(b"\n")

    def write(self, record: Json) -> None:
        """Append a line, at once."""
        self._file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        self.lines += 1

    def __enter__(self) -> CaptionsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


# Showing ----------------------------------------------------------------------------------------------------------


class Pictures:
    """Where the drawn photographs go: to one file, or under their own names into a folder."""

    def __init__(self, draw: Path | None, photographs: Sequence[Path], alone: bool) -> None:
        self.draw, self.files = draw, {}
        if draw is None:
            return
        if alone:
            self.files = {str(photographs[0]): draw}
            return
        if draw.suffix.lower() in (".png", ".jpg", ".jpeg", ".svg", ".webp"):
            raise DeixisError(f"there are several photographs: --draw {draw} must be a folder for their pictures.")
        absolute = [path.absolute() for path in photographs]
        root = Path(os.path.commonpath([path.parent for path in absolute]))
        taken: set[Path] = set()
        for path, full in zip(photographs, absolute, strict=True):
            name = full.relative_to(root).with_suffix(".png")
            if name in taken:  # a.jpg and a.png
                name = full.relative_to(root).with_name(f"{full.name}.png")
            taken.add(name)
            self.files[str(path)] = draw / name

    def save(self, caption: GroundedCaption) -> None:
        """Draw the caption on its photograph, where that is wanted."""
        if self.draw is None:
            return
        from deixis.show.draw import draw_caption
        from deixis.show.drawing import save_drawing

        file = self.files[caption.image]
        file.parent.mkdir(parents=True, exist_ok=True)
        save_drawing(draw_caption(load_image(caption.image), caption), file)


def draw_looks(caption: GroundedCaption, looks: Looks, regions: Regions, file: Path) -> None:
    """Draw where each branch looked for each noun."""
    from deixis.show.drawing import save_drawing
    from deixis.show.panels import draw_branches

    votes = [looks.voted[one.start] for one in caption.groundings]
    save_drawing(draw_branches(load_image(caption.image), caption, looks.places(caption, regions), votes), file)


def show(caption: GroundedCaption, sure: bool, talk: Console, alone: bool) -> None:
    """The sentence on stdout: coloured on a terminal, which also shows the picture if it can; plain in a pipe."""
    if not sys.stdout.isatty():
        print(caption.caption if alone else f"{caption.image}\t{caption.caption}")
        if alone and not sure:
            talk.print("not sure: it might say the same if there were nothing to see.")
        return
    from deixis.show.draw import draw_caption
    from deixis.show.terminal import encode_picture, find_protocol

    protocol = find_protocol(os.environ)
    if alone and protocol is not None and not talk.quiet:
        sys.stdout.flush()
        sys.stdout.buffer.write(encode_picture(draw_caption(load_image(caption.image), caption).to_image(), protocol))
        sys.stdout.buffer.flush()
    line = Text() if alone else Text(f"{caption.image}  ", "dim")
    line.append(coloured(caption))
    line.append("" if sure else "  (not sure)", "dim")
    Console(highlight=False, soft_wrap=True).print(line)


def coloured(caption: GroundedCaption) -> Text:
    """The sentence; every grounded word stands on the colour of its box."""
    from deixis.show.draw import colour, text_on

    owner = {at: i for i, one in enumerate(caption.groundings) for at in range(one.start, one.end)}
    line = Text()
    for at, piece in enumerate(pieces(caption.words)):
        ink = colour(owner[at]) if at in owner else ""
        line.append(" " * piece.startswith(" "))
        line.append(piece.removeprefix(" "), f"bold {text_on(ink)} on {ink}" if ink else "")
    line.append(end(caption.words))
    return line


def _summary(
    told: Told,
    wanted: Sequence[Path],
    left: Sequence[Path],
    file: CaptionsFile | None,
    pictures: Pictures,
    talk: Console,
    alone: bool,
) -> None:
    if left and len(told.bad) == len(wanted):
        others = "" if alone else f" Not one of the {len(wanted):,} photographs could be used."
        raise DeixisError(told.bad[0] + others)
    if not alone:
        unsure = f", not sure of {told.unsure:,}" if told.unsure else ""
        place = f" in {file.path}" if file is not None else ""
        talk.print(f"{told.captions:,} captions{place}{unsure}, {len(told.bad):,} files passed over", markup=False)
        for reason in told.bad[:SHOWN]:
            talk.print(f"  {reason}", markup=False)
        if len(told.bad) > SHOWN:
            talk.print(f"  ... and {len(told.bad) - SHOWN:,} more")
    if pictures.draw is not None:
        talk.print(f"drawn: {pictures.draw}", markup=False)


class Clock:
    """Where the time went."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[float, float]] = {}  # seconds that passed, seconds that this process worked

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Count the time of this block to a part."""
        passed, worked = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            before = self.parts.get(part, (0.0, 0.0))
            self.parts[part] = before[0] + time.perf_counter() - passed, before[1] + time.process_time() - worked

    def each(self, part: str, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        """The same outcomes; the time that is waited for them counts to a part."""
        while True:
            with self.measure(part):
                outcome = next(outcomes, None)
            if outcome is None:
                return
            yield outcome

    def table(self) -> Table:
        """Seconds of each part, and the most memory that was used."""
        import resource

        table = Table("part", Column("seconds", justify="right"), Column("of work", justify="right"))
        for part, (passed, worked) in self.parts.items():
            table.add_row(part, f"{passed:.2f}", f"{worked:.2f}")
        after = [times for part, times in self.parts.items() if part != "import"]
        table.add_row("all but import", f"{sum(p for p, _ in after):.2f}", f"{sum(w for _, w in after):.2f}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        megabytes = peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6  # macOS counts bytes, Linux kibibytes
        table.add_section()
        table.add_row("most memory", f"{megabytes:.0f} MB", "")
        return table
