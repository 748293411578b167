"""Published captioners of the POS-SCAN paper (``model-best.pth``, key names of self-critical.pytorch) as captioners."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from deixis.data.reading import read_json
from deixis.errors import DeixisError
from deixis.language.vocabulary import SPECIAL, Vocabulary
from deixis.layers.checkpoint_file import read_checkpoint
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder
from deixis.training.published import Imported, PublishedFiles, load_weights
from deixis.training.supervision import PAIRS

NAMES = {
    "embed.0.": "embed.",
    "fc_embed.0.": "embed_image.",
    "att_embed.0.": "embed_regions.",
    "logit.": "output.",
    "ctx2att.": "key.",
    "core.att_lstm.": "attention_lstm.",
    "core.lang_lstm.": "language_lstm.",
    "core.attention.h2att.": "query.",
    "core.attention.alpha_net.weight": "energy",
}
"""Begin of a published name -> ours."""

_IGNORED = "core.attention.alpha_net.bias"  # moves all regions alike
_NEVER = -1e4  # bias of words that the published output layer does not have
_UNKNOWN = "UNK"
_GENERATION = GenerationConfig(allow_adjacent_repeats=True, allow_unknown=True, max_words=20)  # of the published script


def import_published(files: PublishedFiles) -> Imported:
    """Read a state dictionary of the published training script, and its words (``ix_to_word`` of flickrtalk.json)."""
    weights = _renamed(files.weights)
    order = read_order(files.vocabulary, files.weights)
    known = len(weights["embed.weight"]) - 1
    if known != len(order):
        raise DeixisError(
            f"{files.vocabulary} has {len(order):,} words, and {files.weights} has {known:,}. "
            "Give the vocabulary of these weights."
        )
    vocabulary, rows = _vocabulary(files.vocabulary or files.weights, order)
    config = DecoderConfig(
        vocabulary=len(vocabulary),
        features=weights["embed_regions.weight"].shape[1],
        words=weights["embed.weight"].shape[1],
        hidden=len(weights["embed_regions.weight"]),
        attention=len(weights["key.weight"]),
    )
    network = load_weights(lambda: Decoder(config), _renumbered(weights, rows), files.weights)
    captioner = Captioner(network, vocabulary, files.extractor(config.features), files.name, _GENERATION)
    return Imported(captioner, "Up-Down of the POS-SCAN paper", PAIRS)


def _renamed(path: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint under our names."""
    content = read_checkpoint(path)
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise DeixisError(f"{path} is not a table of weights. Give model-best.pth of the training script.")
    weights = {}
    for name, value in content.items():
        if name == _IGNORED:
            continue
        ours = next((new + str(name).removeprefix(old) for old, new in NAMES.items() if str(name).startswith(old)), "")
        if not ours:
            raise DeixisError(f"{path} has unknown weights '{str(name)[:80]}'. Give a captioner of the kind 'topdown'.")
        weights[ours] = value.float()
    for name in ("embed.weight", "embed_regions.weight", "key.weight", "output.weight", "output.bias"):
        if name not in weights or weights[name].ndim != (1 if name.endswith("bias") else 2):
            raise DeixisError(f"{path} has no matrix '{name}'. Give a captioner of the kind 'topdown'.")
    return weights


def read_order(path: Path | None, weights: Path) -> list[str]:
    """Read the words of a published data file (``ix_to_word``: "1" is the first), in the order of their ids."""
    if path is None:
        raise DeixisError(
            f"{weights} has no words. Give the file of its data set with --vocabulary (flickrtalk.json, cocotalk.json)."
        )
    content = read_json(path)
    words = content.get("ix_to_word") if isinstance(content, dict) else None
    if not isinstance(words, dict) or set(words) != {str(i) for i in range(1, len(words) + 1)}:
        raise DeixisError(f'{path} has no words: expected "ix_to_word" with the ids "1" to the number of words.')
    return [str(words[str(i)]) for i in range(1, len(words) + 1)]


def _vocabulary(path: Path, order: list[str]) -> tuple[Vocabulary, list[int]]:
    """Return our vocabulary and the published id of each of its words; -1: none.

    The published id 0 is begin, end and padding in one.
    """
    ids = {word: number for number, word in enumerate(order, 1)}
    known = [word for word in order if word != _UNKNOWN]
    try:
        vocabulary = Vocabulary(SPECIAL + tuple(known))
    except ValueError as error:
        raise DeixisError(f"{path} cannot be used: {error}.") from None
    return vocabulary, [0, 0, 0, ids.get(_UNKNOWN, -1), *(ids[word] for word in known)]


def _renumbered(weights: Mapping[str, Tensor], rows: list[int]) -> dict[str, Tensor]:
    """Weights whose words have our ids; words without a published output are never predicted."""
    index = torch.tensor(rows)
    found = dict(weights)
    for name in ("embed.weight", "output.weight", "output.bias"):
        found[name] = weights[name][index.clamp_min(0)].clone()
    absent = index < 0
    found["embed.weight"][absent] = 0
    absent[[Vocabulary.pad, Vocabulary.bos]] = True
    found["output.weight"][absent] = 0
    found["output.bias"][absent] = _NEVER
    return found
