"""Server start-up: a listening socket, a browser window, and uvicorn until a signal."""

from __future__ import annotations

import signal
import socket
import threading
import webbrowser
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from deixis.errors import DeixisError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
BROWSER_SECONDS = 0.5  # until the browser is opened; the server accepts requests by then


@dataclass(frozen=True)
class Listener:
    """A listening socket and the host name it was opened with."""

    host: str
    socket: socket.socket

    @property
    def port(self) -> int:
        """Port number, also if any free port was requested."""
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        """Address for a browser."""
        return f"http://{'[' + self.host + ']' if ':' in self.host else self.host}:{self.port}/"

    @property
    def public(self) -> bool:
        """Whether other machines can connect."""
        return self.host not in LOOPBACK


def listen(host: str, port: int) -> Listener:
    """Open a socket; port 0 takes any free port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return Listener(host, socket.create_server((host, port), family=family, backlog=256))
    except OSError as error:
        reason = error.strerror or error
        raise DeixisError(f"{host}:{port} cannot be listened on ({reason}). Choose another --port or --host.") from None


def run_app(app: FastAPI, listener: Listener, *, browse: bool = False, shutdown_seconds: int | None = None) -> None:
    """Serve until SIGINT or SIGTERM; requests under way get ``shutdown_seconds`` to finish (None: no limit)."""
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=shutdown_seconds)
    if browse:
        threading.Timer(BROWSER_SECONDS, webbrowser.open, [listener.url]).start()
    # uvicorn raises the signal again when it has shut down; a requested stop is not a failure
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        uvicorn.Server(config).run(sockets=[listener.socket])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
