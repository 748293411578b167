"""Folder of a trained model: ``config.json``, ``weights.safetensors``, ``vocabulary.json`` and further files.

No file is a pickle. The weights are written last and atomically, so a folder with weights is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from deixis.errors import DeixisError
from deixis.files import (
    MAX_FILE,
    MAX_SETTINGS,
    atomic_path,
    open_regular,
    read_bytes,
    read_settings,
    require_regular,
    write_atomic,
)
from deixis.language.vocabulary import Vocabulary
from deixis.types import Json

if TYPE_CHECKING:  # a configuration can be read without torch
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor, nn

FORMAT = 1

OOD, BLANK, WORDS = "familiar.safetensors", "blank.safetensors", "words.txt"
"""Statistics of the training photographs and features of blank images, beside a captioner's weights."""

PROPOSALS = "; proposals: "
"""Separator before the supervision of the region proposals in the description of a model's supervision."""

Precision = Literal["half", "int8"]

Backend = Literal["numpy", "torch"]
"""What runs a network: NumPy on the CPU, or torch during training and on a GPU."""

LARGE = 1024
"""Smallest number of elements of a matrix that ``int8`` quantises."""

MAX_HEADER = 2**23
"""Bytes of the header of a safetensors file; a network of 10,000 weights has 1 MB."""

DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, OSError)
"""What a damaged configuration raises while a model is built from it."""

SCALE = ":scale"
"""Suffix of the names of the scales of quantised matrices."""


Network = TypeVar("Network", bound="nn.Module")
Sizes = TypeVar("Sizes")  # configuration of a network
Value = TypeVar("Value")


class HasWeights(Protocol):
    """A network in torch or on NumPy arrays."""

    def state_dict(self) -> Mapping[str, Any]:
        """Weights by name."""


def write_model(
    folder: str | Path,
    config: Json,
    network: HasWeights,
    vocabulary: Vocabulary | None = None,
    extras: Mapping[str, str] | None = None,
) -> None:
    """Write a model; ``config`` has its "kind", ``extras`` are further text files (recipe, card, metrics)."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if vocabulary is not None:
        vocabulary.save(path / "vocabulary.json")
    _write(path, config, network.state_dict(), extras or {})


def pack_model(
    source: str | Path, folder: str | Path, name: str, extras: Mapping[str, str], precision: Precision = "half"
) -> None:
    """Copy a trained model under another name, with weights in half precision or int8.

    ``int8`` stores every large matrix as integers from -127 to 127 with one scale for each row, and all else in half
    precision. The loaded model computes in the precision of its network.
    """
    old, new = Path(source), Path(folder)
    config = {**read_settings(old / "config.json"), "name": name}
    packed: dict[str, Tensor] = {}
    for key, value in _weights(old).items():
        if not value.is_floating_point():
            packed[key] = value
            continue
        parts = _in_bytes(key, value) if precision == "int8" and _large(value) else {key: value.half()}
        if not all(part.isfinite().all() for part in parts.values()):
            raise DeixisError(f"{old}: the weights '{key}' exceed the range of {precision}. Use another precision.")
        packed |= parts
    new.mkdir(parents=True, exist_ok=True)
    files = ["vocabulary.json", "recipe.json", *(file for file in (OOD, BLANK, WORDS) if (old / file).exists())]
    for file in files:
        write_atomic(new / file, read_bytes(old / file))
    _write(new, config, packed, extras)


def _large(value: Tensor) -> bool:
    return value.ndim > 1 and value.numel() >= LARGE


def _in_bytes(key: str, value: Tensor) -> dict[str, Tensor]:
    """Quantise a matrix to int8 with one scale for each row; a row of zeros has the scale 1."""
    import torch

    rows = value.float().flatten(1)
    scale = rows.abs().amax(1) / 127  # [rows]
    scale = torch.where(scale > 0, scale, 1.0)
    return {key: (rows / scale[:, None]).round().view(value.shape).to(torch.int8), key + SCALE: scale}


def _weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a model; quantised matrices are converted to floats."""
    stored = load_tensors(folder / "weights.safetensors")
    for name, value in stored.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError(f"the weights {name[:60]!r} are not finite numbers")
    scales = {key: stored.pop(key + SCALE) for key in list(stored) if key + SCALE in stored}
    return stored | {key: stored[key] * scale.view(-1, *[1] * (stored[key].ndim - 1)) for key, scale in scales.items()}


