"""What a user waits for: help, one photograph, a folder and the server; time, CPU time and memory, in new processes.

    python benchmarks/inference.py --model runs/mine --grounder runs/grounder
    python benchmarks/inference.py --photos photos --baseline ../deixis-0.1        ratios to another work tree
    python benchmarks/inference.py --cases photo --python /tmp/light/bin/python    another environment

Every case runs with an empty cache. CPU is user and system time of a process and its workers. The load of the machine
stands beside each figure: wall times hold on an idle machine only. With --busy N, N processes that compute without end
run beside every case (a controlled load).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CASES = ("help", "photo", "folder", "server")


@dataclass(frozen=True)
class Tree:
    """A work tree of deixis and the Python that runs it."""

    name: str
    python: str
    source: Path | None  # None: the installed package
    models: tuple[str, ...]  # options

    def environment(self, cache: Path) -> dict[str, str]:
        own = {**os.environ, "DEIXIS_CACHE": str(cache)}
        return own if self.source is None else {**own, "PYTHONPATH": str(self.source / "src")}


@dataclass(frozen=True)
class Used:
    """What a process and its children used."""

    wall: float
    cpu: float
    memory: float  # bytes of the largest process


def run(tree: Tree, args: Sequence[str | Path], repeats: int) -> Used:
    """Median of several runs of a verb."""
    found = []
    for _ in range(repeats):
        cache = Path(tempfile.mkdtemp(prefix="deixis-cache-"))
        command = [tree.python, "-m", "deixis.cli", *map(str, args)]
        started = time.perf_counter()
        with open(os.devnull, "w") as null:
            process = subprocess.Popen(command, stdout=null, stderr=subprocess.PIPE, env=tree.environment(cache))
            assert process.stderr is not None
            errors = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        shutil.rmtree(cache)
        if process.returncode:
            sys.exit(f"{' '.join(command)}\n{errors.decode()}")
        found.append(Used(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024))
    middle = (sorted(getattr(one, name) for one in found)[repeats // 2] for name in ("wall", "cpu", "memory"))
    return Used(*middle)


def serve(tree: Tree, photos: list[Path], clients: int) -> tuple[Used, list[float]]:
    """Ask for captions with several clients; the use of the server while it answers, and the times of the requests."""
    cache = Path(tempfile.mkdtemp(prefix="deixis-cache-"))
    models = ["--model" if part == "--grounder" else part for part in tree.models]
    command = [tree.python, "-m", "deixis.cli", "serve", *models, "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=tree.environment(cache))
    times: list[float] = []
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        place = urllib.parse.urlsplit(url)
        left = iter([photo.read_bytes() for photo in photos])
        lock = threading.Lock()

        def ask() -> None:
            while True:
                with lock:
                    content = next(left, None)
                if content is None:
                    return
                request = urllib.request.Request(f"http://{place.netloc}/v1/caption", content)
                request.add_header("Content-Type", "image/jpeg")
                started = time.perf_counter()
                with urllib.request.urlopen(request, timeout=600) as answer:
                    assert json.load(answer)["words"]
                times.append(time.perf_counter() - started)

        before, started = processor(server.pid), time.perf_counter()
        threads = [threading.Thread(target=ask) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall = time.perf_counter() - started
        used = Used(wall, processor(server.pid) - before, peak(server.pid))
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(cache, ignore_errors=True)
    return used, times


def processor(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(process: int) -> float:
    """Bytes of the largest memory of a process so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def photographs(folder: Path, count: int) -> list[Path]:
    """Crops of scikit-image's photographs, 500 pixels on the long side, as JPEG files."""
    from PIL import Image
    from skimage import data

    sources = [Image.fromarray(getattr(data, name)()) for name in ("astronaut", "chelsea", "coffee", "rocket")]
    rng, made = np.random.default_rng(0), []
    for number in range(count):
        source = sources[number % len(sources)]
        width, height = (round(length * rng.uniform(0.6, 1)) for length in source.size)
        x, y = (int(rng.integers(0, a - b + 1)) for a, b in zip(source.size, (width, height), strict=True))
        scale = 500 / max(width, height)
        size = round(scale * width), round(scale * height)
        made.append(folder / f"{number:03}.jpg")
        source.crop((x, y, x + width, y + height)).resize(size, Image.Resampling.BICUBIC).save(made[-1])
    return made


