"""Published checkpoints of ALBEF and AMC, and MiniLM's layers as initial weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.files import sha256
from deixis.language.wordpiece import WordPieces
from deixis.layers.bert_names import from_published_name
from deixis.layers.checkpoint_file import read_checkpoint
from deixis.layers.minilm import minilm_folder, minilm_weights
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.inputs import PUBLISHED, InputConfig
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.momentum import MomentumState
from deixis.methods.albef.network import AlbefNet
from deixis.training.published import Imported, PublishedFiles
from deixis.training.supervision import CAPTIONS, PAIRS

Method = Literal["ALBEF", "AMC"]

HEADS, FUSION_FROM, MAP_LAYER = 12, 6, 8
"""Attention heads, first layer with cross-attention, and layer of the map: constants of both repositories."""

BERT_VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
"""SHA-256 of ``vocab.txt`` of bert-base-uncased."""

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
# Position ids are constants. The output layer of the word head is the embedding. idx_queue has the image numbers of the
# queue, for data sets with several texts of an image.
_NOT_NEEDED = re.compile(
    r"text_encoder(_m)?\.(bert\.)?embeddings\.position_ids"
    r"|text_encoder(_m)?\.cls\.predictions\.decoder\.(weight|bias)"
    r"|idx_queue"
)
_QUEUE = ("image_queue", "text_queue", "queue_ptr", "queue_ptr_img", "queue_ptr_txt")
_MOMENTUM = re.compile(r"(visual_encoder|text_encoder|vision_proj|text_proj)_m\.(.+)")


@dataclass(frozen=True)
class Published:
    """Weights of a published checkpoint under our names."""

    config: AlbefConfig
    weights: Mapping[str, Tensor]
    method: Method | None  # None: the file has no queue, by which the two differ
    fine_tuned: bool  # for grounding or retrieval
    momentum: MomentumState | None  # None: the file has no momentum copy or no queue

    def network(self) -> AlbefNet:
        """Return the network with these weights."""
        with torch.device("meta"):
            network = AlbefNet(self.config)
        network.load_state_dict(self.weights, assign=True)
        return network.requires_grad_()


# Files --------------------------------------------------------------------------------------------------------------


def read_published(
    path: str | Path, heads: int = HEADS, fusion_from: int = FUSION_FROM, map_layer: int = MAP_LAYER
) -> Published:
    """Read a checkpoint of ALBEF (pre-trained or fine-tuned) or AMC (``.pth``); sizes come from its weights.

    Only tensors and plain values are read, no code. ``heads``, ``fusion_from`` and ``map_layer`` (layers of BERT, from
    0) are not in the file. Missing names, unknown names and other sizes are listed in an error.
    """
    file = Path(path)
    content = read_checkpoint(file)
    state = content.get("model", content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not state or not all(isinstance(v, Tensor) for v in state.values()):
        raise DeixisError(f"{file} has no table of named weights. Expected a checkpoint of ALBEF or AMC.")
    ours, copies, unknown = _renamed(state, fusion_from)
    config = _config(file, ours, heads, fusion_from, map_layer)
    _check(file, state, config, ours, unknown)
    momentum = _momentum(file, state, config, ours, copies)
    return Published(config, ours, _method(state), not config.word_head, momentum)


def _method(state: Mapping[str, Tensor]) -> Method | None:
    """Return the method of a checkpoint by the pointers of its queue."""
    if "queue_ptr_img" in state:
        return "AMC"
    return "ALBEF" if "queue_ptr" in state or "idx_queue" in state else None


def _renamed(state: Mapping[str, Tensor], fusion_from: int) -> tuple[dict[str, Tensor], dict[str, Tensor], list[str]]:
    """Return weights and momentum copy under our names, and the unknown names."""
    ours: dict[str, Tensor] = {}
    copies: dict[str, Tensor] = {}
    unknown = []
    for name, value in state.items():
        if name in _QUEUE or _NOT_NEEDED.fullmatch(name):
            continue
        momentum = _MOMENTUM.fullmatch(name)
        found = _from_published(f"{momentum[1]}.{momentum[2]}" if momentum else name, fusion_from)
        if found is None:
            unknown.append(name)
        else:
            (copies if momentum else ours)[found] = value.float()
    return ours, copies, unknown


def _config(path: Path, weights: Mapping[str, Tensor], heads: int, fusion_from: int, map_layer: int) -> AlbefConfig:
    """Return the sizes of a network from its weights."""

    def size(name: str, axis: int = 0, dimensions: int = 2) -> int:
        if name not in weights or weights[name].ndim != dimensions:
            raise DeixisError(f"{path} has no weights '{name}'. Expected a checkpoint of ALBEF or AMC.")
        return weights[name].shape[axis]

    def count(prefix: str) -> int:
        numbers = [int(name.removeprefix(prefix).split(".")[0]) for name in weights if name.startswith(prefix)]
        return 1 + max(numbers, default=-1)

    try:
        return AlbefConfig(
            vocabulary=size("text.words.weight"),
            hidden=size("text.words.weight", 1),
            heads=heads,
            feed=size("fusion.0.up.weight"),
            positions=size("text.positions.weight"),
            text_layers=fusion_from,
            fusion_layers=count("fusion."),
            patch=size("image.patches.weight", 2, 4),
            side=round((size("image.positions", 1, 3) - 1) ** 0.5),
            image_hidden=size("image.patches.weight", 0, 4),
            image_heads=heads,
            image_feed=size("image.blocks.0.up.weight"),
            image_layers=count("image.blocks."),
            shared=size("project_image.weight"),
            map_layer=map_layer - fusion_from,
            word_head="words.dense.weight" in weights,
        )
    except ValueError as error:
        raise DeixisError(
            f"{path}: {error}. Give the values of its training with --heads, --fusion-from and --map-layer."
        ) from None


def _check(
    path: Path, state: Mapping[str, Tensor], config: AlbefConfig, ours: Mapping[str, Tensor], unknown: Sequence[str]
) -> None:
    """Raise an error if the weights are not those of a network of these sizes."""
    output, words = state.get("text_encoder.cls.predictions.decoder.weight"), ours.get("text.words.weight")
    if output is not None and words is not None and not torch.equal(output.float(), words):
        raise DeixisError(f"{path} has an output layer for words that is not their embedding. This model shares them.")
    with torch.device("meta"):
        wanted = AlbefNet(config).state_dict()
    misfits = [
        f"{name} is {_shape(ours[name])}, not {_shape(wanted[name])}"
        for name in wanted
        if name in ours and ours[name].shape != wanted[name].shape
    ]
    reasons = [
        f"{title}: {_listed(names)}"
        for title, names in (
            ("missing", [name for name in wanted if name not in ours]),
            ("unknown", [*unknown, *(name for name in ours if name not in wanted)]),
            ("of another size", misfits),
        )
        if names
    ]
    if reasons:
        raise DeixisError(
            f"{path} does not fit an ALBEF with fusion from layer {config.text_layers}: {'; '.join(reasons)}."
        )


def _momentum(
    path: Path,
    state: Mapping[str, Tensor],
    config: AlbefConfig,
    ours: Mapping[str, Tensor],
    copies: Mapping[str, Tensor],
) -> MomentumState | None:
    """Return the momentum copy and the queue; heads that the copy does not have are the model's own."""
    images, texts = state.get("image_queue"), state.get("text_queue")
    if not copies or images is None or texts is None:
        return None
    wrong = [name for name in copies if name not in ours or copies[name].shape != ours[name].shape]
    if wrong or images.shape != texts.shape or images.shape[0] != config.shared:
        raise DeixisError(f"{path}: the momentum copy or its queue does not fit the model. {_listed(wrong)}")
    pointer = int(state.get("queue_ptr", state.get("queue_ptr_img", torch.zeros(1))))
    queue = images.T.float().contiguous(), texts.T.float().contiguous()  # [queue, shared]
    return MomentumState({**ours, **copies}, *queue, pointer % max(1, len(queue[0])))


