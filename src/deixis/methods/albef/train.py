"""Train ALBEF and AMC: the network with all losses, batches, validation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from deixis import boxes as geometry
from deixis.data import Dataset, Sample, coco, visual_genome
from deixis.data.triplets import (
    caption_triplets,
    instance_triplets,
    mirror,
    named_triplets,
    phrase_triplets,
    read_detections,
)
from deixis.data.visual_genome import Triplet
from deixis.device import device_of
from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.language.queries import phrase_queries
from deixis.language.wordpiece import WordPieces
from deixis.layers.minilm import minilm_folder
from deixis.layers.whitening import fit_whitening
from deixis.methods.albef.gradcam import enlarge, match_and_map, normalise
from deixis.methods.albef.images import jitter_colours, square_grid, square_pixels, standardise
from deixis.methods.albef.losses.alignment import alignment
from deixis.methods.albef.losses.image_text_contrast import image_text_contrast, similarities
from deixis.methods.albef.losses.image_text_match import image_text_match
from deixis.methods.albef.losses.map_consistency import box_masks, map_consistency
from deixis.methods.albef.losses.masked_words import mask_words, masked_logits, masked_words
from deixis.methods.albef.model import AlbefGrounder, pad_texts
from deixis.methods.albef.momentum import Momentum
from deixis.methods.albef.network import AlbefConfig, AlbefNet, Encoded, Texts, pair_scores
from deixis.methods.albef.presence import calibrate
from deixis.methods.albef.published import load_minilm, load_published
from deixis.methods.albef.recipes import AlbefRecipe
from deixis.metrics.phrases import FLICKR30K, phrase_scores
from deixis.metrics.references import phrase_references
from deixis.metrics.retrieval import retrieval
from deixis.training.callbacks import Callbacks
from deixis.training.card import card_files
from deixis.training.data import TrainingData
from deixis.training.loop import train
from deixis.training.recipe import Phase
from deixis.training.supervision import SourceModel
from deixis.training.types import Scores
from deixis.types import Grounding, Regions, require_extractor

WHITENED = 300  # images whose cells fit the whitening


# Batches ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Word pieces of a text, and of the text for the mirror image."""

    ids: tuple[int, ...]
    mirrored: tuple[int, ...]


@dataclass(frozen=True)
class Target:
    """A text and all boxes of what it names, in fractions of the image."""

    text: Text
    boxes: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Example:
    """An image with its captions and, where the recipe learns from boxes, texts with boxes."""

    image_id: str
    captions: tuple[Text, ...]
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Batch:
    """One caption of each image and, where it has any, one text with its boxes; both padded to one length."""

    images: Tensor  # [B, side, side, features], or [B, 3, P, P]
    captions: Texts
    targets: Texts  # the caption again where an image has no boxes
    boxed: Tensor  # [B] True where an image has boxes
    masks: Tensor  # [B, M, M] True in the boxes


def make_examples(
    recipe: AlbefRecipe,
    samples: Sequence[Sample],
    pieces: WordPieces,
    triplets: Mapping[str, Sequence[Triplet]],
) -> list[Example]:
    """Samples with their captions and triplets as word pieces.

    A text that several boxes of an image bear has one target with all of them: it is right about each. (The published
    code takes one of them at random, and the others for background.)
    """

    def encode(text: str) -> Text:
        ids = pieces.encode(text, recipe.max_words)
        other = mirror(text)
        return Text(ids, ids if other == text else pieces.encode(other, recipe.max_words))

    examples = []
    for sample in samples:
        found: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
        for triplet in triplets.get(sample.image_id, ()):
            found[triplet.text].append(tuple(geometry.to_normalised(triplet.box, *sample.image_size()).tolist()))
        targets = tuple(Target(encode(text), tuple(boxes)) for text, boxes in found.items())
        captions = tuple(encode(caption.text) for caption in sample.captions)
        examples.append(Example(sample.image_id, captions or tuple(target.text for target in targets), targets))
    return examples


