"""Checkpoints that were written by ``torch.save``: tensors and plain values, never code."""

from __future__ import annotations

import argparse
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray

from deixis.errors import DeixisError

# Options of training scripts are argparse namespaces, and their best scores NumPy numbers.
_ALLOWED: list[Any] = [
    argparse.Namespace,
    np.dtype,
    type(np.dtype(np.float32)),
    type(np.dtype(np.float64)),
    type(np.dtype(np.int64)),
    (multiarray.scalar, "numpy.core.multiarray.scalar"),
    (multiarray.scalar, "numpy._core.multiarray.scalar"),
]


def read_checkpoint(path: str | Path) -> Any:
    """Read a ``.pth`` file with torch's restricted unpickler; tensors are on the CPU.

    Tensors of a file since torch 1.6 are read when they are used: the state of an optimiser takes no memory.
    """
    file = Path(path)
    try:
        with torch.serialization.safe_globals(_ALLOWED):
            return torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except FileNotFoundError:
        raise DeixisError(f"{file} does not exist.") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError, ValueError, TypeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise DeixisError(
            f"{file} cannot be read as plain weights ({reason}). Load it with the program that wrote it, and save only "
            "its state dictionary with torch.save."
        ) from None
