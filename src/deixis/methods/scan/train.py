"""Train SCAN and POS-SCAN: pairs of images and captions, and retrieval for validation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from deixis.calibration import Calibration, Presence
from deixis.data import Caption, Sample
from deixis.device import device_of
from deixis.distributed import collect, gather, share, world
from deixis.language.nouns import mark_words
from deixis.language.parse import parse
from deixis.language.spacy_parse import spacy_parse
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions, pad_regions
from deixis.methods.scan.config import ScanConfig
from deixis.methods.scan.losses.triplet import matching_loss
from deixis.methods.scan.model import Placing, ScanGrounder, with_ends
from deixis.methods.scan.network import EncodedRegions, ScanNet, encode_regions, pad_words
from deixis.methods.scan.recipes import ScanRecipe
from deixis.metrics.retrieval import retrieval
from deixis.training.callbacks import Callbacks
from deixis.training.card import card_files
from deixis.training.data import TrainingData
from deixis.training.loop import train
from deixis.training.presence import collect_evidence
from deixis.training.recipe import Phase
from deixis.training.types import Scores
from deixis.types import Regions

MAX_CALIBRATION = 300
"""Validation images that the calibration uses, spread evenly."""

NOUN_TAGS = ("NN", "NNS", "NNP", "NNPS")


@dataclass(frozen=True)
class Pair:
    """An image and one of its captions: word ids, bos first, eos last, and which of them count in the score."""

    image_id: str
    words: tuple[int, ...]
    counts: tuple[bool, ...]


@dataclass(frozen=True)
class Batch:
    """Captions and the images they belong to, each image once."""

    regions: PaddedRegions
    words: Tensor  # [C, T]
    counts: Tensor  # [C, T]
    owner: Tensor  # [C] the row of each caption's image
    images: Tensor  # [I] numbers of the images


class Network(nn.Module):
    """The matcher and its loss."""

    def __init__(self, recipe: ScanRecipe, config: ScanConfig) -> None:
        super().__init__()
        recipe.check_losses()
        self.recipe = recipe
        torch.manual_seed(recipe.seed)
        self.matcher = ScanNet(config)

    def forward(self, phase: Phase, batch: Batch, progress: float) -> dict[str, Tensor]:
        """The loss of one batch."""
        regions = self.matcher.encode_regions(batch.regions)
        words = self.matcher.encode_words(batch.words, batch.counts)
        hardest = phase.loss != "all"
        regions, owner = _gather_images(regions, batch)
        return {"hinge": matching_loss(self.matcher, regions, words, owner, self.recipe.margin, hardest)}


def _gather_images(regions: EncodedRegions, batch: Batch) -> tuple[EncodedRegions, Tensor]:
    """Images of all processes, each once, and the row among them of each caption's image ``[C]``."""
    if world() == 1:
        return regions, batch.owner
    numbers = gather(batch.images).tolist()
    rows = {number: row for row, number in reversed(list(enumerate(numbers)))}  # first row of each image
    kept = sorted(rows.values())
    row = {number: kept.index(first) for number, first in rows.items()}
    owner = [row[number] for number in batch.images[batch.owner].tolist()]
    one_each = EncodedRegions(gather(regions.vectors)[kept], gather(regions.mask)[kept])
    return one_each, torch.tensor(owner, device=batch.owner.device)


def make_pairs(samples: Sequence[Sample], vocabulary: Vocabulary, count: str, max_words: int) -> list[Pair]:
    """Every caption of every sample, cut to ``max_words`` words."""
    told = [(sample.image_id, caption) for sample in samples for caption in sample.captions if caption.tokens]
    marks: Sequence[tuple[bool, ...]] = [(True,) * len(caption.tokens) for _, caption in told]
    if count != "all":  # only this needs parses
        tagged = [count == "nouns" and bool(caption.tags) for _, caption in told]
        parses = iter(spacy_parse([caption.text for (_, caption), tags in zip(told, tagged, strict=True) if not tags]))
        marks = [
            _tagged(caption, vocabulary) if tags else mark_words(next(parses), count, vocabulary)
            for (_, caption), tags in zip(told, tagged, strict=True)
        ]
    return [
        Pair(
            image_id,
            tuple(vocabulary.encode(caption.tokens[:max_words])),
            tuple(with_ends(counts[:max_words], count)),
        )
        for (image_id, caption), counts in zip(told, marks, strict=True)
    ]


