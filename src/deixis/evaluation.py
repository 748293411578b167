"""Where models meet metrics: what a model answers on a split, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deixis.data import Sample
from deixis.language.parse import parse
from deixis.metrics.evaluate import Evaluation, Options, evaluate
from deixis.metrics.formats import Mention, Predictions, phrase_key
from deixis.metrics.references import Reference
from deixis.models.captioner import Captioner
from deixis.types import GroundedCaption, Grounding, Regions

Answers = dict[Mention, tuple[Grounding, ...]]


def evaluate_captioner(
    captioner: Captioner, reference: Reference, regions: Mapping[str, Regions], options: Options | None = None
) -> tuple[Predictions, Evaluation]:
    """The captions of a split and, where it has boxes, the places of the phrases of its own captions; all scores.

    The captions give caption metrics, F1 and the analysis of errors. The phrases, grounded while the captioner is made
    to say the true sentences, give attention accuracy, and accuracy and pointing as of any phrase grounder.
    """
    said = caption_images(captioner, reference.samples, regions)
    metrics = ["captions"]
    answers: Answers = {}
    if reference.phrases:
        boxed = {phrase.image for phrase in reference.phrases}
        answers = read_phrases(captioner, [s for s in reference.samples if s.image_id in boxed], regions)
        metrics += ["grounding", "errors", "hallucination", "words", "phrases"]
    predictions = Predictions(Path(captioner.name), "deixis", said, phrases=answers)
    options = options or Options(metrics=tuple(metrics), missing="skip")
    return predictions, evaluate(predictions, reference, options)


def caption_images(
    captioner: Captioner, samples: Sequence[Sample], regions: Mapping[str, Regions]
) -> dict[str, GroundedCaption]:
    """Image -> its caption, for the samples that have regions."""
    ids = [sample.image_id for sample in samples if sample.image_id in regions]
    return dict(zip(ids, captioner.captions([regions[image] for image in ids], ids), strict=True))


def read_phrases(captioner: Captioner, samples: Sequence[Sample], regions: Mapping[str, Regions]) -> Answers:
    """The places of the phrases that refer to something: where the captioner looks at the phrase's head noun."""
    samples = [sample for sample in samples if sample.image_id in regions]
    parses = iter(parse([caption.text for sample in samples for caption in sample.captions], quiet=True))
    sentences = [[caption.tokens for caption in sample.captions] for sample in samples]
    answers: Answers = {}
    places = captioner.readings([regions[sample.image_id] for sample in samples], sentences)
    for sample, of_sample in zip(samples, places, strict=True):
        boxed = {entity.id for entity in sample.entities if len(entity.boxes)}
        for number, (caption, words) in enumerate(zip(sample.captions, of_sample, strict=True)):
            grammar = next(parses)
            for phrase in caption.phrases:
                if phrase.entity in boxed and phrase.end > phrase.start:
                    head = grammar.head(phrase.start, phrase.end)
                    mention = Mention(sample.image_id, phrase_key(phrase.text), number, phrase.start)
                    answers[mention] = (replace(words[phrase.end - 1 if head is None else head], text=phrase.text),)
    return answers
