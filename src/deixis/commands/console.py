"""Shared parts of the commands: options, consoles, progress bars, signals and the clock of --profile.

Results go to stdout; progress and messages go to stderr.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from deixis.errors import safe_text
from deixis.files import json_text
from deixis.show.plain_console import PlainConsole
from deixis.types import Json

if TYPE_CHECKING:
    from deixis.evaluation.split import SplitPhotos
    from deixis.metrics.evaluate import Evaluation
    from deixis.pipelines.caption import CaptionOptions
    from deixis.pipelines.models import Models
    from deixis.vision.extractor import RegionExtractor

T = TypeVar("T")

WIDE = 2000  # columns of stdout in a pipe, so that no table is cut or wrapped
REPORT_SECONDS = 60  # between two lines of progress where there is no terminal

# Options ----------------------------------------------------------------------------------------------------------

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""An option without a value: --name sets it, and there is no --no-name."""
AsJson = Annotated[Switch, tyro.conf.arg(name="json")]
Quiet = Annotated[Switch, tyro.conf.arg(help="print no progress, messages or tables.")]
Profile = Annotated[Switch, tyro.conf.arg(help="print time and memory use at the end.")]
Device = Annotated[
    str, tyro.conf.arg(help="compute device: auto (CUDA if available, then MPS, then CPU), cpu, cuda, cuda:1 or mps.")
]
Threads = Annotated[
    int, tyro.conf.arg(help="threads of torch; 0: one for each core that has no other work at the start.")
]
Processes = Annotated[int | None, tyro.conf.arg(help="worker processes; one per core if not given.")]
Proposals = Annotated[str, tyro.conf.arg(help="box proposal method (see deixis proposals).")]
Boxes = Annotated[int, tyro.conf.arg(help="maximum number of boxes per image, including the whole image.")]
Extractor = Annotated[
    Literal["v1", "v2", "v2-detector"],
    tyro.conf.arg(
        help="v1: --backbone and --proposals; v2: grids of several strides, no box supervision; v2-detector: with the "
        "COCO detector and the keypoints of MoveNet."
    ),
]
Backbone = Annotated[str, tyro.conf.arg(help="efficientnet-lite2, resnet101:FILE.pth, or timm-MODEL.")]
Host = Annotated[str, tyro.conf.arg(help="address to listen on; 0.0.0.0 accepts connections from other machines.")]
AllowHost = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(help="further name by which browsers may reach the server; give it several times for several names."),
]
Port = Annotated[int, tyro.conf.arg(help="port to listen on; 0: any free port.")]
Browse = Annotated[Switch, tyro.conf.arg(help="open the page in a browser.")]

RerankOption = Annotated[
    Literal["grounder", "none"],
    tyro.conf.arg(help="choose the sentence with the grounder's match scores, or by its own probability (none)."),
]
PlaceOption = Annotated[
    Literal["attention", "vote", "grounder", "heat", "alpha", "threshold"] | None,
    tyro.conf.arg(
        help="rule for the boxes: the captioner's attention (attention, vote), the grounder (grounder), or one of the "
        "grounder's rules for heat maps (heat, alpha, threshold). If not given: the grounder where there is one."
    ),
]
CheckOption = Annotated[
    Literal["all", "none"],
    tyro.conf.arg(help="run the checks of a caption (second look, out of distribution, match, gain), or none."),
]


@dataclass(frozen=True)
class GenerationOptions:
    """Rules of generation; those that are not given are the model's own."""

    beam: int | None = None  # beam width; with a reranking grounder the number of sentences that it ranks
    vote_branches: int | None = None  # attention branches that vote and ground, the first of them
    max_words: int | None = None  # maximum length of a sentence
    min_words: int | None = None  # minimum length of a sentence
    length_power: float | None = None  # beam sentences are ranked by log-probability / length ** this
    # any: words may repeat; apart: no word follows itself; none: a beam sentence that repeats a word is ranked last
    repeats: Literal["any", "apart", "none"] | None = None

    def apply(self, models: Models) -> Models:
        """Return models whose captioner generates by these rules."""
        from deixis.errors import UsageError
        from deixis.methods.updown.decode import BOUNDS

        captioner = models.captioner
        given = {name: value for name, value in vars(self).items() if value is not None and name != "repeats"}
        for name, value in given.items():
            low, high = BOUNDS["branches" if name == "vote_branches" else name]
            if not low <= value <= high:
                raise UsageError(f"--{name.replace('_', '-')} must be from {low} to {high}.")
        branches = captioner.network.config.branches
        if (given.get("vote_branches") or 1) > branches:
            raise UsageError(f"--vote-branches {self.vote_branches}: {captioner.name} has {branches}.")
        if "beam" in given:
            given["rerank_beam"] = 0
        if "vote_branches" in given:
            given["branches"] = given.pop("vote_branches")
        if self.repeats is not None:
            given |= {"allow_repeated_words": self.repeats != "none", "allow_adjacent_repeats": self.repeats == "any"}
        return replace(models, captioner=captioner.with_generation(replace(captioner.generation, **given)))


Generation = Annotated[GenerationOptions, tyro.conf.arg(name="")]


def caption_options(rerank: str, place: str | None, check: str) -> CaptionOptions:
    """Return the options of the caption pipeline that the command line asks for."""
    from deixis.pipelines.caption import DEFAULT, CaptionOptions

    checks = DEFAULT.checks if check == "all" else ()
    return CaptionOptions(rerank=rerank, place=place, checks=checks)  # type: ignore[arg-type]  # tyro has checked the values


