"""Run pipelines on a split and score their predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data import Caption, Sample
from deixis.data.descriptions import NOT_VISUAL
from deixis.errors import DeixisError
from deixis.language.parse import parse, parser_name
from deixis.language.queries import caption_query, head_of
from deixis.localize.attention import ground_word
from deixis.localize.points import bicubic_maximum
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.scan.model import ScanGrounder
from deixis.metrics.evaluate import Evaluation, Options, evaluate
from deixis.metrics.formats import Mention, Predictions, phrase_key
from deixis.metrics.references import Reference
from deixis.metrics.retrieval import retrieval
from deixis.metrics.score import Score
from deixis.pipelines.caption import DEFAULT, CaptionOptions, caption_stream, reranks
from deixis.pipelines.ground import check_place
from deixis.pipelines.models import Models, PhraseGrounder, backend_of, is_captioner, load_grounder, load_models
from deixis.pipelines.photo import Photo
from deixis.pipelines.place import place_rule
from deixis.pipelines.results import CaptionResult
from deixis.types import Grounding, HeatPlace, Phrase, Place

SCORING = Options(missing="skip")

Answers = dict[Mention, tuple[Grounding, ...]]
Boxes = npt.NDArray[np.float64]

PARSED_IMAGES = 64
"""Images whose captions are parsed together."""


@dataclass(frozen=True, eq=False)
class CaptionEvaluation:
    """Results of the caption pipeline on a split, and their scores."""

    results: Mapping[str, CaptionResult]  # by image
    predictions: Predictions
    evaluation: Evaluation


def evaluate_captions(
    models: Models,
    reference: Reference,
    photos: Mapping[str, Photo],
    options: CaptionOptions = DEFAULT,
    sign_options: bool = True,
    scoring: Options = SCORING,
) -> CaptionEvaluation:
    """Caption a split with the caption pipeline and score the sentences and their boxes.

    The scores are caption metrics, F1 and error analysis. If the boxes come from the captioner's attention, attention
    accuracy, phrase accuracy and pointing on the reference captions are added. The boxes of a grounder are scored by
    :func:`evaluate_grounder`. Without ``sign_options`` the signatures omit the options, so that runs with different
    options can be compared. ``scoring`` has the object classes and the jars of SPICE.
    """
    ids = [sample.image_id for sample in reference.samples if sample.image_id in photos]
    results = dict(zip(ids, caption_stream((photos[image] for image in ids), models, options), strict=True))
    metrics = ["captions"]
    answers: Answers = {}
    place = place_rule(models, options.place)
    if reference.phrases or has_boxed_frames(reference):
        metrics += ["grounding", "errors", "hallucination"]
        if place in ("attention", "vote") and (models.captioner.describes_clips or not reference.video):
            answers = attended_phrases(models, reference, photos, "vote" if place == "vote" else "attention")
            metrics += ["words"] if reference.video else ["words", "phrases"]
    captions = {image: replace(result.caption, image=image) for image, result in results.items()}
    predictions = Predictions(Path(models.captioner.name), "deixis", captions, phrases=answers)
    evaluation = evaluate(predictions, reference, replace(scoring, metrics=tuple(metrics)))
    if not reference.phrases and any(len(entity.boxes) for sample in reference.samples for entity in sample.entities):
        note = f"{reference.name} ({reference.split}) has boxes, but no phrases for them: grounding is not scored"
        evaluation = replace(evaluation, notes=(*evaluation.notes, note))
    if sign_options:
        rules, branches = models.captioner.generation, models.captioner.network.config.branches
        width = rules.rerank_beam or rules.beam if reranks(models, options) else rules.beam
        evaluation = sign(evaluation, place, options, f"{runtime_mark(models)}|{rules.mark(width, branches)}")
    return CaptionEvaluation(results, predictions, evaluation)


def has_boxed_frames(reference: Reference) -> bool:
    """Return whether the reference has video segments with boxes."""
    return reference.video and any(len(entity.boxes) for s in reference.samples for entity in s.entities)


def sign(evaluation: Evaluation, place: str, options: CaptionOptions, generation: str) -> Evaluation:
    """Add the rules of generation, the source of the boxes and the disabled pipeline steps to each signature."""
    words = "own" if place in ("attention", "vote") else "head"
    mark = f"{generation}|place:{place}|words:{words}"
    if options.rerank == "none":
        mark += "|rerank:none"
    if options.checks != DEFAULT.checks:
        mark += f"|checks:{'+'.join(options.checks) or 'none'}"
    return with_mark(evaluation, mark)


def runtime_mark(models: Models | PhraseGrounder) -> str:
    """Return the signature fields of the parser and, where networks run in torch and not on NumPy, of the backend."""
    networks = [models.captioner, models.grounder] if isinstance(models, Models) else [models]
    in_torch = any(one is not None and backend_of(one) == "torch" for one in networks)
    return f"parser:{parser_name()}{'|backend:torch' if in_torch else ''}"


def with_mark(evaluation: Evaluation, mark: str) -> Evaluation:
    """Append a text to the signature of each score."""
    scores = tuple(replace(score, signature=f"{score.signature}|{mark}") for score in evaluation.scores)
    return replace(evaluation, scores=scores)


def evaluate_grounder(
    grounder: PhraseGrounder,
    reference: Reference,
    photos: Mapping[str, Photo],
    place: Place | HeatPlace | None = None,
    proposals: Mapping[str, Boxes] | None = None,
    progress: Callable[[int], None] = lambda images: None,
) -> tuple[Predictions, Evaluation]:
    """Ground and score the phrases of a split, all phrases of a caption together.

    A matcher also gets retrieval scores, which need no boxes, and its attention accuracy at head words alone. ALBEF and
    AMC with published inputs read each data set as their evaluations do; ``proposals`` are boxes by image, of which
    their rule "alpha" selects. ``progress`` is called with the number of finished images.
    """
    mark = ""
    if proposals is not None:
        place = _check_proposals(grounder, reference, photos, proposals, place)
    elif place is not None:
        check_place(grounder, place)
    if isinstance(grounder, AlbefGrounder):
        grounder = grounder.for_data(reference.name)
        mark = input_mark(grounder)
    phrases = grounded_phrases(grounder, reference.samples, photos, place, proposals, progress)
    predictions = Predictions(Path(grounder.name), "deixis", phrases=phrases)
    result = Evaluation(())
    if predictions.phrases:
        metrics = ("words",) if reference.video else ("words", "phrases")
        result = evaluate(predictions, reference, Options(metrics=metrics, missing="skip"))
        if isinstance(grounder, ReirGrounder) and grounder.signature:
            result = with_mark(result, grounder.signature)
        result = with_mark(result, runtime_mark(grounder))
    elif not isinstance(grounder, ScanGrounder):
        raise DeixisError(
            f"{reference.name} ({reference.split}) has no phrases with boxes. Choose another data set or split."
        )
    if mark:
        scores = tuple(replace(score, signature=f"{score.signature}|{mark}") for score in result.scores)
        result = replace(result, scores=scores)
    if isinstance(grounder, ScanGrounder):
        at_head = head_accuracy(grounder, reference, photos) if result.scores else []
        result = replace(result, scores=(*result.scores, *at_head, *retrieve(grounder, reference, photos)))
    return predictions, result


def input_mark(grounder: AlbefGrounder) -> str:
    """Return the signature field of published inputs; empty for models with inputs of ours."""
    if not grounder.inputs.clean:
        return ""
    side = grounder.inputs.pixels or grounder.network.config.pixels
    return f"inputs:{side}px-{grounder.inputs.resize}-{grounder.inputs.max_words}words"


def _check_proposals(
    grounder: PhraseGrounder,
    reference: Reference,
    photos: Mapping[str, Photo],
    proposals: Mapping[str, Boxes],
    place: Place | HeatPlace | None,
) -> HeatPlace:
    """Return the box rule for given proposals; raise an error if it or an image's boxes are missing."""
    if not isinstance(grounder, AlbefGrounder) or place not in (None, "alpha"):
        raise DeixisError(
            "--proposals are boxes for the rule alpha of heat maps (ALBEF, AMC). Remove it, or use --place alpha."
        )
    absent = [s.image_id for s in reference.samples if s.image_id in photos and not len(proposals.get(s.image_id, ()))]
    if absent:
        raise DeixisError(f"--proposals has no boxes for {len(absent):,} images, such as {absent[0]}. Add their boxes.")
    return "alpha"


