"""Both servers against other sites, other hosts, large, slow and broken requests, over real sockets."""

from __future__ import annotations

import io
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from hostile import picture

from deixis.pipelines.models import load_model
from deixis.serve.app import create_app as serve_app
from deixis.serve.engine import Engine, Limits
from deixis.serve.guard import Hosts
from deixis.serve.run import TimedProtocol, listen, server_config
from deixis.serve.upload import UploadLimits
from deixis.study.app import create_app as study_app
from deixis.study.database import Plan, StudyDatabase
from deixis.study.pairs import Pair

STUDY_ROUTES = {"/v1/raters": {"name": "Ada"}, "/v1/raters/1/ratings": {"item": 1, "choice": "left"}}
"""Routes of the study whose body is not empty."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """A server on the loopback; requests are written byte by byte, so that every header can be wrong."""

    app: FastAPI
    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        named = {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(body)), "Connection": "close"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in named.items())
        with self.connect() as line:
            line.sendall(head.encode() + b"\r\n" + body)
            return read_answer(line)

    def post(self, path: str, value: object = None, **headers: str) -> Answer:
        body = b"{}" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send("POST", path, body, Content_Type="application/json", **headers)

    def token(self) -> dict[str, str]:
        [found] = re.findall(r'name="deixis-token" content="([^"]+)"', self.send("GET", "/").body.decode())
        return {"X_Deixis_Token": found}


def read_answer(line: socket.socket) -> Answer:
    data = b""
    while chunk := line.recv(65536):
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    return Answer(int(first.split()[1]), {n.lower(): v for n, v in (each.split(": ", 1) for each in rest)}, body)


@pytest.fixture
def start() -> Iterator[Callable[[FastAPI], Server]]:
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(app: FastAPI) -> Server:
        listener = listen("127.0.0.1", 0)
        server = uvicorn.Server(server_config(app))
        thread = threading.Thread(target=server.run, args=([listener.socket],), daemon=True)
        thread.start()
        running.append((server, thread))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        return Server(app, listener.port)

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(timeout=60)


@pytest.fixture
def database(tmp_path: Path) -> StudyDatabase:
    box = (0.0, 0.0, 10.0, 10.0)
    pairs = [Pair("a.png", f"word{n}", 60, 40, box, (5.0, 5.0, 20.0, 20.0)) for n in range(6)]
    return StudyDatabase.create_or_open(tmp_path / "study.sqlite", Plan(), pairs)


@pytest.fixture
def study(database: StudyDatabase, tmp_path: Path, start: Callable[[FastAPI], Server]) -> Server:
    picture().save(tmp_path / "a.png")
    return start(study_app(database, {"a.png": tmp_path / "a.png"}))


@pytest.fixture(scope="session")
def engine(models: tuple[Path, Path]) -> Iterator[Engine]:
    made = Engine([load_model(folder) for folder in models], Limits(waiting=2))
    yield made
    made.close()


@pytest.fixture
def serve(engine: Engine, start: Callable[[FastAPI], Server], monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(engine, "close", lambda: None)  # the engine is shared by all tests
    return start(serve_app(engine, UploadLimits(bytes=400_000, seconds=20.0, open=4)))


@pytest.fixture(params=["serve", "study"])
def either(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of every route, from the OpenAPI description; parameters are 1."""
    described = FastAPI.openapi(app)["paths"]
    found = [(method.upper(), re.sub(r"\{\w+\}", "1", path)) for path, each in described.items() for method in each]
    assert found
    return found


def photo() -> bytes:
    file = io.BytesIO()
    picture().save(file, "PNG")
    return file.getvalue()


# Other sites --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1@evil", ""])
def test_a_foreign_host_gets_nothing(either: Server, host: str) -> None:
    for method, path in [*routes(either.app), ("GET", "/"), ("GET", "/nothing")]:
        answer = either.send(method, path, Host=host)
        assert answer.status == 421, (method, path)
        assert "--allow-host" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:8421"])
