"""ResNet from a weights file, against a direct NumPy computation, and as the map of imported features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import official_files as official
from deixis import cli
from deixis.errors import DeixisError
from deixis.vision.backbone import by_name
from deixis.vision.resnet import MEAN, STD, ResNet
from deixis.vision.store import FeatureStore

Arrays = dict[str, np.ndarray]


def weights(blocks: tuple[int, ...], width: int = 2, seed: int = 0) -> Arrays:
    """A narrow ResNet with torchvision's names."""
    rng = np.random.default_rng(seed)
    state: Arrays = {}

    def convolution(conv: str, norm: str, out: int, into: int, kernel: int) -> None:
        state[f"{conv}.weight"] = rng.normal(size=(out, into, kernel, kernel)) / np.sqrt(into * kernel**2)
        for part, low, high in (("weight", 0.5, 1.5), ("bias", -0.3, 0.3), ("running_mean", -0.2, 0.2)):
            state[f"{norm}.{part}"] = rng.uniform(low, high, out)
        state[f"{norm}.running_var"] = rng.uniform(0.5, 1.5, out)

    convolution("conv1", "bn1", width, 3, 7)
    into = width
    for stage, count in enumerate(blocks, start=1):
        planes = width * 2 ** (stage - 1)
        for i in range(count):
            name = f"layer{stage}.{i}"
            convolution(f"{name}.conv1", f"{name}.bn1", planes, into, 1)
            convolution(f"{name}.conv2", f"{name}.bn2", planes, planes, 3)
            convolution(f"{name}.conv3", f"{name}.bn3", 4 * planes, planes, 1)
            if i == 0:
                convolution(f"{name}.downsample.0", f"{name}.downsample.1", 4 * planes, into, 1)
            into = 4 * planes
    state["fc.weight"], state["fc.bias"] = np.zeros((10, into)), np.zeros(10)
    return {name: value.astype(np.float32) for name, value in state.items()}