# Models -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImportedAlbef:
    """A grounder, with the momentum copy and the queue for further training."""

    grounder: AlbefGrounder
    momentum: MomentumState | None

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write the model folder; the momentum copy is a file of its own that only training reads."""
        if self.momentum is not None:
            self.momentum.save(Path(folder))
        self.grounder.save_pretrained(folder, extras)


def import_albef(files: PublishedFiles) -> Imported:
    """Read ``ALBEF.pth``, or a checkpoint that was fine-tuned for grounding or retrieval."""
    return _import(files, "ALBEF")


def import_amc(files: PublishedFiles) -> Imported:
    """Read a checkpoint of AMC, such as ``best_flickr.pth``."""
    return _import(files, "AMC")


def _import(files: PublishedFiles, wanted: Method) -> Imported:
    if files.features is not None:
        raise DeixisError(f"{wanted} reads pixels. Remove --features.")
    found = read_published(files.weights, **files.sizes)
    if found.method not in (None, wanted):
        raise DeixisError(
            f"{files.weights} is a checkpoint of {found.method}, not of {wanted}. "
            f"Use: deixis import {str(found.method).lower()}"
        )
    pieces = read_word_pieces(files.vocabulary, found.config.vocabulary, files.weights)
    inputs = default_inputs(found.config)
    grounder = AlbefGrounder(found.network(), pieces, None, files.name, found.config.positions, inputs=inputs)
    method = f"{wanted}, fine-tuned" if found.fine_tuned else wanted
    supervision = f"{CAPTIONS}, and boxes of Visual Genome" if wanted == "AMC" else PAIRS
    return Imported(ImportedAlbef(grounder, found.momentum), method, supervision)


def default_inputs(config: AlbefConfig) -> InputConfig:
    """Return the published inputs at a model's own image size: those of Flickr30k, or of RefCOCO+ from 384 on."""
    data = "refer" if config.pixels >= PUBLISHED["refer"].pixels else "flickr30k_entities"
    return replace(PUBLISHED[data], pixels=0)


