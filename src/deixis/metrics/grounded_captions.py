"""Grounding metrics of generated captions: F1_all and F1_loc, per class and per sentence.

The protocol is that of Zhou et al., Grounded Video Description (GVD), for Flickr30k Entities and ActivityNet
Entities. The scores per sentence are those of Ma et al. (Cyclical). An *object word* is a word of a sentence that
has an object class and boxes. With

A = predicted object words, B = reference object words, C = predicted words whose class is in the reference,
D = reference words whose class is in the prediction, E = words with the correct class and a correct box,

precision_all = E/A, recall_all = E/B, precision_loc = E/C, recall_loc = E/D. The scores per class average precision
and recall over the classes, and then compute F1. The scores per sentence compute F1 of each sentence and average it.

Choices that the papers leave open are fields of :class:`Protocol` and part of each score's signature. The defaults
are those of the published evaluators.
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
    """A word of a sentence with an object class and its boxes."""

    name: str  # the class, e.g. "man" for the word "men"
    index: int  # position of the word in its sentence
    boxes: tuple[Box, ...]
    frames: tuple[int, ...] = ()  # frame of each box in a video segment; empty for an image

    def __post_init__(self) -> None:
        if self.frames and len(self.frames) != len(self.boxes):
            raise ValueError(f"'{self.name}' has {len(self.boxes)} boxes, but {len(self.frames)} frames")


@dataclass(frozen=True)
class Sentence:
    """A sentence with its object words. The tokens are used in references only; predictions may omit them."""

    objects: tuple[ObjectWord, ...]
    tokens: tuple[str, ...] = ()


Sentences = Mapping[str, Sequence[Sentence]]
"""Image (or video segment) -> its sentences."""


@dataclass(frozen=True)
class Protocol:
    """Choices in which evaluators differ. The defaults are those of the published Flickr30k evaluator."""

    threshold: float = 0.5  # a box is correct if its IoU is strictly greater
    extra_pixel: bool = True  # side = x2 - x1 + 1 of inclusive corners (our boxes, unchanged)
    refs: Literal["each", "pool"] = "each"
    # each: the caption is compared with each reference in turn, so a word counts up to five times
    # pool: the caption is compared once with the distinct (class, box) pairs of all references
    match: Literal["first", "any"] = "first"  # which word of the same class is compared
    classes: Literal["submitted", "reference"] = "submitted"
    # classes in the average: those of the images with a prediction, or those of all images
    unannotated: Literal["excused", "wrong"] = "excused"
    # a predicted word that the reference has without a box: not counted in the precision, or wrong
    bare: Literal["counted", "skipped"] = "counted"  # a reference sentence without any box
    sentences: Literal["predicted", "annotated"] = "predicted"  # sentences in the average of the scores per sentence
    average: Literal["class", "word"] = "class"  # of the accuracy on reference sentences
    partial: bool = False  # also accept a box inside the true box: upper bound of Distributed Attention (Sec. 4.5)

    def describe(self) -> dict[str, object]:
        """Fields of the signature."""
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
"""The ActivityNet Entities evaluator; segments without annotation are not counted."""
PAPER = Protocol(refs="pool", match="any", classes="reference", bare="skipped", sentences="annotated")
"""The definition in the papers' text: five captions pooled, any box of the class, all classes of the split."""


# Word matching ------------------------------------------------------------------------------------------------------

NO_SUCH_CLASS, NO_PREDICTION = -1, -2
"""Instead of a pair index: the other side does not have the class, or the image has no prediction."""


@dataclass(frozen=True, eq=False)
class Matches:
    """All predicted and all reference object words, each with its match on the other side.

    A match is a pair index (for ``iou``, ``partial``, ``enlarged``), or NO_SUCH_CLASS, or NO_PREDICTION.
    """

    ids: tuple[str, ...]  # [n] images or segments, in the order of the reference
    classes: tuple[str, ...]  # [C] sorted
    pred_item: Ints  # [A] image index
    pred_class: Ints  # [A] index into classes; -1 if no reference has the class
    pred_match: Ints  # [A]
    pred_word: Ints  # [A] position in its sentence
    ref_item: Ints  # [B]
    ref_class: Ints  # [B]
    ref_match: Ints  # [B]
    predicted: Bools  # [n]
    annotated: Bools  # [n] whether any reference word has a box
    iou: Values  # [pairs] highest IoU of the two words' boxes in a common frame
    partial: Bools  # [pairs] whether the predicted box lies inside the true box
    enlarged: Bools  # [pairs] whether the true box lies inside the predicted box


