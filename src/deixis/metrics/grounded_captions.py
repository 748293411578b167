"""How well the object words of captions are grounded: F1_all and F1_loc, per class and per sentence.

The protocol is the one of Zhou et al., Grounded Video Description (GVD), for Flickr30k Entities and ActivityNet
Entities; the scores per sentence are those of Ma et al. (Cyclical). An *object word* is a word of a sentence that
stands for a class and has boxes. With

A = object words said, B = object words of the reference, C = words said whose class is in the reference,
D = words of the reference whose class was said, E = words with the right class and the right box,

precision_all = E/A, recall_all = E/B, precision_loc = E/C, recall_loc = E/D. The scores per class average these over
the classes before F1 is taken; the scores per sentence take F1 of each sentence and average that.

What papers leave open, and the published evaluators decide, is a field of :class:`Protocol` and part of every score's
signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.metrics.overlaps import inside, paired_iou, without_extra_pixel
from deixis.metrics.score import RULES, Score, Values, make_score, signature
from deixis.types import Box

Mode = Literal["all", "loc"]
MODES: tuple[Mode, Mode] = ("all", "loc")

Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ObjectWord:
    """A word of a sentence that stands for an object class, and its place in the picture."""

    name: str  # the class, e.g. "man" for the word "men"
    index: int  # position of the word in its sentence
    boxes: tuple[Box, ...]
    frames: tuple[int, ...] = ()  # the frame of each box in a video segment; empty for a photograph

    def __post_init__(self) -> None:
        if self.frames and len(self.frames) != len(self.boxes):
            raise ValueError(f"'{self.name}' has {len(self.boxes)} boxes and {len(self.frames)} frames")


@dataclass(frozen=True)
class Sentence:
    """A sentence with its object words. Predictions may leave out the tokens: only the reference's are looked at."""

    objects: tuple[ObjectWord, ...]
    tokens: tuple[str, ...] = ()


Sentences = Mapping[str, Sequence[Sentence]]
"""Image (or video segment) -> its sentences."""


@dataclass(frozen=True)
class Protocol:
    """Where evaluators differ. The defaults are those of the published Flickr30k evaluator."""

    threshold: float = 0.5  # a box is right when its IoU is strictly greater
    extra_pixel: bool = True  # sides are x2 - x1 + 1 of inclusive corners (the project's boxes as they are)
    refs: Literal["each", "pool"] = "each"
    # each: the caption is compared with every reference in turn, so a word counts up to five times;
    # pool: once, with the distinct (class, box) pairs of all references together
    match: Literal["first", "any"] = "first"  # which word of the same class has to be met on the other side
    classes: Literal["submitted", "reference"] = "submitted"
    # the classes that the average runs over: those of the images that have a prediction, or of all images
    unannotated: Literal["excused", "wrong"] = "excused"
    # a word said that the reference has too, but without a box: left out of the precision, or wrong
    bare: Literal["counted", "skipped"] = "counted"  # a reference sentence without any box
    sentences: Literal["predicted", "annotated"] = "predicted"  # what the scores per sentence average over
    average: Literal["class", "word"] = "class"  # of the accuracy on reference sentences
    partial: bool = False  # a box inside the true one is right too: Distributed Attention's upper bound (Sec. 4.5)

    def describe(self) -> dict[str, object]:
        """The fields of a signature."""
        iou = f">{self.threshold:g}{'+1px' if self.extra_pixel else ''}{' or inside' if self.partial else ''}"
        return {
            "refs": self.refs,
            "iou": iou,
            "match": self.match,
            "unannotated": self.unannotated,
            "bare": self.bare,
        }


FLICKR30K = Protocol()
"""GVD's evaluator for Flickr30k Entities."""
ACTIVITYNET = Protocol(bare="skipped")
"""The ActivityNet Entities evaluator: a segment that nobody annotated says nothing about the words said there."""
PAPER = Protocol(refs="pool", match="any", classes="reference", bare="skipped", sentences="annotated")
"""The papers' words taken literally: one pool of five captions, any box of the class, all classes of the split."""


# Which word meets which ---------------------------------------------------------------------------------------------