def read_word_pieces(path: Path | None, rows: int, weights: Path) -> WordPieces:
    """Read ``vocab.txt`` of BERT, by default that of the installed MiniLM; it must have ``rows`` word pieces."""
    if path is None:
        path = minilm_folder() / "vocab.txt"
        if sha256(path) != BERT_VOCABULARY:
            raise DeixisError(f"{path} is not the vocabulary of bert-base-uncased. Give that file with --vocab.")
    pieces = WordPieces.load(path)
    if len(pieces) != rows:
        raise DeixisError(
            f"{path} has {len(pieces):,} word pieces, and {weights} has {rows:,}. "
            "Give the vocab.txt that the weights were trained with (--vocab)."
        )
    return pieces


def load_minilm(model: AlbefNet, folder: Path | None = None) -> None:
    """Load MiniLM's six layers into text and fusion encoder; cross-attention keeps its initial weights."""
    folder = folder or minilm_folder()
    wanted = model.state_dict()
    layers = model.config.text_layers
    weights = {_layer_name(name, layers): torch.from_numpy(value) for name, value in minilm_weights(folder).items()}
    # all of MiniLM's weights are needed, and all of them are used
    expected = {name for name in wanted if name.startswith(("text.", "fusion.")) and ".cross_attention." not in name}
    wrong = sorted(expected ^ weights.keys()) or [n for n in weights if weights[n].shape != wanted[n].shape]
    if wrong:
        raise DeixisError(f"{folder} does not fit a model with these sizes: {_listed(wrong)}.")
    model.load_state_dict({**wanted, **weights})


def _from_published(name: str, fusion_from: int) -> str | None:
    """Our name of a published weight; None for an unknown name. Fine-tuned models have no ``bert.`` prefix."""
    if name.startswith("text_encoder.") and not name.startswith("text_encoder.cls."):
        inside = from_published_name(name.removeprefix("text_encoder.").removeprefix("bert."))
        return None if inside is None else _layer_name(inside, fusion_from)
    for pattern, ours in _NAMES:
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(ours)
    return None


def _layer_name(name: str, fusion_from: int) -> str:
    """Name of a BERT weight in the model: lower layers are in the text encoder, the others in the fusion encoder."""
    if not name.startswith("layers."):
        return f"text.{name}"
    _, number, rest = name.split(".", 2)
    above = int(number) - fusion_from
    return f"text.{name}" if above < 0 else f"fusion.{above}.{rest}"


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shape(value: Tensor) -> str:
    return " x ".join(map(str, value.shape)) or "one number"
