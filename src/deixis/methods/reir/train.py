"""Train ReIR: its network with all losses, batches, validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from deixis.calibration import Calibration, auc, fit
from deixis.data import Dataset, Sample
from deixis.data.descriptions import caption_descriptions
from deixis.distributed import collect, gather, replicated, share, world
from deixis.errors import DeixisError
from deixis.language.descriptions import Description, truncate
from deixis.language.relations import relation_categories
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions, pad_regions
from deixis.layers.text_vectors import text_vectors
from deixis.layers.whitening import fit_whitening
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum
from deixis.methods.reir.config import ReirConfig
from deixis.methods.reir.inference import Found
from deixis.methods.reir.losses.caption_ranking import PairEmbedding, caption_scores, pair_ranking, ranking
from deixis.methods.reir.losses.reconstruction import PhraseDecoder, reconstruction
from deixis.methods.reir.losses.relation_classification import (
    RelationClassifier,
    inverse_frequency_weights,
    relation_loss,
)
from deixis.methods.reir.losses.self_taught import self_taught
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.network import Matched, ReirNet, Repool
from deixis.methods.reir.phrases import PaddedPhrases, name_vectors, pad_phrases
from deixis.methods.reir.recipes import ReirRecipe
from deixis.metrics.phrases import FLICKR30K, PhraseReference, phrase_scores
from deixis.metrics.references import phrase_references
from deixis.training.callbacks import Callbacks
from deixis.training.card import card_files
from deixis.training.data import TrainingData
from deixis.training.loop import train
from deixis.training.recipe import Phase
from deixis.training.types import Scores
from deixis.types import Grounding, Json, Point, Regions
from deixis.vision.extractor import RegionExtractor
from deixis.vision.moved import can_repool
from deixis.vision.repool import repooler


@dataclass(frozen=True)
class Example:
    """One image for training."""

    image_id: str
    descriptions: tuple[Description, ...]


@dataclass(frozen=True)
class Batch:
    """Images with all their captions, padded."""

    regions: PaddedRegions
    phrases: PaddedPhrases
    names: Tensor | None  # [I, N, E] vectors of the class names of regions
    repool: Repool | None = None  # features of moved boxes; None: the second stage keeps those of the proposals


class Network(nn.Module):
    """The grounder's network, and for training only a decoder of phrases and a classifier of relations."""

    def __init__(self, recipe: ReirRecipe, config: ReirConfig, relations: Sequence[int] = ()) -> None:
        """``relations`` is the number of occurrences of each category of relation."""
        super().__init__()
        recipe.check_losses()
        self.recipe = recipe
        torch.manual_seed(recipe.seed)
        self.refiner = ReirNet(config)
        if recipe.reconstruct:
            sizes = (config.vocabulary, config.words, config.width, config.hidden)
            self.decoder = PhraseDecoder(*sizes, recipe.decoder_input)
        if recipe.ranking.weight and recipe.ranking.similarity == "embeddings":
            self.pairs = PairEmbedding(config.width, recipe.ranking.embed)
        if recipe.relations.weight and relations:
            weights = inverse_frequency_weights(relations) if recipe.relations.balanced else None
            self.relations = RelationClassifier(config.width, config.hidden, len(relations), weights)

    def forward(self, phase: Phase, batch: Batch, progress: float) -> dict[str, Tensor]:
        """The weighted loss terms of one batch (Eq. 12); ``progress`` runs from 0 to 1 over the training."""
        recipe, phrases = self.recipe, batch.phrases
        matched = self.refiner(batch.regions, phrases, batch.names, repool=batch.repool)
        terms: dict[str, Tensor] = {}
        if recipe.reconstruct:
            again = reconstruction(self.decoder, matched.attended(), phrases.spelling, phrases.mask)
            terms["reconstruct"] = recipe.reconstruct * again
            if matched.fine is not None:
                again = reconstruction(self.decoder, matched.fine.attended(), phrases.spelling, phrases.mask)
                terms["reconstruct_fine"] = recipe.reconstruct * again
        if recipe.ranking.weight:
            terms["ranking"] = recipe.ranking.weight * self._ranking(matched, batch)
        if matched.offsets is not None and progress >= recipe.self_taught.warmup:
            terms["boxes"] = recipe.self_taught.weight * self._taught(matched, batch)
        if hasattr(self, "relations"):
            attended = matched.attended() if matched.fine is None else matched.fine.attended()
            terms["relations"] = recipe.relations.weight * relation_loss(self.relations, attended, phrases.relation)
        return terms

    def _ranking(self, matched: Matched, batch: Batch) -> Tensor:
        """Ranking of images and captions per caption, by the similarity of the recipe."""
        config, phrases = self.recipe.ranking, batch.phrases
        mask, caption = gather(phrases.mask), gather(phrases.caption)  # negatives are those of all processes
        if config.similarity == "phrases":
            each = gather(self.refiner.score_phrases(matched, batch.regions, phrases, batch.names))
            scores, owner = caption_scores(each, mask, caption, int(caption.max()) + 1)
            return ranking(scores, owner, config.form, config.margin) / max(1, len(owner)) / world()
        stages = [matched.attended()] + ([] if matched.fine is None else [matched.fine.attended()])
        losses = []
        for attended in stages:
            scores, owner = self.pairs(gather(attended), gather(matched.sentences), mask, caption)
            losses.append(pair_ranking(scores, owner, config.form, config.margin) / max(1, len(owner)) / world())
        return torch.stack(losses).sum()

    def _taught(self, matched: Matched, batch: Batch) -> Tensor:
        """Self-taught regression of both stages (Eq. 15)."""
        config, mask = self.recipe.self_taught, batch.phrases.mask.unsqueeze(-1)
        assert matched.offsets is not None
        where = mask & batch.regions.mask.unsqueeze(1)
        loss = self_taught(matched.offsets, matched.boxes.unsqueeze(1), matched.confidence, where, config)
        fine = matched.fine
        if fine is not None and fine.offsets is not None:
            kept = mask & (fine.scores > -torch.inf)
            confidence = matched.fine_confidence() if matched.by_votes else fine.attention  # as the box is selected
            loss = loss + self_taught(fine.offsets, fine.boxes, confidence, kept, config)
        return loss