def evaluate_folder(
    model: Path,
    reference: Reference,
    photos: Mapping[str, Photo],
    grounder: Path | None = None,
    place: Place | HeatPlace | None = None,
    device: str = "auto",
) -> Evaluation:
    """Evaluate a captioner (with or without a grounder) or a phrase grounder, for a comparison of models.

    The caption checks are disabled, and signatures omit the options. ``place`` is the box rule of the grounding model.
    """
    if not is_captioner(model):
        return evaluate_grounder(load_grounder(model, device), reference, photos, place)[1]
    models, options = load_models(model, grounder or "none", device), CaptionOptions(checks=())
    if models.grounder is None:
        options = replace(options, place=place)
    elif place is not None:
        models = replace(models, grounder=with_box_rule(models.grounder, place))
    return evaluate_captions(models, reference, photos, options, sign_options=False).evaluation


def with_box_rule(grounder: PhraseGrounder, rule: Place | HeatPlace) -> PhraseGrounder:
    """Return a copy of a grounder with another default box rule."""
    check_place(grounder, rule)
    changed = copy(grounder)
    changed.ground = lambda photo, queries, place=None: grounder.ground(photo, queries, place or rule)  # type: ignore[method-assign]
    return changed


def head_phrases(grounder: ScanGrounder, samples: Sequence[Sample], photos: Mapping[str, Photo]) -> Answers:
    """Ground the phrases of a split with a matcher's attention at their head words, by the region of most attention."""
    usual = grounder.placing
    grounder.placing = replace(usual, words="head")
    try:
        return grounded_phrases(grounder, samples, photos, "attention")
    finally:
        grounder.placing = usual


