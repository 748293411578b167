"""Two processes with half of each batch give the weights of one process, for every method."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from deixis import DeixisError, distributed

sys.path.insert(0, str(Path(__file__).parent))

import two_processes

SCRIPT = str(Path(two_processes.__file__))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


AGENT = [sys.executable, "-m", "torch.distributed.run"]


def torchrun(out: Path, *args: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    command = [*AGENT, "--standalone", f"--nproc-per-node={processes}", SCRIPT, str(out), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


def two_machines(out: Path, *args: str) -> list[int]:
    """Exit codes of two agents of one process each, as on two machines."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        place = f"--rdzv-endpoint=localhost:{free.getsockname()[1]}"
    command = [*AGENT, "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=test", place]
    agents = [
        subprocess.Popen([*command, SCRIPT, str(out), *args], stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        for _ in range(2)
    ]
    return [agent.wait(300) for agent in agents]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the runs of all cases in two processes."""
    out = tmp_path_factory.mktemp("two")
    done = torchrun(out, *two_processes.CASES)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def assert_same(weights: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> None:
    assert set(weights) == set(others)
    for name, value in weights.items():
        torch.testing.assert_close(value, others[name], rtol=1e-6, atol=1e-6, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.slow
@pytest.mark.parametrize("case", two_processes.CASES)
def test_two_processes_give_the_weights_of_one(case: str, two: Path, tmp_path: Path) -> None:
    start = {name: value.clone() for name, value in two_processes.CASES[case]()[1].double().state_dict().items()}
    alone = two_processes.run(case, tmp_path).state_dict()
    assert_same(alone, load_file(two / f"{case}.safetensors"))
    moved = [name for name, value in alone.items() if (value - start[name]).abs().max() > 1e-4]
    assert len(moved) > len(alone) / 4  # the steps were large enough to show a difference
    logs = [[json.loads(line) for line in (out / case / "log.jsonl").open()] for out in (tmp_path, two)]
    assert len(logs[0]) == len(logs[1])  # process 1 writes no lines
    for one, other in zip(*logs, strict=True):
        assert one["losses"] == pytest.approx(other["losses"], rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_a_killed_process_ends_the_run_and_another_number_of_processes_resumes_it(two: Path, tmp_path: Path) -> None:
    killed = torchrun(tmp_path, "grounder", "--kill", "1", "5")
    assert killed.returncode != 0
    assert "SIGKILL" in killed.stderr or "Signal 9" in killed.stderr
    assert not (tmp_path / "grounder.safetensors").exists()
    assert_same(two_processes.run("grounder", tmp_path).state_dict(), load_file(two / "grounder.safetensors"))


@pytest.mark.slow
def test_two_machines_give_the_same_weights_also_after_one_of_them_was_lost(two: Path, tmp_path: Path) -> None:
    assert 0 not in two_machines(tmp_path, "grounder", "--kill", "1", "5")
    assert not (tmp_path / "grounder.safetensors").exists()
    assert two_machines(tmp_path, "grounder") == [0, 0]
    assert_same(load_file(tmp_path / "grounder.safetensors"), load_file(two / "grounder.safetensors"))


LOST = "Read error [127.0.0.1]:425: Connection reset by peer"


@pytest.mark.parametrize(
    "text", [f"[/gloo/transport/tcp/pair.cc:537] {LOST}. This is typical", "Connection closed by peer"]
)
def test_the_loss_of_a_process_is_a_message_for_users(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "processes", lambda: 2)
    with pytest.raises(DeixisError, match="another process of this run ended") as error, distributed.clear_errors():
        raise RuntimeError(text)
    assert "gloo" not in str(error.value)
    assert "The same command resumes" in str(error.value)
    with pytest.raises(RuntimeError, match="shapes"), distributed.clear_errors():
        raise RuntimeError("shapes differ")
