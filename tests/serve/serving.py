"""What the tests of the server share: photographs of noise, tiny models, and a client."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.losses.cross_entropy import cross_entropy
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder
from deixis.serve.engine import Engine
from small_models import noise

SENTENCE = ["a", "dog", "runs", "after", "a", "red", "ball"]
VOCABULARY = Vocabulary.build([SENTENCE], minimum=1)
BYTES, PIXELS = 400_000, 1_000_000


def png(seed: int = 0, size: tuple[int, int] = (60, 40)) -> bytes:
    """Return the file of a picture of noise."""
    file = io.BytesIO()
    noise(seed, size).save(file, "PNG")
    return file.getvalue()


def taught(decoder: Decoder) -> Decoder:
    """Return the decoder, trained to generate its sentence for every photograph."""
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
    """The models of the server, a phrase that its grounder finds in ``png()``, and one that it does not find."""

    captioner: Captioner
    single: Captioner  # with one branch
    grounder: ScanGrounder
    present: str
    absent: str


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