NO_SUCH_CLASS, NO_PREDICTION = -1, -2
"""In place of the number of a pair: the other side does not have the class, or the image has no prediction."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Every object word said and every object word of the references, with what it met on the other side.

    A match is the number of a pair, for ``iou[pair]`` and so on, or NO_SUCH_CLASS, or NO_PREDICTION.
    """

    ids: tuple[str, ...]  # [n] images or segments, in the order of the reference
    classes: tuple[str, ...]  # [C] sorted
    said_item: Ints  # [A] which image
    said_class: Ints  # [A] index into classes; -1 for a class that no reference has
    said_match: Ints  # [A]
    said_word: Ints  # [A] position in its sentence
    shown_item: Ints  # [B]
    shown_class: Ints  # [B]
    shown_match: Ints  # [B]
    predicted: Bools  # [n]
    annotated: Bools  # [n] whether any word of the reference has a box
    iou: Values  # [pairs] the best IoU of the two words' boxes, on a common frame
    partial: Bools  # [pairs] that prediction lies inside the true box
    enlarged: Bools  # [pairs] that prediction holds the true box inside itself


def match_words(
    references: Sentences,
    predictions: Sentences,
    protocol: Protocol = FLICKR30K,
    lemmas: Mapping[str, str] | None = None,
) -> Matches:
    """Bring the words of one generated caption per image together with the words of its references.

    ``lemmas`` maps words to lemmas; a word that is not in it is its own lemma. It decides only which words said are
    excused because the reference has them without a box.
    """
    lemmas = lemmas or {}
    number = _number_classes(references)
    pairs = _Pairs()
    said: list[tuple[int, ...]] = []
    shown: list[tuple[int, ...]] = []
    for item, (image, sentences) in enumerate(references.items()):
        words = None if image not in predictions else _only_sentence(image, predictions[image]).objects
        for objects, excused in _views(sentences, protocol, lemmas):
            if not objects and protocol.bare == "skipped":
                continue
            if words is None:
                shown.extend((item, number[word.name], NO_PREDICTION) for word in objects)
                continue
            true, mine = _by_class(objects), _by_class(words, in_order=True)
            if protocol.match == "first":
                true = {name: group[:1] for name, group in true.items()}
                mine = {name: group[:1] for name, group in mine.items()}
            for word in words:
                if word.name in true:
                    said.append((item, number[word.name], pairs.add([word], true[word.name]), word.index))
                elif lemmas.get(word.name, word.name) not in excused:
                    said.append((item, number.get(word.name, -1), NO_SUCH_CLASS, word.index))
            for word in objects:
                met = pairs.add(mine[word.name], [word]) if word.name in mine else NO_SUCH_CLASS
                shown.append((item, number[word.name], met))
    iou, partial, enlarged = pairs.measure(protocol.extra_pixel)
    said_table, shown_table = _table(said, 4), _table(shown, 3)
    return Matches(
        ids=tuple(references),
        classes=tuple(number),
        said_item=said_table[:, 0],
        said_class=said_table[:, 1],
        said_match=said_table[:, 2],
        said_word=said_table[:, 3],
        shown_item=shown_table[:, 0],
        shown_class=shown_table[:, 1],
        shown_match=shown_table[:, 2],
        predicted=np.array([image in predictions for image in references]),
        annotated=np.array([any(s.objects for s in sentences) for sentences in references.values()]),
        iou=iou,
        partial=partial,
        enlarged=enlarged,
    )


def _hits(matches: Matches, protocol: Protocol) -> Bools:
    """Which matches are correctly localised, to be indexed with a match: pairs, then the two that are none."""
    hit = matches.iou > protocol.threshold
    return np.append(hit | matches.partial if protocol.partial else hit, [False, False])


def _number_classes(references: Sentences) -> dict[str, int]:
    """The classes of the reference's object words in alphabetical order, numbered."""
    if not references:
        raise DeixisError("the reference holds no image; is this the right split?")
    names = sorted({word.name for sentences in references.values() for s in sentences for word in s.objects})
    if not names:
        raise DeixisError("the reference holds no word with a box; is this the right split?")
    return {name: i for i, name in enumerate(names)}