def use_threads(threads: int) -> None:
    """Limit torch to this many threads, if it is imported; 0 sets no limit. ``deixis.threads`` limits all else."""
    if threads and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


# Output -----------------------------------------------------------------------------------------------------------


def stderr_console(quiet: bool = False) -> PlainConsole:
    """Console for progress and messages."""
    return PlainConsole(stderr=True, quiet=quiet, soft_wrap=True)


def stdout_console(quiet: bool = False) -> PlainConsole:
    """Console for results; in a pipe it is wide enough for every table."""
    fitted = sys.stdout.isatty() or "COLUMNS" in os.environ
    return PlainConsole(quiet=quiet, width=None if fitted else WIDE)


def print_line(text: str) -> None:
    """Write a line to stdout; names of files in it are safe for a terminal."""
    print(safe_text(text))


def print_json(value: object, indent: int | None = 2) -> None:
    """Write a JSON document to stdout; ``indent=None`` writes one line."""
    print(json_text(value, indent), flush=True)


def print_some(console: Console, lines: Sequence[object], limit: int, rest: str = "") -> None:
    """Print the first lines and the number of the others; ``rest`` says where all of them are."""
    for line in lines[:limit]:
        console.print(f"  {line}", markup=False)
    if len(lines) > limit:
        console.print(f"  and {len(lines) - limit:,} more{rest}", markup=False)


def print_ready(console: Console, url: str, public: bool, about: str, record: Json | None = None) -> None:
    """Print the address of a server; ``record`` is also written to stdout as JSON."""
    if public:
        console.print("Warning: anyone who can reach this machine can use this server; it has no password.")
    console.print(f"ready: {url} {about}", markup=False)
    if record is not None:
        print_json({"url": url, **record}, indent=None)


def print_evaluation(result: Evaluation, about: Mapping[str, str], console: Console, as_json: bool) -> None:
    """Write scores to stdout, as tables or JSON, then notes and missing metrics to stderr."""
    from deixis.show.score_table import score_tables

    if as_json:
        print_json({**about, **result.to_json()})
    else:
        stdout = stdout_console(console.quiet)
        for table, signature in score_tables(result.scores):
            stdout.print(table)
            stdout.print(f"{signature}\n", style="dim", markup=False, soft_wrap=True)
    for note in result.notes:
        console.print(f"note: {note}.", markup=False, soft_wrap=True)
    for metric, reason in result.absent.items():
        console.print(f"{metric} is missing: {reason}", markup=False, soft_wrap=True)


# Progress ---------------------------------------------------------------------------------------------------------


class _Rate(ProgressColumn):
    """Items per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:.1f}/s", style="progress.data.speed")


def track(
    items: Iterable[T], total: int, console: Console, unit: str = "images", transient: bool = False
) -> Iterator[T]:
    """Yield the items and show progress: a bar on a terminal, else a line per minute."""
    if console.is_terminal:
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            speed_estimate_period=60,
            transient=transient,
            disable=console.quiet,
            redirect_stdout=False,  # results on stdout must not move into the bar's console
        )
        with bar:
            yield from bar.track(items, total=total, description=unit)
        return
    started = last = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last >= REPORT_SECONDS:
            last, rate = now, done / (now - started)
            console.print(f"{done:,} of {total:,} {unit}, {rate:.1f}/s, {(total - done) / rate / 60:.0f} min left")


@contextmanager
def terminable() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, as on Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stoppable(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """Yield items until Ctrl-C or SIGTERM; then raise KeyboardInterrupt instead of the next item or at the end.

    The work on items that were yielded before is finished. A second signal interrupts at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield items
        return
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True

    def given() -> Iterator[T]:
        for item in items:
            yield item
            if stopped:
                raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield given()
        if stopped:
            raise KeyboardInterrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Clock:
    """Wall time and CPU time of the parts of a command."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[float, float]] = {}  # part -> wall seconds, CPU seconds of this process

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time of the block to a part."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            before = self.parts.get(part, (0.0, 0.0))
            self.parts[part] = before[0] + time.perf_counter() - wall, before[1] + time.process_time() - cpu

    def table(self, backends: Mapping[str, str] | None = None) -> Table:
        """Seconds of each part, the peak memory, and what runs each network (``backends``)."""
        import resource

        table = Table("part", Column("seconds", justify="right"), Column("CPU seconds", justify="right"))
        for part, (wall, cpu) in self.parts.items():
            table.add_row(part, f"{wall:.2f}", f"{cpu:.2f}")
        after = [times for part, times in self.parts.items() if part != "import"]
        table.add_row("all but import", f"{sum(w for w, _ in after):.2f}", f"{sum(c for _, c in after):.2f}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        megabytes = peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6  # macOS counts bytes, Linux kibibytes
        table.add_section()
        table.add_row("peak memory", f"{megabytes:.0f} MB", "")
        for name, backend in (backends or {}).items():
            table.add_row(f"backend of {name}", backend, "")
        return table


def extract_all(photos: SplitPhotos, extractor: RegionExtractor | None, console: Console) -> None:
    """Extract the regions of a split that has no store, with progress; unreadable photographs are reported."""
    done = photos.extract(extractor, lambda reason: console.print(reason, markup=False))
    for _ in track(done, len(photos), console, transient=True):
        pass
