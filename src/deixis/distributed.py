"""Training in several processes (``torchrun``): every process has some rows of each batch.

Convention: each process computes a share of a loss, and the sum over processes is the loss of the whole batch. A sum
over rows is divided by the number of rows of all processes (:func:`total`). A loss that every process computes as a
whole, from gathered rows, is divided by :func:`world`. The gradients of all processes are then added.

Without a launcher, or within :func:`replicated`, a process is alone and all functions do nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.errors import DeixisError

T = TypeVar("T")

TIMEOUT = timedelta(hours=2)
"""Longest wait for another process; rank 0 alone writes models."""

LOST = ("by peer", "Broken pipe", "gloo/transport", "ProcessGroupNCCL", "NCCL error")
"""Parts of the messages of errors that the loss of another process causes."""

_replicated = False


def start() -> None:
    """Join the other processes of a launcher; do nothing if this process is the only one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(local_rank())
        # tensors of either kind: with --device cpu a machine with GPUs needs gloo
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)


def local_rank() -> int:
    """Number of this process on its machine, which is the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def processes() -> int:
    """Number of processes of the run."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process; process 0 writes files."""
    return dist.get_rank() if processes() > 1 else 0


def world() -> int:
    """Number of processes that share the current batch."""
    return 1 if _replicated else processes()


@contextmanager
def replicated(whole: bool = True) -> Iterator[None]:
    """Let every process compute the whole of a batch, for example of one with fewer rows than processes."""
    global _replicated
    before, _replicated = _replicated, whole
    try:
        yield
    finally:
        _replicated = before


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn the loss of another process into a message for users."""
    try:
        yield
    except RuntimeError as error:
        if processes() > 1 and (isinstance(error, dist.DistError) or any(sign in str(error) for sign in LOST)):
            reason = re.sub(r"^\[\S*\] ", "", str(error).splitlines()[0]).split(". ")[0]  # without torch's source file
            raise DeixisError(
                f"another process of this run ended, or its machine cannot be reached ({reason}). "
                "The same command resumes from the last checkpoint, with any number of processes."
            ) from None
        raise


def share(items: Sequence[T]) -> Sequence[T]:
    """Part of this process: consecutive items, in the order of the processes."""
    return items[len(items) * rank() // world() : len(items) * (rank() + 1) // world()] if world() > 1 else items


def collect(items: Sequence[T]) -> list[T]:
    """Items of all processes, in the order of the processes; the inverse of :func:`share`."""
    if world() == 1:
        return list(items)
    parts: list[Sequence[T]] = [()] * world()
    dist.all_gather_object(parts, list(items))
    return [item for part in parts for item in part]


def broadcast(value: T) -> T:
    """Value of process 0."""
    if processes() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


def total(x: Tensor) -> Tensor:
    """Sum over the processes; its gradient is the sum of theirs."""
    return x if world() == 1 else _Total.apply(x)  # type: ignore[no-untyped-call]


def count_rows(rows: Tensor) -> Tensor:
    """Number of rows of all processes."""
    return total(torch.tensor(len(rows), device=rows.device))


def gather(rows: Tensor) -> Tensor:
    """Rows ``[b, ...]`` of all processes as ``[B, ...]``; other dimensions are padded with 0 to the largest.

    The gradient of a process's rows is the sum over all processes.
    """
    return rows if world() == 1 else _Gather.apply(rows)  # type: ignore[no-untyped-call]


def first_row(rows: int) -> int:
    """Number of this process's first row among the gathered rows, from its number of rows."""
    return sum(collect([rows])[: rank()]) if world() > 1 else 0


def add_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Add the gradients of all processes, in one message; a parameter that none of them used keeps no gradient."""
    parameters = list(parameters)
    if processes() == 1:
        return
    used = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
    dist.all_reduce(used)
    together = [p for p, count in zip(parameters, used.tolist(), strict=True) if count]
    for dtype in {p.dtype for p in together}:
        some = [p for p in together if p.dtype == dtype]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in some]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        for p, part in zip(some, torch.split(flat, [p.numel() for p in some]), strict=True):
            p.grad = part.view_as(p)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _sum(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _sum(grads[0])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        shape = torch.tensor(rows.shape, device=rows.device)
        shapes = [torch.zeros_like(shape) for _ in range(world())]
        dist.all_gather(shapes, shape)
        counts = [int(each[0]) for each in shapes]
        largest = torch.stack(shapes).amax(0).tolist()
        ctx.shape, ctx.first = rows.shape, sum(counts[: rank()])
        sent = rows.to(torch.uint8) if rows.dtype == torch.bool else rows
        lacks = [most - size for most, size in zip(largest, rows.shape, strict=True)]
        sent = F.pad(sent, [each for lack in reversed(lacks) for each in (0, lack)]).contiguous()
        parts = [torch.empty_like(sent) for _ in range(world())]
        dist.all_gather(parts, sent)
        gathered = torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
        return gathered.to(rows.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        rows = _sum(grads[0])[ctx.first : ctx.first + ctx.shape[0]]
        return rows[tuple(slice(size) for size in ctx.shape)]


def _sum(x: Tensor) -> Tensor:
    added = x.detach().clone().contiguous()
    dist.all_reduce(added)
    return added