def match_words(
    references: Sentences,
    predictions: Sentences,
    protocol: Protocol = FLICKR30K,
    lemmas: Mapping[str, str] | None = None,
) -> Matches:
    """Match the object words of one generated caption per image with those of its references.

    ``lemmas`` maps words to lemmas; a word without an entry is its own lemma. Lemmas are used only to find predicted
    words that the reference has without a box.
    """
    lemmas = lemmas or {}
    number = _number_classes(references)
    pairs = _Pairs()
    pred: list[tuple[int, ...]] = []
    ref: list[tuple[int, ...]] = []
    for item, (image, sentences) in enumerate(references.items()):
        words = None if image not in predictions else _only_sentence(image, predictions[image]).objects
        for objects, excused in _views(sentences, protocol, lemmas):
            if not objects and protocol.bare == "skipped":
                continue
            if words is None:
                ref.extend((item, number[word.name], NO_PREDICTION) for word in objects)
                continue
            true, predicted_at = _by_class(objects), _by_class(words, in_order=True)
            if protocol.match == "first":
                true = {name: group[:1] for name, group in true.items()}
                predicted_at = {name: group[:1] for name, group in predicted_at.items()}
            for word in words:
                if word.name in true:
                    pred.append((item, number[word.name], pairs.add([word], true[word.name]), word.index))
                elif lemmas.get(word.name, word.name) not in excused:
                    pred.append((item, number.get(word.name, -1), NO_SUCH_CLASS, word.index))
            for word in objects:
                matched = pairs.add(predicted_at[word.name], [word]) if word.name in predicted_at else NO_SUCH_CLASS
                ref.append((item, number[word.name], matched))
    iou, partial, enlarged = pairs.measure(protocol.extra_pixel)
    pred_table, ref_table = _table(pred, 4), _table(ref, 3)
    return Matches(
        ids=tuple(references),
        classes=tuple(number),
        pred_item=pred_table[:, 0],
        pred_class=pred_table[:, 1],
        pred_match=pred_table[:, 2],
        pred_word=pred_table[:, 3],
        ref_item=ref_table[:, 0],
        ref_class=ref_table[:, 1],
        ref_match=ref_table[:, 2],
        predicted=np.array([image in predictions for image in references]),
        annotated=np.array([any(s.objects for s in sentences) for sentences in references.values()]),
        iou=iou,
        partial=partial,
        enlarged=enlarged,
    )


def _hits(matches: Matches, protocol: Protocol) -> Bools:
    """Whether each pair is correctly localised; NO_SUCH_CLASS and NO_PREDICTION index two False entries at the end."""
    hit = matches.iou > protocol.threshold
    return np.append(hit | matches.partial if protocol.partial else hit, [False, False])


def _number_classes(references: Sentences) -> dict[str, int]:
    """Number the classes of the reference's object words in alphabetical order."""
    if not references:
        raise DeixisError("The reference has no images. Check its path and --split.")
    names = sorted({word.name for sentences in references.values() for s in sentences for word in s.objects})
    if not names:
        raise DeixisError("The reference has no object word with a box. Check its path and --split.")
    return {name: i for i, name in enumerate(names)}


def _only_sentence(image: str, sentences: Sequence[Sentence]) -> Sentence:
    if len(sentences) != 1:
        raise DeixisError(f"Image {image} has {len(sentences)} generated captions. Expected exactly one.")
    return sentences[0]