def load_network(kind: Callable[[Sizes], Network], sizes: Sizes, folder: str | Path) -> Network:
    """Build a network of these sizes with the weights of a folder, in its own precision.

    It is built on the meta device and without initialisation, so that a wrong configuration allocates no memory. The
    shapes of all weights are compared with the header of the file before any of them is read.
    """
    import torch

    from deixis.device import NoInitialisation

    with torch.device("meta"), NoInitialisation():
        network = kind(sizes)
    wanted = network.state_dict()
    shapes = current_names(network, _stored_shapes(Path(folder) / "weights.safetensors"))
    _require_shapes({name: tuple(value.shape) for name, value in wanted.items()}, shapes)
    stored = current_names(network, _weights(Path(folder)))
    # copied: the tensors of a file are mapped from disk, at addresses that change the last bits of products
    network.load_state_dict({name: stored[name].to(wanted[name].dtype, copy=True) for name in wanted}, assign=True)
    return network


def require_torch(purpose: str) -> None:
    """Raise an error if torch is not installed; ``purpose`` is what needs it."""
    if find_spec("torch") is None:
        raise DeixisError(f"{purpose} needs torch, which is not installed. Install it: pip install 'deixis[train]'")


def torch_network(network: Any) -> nn.Module:
    """Return a network of torch; raise an error for one that runs on NumPy arrays."""
    if not hasattr(network, "parameters"):
        raise DeixisError("the model is loaded for NumPy on the CPU. Load it with backend='torch'.")
    found: nn.Module = network
    return found


def load_arrays(
    folder: str | Path,
    shapes: Mapping[str, tuple[int, ...]],
    renamed: Mapping[str, str] | None = None,
    ignored: Sequence[str] = (),
) -> dict[str, npt.NDArray[np.float32]]:
    """Read the weights of a model as NumPy arrays in single precision, without torch.

    The shapes of all weights are compared with ``shapes`` before any of them is read. ``renamed`` and ``ignored`` are
    names of version 0.1 (:func:`current_names`).
    """
    import numpy as np

    path = Path(folder) / "weights.safetensors"
    stored_shapes = _stored_shapes(path)
    kept = [name for name in stored_shapes if name not in ignored]
    names = {name: _renamed(name, renamed) if renamed else name for name in kept}
    _require_shapes(shapes, {names[name]: stored_shapes[name] for name in kept})
    stored = _load_numpy(path)
    arrays: dict[str, npt.NDArray[np.float32]] = {}
    for name, current in names.items():
        value = stored.pop(name).astype(np.float32)
        scale = stored.pop(name + SCALE, None)
        if scale is not None:
            value *= scale.astype(np.float32).reshape(-1, *[1] * (value.ndim - 1))
        if not np.isfinite(value).all():
            raise ValueError(f"the weights {name[:60]!r} are not finite numbers")
        arrays[current] = value
    return arrays


