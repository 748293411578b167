"""Distillation against the published code's numbers, by hand, and for several branches."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.methods.updown.losses.distillation import DistilConfig, attention_kl, distil
from deixis.methods.updown.network import Decoder, DecoderConfig

GOLDEN = Path(__file__).parents[3] / "golden" / "updown_training.npz"
NOUN = torch.ones(1, 1, 1).bool()


def looks(*rows: list[float]) -> Tensor:
    """One word's attention ``[1, 1, 1, K, N]``, a row for each branch."""
    return torch.tensor(rows, dtype=torch.float64).view(1, 1, 1, len(rows), -1)


@pytest.mark.parametrize(("measure", "key"), [("kl", "distill_kl"), ("nll", "distill_nll")])
def test_it_agrees_with_the_published_code(measure: str, key: str) -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {name: torch.from_numpy(file[name]) for name in file.files}
    attention, teacher = golden["att_weights"][:, None, :, None], golden["distill_target"].unsqueeze(1)
    loss = distil(
        attention, teacher, golden["distill_mask"].bool().unsqueeze(1), DistilConfig(weight=0.5, measure=measure)
    )
    torch.testing.assert_close(loss, 0.5 * golden[key], atol=1e-5, rtol=0)


def test_kl_by_hand() -> None:
    teacher, student = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.25, 0.75, 0.0]])
    there = torch.ones(1).bool()
    expected = 0.5 * np.log(2) + 0.5 * np.log(2 / 3)
    assert attention_kl(teacher, student, there).item() == pytest.approx(expected, abs=1e-6)
    assert attention_kl(teacher, teacher, there).item() == pytest.approx(0, abs=1e-6)


def test_the_way_round_can_be_the_equations() -> None:
    student, teacher = [0.25, 0.75], [0.5, 0.5]
    loss = distil(looks(student), looks(teacher)[:, :, :, 0], NOUN, DistilConfig(weight=1.0, measure="reverse-kl"))
    assert loss.item() == pytest.approx(0.25 * np.log(0.5) + 0.75 * np.log(1.5), abs=1e-6)


def test_branches_together_or_each() -> None:
    """Two branches that look at one half each are right together, and each of them is wrong."""
    attention, teacher = looks([0.9, 0.1], [0.1, 0.9]), looks([0.5, 0.5])[:, :, :, 0]
    together = distil(attention, teacher, NOUN, DistilConfig(weight=1.0, branches="mean"))
    each = distil(attention, teacher, NOUN, DistilConfig(weight=1.0, branches="each"))
    assert together.item() == pytest.approx(0, abs=1e-6)
    assert each.item() == pytest.approx(0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1), abs=1e-6)


def test_a_region_that_is_out_of_reach_does_not_count() -> None:
    """The second branch may not look at the first region; the teacher gives the other two 1/4 and 3/4 of the rest."""
    teacher = looks([0.6, 0.1, 0.3])[:, :, :, 0]
    right = distil(looks([0.6, 0.1, 0.3], [0.0, 0.25, 0.75]), teacher, NOUN, DistilConfig(weight=1.0, branches="each"))
    wrong = distil(looks([0.6, 0.1, 0.3], [0.0, 0.5, 0.5]), teacher, NOUN, DistilConfig(weight=1.0, branches="each"))
    assert right.item() == pytest.approx(0, abs=1e-6)
    assert wrong.item() == pytest.approx((0.25 * np.log(0.5) + 0.75 * np.log(1.5)) / 2, abs=1e-6)


@pytest.mark.parametrize("measure", ["kl", "reverse-kl", "nll"])
def test_only_nouns_count_and_none_is_nothing(measure: str) -> None:
    torch.manual_seed(0)
    attention = torch.rand(2, 3, 4, 1, 5).softmax(-1).requires_grad_()
    teacher = torch.rand(2, 3, 4, 5).softmax(-1)
    nouns = torch.rand(2, 3, 4) > 0.5
    config = DistilConfig(weight=1.0, measure=measure)
    distil(attention, teacher, nouns, config).backward()
    assert attention.grad is not None
    assert torch.equal(attention.grad.abs().sum((3, 4)) > 0, nouns)
    assert distil(attention, teacher, torch.zeros_like(nouns), config).item() == 0


@pytest.mark.parametrize("branches", ["mean", "each"])
@pytest.mark.parametrize("measure", ["kl", "reverse-kl", "nll"])
def test_gradients_are_right(branches: str, measure: str) -> None:
    """Through the attention of a decoder of two branches, one of which is not let near the other's region."""
    torch.manual_seed(0)
    sizes = {"vocabulary": 9, "features": 5, "words": 4, "hidden": 6, "attention": 4, "dropout": 0.0}
    decoder = Decoder(DecoderConfig(**sizes, branches=2)).double()
    features = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    words = torch.randint(0, 9, (2, 2, 3))
    teacher = torch.randn(2, 2, 3, 4, dtype=torch.float64).masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
    nouns = torch.tensor([[[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 0, 0]]]).bool()

    def run(features: Tensor, *parameters: Tensor) -> Tensor:
        attention = decoder(decoder.encode(features, mask), words).attention
        return distil(attention, teacher, nouns, DistilConfig(weight=1.0, branches=branches, measure=measure))

    used = [p for name, p in decoder.named_parameters() if not name.startswith("output")]
    assert torch.autograd.gradcheck(run, (features, *used), fast_mode=True)


def test_in_a_clip_it_counts_within_each_frame() -> None:
    """Frame 0 has regions 0 and 1, frame 1 region 2 and 3. The mass of a frame is the captioner's own."""
    frames = torch.tensor([[0, 0, 1, 1]])
    teacher = looks([0.1, 0.1, 0.6, 0.2])[:, :, :, 0]  # shares .5, .5 and .75, .25
    student = looks([0.72, 0.08, 0.1, 0.1])  # shares .9, .1 and .5, .5
    by_frame = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1), 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    loss = distil(student, teacher, NOUN, DistilConfig(weight=1.0), frames)
    assert loss.item() == pytest.approx(sum(by_frame) / 2, abs=1e-6)
    # the teacher's shares with other masses of the frames: no loss
    same = looks([0.45, 0.45, 0.075, 0.025])
    assert distil(same, teacher, NOUN, DistilConfig(weight=1.0), frames).item() == pytest.approx(0, abs=1e-6)
    # one best region in every frame: -(log .9 + log .5) / 2
    first = looks([0.2, 0.1, 0.5, 0.2])[:, :, :, 0]
    best = distil(student, first, NOUN, DistilConfig(weight=1.0, measure="nll"), frames)
    assert best.item() == pytest.approx(-(np.log(0.9) + np.log(0.5)) / 2, abs=1e-6)
