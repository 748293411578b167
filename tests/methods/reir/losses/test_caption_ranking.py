"""Ranking: published numbers, by hand, and its gradient."""

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.methods.reir.losses.caption_ranking import Form, PairEmbedding, caption_scores, pair_ranking, ranking

GOLDEN = Path(__file__).parents[3] / "golden" / "reir.npz"
FORMS = get_args(Form)


def test_ranking_agrees_with_the_published_code() -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {name: torch.from_numpy(file[name]) for name in ("disc_in", "disc_loss_margin0p2")}
    loss = ranking(golden["disc_in"], torch.arange(6))
    torch.testing.assert_close(loss, golden["disc_loss_margin0p2"], atol=1e-5, rtol=0)


def test_ranking_by_hand() -> None:
    """Two images; the first has two captions, which are not each other's negatives."""
    similarity = torch.tensor([[0.9, 0.3, 0.2], [0.5, 0.25, 0.8]])
    # image -> captions: .2 against .9 and .3, .5 against .8; caption -> images: .5, .25 and .2 against .9, .3, .8
    expected = (0 + 0.1 + 0) + (0 + 0.15 + 0)
    owner = torch.tensor([0, 0, 1])
    assert ranking(similarity, owner, "plain").item() == pytest.approx(expected, abs=1e-6)
    e = similarity.exp()
    # the first image's own captions and that of the other; a sibling does not count
    pairs = [(e[0, 0], e[0, 2]), (e[0, 1], e[0, 2])]
    pairs += [(e[0, 0], e[1, 0]), (e[0, 1], e[1, 1]), (e[1, 2], e[0, 2])]
    chances = [(own / (own + other), other / (own + other)) for own, other in pairs]
    both = e[1, 2] + e[1, 0] + e[1, 1]  # the second image is told from two captions
    chances.append((e[1, 2] / both, e[1, 0] / both))
    hinges = sum(max(0.0, 0.2 + float(other - own)) for own, other in chances)
    assert ranking(similarity, owner).item() == pytest.approx(hinges, abs=1e-6)
    logs = -sum(math.log(own) for own, _ in chances)
    assert ranking(similarity, owner, "log").item() == pytest.approx(logs, abs=1e-6)
    for form in FORMS:
        assert ranking(similarity[:1, :2], torch.tensor([0, 0]), form).item() == 0  # nothing to be told from


def test_the_score_of_a_caption_is_the_mean_over_its_phrases() -> None:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    caption = torch.tensor([[0, 0, 2], [1, 0, 0]])
    scores = torch.tensor([[1.0, 3, 5, 7], [2, 4, 6, 8]])
    fit, owner = caption_scores(scores, mask, caption, captions=3)
    assert owner.tolist() == [0, 0, 1]  # the second caption of the first image has no phrase, nor have three others
    assert fit.tolist() == [[2, 5, 7], [3, 6, 8]]


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_ranking(form: Form) -> None:
    torch.manual_seed(0)
    scores = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True], [True, True], [True, True]])
    caption = torch.tensor([[0, 1], [0, 0], [1, 1]])

    def run(scores: Tensor) -> Tensor:
        return ranking(*caption_scores(scores, mask, caption, 2), form)

    assert torch.autograd.gradcheck(run, scores)


def test_pair_ranking_agrees_with_the_published_code() -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {name: torch.from_numpy(file[name]) for name in ("disc_in", "disc_loss_margin0p2")}
    loss = pair_ranking(golden["disc_in"], torch.arange(6))
    torch.testing.assert_close(loss, golden["disc_loss_margin0p2"], atol=1e-5, rtol=0)


def test_pairs_of_one_image_are_not_negatives() -> None:
    similarity = torch.tensor([[0.5, 9.0, 0.4], [9.0, 0.6, 0.1], [0.45, 0.2, 0.5]])
    # hinges: .1 (.4 against .5), 0; .15 (.45 against .5); columns: .15, 0, .1
    assert pair_ranking(similarity, torch.tensor([0, 0, 1]), "plain").item() == pytest.approx(0.5, abs=1e-6)


def test_embeddings_of_pairs_by_loops() -> None:
    """The mean attended feature of a caption's phrases and the caption's vector, each through one layer."""
    torch.manual_seed(0)
    pairs = PairEmbedding(4, 3).double()
    attended, sentences = torch.randn(2, 3, 4).double(), torch.randn(2, 2, 4).double()
    mask = torch.tensor([[True, True, True], [True, False, False]])
    caption = torch.tensor([[0, 0, 1], [1, 0, 0]])
    found, owner = pairs(attended, sentences, mask, caption)
    weight, bias = (value.detach().numpy() for value in (pairs.visual.weight, pairs.visual.bias))
    other, shift = (value.detach().numpy() for value in (pairs.sentence.weight, pairs.sentence.bias))
    seen = [attended[0, :2].mean(0), attended[0, 2], attended[1, 0]]
    said = [sentences[0, 0], sentences[0, 1], sentences[1, 1]]
    expected = [[(weight @ v.numpy() + bias) @ (other @ t.numpy() + shift) / 3**0.5 for t in said] for v in seen]
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-9)
    assert owner.tolist() == [0, 0, 1]


def test_gradients_of_pair_ranking() -> None:
    torch.manual_seed(0)
    scores = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    for form in FORMS:
        assert torch.autograd.gradcheck(lambda s, form=form: pair_ranking(s, torch.tensor([0, 0, 1, 2]), form), scores)
