"""Published checkpoints of ALBEF and AMC, and MiniLM's layers as initial weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.layers.bert import from_published_name
from deixis.layers.checkpoint_file import read_checkpoint
from deixis.layers.minilm import minilm_folder, minilm_weights
from deixis.methods.albef.network import AlbefConfig, AlbefNet, resize_positions

_BERT = "text_encoder.bert."
_NAMES = [  # a published name outside BERT -> ours
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
    (r"vision_proj\.(.+)", r"project_image.\1"),
    (r"text_proj\.(.+)", r"project_text.\1"),
    (r"itm_head\.(.+)", r"match.\1"),
    (r"temp", "temperature"),
]
# Momentum copy and queues are needed in training only. AMC has two queue pointers (queue_ptr_img, queue_ptr_txt),
# ALBEF one. Position ids are constants. The output layer of the word head is the embedding.
_NOT_NEEDED = re.compile(
    r"\w+_m(\..+)?|(image|text)_queue|queue_ptr(_img|_txt)?|idx_queue|text_encoder\.bert\.embeddings\.position_ids"
    r"|text_encoder\.cls\.predictions\.decoder\.(weight|bias)"
)


def load_published(model: AlbefNet, path: str | Path) -> None:
    """Load a published checkpoint of ALBEF or AMC (``.pth``) into a model; every weight must be in the file.

    Only tensors are read from the file, no code. Missing names, unknown names and other sizes are listed in an error.
    Position embeddings of another image size are interpolated.
    """
    file = Path(path)
    content = read_checkpoint(file)
    state = content.get("model", content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise DeixisError(f"{file} has no table of named weights. Expected a checkpoint of ALBEF or AMC.")
    load_state(model, state, str(file))


def load_state(model: AlbefNet, state: Mapping[str, Tensor], source: str) -> None:
    """Load weights by their published names; ``source`` is their name in errors. See :func:`load_published`."""
    ours: dict[str, Tensor] = {}
    unknown = []
    for name, value in state.items():
        if _NOT_NEEDED.fullmatch(name):
            continue
        found = _from_published(name, model.config)
        if found is None:
            unknown.append(name)
        else:
            ours[found] = value
    output, words = state.get("text_encoder.cls.predictions.decoder.weight"), ours.get("text.words.weight")
    if output is not None and words is not None and not torch.equal(output, words):
        raise DeixisError(
            f"{source} has an output layer for words that is not their embedding. This model shares them."
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
        for title, names in (("missing", missing), ("unknown", unknown), ("of another size", misfits))
        if names
    ]
    if reasons:
        raise DeixisError(f"{source} does not fit this model: {'; '.join(reasons)}.")
    model.load_state_dict(ours)


def load_minilm(model: AlbefNet, folder: Path | None = None) -> None:
    """Load MiniLM's six layers into text and fusion encoder; cross-attention keeps its initial weights."""
    folder = folder or minilm_folder()
    wanted = model.state_dict()
    weights = {_layer_name(name, model.config): value for name, value in minilm_weights(folder).items()}
    # all of MiniLM's weights are needed, and all of them are used
    expected = {name for name in wanted if name.startswith(("text.", "fusion.")) and ".cross_attention." not in name}
    wrong = sorted(expected ^ weights.keys()) or [n for n in weights if weights[n].shape != wanted[n].shape]
    if wrong:
        raise DeixisError(f"{folder} does not fit a model with these sizes: {_listed(wrong)}.")
    model.load_state_dict({**wanted, **weights})


def _from_published(name: str, config: AlbefConfig) -> str | None:
    """Our name of a published weight; None for an unknown name."""
    if name.startswith(_BERT):
        inside = from_published_name(name.removeprefix(_BERT))
        return None if inside is None else _layer_name(inside, config)
    for pattern, ours in _NAMES:
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(ours)
    return None


def _layer_name(name: str, config: AlbefConfig) -> str:
    """Name of a BERT weight in the model: lower layers are in the text encoder, the others in the fusion encoder."""
    if not name.startswith("layers."):
        return f"text.{name}"
    _, number, rest = name.split(".", 2)
    above = int(number) - config.text_layers
    return f"text.{name}" if above < 0 else f"fusion.{above}.{rest}"


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shape(value: Tensor) -> str:
    return " x ".join(map(str, value.shape)) or "one number"