def _only_sentence(image: str, sentences: Sequence[Sentence]) -> Sentence:
    if len(sentences) != 1:
        raise DeixisError(f"image {image} has {len(sentences)} generated captions; give exactly one.")
    return sentences[0]


def _views(
    sentences: Sequence[Sentence], protocol: Protocol, lemmas: Mapping[str, str]
) -> list[tuple[Sequence[ObjectWord], set[str]]]:
    """What the caption is compared with: object words, and the lemmas that are excused."""
    views: list[tuple[Sequence[ObjectWord], set[str]]] = [
        (s.objects, _excused(s, lemmas) if protocol.unannotated == "excused" else set()) for s in sentences
    ]
    if protocol.refs == "each" or len(views) < 2:
        return views
    # a thing that all five captions name stands in the pool once
    pool = {(word.name, word.boxes, word.frames): word for objects, _ in views for word in objects}
    return [(tuple(pool.values()), set().union(*(excused for _, excused in views)))]


def _excused(sentence: Sentence, lemmas: Mapping[str, str]) -> set[str]:
    annotated = {word.index for word in sentence.objects}
    return {lemmas.get(t, t) for i, t in enumerate(sentence.tokens) if i not in annotated and t}


def _by_class(words: Sequence[ObjectWord], in_order: bool = False) -> dict[str, list[ObjectWord]]:
    groups: dict[str, list[ObjectWord]] = {}
    for word in words if in_order else sorted(words, key=lambda word: word.index):
        groups.setdefault(word.name, []).append(word)
    return groups


def _table(rows: list[tuple[int, ...]], columns: int) -> Ints:
    return np.array(rows, dtype=np.intp).reshape(-1, columns)


@dataclass
class _Pairs:
    """Pairs of words whose boxes are measured all at once; a pair may stand for several boxes on either side."""

    count: int = 0
    owner: list[int] = field(default_factory=list)
    said: list[Box] = field(default_factory=list)
    shown: list[Box] = field(default_factory=list)

    def add(self, said: Sequence[ObjectWord], shown: Sequence[ObjectWord]) -> int:
        for mine in said:
            for true in shown:
                for at, box in enumerate(true.boxes):
                    for other, guess in enumerate(mine.boxes):
                        # without frames on either side every box can meet every other
                        if not true.frames or not mine.frames or true.frames[at] == mine.frames[other]:
                            self.owner.append(self.count)
                            self.said.append(guess)
                            self.shown.append(box)
        self.count += 1
        return self.count - 1

    def measure(self, extra_pixel: bool) -> tuple[Values, Bools, Bools]:
        """IoU, partial and enlarged ``[pairs]`` of the best-fitting boxes of each pair."""
        said = np.array(self.said, dtype=np.float64).reshape(-1, 4)
        shown = np.array(self.shown, dtype=np.float64).reshape(-1, 4)
        # a box of one pixel stands for "no box" in GVD's files
        empty = _one_pixel(said) | _one_pixel(shown)
        if not extra_pixel:
            said, shown = without_extra_pixel(said), without_extra_pixel(shown)
        overlap = np.where(empty, 0.0, paired_iou(said, shown))
        owner = np.array(self.owner, dtype=np.intp)
        # written worst first, so that the best box of each pair stays
        order = np.argsort(overlap, kind="stable")
        best = np.full(self.count, -1, dtype=np.intp)
        best[owner[order]] = order
        has = best >= 0
        iou, partial, enlarged = np.zeros(self.count), np.zeros(self.count, bool), np.zeros(self.count, bool)
        iou[has] = overlap[best[has]]
        partial[has] = (inside(said, shown) & ~empty)[best[has]]
        enlarged[has] = (inside(shown, said) & ~empty)[best[has]]
        return iou, partial, enlarged


def _one_pixel(boxes: Values) -> Bools:
    return np.all(boxes[:, 2:] - boxes[:, :2] <= 1 + 1e-6, axis=1)


# Scores per class ---------------------------------------------------------------------------------------------------

# the columns of one class in the statistics of the scores per class
SAID_RIGHT, SAID, SHOWN_RIGHT, SHOWN, IN_AVERAGE = range(5)


