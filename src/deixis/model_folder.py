"""Folder of a trained model: ``config.json``, ``weights.safetensors``, ``vocabulary.json`` and further files.

No file is a pickle. The weights are written last and atomically, so a folder with weights is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from deixis.errors import DeixisError
from deixis.files import atomic_path, write_atomic
from deixis.language.vocabulary import Vocabulary
from deixis.types import Json

if TYPE_CHECKING:  # a configuration can be read without torch
    from torch import Tensor, nn

FORMAT = 1

OOD, BLANK = "familiar.safetensors", "blank.safetensors"
"""Statistics of the training photographs and features of blank images, beside a captioner's weights."""

PROPOSALS = "; proposals: "
"""Separator before the supervision of the region proposals in the description of a model's supervision."""

Precision = Literal["half", "int8"]

LARGE = 1024
"""Smallest number of elements of a matrix that ``int8`` quantises."""

SCALE = ":scale"
"""Suffix of the names of the scales of quantised matrices."""


class HasHash(Protocol):
    """Loaded model with the hash of its files."""

    hash: str


Model = TypeVar("Model", bound=HasHash)


def write_model(
    folder: str | Path,
    config: Json,
    network: nn.Module,
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
    config = {**json.loads((old / "config.json").read_text(encoding="utf-8")), "name": name}
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
    files = ["vocabulary.json", "recipe.json", *(file for file in (OOD, BLANK) if (old / file).exists())]
    for file in files:
        write_atomic(new / file, (old / file).read_bytes())
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
    from safetensors.torch import load_file

    stored = load_file(folder / "weights.safetensors")
    scales = {key: stored.pop(key + SCALE) for key in list(stored) if key + SCALE in stored}
    return stored | {key: stored[key] * scale.view(-1, *[1] * (stored[key].ndim - 1)) for key, scale in scales.items()}


def _write(path: Path, config: Json, weights: Mapping[str, Tensor], extras: Mapping[str, str]) -> None:
    from safetensors.torch import save_file

    for name, text in extras.items():
        write_atomic(path / name, text)
    text = json.dumps({"format": FORMAT, **config}, indent=1)
    write_atomic(path / "config.json", text + "\n")
    with atomic_path(path / "weights.safetensors") as tmp_path:
        save_file({name: value.contiguous() for name, value in weights.items()}, tmp_path)


def folder_hash(folder: Path) -> str:
    """Return a short hash of a model's configuration and weights; results contain it."""
    with (folder / "weights.safetensors").open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").digest()
    return hashlib.sha256(weights + (folder / "config.json").read_bytes()).hexdigest()[:12]


def read_supervision(folder: Path) -> str:
    """Return what the model's recipe says about its supervision; "unknown" where there is no recipe."""
    try:
        return str(json.loads((folder / "recipe.json").read_text(encoding="utf-8"))["supervision"])
    except (OSError, ValueError, KeyError, TypeError):
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
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DeixisError(f"{path} is not a model folder: it has no config.json.") from None
    except (OSError, ValueError) as error:
        raise DeixisError(f"{path / 'config.json'} cannot be read ({error}).") from None
    if not isinstance(config, dict) or config.get("kind") not in kinds or config.get("format") != FORMAT:
        raise DeixisError(_wrong_kind(path, config, kinds))
    return config


def _wrong_kind(folder: Path, config: object, kinds: Sequence[str]) -> str:
    expected = f"expected: {' or '.join(kinds)}, format {FORMAT}"
    if not isinstance(config, dict) or not isinstance(config.get("kind"), str):
        return f"{folder / 'config.json'} does not describe a model; {expected}."
    return f"{folder} has a model of kind {config['kind']}, format {config.get('format')}; {expected}."


def read_model(folder: str | Path, kind: str, build: Callable[[Json], tuple[nn.Module, Model]]) -> Model:
    """Load the model of a folder; ``build`` creates the network and the model from the configuration.

    Then the weights are loaded into the network, in its own precision. Errors name the folder.
    """
    from safetensors import SafetensorError

    path = Path(folder)
    config = read_config(path, kind)
    try:
        network, model = build(config)
        network.load_state_dict(_weights(path))
        model.hash = folder_hash(path)
    except FileNotFoundError:
        raise DeixisError(f"{path} has no weights.safetensors. Wait until its training has finished.") from None
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"{path} is not a {kind} that this version can read ({reason}).") from None
    return model
