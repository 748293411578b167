"""Train ALBEF and AMC: the network with all losses, batches, validation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from PIL import Image
from torch import Tensor, nn

from deixis import boxes as geometry
from deixis.data import Dataset, Sample
from deixis.data.spool import Spool
from deixis.data.triplets import caption_triplets, data_triplets, mirror, named_triplets, read_detections
from deixis.data.visual_genome import Triplet
from deixis.device import device_of
from deixis.distributed import collect, first_row, gather, replicated, share, total, world
from deixis.errors import DeixisError
from deixis.language.queries import phrase_queries
from deixis.language.spacy_parse import spacy_parse
from deixis.language.wordpiece import WordPieces
from deixis.layers.noise import fold, uniform
from deixis.methods.albef.colours import jitter_colours, jitter_published
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.gradcam import enlarge, match_and_map, normalise
from deixis.methods.albef.images import square_grid, square_pixels, standardise
from deixis.methods.albef.inference import TorchAlbef
from deixis.methods.albef.initial import initial_model
from deixis.methods.albef.inputs import InputConfig
from deixis.methods.albef.losses.alignment import alignment
from deixis.methods.albef.losses.image_text_contrast import image_text_contrast, similarities
from deixis.methods.albef.losses.image_text_match import image_text_match
from deixis.methods.albef.losses.map_consistency import box_masks, map_consistency
from deixis.methods.albef.losses.masked_words import mask_words, masked_logits, masked_words
from deixis.methods.albef.model import AlbefGrounder, encode_text
from deixis.methods.albef.momentum import Momentum, MomentumState
from deixis.methods.albef.network import AlbefNet, Encoded, Texts, pad_texts, pair_scores
from deixis.methods.albef.presence import calibrate
from deixis.methods.albef.recipes import AlbefRecipe
from deixis.metrics.phrases import FLICKR30K, phrase_scores
from deixis.metrics.references import phrase_references
from deixis.training.callbacks import Callbacks
from deixis.training.card import card_files
from deixis.training.data import TrainingData
from deixis.training.loop import train
from deixis.training.prefetch import Prefetch
from deixis.training.recipe import Phase
from deixis.training.supervision import SourceModel
from deixis.training.types import Scores
from deixis.types import Grounding, Regions

MIN_WORD_COUNT = 3
"""A word with fewer occurrences in the training captions counts as unknown."""

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
    samples: Iterable[Sample],
    pieces: WordPieces,
    triplets: Callable[[Sample], Iterable[Triplet]],
    inputs: InputConfig | None = None,
) -> Iterator[Example]:
    """Yield samples with their captions and triplets as word pieces.

    A text that several boxes of an image bear has one target with all of them: it is right about each. (The published
    code takes one of them at random, and the others for background.)
    """

    inputs = inputs or recipe.inputs

    def encode(text: str) -> Text:
        other = mirror(text) if recipe.mirror_texts else text
        ids = encode_text(pieces, text, inputs, recipe.max_words)
        return Text(ids, ids if other == text else encode_text(pieces, other, inputs, recipe.max_words))

    for sample in samples:
        found: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
        for triplet in triplets(sample):
            found[triplet.text].append(tuple(geometry.to_normalised(triplet.box, *sample.image_size()).tolist()))
        used = {text: boxes for text, boxes in found.items() if recipe.targets in ("all", _number(boxes))}
        targets = tuple(Target(encode(text), tuple(boxes)) for text, boxes in used.items())
        captions = tuple(encode(caption.text) for caption in sample.captions)
        example = Example(sample.image_id, captions or tuple(target.text for target in targets), targets)
        yield from [example] if recipe.epoch == "images" else _each_text(example)


def _number(boxes: Sequence[object]) -> str:
    return "single" if len(boxes) == 1 else "several"


def _each_text(example: Example) -> list[Example]:
    """Return an example for each text with boxes or, without boxes, for each caption: AMC's published epoch."""
    if example.targets:
        return [replace(example, captions=(target.text,), targets=(target,)) for target in example.targets]
    return [replace(example, captions=(caption,)) for caption in example.captions]


