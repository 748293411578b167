"""Score predictions against a reference: applicable metrics, missing predictions, signatures."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.language.classes import ObjectClasses
from deixis.language.spacy_parse import SpacyMissing
from deixis.language.tokenise import tokens
from deixis.metrics import grounded_captions, object_words, phrases
from deixis.metrics.captions import caption_scores
from deixis.metrics.densevid import Event, densevid_scores
from deixis.metrics.error_analysis import error_scores, word_kinds
from deixis.metrics.formats import Mention, Predictions, phrase_key
from deixis.metrics.grounded_captions import Sentences
from deixis.metrics.hallucination import hallucination
from deixis.metrics.phrases import PhraseReference
from deixis.metrics.references import Reference
from deixis.metrics.score import Score
from deixis.types import GroundedCaption, Grounding, Json

GROUPS = {
    "captions": ("BLEU", "ROUGE-L", "CIDEr", "METEOR", "SPICE", "densevid"),
    "grounding": ("F1", "precision", "recall_all", "recall_loc", "classes_generated"),
    "errors": ("errors", "wrong"),
    "words": ("attention_accuracy",),
    "hallucination": ("CHAIR",),
    "phrases": ("accuracy", "mean_iou", "recall_at", "pointing", "baseline", "bound"),
    "retrieval": ("i2t", "t2i"),
}
"""Groups of metrics, with the prefixes of their score names."""

CURVES = ("accuracy_at_", "F1_all_frequency_")
"""Name prefixes of scores that are points of a curve; charts show them, tables may omit them."""

UNTRAINED = "no training split: object classes and their frequencies are taken from the scored split"

CAPTION_METRICS = ("BLEU", "ROUGE-L", "CIDEr", "METEOR", "SPICE")


@dataclass(frozen=True)
class Options:
    """Options of an evaluation."""

    metrics: tuple[str, ...] = ()  # groups or names of scores; empty: all applicable ones
    missing: Literal["error", "zero", "skip"] = "error"
    protocol: Literal["official", "paper"] = "official"
    accept_partial: bool = False  # a box inside the true box is correct: the upper bound of Distributed Attention
    lemmas: Mapping[str, str] | None = None  # word -> lemma; None: spaCy
    min_count: int | None = None  # minimum mentions of a class in training captions; see object_words.default_minimum
    proposals: Mapping[str, npt.NDArray[np.float64]] | None = None
    spice_jars: Path | None = None
    quiet: bool = False
    classes: ObjectClasses | None = None  # of a published list; None: those of the reference or of its training split
    eval_mode: str = ""  # of a GVD submission that does not state it: "gen" or "GT"


@dataclass(frozen=True)
class ClassCount:
    """Counts of one object class: mentions in training, words in the scored split, words with a correct box."""

    name: str
    trained: int
    count: int
    right: int


@dataclass(frozen=True)
class Evaluation:
    """Scores, absent metrics with reasons, and notes for the user."""

    scores: tuple[Score, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    classes: tuple[ClassCount, ...] = ()  # of the accuracy on reference sentences
    kinds: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # see error_analysis.word_kinds

    def to_json(self) -> Json:
        """Scores with their signatures, missing metrics and notes."""
        scores = {s.name: {"value": s.value, "signature": s.signature, "items": len(s.ids)} for s in self.scores}
        return {"scores": scores, "absent": dict(self.absent), "notes": list(self.notes)}


def evaluate(predictions: Predictions, reference: Reference, options: Options | None = None) -> Evaluation:
    """Compute all applicable scores, or those of ``options.metrics``.

    A missing prediction is an error. With ``missing="zero"`` it counts as wrong, as in the published evaluators. With
    ``missing="skip"`` its image or phrase is not scored. The signature contains the choice.
    """
    options = options or Options()
    requested = options.metrics
    if not predictions.images():
        raise DeixisError(
            f"{predictions.path} has no prediction for any image of the split '{reference.split}'. Check --split."
        )
    mode = _eval_mode(predictions, reference, options)
    guessed = mode and not (predictions.mode or options.eval_mode)
    groups = {group_of(metric) for metric in requested} or _applicable(predictions, reference, mode)
    _refuse_other_mode(predictions, groups, mode)
    run = _Run(predictions, reference, options)
    steps = {
        "captions": run.captions,
        "grounding": run.grounding,
        "errors": run.errors,
        "words": run.words,
        "hallucination": run.hallucination,
        "phrases": run.phrases,
    }
    lacking: dict[str, str] = {}
    for group, step in steps.items():
        if group in groups:
            try:
                step()
            except SpacyMissing as error:
                lacking[group] = f"needs lemmas of spaCy: {error}"
    if lacking and not run.scores:
        raise DeixisError(". ".join(f"{group} {reason}" for group, reason in lacking.items()))
    run.absent |= lacking
    scores = tuple(
        score for score in run.scores if not requested or any(covers(metric, score.name) for metric in requested)
    )
    for metric in requested:
        if not {metric, group_of(metric)} & run.absent.keys() and not any(
            covers(metric, score.name) for score in scores
        ):
            names = ", ".join(score.name for score in run.scores)
            raise DeixisError(f"'{metric}' cannot be computed from these predictions. Available: {names or 'none'}.")
    if guessed:
        run.notes.append(f'the file has no "eval_mode"; it is scored as {mode}. Give --eval-mode to state it')
    return Evaluation(scores, run.absent, (*predictions.notes, *run.notes), run.class_counts, run.kinds)


def generated_words(predictions: Predictions, reference: Reference, options: Options) -> Sentences:
    """Return the object words of generated captions as :func:`evaluate` counts them."""
    return _Run(predictions, reference, options).objects.predictions


def group_of(metric: str) -> str:
    """Group of a metric; the name of a group is its own group."""
    if metric in GROUPS:
        return metric
    found = next((group for group, prefixes in GROUPS.items() if metric.startswith(prefixes)), None)
    if found is None:
        raise DeixisError(f"Unknown metric '{metric}'. Choose groups ({', '.join(GROUPS)}) or names of scores.")
    return found


def covers(metric: str, name: str) -> bool:
    """Whether a metric selects a score: by its name, its family ("BLEU", "accuracy") or its group."""
    return metric == name or name.startswith((f"{metric}-", f"{metric}[")) or metric == group_of(name)


OF_MODE = {"gen": {"grounding", "errors", "hallucination"}, "GT": {"words"}}
"""Groups of metrics of the two kinds of GVD submissions: generated and ground-truth sentences."""


def _applicable(predictions: Predictions, reference: Reference, mode: str) -> set[str]:
    groups: set[str] = set()
    boxes = reference.sentences or any(len(e.boxes) for sample in reference.samples for e in sample.entities)
    grounded = predictions.sentences or any(caption.groundings for caption in predictions.captions.values())
    if predictions.captions and reference.captions:
        groups.add("captions")
    if boxes and grounded:
        groups |= OF_MODE[mode or "gen"]
    if predictions.phrases and reference.phrases:
        groups.add("phrases")
    if not groups:
        content = "phrases" if predictions.phrases else "captions"
        raise DeixisError(
            f"{predictions.path} contains {content}, but {reference.name} ({reference.split}) has no reference for "
            "them. Choose another reference, or set --metrics."
        )
    return groups


def _eval_mode(predictions: Predictions, reference: Reference, options: Options) -> str:
    """Return the mode of a GVD submission, "gen" or "GT"; refuse a file that contradicts it. "" for other files."""
    if not predictions.sentences:
        return ""
    if predictions.mode and options.eval_mode and predictions.mode != options.eval_mode:
        raise DeixisError(
            f'{predictions.path} has "eval_mode": "{predictions.mode}", but --eval-mode is {options.eval_mode}. '
            "Remove the option, or correct the file."
        )
    mode = options.eval_mode or predictions.mode
    expected = {image: len(reference.sentences[image]) for image in predictions.sentences if reference.sentences}
    entries = {image: len(found) for image, found in predictions.sentences.items()}
    if not mode and any(count > 1 for count in expected.values()):  # one generated sentence, several true ones
        mode = "gen" if set(entries.values()) == {1} else "GT"
    if not mode:
        mode = _mode_of_words(predictions, reference.sentences)
    for image, count in entries.items():
        wanted = 1 if mode == "gen" else expected.get(image, count)
        if count != wanted:
            kind = "generated sentences" if mode == "gen" else "ground-truth sentences"
            raise DeixisError(
                f"{predictions.path} has {count} entries of image {image}, but a file of {kind} (eval_mode {mode}) has "
                f"{wanted}. Correct the file or its eval_mode."
            )
    return mode


def _mode_of_words(predictions: Predictions, references: Sentences) -> str:
    """Return the mode of a file with one sentence per image that does not state it; refuse a doubtful one."""
    words = [
        (word, {true.index: true.name for true in references[image][0].objects} if image in references else {})
        for image, (sentence, *_) in predictions.sentences.items()
        for word in sentence.objects
    ]
    if not words or any(word.index not in known for word, known in words):
        return "gen"
    if all(known[word.index] == word.name for word, known in words):
        return "GT"
    raise DeixisError(
        f"{predictions.path} has boxes at the object words of the reference, but with other classes. Add "
        '"eval_mode": "gen" (generated sentences) or "GT" (ground-truth sentences) to the file, or give --eval-mode.'
    )


def _refuse_other_mode(predictions: Predictions, groups: set[str], mode: str) -> None:
    """Refuse metrics of generated sentences for a file of ground-truth sentences, and the other way round."""
    wrong = groups & set().union(*(names for kind, names in OF_MODE.items() if kind != mode)) if mode else set()
    if wrong:
        raise DeixisError(
            f"{predictions.path} has eval_mode {mode}, which has no scores of {', '.join(sorted(wrong))}. "
            f"Remove these --metrics; available: {', '.join(sorted(OF_MODE[mode]))}."
        )


@dataclass(frozen=True, eq=False)
class _Objects:
    """Captions as object words, lemmas, and the number of training mentions of each class."""

    references: Sentences
    predictions: Sentences
    lemmas: Mapping[str, str]
    frequency: Mapping[str, int]
    min_count: int | None  # of the classes; None if the reference has its own list of classes


class _Run:
    """State of one evaluation: each group of metrics has a method that adds its scores."""

    def __init__(self, predictions: Predictions, reference: Reference, options: Options) -> None:
        self.predictions = predictions
        self.reference = reference
        self.options = options
        self.scores: list[Score] = []
        self.absent: dict[str, str] = {}
        self.notes: list[str] = []
        self.class_counts: tuple[ClassCount, ...] = ()
        self.kinds: dict[str, dict[int, str]] = {}

    def captions(self) -> None:
        captions, references = self.predictions.captions, self.reference.captions
        if not captions or not references:
            raise DeixisError("Caption metrics need captions in the predictions and in the reference.")
        kept, missing = self.present(references, captions, "images")
        requested = [metric for metric in self.options.metrics if group_of(metric) == "captions"]
        names = [
            n for n in (*CAPTION_METRICS, "CIDEr-D", "CIDEr-plain") if any(a == n or covers(n, a) for a in requested)
        ]
        if "captions" in requested:
            requested = []
        if not requested:
            names = [*CAPTION_METRICS, *(name for name in names if name not in CAPTION_METRICS)]
        scores, self.absent = caption_scores(
            {image: tokens(captions[image].caption) if image in captions else () for image in kept},
            {image: references[image] for image in kept},
            names,
            spice_jars=self.options.spice_jars,
            tok="ptb",
        )
        self.add(scores, self.about(missing))
        if self.reference.video and self.reference.samples and not requested:
            dense = {image: captions[image].caption for image in kept if image in captions}
            predicted, true = dense_events(self.reference, dense, kept)
            self.add(densevid_scores(predicted, true), self.about(missing))

    def grounding(self) -> None:
        objects, about = self.objects_present()
        self.scores += grounded_captions.grounding_scores(
            objects.references, objects.predictions, self.protocol, objects.lemmas, objects.frequency, **about
        )
        self.scores.append(grounded_captions.classes_generated(objects.references, objects.predictions, **about))
        others = self.predictions.others
        if self.reference.video and self.options.missing == "zero" and self.options.protocol == "official" and others:
            self.scores = grounded_captions.per_file(self.scores, others)

    def errors(self) -> None:
        objects, about = self.objects_present()
        matches = grounded_captions.match_words(objects.references, objects.predictions, self.protocol, objects.lemmas)
        self.scores += error_scores(matches, self.protocol, **about)
        self.kinds = word_kinds(matches, self.protocol)

    def words(self) -> None:
        predicted: Sentences = self.predictions.sentences
        references = self.reference.sentences
        about: dict[str, object] = {}
        if self.reference.samples and self.predictions.phrases:
            predicted, references, about = self.phrase_words()
        if not predicted or not references:
            raise DeixisError(
                "The accuracy on reference sentences needs a GVD submission with GVD's reference file, or predictions "
                "for the phrases of a data set."
            )
        annotated = [image for image, sentences in references.items() if any(s.objects for s in sentences)]
        if not annotated:  # few training captions have few object classes
            self.absent["words"] = "no noun of the split is an object class of the training captions"
            return
        kept, missing = self.present(annotated, predicted, self.kind)
        kept_references = {image: references[image] for image in kept}
        accuracy = grounded_captions.word_accuracy(kept_references, predicted, self.protocol)
        classes = self.classes[0] if self.reference.samples else None
        trained = dict(zip(classes.names, classes.counts, strict=True)) if classes else self.reference.frequency
        counted = accuracy.per_class().items()
        self.class_counts = tuple(ClassCount(name, trained.get(name, 0), n, right) for name, (right, n) in counted)
        self.scores.append(grounded_captions.accuracy_score(accuracy, self.protocol, **self.about(missing), **about))

    def phrase_words(self) -> tuple[Sentences, Sentences, dict[str, object]]:
        """Object words of the reference captions as predicted and as annotated, and fields of the signature."""
        options, samples = self.options, self.reference.samples
        places = self.phrase_places()
        classes, minimum = self.classes
        answered = {image for image, _, _ in places}
        with_boxes = [sample for sample in samples if sample.image_id in answered]
        predicted = object_words.predicted_sentences(with_boxes, classes, places, options.lemmas, options.quiet)
        references = object_words.reference_sentences(samples, classes, options.lemmas, options.quiet)
        return predicted, references, {"lemma": self.lemma_name, "min_count": minimum}

    def phrase_places(self) -> dict[tuple[str, int, int], object_words.Place]:
        """Predicted places by image, caption number and first word of the phrase."""
        if self.reference.video:  # phrases of a video have no answers by their words alone
            given = self.predictions.phrases.items()
            return {
                (mention.image, mention.caption, mention.start): object_words.place_of(found[0])
                for mention, found in given
                if mention.caption is not None and mention.start is not None
            }
        answers, _ = _answers(self.reference.phrases, self.predictions.phrases)
        return {
            (reference.image, reference.caption, reference.start): object_words.place_of(answers[reference.id][0])
            for reference in self.reference.phrases
            if reference.id in answers and reference.caption is not None and reference.start is not None
        }

    def hallucination(self) -> None:
        objects, about = self.objects_present()
        # A missing caption has no mentions. A class in a reference caption is present, with or without a box.
        kept = [image for image in objects.references if image in objects.predictions]
        mentioned = {image: [word.name for word in objects.predictions[image][0].objects] for image in kept}
        present = {
            image: {
                *(word.name for sentence in objects.references[image] for word in sentence.objects),
                *(objects.lemmas.get(t, t) for sentence in objects.references[image] for t in sentence.tokens),
            }
            for image in kept
        }
        self.add(hallucination(mentioned, present), {**about, "present": "captions"})

    def phrases(self) -> None:
        references = self.reference.phrases
        if not references:
            raise DeixisError("The reference has no phrases with boxes. Use a data set such as Flickr30k Entities.")
        answers, unknown = _answers(references, self.predictions.phrases or _phrases_of(self.predictions.captions))
        if unknown:
            others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            problem = f"the phrase '{unknown[0].phrase}' of image {unknown[0].image}{others} is not in the reference"
            if self.options.missing == "error":
                raise DeixisError(f"{self.predictions.path}: {problem}. Use the phrases of the reference.")
            self.notes.append(f"{problem} and was skipped")
        kept, missing = self.present([reference.id for reference in references], answers, "phrases")
        chosen = set(kept)
        references = tuple(reference for reference in references if reference.id in chosen)
        protocol = phrases.FLICKR30K if self.reference.name == "flickr30k_entities" else phrases.REFER
        self.scores += phrases.phrase_scores(references, answers, protocol, (1, 5, 10), **self.about(missing))
        self.scores += phrases.baselines(references, protocol, self.options.proposals, **self.about(missing))

    # Shared by several groups

    @property
    def kind(self) -> str:
        return "segments" if self.reference.video else "images"

    @property
    def protocol(self) -> grounded_captions.Protocol:
        official = grounded_captions.ACTIVITYNET if self.reference.video else grounded_captions.FLICKR30K
        chosen = grounded_captions.PAPER if self.options.protocol == "paper" else official
        return replace(chosen, partial=self.options.accept_partial)

    def about(self, missing: bool) -> dict[str, object]:
        """First fields of each signature; includes the treatment of missing predictions if there are any."""
        about: dict[str, object] = {"data": self.reference.name, "split": self.reference.split}
        return {**about, "missing": self.options.missing} if missing else about

    def add(self, scores: Sequence[Score], about: Mapping[str, object]) -> None:
        begin = "".join(f"{name}:{value}|" for name, value in about.items())
        self.scores += [replace(score, signature=begin + score.signature) for score in scores]

    def present(self, expected: Collection[str], given: Collection[str], what: str) -> tuple[list[str], bool]:
        """Return the expected names that are scored, and whether any prediction is missing."""
        absent = [name for name in expected if name not in given]
        if not absent:
            return list(expected), False
        listed = ", ".join(f"'{name}'" for name in absent[:3]) + (", ..." if len(absent) > 3 else "")
        problem = f"{len(absent)} of {len(expected)} {what} have no prediction: {listed}"
        if self.options.missing == "error":
            raise DeixisError(
                f"{self.predictions.path}: {problem}. Use --missing zero to count them as wrong, as the published "
                "evaluators do, or --missing skip to leave them out."
            )
        if len(absent) == len(expected):
            raise DeixisError(f"{self.predictions.path} has no prediction for any of the {len(expected)} {what}.")
        note = f"{problem}; {'they count as wrong' if self.options.missing == 'zero' else 'they are left out'}"
        if note not in self.notes:
            self.notes.append(note)
        return [name for name in expected if name in given or self.options.missing == "zero"], True

    def objects_present(self) -> tuple[_Objects, dict[str, object]]:
        """Object words of the scored images, and the first fields of the signature."""
        objects = self.objects
        kept, missing = self.present(objects.references, objects.predictions, self.kind)
        references = {image: objects.references[image] for image in kept}
        about = {**self.about(missing), "lemma": self.lemma_name}
        if objects.min_count is not None:
            about["min_count"] = objects.min_count
        if self.options.classes is not None:
            about["object_classes"] = _class_list_name(self.options.classes)
        return replace(objects, references=references), about

    @property
    def lemma_name(self) -> str:
        if self.options.lemmas is None:
            return f"spacy-{version('spacy')}"
        text = json.dumps(self.options.lemmas, sort_keys=True, ensure_ascii=False)
        return f"map-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @cached_property
    def classes(self) -> tuple[ObjectClasses, int | None]:
        """Object classes of a data set, and their minimum count in training (None for video data sets)."""
        given = self.options.classes or self.reference.classes
        training = self.reference.training()
        if not training:
            self.notes.append(UNTRAINED)
        if given is not None:
            samples = training or self.reference.samples
            found = object_words.find_classes(samples, 1, self.options.lemmas, self.options.quiet)
            return _with_counts(given, dict(zip(found.names, found.counts, strict=True))), None
        minimum = object_words.default_minimum(len(training)) if training else 1
        if training and self.options.min_count is not None:
            minimum = self.options.min_count
        samples = training or self.reference.samples
        classes = object_words.find_classes(samples, minimum, self.options.lemmas, self.options.quiet)
        if not classes.names:
            raise DeixisError(f"No object class has {minimum} mentions in the training captions. Lower --min-count.")
        return classes, None if self.reference.video else minimum

    @cached_property
    def objects(self) -> _Objects:
        """Object words of references and predictions."""
        if not self.predictions.captions and not self.predictions.sentences:
            raise DeixisError(f"{self.predictions.path} contains phrases, not captions. Use --metrics phrases.")
        lemmas, quiet = self.options.lemmas, self.options.quiet
        captions = self.predictions.captions
        if self.reference.sentences:
            references, known = object_words.lemmatise(self.reference.sentences, lemmas, quiet)
            counts = self.reference.frequency or _count(references)
            if self.options.classes is not None:
                classes = _with_counts(self.options.classes, counts)
            else:
                classes = object_words.named_classes(counts, captions.values(), lemmas, quiet)
            minimum = None
            if not self.reference.frequency:
                self.notes.append(UNTRAINED)
        else:
            classes, minimum = self.classes
            references, known = object_words.reference_sentences(self.reference.samples, classes, lemmas, quiet), {}
        predicted = self.predictions.sentences or object_words.predicted_words(captions, classes, quiet)
        frequency = dict(zip(classes.names, classes.counts, strict=True))
        return _Objects(references, predicted, known, frequency, minimum)


def dense_events(
    reference: Reference, captions: Mapping[str, str], kept: Collection[str]
) -> tuple[dict[str, list[Event]], list[dict[str, list[Event]]]]:
    """Return generated and reference captions of video segments by video; caption k is in reference k."""
    predicted: dict[str, list[Event]] = {}
    true: list[dict[str, list[Event]]] = []
    chosen = set(kept)
    for sample in reference.samples:
        if sample.image_id not in chosen:
            continue
        video, place = video_of(sample.image_id), sample.segment
        start, end = (0.0, 1.0) if place is None or place.end == np.inf else (place.start, place.end)
        if sample.image_id in captions:
            text = captions[sample.image_id]
            predicted.setdefault(video, []).append(Event(start, end, tokens(text), text))
        for number, caption in enumerate(sample.captions):
            if number == len(true):
                true.append({})
            true[number].setdefault(video, []).append(Event(start, end, caption.tokens, caption.text))
    return predicted, true


def video_of(segment: str) -> str:
    """Return the id of the video of a segment: before ``_segment_`` or ``#``."""
    return segment.partition("_segment_")[0].partition("#")[0]