def head_accuracy(grounder: ScanGrounder, reference: Reference, photos: Mapping[str, Photo]) -> list[Score]:
    """Compute ``attention_accuracy_head``: that of the word of the object alone (POS-SCAN, Table 1)."""
    phrases = head_phrases(grounder, reference.samples, photos)
    predictions = Predictions(Path(grounder.name), "deixis", phrases=phrases)
    found = evaluate(predictions, reference, Options(metrics=("words",), missing="skip")).scores
    return [
        replace(score, name="attention_accuracy_head", signature=f"{score.signature}|words:head")
        for score in found
        if score.name == "attention_accuracy"
    ]


def retrieve(grounder: ScanGrounder, reference: Reference, photos: Mapping[str, Photo]) -> list[Score]:
    """Compute image-text retrieval scores on a split, in both directions."""
    samples = [sample for sample in reference.samples if sample.image_id in photos and sample.captions]
    owner = [row for row, sample in enumerate(samples) for _ in sample.captions]
    regions = [photos[sample.image_id].regions(grounder.extractor) for sample in samples]
    similarities = grounder.scores(regions, [caption.text for sample in samples for caption in sample.captions])
    about = f"data:{reference.name}|split:{reference.split}|"
    scores = retrieval(similarities, [sample.image_id for sample in samples], owner=owner)
    return [replace(score, signature=about + score.signature) for score in scores]


