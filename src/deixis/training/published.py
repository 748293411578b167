"""Published weights as model folders: the files of an import, and the texts of the model folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.files import sha256
from deixis.model_folder import with_proposals
from deixis.types import Json
from deixis.vision.store import FeatureStore

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class PublishedFiles:
    """Files of a published model: its weights, and what they need to be used."""

    weights: Path
    name: str  # of the model
    vocabulary: Path | None = None  # file with the words, where the weights have none
    features: FeatureStore | None = None  # store with features of the extractor that the model was trained on
    sizes: Mapping[str, int] = field(default_factory=dict)  # sizes that are not in the file, where they were given

    def extractor(self, width: int) -> Json:
        """Return the region extractor of the store, whose features must have ``width`` numbers."""
        if self.features is None:
            raise DeixisError(
                f"{self.weights} reads features of {width:,} numbers, but the file does not say of which extractor. "
                "Give a feature store of that extractor with --features (see deixis features)."
            )
        for image_id in self.features:
            found = self.features[image_id].features.shape[1]
            if found != width:
                raise DeixisError(
                    f"{self.weights} reads features of {width:,} numbers, but {self.features.path} has {found:,}. "
                    "Give a feature store of the extractor that the model was trained on."
                )
            return {"name": self.features.extractor, "description": self.features.contents.description}
        raise DeixisError(f"{self.features.path} is empty. Give a store with features of at least one image.")


class PublishedModel(Protocol):
    """Imported model that can be written to a folder."""

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write the model folder."""


@dataclass(frozen=True)
class Imported:
    """An imported model and what is known about its training."""

    model: PublishedModel
    method: str  # paper or method, for the model card
    supervision: str


def published_extras(files: PublishedFiles, imported: Imported) -> dict[str, str]:
    """File name -> text of ``recipe.json`` and ``README.md`` of an imported model."""
    digest = sha256(files.weights)
    supervision = imported.supervision
    if files.features is not None:
        proposals = files.features.contents.description.get("proposals", {})
        supervision = with_proposals(supervision, str(proposals.get("supervision", "")))
    source = {"file": files.weights.name, "sha256": digest}
    recipe = {"name": files.name, "paper": imported.method, "supervision": supervision, "imported": source}
    card = f"""# {files.name}

Imported from published weights.

- Method: {imported.method}
- File: `{files.weights.name}`, SHA-256 `{digest}`
- Supervision: {supervision}

The licence of the published weights and of their training images applies.
"""
    return {"recipe.json": json.dumps(recipe, indent=1) + "\n", "README.md": card}


def load_weights(make: Callable[[], Network], weights: Mapping[str, Tensor], source: Path) -> Network:
    """Build a network with weights under our names; missing, unknown and misshapen ones are listed in an error.

    The sizes are compared on the meta device, so that a hostile file allocates no more memory than it has bytes.
    """
    with torch.device("meta"):
        network = make()
    wanted = network.state_dict()
    reasons = [
        f"{title}: {', '.join(name[:80] for name in names[:20])}"
        for title, names in (
            ("missing", sorted(wanted.keys() - weights.keys())),
            ("unknown", sorted(weights.keys() - wanted.keys())),
            ("of another size", [n for n in wanted if n in weights and wanted[n].shape != weights[n].shape]),
            ("not finite", [n for n in wanted if n in weights and not weights[n].isfinite().all()]),
        )
        if names
    ]
    if reasons:
        raise DeixisError(f"{source} does not fit this network: {'; '.join(reasons)}. Give a file of another kind.")
    network = network.to_empty(device="cpu")
    network.load_state_dict(dict(weights))
    return network
