"""Train a captioner: its network with all losses, batches, validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, cached_property, partial
from pathlib import Path

import torch
from torch import Tensor, nn

from deixis.data import Dataset, Sample
from deixis.differences import differences
from deixis.distributed import collect, share
from deixis.errors import DeixisError
from deixis.language.classes import ObjectClasses
from deixis.language.nouns import mark_words
from deixis.language.parse import Parse, parse_words
from deixis.language.spacy_parse import spacy_parse
from deixis.language.vocabulary import Vocabulary
from deixis.layers.noise import fold
from deixis.layers.padded import temporal_rows
from deixis.localize.attention import ground_word
from deixis.methods.updown.batches import Batch, Example, Target, collate, make_examples, one_caption_each
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.frame_threshold import frame_threshold
from deixis.methods.updown.localizer import FILE as LOCALIZER
from deixis.methods.updown.localizer import save_localizer
from deixis.methods.updown.losses.cross_entropy import cross_entropy, scheduled_sampling
from deixis.methods.updown.losses.cycle import Localizer, cycle
from deixis.methods.updown.losses.distillation import distil
from deixis.methods.updown.losses.self_critical import Images, Reward, reward_converged, self_critical
from deixis.methods.updown.losses.supervised import grounding_nll, region_classification, supervised_attention
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoded, Decoder, Encoded
from deixis.methods.updown.recipes import SELF_CRITICAL, UpDownRecipe
from deixis.metrics.captions import caption_scores
from deixis.metrics.evaluate import Options, evaluate
from deixis.metrics.formats import Predictions
from deixis.metrics.object_words import default_minimum, find_classes, phrase_class
from deixis.metrics.references import Reference, has_grounded_phrases, make_reference
from deixis.training.callbacks import Callbacks
from deixis.training.card import card_files
from deixis.training.data import TrainingData
from deixis.training.loop import train
from deixis.training.recipe import Phase
from deixis.training.supervision import SourceModel
from deixis.training.types import Scores, TeacherAttention
from deixis.types import Candidate, GroundedCaption, Regions
from deixis.vision.blank import BlankRegions
from deixis.vision.extractor import RegionExtractor
from deixis.vision.head import ClassHead
from deixis.vision.ood import TRAINING_IMAGES, OodDetector

VALIDATED = 64  # images that are decoded together
BACKGROUND = "__background__"  # name of class 0
LEFT_OUT = "F1_all and F1_loc are left out."

Rewards = Mapping[str, tuple[float, Reward]]
"""Weight and function of each reward, by name."""


class Network(nn.Module):
    """The decoder, and the localizer where a phase of the recipe has the loss 'cycle'."""

    def __init__(
        self,
        recipe: UpDownRecipe,
        config: DecoderConfig,
        teacher: TeacherAttention | None = None,
        rewards: Rewards | None = None,
    ) -> None:
        super().__init__()
        recipe.check_losses()
        self.recipe, self.teacher, self.rewards = recipe, teacher, rewards or {}
        torch.manual_seed(recipe.seed)
        self.decoder = Decoder(config)
        if recipe.has_loss("cycle"):
            self.localizer = Localizer(self.decoder, recipe.cycle)

    def forward(self, phase: Phase, batch: Batch, progress: float) -> dict[str, Tensor]:
        """The weighted loss terms of one batch; ``progress`` runs from 0 to 1 over the training."""
        if phase.loss == SELF_CRITICAL:
            return self._self_critical(phase, batch)
        pad, decoder, recipe = Vocabulary.pad, self.decoder, self.recipe
        encoded = decoder.encode_regions(batch.regions)
        inputs, targets = batch.words[..., :-1], batch.words[..., 1:]
        if chance := recipe.sampling_chance(progress):
            first = replace(encoded, random=fold(encoded.random, 9))
            inputs = scheduled_sampling(decoder, first, inputs, chance, pad, phase.branches or None)
        decoded = decoder(encoded, inputs, phase.branches or None)
        if phase.loss == "cycle":
            marks, smoothing = batch.visual, recipe.smoothing
            terms = cycle(decoder, self.localizer, encoded, decoded, batch.words, pad, marks, smoothing)
        else:
            terms = {"words": cross_entropy(decoder, decoded, targets, pad, recipe.smoothing, fold(encoded.random, 6))}
        if phase.loss == "supervised":
            terms |= self._supervised(encoded, decoded, batch)
        if recipe.distillation.teacher:
            if self.teacher is None or batch.nouns is None:
                raise ValueError(f"recipe {recipe.name} has a teacher, but no attention of a teacher or no nouns")
            target = self.teacher(batch.regions, batch.words)
            terms["distil"] = distil(decoded.attention, target, batch.nouns, recipe.distillation, encoded.frames)
        return terms

    def _supervised(self, encoded: Encoded, decoded: Decoded, batch: Batch) -> dict[str, Tensor]:
        weights, logits = self.recipe.supervised, encoded.class_logits
        if batch.overlap is None or batch.classes is None or batch.labels is None:
            raise ValueError(f"recipe {self.recipe.name} learns from boxes, but the batch has no targets")
        found = supervised_attention(decoded.attention, batch.overlap, weights.form, batch.within)
        terms = {"attention": weights.attention * found}
        if logits is not None and weights.classes:
            terms["classes"] = weights.classes * region_classification(logits, batch.classes)
        if logits is not None and weights.grounding:
            grounded = grounding_nll(decoded.attention, logits, batch.labels, batch.overlap)
            terms["grounding"] = weights.grounding * grounded
        return terms

    def _self_critical(self, phase: Phase, batch: Batch) -> dict[str, Tensor]:
        recipe, images = self.recipe, Images(batch.images, batch.regions)
        return self_critical(self.decoder, images, self.rewards, recipe.generation_of(phase), recipe.self_critical)


def build_vocabulary(recipe: UpDownRecipe, data: TrainingData) -> Vocabulary:
    """The given words, or those of the training captions that occur often enough."""
    return data.words(recipe.min_count)


def class_names(recipe: UpDownRecipe, data: TrainingData) -> tuple[str, ...]:
    """Names of the region classes, background first: of the class head of the features, else of the training boxes.

    Empty where the network has no classes, or where the features have no head and no loss uses boxes: its classes are
    then learnt from captions alone and have no names.
    """
    if not recipe.model.classes:
        return ()
    if data.head is not None:
        return data.head.names
    if not recipe.has_loss("supervised"):
        return ()
    return (BACKGROUND, *object_classes(data).names)


def object_classes(data: TrainingData) -> ObjectClasses:
    """Return the object classes of a published list, else the frequent nouns of the training phrases with an entity."""
    if data.classes is not None:
        return data.classes
    return find_classes(data.training, default_minimum(len(data.training)), quiet=True)


def fill(
    recipe: UpDownRecipe,
    vocabulary: Vocabulary,
    like: Regions,
    head: ClassHead | None = None,
    names: Sequence[str] = (),
) -> DecoderConfig:
    """The recipe's network with the sizes of the data: vocabulary, features, grid, image vector and classes."""
    model = replace(recipe.model, vocabulary=len(vocabulary), features=like.features.shape[1])
    if model.grid:
        if like.grid is None:
            raise DeixisError(
                f"recipe {recipe.name} needs feature grids. Extract the features with --grid, "
                "or train without grid attention: --model.grid 0 --model.image regions."
            )
        side = max(like.grid.shape[-3:-1])
        model = replace(model, grid=like.grid.shape[-1], grid_side=min(side, recipe.crop) if recipe.crop else side)
    if model.image == "vector":
        if like.image_vector is None:
            raise DeixisError(
                f"recipe {recipe.name} needs a vector of each image. Import features that have one, "
                "or change the recipe with --model.image grid."
            )
        model = replace(model, image_features=len(like.image_vector))
    if bool(model.frames) != (like.frames is not None):
        given, wanted = ("photographs", "clips") if model.frames else ("clips", "photographs")
        ending = "a recipe without -video" if model.frames else "a recipe with -video, such as gvd-video"
        raise DeixisError(f"recipe {recipe.name} describes {wanted}, but the data has {given}. Choose {ending}.")
    if model.temporal:
        own = like.temporal is None  # rows of the sampled frames, all of them appearance
        motion, steps = (0, model.frames) if own else (model.motion, model.steps)
        model = replace(model, temporal=temporal_rows(like).shape[1], motion=motion, steps=steps)
    if head is not None and model.fc7:
        model = replace(model, fc7=len(head.fc7_bias))
    return replace(model, classes=len(names)) if names else model


