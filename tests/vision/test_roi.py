"""RoI pooling against onnxruntime's RoiAlign."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

from deixis.vision.roi import roi_align, roi_mean


def reference(features: np.ndarray, boxes: np.ndarray, size: int, samples: int) -> np.ndarray:
    """onnxruntime's RoiAlign of one map ``[D, h, w]``."""
    node = helper.make_node(
        "RoiAlign",
        ["x", "rois", "batch"],
        ["y"],
        output_height=size,
        output_width=size,
        sampling_ratio=samples,
        spatial_scale=1.0,
        mode="avg",
        coordinate_transformation_mode="half_pixel",
    )
    graph = helper.make_graph(
        [node],
        "roi",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *features.shape]),
            helper.make_tensor_value_info("rois", TensorProto.FLOAT, [None, 4]),
            helper.make_tensor_value_info("batch", TensorProto.INT64, [None]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, features.shape[0], size, size])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    batch = np.zeros(len(boxes), dtype=np.int64)
    return session.run(None, {"x": features[None], "rois": boxes, "batch": batch})[0]


def make_boxes(rng: np.random.Generator, height: int, width: int, count: int) -> np.ndarray:
    """Boxes inside, on the border, across it, far outside, tiny, of no size, and the whole map."""
    first = rng.uniform(-0.2, 1.0, (count, 2)) * [width, height]
    extent = rng.uniform(0, 1.2, (count, 2)) ** 2 * [width, height]
    boxes = np.concatenate([first, first + extent], axis=1)
    special = [
        [0, 0, width, height],
        [0, 0, 1, 1],
        [width - 1, height - 1, width, height],
        [width / 2, height / 2, width / 2 + 1e-3, height / 2 + 1e-3],
        [width / 3, height / 3, width / 3, height / 3],
        [-3, -3, width + 3, height + 3],
        [width + 2, height + 2, width + 4, height + 4],
        [-9, 0, -5, height],
    ]
    return np.concatenate([boxes, special]).astype(np.float32)


@pytest.mark.parametrize(("height", "width"), [(14, 20), (7, 7), (1, 9), (1, 1)])
@pytest.mark.parametrize(("size", "samples"), [(1, 14), (7, 2), (3, 1)])
def test_roi_align_agrees_with_onnxruntime(height: int, width: int, size: int, samples: int) -> None:
    rng = np.random.default_rng(size * 100 + height)
    features = rng.normal(size=(5, height, width)).astype(np.float32)
    boxes = make_boxes(rng, height, width, 200)
    ours = roi_align(torch.from_numpy(features), torch.from_numpy(boxes), size, samples).numpy()
    np.testing.assert_allclose(ours, reference(features, boxes, size, samples), atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(14, 20), (5, 1)])
def test_roi_mean_is_roi_align_with_one_bin(height: int, width: int) -> None:
    rng = np.random.default_rng(height)
    features = rng.normal(size=(6, height, width)).astype(np.float32)
    boxes = make_boxes(rng, height, width, 200)
    ours = roi_mean(torch.from_numpy(features), torch.from_numpy(boxes), samples=14).numpy()
    np.testing.assert_allclose(ours, reference(features, boxes, 1, 14)[:, :, 0, 0], atol=1e-5)


def test_no_boxes_give_no_features() -> None:
    features = torch.rand(4, 3, 3)
    assert roi_mean(features, torch.zeros(0, 4)).shape == (0, 4)
    assert roi_align(features, torch.zeros(0, 4), 2).shape == (0, 4, 2, 2)
