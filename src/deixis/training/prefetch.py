"""Load and collate the next batch in background threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def ahead(make: Callable[[Key], Value], keys: Iterable[Key]) -> Iterator[Value]:
    """Yield ``make(key)`` of each key; a thread makes the next value while the caller uses the current one.

    ``make`` must not use random numbers of torch's or NumPy's global generators, which the caller may use meanwhile.
    """
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[Future[Value]] = deque()
        try:
            for key in keys:
                waiting.append(pool.submit(make, key))
                if len(waiting) > 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class Prefetch(Generic[Value]):
    """Values by key, loaded by ``workers`` threads before they are asked for; 0: when they are asked for.

    Loading must not use random numbers, so that results do not depend on the threads.
    """

    def __init__(self, load: Callable[[str], Value], workers: int) -> None:
        self.load = load
        self.pool = ThreadPoolExecutor(workers) if workers else None
        self.batches: deque[dict[str, Future[Value]]] = deque(maxlen=2)  # the current one and the next

    def ahead(self, keys: Iterable[str]) -> None:
        """Start to load a batch; values of the batch before stay available, older ones are released."""
        if self.pool is not None:
            known = {key: future for batch in self.batches for key, future in batch.items()}
            self.batches.append({k: known.get(k) or self.pool.submit(self.load, k) for k in dict.fromkeys(keys)})

    def __getitem__(self, key: str) -> Value:
        for batch in self.batches:
            if key in batch:
                return batch[key].result()
        return self.load(key)
