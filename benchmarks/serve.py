"""The server under load: requests a second, how long they take, whether memory stays flat, and what a stop loses.

python benchmarks/serve.py [--requests 2000] [--clients 16] [--model RUN --photos DIR]

A server in a process of its own is asked over the loopback, each request on a new connection. Without a model it has a
tiny captioner with random weights and small pictures of noise, so that the numbers are those of the serving itself:
reading, queueing, batching, answering. Every picture is another one, so that no regions are remembered. On a busy
machine trust the CPU time and the counts; the rest is told of that machine at that moment.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.vision.extractor import named_extractor


def tiny_captioner(folder: Path) -> None:
    torch.manual_seed(0)
    extractor = named_extractor("tiny", "grid")
    width = extractor.extract(np.zeros((48, 64, 3), dtype=np.uint8)).features.shape[1]
    vocabulary = Vocabulary.build([["a", "dog", "runs", "after", "red", "ball"]], minimum=1)
    decoder = Decoder(DecoderConfig(len(vocabulary), width, words=32, hidden=64, attention=32, branches=2))
    generation = GenerationConfig(max_words=10, min_words=10)
    Captioner(decoder, vocabulary, extractor.to_json(), "tiny", generation).save_pretrained(folder)


def noise(count: int) -> list[bytes]:
    random, made = np.random.default_rng(0), []
    for _ in range(count):
        file = io.BytesIO()
        Image.fromarray(random.integers(0, 255, (48, 64, 3), dtype=np.uint8)).save(file, "JPEG")
        made.append(file.getvalue())
    return made


def resident(process: int) -> float:
    """Megabytes of a process in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def processor(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """Threads that ask for captions until all are asked, or the server is gone."""

    def __init__(self, port: int, photos: list[bytes], clients: int) -> None:
        self.port, self.photos = port, photos
        self.ended: Counter[str] = Counter()
        self.seconds: list[float] = []
        self._next, self._lock = 0, threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def start(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def wait(self) -> float:
        started = time.perf_counter()
        for thread in self._threads:
            thread.join()
        return time.perf_counter() - started

    def _take(self) -> bytes | None:
        with self._lock:
            if self._next == len(self.photos):
                return None
            self._next += 1
            return self.photos[self._next - 1]

    def _ask(self) -> None:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        while (photo := self._take()) is not None:
            started = time.perf_counter()
            try:
                line.connect()
            except ConnectionRefusedError:
                self.ended["not taken"] += 1  # the server no longer listens
                return
            try:
                line.request("POST", "/v1/caption", photo, {"Content-Type": "image/jpeg"})
                answer = line.getresponse()
            except ConnectionError:
                self.ended["not taken"] += 1  # it waited in line when the server stopped
                return
            told = json.loads(answer.read())
            self.ended[str(answer.status)] += 1
            assert answer.status == 503 or told["words"]
            self.seconds.append(time.perf_counter() - started)
            line.close()


def scrape(port: int) -> dict[str, float]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request("GET", "/metrics")
    rows = [row.rsplit(" ", 1) for row in line.getresponse().read().decode().splitlines() if not row.startswith("#")]
    return {name: float(value) for name, value in rows}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--clients", type=int, default=16)
    options.add_argument("--model", help="the folder of a captioner; a tiny one if none is given")
    options.add_argument("--photos", type=Path, help="a folder of photographs; noise if none is given")
    args = options.parse_args()
    files = sorted(args.photos.iterdir())[: args.requests] if args.photos else []
    photos = [file.read_bytes() for file in files] or noise(args.requests)
    with tempfile.TemporaryDirectory() as folder:
        if not args.model:
            tiny_captioner(Path(folder))
        command = [sys.executable, "-m", "deixis.cli", "serve", "--model", args.model or folder, "--port", "0"]
        server = subprocess.Popen([*command, "--json", "--quiet"], stdout=subprocess.PIPE, text=True)
        try:
            measure(server, photos, args.clients)
        finally:
            server.kill()


def measure(server: subprocess.Popen[str], photos: list[bytes], clients: int) -> None:
    assert server.stdout is not None
    port = urllib.parse.urlsplit(json.loads(server.stdout.readline())["url"]).port or 0
    warm = len(photos) // 10  # pools and caches fill up before memory is compared
    first = Load(port, photos[:warm], clients).start()
    first.wait()
    before, used, counted = resident(server.pid), processor(server.pid), scrape(port)
    load = Load(port, photos[warm:], clients).start()
    seconds = load.wait()
    after, used, told = resident(server.pid), processor(server.pid) - used, scrape(port)
    asked, times = len(photos) - warm, 1e3 * np.quantile(load.seconds, [0.5, 0.99, 1.0])
    batches = told["deixis_batches_total"] - counted["deixis_batches_total"]
    together = (told["deixis_batched_total"] - counted["deixis_batched_total"]) / batches
    print(f"{asked:,} requests of {clients} clients in {seconds:.1f} s: {asked / seconds:.1f} a second")
    print(f"answers by status: {dict(load.ended)}; {together:.1f} requests in a batch")
    print(f"p50 {times[0]:.0f} ms, p99 {times[1]:.0f} ms, worst {times[2]:.0f} ms")
    print(f"CPU of the server: {1e3 * used / asked:.1f} ms a request")
    print(f"resident {before:.0f} MB after {warm} requests, {after:.0f} MB after {len(photos):,}")
    last = Load(port, photos[: 20 * clients], clients).start()
    while len(last.seconds) < 2 * clients:
        time.sleep(0.001)
    server.send_signal(signal.SIGTERM)
    last.wait()
    code = server.wait(600)
    received = sum(each.ended["200"] for each in (first, load, last))
    answered = json.loads(server.stdout.read())["answered"] - 1  # one was the server's own, at its start
    print(f"stopped under load: exit code {code}, {dict(last.ended)}")
    print(f"answered {answered:,}, received {received:,}, lost {answered - received}")


if __name__ == "__main__":
    main()
