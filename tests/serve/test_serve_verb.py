"""``deixis serve`` as people use it: started, asked, ended by a signal; and what it says when it cannot start."""

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
from serving import SENTENCE, Models, png

from deixis import cli


def test_it_starts_answers_and_ends_when_asked_to(models: Models, tmp_path: Path) -> None:
    models.captioner.save_pretrained(tmp_path / "a")
    models.finder.save_pretrained(tmp_path / "b")
    options = ["--model", str(tmp_path / "a"), "--model", str(tmp_path / "b"), "--port", "0", "--json"]
    command = [sys.executable, "-m", "deixis.cli", "serve", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        try:
            ready = json.loads(run.stdout.readline())
            assert ready["models"] == ["tiny", "finder"]
            address = urllib.parse.urlsplit(ready["url"])
            assert address.hostname == "127.0.0.1"
            line = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=60)
            line.request("POST", "/v1/caption", png(), {"Content-Type": "image/png"})
            assert json.loads(line.getresponse().read())["words"] == SENTENCE
            run.send_signal(signal.SIGTERM)
            assert run.wait(60) == 0
        finally:
            run.kill()
        assert json.loads(run.stdout.read()) == {"answered": 3}  # each model has answered one of its own at the start
        said = run.stderr.read()
    assert f"ready: {ready['url']} (tiny, finder)" in said
    assert said.endswith("stopped; all 3 requests that were taken have been answered.\n")


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert cli.run(["serve", "--port", str(port)]) == 1
    assert f"127.0.0.1:{port} cannot be listened on" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["serve", "--port", "0", "--model", str(tmp_path / "none")]) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err