def _spin() -> None:
    a = np.random.default_rng(0).normal(size=(500, 500))
    while True:
        a = np.tanh(a @ a)


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Run processes that compute without end."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_spin, daemon=True) for _ in range(processes)]
    for other in others:
        other.start()
    del os.environ["OPENBLAS_NUM_THREADS"]
    if processes:
        time.sleep(60)  # the load of the last minute, by which threads are chosen
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


def measure(tree: Tree, case: str, photos: list[Path], repeats: int, clients: int) -> Used:
    """Print one line."""
    note = ""
    before = os.getloadavg()[0]
    if case == "help":
        title, used = "deixis --help", run(tree, ["--help"], repeats)
    elif case == "photo":
        title = "caption a photograph, new process"
        used = run(tree, ["caption", photos[0], *tree.models, "--json", "--quiet"], repeats)
    elif case == "folder":
        title = f"caption {len(photos)} photographs"
        used = run(tree, ["caption", photos[0].parent, *tree.models, "--json", "--quiet"], 1)
        note = f"{len(photos) / used.wall:.1f} a second, {used.cpu / len(photos) * 1e3:.0f} ms CPU each"
    else:
        title = f"serve, {clients} clients, {len(photos)} photographs"
        used, times = serve(tree, photos, clients)
        p50, p99 = np.quantile(times, [0.5, 0.99])
        note = f"{len(photos) / used.wall:.1f} a second, {used.cpu / len(photos) * 1e3:.0f} ms CPU each, "
        note += f"p50 {p50:.2f} s, p99 {p99:.2f} s"
    print(
        f"{tree.name:<10}{title:<42}{used.wall:7.2f} s {used.cpu:7.2f} s CPU {used.memory / 1e6:6.0f} MB  "
        f"load {before:.1f} to {os.getloadavg()[0]:.1f}  {note}",
        flush=True,
    )
    return used


def main() -> None:
    """Print a line for each case, and the ratios to another work tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--model", help="captioner; the default if not given")
    parser.add_argument("--grounder", help="phrase grounder of --model")
    parser.add_argument("--photos", type=Path, help="folder of JPEG files; crops of scikit-image's if not given")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--installed", action="store_true", help="the package that --python has, not this work tree")
    parser.add_argument("--baseline", type=Path, help="another work tree; it uses its own default models")
    chosen = parser.parse_args()
    models = tuple(
        part for name in ("model", "grounder") if getattr(chosen, name) for part in (f"--{name}", getattr(chosen, name))
    )
    here = None if chosen.installed else Path(__file__).parents[1]
    trees = [Tree("this", chosen.python, here, models)]
    if chosen.baseline:
        trees.append(Tree("baseline", sys.executable, chosen.baseline, ()))
    folder = Path(tempfile.mkdtemp(prefix="deixis-inference-"))
    try:
        if chosen.photos:
            for file in sorted(chosen.photos.glob("*.jpg"))[: chosen.images]:
                shutil.copy(file, folder)
            photos = sorted(folder.iterdir())
        else:
            photos = photographs(folder, chosen.images)
        cores = len(os.sched_getaffinity(0))
        print(f"{cores} cores, {chosen.busy} busy processes, load {os.getloadavg()[0]:.1f}, {len(photos)} photographs")
        with load(chosen.busy):
            for case in chosen.cases:
                own, *others = [measure(tree, case, photos, chosen.repeats, chosen.clients) for tree in trees]
                for other in others:
                    parts = ((name, getattr(other, name) / getattr(own, name)) for name in ("wall", "cpu", "memory"))
                    print(f"{'':<10}baseline / this: {', '.join(f'{name} {ratio:.2f}' for name, ratio in parts)}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