def load_head(decoder: Decoder, head: ClassHead) -> None:
    """Start the fc7 layer and the class weights of a network from those of the detector of the regions."""
    with torch.no_grad():
        decoder.fc7.weight.copy_(torch.from_numpy(head.fc7_weight))
        decoder.fc7.bias.copy_(torch.from_numpy(head.fc7_bias))
        if decoder.config.classes:
            decoder.classify.weight.copy_(torch.from_numpy(head.class_weight))
            decoder.classify.bias.copy_(torch.from_numpy(head.class_bias))


def load_initial(recipe: UpDownRecipe, data: TrainingData, folder: Path) -> Captioner:
    """The captioner that training starts from; an error where it does not fit the recipe or the features."""
    initial = Captioner.from_pretrained(folder, backend="torch")
    if initial.extractor.name != data.extractor["name"]:
        raise DeixisError(
            f"{folder} expects features from extractor {initial.extractor.name}, but the data has features from "
            f"{data.extractor['name']}. Start from a captioner trained on these features."
        )
    config = fill(
        recipe, initial.vocabulary, data.regions[data.training[0].image_id], data.head, class_names(recipe, data)
    )
    kept, asked = (asdict(replace(each, dropout=0.0)) for each in (initial.network.config, config))
    if differing := differences(kept, asked):
        raise DeixisError(
            f"{folder} does not fit recipe {recipe.name}: {', '.join(differing)}. "
            "Start from a captioner of these sizes, or change the recipe."
        )
    return initial


