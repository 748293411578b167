"""Proposals of detectors of transformers (DETR family, OWL, Grounding DINO) and torchvision, if installed.

Weights are read from disk: nothing is downloaded or unpickled. Images are preprocessed here, because the image
processors of transformers need torchvision.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.coco import CLASSES
from deixis.errors import DeixisError
from deixis.files import open_regular, read_settings, require_regular
from deixis.vision.pixels import same_shape
from deixis.vision.proposals.base import Found, Image, Proposals, finish

OVERLAP = 0.7  # IoU of non-maximum suppression; OWL finds many boxes for each object
TOP = 5  # classes kept for each box
OPEN_VOCABULARY = (
    "owlvit",
    "owlv2",
    "grounding-dino",
    "mm-grounding-dino",
)  # open-vocabulary detectors, which need phrases


@dataclass(frozen=True)
class TransformersDetector:
    """Object detector of transformers in a folder of ``save_pretrained``.

    OWL and Grounding DINO detect the phrases in ``text``; the DETR family has fixed classes.
    """

    folder: Path
    text: tuple[str, ...] = ()
    limit: int = 100
    device: str = "cpu"

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Propose at most ``limit`` boxes with their classes or phrases, the whole image first."""
        return self.propose_batch([image])[0]

    def propose_batch(self, images: Sequence[Image]) -> list[Proposals]:
        """Propose boxes of several images; those of one input size pass the network together."""
        found = []
        for image, answer in zip(images, _run_transformers(self, images), strict=True):
            shares, probs, classes = answer
            height, width = image.shape[:2]
            boxes = geometry.from_normalised(shares, width, height)
            found.append(finish(_suppressed(boxes, probs, classes), image, self.limit))
        return found

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON, with the checksum of the weights."""
        return {
            "name": ":".join(["transformers", str(self.folder), *([",".join(self.text)] if self.text else [])]),
            "supervision": f"boxes: whatever taught {self.folder.name}",
            "limit": self.limit,
            "overlap": OVERLAP,
            "sha256": _checksum(*sorted(self.folder.glob("*.safetensors"))),
        }


@dataclass(frozen=True)
class TorchvisionDetector:
    """Detector of torchvision by function name, such as fasterrcnn_resnet50_fpn, with COCO classes.

    ``weights`` is its published state dict, as ``.pth`` or ``.safetensors``.
    """

    model: str
    weights: Path
    limit: int = 100

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Propose at most ``limit`` boxes with their COCO classes, the whole image first."""
        import torch

        network = _torchvision_model(self.model, self.weights, self.limit)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        with torch.inference_mode():
            [answer] = network([pixels])
        boxes, scores = answer["boxes"].numpy(), answer["scores"].numpy()
        ids = answer["labels"].numpy()[:, None] - 1
        order = np.argsort(-scores, kind="stable")
        found = Found(boxes[order], scores[order], CLASSES, ids[order], scores[order, None])
        return finish(found, image, self.limit)

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON, with the checksum of the weights."""
        return {
            "name": f"torchvision:{self.model}:{self.weights}",
            "supervision": f"boxes: COCO (torchvision {self.model})",
            "limit": self.limit,
            "sha256": _checksum(self.weights),
        }


Answer = tuple[npt.NDArray[np.floating], npt.NDArray[np.floating], tuple[str, ...]]
"""Normalised boxes ``[Q, 4]``, probabilities ``[Q, C]``, and the names of the C classes."""


def _suppressed(boxes: npt.NDArray[np.floating], probs: npt.NDArray[np.floating], classes: tuple[str, ...]) -> Found:
    scores = probs.max(axis=1)
    kept = geometry.nms(boxes, scores, OVERLAP)
    best = np.argsort(-probs[kept], axis=1, kind="stable")[:, :TOP]
    return Found(boxes[kept], scores[kept], classes, best, np.take_along_axis(probs[kept], best, axis=1))


@functools.lru_cache(maxsize=4)
def _checksum(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        if not path.is_file():
            raise DeixisError(f"{path} does not exist. Check the path.")
        with open_regular(path) as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


# transformers -----------------------------------------------------------------------------------------------------


def _run_transformers(detector: TransformersDetector, images: Sequence[Image]) -> list[Answer]:
    import torch

    model = _transformers_model(detector.folder, detector.device)
    kind, text = str(model.config.model_type), detector.text
    if (kind in OPEN_VOCABULARY) != bool(text):
        need = "needs phrases: transformers:FOLDER:a dog,a red ball" if kind in OPEN_VOCABULARY else "takes no phrases"
        raise DeixisError(f"the detector in {detector.folder} ({kind}) {need}.")
    settings = _processor(detector.folder)
    inputs = [_pixels(settings, image, square=kind == "owlv2") for image in images]
    answers: dict[int, Answer] = {}
    for rows in same_shape([pixels.shape for pixels, _ in inputs]):
        batch = torch.from_numpy(np.stack([inputs[row][0] for row in rows])).to(detector.device)
        outputs = _run(model, detector, batch)
        for place, row in enumerate(rows):
            shares = _corners(outputs.pred_boxes[place], inputs[row][1])
            answers[row] = shares, *_probabilities(model, detector, outputs.logits[place])
    return [answers[row] for row in range(len(images))]


def _run(model: Any, detector: TransformersDetector, pixels: Any) -> Any:
    """Boxes and logits of images ``[B, 3, h, w]``, on the CPU."""
    import torch

    kind, inputs = str(model.config.model_type), {"pixel_values": pixels}
    if kind in OPEN_VOCABULARY:
        tokens = dict(_tokens(detector.folder, detector.text, kind, model))
        # OWL takes all phrases of an image one below the other, Grounding DINO one sentence for each image
        inputs |= {name: each.repeat(len(pixels), 1).to(detector.device) for name, each in tokens.items()}
    with torch.inference_mode():
        outputs = model(**inputs)
    outputs.pred_boxes, outputs.logits = outputs.pred_boxes.cpu(), outputs.logits.cpu()
    return outputs


def _tokens(folder: Path, text: tuple[str, ...], kind: str, model: Any) -> Mapping[str, Any]:
    tokenizer = _tokenizer(folder)
    if kind.startswith("owl"):
        length = model.config.text_config.max_position_embeddings
        return tokenizer(list(text), padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    # Grounding DINO takes all phrases as one sentence, each followed by a full stop, and scores its tokens.
    if any("." in phrase for phrase in text):
        raise DeixisError("a phrase for Grounding DINO must not contain a full stop. Remove it.")
    return tokenizer(" . ".join(phrase.lower() for phrase in text) + " .", return_tensors="pt")


def _probabilities(
    model: Any, detector: TransformersDetector, logits: Any
) -> tuple[npt.NDArray[np.floating], tuple[str, ...]]:
    """Probabilities ``[Q, C]`` of one image, and the names of the C classes."""
    kind = str(model.config.model_type)
    if kind not in OPEN_VOCABULARY:
        own = model.config.id2label
        classes = tuple(str(own[index]) for index in range(len(own)))
        # DETR and YOLOS have a softmax with a last class for "no object"; later models have neither.
        probs = logits.softmax(-1)[:, :-1] if logits.shape[-1] == len(classes) + 1 else logits.sigmoid()
        return probs.numpy(), classes
    scores = logits.sigmoid().numpy()
    if kind.startswith("owl"):
        return scores, detector.text
    ids = _tokens(detector.folder, detector.text, kind, model)["input_ids"][0].numpy()
    stops = np.flatnonzero(ids == _tokenizer(detector.folder).convert_tokens_to_ids("."))
    starts = np.concatenate([[1], stops[:-1] + 1])  # the first token marks the start
    return np.stack([scores[:, a:b].max(axis=1) for a, b in zip(starts, stops, strict=True)], axis=1), detector.text


def _corners(boxes: Any, frame: tuple[float, float]) -> npt.NDArray[np.float64]:
    """Convert normalised centre, width and height in the network's input to normalised corners in the image."""
    centre, size = boxes.double().numpy()[:, :2], boxes.double().numpy()[:, 2:]
    return np.concatenate([centre - size / 2, centre + size / 2], axis=1) * np.tile(frame, 2)


