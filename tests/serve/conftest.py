"""Two tiny captioners and a tiny grounder, and one server with all for the tests of a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
import uvicorn
from serving import BYTES, PIXELS, VOCABULARY, Client, Models, taught

from deixis.calibration import Calibration
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.pipelines.ground import ground
from deixis.pipelines.photo import Photo
from deixis.serve.app import create_app
from deixis.serve.engine import Engine, Limits
from deixis.serve.run import listen
from deixis.serve.upload import UploadLimits
from deixis.vision.extractor import named_extractor
from small_models import FEATURES, noise


@pytest.fixture(scope="session")
def models() -> Models:
    torch.manual_seed(3)
    extractor = named_extractor("tiny", "grid").to_json()
    config = DecoderConfig(len(VOCABULARY), FEATURES, words=8, hidden=16, attention=6, branches=2, dropout=0.0)
    several = Captioner(taught(Decoder(config)), VOCABULARY, extractor, "tiny")
    single = Captioner(taught(Decoder(replace(config, branches=1))), VOCABULARY, extractor, "single")
    network = ScanNet(ScanConfig(len(VOCABULARY), FEATURES, words=8, embed=12, count="nouns"))
    torch.nn.init.normal_(network.embed.weight)
    grounder = ScanGrounder(network, VOCABULARY, extractor, "grounder", Calibration(slope=1.0))
    scores = {one.text: one.score for one in ground(Photo(noise()), ["a dog", "a ball"], grounder)}
    absent, present = sorted(scores, key=lambda text: scores[text])
    low, high = (np.log(scores[text] / (1 - scores[text])) for text in (absent, present))
    slope = 4 / (high - low)  # the two get probabilities of .12 and .88
    grounder.calibration = Calibration(slope, -slope * (low + high) / 2)
    return Models(several, single, grounder, present, absent)


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Client]]:
    """Starts servers; all are stopped at the end."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(engine: Engine, upload: UploadLimits | None = None) -> Client:
        server = uvicorn.Server(uvicorn.Config(create_app(engine, upload), log_level="critical"))
        listener = listen("127.0.0.1", 0)
        port = listener.port
        thread = threading.Thread(target=server.run, args=([listener.socket],), daemon=True, name=f"server-{port}")
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
    engine = Engine([models.captioner, models.single, models.grounder], Limits(pixels=PIXELS))
    engine.warm()
    return start(engine, UploadLimits(bytes=BYTES, seconds=2.0))
