"""Training a captioner: its network with all objectives, what it is shown, how it is validated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache, cached_property, partial
from pathlib import Path

import torch
from torch import Tensor, nn

from deixis.data import Dataset, Sample
from deixis.errors import DeixisError
from deixis.language.nouns import counted_words
from deixis.language.parse import Parse, parse, parse_words
from deixis.language.vocabulary import Vocabulary
from deixis.localize.attention import ground_word
from deixis.methods.updown.batches import Batch, Example, Target, collate, make_examples
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.losses.cross_entropy import cross_entropy, scheduled_sampling
from deixis.methods.updown.losses.cycle import Localizer, cycle
from deixis.methods.updown.losses.distillation import distil
from deixis.methods.updown.losses.self_critical import Images, reward_converged, self_critical
from deixis.methods.updown.losses.supervised import attention_nll, region_classification
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoded, Decoder, DecoderConfig
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.metrics.captions import caption_scores
from deixis.metrics.evaluate import Options, evaluate
from deixis.metrics.formats import Predictions
from deixis.metrics.references import Reference, make_reference
from deixis.runs.run import Given, Material, card_files
from deixis.runs.teachers import Guides, find_guides
from deixis.training.loop import Scores, Talk, train
from deixis.training.recipe import Phase
from deixis.types import Candidate, GroundedCaption, Regions
from deixis.vision.blank import BlankRegions
from deixis.vision.extractor import RegionExtractor
from deixis.vision.ood import TRAINING_IMAGES, OodDetector

VALIDATED = 64  # images that are decoded together
OBJECTIVES = ("cross-entropy", "cycle", "supervised", "self-critical")


class Network(nn.Module):
    """The decoder, and the localizer where a phase of the recipe needs one."""

    def __init__(self, recipe: UpDownRecipe, config: DecoderConfig, guides: Guides | None = None) -> None:
        super().__init__()
        for phase in recipe.phases:
            if phase.objective not in ("", *OBJECTIVES):
                raise DeixisError(f"a captioner has no objective '{phase.objective}'; it has {', '.join(OBJECTIVES)}.")
        self.recipe, self.guides = recipe, guides or Guides()
        torch.manual_seed(recipe.seed)
        self.decoder = Decoder(config)
        if any(phase.objective == "cycle" for phase in recipe.phases):
            self.localizer = Localizer(self.decoder, recipe.cycle)

    def forward(self, phase: Phase, batch: Batch, progress: float) -> dict[str, Tensor]:
        """The weighted loss terms of one batch; ``progress`` runs from 0 to 1 over the training."""
        if phase.objective == "self-critical":
            return self._criticised(phase, batch)
        pad, decoder, recipe = Vocabulary.pad, self.decoder, self.recipe
        encoded = decoder.encode_regions(batch.regions)
        inputs, targets = batch.words[..., :-1], batch.words[..., 1:]
        if recipe.scheduled_sampling:
            chance = recipe.scheduled_sampling * progress
            inputs = scheduled_sampling(decoder, encoded, inputs, chance, pad, phase.branches or None)
        decoded = decoder(encoded, inputs, phase.branches or None)
        if phase.objective == "cycle":
            terms = cycle(decoder, self.localizer, encoded, decoded, batch.words, pad, batch.visual)
        else:
            terms = {"words": cross_entropy(decoder, decoded, targets, pad, recipe.smoothing)}
        if phase.objective == "supervised":
            terms |= self._supervised(decoded, batch)
        if recipe.distil.teacher:
            if self.guides.attend is None or batch.nouns is None:
                raise ValueError(f"the recipe {recipe.name} has a teacher, and is given none or no nouns to be taught")
            shown = self.guides.attend(batch.regions, batch.words)
            terms["distil"] = distil(decoded.attention, shown, batch.nouns, recipe.distil)
        return terms

    def _supervised(self, decoded: Decoded, batch: Batch) -> dict[str, Tensor]:
        recipe, decoder = self.recipe, self.decoder
        if batch.positive is None or batch.classes is None:
            raise DeixisError(
                f"the recipe {recipe.name} learns from boxes, and the training data has none; "
                "choose a recipe without 'supervised', or data with boxes."
            )
        terms = {"attention": recipe.boxes.attention * attention_nll(decoded.attention, batch.positive)}
        if decoder.config.classes:
            known = region_classification(decoder, batch.regions.features, batch.classes)
            terms["classes"] = recipe.boxes.classes * known
        return terms

    def _criticised(self, phase: Phase, batch: Batch) -> dict[str, Tensor]:
        recipe, images = self.recipe, Images(batch.images, batch.regions)
        generation = GenerationConfig(max_words=recipe.max_words, branches=phase.branches or None)
        return self_critical(self.decoder, images, self.guides.rewards, generation, recipe.critic)


def fill(recipe: UpDownRecipe, vocabulary: Vocabulary, like: Regions) -> DecoderConfig:
    """The recipe's network with the sizes that the data decides: vocabulary, features, and the grid's width."""
    grid = 0 if not recipe.model.grid else (0 if like.grid is None else like.grid.shape[-1])
    if recipe.model.grid and not grid:
        raise DeixisError(f"the recipe {recipe.name} looks at feature grids; make the features again with --grid.")
    return replace(recipe.model, vocabulary=len(vocabulary), features=like.features.shape[1], grid=grid)


def train_updown(recipe: UpDownRecipe, material: Material, out: Path, talk: Talk, given: Given | None = None) -> None:
    """Train by the recipe; ``out`` becomes a folder for ``Captioner.from_pretrained`` with the best checkpoint.

    From a captioner that is ``given`` as the start only the last phase of the recipe is run.
    """
    given = given or Given()
    start = None if given.start is None else Captioner.from_pretrained(given.start)
    if start is None:
        vocabulary = Vocabulary.build((c.tokens for s in material.training for c in s.captions), recipe.minimum)
    else:
        vocabulary, recipe = start.vocabulary, replace(recipe, phases=recipe.phases[-1:])
    config = fill(recipe, vocabulary, material.regions[material.training[0].image_id])
    if start is not None:
        _check_start(start, config, material, str(given.start))
    examples = prepare(recipe, material.training, vocabulary)
    guides = find_guides(recipe, material, vocabulary, examples, out, talk, given)
    network = Network(recipe, config, guides)
    if start is not None:
        network.decoder.load_state_dict(start.network.state_dict())
    validation = Validation(material)
    usual, blank = cache(partial(known_photographs, material)), cache(partial(blank_regions, material, config))

    def captioner(network: Network, branches: int | None = None) -> Captioner:
        style = GenerationConfig(max_words=recipe.max_words, branches=branches)
        return Captioner(network.decoder, vocabulary, material.extractor, recipe.name, style)

    def validate(network: Network, phase: Phase) -> Scores:
        said = validation.captions(captioner(network, phase.branches or None))
        for caption in said[:: -(-len(said) // 3)]:
            talk.say(f"{caption.image}: {caption.caption}")
        return validation.scores(said)

    def save_best(network: Network, epoch: int, scores: Scores) -> None:
        best = captioner(network)
        best.ood, best.blank = usual(), blank()
        best.save_pretrained(out, card_files(recipe, material, epoch, scores, f"greedy{given}"))
        talk.save_best(network, epoch, scores)

    train(
        recipe,
        network,
        examples,
        lambda some: collate(some, material.regions, Vocabulary.pad),
        out,
        validate,
        replace(talk, save_best=save_best),
        finished=lambda lines: reward_converged(lines, recipe.critic),
    )


def known_photographs(material: Material) -> OodDetector:
    """What the training photographs are like; enough of them, evenly taken."""
    some = material.training[:: -(-len(material.training) // TRAINING_IMAGES)]
    shown, others = (
        (material.regions[sample.image_id] for sample in samples) for samples in (some, material.validation)
    )
    return OodDetector.fit(shown, others)


def blank_regions(material: Material, config: DecoderConfig) -> BlankRegions | None:
    """Return the regions of blank images, where this installation can build the extractor."""
    like = material.regions[material.training[0].image_id].grid
    grid = max(like.shape[:2]) if config.grid and like is not None else 0
    try:
        return BlankRegions.extract(RegionExtractor(**material.extractor, grid=grid))
    except DeixisError:
        return None  # features from elsewhere: the information gain cannot be computed


def _check_start(start: Captioner, config: DecoderConfig, material: Material, folder: str) -> None:
    """Refuse, in a sentence, a captioner that cannot become one of this recipe."""
    if start.extractor.name != material.extractor["name"]:
        raise DeixisError(
            f"{folder} was trained on regions of {start.extractor.name}, and these features are of "
            f"{material.extractor['name']}; begin from a captioner of these features."
        )
    ours, theirs = asdict(replace(config, dropout=0.0)), asdict(replace(start.network.config, dropout=0.0))
    apart = [f"{name} {theirs[name]} and not {ours[name]}" for name in ours if ours[name] != theirs[name]]
    if apart:
        raise DeixisError(f"{folder} has {', '.join(apart)} as the recipe has it; begin from a captioner like it.")


def _grounded(image: str, regions: Regions, candidate: Candidate, parsed: Parse) -> GroundedCaption:
    nouns = [at for at, noun in enumerate(parsed.nouns) if noun]
    groundings = tuple(ground_word(candidate.trace, at, candidate.words[at], regions) for at in nouns)
    return GroundedCaption(candidate.words, groundings, candidate.logprob, image, *regions.size)


class Validation:
    """The validation images: what a captioner says of them, and how good that is."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.references = {s.image_id: [c.tokens for c in s.captions] for s in material.validation}

    def captions(self, captioner: Captioner) -> list[GroundedCaption]:
        """Return a caption of each image, in order, with its nouns grounded by attention."""
        found = []
        ids = list(self.references)
        for start in range(0, len(ids), VALIDATED):
            some = ids[start : start + VALIDATED]
            regions = [self.material.regions[image] for image in some]
            candidates = [beam[0] for beam in captioner.decode(regions)]
            parses = parse_words([candidate.words for candidate in candidates], quiet=True)
            found += [_grounded(*each) for each in zip(some, regions, candidates, parses, strict=True)]
        return found

    def scores(self, said: Sequence[GroundedCaption]) -> Scores:
        """CIDEr and BLEU-4; F1_all and F1_loc too, over the images with boxes, where there are any."""
        hypotheses = {caption.image: caption.words for caption in said}
        scores, _ = caption_scores(hypotheses, self.references, metrics=("CIDEr", "BLEU"))
        found = {score.name: score.value for score in scores if score.name in ("CIDEr", "BLEU-4")}
        if not self._boxed:
            return found
        captions = {caption.image: caption for caption in said if caption.image in self._reference.images.ids}
        wanted = Options(metrics=("F1_all", "F1_loc"), quiet=True)
        grounded = evaluate(Predictions(Path("validation"), "deixis", captions), self._reference, wanted)
        return found | {score.name: score.value for score in grounded.scores if score.name in wanted.metrics}

    @cached_property
    def _boxed(self) -> tuple[Sample, ...]:
        return tuple(s for s in self.material.validation if any(len(entity.boxes) for entity in s.entities))

    @cached_property
    def _reference(self) -> Reference:
        return make_reference(Dataset(self.material.source, "val", self._boxed), lambda: self.material.training)


