"""Cyclical training: decode, localize the decoded words, reconstruct the sentence from their regions.

Cyclical, Eq. 4 to 8. The localizer exists in training only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.noise import fold
from deixis.methods.updown.losses.cross_entropy import cross_entropy
from deixis.methods.updown.losses.distillation import attention_kl
from deixis.methods.updown.network import Decoded, Decoder, Encoded


@dataclass(frozen=True)
class CycleConfig:
    """Weights and variants of the paper."""

    decode: float = 0.5  # lambda_1 (Sec. 4.2; .6 and .4 for its final Flickr30k row)
    reconstruct: float = 0.5  # lambda_2
    visual: Literal["all", "zero-loss", "zero-representation"] = "all"  # App. B: treatment of non-visual words
    # Eq. 6; App. B Table 9; Table 4, 'localizer using h^A': the paper does not say whether h^A replaces the word
    # (state) or joins it (word+state)
    localizer: Literal["linear", "mlp", "state", "word+state"] = "linear"
    consistency: float = 0.0  # weight of KL(beta || alpha), Table 4 'attention consistency'


class Localizer(nn.Module):
    """Attention over the regions from a word embedding (Eq. 6)."""

    def __init__(self, decoder: Decoder, config: CycleConfig) -> None:
        super().__init__()
        self.config = config
        sizes = decoder.config
        widths = {"state": sizes.hidden, "word+state": sizes.words + sizes.hidden}
        width = widths.get(config.localizer, sizes.words)
        self.query = nn.Linear(width, sizes.attention)  # W_l
        if config.localizer == "mlp":
            self.hidden = nn.Linear(width, width)

    def forward(self, encoded: Encoded, words: Tensor) -> tuple[Tensor, Tensor | None]:
        """Attention over regions, beta ``[I, C, T, N]``, and over the grid ``[I, C, T, M]``, of words ``[I, C, T, D]``.

        As in the published code, region keys are those of the decoder's attention (first branch), and the grid has the
        same query layer.
        """
        if self.config.localizer == "mlp":
            words = F.relu(self.hidden(words))
        query = self.query(words)
        energy = torch.einsum("icta,ina->ictn", query, encoded.keys[:, :, 0])
        beta = energy.masked_fill(~encoded.mask[:, None, None], -torch.inf).softmax(-1)
        if encoded.grid_keys is None:
            return beta, None
        on_grid = torch.einsum("icta,ima->ictm", query, encoded.grid_keys)
        if encoded.grid_mask is not None:
            on_grid = on_grid.masked_fill(~encoded.grid_mask[:, None, None], -torch.inf)
        return beta, on_grid.softmax(-1)


def cycle(
    decoder: Decoder,
    localizer: Localizer,
    encoded: Encoded,
    decoded: Decoded,
    words: Tensor,
    pad: int,
    visual: Tensor | None = None,
    smoothing: float = 0.0,
) -> dict[str, Tensor]:
    """Weighted loss terms of Eq. 8 for ``words [I, C, T + 1]`` (bos first) and their first decoding (Eq. 4, 5).

    ``visual [I, C, T]`` marks target words that are nouns or verbs; two variants need it. ``smoothing`` is that of both
    cross-entropies.
    """
    config = localizer.config
    if config.visual != "all" and visual is None:
        raise ValueError(f"the variant '{config.visual}' needs marks of the visual words")
    inputs, targets = words[..., :-1], words[..., 1:]
    beta, attended = _localize(decoder, localizer, encoded, decoded)
    if config.visual == "zero-representation" and visual is not None:
        attended = attended * visual.unsqueeze(-1)
    again = replace(encoded, random=fold(encoded.random, 5))
    rebuilt = decoder(again, inputs, attended=attended.unsqueeze(3))  # Eq. 7, the same decoder
    counted = targets
    if config.visual == "zero-loss" and visual is not None:
        counted = targets.masked_fill(~visual, pad)
    terms = {
        "decode": config.decode * cross_entropy(decoder, decoded, targets, pad, smoothing, fold(encoded.random, 6)),
        "reconstruct": config.reconstruct
        * cross_entropy(decoder, rebuilt, counted, pad, smoothing, fold(again.random, 6)),
    }
    if config.consistency:
        terms["consistency"] = config.consistency * attention_kl(beta, decoded.attention[..., 0, :], targets != pad)
    return terms


def _localize(decoder: Decoder, localizer: Localizer, encoded: Encoded, decoded: Decoded) -> tuple[Tensor, Tensor]:
    """Localize the decoded words (Eq. 6): attention ``[I, C, T, N]`` and attended feature ``[I, C, T, hidden]``."""
    with torch.no_grad():  # the words are leaves of the graph: no gradient passes through them
        predicted = decoder.word_logprobs(decoded.states[..., 0, :], fold(encoded.random, 7)).argmax(-1)
        # [I, C, T] of the first branch
    embedded = decoder.drop(F.relu(decoder.embed(predicted)), fold(encoded.random, 8))  # e_t = W_e y_t
    beta, on_grid = localizer(encoded, localizer_input(localizer, embedded, decoded.attention_states))
    attended = torch.einsum("ictn,inh->icth", beta, encoded.regions)
    if on_grid is not None and encoded.grid is not None:
        attended = attended + torch.einsum("ictm,imh->icth", on_grid, encoded.grid)
    return beta, attended


def localizer_input(localizer: Localizer, embedded: Tensor, states: Tensor) -> Tensor:
    """Input of the localizer ``[I, C, T, D]``: embedded words, h^A (``states``), or both."""
    match localizer.config.localizer:
        case "state":
            return states
        case "word+state":
            return torch.cat([embedded, states], -1)
        case _:
            return embedded
