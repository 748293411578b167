"""Alignment of words and cells: pair scores and loss by hand, and the gradient."""

import torch
from tiny_albef import EYE, batch, tiny
from torch import Tensor

from deixis.methods.albef.losses.alignment import LOGIT_SCALE, alignment
from deixis.methods.albef.network import SHARPNESS, pair_scores


def test_what_words_find_in_cells_by_hand() -> None:
    """Mean over the inner word pieces of the soft maximum over cells of the mean over heads of the attention scores."""
    model, (images, texts) = tiny(), batch()
    encoded, states = model.encode(images), model.encode_text(texts)
    layer = model.layers[0]
    hidden = layer.self_attention(states, texts.attention_bias(states.dtype))
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for text, inner in enumerate(([1, 2], [1], [1, 2])):
        for image in range(3):
            query = layer.cross_attention.query(hidden[text]).view(4, 2, 4)
            most = []
            for word in inner:
                scores = [
                    sum(query[word, head] @ encoded.keys[0][image, head, 1 + cell] / 4**0.5 for head in range(2)) / 2
                    for cell in range(4)
                ]
                most.append(torch.stack([(SHARPNESS * score).exp() for score in scores]).sum().log() / SHARPNESS)
            expected[image, text] = torch.stack(most).mean()
    torch.testing.assert_close(pair_scores(model, encoded, texts, states), expected)


def test_alignment_by_hand() -> None:
    """Each text chooses among the images and each image among the texts; equal texts share the target."""
    finds = torch.tensor([[0.02, 0.0], [0.01, 0.01]], dtype=torch.float64)
    odds = (LOGIT_SCALE * finds).exp()
    by_image = [(odds[row, row] / odds[row].sum()).log() for row in range(2)]
    by_text = [(odds[row, row] / odds[:, row].sum()).log() for row in range(2)]
    apart = alignment(finds, torch.eye(2, dtype=torch.bool))
    torch.testing.assert_close(apart, -(sum(by_image) + sum(by_text)) / 4)
    shared = alignment(finds, torch.ones(2, 2, dtype=torch.bool))
    across = [(odds / odds.sum(1, keepdim=True)).log().mean(), (odds / odds.sum(0, keepdim=True)).log().mean()]
    torch.testing.assert_close(shared, -sum(across) / 2)


def test_gradient_of_alignment() -> None:
    model, (images, texts) = tiny(), batch()

    def loss(grid: Tensor, states: Tensor) -> Tensor:
        return alignment(pair_scores(model, model.encode(grid), texts, states), EYE)

    inputs = images.requires_grad_(), model.encode_text(texts).detach().requires_grad_()
    assert torch.autograd.gradcheck(loss, inputs)