def collate(
    examples: Sequence[Example],
    image: Callable[[str, torch.Generator | None], Tensor],
    config: AlbefConfig,
    pad: int,
    flip: bool,
    sep: bool = True,
    boxes: Literal["all", "one"] = "all",
    keys: Tensor | None = None,
) -> Batch:
    """Draw a caption, a target and whether to mirror for each image.

    ``image`` gives an image's pixels or grid. ``keys [B]`` are random keys of the examples; each seeds a generator of
    its own. Without keys, torch's generator is used.
    """
    images, captions, targets, masks = [], [], [], []
    side = map_side(config)
    for number, example in enumerate(examples):
        random = None if keys is None else torch.Generator().manual_seed(int(keys[number]))
        caption, target, turned = torch.rand(3, generator=random).tolist()
        mirrored = flip and turned < 0.5
        seen = image(example.image_id, random)
        images.append(seen.flip(2 if config.patch else 1) if mirrored else seen)
        captions.append(_drawn(example.captions, caption, mirrored))
        mask = torch.zeros(side, side, dtype=torch.bool)
        if example.targets:
            chosen = example.targets[int(target * len(example.targets))]
            targets.append(_drawn((chosen.text,), 0, mirrored))
            inside = torch.tensor(chosen.boxes)
            if boxes == "one":
                inside = inside[torch.randint(len(inside), (1,), generator=random)]
            mask = box_masks(inside, side).any(0)
            mask = mask.flip(1) if mirrored else mask
        else:
            targets.append(captions[-1])
        masks.append(mask)
    length = max(map(len, [*captions, *targets]))
    return Batch(
        images=torch.stack(images),
        captions=replace(pad_texts(captions, pad, length, sep), random=keys),
        targets=replace(pad_texts(targets, pad, length, sep), random=keys),
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

    def __init__(
        self, recipe: AlbefRecipe, model: AlbefNet, pieces: WordPieces, momentum: MomentumState | None = None
    ) -> None:
        super().__init__()
        recipe.check_losses()
        self.recipe, self.pieces, self.model = recipe, pieces, model
        torch.manual_seed(recipe.seed)
        self.momentum = Momentum(model, recipe.momentum, momentum)
        self.model.image.checkpointing = recipe.checkpoint_activations
        self.remembered: list[tuple[Tensor, Tensor]] = []  # vectors of the copy in this step, for the queue
        self.updated = False  # whether the copy was updated in this step

    def end_step(self) -> None:
        """Write the vectors of a step into the queue; to be called after each step of the optimiser."""
        for images, texts in self.remembered:
            self.momentum.enqueue(images, texts)
        self.remembered, self.updated = [], False

    def forward(self, phase: Phase, batch: Batch, progress: float) -> dict[str, Tensor]:
        """The weighted loss terms of one batch; ``progress`` runs from 0 to 1 over the training."""
        texts, boxed = batch.captions, torch.zeros_like(batch.boxed)
        if phase.loss == "amc":
            drawn = torch.rand(len(texts), device=boxed.device)
            drawn = drawn if texts.random is None else uniform(fold(texts.random, 303))  # type: ignore[arg-type]
            boxed = batch.boxed & (drawn >= self.recipe.captions)
            texts = _either(boxed, batch.targets, batch.captions)
        model = self.model
        encoded, read = model.encode(batch.images), model.encode_text(texts)
        if phase.loss == "align":
            return {"align": self._aligned(encoded, texts, read)}
        logits, maps = self._matched(encoded, texts, read, bool(total(boxed.sum())))
        terms = self._pairs(batch.images, encoded, texts, read, logits, progress)
        if self.recipe.align:  # by captions: 'a dog' finds dogs in many images of a batch
            read = model.encode_text(batch.captions) if boxed.any() else read
            terms["align"] = self.recipe.align * self._aligned(encoded, batch.captions, read)
        if maps is not None:
            large = enlarge(normalise(maps), batch.masks.shape[-1])
            terms |= self._consistency(large, batch.masks, boxed)
        return terms

    def _consistency(self, maps: Tensor, masks: Tensor, boxed: Tensor) -> dict[str, Tensor]:
        """Map consistency of the images with boxes; where means are pooled, they are pooled in each group."""
        config = self.recipe.maps
        if not config.pooled:
            return map_consistency(maps[boxed], masks[boxed], config)
        processes, maps, masks, boxed = world(), gather(maps), gather(masks), gather(boxed)
        with replicated():  # each process computes the groups of all
            groups = [rows for rows in self._groups(len(boxed)) if boxed[rows].any()]
            parts = [map_consistency(maps[rows][boxed[rows]], masks[rows][boxed[rows]], config) for rows in groups]
        return {name: torch.stack([part[name] for part in parts]).mean() / processes for name in parts[0]}

    def _groups(self, count: int) -> list[slice]:
        """Rows of a batch that are compared with each other."""
        size = self.recipe.negative_group or count
        return [slice(start, min(start + size, count)) for start in range(0, count, size)]

    def _equal(self, texts: Texts) -> Tensor:
        """Pairs that are positives of each other ``[B, B]``: the diagonal and, by the recipe, equal texts."""
        if self.recipe.equal_texts:
            return _same(texts, texts)
        return torch.eye(len(texts), dtype=torch.bool, device=texts.ids.device)

    def _aligned(self, encoded: Encoded, texts: Texts, read: Tensor) -> Tensor:
        texts = gather_texts(texts)
        return alignment(gather(pair_scores(self.model, encoded, texts, gather(read))), _same(texts, texts)) / world()

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
        progress: float,
    ) -> dict[str, Tensor]:
        """Contrast, matching and masked words, with soft targets of the momentum copy (ALBEF; AMC Sec. 2.1).

        Negatives are the images and texts of all processes.
        """
        model, momentum, config = self.model, self.momentum, self.recipe.momentum
        soft = config.soft * min(1.0, progress * self.recipe.epochs)  # rises over the first epoch
        hidden, chosen = mask_words(texts, *self._special(), len(self.pieces), config.mask)
        with torch.no_grad():
            model.temperature.clamp_(0.001, 0.5)
            if not self.updated:
                momentum.update(model)
                self.updated = True
            slow = momentum.slow
            slow_encoded = slow.encode(images)
            other = replace(texts, random=fold(texts.random, 304))  # dropout of the copy, where it has any
            slow_shared = slow.project(slow_encoded, slow.encode_text(other))
            again = replace(hidden, random=fold(hidden.random, 304))
            believed = masked_logits(slow, slow_encoded, again, chosen) if soft and self.recipe.words else None
        shared = model.project(encoded, read)
        everything = gather_texts(texts)
        same = self._equal(everything)
        terms = {
            "contrast": self._contrast(shared, slow_shared, same, soft),
            "match": self._match(encoded, everything, gather(read), right, shared, slow_shared, same),
        }
        if self.recipe.words:
            words = masked_words(model, encoded, hidden, chosen, texts.ids, believed, soft)
            terms["words"] = self.recipe.words * words
        self.remembered.append((gather(slow_shared[0]), gather(slow_shared[1])))
        return terms

    def _contrast(
        self, shared: tuple[Tensor, Tensor], slow: tuple[Tensor, Tensor], same: Tensor, soft: float
    ) -> Tensor:
        """Contrastive loss: negatives are those of the same group and of the queue."""
        queue = self.momentum.images, self.momentum.texts
        first = first_row(len(shared[0]))
        own = slice(first, first + len(shared[0]))  # rows of this process among those of all
        together = self._together(len(same))
        allowed = None if together is None else together[own]
        return image_text_contrast(shared, slow, queue, self.model.temperature, same[own], soft, allowed)

    def _together(self, count: int) -> Tensor | None:
        """Pairs of rows of the same group ``[B, B]``; None if all rows are one group."""
        size = self.recipe.negative_group
        if not size or size >= count:
            return None
        group = torch.arange(count, device=device_of(self.model)) // size
        return group.unsqueeze(1) == group

    def _match(
        self,
        encoded: Encoded,
        texts: Texts,
        read: Tensor,
        right: Tensor,
        shared: tuple[Tensor, Tensor],
        slow: tuple[Tensor, Tensor],
        same: Tensor,
    ) -> Tensor:
        """Matching loss; hard negatives are drawn in each group, by similarity to the model's or the copy's vectors."""
        other = slow if self.recipe.momentum.negatives == "momentum" else shared
        temperature = self.model.temperature
        with torch.no_grad():
            by_image = gather(similarities(shared[0], gather(other[1]), temperature))  # images by texts
            by_text = gather(similarities(gather(other[0]), shared[1], temperature).T)  # texts by images
        together = self._together(len(same))
        not_wrong = same if together is None else same | ~together
        return image_text_match(self.model, encoded, texts, read, right, by_image, not_wrong, by_text)

    def _special(self) -> tuple[list[int], int]:
        return [self.pieces.id(name) for name in ("[PAD]", "[CLS]", "[SEP]")], self.pieces.id("[MASK]")


