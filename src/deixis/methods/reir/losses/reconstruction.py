"""Phrase reconstruction from the attended region feature (ReIR Eq. 13, 14; GroundeR)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.distributed import total
from deixis.language.vocabulary import Vocabulary
from deixis.layers.lstm import run_lstm

Attended = Literal["first", "every"]
"""Where the decoder reads the attended feature: before the first word (published code), or at every step (ours)."""


class PhraseDecoder(nn.Module):
    """LSTM decoder of phrases (Eq. 13); both stages share it, in training only."""

    def __init__(self, vocabulary: int, words: int, attended: int, hidden: int, at: Attended = "first") -> None:
        super().__init__()
        self.at = at
        self.embed = nn.Embedding(vocabulary, words, padding_idx=Vocabulary.pad)
        if at == "first":
            self.project = nn.Linear(attended, words)
        self.lstm = nn.LSTM(words if at == "first" else attended + words, hidden, batch_first=True)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, attended: Tensor, inputs: Tensor) -> Tensor:
        """States ``[B, W, hidden]`` after each word of ``inputs [B, W]``, given ``attended [B, D]``."""
        words = self.embed(inputs)
        if self.at == "every":
            return run_lstm(self.lstm, words, constant=attended)
        return run_lstm(self.lstm, torch.cat([self.project(attended).unsqueeze(1), words], 1))[:, 1:]


def reconstruction(decoder: PhraseDecoder, attended: Tensor, spelling: Tensor, mask: Tensor) -> Tensor:
    """Mean negative log-probability of the words of each phrase, end token included (Eq. 14, one stage).

    ``attended [I, P, D]``, ``spelling [I, P, W]`` from bos to eos, ``mask [I, P]`` True where there is a phrase.
    """
    if not bool(mask.any()):
        total(mask.sum())  # other processes have phrases
        return attended.sum() * 0
    words = spelling[mask]
    inputs, targets = words[:, :-1], words[:, 1:]
    real = targets != Vocabulary.pad
    logits = decoder.output(decoder(attended[mask], inputs)[real])
    return F.cross_entropy(logits, targets[real], reduction="sum") / total(real.sum())