def collate(
    examples: Sequence[Example], image: Callable[[str], Tensor], config: AlbefConfig, pad: int, flip: bool
) -> Batch:
    """Draw a caption, a target and whether to mirror for each image, all from torch's generator.

    ``image`` gives an image's pixels or grid.
    """
    images, captions, targets, masks = [], [], [], []
    side = map_side(config)
    for example in examples:
        caption, target, turned = torch.rand(3).tolist()
        mirrored = flip and turned < 0.5
        seen = image(example.image_id)
        images.append(seen.flip(2 if config.patch else 1) if mirrored else seen)
        captions.append(_drawn(example.captions, caption, mirrored))
        mask = torch.zeros(side, side, dtype=torch.bool)
        if example.targets:
            chosen = example.targets[int(target * len(example.targets))]
            targets.append(_drawn((chosen.text,), 0, mirrored))
            mask = box_masks(torch.tensor(chosen.boxes), side).any(0)
            mask = mask.flip(1) if mirrored else mask
        else:
            targets.append(captions[-1])
        masks.append(mask)
    length = max(map(len, [*captions, *targets]))
    return Batch(
        images=torch.stack(images),
        captions=pad_texts(captions, pad, length),
        targets=pad_texts(targets, pad, length),
        boxed=torch.tensor([bool(example.targets) for example in examples]),
        masks=torch.stack(masks),
    )


def _drawn(texts: Sequence[Text], where: float, mirrored: bool) -> tuple[int, ...]:
    text = texts[int(where * len(texts))]
    return text.mirrored if mirrored else text.ids


def map_side(config: AlbefConfig) -> int:
    """Side of the square in which maps and masks are compared: the image's own, or eight times the grid's."""
    return config.pixels or 8 * config.side


# The network --------------------------------------------------------------------------------------------------------


class Network(nn.Module):
    """The fusion model and its momentum copy."""

    def __init__(self, recipe: AlbefRecipe, model: AlbefNet, pieces: WordPieces) -> None:
        super().__init__()
        recipe.check_losses()
        self.recipe, self.pieces, self.model = recipe, pieces, model
        torch.manual_seed(recipe.seed)
        self.momentum = Momentum(model, recipe.momentum)

    def forward(self, phase: Phase, batch: Batch, progress: float) -> dict[str, Tensor]:
        """The weighted loss terms of one batch; ``progress`` runs from 0 to 1 over the training."""
        texts, boxed = batch.captions, torch.zeros_like(batch.boxed)
        if phase.loss == "amc":
            boxed = batch.boxed & (torch.rand(len(texts), device=boxed.device) >= self.recipe.captions)
            texts = _either(boxed, batch.targets, batch.captions)
        model = self.model
        encoded, read = model.encode(batch.images), model.encode_text(texts)
        if phase.loss == "align":
            return {"align": self._aligned(encoded, texts, read)}
        logits, maps = self._matched(encoded, texts, read, bool(boxed.any()))
        terms = self._pairs(batch.images, encoded, texts, read, logits, _same(texts), progress)
        if self.recipe.align:  # by captions: 'a dog' finds dogs in many images of a batch
            read = model.encode_text(batch.captions) if boxed.any() else read
            terms["align"] = self.recipe.align * self._aligned(encoded, batch.captions, read)
        if maps is not None:
            large = enlarge(normalise(maps[boxed]), batch.masks.shape[-1])
            terms |= map_consistency(large, batch.masks[boxed], self.recipe.maps)
        return terms

    def _aligned(self, encoded: Encoded, texts: Texts, read: Tensor) -> Tensor:
        return alignment(pair_scores(self.model, encoded, texts, read), _same(texts))

    def _matched(self, encoded: Encoded, texts: Texts, read: Tensor, mapped: bool) -> tuple[Tensor, Tensor | None]:
        """Match logits ``[B, 2]`` of the true pairs, and with ``mapped`` their maps."""
        if mapped:
            matched = match_and_map(self.model, encoded, texts, read)
            return matched.logits, matched.maps
        return self.model.match_logits(self.model.fuse(read, texts, encoded)), None

    def _pairs(
        self,
        images: Tensor,
        encoded: Encoded,
        texts: Texts,
        read: Tensor,
        right: Tensor,
        same: Tensor,
        progress: float,
    ) -> dict[str, Tensor]:
        """Contrast, matching and masked words, with soft targets of the momentum copy (ALBEF; AMC Sec. 2.1)."""
        model, momentum, config = self.model, self.momentum, self.recipe.momentum
        soft = config.soft * min(1.0, progress * self.recipe.epochs)  # rises over the first epoch
        hidden, chosen = mask_words(texts, *self._special(), len(self.pieces), config.mask)
        with torch.no_grad():
            model.temperature.clamp_(0.001, 0.5)
            momentum.update(model)
            slow = momentum.slow
            slow_encoded = slow.encode(images)
            slow_shared = slow.project(slow_encoded, slow.encode_text(texts))
            believed = masked_logits(slow, slow_encoded, hidden, chosen) if soft else None
        shared = model.project(encoded, read)
        queue = momentum.images.clone(), momentum.texts.clone()  # remembering below must not change what was compared
        contrast = image_text_contrast(shared, slow_shared, queue, model.temperature, same, soft)
        scores = similarities(*shared, model.temperature).detach()
        terms = {
            "contrast": contrast,
            "match": image_text_match(model, encoded, texts, read, right, scores, same),
            "words": masked_words(model, encoded, hidden, chosen, texts.ids, believed, soft),
        }
        momentum.enqueue(*slow_shared)
        return terms

    def _special(self) -> tuple[list[int], int]:
        return [self.pieces.id(name) for name in ("[PAD]", "[CLS]", "[SEP]")], self.pieces.id("[MASK]")


