"""Listening on an address, and serving there until someone ends it."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

from deixis.errors import DeixisError

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def listen(host: str, port: int) -> socket.socket:
    """A socket on the address; port 0 takes a free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        reason = error.strerror or error
        raise DeixisError(f"{host}:{port} cannot be listened on ({reason}); choose another --port or --host.") from None


def address(host: str, ear: socket.socket) -> str:
    """What to type into a browser."""
    return f"http://{'[' + host + ']' if ':' in host else host}:{ear.getsockname()[1]}/"


def run(server: uvicorn.Server, ear: socket.socket) -> None:
    """Serve until a signal; uvicorn raises the signal once more at its end, and an asked-for end is no failure."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        server.run(sockets=[ear])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
