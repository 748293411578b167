"""The folder of a trained model: ``config.json``, ``weights.safetensors``, ``vocabulary.json``, and what goes with it.

Never a pickle. The weights are written last and put in their place as a whole, so a folder that has weights is whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from deixis.errors import DeixisError
from deixis.files import atomic_path, read_settings, write_atomic
from deixis.language.vocabulary import Vocabulary
from deixis.types import Json

if TYPE_CHECKING:  # a configuration can be read without torch
    from torch import Tensor, nn

FORMAT = 1

OOD, BLANK = "familiar.safetensors", "blank.safetensors"
"""Statistics of the training photographs and features of blank images, beside a captioner's weights."""

PROPOSALS = "; proposals: "
"""Before the supervision of the region proposals, at the end of a text about the supervision of a model."""

Precision = Literal["half", "int8"]

LARGE = 1024
"""Numbers of a matrix from which on ``int8`` packs it; the others are no burden."""

MAX_HEADER = 100_000_000
"""Bytes of the header of a safetensors file, as in the format's own definition."""

DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, OSError)
"""What a damaged configuration raises while a model is built from it."""

SCALE = ":scale"
"""Ends the name of the scales of a matrix that is packed in bytes; no part of a network is named so."""


class HasHash(Protocol):
    """A loaded model."""

    hash: str


Model = TypeVar("Model", bound=HasHash)
Network = TypeVar("Network", bound="nn.Module")


def write_model(
    folder: str | Path,
    config: Json,
    network: nn.Module,
    vocabulary: Vocabulary | None = None,
    extras: Mapping[str, str] | None = None,
) -> None:
    """Write a model; ``config`` has its "kind", ``extras`` are further files of text (recipe, card, metrics)."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if vocabulary is not None:
        vocabulary.save(path / "vocabulary.json")
    _write(path, config, network.state_dict(), extras or {})


def pack_model(
    source: str | Path, folder: str | Path, name: str, extras: Mapping[str, str], precision: Precision = "half"
) -> None:
    """Write a trained model of any kind again, under another name and with fewer bits for each weight.

    ``half`` is half precision. ``int8`` keeps of every large matrix whole numbers from -127 to 127 and one scale for
    each row, and all else in half precision. Both are for the disk: whoever loads the model computes in the precision
    of its network.
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
            raise DeixisError(f"{old} has weights that {precision} cannot hold ({key}); keep it as it is.")
        packed |= parts
    new.mkdir(parents=True, exist_ok=True)
    files = ["vocabulary.json", "recipe.json", *(file for file in (OOD, BLANK) if (old / file).exists())]
    for file in files:
        write_atomic(new / file, (old / file).read_bytes())
    _write(new, config, packed, extras)


def _large(value: Tensor) -> bool:
    return value.ndim > 1 and value.numel() >= LARGE


def _in_bytes(key: str, value: Tensor) -> dict[str, Tensor]:
    """A matrix as whole numbers of one byte, and the scale of each row; a row of noughts has the scale 1."""
    import torch

    rows = value.float().flatten(1)
    scale = rows.abs().amax(1) / 127  # [rows]
    scale = torch.where(scale > 0, scale, 1.0)
    return {key: (rows / scale[:, None]).round().view(value.shape).to(torch.int8), key + SCALE: scale}


