"""Masked words by hand, the masking itself, and the gradient."""

from dataclasses import replace

import pytest
import torch
from tiny_albef import batch, tiny
from torch import Tensor

from deixis.methods.albef.losses.masked_words import mask_words, masked_logits, masked_words
from deixis.methods.albef.network import Texts


def test_words_are_hidden_as_bert_hides_them() -> None:
    torch.manual_seed(0)
    ids = torch.cat([torch.ones(500, 1), torch.randint(10, 30, (500, 40)), torch.full((500, 1), 2)], 1).long()
    ids[:, 35:] = 0
    texts = Texts(ids, ids > 0)
    hidden, chosen = mask_words(texts, special=(0, 1, 2), mask_id=3, vocabulary=30)
    assert not chosen[:, 0].any()
    assert not chosen[:, 35:].any()
    assert torch.equal(hidden.ids[~chosen], ids[~chosen])
    assert chosen[:, 1:35].float().mean().item() == pytest.approx(0.15, abs=0.01)
    masked = (hidden.ids == 3)[chosen].float().mean().item()
    kept = (hidden.ids == ids)[chosen].float().mean().item()
    assert masked == pytest.approx(0.8 + 0.1 / 30, abs=0.03)
    assert kept == pytest.approx(0.1 + 0.1 / 30, abs=0.03)


def test_masked_words_by_hand() -> None:
    model, (grids, texts) = tiny(), batch()
    chosen = torch.zeros_like(texts.mask)
    chosen[0, 1] = chosen[2, 2] = True
    hidden = Texts(texts.ids.masked_fill(chosen, 3), texts.mask)
    encoded = model.encode(grids)
    logits = model.word_logits(model.fuse(model.encode_text(hidden), hidden, encoded))
    by_hand = -(logits[0, 1].log_softmax(-1)[5] + logits[2, 2].log_softmax(-1)[9]) / 2
    torch.testing.assert_close(masked_words(model, encoded, hidden, chosen, texts.ids), by_hand)
    momentum = torch.randn(2, 30, dtype=torch.float64)
    told = -(momentum.softmax(-1) * masked_logits(model, encoded, hidden, chosen).log_softmax(-1)).sum(-1).mean()
    torch.testing.assert_close(
        masked_words(model, encoded, hidden, chosen, texts.ids, momentum, 0.4), 0.6 * by_hand + 0.4 * told
    )
    assert masked_words(model, encoded, hidden, torch.zeros_like(chosen), texts.ids).item() == 0


def test_gradient_of_masked_words() -> None:
    model, (grids, texts) = tiny(), batch()
    chosen = torch.zeros_like(texts.mask)
    chosen[:, 1] = True
    hidden = replace(texts, ids=texts.ids.masked_fill(chosen, 3))

    def run(grids: Tensor, *parameters: Tensor) -> Tensor:
        return masked_words(model, model.encode(grids), hidden, chosen, texts.ids)

    used = [p for name, p in model.named_parameters() if not name.startswith(("match", "project", "temperature"))]
    assert torch.autograd.gradcheck(run, (grids.requires_grad_(), *used), fast_mode=True)