def gather_texts(texts: Texts) -> Texts:
    """Texts of all processes."""
    if world() == 1:
        return texts
    random = None if texts.random is None else gather(texts.random)
    return replace(texts, ids=gather(texts.ids), mask=gather(texts.mask), random=random)


def _same(texts: Texts, others: Texts) -> Tensor:
    """Pairs of equal texts ``[b, B]``: each is a positive of the other's image."""
    length = others.ids.shape[1]
    one, other = (nn.functional.pad(t.ids * t.mask, (0, length - t.ids.shape[1])) for t in (texts, others))
    return (one[:, None] == other[None]).all(-1)


def _either(choose: Tensor, one: Texts, other: Texts) -> Texts:
    ids, mask = (torch.where(choose[:, None], a, b) for a, b in ((one.ids, other.ids), (one.mask, other.mask)))
    return replace(one, ids=ids, mask=mask)


# A run --------------------------------------------------------------------------------------------------------------


def train_albef(
    recipe: AlbefRecipe, data: TrainingData, out: Path, callbacks: Callbacks, init_from: Path | None = None
) -> None:
    """Train a fusion model; ``out`` becomes a folder for ``AlbefGrounder.from_pretrained`` with the best epoch.

    ``init_from`` has the initial weights: the folder of a fusion model, or a published checkpoint (``.pth``).
    """
    sources = () if init_from is None else (SourceModel.read("initial model", init_from),)
    triplets: TripletsOf = no_triplets
    if any(phase.loss == "amc" for phase in recipe.phases):
        triplets = find_triplets(recipe, data)
    initial = initial_model(recipe, data, init_from)
    model, pieces, inputs = initial.network, initial.pieces, initial.inputs
    made = make_examples(recipe, data.training, pieces, triplets, inputs)
    examples = Spool(made) if isinstance(data.training, Spool) else list(made)
    extractor = None if model.config.patch else data.extractor
    validation = Validation(data)
    look = Looking(data, model.config, inputs, recipe)
    longest = model.config.positions if inputs.clean else recipe.max_words  # published texts are cut in training only

    words = caption_words(data.training)

    def pointer(network: Network) -> AlbefGrounder:
        return AlbefGrounder(network.model, pieces, extractor, recipe.name, longest, inputs=inputs, words=words)

    def save(network: Network, epoch: int, scores: Scores) -> None:
        best = pointer(network)
        if model.config.map_source == "attention":
            with torch.no_grad():
                best.presence = calibrate(best, data.validation, look.to_ask)
        best.save_pretrained(out, card_files(recipe, data, epoch, scores, "phrases of the captions", sources))

    pad, network = pieces.id("[PAD]"), Network(recipe, model, pieces, initial.momentum)
    train(
        recipe,
        network,
        examples,
        lambda some, keys: collate(
            some, look.to_learn, model.config, pad, recipe.flip, inputs.sep, recipe.inside, keys
        ),
        out,
        lambda network, phase: validation.scores(pointer(network), look),
        save,
        callbacks,
        prefetch=look.prefetch,
        after_step=network.end_step,
        order=data.order([example.image_id for example in examples] if data.weighted else ()),
    )


