"""Threads of NumPy, torch and OpenMP: how many, and how long they wait. Set before these libraries are imported.

On a machine with other work, threads that spin while they wait for each other take the cores from it and from
themselves. So there is one thread for each core that is free at the start, and waiting threads sleep early.

Products of NumPy have one thread: with several, OpenBLAS divides them into other blocks, and features of regions differ
in the last bit from those that worker processes write into a feature store. Inference divides its work by photographs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the environment with the number of threads of torch and its libraries."""

OF_NUMPY = "OPENBLAS_NUM_THREADS"

WAITING = {"GOMP_SPINCOUNT": "20000", "KMP_BLOCKTIME": "1", "OPENBLAS_THREAD_TIMEOUT": "16"}
"""Short spinning: about 50 microseconds (GNU OpenMP and OpenBLAS), 1 millisecond (OpenMP of Intel and LLVM)."""

ONE_AT_A_TIME = ("serve",)
"""Verbs whose work is already divided among the cores."""


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_cores() -> int:
    """Return the number of cores without other work, by the load of the last minute; at least 1."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, available_cores() - round(load))


def several_threads() -> bool:
    """Return whether this process may compute in several threads at once."""
    return available_cores() > 1 and os.environ.get(COUNTS[0]) != "1"


def configure(args: Sequence[str]) -> None:
    """Set threads and waiting for the arguments of a command; variables that the user has set are not changed.

    ``--threads N`` in the arguments has precedence.
    """
    for name, value in {**WAITING, OF_NUMPY: "1"}.items():
        os.environ.setdefault(name, value)
    asked = _asked(args)
    if not asked and any(name in os.environ for name in COUNTS):
        return
    count = asked or (1 if args and args[0] in ONE_AT_A_TIME else free_cores())
    os.environ.update(dict.fromkeys(COUNTS, str(count)))


def _asked(args: Sequence[str]) -> int:
    """Return the number after ``--threads``; 0 if there is none."""
    for at, option in enumerate(args):
        name, _, value = option.partition("=")
        if name == "--threads":
            text = value or " ".join(args[at + 1 : at + 2])
            return int(text) if text.isdecimal() else 0
    return 0
