"""Compute devices: CPU, CUDA or MPS."""

from __future__ import annotations

import os
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deixis.errors import UsageError

Tensors = TypeVar("Tensors")

CPU = torch.device("cpu")

_training = "auto"


def choose(name: str = "auto") -> torch.device:
    """Return the torch device with this name; ``auto`` is CUDA if available, then MPS, then the CPU."""
    if name == "auto":
        return torch.device(present()[0])
    try:
        device = torch.device(name)
        torch.empty(1, device=device)  # raises if the device is not available
    except (RuntimeError, AssertionError, ImportError):  # depends on the backend
        device = None
    if device is None or device.type == "meta":  # meta computes shapes only
        raise UsageError(f"--device {name} is not available. Use auto or one of: {', '.join(present())}.")
    return device


def present() -> list[str]:
    """List the devices of this machine, fastest first."""
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*cuda, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def train_on(name: str) -> None:
    """Set the device of training (:func:`training_device`)."""
    global _training
    _training = name if name == "auto" else str(choose(name))


def training_device() -> torch.device:
    """Return the device of training; with ``auto`` and several processes, each has a GPU of its own."""
    if _training == "auto" and torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return choose(_training)


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's weights; its inputs must be on the same device."""
    return next(network.parameters()).device


class NoInitialisation(TorchFunctionMode):
    """Context in which ``torch.nn.init`` does nothing, for networks whose weights are loaded."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, or return the tensor that it would initialise."""
        given = kwargs or {}
        if getattr(function, "__module__", "") == "torch.nn.init":
            return args[0] if args else given["tensor"]
        return function(*args, **given)


def to_device(tensors: Tensors, device: torch.device) -> Tensors:
    """Move a dataclass of tensors, and of such dataclasses, to a device."""
    moved: dict[str, Any] = {}
    for name, part in vars(tensors).items():
        if isinstance(part, Tensor):
            moved[name] = part.to(device)
        elif is_dataclass(part):
            moved[name] = to_device(part, device)
    return replace(tensors, **moved)  # type: ignore[type-var]  # a dataclass