def make_examples(samples: Sequence[Sample], max_words: int, pairs: bool = False) -> list[Example]:
    """Images with all captions that have a phrase; with ``pairs``, one example for each image and caption."""
    examples = []
    for image, several in caption_descriptions(samples).items():
        usable = tuple(short for each in several if (short := truncate(each, max_words)).phrases)
        if pairs:
            examples += [Example(image, (each,)) for each in usable]
        elif usable:
            examples.append(Example(image, usable))
    return examples


def merge_images(examples: Sequence[Example]) -> list[Example]:
    """Join pairs of one image, so that a batch has each image once and no image is its own negative."""
    captions: dict[str, tuple[Description, ...]] = {}
    for example in examples:
        captions[example.image_id] = (*captions.get(example.image_id, ()), *example.descriptions)
    return [Example(image, several) for image, several in captions.items()]


def collate(
    examples: Sequence[Example],
    regions: Mapping[str, Regions],
    vocabulary: Vocabulary,
    categories: Mapping[str, int],
    config: ReirConfig,
    keys: Tensor | None = None,
    extractor: Json | None = None,
) -> Batch:
    """Pad regions and captions to the largest numbers of the batch; ``keys [I]`` are random keys of the examples.

    ``extractor`` is the description of the region extractor; without it, moved boxes are not pooled again.
    """
    if keys is not None:  # an image has the key of its first caption
        first = {example.image_id: row for row, example in reversed(list(enumerate(examples)))}
        keys = keys[sorted(first.values())]
    examples = merge_images(examples)
    seen, named = [regions[example.image_id] for example in examples], config.names != "none"
    phrases = pad_phrases([example.descriptions for example in examples], vocabulary, categories, named)
    names = name_vectors(seen, config.top_names) if named else None
    pool = repooler(seen, extractor) if config.repool and extractor is not None else None
    return Batch(replace(pad_regions(seen), keys=keys), phrases, names, pool)


def train_reir(recipe: ReirRecipe, data: TrainingData, out: Path, callbacks: Callbacks) -> None:
    """Train a grounder; ``out`` becomes a folder for ``ReirGrounder.from_pretrained`` with the best epoch."""
    vocabulary = data.words(recipe.min_count)
    like = data.regions[data.training[0].image_id]
    config = replace(
        recipe.model,
        vocabulary=len(vocabulary),
        features=like.features.shape[1],
        detector=RegionExtractor(**data.extractor).is_detector,
    )
    examples = make_examples(data.training, recipe.max_words, recipe.batch_pairs)
    if not examples:
        raise DeixisError(f"{data.source}: no training caption has a noun phrase. Use captions with nouns.")
    said = Counter(r.name for e in examples for d in e.descriptions for r in d.relations)
    kept = relation_categories(said.elements(), recipe.relations.min_count, recipe.relations.most)
    categories = {name: number for number, name in enumerate(kept, 1)}
    if config.names != "none":
        # one pass in place of many small ones in the first epoch
        text_vectors([text for e in examples for d in e.descriptions for text in d.texts()])
    validation = Validation(data)
    description = data.extractor["description"]
    pooled, maps = can_repool(like, description), bool(like.maps)
    grid = max(like.grid.shape[:2]) if pooled and not maps and like.grid is not None else 0
    if config.regress != "none" and config.two_stages and config.repool and not pooled:
        callbacks.message(
            "The features have no grid that boxes can be pooled from, so that moved boxes keep the features of their "
            "proposals. To pool them again, extract with deixis features --grid 18, or with --maps for an extractor of "
            "version 2."
        )

    def grounder(network: Network, calibration: Calibration | None = None) -> ReirGrounder:
        return ReirGrounder(
            network.refiner, vocabulary, data.extractor, recipe.name, calibration, grid, pooled and maps
        )

    def validate(network: Network, phase: Phase) -> Scores:
        return validation.scores(grounder(network))

    def save(network: Network, epoch: int, scores: Scores) -> None:
        calibration = validation.calibration(grounder(network))
        files = card_files(recipe, data, epoch, scores, "AUC: phrases of the photograph against those of another")
        grounder(network, calibration).save_pretrained(out, files)

    network = Network(recipe, config, [said[name] for name in kept])
    if config.whiten:
        fit_whitening(network.refiner.whiten, some_features(data))
    train(
        recipe,
        network,
        examples,
        lambda some, keys: collate(some, data.regions, vocabulary, categories, config, keys, description),
        out,
        validate,
        save,
        callbacks,
        order=data.order([example.image_id for example in examples]),
    )


