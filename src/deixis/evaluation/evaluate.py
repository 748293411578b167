"""Where models meet metrics: what a model answers on a split, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from deixis.data import Caption, Sample
from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.model import Captioner
from deixis.metrics.evaluate import Evaluation, Options, evaluate
from deixis.metrics.formats import Mention, Predictions, phrase_key
from deixis.metrics.references import Reference
from deixis.metrics.retrieval import retrieval
from deixis.metrics.score import Score
from deixis.pipelines.load import PhraseGrounder
from deixis.pipelines.place import reground
from deixis.pipelines.rerank import assist
from deixis.types import GroundedCaption, Grounding, HeatPlace, Place, Regions
from deixis.vision.eyes import Photo

Answers = dict[Mention, tuple[Grounding, ...]]


def evaluate_captioner(
    captioner: Captioner,
    reference: Reference,
    regions: Mapping[str, Regions],
    options: Options | None = None,
    finder: PhraseGrounder | None = None,
) -> tuple[Predictions, Evaluation]:
    """The captions of a split and, where it has boxes, the places of the phrases of its own captions; all scores.

    The captions give caption metrics, F1 and the analysis of errors. The phrases, grounded while the captioner is made
    to say the true sentences, give attention accuracy, and accuracy and pointing as of any phrase grounder. A
    ``finder`` judges the captioner's beam, if it can, and gives the nouns of the captions their places. What the
    captioner attends to in true sentences is then beside the point and left out; :func:`evaluate_finder` tells how the
    finder does there.
    """
    assist(captioner, finder)
    said = caption_images(captioner, reference.samples, regions)
    if finder is not None:
        said = {image: reground(finder, regions[image], caption) for image, caption in said.items()}
    metrics = ["captions"]
    answers: Answers = {}
    if reference.phrases:
        metrics += ["grounding", "errors", "hallucination"]
    if reference.phrases and finder is None:
        boxed = {phrase.image for phrase in reference.phrases}
        answers = read_phrases(captioner, [s for s in reference.samples if s.image_id in boxed], regions)
        metrics += ["words", "phrases"]
    predictions = Predictions(Path(captioner.name), "deixis", said, phrases=answers)
    options = options or Options(metrics=tuple(metrics), missing="skip")
    return predictions, evaluate(predictions, reference, options)


def evaluate_finder(
    finder: PhraseGrounder, reference: Reference, photos: Mapping[str, Photo]
) -> tuple[Predictions, Evaluation]:
    """The places of the phrases of a split's captions, each caption with all its phrases at once; all scores.

    A matcher is also asked which image belongs to which caption; that needs no boxes.
    """
    predictions = Predictions(Path(finder.name), "deixis", phrases=find_phrases(finder, reference.samples, photos))
    result = Evaluation(())
    if predictions.phrases:
        result = evaluate(predictions, reference, Options(metrics=("words", "phrases"), missing="skip"))
    elif not isinstance(finder, ScanGrounder):
        raise DeixisError(f"{reference.name} ({reference.split}) has no phrases with boxes to compare with.")
    if isinstance(finder, ScanGrounder):
        result = replace(result, scores=(*result.scores, *retrieve(finder, reference, photos)))
    return predictions, result


def retrieve(aligner: ScanGrounder, reference: Reference, photos: Mapping[str, Photo]) -> list[Score]:
    """Recall and ranks among all images and captions of a split, both ways."""
    samples = [sample for sample in reference.samples if sample.image_id in photos and sample.captions]
    owner = [row for row, sample in enumerate(samples) for _ in sample.captions]
    regions = [aligner.eyes.look(photos[sample.image_id]) for sample in samples]
    similarities = aligner.scores(regions, [caption.text for sample in samples for caption in sample.captions])
    about = f"data:{reference.name}|split:{reference.split}|"
    scores = retrieval(similarities, [sample.image_id for sample in samples], owner=owner)
    return [replace(score, signature=about + score.signature) for score in scores]


def find_phrases(finder: PhraseGrounder, samples: Sequence[Sample], photos: Mapping[str, Photo]) -> Answers:
    """Where a phrase grounder finds the phrases that have boxes."""
    answers: Answers = {}
    for sample, number, caption in _boxed_captions(samples, photos):
        found = finder.ground(photos[sample.image_id], caption.text, caption.phrases)
        for phrase, place in zip(caption.phrases, found, strict=True):
            answers[Mention(sample.image_id, phrase_key(phrase.text), number, phrase.start)] = (place,)
    return answers


def _boxed_captions(samples: Sequence[Sample], photos: Mapping[str, Photo]) -> Iterator[tuple[Sample, int, Caption]]:
    """The captions with those phrases only that can be scored: of something that has boxes."""
    for sample in samples:
        if sample.image_id in photos:
            boxed = {entity.id for entity in sample.entities if len(entity.boxes)}
            for number, caption in enumerate(sample.captions):
                phrases = tuple(p for p in caption.phrases if p.entity in boxed and p.end > p.start)
                if phrases:
                    yield sample, number, replace(caption, phrases=phrases)


def caption_images(
    captioner: Captioner, samples: Sequence[Sample], regions: Mapping[str, Regions]
) -> dict[str, GroundedCaption]:
    """Image -> its caption, for the samples that have regions."""
    ids = [sample.image_id for sample in samples if sample.image_id in regions]
    return dict(zip(ids, captioner.captions([regions[image] for image in ids], ids), strict=True))


def read_phrases(captioner: Captioner, samples: Sequence[Sample], regions: Mapping[str, Regions]) -> Answers:
    """The places of the phrases that have boxes: where the captioner looks at the phrase's head noun."""
    asked: dict[str, list[tuple[int, Caption]]] = {}
    for sample, number, caption in _boxed_captions(samples, regions):
        asked.setdefault(sample.image_id, []).append((number, caption))
    parses = iter(parse([caption.text for several in asked.values() for _, caption in several], quiet=True))
    places = captioner.readings(
        [regions[image] for image in asked], [[caption.tokens for _, caption in several] for several in asked.values()]
    )
    answers: Answers = {}
    for (image, several), readings in zip(asked.items(), places, strict=True):
        for (number, caption), words in zip(several, readings, strict=True):
            grammar = next(parses)
            for phrase in caption.phrases:
                head = grammar.head(phrase.start, phrase.end)
                place = words[phrase.end - 1 if head is None else head]
                mention = Mention(image, phrase_key(phrase.text), number, phrase.start)
                answers[mention] = (replace(place, text=phrase.text),)
    return answers


def set_place(model: Captioner | PhraseGrounder, place: Place | HeatPlace) -> None:
    """Let a model choose the box of a word or phrase in another way: by its regions, or by its heat map."""
    known = get_args(HeatPlace if isinstance(model, AlbefGrounder) else Place)
    if place not in known:
        by = "heat maps" if isinstance(model, AlbefGrounder) else "attention to regions"
        raise DeixisError(f"{model.name} finds boxes by {by}; its --place is {' or '.join(known)}, not {place}.")
    if isinstance(model, Captioner):
        model.generation = replace(model.generation, place=cast(Place, place))
    elif isinstance(model, ScanGrounder):
        model.placing = replace(model.placing, place=cast(Place, place))
    elif isinstance(model, ReirGrounder):
        model.refiner.config = replace(model.refiner.config, place=cast(Place, place))
    elif isinstance(model, AlbefGrounder):
        model.place = cast(HeatPlace, place)


def joint_supervision(captioner: str, finder: str) -> str:
    """What a captioner and the finder that places its nouns were shown, from what each of them was."""
    return captioner if captioner == finder else f"{captioner}; finder: {finder}"
