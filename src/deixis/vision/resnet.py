"""ResNet-101 from a weights file of the user: the backbone of GVD's image map.

The file is a state dictionary with torchvision's names (``conv1.weight``, ``layer1.0.bn1.running_mean``, ...). Two
versions of the network have these names. torchvision's has the stride of a block in its 3 x 3 convolution. The version
of GVD, whose weights come from Caffe, has it in the first 1 x 1 convolution, and pools without padding. Photographs are
stretched to a square: 512 pixels in GVD at test time, which gives a map of 16 x 16 cells with 2,048 features.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.layers.checkpoint_file import read_checkpoint
from deixis.types import Json
from deixis.vision.feature_map import FeatureMap

BLOCKS = (3, 4, 23, 3)
"""Blocks of the four stages of ResNet-101."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 512

State = dict[str, Tensor]


class ResNet:
    """ResNet for inference, with batch norms folded into the convolutions."""

    def __init__(self, state: State, caffe: bool = False, side: int = SIDE, name: str = "resnet101") -> None:
        self.caffe, self.side = caffe, side
        self.name = f"{name}-caffe" if caffe else name
        self.weights_sha256 = _digest(state)
        self.stem = _Convolution(state, "conv1", "bn1", 2, 3)
        self.stages = nn.Sequential(
            *(
                _Bottleneck(state, f"layer{stage}.{i}", 2 if stage > 1 and i == 0 else 1, caffe)
                for stage, count in enumerate(_blocks(state), start=1)
                for i in range(count)
            )
        ).eval()
        self.dim = len(state[f"layer4.{_blocks(state)[3] - 1}.conv3.weight"])
        self.classes: tuple[str, ...] = ()

    def input_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the square that every photograph is stretched to."""
        return self.side, self.side

    @torch.inference_mode()
    def feature_map(self, pixels: Tensor) -> FeatureMap:
        """Compute the output of the last stage, ``[B, 2048, side / 32, side / 32]``."""
        device = self.stem.weight.device
        x = pixels.to(device).permute(0, 3, 1, 2).float().div_(255.0)
        x = x.sub_(torch.tensor(MEAN, device=device).view(1, 3, 1, 1)).div_(
            torch.tensor(STD, device=device).view(1, 3, 1, 1)
        )
        x = F.relu_(self.stem(x))
        x = F.max_pool2d(x, 3, 2, ceil_mode=True) if self.caffe else F.max_pool2d(x, 3, 2, padding=1)
        values: Tensor = self.stages(x)
        stride = pixels.shape[1] / values.shape[2]
        return FeatureMap(values, stride, (stride / 2, stride / 2))

    def classify(self, features: Tensor) -> Tensor:
        """Return no classes; the classifier of the file is not used."""
        return features.new_zeros(len(features), 0)

    def to(self, device: torch.device) -> None:
        """Move the weights."""
        self.stem.to(device)
        self.stages.to(device)

    def describe(self) -> Json:
        """Return name, input size and hash of the weights; the path of the file is not part of it."""
        supervision = "image labels of ImageNet, if the file is the published one"
        return {
            "name": self.name,
            "input": [self.side, self.side],
            "supervision": supervision,
            "weights_sha256": self.weights_sha256,
        }


def load_resnet(spec: str) -> ResNet:
    """Load ``resnet101:FILE`` or ``resnet101-caffe:FILE``; ``@256`` at the end sets the side of the square."""
    kind, _, rest = spec.partition(":")
    file, mark, side = rest.rpartition("@")
    if not mark or not side.isdecimal():
        file, side = rest, str(SIDE)
    if not file:
        raise DeixisError(f"the backbone {kind} needs its weights. Write {kind}:FILE.pth, with torchvision's names.")
    if not 64 <= int(side) <= 2048:
        raise DeixisError(f"the side {side} of {kind} must be 64 to 2048 pixels.")
    state = read_checkpoint(Path(file))
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise DeixisError(f"{file} is not a state dictionary of tensors. Save only the network's state_dict.")
    state = {str(name).removeprefix("module."): value.float() for name, value in state.items()}
    if _blocks(state) != BLOCKS:
        raise DeixisError(f"{file} is not a ResNet-101. Expected torchvision's names, with 3, 4, 23 and 3 blocks.")
    try:
        return ResNet(state, kind == "resnet101-caffe", int(side))
    except (KeyError, RuntimeError, IndexError) as error:
        raise DeixisError(f"{file} is not a ResNet-101 ({error}). Expected torchvision's names.") from None


class _Convolution(nn.Module):
    """Convolution with folded batch norm."""

    def __init__(self, state: State, conv: str, norm: str, stride: int, padding: int) -> None:
        super().__init__()
        scale = state[f"{norm}.weight"] / torch.sqrt(state[f"{norm}.running_var"] + 1e-5)
        self.weight = nn.Parameter(state[f"{conv}.weight"] * scale[:, None, None, None], requires_grad=False)
        self.bias = nn.Parameter(state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale, requires_grad=False)
        self.stride, self.padding = stride, padding

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)


class _Bottleneck(nn.Module):
    def __init__(self, state: State, name: str, stride: int, caffe: bool) -> None:
        super().__init__()
        first, second = (stride, 1) if caffe else (1, stride)
        self.first = _Convolution(state, f"{name}.conv1", f"{name}.bn1", first, 0)
        self.second = _Convolution(state, f"{name}.conv2", f"{name}.bn2", second, 1)
        self.third = _Convolution(state, f"{name}.conv3", f"{name}.bn3", 1, 0)
        self.shortcut: nn.Module = nn.Identity()
        if f"{name}.downsample.0.weight" in state:
            self.shortcut = _Convolution(state, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.third(F.relu_(self.second(F.relu_(self.first(x)))))
        return F.relu_(y + self.shortcut(x))


def _blocks(state: State) -> tuple[int, ...]:
    """Number of blocks of each stage."""
    return tuple(sum(f"layer{stage}.{i}.conv3.weight" in state for i in range(100)) for stage in (1, 2, 3, 4))


def _digest(state: State) -> str:
    digest = hashlib.sha256()
    for name in sorted(state):
        if not name.startswith("fc."):
            digest.update(name.encode() + state[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
