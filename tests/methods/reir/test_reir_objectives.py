"""ReIR's objectives against the published code's numbers, by hand, and their gradients."""

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.language.vocabulary import Vocabulary
from deixis.localize.box_regression import move, offsets, overlap
from deixis.methods.reir.losses.ranking import Form, caption_fit, ranking
from deixis.methods.reir.losses.reconstruction import PhraseDecoder, reconstruction
from deixis.methods.reir.losses.relations import RelationClassifier, rarity, relation_loss
from deixis.methods.reir.losses.self_taught import SelfTaughtConfig, lesson, self_taught

GOLDEN = Path(__file__).parents[2] / "golden" / "reir.npz"
FORMS = get_args(Form)
PUBLISHED = SelfTaughtConfig(identical=False)


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def everything(values: Tensor) -> Tensor:
    return torch.ones(values.shape, dtype=torch.bool)


# Moving boxes -------------------------------------------------------------------------------------------------------


def test_overlaps_and_moves_agree_with_the_published_code(golden: dict[str, Tensor]) -> None:
    boxes, best = golden["boxes"], golden["score"].argmax(1)
    torch.testing.assert_close(overlap(boxes[None], boxes[best][:, None]), golden["iou"], atol=1e-5, rtol=0)
    torch.testing.assert_close(move(boxes, golden["delta1"][0]), golden["apply_deltas"], atol=1e-5, rtol=1e-6)


def test_moves_are_those_of_the_house() -> None:
    random = np.random.default_rng(0)
    a, b = (np.concatenate([random.random((7, 2)) / 2, 0.5 + random.random((7, 2)) / 2], 1) for _ in range(2))
    scales = np.array([10, 10, 5, 5])
    np.testing.assert_allclose(offsets(torch.tensor(a), torch.tensor(b)), geometry.deltas(a, b) * scales)
    np.testing.assert_allclose(move(torch.tensor(a), offsets(torch.tensor(a), torch.tensor(b))), b)
    np.testing.assert_allclose(overlap(torch.tensor(a)[:, None], torch.tensor(b)), geometry.iou(a, b))
    assert overlap(torch.zeros(4), torch.zeros(4)) == 0
    assert move(torch.tensor([0.0, 0, 1, 1]), torch.full((4,), 1e9)).isfinite().all()


# Self-taught regression ---------------------------------------------------------------------------------------------


def test_pairs_and_targets_agree_with_the_published_code(golden: dict[str, Tensor]) -> None:
    taught = lesson(golden["boxes"][None, None], golden["score"][None], everything(golden["score"][None]), PUBLISHED)
    assert torch.equal(taught.pupils[0].nonzero(), golden["stage1_pairs"])
    torch.testing.assert_close(taught.targets[taught.pupils], golden["stage1_targets"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("gap", ["0.1", "0.3"])
def test_losses_of_both_stages_agree_with_the_published_code(golden: dict[str, Tensor], gap: str) -> None:
    config = SelfTaughtConfig(gap=float(gap), identical=False)
    first = (golden["delta1"][None], golden["boxes"][None, None], golden["score"][None])
    second = (golden["delta2"][None], golden["boxes2"].view(1, 4, 5, 4), golden["score2"][None])
    for stage, (moves, boxes, score) in (("1", first), ("2", second)):
        loss = self_taught(moves, boxes, score, everything(score), config)
        torch.testing.assert_close(loss, golden[f"stage{stage}_loss_iou0p6_gap{gap}"][0], atol=1e-5, rtol=0)


def test_self_taught_targets_by_hand() -> None:
    """The second box is the surest. The first covers two thirds of it, the third a half, and the fourth is padding."""
    boxes = torch.tensor([[[0.0, 0, 2, 1], [0, 0, 3, 1], [0, 0, 1.5, 1], [0, 0, 3, 1]]]).double().unsqueeze(1)
    sure = torch.tensor([[[0.3, 0.5, 0.2, 0.9]]]).double()
    where = torch.tensor([[[True, True, True, False]]])
    taught = lesson(boxes, sure, where, SelfTaughtConfig())
    assert taught.pupils.tolist() == [[[True, True, False, False]]]
    # from the centre at 1 to that at 1.5 is a quarter of the width 2; the width grows by half
    expected = [[10 * 0.25, 0, 5 * math.log(1.5), 0], [0, 0, 0, 0]]
    torch.testing.assert_close(taught.targets[0, 0, :2], torch.tensor(expected).double())
    assert lesson(boxes, sure, where, PUBLISHED).pupils.tolist() == [[[True, False, False, False]]]
    far = lesson(boxes, sure, where, SelfTaughtConfig(gap=0.25))
    assert far.pupils.any()
    assert not far.counted.any()
    moves = torch.zeros(1, 1, 4, 4).double()
    by_hand = (2.5 - 0.5) + (5 * math.log(1.5) - 0.5)  # both are over 1, where the loss is linear
    assert self_taught(moves, boxes, sure, where, SelfTaughtConfig()).item() == pytest.approx(by_hand / 8)
    assert self_taught(moves, boxes, sure, where, PUBLISHED).item() == pytest.approx(by_hand / 4)
    assert self_taught(moves, boxes, sure, ~everything(sure), PUBLISHED).item() == 0


def test_gradients_of_self_taught_regression() -> None:
    torch.manual_seed(0)
    corners = torch.rand(2, 1, 6, 2, dtype=torch.float64) / 5
    boxes = torch.cat([corners, 1 - corners.flip(2)], -1)
    sure = torch.rand(2, 3, 6, dtype=torch.float64).softmax(-1)
    moves = torch.randn(2, 3, 6, 4, dtype=torch.float64, requires_grad=True)
    config = SelfTaughtConfig(gap=0.01)
    assert lesson(boxes, sure, everything(sure), config).counted.sum() > 5
    assert torch.autograd.gradcheck(lambda m: self_taught(m, boxes, sure, everything(sure), config), moves)


# Ranking ------------------------------------------------------------------------------------------------------------


def test_ranking_agrees_with_the_published_code(golden: dict[str, Tensor]) -> None:
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


def test_the_fit_of_a_caption_is_the_mean_over_its_phrases() -> None:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    caption = torch.tensor([[0, 0, 2], [1, 0, 0]])
    scores = torch.tensor([[1.0, 3, 5, 7], [2, 4, 6, 8]])
    fit, owner = caption_fit(scores, mask, caption, captions=3)
    assert owner.tolist() == [0, 0, 1]  # the second caption of the first image has no phrase, nor have three others
    assert fit.tolist() == [[2, 5, 7], [3, 6, 8]]


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_ranking(form: Form) -> None:
    torch.manual_seed(0)
    scores = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True], [True, True], [True, True]])
    caption = torch.tensor([[0, 1], [0, 0], [1, 1]])

    def run(scores: Tensor) -> Tensor:
        return ranking(*caption_fit(scores, mask, caption, 2), form)

    assert torch.autograd.gradcheck(run, scores)