def _tagged(caption: Caption, vocabulary: Vocabulary) -> tuple[bool, ...]:
    """Mark the nouns of a caption by the tags of its data set, as the published training does."""
    return tuple(
        tag in NOUN_TAGS and word in vocabulary for tag, word in zip(caption.tags, caption.tokens, strict=True)
    )


def collate(pairs: Sequence[Pair], regions: Mapping[str, Regions]) -> Batch:
    """Pad to the longest caption and the most regions; an image with several captions occurs once."""
    images = {image_id: row for row, image_id in enumerate(dict.fromkeys(pair.image_id for pair in pairs))}
    words, counts = pad_words([pair.words for pair in pairs], [pair.counts for pair in pairs])
    owner = torch.tensor([images[pair.image_id] for pair in pairs])
    numbers = torch.tensor([_number(image_id) for image_id in images])
    return Batch(pad_regions([regions[image_id] for image_id in images]), words, counts, owner, numbers)


def _number(image_id: str) -> int:
    """Number of an image that is the same in all processes: 63 bits of a hash of its id."""
    return int.from_bytes(hashlib.sha256(image_id.encode()).digest()[:8]) >> 1


def train_scan(recipe: ScanRecipe, data: TrainingData, out: Path, callbacks: Callbacks) -> None:
    """Train a matcher; ``out`` becomes a folder for ``ScanGrounder.from_pretrained`` with the best epoch."""
    vocabulary = data.words(recipe.min_count)
    like = data.regions[data.training[0].image_id]
    config = replace(recipe.model, vocabulary=len(vocabulary), features=like.features.shape[1])
    validation = make_pairs(data.validation, vocabulary, config.count, recipe.max_words)

    def validate(network: Network, phase: Phase) -> Scores:
        return recalls(network.matcher, validation, data.regions)

    def save(network: Network, epoch: int, scores: Scores) -> None:
        grounder = ScanGrounder(network.matcher, vocabulary, data.extractor, recipe.name)
        if grounder.extractor.is_detector:  # the rule uses its classes
            grounder.placing = Placing("heat")
        calibrate(grounder, data)
        files = card_files(recipe, data, epoch, scores, "all images and captions, one fold")
        grounder.save_pretrained(out, files)

    pairs = make_pairs(data.training, vocabulary, config.count, recipe.max_words)
    train(
        recipe,
        Network(recipe, config),
        pairs,
        lambda some, keys: collate(some, data.regions),  # no random numbers
        out,
        validate,
        save,
        callbacks,
        order=data.order([pair.image_id for pair in pairs]),
    )


@torch.no_grad()
def recalls(matcher: ScanNet, pairs: Sequence[Pair], regions: Mapping[str, Regions], batch: int = 64) -> Scores:
    """R@1, 5 and 10 among the images and captions of the pairs, both ways, and the sum of the six."""
    ids = list(dict.fromkeys(pair.image_id for pair in pairs))
    rows = {image_id: row for row, image_id in enumerate(ids)}
    words, counts = [pair.words for pair in pairs], [pair.counts for pair in pairs]
    encoded = matcher.encode_words(*pad_words(words, counts, device_of(matcher)))
    similarities = []
    own = share(ids)
    for start in range(0, len(own), batch):
        some = encode_regions(matcher, [regions[i] for i in own[start : start + batch]])
        similarities += list(matcher.scores(some, encoded).cpu().numpy())
    scores = retrieval(np.stack(collect(similarities)), ids, owner=[rows[pair.image_id] for pair in pairs])
    found = {score.name: score.value for score in scores if "R@" in score.name}
    return found | {"recall_sum": sum(found.values())}


def calibrate(grounder: ScanGrounder, data: TrainingData) -> None:
    """Fit the curves that turn the evidence of a matcher into probabilities, on some validation images.

    Absent texts are those of other images, and hard negatives; no box is needed.
    """
    grounder.presence = Presence(Calibration(), Calibration())  # evidence includes the classes of a detector

    def evidence(regions: Regions, texts: Sequence[str]) -> list[float]:
        (photo,) = grounder.encode([regions])
        parses = parse(texts)
        phrases = [replace(one.phrase(0, len(one)), text=text) for text, one in zip(texts, parses, strict=True)]
        return grounder.evidence(photo, phrases)

    step = -(-len(data.validation) // MAX_CALIBRATION)
    phrases, captions = collect_evidence(data.validation[::step], data.regions.__getitem__, evidence)
    grounder.presence = Presence(phrases.calibration(), captions.calibration())