def _views(
    sentences: Sequence[Sentence], protocol: Protocol, lemmas: Mapping[str, str]
) -> list[tuple[Sequence[ObjectWord], set[str]]]:
    """Reference views that the caption is compared with: object words, and excused lemmas."""
    views: list[tuple[Sequence[ObjectWord], set[str]]] = [
        (s.objects, _excused(s, lemmas) if protocol.unannotated == "excused" else set()) for s in sentences
    ]
    if protocol.refs == "each" or len(views) < 2:
        return views
    # an object that several captions mention is in the pool once
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
    """Pairs of words whose boxes are compared in one batch; each word may have several boxes."""

    count: int = 0
    owner: list[int] = field(default_factory=list)
    pred: list[Box] = field(default_factory=list)
    ref: list[Box] = field(default_factory=list)

    def add(self, pred: Sequence[ObjectWord], ref: Sequence[ObjectWord]) -> int:
        for predicted_at in pred:
            for true in ref:
                for at, box in enumerate(true.boxes):
                    for other, predicted_box in enumerate(predicted_at.boxes):
                        if _same_frame(true, at, predicted_at, other):
                            self.owner.append(self.count)
                            self.pred.append(predicted_box)
                            self.ref.append(box)
        self.count += 1
        return self.count - 1

    def measure(self, extra_pixel: bool) -> tuple[Values, Bools, Bools]:
        """IoU, partial and enlarged ``[pairs]`` of the two boxes with the highest IoU in each pair."""
        pred = np.array(self.pred, dtype=np.float64).reshape(-1, 4)
        ref = np.array(self.ref, dtype=np.float64).reshape(-1, 4)
        # a box of one pixel means "no box" in GVD's files
        empty = _one_pixel(pred) | _one_pixel(ref)
        if not extra_pixel:
            pred, ref = without_extra_pixel(pred), without_extra_pixel(ref)
        overlap = np.where(empty, 0.0, paired_iou(pred, ref))
        owner = np.array(self.owner, dtype=np.intp)
        # written in ascending order, so the box with the highest IoU remains
        order = np.argsort(overlap, kind="stable")
        best = np.full(self.count, -1, dtype=np.intp)
        best[owner[order]] = order
        has = best >= 0
        iou, partial, enlarged = np.zeros(self.count), np.zeros(self.count, bool), np.zeros(self.count, bool)
        iou[has] = overlap[best[has]]
        partial[has] = (inside(pred, ref) & ~empty)[best[has]]
        enlarged[has] = (inside(ref, pred) & ~empty)[best[has]]
        return iou, partial, enlarged


def _same_frame(true: ObjectWord, at: int, predicted: ObjectWord, other: int) -> bool:
    """Whether two boxes are of one image or frame; a box without a frame is in no frame of a video."""
    if not true.frames or not predicted.frames:
        return not true.frames and not predicted.frames
    return true.frames[at] == predicted.frames[other]


def _one_pixel(boxes: Values) -> Bools:
    return np.all(boxes[:, 2:] - boxes[:, :2] <= 1 + 1e-6, axis=1)


# Scores per class ---------------------------------------------------------------------------------------------------

# columns of one class in the statistics of the scores per class
PRED_RIGHT, PRED, REF_RIGHT, REF, IN_AVERAGE = range(5)


def _class_precision_recall(sums: Values) -> tuple[Values, Values, Bools]:
    """Compute precision, recall and whether a class is averaged, each ``[B, C]``, from sums ``[B, 5 C]``."""
    table = sums.reshape(len(sums), -1, 5)

    def over(hits: int, count: int) -> Values:
        return np.divide(
            table[..., hits], table[..., count], out=np.zeros(table.shape[:2]), where=table[..., count] > 0
        )

    return over(PRED_RIGHT, PRED), over(REF_RIGHT, REF), table[..., IN_AVERAGE] > 0


def _mean_over(values: Values, kept: Bools) -> Values:
    # as in the published evaluators: sum over all classes, divide by the number of averaged classes
    count = kept.sum(1)
    return np.divide(values.sum(1), count, out=np.zeros(len(values)), where=count > 0)


def harmonic(precision: Values, recall: Values) -> Values:
    """F1 = 2 P R / (P + R); 0 if both are 0."""
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


def _classes_generated(sums: Values) -> Values:
    table = sums.reshape(len(sums), -1, 2)  # generated, annotated
    return _mean_over(((table[..., 0] > 0) & (table[..., 1] > 0)).astype(np.float64), table[..., 1] > 0)


RULES |= {
    "classes generated": _classes_generated,
    "class precision": _class_precision,
    "class recall": _class_recall,
    "class F1": _class_f1,
    "mean of class F1": _mean_class_f1,
    "class accuracy": _class_accuracy,
}


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts per image and class, ``table [n, C, 5]``.

    Columns: correct predicted words, predicted words, correctly found reference words, reference words, whether the
    class is in the average.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    table: Values

    def per_class(self) -> dict[str, tuple[int, int, int, int]]:
        """Class -> (correct, predicted, found, in reference) over all images; the ratios are precision and recall."""
        total = self.table.sum(0).astype(int)
        return {name: (int(t[0]), int(t[1]), int(t[2]), int(t[3])) for name, t in zip(self.classes, total, strict=True)}


