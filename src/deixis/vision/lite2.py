"""EfficientNet-lite2 in 8 bits with ONNX Runtime: grids of three strides, and ImageNet classes. No torch.

``tools/export_backbone.py`` made the two weights files of this package from the network of
:mod:`deixis.vision.backbone`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load

from deixis.layers.arrays import linear, softmax
from deixis.types import ByteGrid, Json
from deixis.vision.classes import imagenet_classes
from deixis.vision.networks import OnnxNetwork, read_compressed
from deixis.vision.pixels import Picture, resized, same_shape, scaled

NAME = "efficientnet-lite2-int8"
NETWORK, NETWORK_SHA256 = "lite2-int8.onnx.z", "dcad919a3d89a1e9644434853cc1871b7d104e63b301a8c77e2ae62a54d0aad3"
DESCRIBED_SHA256 = "e8ae0e0efc1294bdd66c452b94254a7a011f3b41c5c80a23415fc69ae61cbb8d"
"""Of the same network in the format (xz) in which descriptions know it; that took ten times as long to decompress."""
CLASSIFIER, CLASSIFIER_SHA256 = (
    "lite2-classifier.safetensors.xz",
    "cf8ee98926bc8e8c06ed2e6cacd6b146b5c880dc8a99d0855f3413caf86e6e76",
)
LONG_SIDE = 576
GRIDS = ("grid8", "grid16", "grid32")

DESCRIPTION: Json = {
    "name": NAME,
    "long_side": LONG_SIDE,
    "strides": [8, 16, 32],
    "supervision": "classes: ImageNet-1k",
    "weights_sha256": DESCRIBED_SHA256,
    "classifier_sha256": CLASSIFIER_SHA256,
}


@dataclass(frozen=True, eq=False)
class Maps:
    """Output of the network for one image."""

    grids: tuple[ByteGrid, ...]  # in the order of GRIDS
    head: ByteGrid  # head convolution; its mean in a box is the input of the classifier


class Lite2:
    """The network and its classifier; ``dim`` is the sum of the depths of the grids."""

    classes = imagenet_classes()

    def __init__(self) -> None:
        self._network, self._weight, self._bias = _weights()
        self._scales = {name: json.loads(self._network.metadata[name]) for name in self._network.outputs}

    def maps(self, images: Sequence[Picture]) -> list[Maps]:
        """Compute the grids of RGB images; those of one input size pass the network together."""
        sizes = [input_size(*np.asarray(image).shape[1::-1]) for image in images]
        found: dict[int, Maps] = {}
        for rows in same_shape(sizes):
            outputs = self._network.run(np.concatenate([as_input(resized(images[row], sizes[row])) for row in rows]))
            for place, row in enumerate(rows):
                grids = {
                    name: ByteGrid(np.ascontiguousarray(values[place].transpose(1, 2, 0)), *self._scales[name])
                    for name, values in zip(self._network.outputs, outputs, strict=True)
                }
                found[row] = Maps(tuple(grids[name] for name in GRIDS), grids["head"])
        return [found[row] for row in range(len(images))]

    def classify(self, means: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """ImageNet probabilities ``[N, 1000]`` of means ``[N, 1280]`` of the head."""
        return softmax(linear(means.astype(np.float32), self._weight, self._bias))

    def classify_image(self, image: Picture, side: int) -> npt.NDArray[np.floating]:
        """ImageNet probabilities ``[1000]`` of a photograph, stretched to a square of about ``side`` pixels."""
        length = max(32, round(side / 32) * 32) + 1
        outputs = self._network.run(as_input(resized(image, (length, length))))
        scale, zero = self._scales["head"]
        mean = outputs[self._network.outputs.index("head")].mean((2, 3), dtype=np.float32)
        return self.classify(scale * (mean - zero))[0]


def input_size(width: int, height: int) -> tuple[int, int]:
    """Scale the long side to ``LONG_SIDE`` and keep the aspect ratio; each side is a multiple of 32 plus one.

    With such sizes the padding is even in every layer, and the outer cells are centred on the outer pixels.
    """
    across, down = scaled(width, height, LONG_SIDE, multiple=32)
    return across + 1, down + 1


def as_input(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Convert an RGB image ``[H, W, 3]`` to the input ``[1, 3, H, W]`` of the network: (x - 127) / 128."""
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32)
    planes -= 127
    planes /= 128
    return planes


@cache
def _weights() -> tuple[OnnxNetwork, npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the network, and weight and bias of the classifier; read once in a process."""
    tensors = load(read_compressed(CLASSIFIER, CLASSIFIER_SHA256))
    weight = tensors["weight"].astype(np.float32) * tensors["scale"][:, None]
    return OnnxNetwork(read_compressed(NETWORK, NETWORK_SHA256)), weight, tensors["bias"]
