"""The HTTP interface, over a real socket: answers, problems, bounds, headers, counts."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import pytest
from PIL import Image
from serving import BYTES, PIXELS, SENTENCE, Answer, Client, Models, png

from deixis import GroundedCaption, Regions
from deixis.methods.updown.model import Captioner
from deixis.serve.engine import Engine, Limits
from deixis.serve.meter import Meter
from deixis.show.draw import PALETTE
from deixis.types import Candidate, Grounding


def form(name: str, photo: bytes, boundary: str = "xyz") -> tuple[bytes, str]:
    """A body of two parts, and its Content-Type."""
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n--{boundary}\r\n'
    head += f'Content-Disposition: form-data; name="{name}"; filename="x.png"\r\nContent-Type: image/png\r\n\r\n'
    body = head.encode() + photo + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


def assert_problem(answer: Answer, status: int, said: str) -> None:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert set(told) == {"type", "title", "status", "detail"}
    assert told["status"] == status
    assert re.search(said, told["detail"])


# Answers ------------------------------------------------------------------------------------------------------------


def test_a_caption(server: Client, models: Models) -> None:
    answer = server.photo("/v1/caption", png())
    assert answer.status == 200
    caption = GroundedCaption.from_json(answer.json())
    assert caption.words == tuple(SENTENCE)
    assert [g.text for g in caption.groundings] == ["dog", "red ball"]
    assert [g.text for g in caption.word_groundings] == ["dog", "runs", "ball"]
    assert caption.model_hash == models.captioner.hash
    assert (caption.width, caption.height, caption.model) == (60, 40, "tiny")
    assert "steps" not in answer.json()


def test_a_form_is_the_same_as_a_body(server: Client) -> None:
    body, kind = form("image", png())
    assert server.ask("POST", "/v1/caption", body, kind).json() == server.photo("/v1/caption", png()).json()


def test_a_photograph_that_lies_on_its_side_is_answered_upright(server: Client) -> None:
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (80, 40), "red").save(file, "JPEG", exif=exif)
    told = server.ask("POST", "/v1/caption", file.getvalue(), "image/jpeg").json()
    assert (told["width"], told["height"]) == (40, 80)


def test_a_model_is_chosen_by_name(server: Client) -> None:
    told = server.photo("/v1/caption?model=single&steps=true", png()).json()
    assert told["model"] == "single"
    assert [len(step["branches"]) for step in told["steps"]] == [1] * len(SENTENCE)
    assert all("heat" in g for g in told["groundings"])
    both = server.photo("/v1/caption?steps=true", png()).json()
    assert {len(step["branches"]) for step in both["steps"]} == {2}
    assert [step["word"] for step in both["steps"]] == both["words"]


def test_phrases_are_found_or_not(server: Client, models: Models) -> None:
    query = "&".join(f"phrase={text.replace(' ', '+')}" for text in (models.absent, models.present))
    told = server.photo(f"/v1/ground?{query}", png()).json()
    assert [one["phrase"] for one in told["groundings"]] == [models.absent, models.present]
    assert [one["found"] for one in told["groundings"]] == [False, True]
    assert [one["score"] >= told["threshold"] for one in told["groundings"]] == [False, True]
    assert all(Grounding.from_phrase_json(one).heat is not None for one in told["groundings"])


def test_a_caption_is_checked(server: Client, models: Models) -> None:
    caption = f"{models.present} and {models.absent}".capitalize()
    told = server.photo(f"/v1/check?caption={caption.replace(' ', '+')}", png()).json()
    assert told["caption"] == caption
    assert told["match"] is None
    low = [g["word"] for g in told["groundings"] if g["score"] < told["threshold"]]
    assert told["doubtful"] == low
    assert {g["word"] for g in told["groundings"]} == {models.present, models.absent}


def test_models_are_listed(server: Client) -> None:
    told = server.ask("GET", "/v1/models").json()["models"]
    assert [(m["name"], m["does"], m["branches"]) for m in told] == [
        ("tiny", ["caption"], 2),
        ("single", ["caption"], 1),
        ("grounder", ["ground", "check"], None),
    ]


def test_counts_and_health(server: Client) -> None:
    server.photo("/v1/caption", png())
    server.ask("GET", "/no/such/place-17")
    assert server.ask("GET", "/healthz").json() == {"status": "ok", "under_way": 0}
    answer = server.ask("GET", "/metrics")
    text = answer.body.decode()
    assert answer.headers["content-type"].startswith("text/plain")
    assert re.search(r'^deixis_requests_total\{route="/v1/caption",status="200"\} \d+$', text, re.MULTILINE)
    assert re.search(r"^deixis_batches_total [1-9]", text, re.MULTILINE)
    assert "place-17" not in text  # strangers do not make up routes
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? \d+(\.\d+)?', line)


def test_the_buckets_of_times_add_up(models: Models) -> None:
    meter = Meter()
    for seconds in (0.005, 0.01, 0.3, 99.0):
        meter.count("/x", 200, seconds)
    engine = Engine([])
    text = meter.text(engine)
    engine.close()
    counts = dict(re.findall(r'_bucket\{route="/x",le="([^"]+)"\} (\d+)', text))
    assert (counts["0.01"], counts["0.25"], counts["0.5"], counts["10.0"], counts["+Inf"]) == ("2", "2", "3", "3", "4")
    assert 'deixis_request_seconds_sum{route="/x"} 99.315000' in text


# Problems -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/v1/caption?model=nobody", 404, "no model 'nobody'"),
        ("/v1/caption?model=grounder", 404, "writes captions"),
        ("/v1/ground?phrase=dog&model=tiny", 404, "finds phrases"),
        ("/v1/ground", 422, "phrase"),
        ("/v1/ground?phrase=...", 422, "phrase"),
        ("/v1/ground?" + "&".join(["phrase=dog"] * 17), 422, "phrase"),
        ("/v1/check", 422, "caption"),
        (f"/v1/check?caption={'x' * 301}", 422, "caption"),
        ("/v1/caption?steps=perhaps", 422, "steps"),
        ("/v1/nothing", 404, "Not Found"),
    ],
)
def test_a_wrong_question_is_told(server: Client, path: str, status: int, said: str) -> None:
    assert_problem(server.photo(path, png()), status, said)


def test_a_wrong_method_is_told(server: Client) -> None:
    answer = server.ask("GET", "/v1/caption")
    assert_problem(answer, 405, "Not Allowed")
    assert answer.headers["allow"] == "POST"


def test_a_wrong_body_is_told(server: Client) -> None:
    def ask(body: bytes, kind: str | None) -> Answer:
        return server.ask("POST", "/v1/caption", body, kind)

    assert_problem(ask(png(), "text/plain"), 415, "image/jpeg")
    assert_problem(ask(png(), None), 415, "image/jpeg")
    assert_problem(ask(b"", "image/png"), 422, "no photograph")
    assert_problem(ask(b"GIF89a?", "image/gif"), 422, "cannot be read as an image")
    assert_problem(ask(png()[:300], "image/png"), 422, "cannot be read as an image")
    assert_problem(ask(b"--", "multipart/form-data"), 422, "boundary")
    assert_problem(ask(b"rubbish", "multipart/form-data; boundary=xyz"), 422, "multipart body cannot be read")
    assert_problem(ask(*form("photo", png())), 422, "no photograph")


def test_decoders_of_odd_formats_stay_shut(server: Client) -> None:
    file = io.BytesIO()
    Image.new("RGB", (9, 9)).save(file, "EPS")
    assert_problem(server.ask("POST", "/v1/caption", file.getvalue(), "image/eps"), 422, "cannot be read")


def test_too_many_pixels_are_refused_before_decoding(server: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", PIXELS, 2, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    )
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("decoded"))
    assert_problem(server.photo("/v1/caption", bomb), 413, f"limit of {PIXELS:,}")


def test_too_many_bytes_are_refused_by_what_is_announced(server: Client) -> None:
    """Only the head is sent: the answer does not wait for the body."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(b"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n")
        line.sendall(f"Content-Length: {BYTES + 1}\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 413")