def caption_words(samples: Iterable[Sample]) -> frozenset[str]:
    """Return the words that occur at least ``MIN_WORD_COUNT`` times in the captions."""
    counts = Counter(token for sample in samples for caption in sample.captions for token in caption.tokens)
    return frozenset(word for word, count in counts.items() if count >= MIN_WORD_COUNT)


TripletsOf = Callable[[Sample], Iterable[Triplet]]
"""Texts with boxes of an image."""


def no_triplets(sample: Sample) -> Iterable[Triplet]:
    """Return no texts with boxes, for recipes that do not learn from boxes."""
    return ()


def find_triplets(recipe: AlbefRecipe, data: TrainingData) -> TripletsOf:
    """Return the function of the texts with boxes, from detections or from the boxes of the training set.

    Those of detections are in memory; the others are made for one image at a time.
    """
    if recipe.detections:
        detected = _detected(recipe, data)

        def triplets(sample: Sample) -> Iterable[Triplet]:
            return detected[sample.image_id]

    else:

        def triplets(sample: Sample) -> Iterable[Triplet]:
            made = data_triplets(data.kind_of(sample.image_id))(sample, recipe.min_area)
            return [one for one in made if one.source in recipe.sources]

    if not any(triplets(sample) for sample in data.training):
        raise DeixisError(
            f"recipe {recipe.name} learns from boxes, and {recipe.detections or 'the training data'} has none "
            "for these images. Name a file of detections (--detections), or choose an albef recipe."
        )
    return triplets


