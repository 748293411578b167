"""What the machine itself can do, measured in the same run as what is compared with it."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import torch


def seconds(run: Callable[[], object], repeats: int = 5, warm: int = 2) -> float:
    """The median time of a call, after some calls that do not count."""
    for _ in range(warm):
        run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def gemm_rate(dtype: torch.dtype = torch.float32, size: int = 1536) -> float:
    """FLOP a second of a large square matrix product with torch's present number of threads."""
    a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    return 2 * size**3 / seconds(lambda: a @ b, repeats=9)


def peak_memory() -> int:
    """The most bytes this process has had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
