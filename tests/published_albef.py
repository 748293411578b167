"""Checkpoints with the published names of ALBEF and AMC, at a tiny size."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["pretrained", "fine-tuned", "amc"]
HIDDEN, FEED, SHARED, QUEUE, POSITIONS = 24, 20, 6, 10, 40
WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "man", "##s", "red", "hat", "dog", "-", "&", "left", "on"),
    *("the", "t", "shirt", "person", "two", "##n", "'", ".", "cap", "##e"),
)


def write_vocab(path: Path) -> Path:
    """Write the word pieces as BERT's ``vocab.txt``."""
    path.write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    return path


def bert(prefix: str, layers: int = 12, fusion_from: int = 6) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a BERT whose upper layers attend to the image."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.position_ids": (1, POSITIONS),
        "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    linear: dict[str, tuple[int, int]] = {}
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        kinds = ["attention", *(["crossattention"] if number >= fusion_from else [])]
        for kind in kinds:
            linear |= {f"{layer}.{kind}.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
            linear[f"{layer}.{kind}.output.dense"] = (HIDDEN, HIDDEN)
            norms.append(f"{layer}.{kind}.output.LayerNorm")
        linear[f"{layer}.intermediate.dense"] = (FEED, HIDDEN)
        linear[f"{layer}.output.dense"] = (HIDDEN, FEED)
        norms.append(f"{layer}.output.LayerNorm")
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in norms:
        shapes |= {f"{name}.weight": (HIDDEN,), f"{name}.bias": (HIDDEN,)}
    return {prefix + name: shape for name, shape in shapes.items()}


def head(prefix: str) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the head for masked words."""
    inside = f"{prefix}cls.predictions."
    names = {f"{inside}transform.{part}.bias": (HIDDEN,) for part in ("dense", "LayerNorm")}
    return {
        **names,
        f"{inside}transform.dense.weight": (HIDDEN, HIDDEN),
        f"{inside}transform.LayerNorm.weight": (HIDDEN,),
        f"{inside}bias": (len(WORDS),),
        f"{inside}decoder.weight": (len(WORDS), HIDDEN),
        f"{inside}decoder.bias": (len(WORDS),),
    }


def vit(prefix: str, side: int, blocks: int = 2) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a vision transformer with patches of 16 pixels."""
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, HIDDEN),
        "pos_embed": (1, 1 + side**2, HIDDEN),
        "patch_embed.proj.weight": (HIDDEN, 3, 16, 16),
        "patch_embed.proj.bias": (HIDDEN,),
        "norm.weight": (HIDDEN,),
        "norm.bias": (HIDDEN,),
    }
    for number in range(blocks):
        for name, shape in (
            ("attn.qkv", (3 * HIDDEN, HIDDEN)),
            ("attn.proj", (HIDDEN, HIDDEN)),
            ("mlp.fc1", (FEED, HIDDEN)),
            ("mlp.fc2", (HIDDEN, FEED)),
            ("norm1", (HIDDEN,)),
            ("norm2", (HIDDEN,)),
        ):
            shapes |= {f"blocks.{number}.{name}.weight": shape, f"blocks.{number}.{name}.bias": shape[:1]}
    return {prefix + name: shape for name, shape in shapes.items()}


def write_checkpoint(path: Path, kind: Kind, side: int | None = None, seed: int = 0) -> dict[str, Tensor]:
    """Write a checkpoint as the published training scripts do; returns its table of weights."""
    side = side or (24 if kind == "fine-tuned" else 16)
    shapes: dict[str, tuple[int, ...]] = {"temp": (), "itm_head.weight": (2, HIDDEN), "itm_head.bias": (2,)}
    for suffix in ("", "_m"):
        shapes |= vit(f"visual_encoder{suffix}.", side)
        prefix = f"text_encoder{suffix}."
        shapes |= bert(prefix) if kind == "fine-tuned" else {**bert(f"{prefix}bert."), **head(prefix)}
        for name in ("vision_proj", "text_proj"):
            shapes |= {f"{name}{suffix}.weight": (SHARED, HIDDEN), f"{name}{suffix}.bias": (SHARED,)}
    dice = torch.Generator().manual_seed(seed)
    state = {name: 0.2 * torch.randn(shape, generator=dice) for name, shape in shapes.items()}
    for name in list(state):
        if name.endswith("position_ids"):
            state[name] = torch.arange(POSITIONS)[None]
        if name.endswith("predictions.decoder.weight"):
            state[name] = state[name.split("cls.")[0] + "bert.embeddings.word_embeddings.weight"]
    state |= {name: torch.randn(SHARED, QUEUE, generator=dice) for name in ("image_queue", "text_queue")}
    if kind == "fine-tuned":
        state["idx_queue"] = torch.full((1, QUEUE), -100)
    for pointer in ("queue_ptr_img", "queue_ptr_txt") if kind == "amc" else ("queue_ptr",):
        state[pointer] = torch.tensor([4])
    rest = {"optimizer": {"state": {0: {"step": 3, "exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 1e-5}]}}
    config = {"image_res": 16 * side, "optimizer": {"opt": "adamW"}, "train_file": ["vg.json"]}
    torch.save({"model": state, **rest, "lr_scheduler": {"base_values": [1e-5]}, "config": config, "epoch": 7}, path)
    return state