def _load_numpy(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    from safetensors.numpy import load, load_file

    try:
        str(path).encode()  # _stored_shapes has opened it
    except UnicodeEncodeError:
        return load(read_bytes(path, MAX_FILE))
    return load_file(path)


def _require_shapes(wanted: Mapping[str, tuple[int, ...]], stored: Mapping[str, Sequence[int]]) -> None:
    for name in sorted(wanted.keys() | stored.keys()):
        expected = list(wanted[name]) if name in wanted else "none"
        found = list(stored[name]) if name in stored else "absent"
        if expected != found:
            raise ValueError(f"the weights {name[:60]!r} are {found}, and the configuration expects {expected}")


def _renamed(name: str, parts: Mapping[str, str]) -> str:
    return ".".join(parts.get(part, part) for part in name.split("."))


def current_names(network: nn.Module, weights: Mapping[str, Value]) -> dict[str, Value]:
    """Return weights of version 0.1 under the names of this version.

    ``renamed_parts`` of a module maps old parts of dotted names to new ones. ``ignored_names`` are parameters of the
    module that version 0.1 had without effect.
    """
    renamed: dict[str, str] = {}
    ignored: set[str] = set()
    for prefix, module in network.named_modules():
        renamed.update(getattr(module, "renamed_parts", {}))
        ignored.update(f"{prefix}.{name}".strip(".") for name in getattr(module, "ignored_names", ()))
    return {_renamed(name, renamed): each for name, each in weights.items() if name not in ignored}


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors; also one whose name is not UTF-8, which safetensors cannot map into memory."""
    from safetensors.torch import load, load_file

    try:
        str(require_regular(path)).encode()
    except UnicodeEncodeError:
        return load(read_bytes(path, MAX_FILE))
    return load_file(path)


def _stored_shapes(path: Path) -> dict[str, list[int]]:
    """Read the shapes of the tensors in a safetensors file from its header; scales of packed matrices are left out."""
    with open_regular(path) as file:
        size = int.from_bytes(file.read(8), "little")
        if size > MAX_HEADER:
            raise ValueError(f"the header of {path.name} has {size:,} bytes")
        try:
            header = json.loads(file.read(size))
        except RecursionError:
            raise ValueError(f"the header of {path.name} is nested too deeply") from None
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__" and SCALE not in name}


def load_vocabulary(folder: str | Path, size: int) -> Vocabulary:
    """Read the vocabulary of a model whose network has ``size`` words."""
    path = Path(folder) / "vocabulary.json"
    vocabulary = Vocabulary.load(path)
    if len(vocabulary.words) != size:
        raise DeixisError(f"{path} has {len(vocabulary.words):,} words, and the model has {size:,}. Restore the file.")
    return vocabulary


def _write(path: Path, config: Json, weights: Mapping[str, Any], extras: Mapping[str, str]) -> None:
    for name, text in extras.items():
        write_atomic(path / name, text)
    text = json.dumps({"format": FORMAT, **config}, indent=1)
    write_atomic(path / "config.json", text + "\n")
    with atomic_path(path / "weights.safetensors") as tmp_path:
        if hasattr(next(iter(weights.values())), "contiguous"):
            from safetensors.torch import save_file as save_tensors

            save_tensors({name: value.contiguous() for name, value in weights.items()}, tmp_path)
        else:
            from safetensors.numpy import save_file as save_arrays

            save_arrays(dict(weights), tmp_path)


def folder_hash(folder: str | Path) -> str:
    """Return a short hash of a model's configuration and weights; results contain it."""
    with open_regular(Path(folder, "weights.safetensors")) as file:
        weights = hashlib.file_digest(file, "sha256").digest()
    with open_regular(Path(folder, "config.json"), MAX_SETTINGS) as file:
        return hashlib.sha256(weights + file.read()).hexdigest()[:12]


def read_supervision(folder: Path) -> str:
    """Return what the model's recipe says about its supervision; "unknown" where there is no recipe."""
    try:
        return str(read_settings(folder / "recipe.json")["supervision"])
    except (OSError, ValueError, KeyError, TypeError, DeixisError):
        return "unknown"


def with_proposals(supervision: str, proposals: str) -> str:
    """Add the supervision of the proposals where a text of version 0.1 does not state it."""
    if not proposals.startswith("boxes") or PROPOSALS in supervision:
        return supervision
    return f"{supervision}{PROPOSALS}{proposals}"


def read_config(folder: str | Path, *kinds: str) -> Json:
    """Read ``config.json`` of a model of one of these kinds; raise if it is missing, unreadable or another kind."""
    path = Path(folder)
    try:
        config = read_settings(path / "config.json")
    except (FileNotFoundError, NotADirectoryError):
        raise DeixisError(f"{path} is not a model folder: it has no config.json.") from None
    except (OSError, ValueError) as error:
        raise DeixisError(f"{path / 'config.json'} cannot be read ({error}).") from None
    if not isinstance(config, dict) or config.get("kind") not in list(kinds) or config.get("format") != FORMAT:
        raise DeixisError(_wrong_kind(path, config, kinds))
    return config


def _wrong_kind(folder: Path, config: object, kinds: Sequence[str]) -> str:
    expected = f"expected: {' or '.join(kinds)}, format {FORMAT}"
    if not isinstance(config, dict) or not isinstance(config.get("kind"), str):
        return f"{folder / 'config.json'} does not describe a model; {expected}."
    kind, form = config["kind"][:60], str(config.get("format"))[:60]
    return f"{folder} has a model of kind {kind}, format {form}; {expected}."


@contextmanager
def open_model(folder: str | Path, kind: str) -> Iterator[Json]:
    """Yield the configuration of a model; errors of the block, which loads the model, name the folder."""
    from safetensors import SafetensorError

    config = read_config(folder, kind)
    try:
        yield config
    except FileNotFoundError:
        raise DeixisError(f"{folder} has no weights.safetensors. Wait until its training has finished.") from None
    except (*DAMAGED, SafetensorError) as error:
        raise _unreadable(Path(folder), kind, error) from None


def _unreadable(folder: Path, kind: str, error: Exception) -> DeixisError:
    reason = (str(error).splitlines() or [""])[0][:300] or type(error).__name__
    return DeixisError(f"{folder} is not a {kind} that this version can read ({reason}).")