def _class_precision_recall(sums: Values) -> tuple[Values, Values, Bools]:
    """Precision, recall and whether the class is in the average, each ``[B, C]``, from sums ``[B, 5 C]``."""
    table = sums.reshape(len(sums), -1, 5)

    def over(hits: int, count: int) -> Values:
        return np.divide(
            table[..., hits], table[..., count], out=np.zeros(table.shape[:2]), where=table[..., count] > 0
        )

    return over(SAID_RIGHT, SAID), over(SHOWN_RIGHT, SHOWN), table[..., IN_AVERAGE] > 0


def _mean_over(values: Values, kept: Bools) -> Values:
    # the published evaluators divide by the classes in the average and sum over all
    count = kept.sum(1)
    return np.divide(values.sum(1), count, out=np.zeros(len(values)), where=count > 0)


def harmonic(precision: Values, recall: Values) -> Values:
    """F1; 0 where both are."""
    total = precision + recall
    return np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)


def _class_precision(sums: Values) -> Values:
    precision, _, kept = _class_precision_recall(sums)
    return _mean_over(precision, kept)


def _class_recall(sums: Values) -> Values:
    _, recall, kept = _class_precision_recall(sums)
    return _mean_over(recall, kept)


def _class_f1(sums: Values) -> Values:
    return harmonic(_class_precision(sums), _class_recall(sums))


def _mean_class_f1(sums: Values) -> Values:
    precision, recall, kept = _class_precision_recall(sums)
    return _mean_over(harmonic(precision, recall), kept)


def _class_accuracy(sums: Values) -> Values:
    table = sums.reshape(len(sums), -1, 2)  # right, count of each class
    count = table[..., 1]
    accuracy = np.divide(table[..., 0], count, out=np.zeros(count.shape), where=count > 0)
    return _mean_over(accuracy, count > 0)


