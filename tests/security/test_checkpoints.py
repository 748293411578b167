"""Published weights (``.pth``) and model folders that are made to do harm."""

from __future__ import annotations

import argparse
import io
import pickle
import socket
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from deixis import cli
from deixis.errors import DeixisError
from deixis.layers.checkpoint_file import read_checkpoint
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.training.published import load_weights
from deixis.vision.extractor import RegionExtractor
from deixis.vision.offline import offline


class Call:
    """A value whose pickle calls a function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


def saved(value: Any, legacy: bool = False) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


def compressed() -> bytes:
    """A checkpoint whose tensor of 40 MB takes 40 kB in the file."""
    packed = io.BytesIO()
    plain = io.BytesIO(saved({"a": torch.zeros(10_000_000)}))
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return packed.getvalue()


def hostile() -> dict[str, bytes]:
    plain = {"model": [OrderedDict(a=torch.ones(3)), OrderedDict()], "opt": argparse.Namespace()}
    return {
        "code": saved({"model": Call(print, "run")}),
        "code, old format": saved({"model": Call(print, "run")}, legacy=True),
        "code in a plain pickle": pickle.dumps(Call(print, "run")),
        "code by a name on the stack": pickle.dumps(Call(print, "run"), protocol=4),
        "bytes that the file does not have": saved({"model": Call(bytearray, 2**20)}),
        "tensor of one number": saved({"a": torch.ones(1).expand(10**6, 10**6)}),
        "tensor of no numbers": saved({"a": torch.empty(10**6, 10**6, device="meta")}),
        "compressed": compressed(),
        "cut": saved(plain)[:-200],
        "cut, old format": saved(plain, legacy=True)[:-20],
        "empty": b"",
        "empty zip": b"PK\x05\x06" + bytes(18),
        "text": b"weights",
    }


@pytest.mark.parametrize("name", list(hostile()))
def test_a_hostile_checkpoint_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(hostile()[name])
    assert cli.run(["import", "scan", str(path), "--out", str(tmp_path / "model")]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""  # print was not called
    assert printed.err.startswith(f"deixis import: {path} cannot be read as plain weights (")
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("legacy", [False, True])
def test_a_plain_checkpoint_is_read(legacy: bool, tmp_path: Path) -> None:
    shared = torch.ones(4, 3)
    path = tmp_path / "weights.pth"
    options = argparse.Namespace(name="x", device=torch.device("cpu"))
    path.write_bytes(saved({"a": shared, "b": shared.T, "c": torch.nn.Parameter(shared), "opt": options}, legacy))
    found = read_checkpoint(path)
    assert [found[name].shape for name in "abc"] == [(4, 3), (3, 4), (4, 3)]
    assert found["opt"] == options


def test_values_that_grow_when_they_are_shown_are_named_in_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list of two times a list of two times a list: 100 lists, whose text has 2^100 parts."""
    value: Any = []
    for _ in range(100):
        value = [value, value]
    weights = OrderedDict([("fc.weight", torch.ones(2, 2)), ("fc.bias", torch.ones(2))])
    words = OrderedDict([("embed.weight", torch.ones(2, 2))])
    for name in ("raw_feature_norm", "cross_attn"):
        options = argparse.Namespace(**{name: value})
        (tmp_path / "weights.pth").write_bytes(saved({"model": [weights, words], "opt": options}))
        (tmp_path / "words.json").write_text('{"word2idx": {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3}}')
        command = ["import", "scan", str(tmp_path / "weights.pth"), "--vocabulary", str(tmp_path / "words.json")]
        assert cli.run([*command, "--out", str(tmp_path / "model")]) == 1
        printed = capsys.readouterr().err
        assert name in printed
        assert len(printed) < 500


def test_sizes_are_compared_before_memory_is_allocated(tmp_path: Path) -> None:
    sizes = ScanConfig(10**6, 10**6, words=10**6, embed=10**6)
    with pytest.raises(DeixisError, match="does not fit this network: missing: embed"):
        load_weights(lambda: ScanNet(sizes), {}, tmp_path)


def test_published_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    sizes = ScanConfig(5, 4, words=3, embed=2)
    weights = ScanNet(sizes).state_dict()
    weights["embed.weight"][0, 0] = torch.nan
    with pytest.raises(DeixisError, match=r"not finite: embed\.weight"):
        load_weights(lambda: ScanNet(sizes), weights, tmp_path)


# Network ------------------------------------------------------------------------------------------------------------


def test_nothing_connects_within_the_block() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with offline() as attempts:
            for connect in (
                lambda: socket.create_connection(address),
                lambda: socket.socket().connect(address),
                lambda: socket.getaddrinfo("localhost", 80),
            ):
                with pytest.raises(ConnectionError):
                    connect()
        assert len(attempts) == 3
        socket.create_connection(address).close()  # outside it works


def test_a_model_folder_starts_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a backbone of timm, whose weights timm would download."""
    reached = []

    def create_model(name: str, pretrained: bool) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname())
            reached.append(name)
        raise ValueError("no such model")

    timm = ModuleType("timm")
    timm.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", timm)
    description = {
        "version": 1,
        "backbone": {"name": "timm-hf-hub:someone/model", "long_side": 320},
        "proposals": {"name": "grid", "limit": 10},
    }
    with pytest.raises(DeixisError, match="nothing is downloaded for a model or a feature store"):
        _ = RegionExtractor(description, name="x").backbone
    assert reached == []