def _same(texts: Texts) -> Tensor:
    """Pairs of equal texts ``[B, B]``: each is a positive of the other's image."""
    return (texts.ids[:, None] == texts.ids[None]).all(-1)


def _either(choose: Tensor, one: Texts, other: Texts) -> Texts:
    return Texts(*(torch.where(choose[:, None], a, b) for a, b in ((one.ids, other.ids), (one.mask, other.mask))))


# A run --------------------------------------------------------------------------------------------------------------


def train_albef(
    recipe: AlbefRecipe, data: TrainingData, out: Path, callbacks: Callbacks, init_from: Path | None = None
) -> None:
    """Train a fusion model; ``out`` becomes a folder for ``AlbefGrounder.from_pretrained`` with the best epoch.

    ``init_from`` has the initial weights: the folder of a fusion model, or a published checkpoint (``.pth``).
    """
    sources = () if init_from is None else (SourceModel.read("initial model", init_from),)
    triplets: Mapping[str, Sequence[Triplet]] = {}
    if any(phase.loss == "amc" for phase in recipe.phases):
        triplets = find_triplets(recipe, data)
    model, pieces = initial_model(recipe, data, init_from)
    examples = make_examples(recipe, data.training, pieces, triplets)
    extractor = None if model.config.patch else data.extractor
    validation = Validation(data)
    look = Looking(data, model.config)

    def pointer(network: Network) -> AlbefGrounder:
        return AlbefGrounder(network.model, pieces, extractor, recipe.name, recipe.max_words)

    def save(network: Network, epoch: int, scores: Scores) -> None:
        best = pointer(network)
        if model.config.map_source == "attention":
            with torch.no_grad():
                best.presence = calibrate(best, data.validation, look.to_ask)
        best.save_pretrained(out, card_files(recipe, data, epoch, scores, "phrases of the captions", sources))

    pad = pieces.id("[PAD]")
    train(
        recipe,
        Network(recipe, model, pieces),
        examples,
        lambda some: collate(some, look.to_learn, model.config, pad, recipe.flip),
        out,
        lambda network, phase: validation.scores(pointer(network), look),
        save,
        callbacks,
    )