def test_too_many_bytes_are_refused_while_they_come(server: Client) -> None:
    """Chunks without an announced length: the answer comes before the last of them was sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(b"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n")
        line.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(BYTES // 50_000 + 1):
            line.sendall(b"c350\r\n" + b"x" * 50_000 + b"\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 413")


def test_a_photograph_that_does_not_come_is_not_waited_for(server: Client) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(b"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n")
        line.sendall(b"Content-Length: 9\r\n\r\nabc")
        assert line.recv(100).startswith(b"HTTP/1.1 408")
    assert server.engine.under_way == 0


def test_an_upload_that_breaks_off_is_no_failure_of_ours(server: Client) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(b"POST /v1/check?caption=dog HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n")
        line.sendall(b"Content-Length: 9\r\n\r\nabc")
    while 'route="/v1/check",status="400"} 1' not in server.ask("GET", "/metrics").body.decode():
        threading.Event().wait(0.005)
    assert server.engine.under_way == 0


def test_a_form_of_too_many_parts_is_refused(server: Client) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
    answer = server.ask("POST", "/v1/caption", part * 17 + b"--x--\r\n", "multipart/form-data; boundary=x")
    assert_problem(answer, 422, "more than 16 parts")


def test_an_unforeseen_error_tells_nothing_of_the_inside(server: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Captioner, "decode", lambda *_: 1 / 0)
    answer = server.photo("/v1/caption", png())
    assert_problem(answer, 500, "internal error")
    assert "division" not in answer.body.decode()


# Under load, and at the end -----------------------------------------------------------------------------------------


class Held(Captioner):
    """A captioner that waits to be let go."""

    def __init__(self, other: Captioner) -> None:
        super().__init__(other.network, other.vocabulary, other.extractor.to_json(), "held", other.generation)
        self.go, self.busy = threading.Event(), threading.Event()

    def decode(self, regions: Sequence[Regions], width: int | None = None) -> list[list[Candidate]]:
        self.busy.set()
        assert self.go.wait(30)
        return super().decode(regions, width)


def test_who_comes_beyond_the_places_is_told_when_to_come_again(models: Models, start: Callable[..., Client]) -> None:
    held = Held(models.captioner)
    client = start(Engine([held], Limits(waiting=3)))
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(client.photo, "/v1/caption", png(seed)) for seed in range(3)]
        assert held.busy.wait(30)
        while client.engine.under_way < 3:
            threading.Event().wait(0.005)
        refused = client.photo("/v1/caption", b"x" * 8_000_000)  # more than fits into the buffers of a connection
        assert_problem(refused, 503, "try again")
        assert int(refused.headers["retry-after"]) >= 1
        assert client.ask("GET", "/healthz").json() == {"status": "ok", "under_way": 3}
        held.go.set()
        assert [one.result(30).status for one in asked] == [200, 200, 200]
    assert client.photo("/v1/caption", png()).status == 200


def test_nothing_that_was_accepted_is_lost_when_the_server_stops(models: Models, start: Callable[..., Client]) -> None:
    held = Held(models.captioner)
    client = start(Engine([held], Limits(batch=2)))
    running = next(thread for thread in threading.enumerate() if thread.name == f"server-{client.port}")
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(client.photo, "/v1/caption", png(seed)) for seed in range(5)]
        while client.engine.under_way < 5:
            threading.Event().wait(0.005)
        client.stop()
        while True:  # it no longer listens
            try:
                socket.create_connection(("127.0.0.1", client.port), timeout=5).close()
                threading.Event().wait(0.01)
            except ConnectionRefusedError:
                break
        held.go.set()
        assert [one.result(30).status for one in asked] == [200] * 5
    running.join(30)
    assert not running.is_alive()
    assert not client.engine.open


# What a browser is told ---------------------------------------------------------------------------------------------


def test_a_browser_is_told_to_load_nothing_from_elsewhere(server: Client) -> None:
    for path in ("/", "/page.js", "/page.css", "/settings.json", "/v1/models", "/nothing"):
        headers = server.ask("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert not [name for name in headers if name.startswith("access-control")]


def test_the_files_of_the_page_name_no_other_host() -> None:
    for file in files("deixis.serve").iterdir():
        if file.name.endswith((".html", ".css", ".js", ".svg")):
            text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"""https?:|["'(]//|@import""", text), file.name


