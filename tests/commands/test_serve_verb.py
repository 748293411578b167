"""``deixis serve``: start, answer, stop on a signal; and what it says when it cannot start."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from small_models import small_matcher

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")

from starlette.testclient import TestClient

from deixis import cli
from deixis.pipelines.models import load_model
from deixis.serve.app import create_app
from deixis.serve.engine import Engine


@pytest.fixture
def grounder(tmp_path: Path) -> Path:
    """The folder of an untrained phrase grounder with the captioner's extractor."""
    small_matcher(name="grounder").save_pretrained(tmp_path / "grounder")
    return tmp_path / "grounder"


@pytest.mark.slow
def test_it_starts_answers_and_stops_on_a_signal(model: Path, grounder: Path, photos: Path) -> None:
    photo, kind = (photos / "0.png").read_bytes(), {"Content-Type": "image/png"}
    with TestClient(create_app(Engine([load_model(model), load_model(grounder)])), "http://localhost") as client:
        expected = client.post("/v1/caption", content=photo, headers=kind).json()
    assert expected["words"]
    options = ["--model", str(model), "--model", str(grounder), "--port", "0", "--json"]
    command = [sys.executable, "-m", "deixis.cli", "serve", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        try:
            ready = json.loads(run.stdout.readline())
            assert ready["models"] == ["small", "grounder"]
            address = urllib.parse.urlsplit(ready["url"])
            assert address.hostname == "127.0.0.1"
            line = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=60)
            line.request("POST", "/v1/caption", photo, kind)
            assert json.loads(line.getresponse().read())["words"] == expected["words"]
            run.send_signal(signal.SIGTERM)
            assert run.wait(60) == 0
        finally:
            run.kill()
        assert json.loads(run.stdout.read()) == {"answered": 3}  # each model has answered one of its own at the start
        said = run.stderr.read()
    assert f"ready: {ready['url']} (small, grounder)" in said
    assert said.endswith("Stopped after answering all 3 accepted requests.\n")


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert cli.run(["serve", "--port", str(port)]) == 1
    assert f"127.0.0.1:{port} cannot be listened on" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["serve", "--port", "0", "--model", str(tmp_path / "none")]) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err