def _weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a model as its network takes them, however they were packed."""
    stored = load_tensors(folder / "weights.safetensors")
    for name, value in stored.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError(f"the weights {name[:60]!r} are not finite numbers")
    scales = {key: stored.pop(key + SCALE) for key in list(stored) if key + SCALE in stored}
    return stored | {key: stored[key] * scale.view(-1, *[1] * (stored[key].ndim - 1)) for key, scale in scales.items()}


def build_network(make: Callable[[], Network], folder: str | Path) -> Network:
    """Build a network whose parameters have the shapes of the stored weights.

    It is built on the meta device, so that a wrong configuration allocates no memory and no weight is initialised.
    """
    import torch

    with torch.device("meta"):
        network = make()
    wanted = {name: list(value.shape) for name, value in network.state_dict().items()}
    renamed: Mapping[str, str] = getattr(network, "renamed_parts", {})  # parts of names in weights of version 0.1
    stored = {
        ".".join(renamed.get(part, part) for part in name.split(".")): shape
        for name, shape in _stored_shapes(Path(folder) / "weights.safetensors").items()
    }
    for name in sorted(wanted.keys() | stored.keys()):
        if wanted.get(name) != stored.get(name):
            sizes = f"{stored.get(name, 'absent')}, and the configuration expects {wanted.get(name, 'none')}"
            raise ValueError(f"the weights {name[:60]!r} are {sizes}")
    return network.to_empty(device="cpu")


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors; also one whose name is not UTF-8, which safetensors cannot map into memory."""
    from safetensors.torch import load, load_file

    try:
        str(path).encode()
    except UnicodeEncodeError:
        return load(path.read_bytes())
    return load_file(path)


def _stored_shapes(path: Path) -> dict[str, list[int]]:
    """Read the shapes of the tensors in a safetensors file from its header; scales of packed matrices are left out."""
    with path.open("rb") as file:
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
    if len(vocabulary) != size:
        raise DeixisError(f"{path} has {len(vocabulary):,} words, and the model has {size:,}. Restore the file.")
    return vocabulary


def _write(path: Path, config: Json, weights: Mapping[str, Tensor], extras: Mapping[str, str]) -> None:
    from safetensors.torch import save_file

    for name, text in extras.items():
        write_atomic(path / name, text)
    text = json.dumps({"format": FORMAT, **config}, indent=1)
    write_atomic(path / "config.json", text + "\n")
    with atomic_path(path / "weights.safetensors") as tmp_path:
        save_file({name: value.contiguous() for name, value in weights.items()}, tmp_path)


def folder_hash(folder: Path) -> str:
    """Return a short hash of a model's configuration and weights, which stands in everything that it answers."""
    with (folder / "weights.safetensors").open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").digest()
    return hashlib.sha256(weights + (folder / "config.json").read_bytes()).hexdigest()[:12]


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
    """``config.json`` of a model of one of these kinds, or a sentence that says what is wrong."""
    path = Path(folder)
    try:
        config = read_settings(path / "config.json")
    except (FileNotFoundError, NotADirectoryError):
        raise DeixisError(f"{path} is not the folder of a model: config.json is not there.") from None
    except (OSError, ValueError) as error:
        raise DeixisError(f"{path / 'config.json'} cannot be read ({error}).") from None
    if not isinstance(config, dict) or config.get("kind") not in list(kinds) or config.get("format") != FORMAT:
        raise DeixisError(
            f"{path} does not hold a {' or '.join(kinds)} of format {FORMAT}; is it another kind of model?"
        )
    return config


def read_model(folder: str | Path, kind: str, build: Callable[[Json], tuple[nn.Module, Model]]) -> Model:
    """The model in a folder. ``build`` makes, from the configuration, the network and the model around it.

    The network is given its weights afterwards, in its own precision. Whatever does not fit is told in a sentence that
    names the folder.
    """
    from safetensors import SafetensorError

    path = Path(folder)
    config = read_config(path, kind)
    try:
        network, model = build(config)
        network.load_state_dict(_weights(path))
        model.hash = folder_hash(path)
    except FileNotFoundError:
        raise DeixisError(f"{path} has no weights.safetensors; is its training still under way?") from None
    except (*DAMAGED, SafetensorError) as error:
        raise _unreadable(path, kind, error) from None
    return model


def _unreadable(folder: Path, kind: str, error: Exception) -> DeixisError:
    reason = (str(error).splitlines() or [""])[0][:300] or type(error).__name__
    return DeixisError(f"{folder} is not a {kind} that this version can read ({reason}).")
