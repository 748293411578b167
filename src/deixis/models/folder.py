"""The folder of a trained model: ``config.json``, ``weights.safetensors``, ``vocabulary.json``, and what goes with it.

Never a pickle. The weights are written last and put in their place as a whole, so a folder that has weights is whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.types import Json

FORMAT = 1

Model = TypeVar("Model")


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
    for name, text in (extras or {}).items():
        (path / name).write_text(text, encoding="utf-8")
    if vocabulary is not None:
        vocabulary.save(path / "vocabulary.json")
    text = json.dumps({"format": FORMAT, **config}, indent=1)
    (path / "config.json").write_text(text + "\n", encoding="utf-8")
    draft = path / "weights.partial"
    save_file({name: value.contiguous() for name, value in network.state_dict().items()}, draft)
    draft.rename(path / "weights.safetensors")


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
        raise DeixisError(
            f"{path} does not hold a {' or '.join(kinds)} of format {FORMAT}; is it another kind of model?"
        )
    return config


def read_model(folder: str | Path, kind: str, build: Callable[[Json], tuple[nn.Module, Model]]) -> Model:
    """The model in a folder. ``build`` makes, from the configuration, the network and the model around it.

    The network is given its weights afterwards. Whatever does not fit is told in a sentence that names the folder.
    """
    path = Path(folder)
    config = read_config(path, kind)
    try:
        network, model = build(config)
        network.load_state_dict(load_file(path / "weights.safetensors"))
    except FileNotFoundError:
        raise DeixisError(f"{path} has no weights.safetensors; is its training still under way?") from None
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"{path} is not a {kind} that this version can read ({reason}).") from None
    return model
