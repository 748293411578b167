"""The folder of a trained model: ``config.json``, ``weights.safetensors``, ``vocabulary.json``, and what goes with it.

Never a pickle. The weights are written last and put in their place as a whole, so a folder that has weights is whole.
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
"""Before the supervision of the region proposals, at the end of a text about the supervision of a model."""

Precision = Literal["half", "int8"]

LARGE = 1024
"""Numbers of a matrix from which on ``int8`` packs it; the others are no burden."""

SCALE = ":scale"
"""Ends the name of the scales of a matrix that is packed in bytes; no part of a network is named so."""


class HasHash(Protocol):
    """A loaded model."""

    hash: str


Model = TypeVar("Model", bound=HasHash)


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
    config = {**json.loads((old / "config.json").read_text(encoding="utf-8")), "name": name}
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
    """Return a short hash of a model's configuration and weights, which stands in everything that it answers."""
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
    """``config.json`` of a model of one of these kinds, or a sentence that says what is wrong."""
    path = Path(folder)
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DeixisError(f"{path} is not the folder of a model: config.json is not there.") from None
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
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"{path} is not a {kind} that this version can read ({reason}).") from None
    return model
