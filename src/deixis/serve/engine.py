"""The engine: loaded models, threads that extract the regions of photographs, and one thread that answers.

Requests whose regions are ready within a few milliseconds of each other are answered as one batch, while the regions of
the next ones are extracted. The number of complete requests is bounded; a request beyond the bound is refused with a
time to retry, before its body is read.
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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis.cache import cache_disabled
from deixis.clips import ClipLimits, is_clip_content, sample_clip
from deixis.images import load_image
from deixis.localize.heat import heat_map
from deixis.methods.updown.model import Captioner
from deixis.pipelines.caption import CaptionOptions, caption
from deixis.pipelines.check import check
from deixis.pipelines.clip import Clip
from deixis.pipelines.ground import ground
from deixis.pipelines.models import DEFAULT_CAPTIONER, DEFAULT_GROUNDER, Models, PhraseGrounder
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import MIN_PRESENCE, CaptionResult
from deixis.serve.problems import BusyError
from deixis.threads import available_cores
from deixis.types import SCHEMA, AttentionTrace, HeatMap, Json, Regions
from deixis.vision.extractor import RegionExtractor

Model = Captioner | PhraseGrounder

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP")
"""Accepted image formats, by Pillow's names; other decoders are not used for uploads."""

STOPPING = "the server is stopping"
CELLS = 16  # along each side of the heat map of a branch
BEST_BOXES = 3  # of each branch


@dataclass(frozen=True)
class Limits:
    """Limits of the engine."""

    pixels: int = 50_000_000  # of a photograph, or of a frame of a clip
    clip_frames: int = 40_000  # of a clip that are decoded; 10 minutes at 60 frames a second are 36,000
    clip_seconds: float = 30.0  # of decoding a clip
    waiting: int = 32  # requests under way at once, from their last byte to their answer
    batch: int = 16  # requests in one batch
    gather: float = 0.005  # seconds to wait for more requests of a batch
    kept: int = 32  # photographs whose regions are kept in memory for further requests


@dataclass(frozen=True)
class CaptionAsk:
    """A request for a caption."""

    photo: bytes
    model: str
    steps: bool = False  # also return the attention of each branch at every word


@dataclass(frozen=True)
class GroundAsk:
    """A request to ground phrases."""

    photo: bytes
    model: str
    phrases: tuple[str, ...]


@dataclass(frozen=True)
class CheckAsk:
    """A request to check a caption."""

    photo: bytes
    model: str
    caption: str


Ask = CaptionAsk | GroundAsk | CheckAsk


@dataclass(frozen=True)
class _Job:
    ask: Ask
    answer: Future[Json]
    photo: Future[Photo]  # with its regions
    asked: float = field(default_factory=time.perf_counter)


