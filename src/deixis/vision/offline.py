"""Block network connections while an extractor is built from the description in a model folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

_EVENTS = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
_refused: ContextVar[list[str] | None] = ContextVar("refused", default=None)


@contextmanager
def offline() -> Iterator[list[str]]:
    """Refuse connections of this thread within the block; yield the list of the refused attempts.

    An attempt is a ConnectionError, after which libraries use their local caches. An audit hook sees the connections
    of every Python library. It cannot be removed, and does nothing outside such a block.
    """
    _install()
    attempts: list[str] = []
    token = _refused.set(attempts)
    try:
        yield attempts
    finally:
        _refused.reset(token)


@cache
def _install() -> None:
    sys.addaudithook(_audit)


def _audit(event: str, args: tuple[object, ...]) -> None:
    if event in _EVENTS and (attempts := _refused.get()) is not None:
        attempts.append(event)
        raise ConnectionError("network access is not allowed here")
