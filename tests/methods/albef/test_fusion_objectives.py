"""Contrast, matching and masked words of the fusion model: by hand, and against numerical differences."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.losses.alignment import SHARPNESS, alignment
from deixis.methods.albef.losses.image_text_contrast import image_text_contrast
from deixis.methods.albef.losses.image_text_match import hard_negatives, image_text_match
from deixis.methods.albef.losses.masked_words import guess_hidden, mask_words, masked_words
from deixis.methods.albef.losses.momentum import Momentum, MomentumConfig
from deixis.methods.albef.network import AlbefNet, Texts
from deixis.methods.albef.pair_scores import PEAK, pair_scores

SIZES = AlbefConfig(
    vocabulary=30,
    hidden=8,
    heads=2,
    feed=6,
    positions=8,
    text_layers=1,
    fusion_layers=2,
    dropout=0.0,
    patch=0,
    features=5,
    side=2,
    image_hidden=8,
    image_heads=2,
    image_feed=6,
    image_layers=1,
    shared=4,
    map_layer=0,
)
EYE = torch.eye(3, dtype=torch.bool)


def tiny(seed: int = 0) -> AlbefNet:
    torch.manual_seed(seed)
    model = AlbefNet(SIZES).double()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def batch() -> tuple[Tensor, Texts]:
    ids = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0], [1, 8, 9, 2]])
    return torch.randn(3, 2, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), Texts(ids, ids > 0)


def units(*shape: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), dim=-1)


# Alignment -----------------------------------------------------------------------------------------------------------


def test_what_words_find_in_cells_by_hand() -> None:
    """Mean over the inner word pieces of the soft maximum over cells of the mean over heads of the attention scores."""
    model, (images, texts) = tiny(), batch()
    encoded, read = model.encode(images), model.read(texts)
    layer = model.layers[0]
    hidden = layer.read(read, texts.bias(read.dtype))
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for text, inner in enumerate(([1, 2], [1], [1, 2])):
        for image in range(3):
            query = layer.look.query(hidden[text]).view(4, 2, 4)
            most = []
            for word in inner:
                scores = [
                    sum(query[word, head] @ encoded.keys[0][image, head, 1 + cell] / 4**0.5 for head in range(2)) / 2
                    for cell in range(4)
                ]
                most.append(torch.stack([(PEAK * score).exp() for score in scores]).sum().log() / PEAK)
            expected[image, text] = torch.stack(most).mean()
    torch.testing.assert_close(pair_scores(model, encoded, texts, read), expected)


def test_alignment_by_hand() -> None:
    """Each text chooses among the images and each image among the texts; equal texts share the target."""
    finds = torch.tensor([[0.02, 0.0], [0.01, 0.01]], dtype=torch.float64)
    odds = (SHARPNESS * finds).exp()
    by_image = [(odds[row, row] / odds[row].sum()).log() for row in range(2)]
    by_text = [(odds[row, row] / odds[:, row].sum()).log() for row in range(2)]
    apart = alignment(finds, torch.eye(2, dtype=torch.bool))
    torch.testing.assert_close(apart, -(sum(by_image) + sum(by_text)) / 4)
    shared = alignment(finds, torch.ones(2, 2, dtype=torch.bool))
    across = [(odds / odds.sum(1, keepdim=True)).log().mean(), (odds / odds.sum(0, keepdim=True)).log().mean()]
    torch.testing.assert_close(shared, -sum(across) / 2)


def test_gradient_of_alignment() -> None:
    model, (images, texts) = tiny(), batch()

    def loss(grid: Tensor, read: Tensor) -> Tensor:
        return alignment(pair_scores(model, model.encode(grid), texts, read), EYE)

    inputs = images.requires_grad_(), model.read(texts).detach().requires_grad_()
    assert torch.autograd.gradcheck(loss, inputs)


# Contrast ------------------------------------------------------------------------------------------------------------


def test_contrast_by_hand() -> None:
    """Without distillation: cross-entropy of the own text among the batch and the queue, both ways, halved."""
    image, text = units(3, 4, seed=0), units(3, 4, seed=1)
    slow, queue = (units(3, 4, seed=2), units(3, 4, seed=3)), (units(5, 4, seed=4), units(5, 4, seed=5))
    temperature = torch.tensor(0.5, dtype=torch.float64)
    expected = 0.0
    for one, others in ((image, torch.cat([slow[1], queue[1]])), (text, torch.cat([slow[0], queue[0]]))):
        for row in range(3):
            odds = [float((one[row] @ other / 0.5).exp()) for other in others]
            expected -= float(torch.tensor(odds[row] / sum(odds)).log()) / 3
    loss = image_text_contrast((image, text), slow, queue, temperature, EYE)
    assert loss.item() == pytest.approx(expected / 2, abs=1e-6)


def test_contrast_follows_the_copy_as_far_as_it_is_told() -> None:
    image, text = units(3, 4, seed=0), units(3, 4, seed=1)
    slow, queue = (units(3, 4, seed=2), units(3, 4, seed=3)), (units(5, 4, seed=4), units(5, 4, seed=5))
    temperature = torch.tensor(0.5, dtype=torch.float64)

    def loss(soft: float) -> float:
        return image_text_contrast((image, text), slow, queue, temperature, EYE, soft).item()

    wholly = 0.0
    for looks, at in ((0, 1), (1, 0)):
        others = torch.cat([slow[at], queue[at]])
        believed = (slow[looks] @ others.T / 0.5).softmax(1)
        wholly += F.cross_entropy((image, text)[looks] @ others.T / 0.5, believed).item() / 2
    assert loss(1.0) == pytest.approx(wholly)
    assert loss(0.4) == pytest.approx(0.4 * wholly + 0.6 * loss(0.0))


def test_equal_texts_share_the_target() -> None:
    """Two rows with one text: either is right, so that the loss is lowest when both are equally likely."""
    same = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    image = torch.eye(3, 4, dtype=torch.float64)
    text = torch.stack([image[0] + image[1], image[0] + image[1], image[2]])
    text = F.normalize(text, dim=1)
    queue = torch.zeros(0, 4, dtype=torch.float64), torch.zeros(0, 4, dtype=torch.float64)
    cold = torch.tensor(0.01, dtype=torch.float64)
    shared = image_text_contrast((image, text), (image, text), queue, cold, same)
    alone = image_text_contrast((image, text), (image, text), queue, cold, EYE)
    torch.testing.assert_close(shared, alone)  # log 2 for the two rows either way ...
    uneven = F.normalize(text + torch.tensor([[0.5, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]]), dim=1)
    assert image_text_contrast((image, uneven), (image, uneven), queue, cold, same) > shared
    assert image_text_contrast((image, uneven), (image, uneven), queue, cold, EYE) < alone


def test_gradient_of_contrast() -> None:
    slow, queue = (units(3, 4, seed=2), units(3, 4, seed=3)), (units(5, 4, seed=4), units(5, 4, seed=5))
    inputs = units(3, 4, seed=0), units(3, 4, seed=1), torch.tensor(0.3, dtype=torch.float64)
    # the copy's share is a target, which must not move with the temperature: 0 here, where numbers can tell
    assert torch.autograd.gradcheck(
        lambda image, text, t: image_text_contrast((image, text), slow, queue, t, EYE),
        tuple(value.requires_grad_() for value in inputs),
    )


def test_no_gradient_through_the_copy() -> None:
    slow = units(3, 4, seed=2), units(3, 4, seed=3)
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    image, text = units(3, 4, seed=0), units(3, 4, seed=1)
    queue = units(5, 4, seed=4), units(5, 4, seed=5)
    grads = []
    for soft in (0.0, 1.0):
        loss = image_text_contrast((image, text), slow, queue, temperature, EYE, soft)
        grads.append(torch.autograd.grad(loss, temperature)[0].item())
    half = image_text_contrast((image, text), slow, queue, temperature, EYE, 0.5)
    assert torch.autograd.grad(half, temperature)[0].item() == pytest.approx(sum(grads) / 2)


# Matching ------------------------------------------------------------------------------------------------------------


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
    encoded, read = model.encode(grids), model.read(texts)
    right = model.score(model.fuse(read, texts, encoded))
    loss = image_text_match(model, encoded, texts, read, right, torch.zeros(3, 3, dtype=torch.float64), same)
    pairs = [(0, 0, 1), (1, 1, 1), (2, 2, 1), (0, 1, 0), (1, 2, 0), (2, 0, 0), (2, 0, 0), (0, 1, 0), (1, 2, 0)]
    total = 0.0
    for image, text, label in pairs:
        alone = Texts(texts.ids[text : text + 1], texts.mask[text : text + 1])
        logits = model.score(model.fuse(model.read(alone), alone, model.encode(grids[image : image + 1])))
        total += F.cross_entropy(logits, torch.tensor([label])).item() / len(pairs)
    assert loss.item() == pytest.approx(total)


def test_gradient_of_matching() -> None:
    model, (grids, texts) = tiny(), batch()

    def run(grids: Tensor, *parameters: Tensor) -> Tensor:
        torch.manual_seed(3)
        encoded, read = model.encode(grids), model.read(texts)
        right = model.score(model.fuse(read, texts, encoded))
        return image_text_match(model, encoded, texts, read, right, torch.zeros(3, 3, dtype=torch.float64), EYE)

    used = [p for name, p in model.named_parameters() if not name.startswith(("words", "share", "temperature"))]
    assert torch.autograd.gradcheck(run, (grids.requires_grad_(), *used), fast_mode=True)


# Masked words --------------------------------------------------------------------------------------------------------


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
    logits = model.guess_words(model.fuse(model.read(hidden), hidden, encoded))
    by_hand = -(logits[0, 1].log_softmax(-1)[5] + logits[2, 2].log_softmax(-1)[9]) / 2
    torch.testing.assert_close(masked_words(model, encoded, hidden, chosen, texts.ids), by_hand)
    believed = torch.randn(2, 30, dtype=torch.float64)
    told = -(believed.softmax(-1) * guess_hidden(model, encoded, hidden, chosen).log_softmax(-1)).sum(-1).mean()
    torch.testing.assert_close(
        masked_words(model, encoded, hidden, chosen, texts.ids, believed, 0.4), 0.6 * by_hand + 0.4 * told
    )
    assert masked_words(model, encoded, hidden, torch.zeros_like(chosen), texts.ids).item() == 0


def test_gradient_of_masked_words() -> None:
    model, (grids, texts) = tiny(), batch()
    chosen = torch.zeros_like(texts.mask)
    chosen[:, 1] = True
    hidden = replace(texts, ids=texts.ids.masked_fill(chosen, 3))

    def run(grids: Tensor, *parameters: Tensor) -> Tensor:
        return masked_words(model, model.encode(grids), hidden, chosen, texts.ids)

    used = [p for name, p in model.named_parameters() if not name.startswith(("match", "share", "temperature"))]
    assert torch.autograd.gradcheck(run, (grids.requires_grad_(), *used), fast_mode=True)


# Momentum ------------------------------------------------------------------------------------------------------------


def test_the_copy_follows_slowly_and_learns_nothing() -> None:
    model = tiny()
    momentum = Momentum(model, MomentumConfig(momentum=0.9, queue=4))
    before = model.match.weight.detach().clone()
    with torch.no_grad():
        model.match.weight += 1.0
    momentum.follow(model)
    torch.testing.assert_close(momentum.slow.match.weight, before + 0.1)
    assert not any(parameter.requires_grad for parameter in momentum.parameters())


def test_without_a_queue_nothing_is_remembered() -> None:
    momentum = Momentum(tiny(), MomentumConfig(queue=0))
    momentum.remember(units(3, 4, seed=1), units(3, 4, seed=2))
    assert momentum.images.shape == momentum.texts.shape == (0, 4)
    assert momentum.place.item() == 0


def test_the_queue_forgets_the_oldest_and_is_part_of_the_state() -> None:
    model = AlbefNet(SIZES)
    momentum = Momentum(model, MomentumConfig(queue=5))
    first = torch.arange(12.0).view(3, 4)
    momentum.remember(first, first + 100)
    momentum.remember(first + 50, first + 150)
    assert torch.equal(momentum.images[[3, 4, 0]], first + 50)
    assert torch.equal(momentum.images[[1, 2]], first[1:])
    assert torch.equal(momentum.texts[[3, 4, 0]], first + 150)
    assert momentum.place.item() == 1
    other = Momentum(model, MomentumConfig(queue=5))
    other.load_state_dict(momentum.state_dict())
    assert torch.equal(other.images, momentum.images)
    assert other.place.item() == 1
