"""Training steps beside other work: one thread, one for each core, and what a command chooses.

    python benchmarks/threads.py --busy 2

Run alone on the machine. The same steps are timed without other work and beside N processes that compute without end;
"chosen" is what ``deixis.threads.configure`` sets at the start of a command. A figure is the ratio to the fastest
setting without other work. With as many busy processes as cores, a process has half of the machine: 2 is then the best
that can be reached.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from inference import load

from deixis.threads import COUNTS, WAITING, available_cores, configure

STEPS = """
import sys, time, torch
sys.path.insert(0, sys.argv[1])
import decoder as d
sizes = dict(words=256, hidden=256, attention=256, features=512, vocabulary=2000)
network = d.Decoder(d.DecoderConfig(**sizes))
optimiser = torch.optim.Adam(network.parameters(), fused=True)
data = d.batch(13, 5, 16, 36, 512, 2000)
for _ in range(3):
    d.iteration(network, optimiser, data, False)
started = time.perf_counter()
for _ in range(15):
    d.iteration(network, optimiser, data, False)
print((time.perf_counter() - started) / 15, torch.get_num_threads())
"""


def steps(settings: dict[str, str]) -> tuple[float, int]:
    """Return the seconds of a training step in a new process, and its number of threads."""
    kept = {name: value for name, value in os.environ.items() if name not in (*COUNTS, *WAITING)}
    command = [sys.executable, "-c", STEPS, str(Path(__file__).parent)]
    done = subprocess.run(command, env={**kept, **settings}, capture_output=True, text=True, check=True)
    seconds, threads = done.stdout.split()
    return float(seconds), int(threads)


def chosen() -> dict[str, str]:
    """Return what a command sets now."""
    for name in (*COUNTS, *WAITING):
        os.environ.pop(name, None)
    configure(["train"])
    found = {name: os.environ.pop(name) for name in (*COUNTS, *WAITING)}
    return found


def main() -> None:
    """Print a line for each setting, without and with other work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=available_cores())
    options = parser.parse_args()
    cores = str(available_cores())
    best = 0.0
    for busy in (0, options.busy):
        with load(busy):
            if not busy:
                ends = time.monotonic() + 180
                while os.getloadavg()[0] > 0.5 and time.monotonic() < ends:  # of what ran before
                    time.sleep(5)
            print(f"{busy} busy processes, load {os.getloadavg()[0]:.1f}", flush=True)
            settings = {
                "one thread": dict.fromkeys(COUNTS, "1"),
                f"{cores} threads": dict.fromkeys(COUNTS, cores),
                f"{cores} threads, short waiting": {**dict.fromkeys(COUNTS, cores), **WAITING},
                "chosen": chosen(),
            }
            times = {name: steps(each) for name, each in settings.items()}
            best = best or min(seconds for seconds, _ in times.values())
            for name, (seconds, threads) in times.items():
                print(f"  {name:<28}{seconds * 1e3:8.1f} ms {seconds / best:6.2f}  {threads} threads", flush=True)


if __name__ == "__main__":
    main()