def class_counts(matches: Matches, mode: Mode, protocol: Protocol = FLICKR30K) -> ClassCounts:
    """Count words for F1_all ("all") or F1_loc ("loc": only words whose class is on both sides)."""
    table = np.zeros((len(matches.ids), len(matches.classes), 5))
    hit = _hits(matches, protocol)
    # a class that no reference has is in no average
    pred = matches.pred_class >= 0
    ref = np.ones(len(matches.ref_class), bool)
    if mode == "loc":
        pred &= matches.pred_match >= 0
        # as in the published evaluators, recall_loc also counts words of images without a prediction
        ref &= matches.ref_match != NO_SUCH_CLASS
    for column, item, cls, weight in (
        (PRED_RIGHT, matches.pred_item[pred], matches.pred_class[pred], hit[matches.pred_match[pred]]),
        (PRED, matches.pred_item[pred], matches.pred_class[pred], 1),
        (REF_RIGHT, matches.ref_item[ref], matches.ref_class[ref], hit[matches.ref_match[ref]]),
        (REF, matches.ref_item[ref], matches.ref_class[ref], 1),
        (IN_AVERAGE, matches.ref_item, matches.ref_class, _in_average(matches, protocol)),
    ):
        np.add.at(table[..., column], (item, cls), weight)
    return ClassCounts(matches.ids, matches.classes, table)


def _in_average(matches: Matches, protocol: Protocol) -> Values:
    if protocol.classes == "submitted":
        return (matches.ref_match != NO_PREDICTION).astype(np.float64)
    return np.ones(len(matches.ref_match))


def class_scores(counts: ClassCounts, mode: str, protocol: Protocol = FLICKR30K, **about: object) -> list[Score]:
    """F1, precision and recall averaged over classes, e.g. ``F1_all``; ``about`` starts the signature."""
    stats = counts.table.reshape(len(counts.ids), -1)
    mark = signature(**about, **protocol.describe(), classes=protocol.classes)
    names = {"F1": "class F1", "precision": "class precision", "recall": "class recall"}
    return [_table_score(f"{name}_{mode}", counts.ids, stats, rule, mark) for name, rule in names.items()]


