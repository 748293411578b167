"""Cyclical training: decode, localise the words that were decoded, reconstruct the sentence from those places.

Learning to Generate Grounded Visual Captions without Localization Supervision, Eq. 4 to 8. The localizer exists only
while training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.methods.updown.losses.cross_entropy import cross_entropy
from deixis.methods.updown.losses.distillation import attention_kl
from deixis.methods.updown.network import Decoded, Decoder, Encoded


@dataclass(frozen=True)
class CycleConfig:
    """Weights and variants of the paper."""

    decode: float = 0.5  # lambda_1 (Sec. 4.2; .6 and .4 for its final Flickr30k row)
    reconstruct: float = 0.5  # lambda_2
    visual: Literal["all", "zero-loss", "zero-representation"] = "all"  # App. B: how words that cannot be seen count
    localizer: Literal["linear", "mlp", "state"] = "linear"  # Eq. 6; App. B Table 9; on h^A: Table 4
    consistency: float = 0.0  # weight of KL(beta || alpha), Table 4 'attention consistency'


class Localizer(nn.Module):
    """A word's embedding in, attention over the regions out (Eq. 6)."""

    def __init__(self, decoder: Decoder, config: CycleConfig) -> None:
        super().__init__()
        self.config = config
        sizes = decoder.config
        width = sizes.hidden if config.localizer == "state" else sizes.words
        self.place = nn.Linear(width, sizes.attention)  # W_l
        if config.localizer == "mlp":
            self.hidden = nn.Linear(width, width)

    def forward(self, encoded: Encoded, words: Tensor) -> tuple[Tensor, Tensor | None]:
        """Places of embedded words ``[I, C, T, words]``: beta ``[I, C, T, N]``, and over the grid ``[I, C, T, M]``.

        As in the published code, regions are met as the decoder's own attention projects them (first branch), and the
        grid through the same layer.
        """
        if self.config.localizer == "mlp":
            words = F.relu(self.hidden(words))
        query = self.place(words)
        energy = torch.einsum("icta,ina->ictn", query, encoded.keys[:, :, 0])
        beta = energy.masked_fill(~encoded.mask[:, None, None], -torch.inf).softmax(-1)
        if encoded.grid_keys is None:
            return beta, None
        return beta, torch.einsum("icta,ima->ictm", query, encoded.grid_keys).softmax(-1)


def cycle(
    decoder: Decoder,
    localizer: Localizer,
    encoded: Encoded,
    decoded: Decoded,
    words: Tensor,
    pad: int,
    visual: Tensor | None = None,
) -> dict[str, Tensor]:
    """The loss terms of Eq. 8, already weighted, for ``words [I, C, T + 1]`` (bos first) and their first decoding.

    ``visual [I, C, T]`` marks target words that can be seen (nouns and verbs); two variants need it.
    """
    config = localizer.config
    inputs, targets = words[..., :-1], words[..., 1:]
    with torch.no_grad():
        # what the first branch would have said at each step: leaves, no gradient passes through them
        spoken = decoder.speak(decoded.states[..., 0, :]).argmax(-1)  # [I, C, T]
    embedded = decoder.drop(F.relu(decoder.embed(spoken)))  # e_t = W_e y_t
    beta, on_grid = localizer(encoded, decoded.looking if config.localizer == "state" else embedded)
    seen = torch.einsum("ictn,inh->icth", beta, encoded.regions)
    if on_grid is not None and encoded.grid is not None:
        seen = seen + torch.einsum("ictm,imh->icth", on_grid, encoded.grid)
    if config.visual != "all" and visual is None:
        raise ValueError(f"the variant '{config.visual}' has to know which words can be seen")
    if config.visual == "zero-representation" and visual is not None:
        seen = seen * visual.unsqueeze(-1)
    rebuilt = decoder(encoded, inputs, seen=seen.unsqueeze(3))  # Eq. 7, the same decoder
    counted = targets
    if config.visual == "zero-loss" and visual is not None:
        counted = targets.masked_fill(~visual, pad)
    terms = {
        "decode": config.decode * cross_entropy(decoder, decoded, targets, pad),
        "reconstruct": config.reconstruct * cross_entropy(decoder, rebuilt, counted, pad),
    }
    if config.consistency:
        terms["consistency"] = config.consistency * attention_kl(beta, decoded.attention[..., 0, :], targets != pad)
    return terms