def prepare(recipe: UpDownRecipe, samples: Sequence[Sample], vocabulary: Vocabulary) -> list[Example]:
    """Captions as word ids, with whatever else the recipe's objectives want to know of them."""
    examples = make_examples(samples, vocabulary, recipe.max_words)
    objectives = {phase.objective for phase in recipe.phases}
    if "cycle" in objectives and recipe.cycle.visual != "all":
        marks = _marks(samples, recipe.max_words, _nouns_and_verbs)
        examples = [replace(example, visual=each) for example, each in zip(examples, marks, strict=True)]
    if recipe.distil.teacher and objectives != {"self-critical"}:
        # as in the published code, a noun that the captioner does not know is not shown
        marks = _marks(samples, recipe.max_words, lambda parsed: counted_words(parsed, "nouns", vocabulary))
        examples = [replace(example, nouns=each) for example, each in zip(examples, marks, strict=True)]
    if "supervised" in objectives:
        examples = _with_boxes(examples, samples, recipe.max_words)
    return examples


def _nouns_and_verbs(grammar: Parse) -> tuple[bool, ...]:
    """The words that the Cyclical paper calls groundable."""
    return tuple(tag in ("NOUN", "PROPN", "VERB") for tag in grammar.pos)


def _marks(
    samples: Sequence[Sample], max_words: int, marked: Callable[[Parse], tuple[bool, ...]]
) -> list[tuple[tuple[bool, ...], ...]]:
    """Marks of the words of each caption of each sample that has any; the end is never marked."""
    captions = [[c.text for c in sample.captions if c.tokens] for sample in samples]
    parses = iter(parse([text for texts in captions for text in texts]))
    return [tuple((*marked(next(parses))[:max_words], False) for _ in texts) for texts in captions if texts]


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
