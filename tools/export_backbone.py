"""Export EfficientNet-lite2 to the files of the package: a quantised ONNX network and its classifier.

    python tools/export_backbone.py path/to/flickr30k-entities src/deixis/vision

The network has weights in 8 bits (one scale per channel) and activations in 8 bits, calibrated on 40 training
photographs. Its outputs are the uint8 grids at strides 8, 16 and 32 and the output of the head convolution. The
metadata has the scale and the zero point of each output. The classifier has weights in 4 bits.
Needs the packages onnx and torch, which the exported network does not need.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from safetensors.numpy import save
from torch import nn

from deixis import data
from deixis.images import load_image
from deixis.vision.backbone import EfficientNetLite
from deixis.vision.lite2 import CLASSIFIER, GRIDS, LONG_SIDE, NETWORK, as_input, input_size
from deixis.vision.pixels import resized

PHOTOGRAPHS = 40
BLOCKS = {"grid8": 6, "grid16": 14, "grid32": 20}
"""Last block of each stride."""


def main() -> None:
    """Write the two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a data set; its training photographs calibrate the network")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    backbone = EfficientNetLite(LONG_SIDE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(float_network(backbone), folder / "float.onnx")
        quant_pre_process(folder / "float.onnx", folder / "prepared.onnx")
        quantize_static(
            folder / "prepared.onnx",
            folder / "int8.onnx",
            Photographs(options.data),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            extra_options={"QuantizeBias": False},
        )
        network = expose_integers(onnx.load(folder / "int8.onnx"))
    write(options.out / NETWORK, network.SerializeToString())
    write(options.out / CLASSIFIER, classifier(backbone))


def float_network(backbone: EfficientNetLite) -> onnx.ModelProto:
    """Return the network in single precision; inputs have sides of a multiple of 32 plus one, so padding is even."""
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(np.float32(value), name) for value, name in ((0, "zero"), (6, "six"))]

    def convolve(layer: nn.Module, name: str, source: str) -> str:
        weights.append(numpy_helper.from_array(layer.weight.numpy(), f"{name}.weight"))
        weights.append(numpy_helper.from_array(layer.bias.numpy(), f"{name}.bias"))
        shape = {"kernel_shape": [layer.kernel] * 2, "strides": [layer.stride] * 2, "group": layer.groups}
        inputs = [source, f"{name}.weight", f"{name}.bias"]
        nodes.append(helper.make_node("Conv", inputs, [name], name, pads=[(layer.kernel - 1) // 2] * 4, **shape))
        if layer.linear:
            return name
        nodes.append(helper.make_node("Clip", [name, "zero", "six"], [f"{name}.relu"], f"{name}.relu"))
        return f"{name}.relu"

    stem, *blocks, head = backbone.network.layers
    x, ends = convolve(stem, "stem", "image"), []
    for number, block in enumerate(blocks):
        expanded = x if isinstance(block.expand, nn.Identity) else convolve(block.expand, f"{number}.expand", x)
        y = convolve(block.project, f"{number}.project", convolve(block.filter, f"{number}.filter", expanded))
        if block.residual:
            nodes.append(helper.make_node("Add", [y, x], [f"{number}.sum"], f"{number}.sum"))
            y = f"{number}.sum"
        x = y
        ends.append((x, block.project.weight.shape[0]))
    outputs = {name: ends[block] for name, block in BLOCKS.items()}
    outputs["head"] = convolve(head, "last", x), head.weight.shape[0]
    nodes += [helper.make_node("Identity", [source], [name], name) for name, (source, _) in outputs.items()]
    described = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", depth, f"{name} h", f"{name} w"])
        for name, (_, depth) in outputs.items()
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, "h", "w"])
    graph = helper.make_graph(nodes, "efficientnet-lite2", [image], described, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model


class Photographs(CalibrationDataReader):
    """Training photographs for the calibration, taken evenly from the split."""

    def __init__(self, root: Path) -> None:
        samples = data.load(root, "train")
        self.samples = iter(samples[:: len(samples) // PHOTOGRAPHS][:PHOTOGRAPHS])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next input of the network."""
        sample = next(self.samples, None)
        if sample is None:
            return None
        image = load_image(sample.path)
        return {"image": as_input(resized(image, input_size(*image.size)))}


def expose_integers(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace the outputs by their uint8 values; scale and zero point become metadata."""
    graph = model.graph
    producer = {output: node for node in graph.node for output in node.output}
    values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    for output in graph.output:
        chain = list(_to_quantised(producer, output.name))
        for node in chain[:-1]:
            if not any(other is not node and set(node.output) & set(other.input) for other in graph.node):
                graph.node.remove(node)
        scale, zero = (values[name] for name in chain[-1].input[1:])
        model.metadata_props.add(key=output.name, value=json.dumps([float(scale), int(zero)]))
        graph.node.append(helper.make_node("Identity", [chain[-1].output[0]], [output.name], output.name))
        output.type.tensor_type.elem_type = TensorProto.UINT8
    onnx.checker.check_model(model)
    return model


def _to_quantised(producer: dict[str, onnx.NodeProto], name: str) -> Iterator[onnx.NodeProto]:
    """Yield the nodes from an output back to the QuantizeLinear node of its values."""
    node = producer[name]
    while node.op_type != "QuantizeLinear":
        yield node
        node = producer[node.input[0]]
    yield node


def classifier(backbone: EfficientNetLite) -> bytes:
    """Return the classifier with weights from -7 to 7 and one scale per class."""
    weight, bias = (each.numpy() for each in backbone.classifier)
    scale = np.abs(weight).max(1) / 7
    rounded = np.ascontiguousarray(np.round(weight / scale[:, None]), dtype=np.int8)
    return save({"weight": rounded, "scale": scale.astype(np.float32), "bias": bias.astype(np.float32)})


def write(path: Path, content: bytes) -> None:
    """Write a compressed file and print its size."""
    path.write_bytes(zlib.compress(content, 9) if path.suffix == ".z" else lzma.compress(content, preset=9))
    print(f"{path}: {path.stat().st_size:,} bytes")


assert set(GRIDS) == set(BLOCKS)

if __name__ == "__main__":
    main()
