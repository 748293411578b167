"""Published checkpoints of SCAN and POS-SCAN (``model_best.pth.tar``) as grounders."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from deixis.data.reading import brief, read_json
from deixis.errors import DeixisError
from deixis.language.vocabulary import SPECIAL, Vocabulary
from deixis.layers.checkpoint_file import read_checkpoint
from deixis.methods.scan.config import ScanConfig
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanNet
from deixis.training.published import Imported, PublishedFiles, load_weights
from deixis.training.supervision import PAIRS

_DIRECTIONS = {"t2i": "text-to-image", "i2t": "image-to-text"}
_AGGREGATIONS = {"Mean": "mean", "LogSumExp": "logsumexp", "Max": "max", "Sum": "sum"}
_SUPPORTED: Mapping[str, object] = {  # options of the training script that the network here does not have
    "raw_feature_norm": "clipped_l2norm",
    "no_imgnorm": False,
    "no_txtnorm": False,
    "num_layers": 1,
    "bi_gru": True,
}
_PUBLISHED_SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")


def import_published(files: PublishedFiles) -> Imported:
    """Read a checkpoint of the published training script, and its vocabulary JSON (``f30k_precomp_vocab.json``)."""
    if files.sizes:
        raise DeixisError(f"{files.weights}: SCAN's sizes are in its file. Remove --{next(iter(files.sizes))}.")
    options, image, text = _checkpoint(files.weights)
    weights = _renamed(files.weights, image, text)
    vocabulary = read_vocabulary(files.vocabulary, files.weights)
    config = _config(files.weights, options, weights)
    if config.vocabulary != len(vocabulary):
        raise DeixisError(
            f"{files.vocabulary} has {len(vocabulary):,} words, and {files.weights} has {config.vocabulary:,}. "
            "Give the vocabulary of these weights."
        )
    network = load_weights(lambda: ScanNet(config), weights, files.weights)
    grounder = ScanGrounder(network, vocabulary, files.extractor(config.features), files.name)
    return Imported(grounder, "SCAN" if config.count == "all" else "POS-SCAN", PAIRS)


def _checkpoint(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Return the options of the training script and the weights of the image and the text encoder."""
    content = read_checkpoint(path)
    match content:
        case {"model": [Mapping() as image, Mapping() as text], "opt": argparse.Namespace() as options}:
            if all(isinstance(value, Tensor) for value in (*image.values(), *text.values())):
                return vars(options), image, text
    raise DeixisError(
        f"{path} is not a checkpoint of SCAN: expected 'opt' and 'model' with two tables of weights. "
        "Give model_best.pth.tar of its training script."
    )


def _renamed(path: Path, image: Mapping[str, Tensor], text: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights under our names; those of ``--precomp_enc_type weight_norm`` are multiplied out."""
    image = dict(image)
    if "fc.weight_g" in image and "fc.weight_v" in image:
        direction = image.pop("fc.weight_v")
        image["fc.weight"] = direction * (image.pop("fc.weight_g") / direction.norm())
    prefixes = (("fc.", "embed_regions."), ("embed.", "embed."), ("rnn.", "gru."))
    weights = {}
    for table, encoder in ((image, prefixes[:1]), (text, prefixes[1:])):
        for name, value in table.items():
            ours = next((new + name.removeprefix(old) for old, new in encoder if name.startswith(old)), None)
            if ours is None:
                raise DeixisError(
                    f"{path} has unknown weights '{name[:80]}'. Give a checkpoint of precomputed features."
                )
            weights[ours] = value.float()
    for name in ("embed_regions.weight", "embed.weight"):
        if name not in weights or weights[name].ndim != 2:
            raise DeixisError(f"{path} has no matrix '{name}'. Give a checkpoint of SCAN.")
    return weights


def _config(path: Path, options: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ScanConfig:
    """Return the network's configuration from the options of the training script and the shapes of the weights."""
    for name, supported in _SUPPORTED.items():
        if (found := options.get(name, supported)) != supported:
            raise DeixisError(f"{path} was trained with {name} = {brief(found)}. Only {supported!r} can be imported.")
    nouns = bool(options.get("pos", False))  # POS-SCAN's own option
    try:
        for name in ("cross_attn", "agg_func"):
            if not isinstance(options[name], str):
                raise TypeError(f"{name} is not a text")
        return ScanConfig(
            vocabulary=len(weights["embed.weight"]),
            features=weights["embed_regions.weight"].shape[1],
            words=weights["embed.weight"].shape[1],
            embed=len(weights["embed_regions.weight"]),
            direction=_DIRECTIONS[options["cross_attn"]],  # type: ignore[arg-type]
            temperature=float(options["lambda_softmax"]),
            aggregation=_AGGREGATIONS[options["agg_func"]],  # type: ignore[arg-type]
            sharpness=float(options["lambda_lse"]),
            leak=0.1,  # of the published code
            rivals="counted" if nouns else "all",
            count="nouns" if nouns else "all",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DeixisError(f"{path}: the options of the training script cannot be used ({repr(error)[:100]}).") from None


def read_vocabulary(path: Path | None, weights: Path) -> Vocabulary:
    """Read SCAN's vocabulary JSON: ``word2idx``, ``idx2word`` and ``idx``."""
    if path is None:
        raise DeixisError(
            f"{weights} has no words. Give the vocabulary of its data set with --vocabulary "
            "(f30k_precomp_vocab.json or coco_precomp_vocab.json)."
        )
    content = read_json(path)
    ids = content.get("word2idx") if isinstance(content, dict) else None
    if not isinstance(ids, dict) or sorted(ids.values(), key=str) != sorted(range(len(ids)), key=str):
        raise DeixisError(f"{path} is not a vocabulary of SCAN: expected word2idx with ids from 0 on.")
    return _vocabulary(path, sorted(ids, key=lambda word: int(ids[word])))


def _vocabulary(path: Path, words: Sequence[str]) -> Vocabulary:
    if tuple(words[: len(SPECIAL)]) != _PUBLISHED_SPECIAL:
        raise DeixisError(f"{path} must begin with {', '.join(_PUBLISHED_SPECIAL)}.")
    try:
        return Vocabulary(SPECIAL + tuple(words[len(SPECIAL) :]))
    except ValueError as error:
        raise DeixisError(f"{path} cannot be used: {error}.") from None