def test_a_name_of_the_loopback_is_allowed(either: Server, host: str) -> None:
    assert either.send("GET", "/", Host=host).status == 200


def test_hosts_are_those_that_were_given() -> None:
    hosts = Hosts.of("192.168.1.7", ["photos.example", "[fe80::1]"])
    allowed = ["192.168.1.7:8421", "photos.example", "PHOTOS.example.:80", "[fe80::1]:1", "localhost"]
    assert [hosts.allow(host) for host in allowed] == [True] * 5
    assert [hosts.allow(host) for host in ("192.168.1.8", "example", "photos.example@evil", "a:b:c")] == [False] * 4


def test_a_server_on_every_address_is_reached_by_address_but_not_by_name() -> None:
    hosts = Hosts.of("0.0.0.0")
    assert hosts.allow("10.1.2.3:8421")
    assert hosts.allow("[fe80::1]")
    assert not hosts.allow("evil.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(either: Server, headers: dict[str, str]) -> None:
    token = either.token() if "deixis-token" in either.send("GET", "/").body.decode() else {}
    posts = [path for method, path in routes(either.app) if method not in ("GET", "HEAD")]
    assert posts
    for path in posts:
        answer = either.post(path, STUDY_ROUTES.get(path), **headers, **token)
        assert answer.status == 403, path
        assert "another site" in answer.json()["detail"]


def test_a_foreign_page_cannot_undo_ratings(study: Server, database: StudyDatabase) -> None:
    token = study.token()
    rater = study.post("/v1/raters", {"name": "Ada"}, **token).json()
    for _ in range(5):
        turn = rater["turn"]
        rater = study.post(
            f"/v1/raters/{rater['rater']}/ratings", {"item": turn["item"], "choice": "left"}, **token
        ).json()
    assert len(database.ratings()) == 5
    for _ in range(5):
        assert study.send("POST", "/v1/raters/1/undo", Origin="http://evil.example").status == 403
        assert study.send("POST", "/v1/raters/1/undo").status == 403  # no token
        assert study.send("POST", "/v1/raters/1/undo", X_Deixis_Token="guessed").status == 403
    assert len(database.ratings()) == 5
    assert study.post("/v1/raters/1/undo", **token, Origin=f"http://127.0.0.1:{study.port}").status == 200
    assert len(database.ratings()) == 4


def test_every_route_of_the_study_that_changes_it_wants_the_token(study: Server, database: StudyDatabase) -> None:
    for path in [path for method, path in routes(study.app) if method != "GET"]:
        answer = study.post(path, STUDY_ROUTES.get(path))
        assert (answer.status, "token" in answer.json()["detail"]) == (403, True), path
    assert database.assigned() == {}


def test_tokens_differ(study: Server, database: StudyDatabase, start: Callable[[FastAPI], Server]) -> None:
    other = start(study_app(database, {}))
    assert study.token() != other.token()


def test_every_answer_has_the_security_headers(either: Server) -> None:
    asked = [*routes(either.app), ("GET", "/"), ("GET", "/page.js"), ("GET", "/nothing"), ("POST", "/"), ("PUT", "/")]
    for method, path in asked:
        headers = either.send(method, path).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["script-src"] == policy["style-src"] == "'self'", path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert not [name for name in headers if name.startswith("access-control")]


def test_an_unforeseen_error_has_the_security_headers_too(study: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StudyDatabase, "image_of", lambda self, item: 1 / 0)
    answer = study.send("GET", "/v1/photographs/1")
    assert answer.status == 500
    assert "division" not in answer.body.decode()
    assert "content-security-policy" in answer.headers


def test_pages_have_no_inline_script_and_style(either: Server) -> None:
    page = either.send("GET", "/").body.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", page) == []
    assert "<style" not in page
    assert re.findall(r"""\s(?:on\w+|style)=["']""", page) == []


# Broken bodies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b'{"name": NaN}', b'{"name": "a\\ud800b"}', b'{"name": "\xff"}', b"[" * 20_000, b"{"],
    ids=["NaN", "half a character", "not UTF-8", "deep", "cut"],
)
def test_json_that_is_none_is_a_bad_request(study: Server, body: bytes) -> None:
    for path in STUDY_ROUTES:
        answer = study.post(path, body, **study.token())
        assert answer.status == 400, answer.body
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_wrong_value_is_named_and_not_sent_back(study: Server) -> None:
    answer = study.post("/v1/raters", {"name": "x" * 50_000}, **study.token())
    assert answer.status == 422
    assert "name" in answer.json()["detail"]
    assert len(answer.body) < 1_000