def _detected(recipe: AlbefRecipe, data: TrainingData) -> dict[str, list[Triplet]]:
    """Triplets of detector labels, and of the caption phrases that name a detected class."""
    samples = data.training
    things = read_detections(Path(recipe.detections), recipe.min_score)
    parses = iter(spacy_parse([caption.text for sample in samples for caption in sample.captions]))
    found = {}
    for sample in samples:
        width, height = sample.image_size()
        large = [
            thing
            for thing in things.get(data.own_id(sample.image_id), ())
            if geometry.area(thing.box) >= recipe.min_area * width * height
        ]
        said = caption_triplets(sample, [next(parses) for _ in sample.captions], large)
        named = named_triplets(
            sample.image_id, (width, height), things.get(data.own_id(sample.image_id), ()), recipe.min_area
        )
        found[sample.image_id] = [one for one in (*named, *said) if one.source in recipe.sources]
    return found


@dataclass(frozen=True, eq=False)
class Looking:
    """Input images of the model by id."""

    data: TrainingData
    config: AlbefConfig
    inputs: InputConfig
    recipe: AlbefRecipe

    def prefetch(self, examples: Sequence[Example]) -> None:
        """Start to decode the images of the next batch."""
        if self.config.patch:
            self._decoded.ahead(example.image_id for example in examples)

    def to_learn(self, image_id: str, random: torch.Generator | None = None) -> Tensor:
        """The input for training: grid cells, or pixels with varied colours."""
        if self.config.patch:
            pixels = self._decoded[image_id]
            jitter = jitter_published if self.recipe.jitter == "published" else jitter_colours
            return torch.from_numpy(standardise(jitter(pixels, random=random).numpy()))
        return torch.from_numpy(square_grid(self.data.regions[image_id], self.config))

    def _pixels(self, image_id: str) -> Tensor:
        pixels = square_pixels(self._sample(image_id).open(), self.config.pixels, self.inputs.resize)
        return torch.from_numpy(pixels)

    def to_ask(self, image_id: str) -> Regions | Image.Image:
        """The input of :meth:`AlbefGrounder.encode`."""
        return self._sample(image_id).open() if self.config.patch else self.data.regions[image_id]

    @cached_property
    def _decoded(self) -> Prefetch[Tensor]:
        return Prefetch(self._pixels, self.recipe.workers)

    def _sample(self, image_id: str) -> Sample:
        place, row = self._rows[image_id]
        return (self.data.training, self.data.validation)[place][row]

    @cached_property
    def _rows(self) -> dict[str, tuple[int, int]]:
        """Image id -> training (0) or validation (1), and its row there."""
        sets = (self.data.training, self.data.validation)
        return {sample.image_id: (place, row) for place, some in enumerate(sets) for row, sample in enumerate(some)}


