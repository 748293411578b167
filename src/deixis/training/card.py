"""Text files of a trained model: recipe, validation scores, model card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from deixis.training.data import TrainingData
from deixis.training.recipe import Recipe
from deixis.training.seen import SEEN, training_images
from deixis.training.supervision import SourceModel, supervision_of


def card_files(
    recipe: Recipe,
    data: TrainingData,
    epoch: int,
    scores: Mapping[str, float],
    protocol: str,
    sources: Sequence[SourceModel] = (),
) -> dict[str, str]:
    """File name -> text of ``recipe.json``, ``metrics.json``, ``training_images.json`` and ``README.md``.

    ``scores`` are those of the best ``epoch`` (from 1), with the given ``protocol``. ``sources`` are the initial model,
    teacher and reward model of the run. ``recipe.json`` includes the supervision, for commands that list models.
    """
    supervision = supervision_of(recipe, data, sources)
    metrics = {"best_epoch": epoch, "validation": scores}
    return {
        "recipe.json": json.dumps({**recipe.to_json(), "supervision": supervision}, indent=1) + "\n",
        "metrics.json": json.dumps(metrics, indent=1) + "\n",
        SEEN: training_images(data, [source.path for source in sources]),
        "README.md": _model_card(recipe, data, scores, protocol, supervision, sources),
    }


def _model_card(
    recipe: Recipe,
    data: TrainingData,
    scores: Mapping[str, float],
    protocol: str,
    supervision: str,
    sources: Sequence[SourceModel],
) -> str:
    figures = ", ".join(f"{name} {value:.3f}" for name, value in scores.items())
    description = data.extractor["description"]
    trained_on = {part: description.get(part, {}).get("supervision", "unknown") for part in ("backbone", "proposals")}
    regions = f"`{data.extractor['name']}` (backbone: {trained_on['backbone']}; proposals: {trained_on['proposals']})"
    models = "".join(f"- {source.role.capitalize()}: `{source.path}`\n" for source in sources)
    return f"""# {recipe.name}

{recipe.purpose}

- Method: {recipe.paper}
- Data: {data.describe()}
- Supervision: {supervision}
{models}- Regions: {"none, the model reads pixels" if data.pixels else regions}
- Validation: {figures} (one seed: {recipe.seed}; {protocol})

The licence terms of the training images apply to the weights. If the data set is for research and education only, so
is this model.
"""