def train_updown(
    recipe: UpDownRecipe,
    data: TrainingData,
    vocabulary: Vocabulary,
    out: Path,
    callbacks: Callbacks,
    *,
    initial: Captioner | None = None,
    teacher: TeacherAttention | None = None,
    rewards: Rewards | None = None,
    sources: Sequence[SourceModel] = (),
) -> None:
    """Train a captioner; ``out`` becomes a folder for ``Captioner.from_pretrained`` with the best epoch.

    ``initial`` has the weights before training. ``teacher`` and ``rewards`` are called by the losses. ``sources`` are
    the models behind these three, for the model card.
    """
    names = class_names(recipe, data)
    config = fill(recipe, vocabulary, data.regions[data.training[0].image_id], data.head, names)
    network = Network(recipe, config, teacher, rewards)
    if data.head is not None and config.fc7:
        load_head(network.decoder, data.head)
    if initial is not None:
        network.decoder.load_state_dict(initial.network.state_dict())
    validation = Validation(data)
    for note in validation.notes:
        callbacks.message(note)
    classes = object_classes(data) if recipe.has_loss("supervised") else None
    examples = prepare(recipe, data.training, vocabulary, names, classes)
    ood, blank = cache(partial(fit_ood, data)), cache(partial(blank_regions, data, config))

    def captioner(network: Network, generation: GenerationConfig) -> Captioner:
        return Captioner(network.decoder, vocabulary, data.extractor, recipe.name, generation)

    def validate(network: Network, phase: Phase) -> Scores:
        captions = validation.captions(captioner(network, replace(recipe.generation_of(phase), beam=1)))
        for caption in captions[:: -(-len(captions) // 3)]:
            callbacks.message(f"{caption.image}: {caption.caption}")
        return validation.scores(captions)

    def save(network: Network, epoch: int, scores: Scores) -> None:
        # in a phase that trains the first branches only, the others are untrained and must not vote
        best = captioner(network, recipe.generation_of(recipe.phase(epoch - 1)[0]))
        if config.frames:
            threshold = frame_threshold(best, data)
            best.generation = replace(best.generation, frame_threshold=threshold)
        else:  # checks of photographs
            best.ood, best.blank = ood(), blank()
        best.save_pretrained(out, card_files(recipe, data, epoch, scores, "greedy", sources))
        if recipe.phase(epoch - 1)[0].loss == "cycle":  # for its accuracy (deixis eval); captioning does not use it
            save_localizer(network.localizer, out)
        else:
            (out / LOCALIZER).unlink(missing_ok=True)

    def restore(network: Network) -> None:
        network.decoder.load_state_dict(Captioner.from_pretrained(out, backend="torch").network.state_dict())

    train(
        recipe,
        network,
        examples,
        lambda some, keys: collate(some, data.regions, Vocabulary.pad, keys, recipe.crop if config.grid else 0),
        out,
        validate,
        save,
        callbacks,
        finished=lambda lines: reward_converged(lines, recipe.self_critical),
        restore=restore,
        order=data.order([example.image_id for example in examples]),
    )


def fit_ood(data: TrainingData) -> OodDetector:
    """Fit the out-of-distribution check on evenly chosen training photographs."""
    some = data.training[:: -(-len(data.training) // TRAINING_IMAGES)]
    training, validation = ((data.regions[sample.image_id] for sample in each) for each in (some, data.validation))
    return OodDetector.fit(training, validation)


def blank_regions(data: TrainingData, config: DecoderConfig) -> BlankRegions | None:
    """Return the regions of blank images, where this installation can build the extractor."""
    if config.image == "vector":
        return None  # an extractor of this package makes no vector of the whole image
    try:
        return BlankRegions.extract(RegionExtractor(**data.extractor, grid=config.grid_side))
    except DeixisError:
        return None  # features from elsewhere: the information gain cannot be computed


def _grounded(image: str, regions: Regions, candidate: Candidate, parsed: Parse) -> GroundedCaption:
    nouns = [at for at, noun in enumerate(parsed.nouns) if noun]
    groundings = tuple(ground_word(candidate.trace, at, candidate.words[at], regions) for at in nouns)
    return GroundedCaption(candidate.words, groundings, candidate.logprob, image, *regions.size)


class Validation:
    """Captions of the validation images and their scores."""

    def __init__(self, data: TrainingData) -> None:
        self.data = data
        self.references = {s.image_id: [c.tokens for c in s.captions] for s in data.validation}
        self.notes: list[str] = []  # scores that are left out, for the user
        if not self._boxed:
            if any(len(entity.boxes) for s in data.validation for entity in s.entities):
                self.notes.append(f"{data.source}: validation has boxes, but no phrases for them. {LEFT_OUT}")
        elif not any(phrase.entity for s in data.training for c in s.captions for phrase in c.phrases):
            self._boxed = ()
            self.notes.append(f"{data.source}: the training captions have no phrases to find classes in. {LEFT_OUT}")

    def captions(self, captioner: Captioner) -> list[GroundedCaption]:
        """Return a caption of each image, in order, with its nouns grounded by attention."""
        found = []
        ids = share(list(self.references))
        for start in range(0, len(ids), VALIDATED):
            some = ids[start : start + VALIDATED]
            regions = [self.data.regions[image] for image in some]
            candidates = [beam[0] for beam in captioner.decode(regions)]
            parses = parse_words([candidate.words for candidate in candidates])
            found += [_grounded(*each) for each in zip(some, regions, candidates, parses, strict=True)]
        return collect(found)

    def scores(self, captions: Sequence[GroundedCaption]) -> Scores:
        """CIDEr and BLEU-4; F1_all and F1_loc too, over the images with grounded phrases, where there are any."""
        hypotheses = {caption.image: caption.words for caption in captions}
        scores, _ = caption_scores(hypotheses, self.references, metrics=("CIDEr", "BLEU"))
        found = {score.name: score.value for score in scores if score.name in ("CIDEr", "BLEU-4")}
        if not self._boxed:
            return found
        boxed = {caption.image: caption for caption in captions if caption.image in self._reference.images.ids}
        wanted = Options(metrics=("F1_all", "F1_loc"), quiet=True, classes=self.data.classes)
        grounded = evaluate(Predictions(Path("validation"), "deixis", boxed), self._reference, wanted)
        return found | {score.name: score.value for score in grounded.scores if score.name in wanted.metrics}

    @cached_property
    def _boxed(self) -> tuple[Sample, ...]:
        return tuple(s for s in self.data.validation if has_grounded_phrases(s))

    @cached_property
    def _reference(self) -> Reference:
        training = self.data.training
        if len(self.data.parts) > 1:  # data sets without phrases do not change how often a class must be named
            training = [s for s in training if any(c.phrases for c in s.captions)]
        return make_reference(Dataset(self.data.source, "val", self._boxed), lambda: training)


def prepare(
    recipe: UpDownRecipe,
    samples: Sequence[Sample],
    vocabulary: Vocabulary,
    names: Sequence[str] = (),
    classes: ObjectClasses | None = None,
) -> list[Example]:
    """Captions as word ids, with the marks and boxes that the recipe's losses need.

    ``names`` are the region classes of the network, ``classes`` those of words.
    """
    examples = make_examples(samples, vocabulary, recipe.max_words)
    if recipe.has_loss("cycle") and recipe.cycle.visual != "all":
        marks = _marks(samples, recipe.max_words, _nouns_and_verbs)
        examples = [replace(example, visual=each) for example, each in zip(examples, marks, strict=True)]
    if recipe.teacher:
        # as in the published code, nouns outside the captioner's vocabulary are left out
        marks = _marks(samples, recipe.max_words, lambda parsed: mark_words(parsed, "nouns", vocabulary))
        examples = [replace(example, nouns=each) for example, each in zip(examples, marks, strict=True)]
    if recipe.has_loss("supervised"):
        examples = _with_boxes(examples, samples, recipe.max_words, names, classes)
        if not any(example.targets for example in examples):
            raise DeixisError(
                f"recipe {recipe.name} learns from boxes, and the training data has none. "
                "Choose a recipe without the loss 'supervised', or data with boxes."
            )
    return one_caption_each(examples) if recipe.batch_unit == "captions" else examples


def _nouns_and_verbs(parsed: Parse) -> tuple[bool, ...]:
    """Nouns and verbs, the groundable words of the Cyclical paper."""
    return tuple(tag in ("NOUN", "PROPN", "VERB") for tag in parsed.pos)


def _marks(
    samples: Sequence[Sample], max_words: int, marked: Callable[[Parse], tuple[bool, ...]]
) -> list[tuple[tuple[bool, ...], ...]]:
    """Marks of the words of each caption, for samples with captions; the end of a caption is never marked."""
    captions = [[c.text for c in sample.captions if c.tokens] for sample in samples]
    parses = iter(spacy_parse([text for texts in captions for text in texts]))
    return [tuple((*marked(next(parses))[:max_words], False) for _ in texts) for texts in captions if texts]


def _with_boxes(
    examples: Sequence[Example],
    samples: Sequence[Sample],
    max_words: int,
    names: Sequence[str],
    classes: ObjectClasses | None,
) -> list[Example]:
    """Add the boxes of each phrase, with their class, as targets of its head noun."""
    ids = {name: number for number, name in enumerate(names)}
    parses = iter(spacy_parse([c.text for s in samples for c in s.captions if c.tokens]))
    supervised = []
    for example, sample in zip(examples, [s for s in samples if any(c.tokens for c in s.captions)], strict=True):
        targets = []
        for number, caption in enumerate([c for c in sample.captions if c.tokens]):
            parsed = next(parses)
            for phrase in caption.phrases:
                entity, head = sample.entity(phrase.entity or ""), parsed.head(phrase.start, phrase.end)
                if entity is None or head is None or head >= max_words:
                    continue
                name = None if classes is None else phrase_class(parsed, phrase, classes)
                label = ids.get(name or "", -1)
                frames = [None] * len(entity.boxes) if entity.frames is None else entity.frames.tolist()
                boxes = zip(entity.boxes.tolist(), frames, strict=True)
                targets += [Target(number, head, (x1, y1, x2, y2), label, at) for (x1, y1, x2, y2), at in boxes]
        supervised.append(replace(example, targets=tuple(targets)))
    return supervised