BLOCK = 64  # captions that are compared with all images together


def first_ranks(scores: Tensor, owner: Sequence[int]) -> int:
    """Count captions whose own image has the only highest score; ``scores [I, C]``, ``owner [C]`` image rows."""
    own = scores[torch.tensor(owner), torch.arange(len(owner))]
    return int(((scores >= own).sum(0) == 1).sum())


class Validation:
    """Validation: retrieval of images by captions, and pointing where there are boxes."""

    def __init__(self, data: TrainingData) -> None:
        self.samples = tuple(data.validation)
        self.references = phrase_references(Dataset(data.val_source or data.source, "val", self.samples))

    @torch.no_grad()
    def scores(self, pointer: AlbefGrounder, look: Looking) -> Scores:
        """R@1 of the image of a caption by the contrastive score; pointing of phrases with boxes."""
        calls, images = pointer.calls, [s.image_id for s in self.samples]
        assert isinstance(calls, TorchAlbef)
        model = calls.network
        captions = [caption.text for sample in self.samples for caption in sample.captions]
        owner = [number for number, sample in enumerate(self.samples) for _ in sample.captions]
        device = device_of(model)
        inputs = (torch.from_numpy(pointer.image_input(look.to_ask(i)))[None] for i in share(images))
        seen = [model.image(one.to(device))[0, 0].cpu() for one in inputs]
        whole = nn.functional.normalize(model.project_image(torch.stack(collect(seen)).to(device)), dim=-1)
        right = 0
        for at in range(0, len(captions), BLOCK):
            states = model.encode_text(calls.texts(pointer.texts(captions[at : at + BLOCK])))
            said = nn.functional.normalize(model.project_text(states[:, 0]), dim=-1)
            right += first_ranks(whole @ said.T, owner[at : at + BLOCK])
        scores = {"R@1": right / max(1, len(captions))}
        if self.references:
            scores["pointing"] = self._pointing(pointer, look)
        return scores

    def _pointing(self, pointer: AlbefGrounder, look: Looking) -> float:
        asked: defaultdict[str, list[str]] = defaultdict(list)
        for reference in self.references:
            asked[reference.image].append(reference.id)
        phrases = {reference.id: reference.phrase for reference in self.references}
        answers: list[tuple[str, list[Grounding]]] = []
        for image, ids in share(list(asked.items())):
            (encoded,) = pointer.encode([look.to_ask(image)])
            found = pointer.ground(encoded, phrase_queries([phrases[i] for i in ids]), "threshold")
            answers += [
                (i, [replace(grounding, point=grounding.pointing(), heat=None)])
                for i, grounding in zip(ids, found, strict=True)
            ]
        scores = phrase_scores(self.references, dict(collect(answers)), FLICKR30K)
        return next(score.value for score in scores if score.name == "pointing")
