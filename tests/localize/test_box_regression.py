"""Box regression on tensors: published numbers, and the formulas of deixis.boxes."""

from pathlib import Path

import numpy as np
import torch

from deixis import boxes as geometry
from deixis.localize.box_regression import apply_offsets, box_offsets, paired_iou

GOLDEN = Path(__file__).parents[1] / "golden" / "reir.npz"


def test_iou_and_offsets_agree_with_the_published_code() -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {name: torch.from_numpy(file[name]) for name in ("boxes", "score", "iou", "delta1", "apply_deltas")}
    boxes, best = golden["boxes"], golden["score"].argmax(1)
    torch.testing.assert_close(paired_iou(boxes[None], boxes[best][:, None]), golden["iou"], atol=1e-5, rtol=0)
    torch.testing.assert_close(apply_offsets(boxes, golden["delta1"][0]), golden["apply_deltas"], atol=1e-5, rtol=1e-6)


def test_formulas_are_those_of_numpy_boxes() -> None:
    random = np.random.default_rng(0)
    a, b = (np.concatenate([random.random((7, 2)) / 2, 0.5 + random.random((7, 2)) / 2], 1) for _ in range(2))
    scales = np.array([10, 10, 5, 5])
    np.testing.assert_allclose(box_offsets(torch.tensor(a), torch.tensor(b)), geometry.deltas(a, b) * scales)
    np.testing.assert_allclose(apply_offsets(torch.tensor(a), box_offsets(torch.tensor(a), torch.tensor(b))), b)
    np.testing.assert_allclose(paired_iou(torch.tensor(a)[:, None], torch.tensor(b)), geometry.iou(a, b))
    assert paired_iou(torch.zeros(4), torch.zeros(4)) == 0
    assert apply_offsets(torch.tensor([0.0, 0, 1, 1]), torch.full((4,), 1e9)).isfinite().all()


def test_gradient() -> None:
    boxes = torch.tensor([[0.1, 0.2, 0.5, 0.9], [0.0, 0.0, 0.3, 0.4]], dtype=torch.float64)
    offsets = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(lambda o: apply_offsets(boxes, o), offsets)
