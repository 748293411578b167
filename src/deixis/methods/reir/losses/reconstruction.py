"""Phrase reconstruction: what a phrase sees must be enough to say the phrase again (ReIR Eq. 13, 14; GroundeR)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from deixis.language.vocabulary import Vocabulary
from deixis.layers.lstm import run_lstm


class PhraseDecoder(nn.Module):
    """The LSTM that says a phrase again from what it saw; both stages share it, and it exists only while training."""

    def __init__(self, vocabulary: int, words: int, seen: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, words, padding_idx=Vocabulary.pad)
        self.speak = nn.LSTM(seen + words, hidden, batch_first=True)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, seen: Tensor, inputs: Tensor) -> Tensor:
        """States ``[B, W, hidden]`` behind each word of ``inputs [B, W]``, given what was seen ``[B, D]``."""
        return run_lstm(self.speak, self.embed(inputs), always=seen)


def reconstruction(decoder: PhraseDecoder, seen: Tensor, spelling: Tensor, mask: Tensor) -> Tensor:
    """Mean negative log-probability of the words of each phrase, ends included.

    ``seen [I, P, D]``, ``spelling [I, P, W]`` between begin and end, ``mask [I, P]`` where there is a phrase.
    """
    if not bool(mask.any()):
        return seen.sum() * 0
    words = spelling[mask]
    inputs, targets = words[:, :-1], words[:, 1:]
    real = targets != Vocabulary.pad
    logits = decoder.output(decoder(seen[mask], inputs)[real])
    return F.cross_entropy(logits, targets[real])
