"""A run: data, features and a recipe become the folder of a trained captioner."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.data import Sample, recognise
from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.language.vocabulary import Vocabulary
from deixis.metrics.captions import caption_scores
from deixis.models.captioner import Captioner, Style
from deixis.models.decoder import Decoder
from deixis.recipes.recipe import Recipe
from deixis.training.examples import Example, Target, make_examples
from deixis.training.loop import Scores, Talk, fill, train
from deixis.types import GroundedCaption, Json, Regions
from deixis.vision.store import FeatureStore


@dataclass(frozen=True)
class Material:
    """What a captioner is trained on."""

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


def run_recipe(recipe: Recipe, material: Material, out: Path, talk: Talk | None = None) -> Path:
    """Train one captioner; ``out`` becomes a folder for ``Captioner.from_pretrained`` with the best checkpoint.

    Beside the model: ``recipe.json``, ``metrics.json`` of the best validation, ``log.jsonl`` and the checkpoint to go
    on from. Running the same again goes on, or does nothing where all is done.
    """
    material = material.checked()
    talk = talk or Talk()
    vocabulary = Vocabulary.build((c.tokens for s in material.training for c in s.captions), recipe.minimum)
    config = fill(recipe, vocabulary, material.regions[material.training[0].image_id])
    examples = _examples(recipe, material.training, vocabulary)
    references = {s.image_id: [c.tokens for c in s.captions] for s in material.validation}

    def captioner(decoder: Decoder, branches: int | None = None) -> Captioner:
        style = Style(max_words=recipe.max_words, branches=branches)
        return Captioner(decoder, vocabulary, material.extractor, recipe.name, style)

    def validate(decoder: Decoder, branches: int | None) -> Scores:
        ids = list(references)
        regions = [material.regions[i] for i in ids]
        said = list(captioner(decoder, branches).captions(regions, ids))
        return validation_scores(said, references)

    def save_best(decoder: Decoder, epoch: int, scores: Scores) -> None:
        metrics = {"epoch": epoch, "validation": scores}
        extras = {
            "recipe.json": json.dumps(recipe.to_json(), indent=1) + "\n",
            "metrics.json": json.dumps(metrics, indent=1) + "\n",
            "README.md": model_card(recipe, material, scores),
        }
        captioner(decoder).save_pretrained(out, extras)
        talk.save_best(decoder, epoch, scores)

    train(recipe, config, examples, material.regions, out, validate, replace(talk, save_best=save_best))
    return out


def validation_scores(said: Sequence[GroundedCaption], references: Mapping[str, Sequence[Sequence[str]]]) -> Scores:
    """CIDEr and BLEU-4 of captions against the references of their images."""
    hypotheses = {caption.image: caption.words for caption in said}
    scores, _ = caption_scores(hypotheses, references, metrics=("CIDEr", "BLEU"))
    return {score.name: score.value for score in scores if score.name in ("CIDEr", "BLEU-4")}


def _examples(recipe: Recipe, samples: Sequence[Sample], vocabulary: Vocabulary) -> list[Example]:
    examples = make_examples(samples, vocabulary, recipe.max_words)
    objectives = {phase.objective for phase in recipe.phases}
    if "cycle" in objectives and recipe.cycle.visual != "all":
        examples = _with_visual_words(examples, samples, recipe.max_words)
    if "supervised" in objectives:
        examples = _with_boxes(examples, samples, recipe.max_words)
    return examples


def _with_visual_words(examples: Sequence[Example], samples: Sequence[Sample], max_words: int) -> list[Example]:
    """Mark nouns and verbs, the words that the Cyclical paper calls groundable; the end is none."""
    parses = iter(parse([c.text for s in samples for c in s.captions if c.tokens]))

    def marks() -> tuple[bool, ...]:
        return (*(tag in ("NOUN", "PROPN", "VERB") for tag in next(parses).pos[:max_words]), False)

    return [replace(example, visual=tuple(marks() for _ in example.captions)) for example in examples]


def _with_boxes(examples: Sequence[Example], samples: Sequence[Sample], max_words: int) -> list[Example]:
    """Give the head noun of each phrase that has boxes those boxes as targets."""
    parses = iter(parse([c.text for s in samples for c in s.captions if c.tokens]))
    supervised = []
    for example, sample in zip(examples, [s for s in samples if any(c.tokens for c in s.captions)], strict=True):
        targets = []
        for number, caption in enumerate([c for c in sample.captions if c.tokens]):
            grammar = next(parses)
            for phrase in caption.phrases:
                entity, head = sample.entity(phrase.entity or ""), grammar.head(phrase.start, phrase.end)
                if entity is not None and head is not None and head < max_words:
                    targets += [Target(number, head, (x1, y1, x2, y2)) for x1, y1, x2, y2 in entity.boxes.tolist()]
        supervised.append(replace(example, targets=tuple(targets)))
    return supervised


def model_card(recipe: Recipe, material: Material, scores: Scores) -> str:
    """What people should know before they use the model."""
    figures = ", ".join(f"{name} {value:.3f}" for name, value in scores.items())
    description = material.extractor["description"]
    eyes = {part: description[part].get("supervision", "unknown") for part in ("backbone", "proposals")}
    return f"""# {recipe.name}

A grounded captioner: a sentence in which every noun points at its place.

- Method: {recipe.paper}
- Data: {material.source}, {len(material.training)} training and {len(material.validation)} validation images
- Supervision of the captioner: {recipe.supervision}
- Regions: `{material.extractor["name"]}` (backbone: {eyes["backbone"]}; proposals: {eyes["proposals"]})
- Validation: {figures} (one seed: {recipe.seed}; greedy)

Weights learnt from photographs carry the terms of those photographs: where the data set is for research and education
only, so is this model.
"""