class Engine:
    """Loaded models by name, and the thread that processes requests."""

    def __init__(self, models: Sequence[Model], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.models = named(models)
        self._pipelines = {
            n: Models(m, self._grounder_of(n)) for n, m in self.models.items() if isinstance(m, Captioner)
        }
        self.batches = self.answered = 0  # number of batches, and of requests in them
        self.under_way = 0  # accepted requests without an answer
        self._pace = 0.5  # seconds per request, exponential moving average
        self._extractors: dict[tuple[str, int], RegionExtractor] = {}  # models with equal extractors share one
        self._regions: OrderedDict[str, dict[str, Regions]] = OrderedDict()  # of the last photographs, by hash
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._open = True
        self._lock = threading.Lock()  # for under_way, the pool and the kept regions
        self._pool = ThreadPoolExecutor(available_cores(), "deixis-regions")
        self._thread = threading.Thread(target=self._work, name="deixis-engine", daemon=True)
        self._thread.start()

    @property
    def open(self) -> bool:
        """Whether requests are accepted."""
        return self._open and self._thread.is_alive()

    def captioner(self, name: str = "") -> str | None:
        """Return the name of the captioner that is meant, the first if none is named; None if there is no such one."""
        return self._select(name, captions=True)

    def grounder(self, name: str = "") -> str | None:
        """Return the name of the phrase grounder that is meant, in the same way."""
        return self._select(name, captions=False)

    def require_place(self) -> None:
        """Raise :class:`BusyError` if no request can be accepted now."""
        if not self._open:
            raise BusyError(STOPPING, 5)
        if self.under_way >= self.limits.waiting:
            raise BusyError("too many requests are in progress", max(1, math.ceil(self.under_way * self._pace)))

    @contextmanager
    def place(self) -> Iterator[None]:
        """Count one request until its answer is sent; :class:`BusyError` if too many are being processed.

        A request is counted when its body is complete, so that slow uploads do not keep others out.
        """
        with self._lock:
            self.require_place()
            self.under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self.under_way -= 1

    def ask(self, ask: Ask) -> Future[Json]:
        """Queue a request and return its future answer; requests accepted before :meth:`close` are answered."""
        job = _Job(ask, Future(), Future())
        with self._lock:
            if not self._open:
                raise BusyError(STOPPING, 5)
            self._pool.submit(self._open_photo, job)
        return job.answer

    def warm(self) -> None:
        """Run one request with each model, so that the first user request is not slow."""
        file = io.BytesIO()
        Image.new("RGB", (64, 64), "grey").save(file, "PNG")
        for name, model in self.models.items():
            if isinstance(model, Captioner) and model.describes_clips:
                continue
            photo = file.getvalue()
            ask = CaptionAsk(photo, name) if isinstance(model, Captioner) else GroundAsk(photo, name, ("a person",))
            self.ask(ask).result()

    def close(self) -> None:
        """Answer the accepted requests, then stop."""
        with self._lock:
            first, self._open = self._open, False
        if first:
            self._pool.shutdown()
            self._jobs.put(None)
        self._thread.join()

    # In the threads of the pool -------------------------------------------------------------------------------------

    def _open_photo(self, job: _Job) -> None:
        """Open the photograph of a request and extract its regions, then queue the request for its answer."""
        if not job.answer.cancelled():
            try:
                job.photo.set_result(self._photo(job.ask))
            except Exception as error:
                job.photo.set_exception(error)
        self._jobs.put(job)

    # In the thread of the engine ------------------------------------------------------------------------------------

    def _work(self) -> None:
        with cache_disabled():
            running, ended = True, 0.0
            while running:
                batch, running = self._collect()
                self._answer([job for job in batch if job.answer.set_running_or_notify_cancel()])
                if batch:
                    end, started = time.perf_counter(), max(ended, min(job.asked for job in batch))
                    self._pace += 0.2 * ((end - started) / len(batch) - self._pace)
                    ended = end
                    self.batches += 1
                    self.answered += len(batch)

    def _collect(self) -> tuple[list[_Job], bool]:
        """Return the next batch, and whether more may follow."""
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
        together: dict[str, list[tuple[_Job, CaptionAsk, Photo]]] = {}
        for job in batch:
            try:
                photo = job.photo.result()
                if isinstance(job.ask, CaptionAsk):
                    together.setdefault(job.ask.model, []).append((job, job.ask, photo))
                else:
                    job.answer.set_result(self._ground(job.ask, photo))
            except Exception as error:
                job.answer.set_exception(error)
        for name, asked in together.items():
            try:
                options = CaptionOptions(heat=any(ask.steps for _, ask, _ in asked))
                results = caption([photo for _, _, photo in asked], self._pipelines[name], options)
                for (job, ask, _), result in zip(asked, results, strict=True):
                    job.answer.set_result(caption_json(result, ask.steps) | self._renamed(name))
            except Exception as error:
                for job, _, _ in asked:
                    if not job.answer.done():
                        job.answer.set_exception(error)

    def _ground(self, ask: GroundAsk | CheckAsk, photo: Photo) -> Json:
        grounder = self.models[ask.model]
        assert not isinstance(grounder, Captioner)
        if isinstance(ask, CheckAsk):
            return {**check(photo, ask.caption, grounder).to_dict(), "model": ask.model, "threshold": MIN_PRESENCE}
        found = ground(photo, list(ask.phrases), grounder)
        width, height = photo.size
        return {
            "width": width,
            "height": height,
            "threshold": MIN_PRESENCE,
            "groundings": [{**one.to_phrase_json(ask.model), "found": one.score >= MIN_PRESENCE} for one in found],
            "model_hash": grounder.hash,
            "schema": SCHEMA,
        }

    def _photo(self, ask: Ask) -> Photo:
        """Return the photograph of a request; the regions of the last photographs are kept."""
        digest = hashlib.sha256(ask.photo).hexdigest()
        with self._lock:
            regions = self._regions.setdefault(digest, {})
            self._regions.move_to_end(digest)
            if len(self._regions) > self.limits.kept:
                self._regions.popitem(last=False)
        if is_clip_content(ask.photo):
            bounds = ClipLimits(len(ask.photo), self.limits.pixels, self.limits.clip_frames, self.limits.clip_seconds)
            photo: Photo = Clip("", regions=regions, open_clip=partial(sample_clip, ask.photo, limits=bounds))
        else:
            photo = Photo("", regions=regions, open_image=partial(load_image, ask.photo, self.limits.pixels, FORMATS))
        extractor = self._extractor(ask.model)
        if extractor is None:
            _ = photo.image
        else:
            photo.regions(extractor)
        return photo

    def _extractor(self, name: str) -> RegionExtractor | None:
        models = self._pipelines.get(name)
        extractor = self.models[name].extractor if models is None else models.extractor
        if extractor is None:
            return None
        return self._extractors.setdefault((extractor.name, extractor.grid), extractor)

    def _grounder_of(self, captioner: str) -> PhraseGrounder | None:
        """Return the default grounder for the default captioner, if both are loaded."""
        grounder = self.models.get(DEFAULT_GROUNDER) if captioner == DEFAULT_CAPTIONER else None
        return None if isinstance(grounder, Captioner) else grounder

    def _renamed(self, name: str) -> Json:
        """Return the model field of an answer if two models have the same name and one got a number."""
        return {} if self.models[name].name == name else {"model": name}

    def _select(self, name: str, captions: bool) -> str | None:
        fit = [other for other, model in self.models.items() if isinstance(model, Captioner) == captions]
        return next((other for other in fit if name in ("", other)), None)


def named(models: Sequence[Model]) -> dict[str, Model]:
    """Map unique names to models; a repeated name gets a number."""
    found: dict[str, Model] = {}
    for model in models:
        name, number = model.name, 1
        while name in found:
            number += 1
            name = f"{model.name}-{number}"
        found[name] = model
    return found


def describe(name: str, model: Model) -> Json:
    """Return name, tasks, number of branches, extractor and hash of a model."""
    extractor = None if model.extractor is None else model.extractor.name
    about = {"name": name, "extractor": extractor, "hash": model.hash}
    if isinstance(model, Captioner):
        branches = model.generation.branches or model.network.config.branches
        return {**about, "does": ["caption"], "branches": branches}
    return {**about, "does": ["ground", "check"], "branches": None}


def caption_json(result: CaptionResult, steps: bool) -> Json:
    """Return the JSON of a result; with ``steps``, heat maps of groundings and attention at every word."""
    record = result.to_dict()
    if not steps or result.caption.times:  # of a clip: boxes along time, no attention at every word
        plain = tuple(replace(one, heat=None) for one in result.groundings)
        return {**record, "groundings": [one.to_json() for one in plain]}
    trace, groundings = result.trace, []
    for one in result.groundings:
        head = one.start if one.head is None else one.head
        heat = one.heat or _heat(trace.attention[head][trace.branch_mask[head]].mean(0), trace)
        groundings.append(replace(one, heat=HeatMap(heat.grid.round(3), heat.size)).to_json())
    words = [
        {"word": word, "branches": [_branch(*each, trace) for each in zip(attention, mask, strict=True)]}
        for word, attention, mask in zip(result.caption.words, trace.attention, trace.branch_mask, strict=True)
    ]
    return {**record, "groundings": groundings, "steps": words}


def _branch(weights: npt.NDArray[np.float32], voted: np.bool_, trace: AttentionTrace) -> Json:
    best = np.argsort(-weights, kind="stable")[:BEST_BOXES]
    return {
        "voted": bool(voted),
        "boxes": [{"box": trace.boxes[i].tolist(), "weight": round(float(weights[i]), 4)} for i in best],
        "heat": _heat(weights, trace).to_json(),
    }


def _heat(weights: npt.NDArray[np.float32], trace: AttentionTrace) -> HeatMap:
    """Return a coarse heat map with few digits, to keep answers short."""
    return HeatMap(heat_map(weights, trace.boxes, trace.size, CELLS).grid.round(3), trace.size)