def convolve(x: np.ndarray, state: Arrays, conv: str, norm: str, stride: int, padding: int) -> np.ndarray:
    """Convolution and batch norm of ``[C, H, W]``, one output cell at a time."""
    weight = state[f"{conv}.weight"].astype(np.float64)
    kernel = weight.shape[2]
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    rows, columns = ((n - kernel) // stride + 1 for n in x.shape[1:])
    out = np.zeros((len(weight), rows, columns))
    for r in range(rows):
        for c in range(columns):
            patch = x[:, r * stride : r * stride + kernel, c * stride : c * stride + kernel]
            out[:, r, c] = np.tensordot(weight, patch, 3)
    mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
    out = (out - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)
    return out * state[f"{norm}.weight"][:, None, None] + state[f"{norm}.bias"][:, None, None]


def pool(x: np.ndarray, caffe: bool) -> np.ndarray:
    padding = 0 if caffe else 1
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)), constant_values=-np.inf)
    size = x.shape[1] - 3
    cells = (-(-size // 2) if caffe else size // 2) + 1
    return np.stack(
        [[x[:, 2 * r : 2 * r + 3, 2 * c : 2 * c + 3].max((1, 2)) for c in range(cells)] for r in range(cells)]
    ).transpose(2, 0, 1)


def reference(pixels: np.ndarray, state: Arrays, blocks: tuple[int, ...], caffe: bool) -> np.ndarray:
    x = ((pixels / 255.0 - MEAN) / STD).transpose(2, 0, 1)
    x = pool(np.maximum(convolve(x, state, "conv1", "bn1", 2, 3), 0), caffe)
    for stage, count in enumerate(blocks, start=1):
        for i in range(count):
            name, stride = f"layer{stage}.{i}", 2 if stage > 1 and i == 0 else 1
            first, second = (stride, 1) if caffe else (1, stride)
            y = np.maximum(convolve(x, state, f"{name}.conv1", f"{name}.bn1", first, 0), 0)
            y = np.maximum(convolve(y, state, f"{name}.conv2", f"{name}.bn2", second, 1), 0)
            y = convolve(y, state, f"{name}.conv3", f"{name}.bn3", 1, 0)
            if i == 0:
                x = convolve(x, state, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0)
            x = np.maximum(x + y, 0)
    return x


@pytest.mark.parametrize("caffe", [False, True])
def test_against_numpy(caffe: bool) -> None:
    blocks = (1, 2, 1, 1)
    state = weights(blocks)
    pixels = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    network = ResNet({name: torch.from_numpy(value) for name, value in state.items()}, caffe, 64)
    found = network.feature_map(torch.from_numpy(pixels)[None])
    np.testing.assert_allclose(found.values[0].numpy(), reference(pixels, state, blocks, caffe), atol=1e-4)
    assert found.values.shape == (1, network.dim, 2, 2)


def saved(path: Path, blocks: tuple[int, ...] = (3, 4, 23, 3)) -> Path:
    torch.save({name: torch.from_numpy(value) for name, value in weights(blocks).items()}, path)
    return path


def test_a_file_is_read_and_described_by_content(tmp_path: Path) -> None:
    path = saved(tmp_path / "resnet101.pth")
    first = by_name(f"resnet101:{path}@64")
    other = path.rename(tmp_path / "moved.pth")
    assert by_name(f"resnet101:{other}@64").describe() == first.describe()
    assert by_name(f"resnet101-caffe:{other}@64").describe() != first.describe()
    assert str(tmp_path) not in str(first.describe())
    with pytest.raises(DeixisError, match="3, 4, 23 and 3 blocks"):
        by_name(f"resnet101:{saved(tmp_path / 'resnet50.pth', (3, 4, 6, 3))}")
    with pytest.raises(DeixisError, match=r"resnet101:FILE\.pth"):
        by_name("resnet101")


def test_the_map_of_imported_photographs(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    root = tmp_path / "gvd"
    official.gvd_flickr30k(root, weights=False)
    official.photographs(root / "images")
    path = saved(tmp_path / "resnet101.pth")
    options = ["--images", str(root / "images"), "--grid", "16", "--backbone", f"resnet101:{path}@64"]
    out = tmp_path / "store"
    assert cli.run(["features", "--from", str(root), "--layout", "gvd", "-o", str(out), *options]) == 0
    store = FeatureStore(out)
    found = store[str(official.IDS[0])]
    from deixis.images import load_image
    from deixis.vision.pixels import resized

    backbone = by_name(f"resnet101:{path}@64")
    pixels = resized(load_image(root / "images" / f"{official.IDS[0]}.jpg"), (64, 64))
    values = backbone.feature_map(torch.from_numpy(pixels)[None]).values[0]
    np.testing.assert_allclose(found.grid, values.permute(1, 2, 0).numpy(), rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(found.image_vector, values.mean((1, 2)).numpy(), rtol=1e-2, atol=1e-2)
    assert store.contents.description["map"]["weights_sha256"] == backbone.describe()["weights_sha256"]


def test_maps_of_training_images_are_larger(tmp_path: Path) -> None:
    """96 pixels in training, from which 64 are cropped, and 64 at test time: the sizes of GVD, 576 and 512, divided."""
    pytest.importorskip("h5py")
    root = tmp_path / "gvd"
    official.gvd_flickr30k(root, weights=False)
    official.photographs(root / "images")
    path = saved(tmp_path / "resnet101.pth")
    common = ["features", "--from", str(root), "--layout", "gvd", "--images", str(root / "images")]
    options = ["--grid", "2", "--training-grid", "3", "--backbone", f"resnet101:{path}@64"]
    assert cli.run([*common, *options, "-o", str(tmp_path / "store")]) == 0
    store = FeatureStore(tmp_path / "store")
    sides = {image_id: store[str(image_id)].grid.shape[:2] for image_id in official.IDS}
    assert [sides[i] for i in official.IDS] == [(3, 3) if split == "train" else (2, 2) for split in official.SPLITS]
    assert cli.run([*common, "--grid", "2", *options[4:], "-o", str(tmp_path / "other")]) == 0
    assert FeatureStore(tmp_path / "other").extractor == store.extractor  # a model takes both
    assert cli.run([*common, "--training-grid", "3", "--backbone", f"resnet101:{path}@64", "-o", "x"]) != 0
