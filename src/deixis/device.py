"""Where models compute: the CPU, or a graphics processor where there is one."""

from __future__ import annotations

import os
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from deixis.errors import UsageError

Tensors = TypeVar("Tensors")

CPU = torch.device("cpu")


def choose(name: str = "auto") -> torch.device:
    """The device of that name, as torch spells it; ``auto`` is CUDA where there is one, then MPS, else the CPU."""
    if name == "auto":
        return torch.device(present()[0])
    try:
        device = torch.device(name)
        torch.empty(1, device=device)  # a name that torch knows may be of a device that is not there
    except (RuntimeError, AssertionError, ImportError):  # each backend fails in its own way
        device = None
    if device is None or device.type == "meta":  # which computes shapes and nothing else
        raise UsageError(f"there is no device '{name}' here; choose auto or one of these: {', '.join(present())}.")
    return device


def present() -> list[str]:
    """The devices of this machine, the fastest first."""
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*cuda, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def train_on(name: str) -> None:
    """Let training compute on that device; ``auto`` leaves it to accelerate, which knows of several processes too."""
    if name != "auto":
        os.environ["ACCELERATE_TORCH_DEVICE"] = str(choose(name))


def device_of(network: nn.Module) -> torch.device:
    """Where the weights of a network are; what it reads must be there too."""
    return next(network.parameters()).device


def to_device(tensors: Tensors, device: torch.device) -> Tensors:
    """A dataclass of tensors, and of such dataclasses, on another device."""
    moved: dict[str, Any] = {}
    for name, part in vars(tensors).items():
        if isinstance(part, Tensor):
            moved[name] = part.to(device)
        elif is_dataclass(part):
            moved[name] = to_device(part, device)
    return replace(tensors, **moved)  # type: ignore[type-var]  # a dataclass