# Reconstruction -----------------------------------------------------------------------------------------------------

SPELLING = torch.tensor([[[1, 5, 6, 2], [1, 7, 2, 0]], [[1, 4, 2, 0], [0, 0, 0, 0]]])
PHRASES = torch.tensor([[True, True], [True, False]])


def test_reconstruction_by_hand() -> None:
    """The decoder's output layer knows only its bias: every word has the probability of its count."""
    assert (Vocabulary.pad, Vocabulary.bos, Vocabulary.eos) == (0, 1, 2)
    decoder = PhraseDecoder(vocabulary=8, words=3, seen=4, hidden=5)
    with torch.no_grad():
        decoder.output.weight.zero_()
        decoder.output.bias.zero_()
        decoder.output.bias[2] = math.log(9.0)  # the end has 9/16, everything else 1/16
    loss = reconstruction(decoder, torch.randn(2, 2, 4), SPELLING, PHRASES)
    assert loss.item() == pytest.approx(-(4 * math.log(1 / 16) + 3 * math.log(9 / 16)) / 7, abs=1e-6)
    assert reconstruction(decoder, torch.randn(2, 2, 4), SPELLING, ~everything(PHRASES)).item() == 0


def test_gradients_of_reconstruction_and_padding() -> None:
    torch.manual_seed(0)
    decoder = PhraseDecoder(vocabulary=8, words=3, seen=4, hidden=5).double()
    seen = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)

    def run(seen: Tensor, *parameters: Tensor) -> Tensor:
        return reconstruction(decoder, seen, SPELLING, PHRASES)

    assert torch.autograd.gradcheck(run, (seen, *decoder.parameters()), fast_mode=True)
    longer = torch.nn.functional.pad(SPELLING, (0, 3))
    torch.testing.assert_close(reconstruction(decoder, seen, longer, PHRASES), run(seen))


# Relations ----------------------------------------------------------------------------------------------------------


def test_relation_loss_by_hand() -> None:
    """Category 2 of the pair (0, 1) and nothing else; the logits are biases."""
    classifier = RelationClassifier(seen=3, hidden=4, categories=3)
    with torch.no_grad():
        classifier.judge.weight.zero_()
        classifier.judge.bias.copy_(torch.tensor([1.0, 2, 4]).log())
    relation = torch.tensor([[[0, 2], [0, 0]]])
    assert relation_loss(classifier, torch.randn(1, 2, 3), relation).item() == pytest.approx(-math.log(2 / 7))
    assert relation_loss(classifier, torch.randn(1, 2, 3), relation * 0).item() == 0


def test_rare_relations_count_more() -> None:
    weights = rarity([400, 100, 25])
    torch.testing.assert_close(weights, torch.tensor([0.05, 0.1, 0.2]) / (0.35 / 3))


def test_gradients_of_the_relation_loss() -> None:
    torch.manual_seed(0)
    classifier = RelationClassifier(3, 4, 3, rarity([5, 2, 1])).double()
    seen = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    relation = torch.zeros(2, 3, 3, dtype=torch.long)
    relation[0, 0, 1], relation[1, 2, 0], relation[1, 0, 2] = 1, 3, 2

    def run(seen: Tensor, *parameters: Tensor) -> Tensor:
        return relation_loss(classifier, seen, relation)

    assert torch.autograd.gradcheck(run, (seen, *classifier.parameters()), fast_mode=True)
