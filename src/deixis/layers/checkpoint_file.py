"""Checkpoints that were written by ``torch.save``: tensors and plain values, never code.

A file may be hostile. Its pickles are read twice: first only for the names in them, which must be in a short list, then
by torch's restricted unpickler. Tensors cannot be larger than the file.
"""

from __future__ import annotations

import argparse
import pickle
import pickletools
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.files import open_regular

MAX_CHECKPOINT = 64 * 2**30  # bytes
_PICKLES = 5  # of a file before torch 1.6: magic number, version, system, content, names of the storages


class _Dtype:
    """Stand-in for ``numpy.dtype`` in a pickled NumPy number."""

    def __init__(self, code: str, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        pass  # byte order and alignment


def _number(dtype: _Dtype, data: bytes) -> float:
    """Return a pickled NumPy number."""
    return float(struct.unpack(f"<{ {'f4': 'f', 'f8': 'd', 'i4': 'i', 'i8': 'q', 'b1': '?'}[dtype.code] }", data)[0])


# Options of training scripts are argparse namespaces, and their best scores NumPy numbers.
_OWN: list[Any] = [
    argparse.Namespace,
    (_Dtype, "numpy.dtype"),
    (_number, "numpy.core.multiarray.scalar"),
    (_number, "numpy._core.multiarray.scalar"),
]
_NAMES = {
    *("argparse.Namespace", "numpy.dtype", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"),
    *("collections.OrderedDict", "_codecs.encode", "torch.Size", "torch.nn.parameter.Parameter"),
    *(f"torch._utils._rebuild_{kind}" for kind in ("tensor", "tensor_v2", "parameter")),
    *(f"torch.{kind}Storage" for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte")),
    *("torch.CharStorage", "torch.BoolStorage", "torch.device"),
    *(f"torch.{kind}" for kind in ("float16", "bfloat16", "float32", "float64", "uint8", "int32", "int64", "bool")),
}
"""Names of Python that a checkpoint may refer to. torch allows more, for example ``bytearray`` of any length."""


def read_checkpoint(path: str | Path) -> Any:
    """Read a ``.pth`` file: tensors on the CPU, and plain values."""
    file = Path(path)
    try:
        with open_regular(file, MAX_CHECKPOINT) as opened:
            size = opened.seek(0, 2)
            opened.seek(0)
            _check_names(opened, size)
        with torch.serialization.safe_globals(_OWN):
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
        _check_tensors(content, size)
        return content
    except FileNotFoundError:
        raise DeixisError(f"{file} does not exist.") from None
    except DeixisError:
        raise
    # a hostile or damaged file can raise nearly anything in the readers of zip files, pickles and tensors
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise DeixisError(
            f"{file} cannot be read as plain weights ({reason}). Load it with the program that wrote it, and save only "
            "its state dictionary with torch.save."
        ) from None


def _check_names(file: BinaryIO, size: int) -> None:
    """Raise if a pickle refers to a name that is not in the list, or if the file grows when it is read."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > size:
                raise pickle.UnpicklingError("the file is compressed")
            for name in archive.namelist():
                if name.endswith(".pkl"):
                    with archive.open(name) as opened:
                        _check_pickle(opened)
        return
    file.seek(0)
    for _ in range(_PICKLES):
        _check_pickle(file)


def _check_pickle(file: Any) -> None:
    for opcode, value, _ in pickletools.genops(file):
        if opcode.name == "GLOBAL" and (name := str(value).replace(" ", ".")) not in _NAMES:
            raise pickle.UnpicklingError(f"it refers to the Python object {name[:100]}")
        if opcode.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            raise pickle.UnpicklingError(f"the instruction {opcode.name} is not allowed")


def _check_tensors(content: Any, size: int) -> None:
    """Raise if the tensors have more elements than the file has bytes for, at any depth of plain containers."""
    waiting, seen, storages, total = [content], set(), set(), 0
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            total += 0 if storage.data_ptr() in storages else storage.nbytes()
            storages.add(storage.data_ptr())
            if value.numel() * value.element_size() > storage.nbytes() or total > size:
                raise pickle.UnpicklingError(f"a tensor of {list(value.shape)} is larger than the file")
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif isinstance(value, argparse.Namespace):
            waiting += vars(value).values()