def test_a_large_body_is_refused_by_its_announcement(study: Server) -> None:
    with study.connect() as line:
        head = f"POST /v1/raters HTTP/1.1\r\nHost: localhost\r\nX-Deixis-Token: {study.token()['X_Deixis_Token']}\r\n"
        line.sendall(head.encode() + b"Content-Length: 300000000\r\nConnection: close\r\n\r\n")
        assert read_answer(line).status == 413


def test_a_large_body_without_announcement_is_not_read(study: Server) -> None:
    with study.connect() as line:
        head = f"POST /v1/raters HTTP/1.1\r\nHost: localhost\r\nX-Deixis-Token: {study.token()['X_Deixis_Token']}\r\n"
        line.sendall(head.encode() + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.sendall((b"c350\r\n" + b"x" * 50_000 + b"\r\n") * 2)
        assert line.recv(100).startswith(b"HTTP/1.1 413")


# Slow clients -------------------------------------------------------------------------------------------------------


def slow_upload(server: Server) -> socket.socket:
    """Begin an upload and do not end it."""
    line = server.connect()
    line.sendall(
        b"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 99\r\n\r\nx"
    )
    return line


def test_slow_uploads_keep_nobody_out(
    engine: Engine, start: Callable[[FastAPI], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "close", lambda: None)  # the engine is shared by all tests
    serve = start(serve_app(engine, UploadLimits(bytes=400_000, seconds=600.0, open=4)))
    slow = [slow_upload(serve) for _ in range(engine.limits.waiting + 10)]  # more than there are places
    try:
        answer = serve.send("POST", "/v1/caption", photo(), Content_Type="image/png")
        assert answer.status == 200
        assert engine.under_way == 0
        slow[0].settimeout(20)
        assert slow[0].recv(100).startswith(b"HTTP/1.1 408")  # the oldest was dropped for a new one
    finally:
        for line in slow:
            line.close()


def test_a_body_that_does_not_come_is_dropped(
    engine: Engine, start: Callable[[FastAPI], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "close", lambda: None)
    server = start(serve_app(engine, UploadLimits(seconds=0.2)))
    with slow_upload(server) as line:
        assert line.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("sent", [b"", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "])
def test_half_sent_headers_are_closed(study: Server, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedProtocol, "header_seconds", 0.2)
    with study.connect() as line:
        line.sendall(sent)
        assert line.recv(100) == b""


def test_half_sent_headers_of_a_second_request_are_closed(study: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedProtocol, "header_seconds", 0.2)
    with study.connect() as line:
        line.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.recv(5000).startswith(b"HTTP/1.1 404")
        line.sendall(b"GET / HTT")
        rest = b"".join(iter(lambda: line.recv(5000), b""))
        assert b"HTTP/1.1 200" not in rest


# Photographs of a study ---------------------------------------------------------------------------------------------


def test_a_study_sends_images_only(study: Server, tmp_path: Path) -> None:
    assert study.send("GET", "/v1/photographs/1").headers["content-type"] == "image/png"
    (tmp_path / "a.png").write_text("<script>alert(1)</script>")
    assert study.send("GET", "/v1/photographs/1").status == 404