def some_features(data: TrainingData, images: int = 1000, every: int = 4) -> Tensor:
    """Features ``[R, D]`` of every fourth region of evenly chosen training images."""
    ids = [sample.image_id for sample in data.training]
    chosen = ids[:: max(1, len(ids) // images)]
    rows = np.concatenate([data.regions[image].features[::every] for image in chosen])
    return torch.from_numpy(rows.astype(np.float32))


class Validation:
    """Validation: groundings of the phrases of each image, and evidence for phrases of another image."""

    def __init__(self, data: TrainingData) -> None:
        self.data = data
        several = caption_descriptions(data.validation)
        self.images = [image for image, each in several.items() if any(d.phrases for d in each)]
        self._own = [several[image] for image in self.images]
        if not self.images:
            raise DeixisError(f"{data.source}: no validation caption has a noun phrase. Use captions with nouns.")

    def scores(self, grounder: ReirGrounder) -> Scores:
        """AUC of present against absent phrases; accuracy, mean IoU and pointing too where there are boxes."""
        own = self._find(grounder, self._own)
        present, absent = self._evidence(grounder, own)
        scores = {"AUC": auc(present, absent)} if present and absent else {}
        if self.references:
            found = phrase_scores(self.references, self._answers(own), FLICKR30K)
            scores |= {s.name: s.value for s in found if s.name in ("accuracy", "mean_iou", "pointing")}
        return scores

    def answers(self, grounder: ReirGrounder) -> dict[str, list[Grounding]]:
        """Reference id -> grounding of the phrase, for all phrases with boxes."""
        return self._answers(self._find(grounder, self._own))

    def calibration(self, grounder: ReirGrounder) -> Calibration:
        """Fit the calibration from evidence to probability of presence; one process computes all of it."""
        with replicated():
            return fit(*self._evidence(grounder, self._find(grounder, self._own)))

    def _find(self, grounder: ReirGrounder, asked: Sequence[Sequence[Description]]) -> list[list[Found]]:
        regions = [self.data.regions[image] for image in share(self.images)]
        return collect(grounder.find(regions, share(asked)))

    def _evidence(self, grounder: ReirGrounder, own: Sequence[Sequence[Found]]) -> tuple[list[float], list[float]]:
        """Evidence of present phrases, and of phrases of another image whose last word no caption of this one has."""
        others = self._own[1:] + self._own[:1]
        absent = []
        for mine, theirs, found in zip(self._own, others, self._find(grounder, others), strict=True):
            said = {word for description in mine for word in description.words}
            texts = [text for description in theirs for text in description.texts()]
            absent += [one.evidence for text, one in zip(texts, found, strict=True) if text.split()[-1] not in said]
        return [one.evidence for found in own for one in found], absent

    def _answers(self, own: Sequence[Sequence[Found]]) -> dict[str, list[Grounding]]:
        """Reference id -> grounding."""
        places = {
            (image, number, start): one
            for image, several, found in zip(self.images, self._own, own, strict=True)
            for (number, start), one in zip(
                ((number, start) for number, each in enumerate(several) for start, _ in each.phrases),
                found,
                strict=True,
            )
        }
        return {
            r.id: [
                Grounding(r.phrase, one.box, one.evidence, point=self._point(r.image, one), initial_box=one.proposal)
            ]
            for r in self.references
            if (one := places.get((r.image, r.caption, r.start))) is not None
        }

    def _point(self, image: str, found: Found) -> Point:
        regions = self.data.regions[image]
        return centre_of_maximum(heat_map(found.attention, regions.boxes, regions.size))

    @cached_property
    def references(self) -> tuple[PhraseReference, ...]:
        """Phrases with boxes; there may be none."""
        samples = tuple(s for s in self.data.validation if s.image_id in self.images)
        return phrase_references(Dataset(self.data.source, "val", samples))
