"""The engine: the loaded models and the one thread that works for all requests.

Requests that come within a few milliseconds are answered as one batch. The number of requests under way is bounded; who
comes beyond it is told when to try again, before anything is read.
"""

from __future__ import annotations

import hashlib
import io
import math
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis.cache import nothing_kept
from deixis.images import load_image
from deixis.localize.heat import heat_map
from deixis.methods.updown.model import Captioner
from deixis.pipelines.caption import Teller
from deixis.pipelines.checked import DOUBT
from deixis.pipelines.load import CAPTIONER, FINDER, PhraseGrounder, check_caption
from deixis.pipelines.looks import Looks
from deixis.pipelines.rerank import assist
from deixis.types import GroundedCaption, HeatMap, Json, Regions
from deixis.vision.eyes import Eyes

Model = Captioner | PhraseGrounder

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP")
"""What photographs come in, by Pillow's names: the decoders of all else stay shut to strangers."""

STOPPING = "the server is about to stop"
CELLS = 16  # along each side of the heat map of a branch
FAVOURITES = 3  # boxes told of each branch


@dataclass(frozen=True)
class Limits:
    """How much the engine takes on."""

    pixels: int = 50_000_000  # of a photograph
    waiting: int = 32  # requests under way at once, from their first byte to their answer
    batch: int = 16  # requests answered together
    gather: float = 0.005  # seconds to wait for more of them
    kept: int = 32  # photographs whose regions are kept in memory, because people ask more than once


@dataclass(frozen=True)
class CaptionAsk:
    """What is to be seen in a photograph?"""

    photo: bytes
    model: str
    steps: bool = False  # tell where each branch looked at every word, too


@dataclass(frozen=True)
class GroundAsk:
    """Where are these phrases?"""

    photo: bytes
    model: str
    phrases: tuple[str, ...]


@dataclass(frozen=True)
class CheckAsk:
    """Does this caption fit?"""

    photo: bytes
    model: str
    caption: str


Ask = CaptionAsk | GroundAsk | CheckAsk


@dataclass(frozen=True)
class _Job:
    ask: Ask
    answer: Future[Json]


class BusyError(Exception):
    """Too many requests are under way, or the engine stops; ``retry`` is in how many seconds to come again."""

    def __init__(self, reason: str, retry: int) -> None:
        super().__init__(f"{reason}; try again in {retry} s.")
        self.retry = retry


