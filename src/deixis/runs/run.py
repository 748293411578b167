"""A run: data, features and a recipe become the folder of a trained model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.data import Sample, recognise
from deixis.errors import DeixisError
from deixis.runs.recipes import AlbefRecipe, Recipe, ReirRecipe, ScanRecipe, UpDownRecipe
from deixis.training.loop import Scores, Talk
from deixis.types import Json, Regions
from deixis.vision.store import FeatureStore


@dataclass(frozen=True)
class Material:
    """What a model is trained on."""

    training: Sequence[Sample]
    validation: Sequence[Sample]
    regions: Mapping[str, Regions]
    extractor: Json  # {"name", "description"} of the extractor that made the regions
    source: str  # the data set, for the model card

    @classmethod
    def from_folder(cls, root: Path, store: FeatureStore, train: str = "train", val: str = "val") -> Material:
        """Two splits of a data set and the store that has their features."""
        loader = recognise(root)
        extractor = {"name": store.extractor, "description": store.contents.description}
        return cls(loader.load(root, train), loader.load(root, val), store, extractor, loader.NAME)

    def checked(self) -> Material:
        """Only samples that have captions and regions; a sentence where none are left."""
        kept = replace(
            self,
            training=[s for s in self.training if s.captions and s.image_id in self.regions],
            validation=[s for s in self.validation if s.captions and s.image_id in self.regions],
        )
        for name, samples in (("training", kept.training), ("validation", kept.validation)):
            if not samples:
                raise DeixisError(
                    f"no {name} image of {self.source} has both a caption and features; "
                    "make the features of the whole data set first (deixis features)."
                )
        return kept


@dataclass(frozen=True)
class Given:
    """Models that were trained before and that a captioner begins from or learns with; a fusion model may begin too."""

    start: Path | None = None  # the folder of a captioner; for a fusion model that of another, or a published .pth
    teacher: Path | None = None  # a matcher that shows where to look
    judge: Path | None = None  # a matcher whose score is a reward

    def __str__(self) -> str:
        """For the model card."""
        return "".join(f"; {role}: {folder}" for role, folder in vars(self).items() if folder is not None)


def run_recipe(
    recipe: Recipe, material: Material, out: Path, talk: Talk | None = None, given: Given | None = None
) -> Path:
    """Train one model; ``out`` becomes its folder, for ``from_pretrained``, with the best checkpoint.

    Beside the model: ``recipe.json``, ``metrics.json`` of the best validation, ``log.jsonl`` and the checkpoint to go
    on from. Running the same again goes on, or does nothing where all is done.
    """
    material, talk = material.checked(), talk or Talk()
    given = given or Given()
    begins = isinstance(recipe, AlbefRecipe) and not str(replace(given, start=None))
    if str(given) and not (begins or isinstance(recipe, UpDownRecipe)):
        raise DeixisError(f"the recipe {recipe.name} is of no captioner; leave --start, --teacher and --judge out.")
    if isinstance(recipe, UpDownRecipe):
        from deixis.methods.updown.train import train_updown

        train_updown(recipe, material, out, talk, given)
    elif isinstance(recipe, ReirRecipe):
        from deixis.methods.reir.train import train_reir

        train_reir(recipe, material, out, talk)
    elif isinstance(recipe, ScanRecipe):
        from deixis.methods.scan.train import train_scan

        train_scan(recipe, material, out, talk)
    elif isinstance(recipe, AlbefRecipe):
        from deixis.methods.albef.train import train_albef

        train_albef(recipe, material, out, talk, given.start)
    else:
        raise TypeError(f"nobody knows how to train a {type(recipe).__name__}")
    return out


def card_files(recipe: Recipe, material: Material, epoch: int, scores: Scores, how: str) -> dict[str, str]:
    """What stands beside the weights: recipe, scores of the best validation (and how they came about), model card."""
    metrics = {"epoch": epoch, "validation": scores}
    return {
        "recipe.json": json.dumps(recipe.to_json(), indent=1) + "\n",
        "metrics.json": json.dumps(metrics, indent=1) + "\n",
        "README.md": _model_card(recipe, material, scores, how),
    }


def _model_card(recipe: Recipe, material: Material, scores: Scores, how: str) -> str:
    """What people should know before they use the model."""
    figures = ", ".join(f"{name} {value:.3f}" for name, value in scores.items())
    description = material.extractor["description"]
    eyes = {part: description[part].get("supervision", "unknown") for part in ("backbone", "proposals")}
    return f"""# {recipe.name}

{recipe.purpose}

- Method: {recipe.paper}
- Data: {material.source}, {len(material.training)} training and {len(material.validation)} validation images
- Supervision: {recipe.supervision}
- Regions: `{material.extractor["name"]}` (backbone: {eyes["backbone"]}; proposals: {eyes["proposals"]})
- Validation: {figures} (one seed: {recipe.seed}; {how})

Weights learnt from photographs carry the terms of those photographs: where the data set is for research and education
only, so is this model.
"""
