"""Image-text matching by hand, its hard negatives and its gradient."""

import pytest
import torch
from tiny_albef import EYE, batch, tiny
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.losses.image_text_match import hard_negatives, image_text_match
from deixis.methods.albef.network import Texts


def test_hard_negatives_are_tempting_and_never_right() -> None:
    torch.manual_seed(0)
    scores = torch.tensor([[9.0, 2.0, 0.0, -50.0], [0.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 9.0], [1.0, 1.0, 1.0, 1.0]])
    same = torch.eye(4).bool()
    same[1, 2] = True
    drawn = torch.stack([hard_negatives(scores, same)[1] for _ in range(400)])
    assert not same[torch.arange(4).expand(400, 4), drawn].any()
    share = (drawn[:, 0] == 1).float().mean().item()
    assert share == pytest.approx(torch.tensor([2.0, 0.0]).softmax(0)[0].item(), abs=0.07)
    assert (drawn[:, 2] == 3).float().mean() > 0.99


def test_a_row_without_anything_wrong_is_left_out() -> None:
    same = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 1]]).bool()
    rows, columns = hard_negatives(torch.zeros(3, 3), same)
    assert rows.tolist() == [1, 2]
    assert columns.tolist() == [2, 1]
    assert hard_negatives(torch.zeros(1, 1), torch.ones(1, 1).bool())[0].tolist() == []


def test_matching_by_hand() -> None:
    """Wrong pairs that leave no choice: each row may only be paired with the next."""
    model, (grids, texts) = tiny(), batch()
    same = ~torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]]).bool()
    encoded, states = model.encode(grids), model.encode_text(texts)
    right = model.match_logits(model.fuse(states, texts, encoded))
    loss = image_text_match(model, encoded, texts, states, right, torch.zeros(3, 3, dtype=torch.float64), same)
    pairs = [(0, 0, 1), (1, 1, 1), (2, 2, 1), (0, 1, 0), (1, 2, 0), (2, 0, 0), (2, 0, 0), (0, 1, 0), (1, 2, 0)]
    total = 0.0
    for image, text, label in pairs:
        alone = Texts(texts.ids[text : text + 1], texts.mask[text : text + 1])
        logits = model.match_logits(model.fuse(model.encode_text(alone), alone, model.encode(grids[image : image + 1])))
        total += F.cross_entropy(logits, torch.tensor([label])).item() / len(pairs)
    assert loss.item() == pytest.approx(total)


def test_gradient_of_matching() -> None:
    model, (grids, texts) = tiny(), batch()

    def run(grids: Tensor, *parameters: Tensor) -> Tensor:
        torch.manual_seed(3)
        encoded, states = model.encode(grids), model.encode_text(texts)
        right = model.match_logits(model.fuse(states, texts, encoded))
        return image_text_match(model, encoded, texts, states, right, torch.zeros(3, 3, dtype=torch.float64), EYE)

    used = [p for name, p in model.named_parameters() if not name.startswith(("words", "project", "temperature"))]
    assert torch.autograd.gradcheck(run, (grids.requires_grad_(), *used), fast_mode=True)


def test_a_batch_without_a_wrong_pair_has_the_loss_of_its_true_pairs() -> None:
    model, (grids, texts) = tiny(), batch()
    encoded, states = model.encode(grids), model.encode_text(texts)
    right = model.match_logits(model.fuse(states, texts, encoded))
    scores, same = torch.zeros(3, 3, dtype=torch.float64), torch.ones(3, 3).bool()
    loss = image_text_match(model, encoded, texts, states, right, scores, same)
    assert loss.item() == pytest.approx(F.cross_entropy(right, torch.ones(3).long()).item())