class Engine:
    """Models by name, and a thread that answers what it is asked about photographs."""

    def __init__(self, models: Sequence[Model], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.models = named(models)
        for name, model in self.models.items():
            if isinstance(model, Captioner):
                assist(model, self._places(name))
        self.batches = self.answered = 0  # how many batches there were, and how many requests in them
        self.under_way = 0  # requests that have a place and no answer yet
        self._pace = 0.5  # seconds for one request, the latest weighing most
        self._eyes: dict[tuple[str, int], Eyes] = {}  # models with the same eyes share one backbone
        self._tellers: dict[str, Teller] = {}  # of the captioners that have been asked
        self._seen: OrderedDict[tuple[str, str, int], Regions] = OrderedDict()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._open = True
        self._lock = threading.Lock()  # of the places, and of what is accepted
        self._thread = threading.Thread(target=self._work, name="deixis-engine", daemon=True)
        self._thread.start()

    @property
    def open(self) -> bool:
        """Whether it takes requests."""
        return self._open and self._thread.is_alive()

    def captioner(self, name: str = "") -> str | None:
        """The name of the captioner that is meant, the first where none is named; None where there is none such."""
        return self._meant(name, captions=True)

    def finder(self, name: str = "") -> str | None:
        """The same for models that find phrases."""
        return self._meant(name, captions=False)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one request, held until its answer is sent; :class:`BusyError` where all are taken."""
        with self._lock:
            if not self._open:
                raise BusyError(STOPPING, 5)
            if self.under_way >= self.limits.waiting:
                raise BusyError("too many requests are under way", max(1, math.ceil(self.under_way * self._pace)))
            self.under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self.under_way -= 1

    def ask(self, ask: Ask) -> Future[Json]:
        """The answer, when it is ready. What was accepted before :meth:`close` is answered."""
        job = _Job(ask, Future())
        with self._lock:
            if not self._open:
                raise BusyError(STOPPING, 5)
            self._jobs.put(job)
        return job.answer

    def warm(self) -> None:
        """Answer one request with each model, so that no visitor waits for what is loaded late."""
        file = io.BytesIO()
        Image.new("RGB", (64, 64), "grey").save(file, "PNG")
        for name, model in self.models.items():
            photo = file.getvalue()
            ask = CaptionAsk(photo, name) if isinstance(model, Captioner) else GroundAsk(photo, name, ("a person",))
            self.ask(ask).result()

    def close(self) -> None:
        """Answer what was accepted, and stop."""
        with self._lock:
            if self._open:
                self._open = False
                self._jobs.put(None)
        self._thread.join()

    # In the thread of the engine ------------------------------------------------------------------------------------

    def _work(self) -> None:
        with nothing_kept():
            running = True
            while running:
                batch, running = self._collect()
                started = time.perf_counter()
                self._answer([job for job in batch if job.answer.set_running_or_notify_cancel()])
                if batch:
                    self._pace += 0.2 * ((time.perf_counter() - started) / len(batch) - self._pace)
                    self.batches += 1
                    self.answered += len(batch)

    def _collect(self) -> tuple[list[_Job], bool]:
        """The next batch, and whether more may follow."""
        batch: list[_Job] = []
        end = math.inf
        while len(batch) < self.limits.batch:
            try:
                job = self._jobs.get(timeout=None if end == math.inf else max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                return batch, False
            if not batch:
                end = time.monotonic() + self.limits.gather
            batch.append(job)
        return batch, True

    def _answer(self, batch: Sequence[_Job]) -> None:
        together: dict[str, list[tuple[_Job, CaptionAsk, Regions]]] = {}
        for job in batch:
            try:
                if isinstance(job.ask, CaptionAsk):
                    regions = self._look(job.ask)
                    assert isinstance(regions, Regions)  # no captioner reads pixels
                    together.setdefault(job.ask.model, []).append((job, job.ask, regions))
                else:
                    job.answer.set_result(self._find(job.ask))
            except Exception as error:
                job.answer.set_exception(error)
        for name, asked in together.items():
            captioner = self.models[name]
            assert isinstance(captioner, Captioner)
            try:
                photos = [partial(load_image, ask.photo, self.limits.pixels, FORMATS) for _, ask, _ in asked]
                told = self._teller(name, captioner).tell(
                    [regions for _, _, regions in asked], photos, heats=any(ask.steps for _, ask, _ in asked)
                )
                for (job, ask, regions), one in zip(asked, told, strict=True):
                    answer = caption_json(replace(one.caption, model=name), one.looks, regions, ask.steps)
                    job.answer.set_result({**answer, **one.trust()})
            except Exception as error:
                for job, _, _ in asked:
                    if not job.answer.done():
                        job.answer.set_exception(error)

    def _find(self, ask: GroundAsk | CheckAsk) -> Json:
        finder = self.models[ask.model]
        assert not isinstance(finder, Captioner)
        photo = self._look(ask)
        if isinstance(ask, CheckAsk):
            return checked(finder, photo, ask.caption, ask.model)
        found = finder.ground(photo, list(ask.phrases))
        width, height = photo.size
        return {
            "width": width,
            "height": height,
            "threshold": DOUBT,
            "groundings": [{**one.to_phrase_json(ask.model), "found": one.score >= DOUBT} for one in found],
        }

    def _look(self, ask: Ask) -> Regions | Image.Image:
        """The regions of the photograph, from memory where they are, or the photograph for a model that wants it."""
        eyes = self.models[ask.model].eyes
        if eyes is None:
            return load_image(ask.photo, self.limits.pixels, FORMATS)
        key = hashlib.sha256(ask.photo).hexdigest(), eyes.name, eyes.grid
        if key not in self._seen:
            self._seen[key] = self._shared(eyes).look(load_image(ask.photo, self.limits.pixels, FORMATS))
            if len(self._seen) > self.limits.kept:
                self._seen.popitem(last=False)
        self._seen.move_to_end(key)
        return self._seen[key]

    def _shared(self, eyes: Eyes) -> Eyes:
        return self._eyes.setdefault((eyes.name, eyes.grid), eyes)

    def _teller(self, name: str, captioner: Captioner) -> Teller:
        if name not in self._tellers:
            self._tellers[name] = Teller(captioner, self._shared(captioner.eyes), self._places(name))
        return self._tellers[name]

    def _places(self, captioner: str) -> PhraseGrounder | None:
        """The finder of the package places the nouns of the captioner of the package, where both are here."""
        finder = self.models.get(FINDER) if captioner == CAPTIONER else None
        return None if isinstance(finder, Captioner) else finder

    def _meant(self, name: str, captions: bool) -> str | None:
        fit = [other for other, model in self.models.items() if isinstance(model, Captioner) == captions]
        return next((other for other in fit if name in ("", other)), None)


def named(models: Sequence[Model]) -> dict[str, Model]:
    """Models by their names; a name that is taken gets a number."""
    found: dict[str, Model] = {}
    for model in models:
        name, number = model.name, 1
        while name in found:
            number += 1
            name = f"{model.name}-{number}"
        found[name] = model
    return found


def describe(name: str, model: Model) -> Json:
    """What is told of a model: its name, what it does, how many branches speak, and what it sees with."""
    extractor = None if model.eyes is None else model.eyes.name
    if isinstance(model, Captioner):
        branches = model.generation.branches or model.decoder.config.branches
        return {"name": name, "does": ["caption"], "branches": branches, "extractor": extractor}
    return {"name": name, "does": ["ground", "check"], "branches": None, "extractor": extractor}


def caption_json(caption: GroundedCaption, looks: Looks, regions: Regions, steps: bool) -> Json:
    """The JSON of a caption; with ``steps``, the heat of each grounding and where every branch looked at every word."""
    if not steps:
        return replace(caption, groundings=tuple(replace(one, heat=None) for one in caption.groundings)).to_json()
    groundings = []
    for one in caption.groundings:
        voters = looks.voted[one.start]
        seen = one.heat or _heat(looks.attention[one.start][voters].mean(0), regions)
        groundings.append(replace(one, heat=HeatMap(seen.grid.round(3), seen.size)))
    told = [
        {"word": word, "branches": [_branch(*look, regions) for look in zip(attention, voted, strict=True)]}
        for word, attention, voted in zip(caption.words, looks.attention, looks.voted, strict=True)
    ]
    return {**replace(caption, groundings=tuple(groundings)).to_json(), "steps": told}


def _branch(weights: npt.NDArray[np.float32], voted: np.bool_, regions: Regions) -> Json:
    best = np.argsort(-weights, kind="stable")[:FAVOURITES]
    return {
        "voted": bool(voted),
        "boxes": [{"box": regions.boxes[i].tolist(), "weight": round(float(weights[i]), 4)} for i in best],
        "heat": _heat(weights, regions).to_json(),
    }


def _heat(weights: npt.NDArray[np.float32], regions: Regions) -> HeatMap:
    """A coarse map; more digits than are to be seen would make answers many times longer."""
    return HeatMap(heat_map(weights, regions, CELLS).grid.round(3), regions.size)


def checked(finder: PhraseGrounder, photo: Regions | Image.Image, caption: str, name: str) -> Json:
    """A caption held against a photograph; ``match`` is None where the model has no score for a whole caption."""
    found = check_caption(finder, photo, caption)
    return {**replace(found, caption=replace(found.caption, model=name)).to_json(), "threshold": DOUBT}
