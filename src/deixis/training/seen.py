"""Training images of a model, so that it is not scored on them by mistake.

A model folder has a digest of each training image: its id, qualified by the kind of data set. Two selections of COCO
have the same ids for the same images. Ids of own images are file names, so that they are qualified by the folder too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from deixis.data.report import OWN_IDS
from deixis.errors import DeixisError
from deixis.files import read_settings
from deixis.training.data import TrainingData

SEEN = "training_images.json"
DIGITS = 12  # of a digest


def image_key(kind: str, folder: str | Path, image_id: str) -> str:
    """Return the digest of an image of a data set in a folder."""
    place = f"{kind}/{Path(folder).resolve().name}" if kind in OWN_IDS else kind
    return hashlib.sha256(f"{place}/{image_id}".encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def training_images(data: TrainingData, sources: Iterable[Path] = ()) -> str:
    """Return the text of the file of a model; the training images of the models in ``sources`` are included."""
    keys = {key for source in sources for key in _read(source)}
    for part in data.parts:
        own = [sample.image_id for sample in data.training if part.has(sample.image_id)]
        keys.update(image_key(part.name, part.folder, part.own_id(image)) for image in own)
    return json.dumps({"images": sorted(keys)}) + "\n"


def seen_images(models: Sequence[Path], kind: str, folder: Path, images: Iterable[str]) -> list[str]:
    """Return the images that are training images of one of the models; a model without the file has none."""
    keys = {key for model in models for key in _read(model)}
    return [image for image in images if image_key(kind, folder, image) in keys] if keys else []


def require_unseen(
    models: Sequence[Path], kind: str, folder: Path, split: str, images: Sequence[str], allowed: bool
) -> int:
    """Raise if images of a split are training images of a model; return their number where that is allowed."""
    seen = seen_images(models, kind, folder, images)
    if seen and not allowed:
        raise DeixisError(
            f"{models[0]} was trained on {len(seen):,} of the {len(images):,} images of {folder} ({split}), "
            f"such as {seen[0]}. Choose another split, or add --allow-seen."
        )
    return len(seen)


def _read(model: Path) -> list[str]:
    if not (model / SEEN).is_file():
        return []
    try:
        return list(map(str, read_settings(model / SEEN)["images"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeixisError(f"{model / SEEN} cannot be read ({error}). Restore or delete the file.") from None