def grounded_phrases(
    grounder: PhraseGrounder,
    samples: Sequence[Sample],
    photos: Mapping[str, Photo],
    place: Place | HeatPlace | None = None,
    proposals: Mapping[str, Boxes] | None = None,
    progress: Callable[[int], None] = lambda images: None,
) -> Answers:
    """Ground the phrases that have reference boxes, together with all other visible phrases of their caption.

    An image is encoded once for all its captions. Heat maps ground each phrase by itself, without the others.
    """
    answers: Answers = {}
    boxed: dict[str, list[tuple[Sample, int, Caption]]] = {}
    for sample, number, caption in _boxed_captions(samples, photos):
        boxed.setdefault(sample.image_id, []).append((sample, number, caption))
    alone, done = isinstance(grounder, AlbefGrounder), 0
    for some in _batched(boxed, PARSED_IMAGES):
        parses = iter(parse([caption.text for image in some for _, _, caption in boxed[image]]))
        for image in some:
            encoded = photos[image].encoded(grounder)
            if proposals is not None:
                encoded = replace(encoded, proposals=proposals[image])
            asked = [caption.phrases if alone else _visible(sample, number) for sample, number, caption in boxed[image]]
            queries = [caption_query(next(parses), phrases) for phrases in asked]
            found = iter(grounder.ground(encoded, queries, place))
            for (_, number, caption), phrases in zip(boxed[image], asked, strict=True):
                wanted = {(phrase.start, phrase.end) for phrase in caption.phrases}
                for phrase, one in zip(phrases, found, strict=False):
                    if (phrase.start, phrase.end) in wanted:
                        key = Mention(image, phrase_key(phrase.text), number, phrase.start)
                        answers[key] = (_without_heat(one),)
            progress(done := done + 1)
    return answers


def _visible(sample: Sample, number: int) -> tuple[Phrase, ...]:
    """Return the phrases of a caption that can be seen, with or without boxes."""
    return tuple(p for p in sample.captions[number].phrases if p.end > p.start and NOT_VISUAL not in p.types)


def _without_heat(one: Grounding) -> Grounding:
    """Replace a heat map by the position of its maximum, which the pointing game uses, to save memory."""
    return one if one.heat is None else replace(one, heat=None, heat_point=bicubic_maximum(one.heat))


def _batched(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(keys)
    while some := list(islice(remaining, size)):
        yield some


def attended_phrases(models: Models, reference: Reference, photos: Mapping[str, Photo], place: Place) -> Answers:
    """Ground phrases with the captioner's attention at their head noun; the reference captions are force-decoded."""
    captions: dict[str, list[tuple[int, Caption]]] = {}
    for sample, number, caption in _boxed_captions(reference.samples, photos):
        captions.setdefault(sample.image_id, []).append((number, caption))
    parses = iter(parse([caption.text for several in captions.values() for _, caption in several]))
    answers: Answers = {}
    for image, several in captions.items():
        regions = photos[image].regions(models.extractor)
        (decoded,) = models.captioner.force_decode([regions], [[caption.tokens for _, caption in several]])
        for (number, caption), candidate in zip(several, decoded, strict=True):
            parsed = next(parses)
            for phrase in caption.phrases:
                head, detector = head_of(parsed, phrase), models.extractor.is_detector
                one = ground_word(candidate.trace, head, phrase.text, regions, place, detector)
                answers[Mention(image, phrase_key(phrase.text), number, phrase.start)] = (one,)
    return answers


def _boxed_captions(samples: Sequence[Sample], photos: Mapping[str, Photo]) -> Iterator[tuple[Sample, int, Caption]]:
    """Yield the captions with the phrases whose entity has boxes."""
    for sample in samples:
        if sample.image_id in photos:
            boxed = {entity.id for entity in sample.entities if len(entity.boxes)}
            for number, caption in enumerate(sample.captions):
                phrases = tuple(p for p in caption.phrases if p.entity in boxed and p.end > p.start)
                if phrases:
                    yield sample, number, replace(caption, phrases=phrases)


def joint_supervision(captioner: str, grounder: str) -> str:
    """Return the supervision of a captioner and its grounder, from that of each."""
    return captioner if captioner == grounder else f"{captioner}; grounder: {grounder}"
