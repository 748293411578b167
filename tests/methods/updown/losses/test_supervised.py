"""Supervised attention and region classification: published numbers, by hand, and gradients."""

from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.methods.updown.losses.supervised import (
    attention_nll,
    grounding_nll,
    overlap_kl,
    region_classification,
    supervised_attention,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "cyclical.npz"


def test_supervised_attention_agrees_with_the_published_code() -> None:
    """The published code is for video: attention is counted within the frame that was annotated."""
    with np.load(GOLDEN, allow_pickle=False) as file:
        names = ("roi_attn", "frame_mask", "att2_target", "att2_loss")
        attention, frame_mask, target, expected = (torch.from_numpy(file[name]) for name in names)
    inside = attention.masked_fill(frame_mask.unsqueeze(1), 0)
    inside = inside / inside.sum(-1, keepdim=True)
    loss = attention_nll(inside[:, None, :, None], target.unsqueeze(1))
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=0)


def test_supervised_attention_by_hand() -> None:
    """Two branches, one word, two right regions: the mean of four negative logs."""
    attention = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]).view(1, 1, 1, 2, 3)
    positive = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    expected = -np.log([0.5, 0.25, 0.1, 0.8]).mean()
    assert attention_nll(attention, positive).item() == pytest.approx(expected, abs=1e-6)
    assert attention_nll(attention, ~positive & positive).item() == 0


def test_gradient_of_supervised_attention() -> None:
    torch.manual_seed(0)
    attention = torch.rand(2, 2, 3, 2, 4, dtype=torch.float64).softmax(-1).requires_grad_()
    positive = torch.rand(2, 2, 3, 4) < 0.4
    assert torch.autograd.gradcheck(lambda a: attention_nll(a, positive), attention)


CLASSES = torch.tensor([[0, -1, 2, -1], [-1, -1, -1, 1]])


def random_case(branches: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention [I, C, T, K, N], IoU [I, C, T, N], class logits [I, N, classes] and labels [I, C, T]."""
    torch.manual_seed(3)
    attention = torch.randn(2, 2, 3, branches, 4, dtype=torch.float64).softmax(-1)
    overlap = torch.rand(2, 2, 3, 4, dtype=torch.float64)
    overlap[0, 0, 1] = 0.1  # a word whose boxes no region covers
    logits = torch.randn(2, 4, 5, dtype=torch.float64)
    labels = torch.randint(0, 5, (2, 2, 3))
    labels[1, 1, 2] = -1
    return attention, overlap, logits, labels


def test_the_single_box_form_counts_the_best_region_of_each_word() -> None:
    attention, overlap, _, _ = random_case()
    a, o = attention.numpy(), overlap.numpy()
    logs = [-np.log(a[*at, k, o[at].argmax()]) for at in np.ndindex(2, 2, 3) if o[at].max() > 0.5 for k in range(2)]
    assert supervised_attention(attention, overlap, "best-nll").item() == pytest.approx(np.mean(logs), abs=1e-9)
    assert len(logs) < 2 * 2 * 3 * 2


def test_the_divergence_form_has_softened_overlaps_as_target() -> None:
    attention, overlap, _, _ = random_case()
    a, o = attention.numpy(), overlap.numpy()
    found = []
    for at in np.ndindex(2, 2, 3):
        if o[at].max() > 0.5:
            target = np.exp(o[at] / 0.5) / np.exp(o[at] / 0.5).sum()
            found += [(target * np.log(target / a[*at, k])).sum() for k in range(2)]
    assert supervised_attention(attention, overlap, "kl").item() == pytest.approx(np.mean(found), abs=1e-9)
    assert overlap_kl(attention, overlap * 0).item() == 0


def test_the_usual_form_counts_all_positive_regions() -> None:
    attention, overlap, _, _ = random_case()
    a, o = attention.numpy(), overlap.numpy()
    logs = [-np.log(a[*at[:3], k, at[3]]) for at in np.ndindex(2, 2, 3, 4) if o[at] > 0.5 for k in range(2)]
    assert supervised_attention(attention, overlap, "nll").item() == pytest.approx(np.mean(logs), abs=1e-9)


def test_the_grounding_loss_adds_the_class_of_the_word_to_the_attention() -> None:
    attention, overlap, logits, labels = random_case()
    a, o, z, y = attention.numpy(), overlap.numpy(), logits.numpy(), labels.numpy()
    logs = []
    for i, c, t, k in np.ndindex(2, 2, 3, 2):
        if y[i, c, t] < 0:
            continue
        energy = z[i, :, y[i, c, t]] + np.log(a[i, c, t, k])
        logprobs = energy - np.log(np.exp(energy).sum())
        logs += [-logprobs[n] for n in range(4) if o[i, c, t, n] > 0.5]
    assert grounding_nll(attention, logits, labels, overlap).item() == pytest.approx(np.mean(logs), abs=1e-9)
    assert grounding_nll(attention, logits, labels, overlap * 0).item() == 0


def test_region_classification_counts_only_known_regions() -> None:
    logits = torch.randn(2, 4, 3, dtype=torch.float64)
    z = logits.numpy()
    expected = [
        -(z[i, n, c] - np.log(np.exp(z[i, n]).sum())) for (i, n), c in np.ndenumerate(CLASSES.numpy()) if c >= 0
    ]
    assert region_classification(logits, CLASSES).item() == pytest.approx(np.mean(expected), abs=1e-9)
    assert region_classification(logits, torch.full((2, 4), -1)).item() == 0


def test_gradients_of_all_terms() -> None:
    attention, overlap, logits, labels = (random_case()[0].requires_grad_(), *random_case()[1:])
    logits.requires_grad_()
    for form in ("nll", "best-nll", "kl"):
        assert torch.autograd.gradcheck(lambda a, form=form: supervised_attention(a, overlap, form), attention)
    assert torch.autograd.gradcheck(lambda a, z: grounding_nll(a, z, labels, overlap), (attention, logits))
    assert torch.autograd.gradcheck(
        lambda z: region_classification(z, CLASSES), logits[..., :3].detach().requires_grad_()
    )