def _with_counts(classes: ObjectClasses, counts: Mapping[str, int]) -> ObjectClasses:
    """Return the classes with their numbers of training mentions."""
    return replace(classes, counts=tuple(counts.get(name, 0) for name in classes.names))


def _class_list_name(classes: ObjectClasses) -> str:
    text = json.dumps([classes.names, dict(classes.words)], sort_keys=True, ensure_ascii=False)
    return f"{len(classes)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _count(sentences: Sentences) -> Counter[str]:
    """Count the object words of each class."""
    return Counter(word.name for group in sentences.values() for sentence in group for word in sentence.objects)


def _phrases_of(captions: Mapping[str, GroundedCaption]) -> dict[Mention, tuple[Grounding, ...]]:
    """Groundings of captions as phrase predictions; the first one counts if a phrase occurs twice."""
    found: dict[Mention, tuple[Grounding, ...]] = {}
    for image, caption in captions.items():
        for grounding in caption.groundings:
            found.setdefault(Mention(image, phrase_key(grounding.text)), (grounding,))
    return found


def _answers(
    references: Sequence[PhraseReference], given: Mapping[Mention, tuple[Grounding, ...]]
) -> tuple[dict[str, tuple[Grounding, ...]], list[Mention]]:
    """Return reference id -> candidates, and the mentions without a reference phrase.

    The most specific mention is used: caption and start, then caption alone, then the words alone.
    """
    answers: dict[str, tuple[Grounding, ...]] = {}
    used: set[Mention] = set()
    for reference in references:
        phrase = phrase_key(reference.phrase)
        for caption, start in ((reference.caption, reference.start), (reference.caption, None), (None, None)):
            mention = Mention(reference.image, phrase, caption, start)
            used.add(mention)
            if mention in given:
                answers.setdefault(reference.id, given[mention])
    return answers, [mention for mention in given if mention not in used]