def test_no_page_that_would_load_scripts_from_elsewhere_is_served(server: Client) -> None:
    assert [server.ask("GET", path).status for path in ("/docs", "/redoc")] == [404, 404]
    described = server.ask("GET", "/openapi.json").json()
    assert {"/v1/caption", "/v1/ground", "/v1/check", "/v1/models", "/healthz", "/metrics"} == set(described["paths"])


def test_colours_exist_once(server: Client) -> None:
    told = server.ask("GET", "/settings.json").json()
    assert [one["fill"] for one in told["colours"]] == list(PALETTE)
    page = "".join(files("deixis.serve").joinpath(name).read_text() for name in ("page.css", "page.js", "picture.js"))
    assert not [colour for colour in PALETTE if colour in page.lower()]


def test_examples_are_served_and_nothing_beside_them(server: Client) -> None:
    pytest.importorskip("skimage", reason="scikit-image, whose photographs are the examples, is not installed")
    told = server.ask("GET", "/settings.json").json()["examples"]
    assert [one["url"] for one in told] == ["/examples/astronaut.png", "/examples/chelsea.png", "/examples/coffee.png"]
    for one in told:
        assert Image.open(io.BytesIO(server.ask("GET", one["url"]).body)).format == "PNG"
    for path in (
        "/examples/camera.png",
        "/examples/..%2F..%2Fpyproject.toml",
        "/examples/%2Fetc%2Fpasswd",
        "/page.html",
    ):
        assert server.ask("GET", path).status == 404


def test_a_connection_can_be_used_again(server: Client) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for seed in range(3):
        line.request("POST", "/v1/caption", png(seed), {"Content-Type": "image/png"})
        assert json.loads(line.getresponse().read())["words"] == SENTENCE
    line.close()