def frequency_scores(
    counts: ClassCounts, frequency: Mapping[str, int], bins: int = 10, protocol: Protocol = FLICKR30K, **about: object
) -> list[Score]:
    """Mean F1_all of the classes in each frequency group, most frequent first (Cyclical, Fig. 4).

    ``frequency`` maps a class to its number of annotations in training. Ties are ordered by name. Group sizes differ
    by at most one class. A class with only precision or only recall has F1 = 0.
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
    """Protocol of word matching for the scores per sentence.

    Several references are pooled and any box of the class is accepted, as in the Cyclical paper. With one reference
    per image the protocol is unchanged.
    """
    several = any(len(sentences) > 1 for sentences in references.values())
    return replace(protocol, refs="pool", match="any") if several else protocol


def sentence_scores(matches: Matches, mode: Mode, protocol: Protocol = FLICKR30K, **about: object) -> list[Score]:
    """F1, precision and recall of each generated sentence, averaged over sentences, e.g. ``F1_all_per_sent``.

    ``protocol`` is the one used for ``matches``, see :func:`sentence_protocol`. With ``sentences:predicted``, as in the
    published evaluator, the average includes all predicted sentences, except annotated ones without a recall. A
    prediction for a segment without annotation then counts as 0. With ``sentences:annotated`` the average includes the
    annotated sentences. If the caption has none of the object words, the sentence is wrong in F1_all and not counted in
    F1_loc.
    """
    n = len(matches.ids)
    hit = _hits(matches, protocol)
    pred = np.ones(len(matches.pred_match), bool) if mode == "all" else matches.pred_match >= 0
    ref = np.ones(len(matches.ref_match), bool) if mode == "all" else matches.ref_match != NO_SUCH_CLASS
    counts = [
        np.bincount(matches.pred_item[pred], hit[matches.pred_match[pred]], n),
        np.bincount(matches.pred_item[pred], minlength=n),
        np.bincount(matches.ref_item[ref], hit[matches.ref_match[ref]], n),
        np.bincount(matches.ref_item[ref], minlength=n),
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


def classes_generated(references: Sentences, predictions: Sentences, **about: object) -> Score:
    """``classes_generated``: share of the annotated object classes that occur in any generated caption."""
    number = _number_classes(references)
    stats = np.zeros((len(references), len(number), 2))  # generated, annotated
    for item, (image, sentences) in enumerate(references.items()):
        for sentence in sentences:
            for word in sentence.objects:
                stats[item, number[word.name], 1] = 1
        for sentence in predictions.get(image, ()):
            for word in sentence.objects:
                if word.name in number:
                    stats[item, number[word.name], 0] = 1
    flat = stats.reshape(len(references), -1)
    return _table_score("classes_generated", tuple(references), flat, "classes generated", signature(**about))


def per_file(scores: Sequence[Score], others: int) -> list[Score]:
    """Divide the scores per sentence by every segment of the file, as the published ActivityNet evaluator does.

    ``others`` are the predicted segments of other splits; each counts as 0. The scores of this split alone get the name
    ``F1_all_per_sent[split]``.
    """
    found = []
    for score in scores:
        found.append(score)
        if score.name.endswith("_per_sent"):
            found[-1] = replace(score, name=f"{score.name}[split]")
            ids = (*score.ids, *(f"other split {i}" for i in range(others)))
            items = np.append(score.items, np.zeros(others))
            stats = np.concatenate([score.stats, np.tile([0.0, 1.0], (others, 1))])
            mark = score.signature.replace("sentences:predicted", "sentences:file")
            found.append(make_score(score.name, ids, items, stats, "mean", mark))
    return found


# Accuracy on reference sentences ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WordAccuracy:
    """Correct boxes and words of reference sentences per image and class, ``table [n, C, 2]``."""

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    table: Values

    def per_class(self) -> dict[str, tuple[int, int]]:
        """Class -> (correct, count) over all images."""
        total = self.table.sum(0).astype(int)
        return {name: (int(t[0]), int(t[1])) for name, t in zip(self.classes, total, strict=True)}


def word_accuracy(references: Sentences, predictions: Sentences, protocol: Protocol = FLICKR30K) -> WordAccuracy:
    """Count correct boxes at the object words of the reference sentences.

    A prediction has one sentence per reference sentence, in the same order. Words are matched by position. A word
    without a box, or of an image without a prediction, is wrong.
    """
    number = _number_classes(references)
    pairs = _Pairs()
    rows: list[tuple[int, ...]] = []
    for item, (image, sentences) in enumerate(references.items()):
        generated = predictions.get(image)
        if generated is not None and len(generated) != len(sentences):
            raise DeixisError(
                f"Image {image} has {len(generated)} grounded sentences, but the reference has {len(sentences)}. "
                "Expected one for each reference sentence, in the same order."
            )
        for at, sentence in enumerate(sentences):
            predicted_at: dict[int, ObjectWord] = {}
            for word in generated[at].objects if generated is not None else ():
                predicted_at.setdefault(word.index, word)
            for word in sentence.objects:
                matched = pairs.add([predicted_at[word.index]], [word]) if word.index in predicted_at else -1
                rows.append((item, number[word.name], matched))
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
    """``attention_accuracy``: the share of correctly localised words, averaged over classes or over words."""
    fields = protocol.describe()
    mark = signature(**about, iou=fields["iou"], average=protocol.average)
    if protocol.average == "word":
        words = accuracy.table.sum(1)
        return _table_score("attention_accuracy", accuracy.ids, words, "mean", mark)
    stats = accuracy.table.reshape(len(accuracy.ids), -1)
    return _table_score("attention_accuracy", accuracy.ids, stats, "class accuracy", mark)


# All scores ---------------------------------------------------------------------------------------------------------


def grounding_scores(
    references: Sentences,
    predictions: Sentences,
    protocol: Protocol = FLICKR30K,
    lemmas: Mapping[str, str] | None = None,
    frequency: Mapping[str, int] | None = None,
    **about: object,
) -> list[Score]:
    """All scores of generated captions: F1, precision and recall, all and loc, per class and per sentence.

    With ``frequency`` (class -> annotations in training), F1_all of the ten frequency groups is added. ``about`` are
    the first fields of each signature, e.g. ``split="test", lemma="spacy-3.8"``.
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
