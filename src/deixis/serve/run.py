"""Server start-up: a listening socket, a browser window, and uvicorn until a signal."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import webbrowser
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from deixis.errors import DeixisError
from deixis.serve.guard import LOOPBACK

HEADER_SECONDS = 10.0  # until the headers of a request are complete
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


class TimedProtocol(H11Protocol):
    """HTTP/1.1 connection that is closed if the headers of a request are not complete in time."""

    header_seconds = HEADER_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_timer: asyncio.TimerHandle | None = None

    @property
    def _awaits_headers(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._start_header_timer()

    def data_received(self, data: bytes) -> None:
        """Start the timer with the first bytes of a request; stop it when its headers are complete."""
        super().data_received(data)
        if not self._awaits_headers:
            self._stop_header_timer()
        elif self._header_timer is None:
            self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_header_timer()
        super().connection_lost(exc)

    def _start_header_timer(self) -> None:
        self._header_timer = self.loop.call_later(self.header_seconds, self._headers_late)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _headers_late(self) -> None:
        self._header_timer = None
        if self._awaits_headers and not self.transport.is_closing():
            self.transport.close()


def server_config(app: FastAPI, shutdown_seconds: int | None = None) -> uvicorn.Config:
    """Return the settings of uvicorn: timeouts of connections, no WebSockets, only warnings are logged."""
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=shutdown_seconds,
    )


def run_app(app: FastAPI, listener: Listener, *, browse: bool = False, shutdown_seconds: int | None = None) -> None:
    """Serve until SIGINT or SIGTERM; requests under way get ``shutdown_seconds`` to finish (None: no limit)."""
    config = server_config(app, shutdown_seconds)
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
