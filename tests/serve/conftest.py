"""A tiny captioner and a tiny finder, and one server with both for all tests of a process."""

from __future__ import annotations

import http.client
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
import uvicorn
from PIL import Image

from deixis.language.vocabulary import Vocabulary
from deixis.models.aligner import Aligner
from deixis.models.calibration import Calibration
from deixis.models.captioner import Captioner
from deixis.models.decoder import Decoder, DecoderConfig
from deixis.models.matcher import Matcher, MatcherConfig
from deixis.objectives.cross_entropy import cross_entropy
from deixis.serve.app import create_app
from deixis.serve.engine import Engine, Limits
from deixis.serve.listening import listen
from deixis.serve.upload import UploadLimits
from deixis.vision.extractor import named_extractor

SENTENCE = ["a", "dog", "runs", "after", "a", "red", "ball"]
VOCABULARY = Vocabulary.build([SENTENCE], minimum=1)
BYTES, PIXELS = 400_000, 1_000_000


def png(seed: int = 0, size: tuple[int, int] = (60, 40)) -> bytes:
    """A photograph of noise."""
    file = io.BytesIO()
    noise = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    return file.getvalue()


def taught(decoder: Decoder) -> Decoder:
    """The decoder, once it can say its sentence whatever it sees."""
    words = torch.tensor([[VOCABULARY.encode(SENTENCE)]])
    features, mask = torch.randn(1, 4, decoder.config.features), torch.ones(1, 4, dtype=torch.bool)
    optimiser = torch.optim.Adam(decoder.parameters(), lr=0.02)
    for _ in range(60):
        decoded = decoder(decoder.encode(features, mask), words[..., :-1])
        loss = cross_entropy(decoder, decoded, words[..., 1:], VOCABULARY.pad)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return decoder


@dataclass(frozen=True)
class Models:
    """What the server has, and a phrase that its finder finds in ``png()``, and one that it does not."""

    captioner: Captioner
    plain: Captioner  # with one branch
    finder: Aligner
    present: str
    absent: str


@pytest.fixture(scope="session")
def models() -> Models:
    torch.manual_seed(3)
    eyes = named_extractor("tiny", "grid")
    extractor = {"name": eyes.name, "description": eyes.describe()}
    regions = eyes.extract(Image.open(io.BytesIO(png())))
    width = regions.features.shape[1]
    config = DecoderConfig(len(VOCABULARY), width, words=8, hidden=16, attention=6, branches=2, dropout=0.0)
    several = Captioner(taught(Decoder(config)), VOCABULARY, extractor, "tiny")
    plain = Captioner(taught(Decoder(replace(config, branches=1))), VOCABULARY, extractor, "plain")
    matcher = Matcher(MatcherConfig(len(VOCABULARY), width, words=8, embed=12, count="nouns"))
    torch.nn.init.normal_(matcher.embed.weight)
    finder = Aligner(matcher, VOCABULARY, extractor, "finder", Calibration(slope=1.0))
    scores = {one.text: one.score for one in finder.ground(regions, ["a dog", "a ball"])}
    absent, present = sorted(scores, key=lambda text: scores[text])
    low, high = (np.log(scores[text] / (1 - scores[text])) for text in (absent, present))
    slope = 4 / (high - low)  # the two come out at chances of .12 and .88
    finder.calibration = Calibration(slope, -slope * (low + high) / 2)
    return Models(several, plain, finder, present, absent)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """A server on the loopback, to be asked over HTTP."""

    port: int
    engine: Engine
    stop: Callable[[], None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: bytes = b"", kind: str | None = None) -> Answer:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            line.request(method, path, body, {} if kind is None else {"Content-Type": kind})
            answer = line.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            line.close()

    def photo(self, path: str, photo: bytes) -> Answer:
        return self.ask("POST", path, photo, "image/png")


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Client]]:
    """Starts servers; all are stopped at the end."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(engine: Engine, upload: UploadLimits | None = None) -> Client:
        server = uvicorn.Server(uvicorn.Config(create_app(engine, upload), log_level="critical"))
        ear = listen("127.0.0.1", 0)
        port = ear.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([ear],), daemon=True, name=f"server-{port}")
        thread.start()
        running.append((server, thread))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        return Client(port, engine, lambda: setattr(server, "should_exit", True))

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def server(models: Models, start: Callable[..., Client]) -> Client:
    engine = Engine([models.captioner, models.plain, models.finder], Limits(pixels=PIXELS))
    engine.warm()
    return start(engine, UploadLimits(bytes=BYTES, seconds=2.0))