def _pixels(settings: Mapping[str, Any], image: Image, square: bool) -> tuple[npt.NDArray[np.float32], Any]:
    """Return the network's input ``[3, h, w]``, and its width and height relative to the image."""
    from PIL import Image as Pictures

    frame = np.ones(2)
    if square:  # OWLv2 pads the image to a grey square at the right and bottom
        height, width = image.shape[:2]
        side = max(height, width)
        canvas = np.full((side, side, 3), 127, dtype=np.uint8)
        canvas[:height, :width] = image
        image, frame = canvas, np.array([side / width, side / height])
    picture = Pictures.fromarray(image)
    if settings.get("do_resize", True):
        resample = Pictures.Resampling(settings.get("resample", Pictures.Resampling.BILINEAR))
        picture = picture.resize(_new_size(settings, picture.size), resample)
    pixels = np.asarray(picture, dtype=np.float32)
    if settings.get("do_rescale", True):
        pixels = pixels * np.float32(settings.get("rescale_factor", 1 / 255))
    if settings.get("do_normalize", True):
        pixels = (pixels - np.float32(settings["image_mean"])) / np.float32(settings["image_std"])
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)), frame


def _new_size(settings: Mapping[str, Any], size: tuple[int, int]) -> tuple[int, int]:
    wanted = settings["size"]
    if isinstance(wanted, int):  # format of early DETR checkpoints
        wanted = {"shortest_edge": wanted, "longest_edge": settings.get("max_size")}
    if "height" in wanted:
        return int(wanted["width"]), int(wanted["height"])
    scale = wanted["shortest_edge"] / min(size)
    if wanted.get("longest_edge"):
        scale = min(scale, wanted["longest_edge"] / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


@functools.lru_cache(maxsize=1)
def _transformers_model(folder: Path, device: str = "cpu") -> Any:
    transformers = _transformers()
    if not (folder / "config.json").is_file():
        raise DeixisError(f"{folder} has no config.json. Give a folder of save_pretrained.")
    try:
        kind = transformers.AutoConfig.from_pretrained(folder, local_files_only=True).model_type
        auto = "AutoModelForZeroShotObjectDetection" if kind in OPEN_VOCABULARY else "AutoModelForObjectDetection"
        load = getattr(transformers, auto).from_pretrained
        return load(folder, local_files_only=True, use_safetensors=True).eval().to(device)
    except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise DeixisError(
            f"the detector in {folder} cannot be loaded ({error}). Save it again with save_pretrained."
        ) from None


@functools.lru_cache(maxsize=1)
def _tokenizer(folder: Path) -> Any:
    try:
        return _transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise DeixisError(f"{folder} has no usable tokenizer ({error}). Save the tokenizer in this folder.") from None


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise DeixisError("transformers is not installed. Install it: pip install 'deixis[transformers]'") from None
    library: Any = transformers
    library.utils.logging.disable_progress_bar()  # it is drawn even if stderr is a file
    return library


@functools.lru_cache(maxsize=1)
def _processor(folder: Path) -> Mapping[str, Any]:
    """Read the preprocessing of the model: size, mean and standard deviation."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = folder / name
        if path.is_file():
            try:
                settings = read_settings(path)
                settings = settings.get("image_processor", settings)
                _new_size(settings, (100, 100))
                if settings.get("do_normalize", True):
                    np.float32(settings["image_mean"]), np.float32(settings["image_std"])
                return settings
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DeixisError(
                    f"{path} has no usable preprocessing settings ({error!r}). Save the image processor again."
                ) from None
    raise DeixisError(f"{folder} has no preprocessor_config.json. Save the image processor in this folder.")


# torchvision ------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _torchvision_model(name: str, weights: Path, limit: int) -> Any:
    try:
        from torchvision.models import detection
    except (ImportError, OSError, RuntimeError) as error:  # a build for another torch fails at import
        raise DeixisError(
            f"torchvision cannot be imported ({error}). "
            "Install a torchvision for the installed torch, from the same source."
        ) from None
    build = getattr(detection, name, None)
    if not callable(build) or name.startswith("_"):
        raise DeixisError(
            f"torchvision has no detector '{name}'. Give the name of a function such as fasterrcnn_resnet50_fpn."
        )
    network = build(weights=None, weights_backbone=None)
    try:
        network.load_state_dict(_state(weights))
    except RuntimeError as error:
        raise DeixisError(f"{weights} does not fit torchvision's {name} ({str(error).splitlines()[0]}).") from None
    # Proposals include boxes with low scores. Two-stage detectors have these settings in their heads.
    head = getattr(network, "roi_heads", network)
    head.score_thresh, head.detections_per_img = 0.0, limit
    return network.eval()


def _state(path: Path) -> Any:
    if not path.is_file():
        raise DeixisError(f"{path} does not exist. Check the path.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(require_regular(path))
        import torch

        return torch.load(require_regular(path), map_location="cpu", weights_only=True)
    except Exception as error:  # damaged archives raise many types of errors
        raise DeixisError(
            f"{path} is not a readable weights file ({type(error).__name__}: {error}). Download it again."
        ) from None
