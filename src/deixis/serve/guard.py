"""Middleware of both servers: allowed hosts, same-origin checks, a token, bounded bodies and security headers.

A web page of another site can send requests to a server on this machine. Three checks refuse them: the Host header
must be an allowed name (DNS rebinding), the Origin and Sec-Fetch-Site headers of a state-changing request must name
this server (cross-site requests), and a server with ratings expects the token of its own page.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deixis.serve.problems import UNFORESEEN, problem
from deixis.serve.upload import UploadLimits

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = ("0.0.0.0", "::", "")
"""Values of --host that listen on every address of the machine."""

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
TOKEN_HEADER = "X-Deixis-Token"

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
"""Headers of every response: a browser loads only files of this server, and no other site can embed them."""


@dataclass(frozen=True)
class Hosts:
    """Host names of the server, without ports."""

    names: frozenset[str]
    any_address: bool = False  # whether every IP address is allowed; only names can be rebound

    @classmethod
    def of(cls, host: str, allowed: Iterable[str] = ()) -> Hosts:
        """Return the loopback names, the host that the server listens on, and further allowed names."""
        given = [f"[{name}]" if name.count(":") > 1 and "[" not in name else name for name in (host, *allowed)]
        names = {*LOOPBACK, *map(_host_name, given)}
        return cls(frozenset(names - set(ANY_ADDRESS)), host in ANY_ADDRESS)

    def allow(self, header: str) -> bool:
        """Return whether a Host header names this server."""
        name = _host_name(header)
        return name in self.names or (self.any_address and _is_address(name))


@dataclass(eq=False)
class _Body:
    """A body that is being received."""

    deadline: float  # on the clock of the event loop
    timer: asyncio.Timeout | None = None  # of the message that is being awaited
    size: int = 0
    complete: bool = False

    def drop(self, now: float) -> None:
        """Let the wait for the next part end now."""
        self.deadline = now
        if self.timer is not None:
            self.timer.reschedule(now)


@dataclass
class Guard:
    """ASGI middleware: checks of a request, bounds of its body, headers of the response."""

    app: ASGIApp
    hosts: Hosts
    limits: UploadLimits = field(default_factory=UploadLimits)
    token: str = ""  # that state-changing requests must have; empty: none
    _bodies: dict[int, _Body] = field(default_factory=dict)  # incomplete ones, oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope["method"], Headers(scope=scope))
        if refusal is not None:
            return await problem(*refusal)(scope, receive, send_with_headers)
        body = _Body(asyncio.get_running_loop().time() + self.limits.seconds)
        try:
            await self.app(scope, lambda: self._receive(body, receive), send_with_headers)
        except Exception:
            if not started:
                await problem(500, UNFORESEEN)(scope, receive, send_with_headers)
            raise  # the server logs it
        finally:
            self._bodies.pop(id(body), None)

    def refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        """Return status and reason of a refused request, None where it may pass."""
        host = headers.get("host", "")
        if not self.hosts.allow(host):
            return 421, "The Host header is not a name of this server. Start it with --allow-host NAME to add one."
        announced = headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > 15 or int(announced) > self.limits.bytes):
            return 413, self._too_large
        if method in SAFE_METHODS:
            return None
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") or not _same_origin(headers, host):
            return 403, "The request comes from a page of another site, which may not use this server."
        if self.token and not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self.token.encode()):
            return 403, "The token of the page is missing or old. Reload the page."
        return None

    @property
    def _too_large(self) -> str:
        return f"the upload is larger than {self.limits.bytes:,} bytes; make it smaller first."

    async def _receive(self, body: _Body, receive: Receive) -> Message:
        """Return the next message of a request; a body that is too large or too slow is an error."""
        if body.complete:
            return await receive()
        self._open(body)
        try:
            async with asyncio.timeout_at(body.deadline) as body.timer:
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {self.limits.seconds:g} s.") from None
        finally:
            body.timer = None
        body.size += len(message.get("body", b""))
        if body.size > self.limits.bytes:
            raise HTTPException(413, self._too_large)
        if message["type"] != "http.request" or not message.get("more_body", False):
            body.complete = True
            self._bodies.pop(id(body), None)
        return message

    def _open(self, body: _Body) -> None:
        """Count a body among the incomplete ones; drop the oldest where there are too many."""
        if id(body) in self._bodies:
            return
        while len(self._bodies) >= self.limits.open:
            oldest = self._bodies.pop(next(iter(self._bodies)))
            oldest.drop(asyncio.get_running_loop().time())
        self._bodies[id(body)] = body


def _same_origin(headers: Headers, host: str) -> bool:
    """Return whether the Origin header, where there is one, names the host that was asked."""
    origin = headers.get("origin")
    if origin is None:
        return True  # not a browser; browsers send it with every POST
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _host_name(header: str) -> str:
    """Return the name in a Host header, in lower case, without port and brackets; empty if malformed."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return ""
    if parts.netloc != header or "@" in header:
        return ""
    return (parts.hostname or "").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