RULES |= {
    "class precision": _class_precision,
    "class recall": _class_recall,
    "class F1": _class_f1,
    "mean of class F1": _mean_class_f1,
    "class accuracy": _class_accuracy,
}


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Hits and counts per image and class, ``table [n, C, 5]``: words said and right, words said, words of the
    reference found and right, words of the reference, and whether the class is in the average."""

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    table: Values

    def per_class(self) -> dict[str, tuple[int, int, int, int]]:
        """Class -> (right, said, right, shown) over all images: the two fractions are precision and recall."""
        total = self.table.sum(0).astype(int)
        return {name: (int(t[0]), int(t[1]), int(t[2]), int(t[3])) for name, t in zip(self.classes, total, strict=True)}


def class_counts(matches: Matches, mode: Mode, protocol: Protocol = FLICKR30K) -> ClassCounts:
    """Counts behind F1_all ("all") or F1_loc ("loc": only words whose class is on both sides)."""
    table = np.zeros((len(matches.ids), len(matches.classes), 5))
    hit = _hits(matches, protocol)
    # a word of a class that no reference has can only be wrong, and its class is in no average
    said = matches.said_class >= 0
    shown = np.ones(len(matches.shown_class), bool)
    if mode == "loc":
        said &= matches.said_match >= 0
        # words of an image without prediction count in recall_loc too, as in the published evaluators
        shown &= matches.shown_match != NO_SUCH_CLASS
    for column, item, cls, weight in (
        (SAID_RIGHT, matches.said_item[said], matches.said_class[said], hit[matches.said_match[said]]),
        (SAID, matches.said_item[said], matches.said_class[said], 1),
        (SHOWN_RIGHT, matches.shown_item[shown], matches.shown_class[shown], hit[matches.shown_match[shown]]),
        (SHOWN, matches.shown_item[shown], matches.shown_class[shown], 1),
        (IN_AVERAGE, matches.shown_item, matches.shown_class, _in_average(matches, protocol)),
    ):
        np.add.at(table[..., column], (item, cls), weight)
    return ClassCounts(matches.ids, matches.classes, table)


def _in_average(matches: Matches, protocol: Protocol) -> Values:
    if protocol.classes == "submitted":
        return (matches.shown_match != NO_PREDICTION).astype(np.float64)
    return np.ones(len(matches.shown_match))


def class_scores(counts: ClassCounts, mode: str, protocol: Protocol = FLICKR30K, **about: object) -> list[Score]:
    """F1, precision and recall averaged over classes, e.g. ``F1_all``; ``about`` begins the signature."""
    stats = counts.table.reshape(len(counts.ids), -1)
    mark = signature(**about, **protocol.describe(), classes=protocol.classes)
    names = {"F1": "class F1", "precision": "class precision", "recall": "class recall"}
    return [_table_score(f"{name}_{mode}", counts.ids, stats, rule, mark) for name, rule in names.items()]


def frequency_scores(
    counts: ClassCounts, frequency: Mapping[str, int], bins: int = 10, protocol: Protocol = FLICKR30K, **about: object
) -> list[Score]:
    """The mean F1_all of the classes of each frequency group, most frequent first (Cyclical, Fig. 4).

    ``frequency`` says how often each class was annotated in training. Ties go by name. Groups differ in size by one
    class at most. A class of which only precision or only recall is there has an F1 of 0.
    """
    order = sorted(range(len(counts.classes)), key=lambda c: (-frequency.get(counts.classes[c], 0), counts.classes[c]))
    groups = [group for group in np.array_split(np.array(order, dtype=np.intp), bins) if len(group)]
    mark = signature(**about, **protocol.describe(), classes=protocol.classes)
    return [
        _table_score(
            f"F1_all_frequency_{i}of{len(groups)}",
            counts.ids,
            counts.table[:, group].reshape(len(counts.ids), -1),
            "mean of class F1",
            mark,
        )
        for i, group in enumerate(groups, start=1)
    ]


def _table_score(name: str, ids: Sequence[str], stats: Values, rule: str, mark: str) -> Score:
    items = np.where(stats.any(1), RULES[rule](stats), np.nan)
    return make_score(name, ids, items, stats, rule, mark)


# Scores per sentence ------------------------------------------------------------------------------------------------


def sentence_protocol(references: Sentences, protocol: Protocol = FLICKR30K) -> Protocol:
    """How words are matched for the scores per sentence.

    Against several references they are pooled and any box of the class will do, as the Cyclical paper says; against
    one reference nothing changes.
    """
    several = any(len(sentences) > 1 for sentences in references.values())
    return replace(protocol, refs="pool", match="any") if several else protocol


def sentence_scores(matches: Matches, mode: Mode, protocol: Protocol = FLICKR30K, **about: object) -> list[Score]:
    """F1, precision and recall of each generated sentence, averaged over sentences, e.g. ``F1_all_per_sent``.

    ``protocol`` is the one the matches were made with, see :func:`sentence_protocol`. The published evaluator
    averages over all predicted sentences but those that are annotated and have no recall to speak of, so that a
    prediction for a segment without annotation counts as 0 (``sentences:predicted``). With ``sentences:annotated``
    the average runs over the annotated sentences; one of which no object word was said is wrong in F1_all and left
    out of F1_loc.
    """
    n = len(matches.ids)
    hit = _hits(matches, protocol)
    said = np.ones(len(matches.said_match), bool) if mode == "all" else matches.said_match >= 0
    shown = np.ones(len(matches.shown_match), bool) if mode == "all" else matches.shown_match != NO_SUCH_CLASS
    counts = [
        np.bincount(matches.said_item[said], hit[matches.said_match[said]], n),
        np.bincount(matches.said_item[said], minlength=n),
        np.bincount(matches.shown_item[shown], hit[matches.shown_match[shown]], n),
        np.bincount(matches.shown_item[shown], minlength=n),
    ]
    precision = np.divide(counts[0], counts[1], out=np.zeros(n), where=counts[1] > 0)
    recall = np.divide(counts[2], counts[3], out=np.zeros(n), where=counts[3] > 0)
    if protocol.sentences == "predicted":
        counted = matches.predicted & ((counts[3] > 0) | ~matches.annotated)
    else:
        counted = matches.annotated & (counts[3] > 0)
    mark = signature(**about, **protocol.describe(), sentences=protocol.sentences)
    values = {"F1": harmonic(precision, recall), "precision": precision, "recall": recall}
    return [
        make_score(
            f"{name}_{mode}_per_sent",
            matches.ids,
            np.where(counted, value, np.nan),
            np.stack([np.where(counted, value, 0.0), counted], axis=1),
            "mean",
            mark,
        )
        for name, value in values.items()
    ]


# Accuracy on reference sentences ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WordAccuracy:
    """Hits and counts per image and class, ``table [n, C, 2]``, of boxes for the words of reference sentences."""

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    table: Values

    def per_class(self) -> dict[str, tuple[int, int]]:
        """Class -> (right, count) over all images."""
        total = self.table.sum(0).astype(int)
        return {name: (int(t[0]), int(t[1])) for name, t in zip(self.classes, total, strict=True)}


def word_accuracy(references: Sentences, predictions: Sentences, protocol: Protocol = FLICKR30K) -> WordAccuracy:
    """Whether the box predicted at each object word of each reference sentence is right.

    A prediction has as many sentences as the image has references, in their order, and is looked up by the word's
    position. A word without a box, or of an image without a prediction, is wrong.
    """
    number = _number_classes(references)
    pairs = _Pairs()
    rows: list[tuple[int, ...]] = []
    for item, (image, sentences) in enumerate(references.items()):
        guesses = predictions.get(image)
        if guesses is not None and len(guesses) != len(sentences):
            raise DeixisError(
                f"image {image} has {len(guesses)} grounded sentences where the reference has {len(sentences)}; "
                "give one for each reference sentence, in the same order."
            )
        for at, sentence in enumerate(sentences):
            mine: dict[int, ObjectWord] = {}
            for word in guesses[at].objects if guesses is not None else ():
                mine.setdefault(word.index, word)
            for word in sentence.objects:
                met = pairs.add([mine[word.index]], [word]) if word.index in mine else -1
                rows.append((item, number[word.name], met))
    iou, partial, _ = pairs.measure(protocol.extra_pixel)
    hit = np.append(iou > protocol.threshold, False)
    if protocol.partial:
        hit |= np.append(partial, False)
    found = _table(rows, 3)
    table = np.zeros((len(references), len(number), 2))
    np.add.at(table[..., 0], (found[:, 0], found[:, 1]), hit[found[:, 2]])
    np.add.at(table[..., 1], (found[:, 0], found[:, 1]), 1)
    return WordAccuracy(tuple(references), tuple(number), table)


def accuracy_score(accuracy: WordAccuracy, protocol: Protocol = FLICKR30K, **about: object) -> Score:
    """``attention_accuracy``: the mean over classes (or over words) of the correctly localised words."""
    fields = protocol.describe()
    mark = signature(**about, iou=fields["iou"], average=protocol.average)
    if protocol.average == "word":
        words = accuracy.table.sum(1)
        return _table_score("attention_accuracy", accuracy.ids, words, "mean", mark)
    stats = accuracy.table.reshape(len(accuracy.ids), -1)
    return _table_score("attention_accuracy", accuracy.ids, stats, "class accuracy", mark)


# Everything at once -------------------------------------------------------------------------------------------------


def grounding_scores(
    references: Sentences,
    predictions: Sentences,
    protocol: Protocol = FLICKR30K,
    lemmas: Mapping[str, str] | None = None,
    frequency: Mapping[str, int] | None = None,
    **about: object,
) -> list[Score]:
    """All scores of generated captions: F1, precision and recall, all and loc, per class and per sentence.

    With ``frequency`` (class -> annotations in training) the F1_all of the ten frequency groups follows.
    ``about`` begins every signature, e.g. ``split="test", lemma="spacy-3.8"``.
    """
    matches = match_words(references, predictions, protocol, lemmas)
    counts = {mode: class_counts(matches, mode, protocol) for mode in MODES}
    scores = [s for mode, count in counts.items() for s in class_scores(count, mode, protocol, **about)]
    pooled = sentence_protocol(references, protocol)
    if pooled != protocol:
        matches = match_words(references, predictions, pooled, lemmas)
    for mode in MODES:
        scores += sentence_scores(matches, mode, pooled, **about)
    if frequency is not None:
        scores += frequency_scores(counts["all"], frequency, 10, protocol, **about)
    return scores