def initial_model(recipe: AlbefRecipe, data: TrainingData, init_from: Path | None) -> tuple[AlbefNet, WordPieces]:
    """The model before training, and its word pieces."""
    if init_from is not None and init_from.is_dir():
        found = AlbefGrounder.from_pretrained(init_from)
        if found.extractor is not None:
            require_extractor(data.extractor["name"], found.extractor.name)
        return found.network.train(), found.pieces
    if recipe.text == "fresh":
        pieces = WordPieces.build((c.text for s in data.training for c in s.captions), recipe.min_count)
    else:
        pieces = WordPieces.load(minilm_folder() / "vocab.txt")
    config = replace(recipe.model, vocabulary=len(pieces))
    if not config.patch:
        grid = data.regions[data.training[0].image_id].grid
        if grid is None or grid.ndim != 3:
            raise DeixisError(f"recipe {recipe.name} needs feature grids. Extract the features with --grid.")
        config = replace(config, features=grid.shape[-1], side=max(grid.shape[:2]))
    torch.manual_seed(recipe.seed)
    model = AlbefNet(config)
    if isinstance(model.image.patches, nn.Linear):
        some = data.training[:: -(-len(data.training) // WHITENED)]
        grids = [square_grid(data.regions[sample.image_id], config) for sample in some]
        fit_whitening(model.image.patches, torch.stack(grids).flatten(0, 2))
    if init_from is not None:
        load_published(model, init_from)
    elif recipe.text == "minilm":
        load_minilm(model)
    return model, pieces


def find_triplets(recipe: AlbefRecipe, data: TrainingData) -> dict[str, list[Triplet]]:
    """The texts with boxes of each training image, from detections or from the boxes of the training set."""
    if recipe.detections:
        found = _detected(recipe, data.training)
    else:
        makers: dict[str, Callable[[Sample, float], Iterable[Triplet]]] = {
            visual_genome.NAME: visual_genome.triplets,
            coco.NAME: instance_triplets,
        }
        make = makers.get(data.source, phrase_triplets)
        found = {sample.image_id: list(make(sample, recipe.min_area)) for sample in data.training}
    if not any(found.values()):
        raise DeixisError(
            f"recipe {recipe.name} learns from boxes, and {recipe.detections or 'the training data'} has none "
            "for these images. Name a file of detections (--detections), or choose an albef recipe."
        )
    return found


def _detected(recipe: AlbefRecipe, samples: Sequence[Sample]) -> dict[str, list[Triplet]]:
    """Triplets of detector labels, and of the caption phrases that name a detected class."""
    things = read_detections(Path(recipe.detections), recipe.min_score)
    parses = iter(parse([caption.text for sample in samples for caption in sample.captions]))
    found = {}
    for sample in samples:
        width, height = sample.image_size()
        large = [
            thing
            for thing in things.get(sample.image_id, ())
            if geometry.area(thing.box) >= recipe.min_area * width * height
        ]
        said = caption_triplets(sample, [next(parses) for _ in sample.captions], large)
        found[sample.image_id] = [*named_triplets(sample.image_id, (width, height), large), *said]
    return found


@dataclass(frozen=True, eq=False)
class Looking:
    """Input images of the model by id."""

    data: TrainingData
    config: AlbefConfig

    def to_learn(self, image_id: str) -> Tensor:
        """The input for training: grid cells, or pixels with varied colours."""
        if self.config.patch:
            return standardise(jitter_colours(square_pixels(self._samples[image_id].open(), self.config)))
        return square_grid(self.data.regions[image_id], self.config)

    def to_ask(self, image_id: str) -> Regions | Image.Image:
        """The input of :meth:`AlbefGrounder.encode`."""
        return self._samples[image_id].open() if self.config.patch else self.data.regions[image_id]

    @cached_property
    def _samples(self) -> dict[str, Sample]:
        return {sample.image_id: sample for sample in (*self.data.training, *self.data.validation)}


class Validation:
    """Validation: retrieval of images by captions, and pointing where there are boxes."""

    def __init__(self, data: TrainingData) -> None:
        self.samples = tuple(data.validation)
        self.references = phrase_references(Dataset(data.source, "val", self.samples))

    @torch.no_grad()
    def scores(self, pointer: AlbefGrounder, look: Looking) -> Scores:
        """R@1 of the image of a caption by the contrastive score; pointing of phrases with boxes."""
        model, images = pointer.network, [s.image_id for s in self.samples]
        captions = [caption.text for sample in self.samples for caption in sample.captions]
        owner = [number for number, sample in enumerate(self.samples) for _ in sample.captions]
        device = device_of(model)
        seen = [model.image(pointer.image_input(look.to_ask(i))[None].to(device))[:, 0] for i in images]
        whole = nn.functional.normalize(model.project_image(torch.cat(seen)), dim=-1)
        said = [
            nn.functional.normalize(
                model.project_text(model.encode_text(pointer.texts(captions[at : at + 64]))[:, 0]), dim=-1
            )
            for at in range(0, len(captions), 64)
        ]
        found = retrieval((whole @ torch.cat(said).T).cpu().numpy(), images, owner=owner)
        scores = {"R@1": next(score.value for score in found if score.name == "t2i_R@1")}
        if self.references:
            scores["pointing"] = self._pointing(pointer, look)
        return scores

    def _pointing(self, pointer: AlbefGrounder, look: Looking) -> float:
        asked: defaultdict[str, list[str]] = defaultdict(list)
        for reference in self.references:
            asked[reference.image].append(reference.id)
        phrases = {reference.id: reference.phrase for reference in self.references}
        answers: dict[str, list[Grounding]] = {}
        for image, ids in asked.items():
            (encoded,) = pointer.encode([look.to_ask(image)])
            found = pointer.ground(encoded, phrase_queries([phrases[i] for i in ids]), "threshold")
            answers |= {i: [grounding] for i, grounding in zip(ids, found, strict=True)}
        scores = phrase_scores(self.references, answers, FLICKR30K)
        return next(score.value for score in scores if score.name == "pointing")
