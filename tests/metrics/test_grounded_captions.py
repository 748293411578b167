"""Grounded captions: parity with the published evaluators, and what must hold whatever the numbers are."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.metrics.formats import read_predictions
from deixis.metrics.grounded_captions import (
    ACTIVITYNET,
    FLICKR30K,
    MODES,
    PAPER,
    ObjectWord,
    Protocol,
    Sentence,
    accuracy_score,
    class_counts,
    frequency_scores,
    grounding_scores,
    match_words,
    word_accuracy,
)
from deixis.metrics.references import read_reference
from deixis.metrics.score import RULES

GOLDEN = Path(__file__).parents[1] / "golden"


def load(name, split, folder):
    """Golden inputs, written as the files that people have and read by the readers that people use."""
    data = json.loads(gzip.decompress((GOLDEN / name).read_bytes()))
    for part in ("reference", "split", "generated", "given"):
        (folder / f"{part}.json").write_text(json.dumps(data[part]))
    reference = read_reference(folder / "reference.json", split, folder / "split.json")
    generated = read_predictions(folder / "generated.json", reference.images).sentences
    given_words = read_predictions(folder / "given.json", reference.images).sentences
    return reference, generated, given_words, data["lemmas"], data["out"]


@pytest.mark.parametrize("split", ["val", "test"])
def test_flickr30k_evaluator(split, tmp_path):
    reference, generated, given_words, lemmas, out = load("flickr_grounding.json.gz", split, tmp_path)
    scores = {s.name: s.value for s in grounding_scores(reference.sentences, generated, FLICKR30K, lemmas)}
    matches = match_words(reference.sentences, generated, FLICKR30K, lemmas)
    for mode in MODES:
        expected = out[split][mode]
        assert scores[f"precision_{mode}"] == pytest.approx(expected["precision"], abs=1e-9)
        assert scores[f"recall_{mode}"] == pytest.approx(expected["recall"], abs=1e-9)
        assert scores[f"F1_{mode}"] == pytest.approx(expected["f1"], abs=1e-9)
        counts = class_counts(matches, mode).per_class()
        assert len(counts) == expected["num_vocab"]
        precision = {name: [right, n] for name, (right, n, _, _) in counts.items() if n}
        recall = {name: [right, n] for name, (_, _, right, n) in counts.items() if n}
        assert precision == expected["per_class_prec"]
        assert recall == expected["per_class_recall"]
    accuracy = word_accuracy(reference.sentences, given_words)
    assert accuracy_score(accuracy).value == pytest.approx(out[split]["gt"]["accuracy"], abs=1e-9)
    assert {name: list(pair) for name, pair in accuracy.per_class().items()} == out[split]["gt"]["per_class"]


def test_activitynet_evaluator(tmp_path):
    reference, generated, given_words, lemmas, out = load("anet_grounding.json.gz", "validation", tmp_path)
    scores = {s.name: s for s in grounding_scores(reference.sentences, generated, ACTIVITYNET, lemmas)}
    matches = match_words(reference.sentences, generated, ACTIVITYNET, lemmas)
    for mode in MODES:
        for theirs, ours in (("precision", "precision"), ("recall", "recall"), ("f1", "F1")):
            assert scores[f"{ours}_{mode}"].value == pytest.approx(out[mode][theirs], abs=1e-9)
            per_sentence = scores[f"{ours}_{mode}_per_sent"].value
            assert per_sentence == pytest.approx(out[mode][f"{theirs}_per_sent"], abs=1e-9)
        counts = class_counts(matches, mode, ACTIVITYNET).per_class()
        assert {name: [c[0], c[1]] for name, c in counts.items() if c[1]} == out[mode]["per_class_prec"]
        assert {name: [c[2], c[3]] for name, c in counts.items() if c[3]} == out[mode]["per_class_recall"]
        # the published lists per segment, keyed by video and segment run together
        items = dict(zip(matches.ids, scores[f"precision_{mode}_per_sent"].items, strict=True))
        for key, hits in out[mode]["per_sent_prec"].items():
            if hits and out[mode]["per_sent_recall"][key]:
                assert items[f"{key[:5]}_segment_{key[5:]}"] == pytest.approx(np.mean(hits))
    accuracy = accuracy_score(word_accuracy(reference.sentences, given_words), ACTIVITYNET)
    assert accuracy.value == pytest.approx(out["gt"]["accuracy"], abs=1e-9)


# Cases that can be counted by hand ----------------------------------------------------------------------------------

LEFT, RIGHT, FAR = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 30.0, 10.0), (80.0, 80.0, 99.0, 99.0)


def word(name, box, index=0):
    return ObjectWord(name, index, (box,))


def values(references, predictions, protocol=FLICKR30K, lemmas=None):
    return {s.name: s.value for s in grounding_scores(references, predictions, protocol, lemmas)}


def test_one_image_by_hand():
    reference = {"a": [Sentence((word("man", LEFT, 1), word("hat", RIGHT, 4)), ("a", "man", "in", "a", "hat"))]}
    said = {"a": [Sentence((word("man", LEFT), word("hat", FAR), word("dog", FAR)))]}
    scores = values(reference, said)
    # classes man and hat: precision (1 + 0) / 2, recall the same; the dog is a class of no reference
    assert scores["precision_all"] == scores["recall_all"] == scores["F1_all"] == 0.5
    assert scores["precision_all_per_sent"] == pytest.approx(1 / 3)
    assert scores["recall_all_per_sent"] == 0.5
    assert scores["precision_loc_per_sent"] == 0.5


def test_every_reference_counts_in_turn():
    """Item 9: a word counts once for each reference, and only once against the pool."""
    with_man = Sentence((word("man", LEFT, 0),), ("man",))
    with_hat = Sentence((word("hat", RIGHT, 0),), ("hat",))
    reference = {"a": [with_man, with_man, with_hat]}
    said = {"a": [Sentence((word("man", LEFT),))]}
    each = class_counts(match_words(reference, said), "all").per_class()
    assert each == {"man": (2, 3, 2, 2), "hat": (0, 0, 0, 1)}
    pool = class_counts(match_words(reference, said, PAPER), "all", PAPER).per_class()
    assert pool == {"man": (1, 1, 1, 1), "hat": (0, 0, 0, 1)}


def test_classes_of_images_without_prediction():
    """Item 10: their words lower the recall, but whether their classes are in the average is a convention."""
    reference = {
        "a": [Sentence((word("man", LEFT),), ("man",))],
        "b": [Sentence((word("dog", LEFT),), ("dog",))],
    }
    said = {"a": [Sentence((word("man", LEFT),))]}
    assert values(reference, said)["recall_all"] == 1.0
    assert values(reference, said, replace(FLICKR30K, classes="reference"))["recall_all"] == 0.5
    both = {"a": reference["a"], "b": [Sentence((word("man", LEFT),), ("man",))]}
    assert values(both, said)["recall_all"] == values(both, said)["recall_loc"] == 0.5


def test_iou_is_strict_and_counts_pixels():
    """Item 11: exactly one half is not enough."""
    reference = {"a": [Sentence((word("man", (0.0, 0.0, 10.0, 10.0)),), ("man",))]}
    half = {"a": [Sentence((word("man", (0.0, 0.0, 10.0, 5.0)),))]}
    more = {"a": [Sentence((word("man", (0.0, 0.0, 10.0, 5.1)),))]}
    assert values(reference, half)["F1_all"] == 0.0
    assert values(reference, more)["F1_all"] == 1.0
    # 5.1 of 10 rows, but 4.1 of 9 without the extra pixel
    assert values(reference, more, replace(FLICKR30K, extra_pixel=False))["F1_all"] == 0.0


def test_one_pixel_is_no_box():
    pixel = (7.0, 7.0, 8.0, 8.0)
    reference = {"a": [Sentence((word("man", pixel),), ("man",))]}
    assert values(reference, {"a": [Sentence((word("man", pixel),))]})["F1_all"] == 0.0


def test_first_match_or_any():
    """Item 11: the second man can only be found with match:any."""
    reference = {"a": [Sentence((word("man", LEFT, 1), word("man", RIGHT, 4)), ("a", "man", "and", "a", "man"))]}
    said = {"a": [Sentence((word("man", RIGHT),))]}
    assert values(reference, said)["precision_all"] == 0.0
    assert values(reference, said, replace(FLICKR30K, match="any"))["precision_all"] == 1.0
    # the first by position, not by the order of the annotation
    turned = {"a": [Sentence(tuple(reversed(reference["a"][0].objects)), reference["a"][0].tokens)]}
    assert values(turned, said)["precision_all"] == 0.0


def test_unannotated_words_are_excused():
    """Item 12: the reference has "men" without a box, so saying "man" is not punished, by lemma."""
    reference = {"a": [Sentence((word("hat", LEFT, 3),), ("two", "men", "with", "hats"))]}
    said = {"a": [Sentence((word("man", FAR), word("hat", LEFT)))]}
    assert values(reference, said, lemmas={"men": "man"})["precision_all_per_sent"] == 1.0
    assert values(reference, said, lemmas={})["precision_all_per_sent"] == 0.5
    strict = replace(FLICKR30K, unannotated="wrong")
    assert values(reference, said, strict, {"men": "man"})["precision_all_per_sent"] == 0.5


def test_sentences_without_annotation():
    """Item 13: the published average per sentence counts them as 0."""
    reference = {"a": [Sentence((word("man", LEFT),), ("man",))], "b": [Sentence((), ("somebody",))]}
    said = {"a": [Sentence((word("man", LEFT),))], "b": [Sentence((word("dog", LEFT),))]}
    assert values(reference, said, ACTIVITYNET)["F1_all_per_sent"] == 0.5
    assert values(reference, said, replace(ACTIVITYNET, sentences="annotated"))["F1_all_per_sent"] == 1.0
    # the Flickr30k evaluator has no such rule: the dog is a word too many there
    assert class_counts(match_words(reference, said), "all").table.sum() == 5
    assert len(match_words(reference, said).pred_item) == 2
    assert len(match_words(reference, said, ACTIVITYNET).pred_item) == 1


def test_frames_have_to_agree():
    reference = {"a": [Sentence((ObjectWord("man", 0, (LEFT,), (3,)),), ("man",))]}
    boxes = tuple(LEFT if frame == 4 else FAR for frame in range(10))
    shifted = {"a": [Sentence((ObjectWord("man", 0, boxes, tuple(range(10))),))]}
    boxes = tuple(LEFT if frame == 3 else FAR for frame in range(10))
    aligned = {"a": [Sentence((ObjectWord("man", 0, boxes, tuple(range(10))),))]}
    assert values(reference, shifted, ACTIVITYNET)["F1_all"] == 0.0
    assert values(reference, aligned, ACTIVITYNET)["F1_all"] == 1.0


def test_accuracy_by_class_or_by_word():
    """Item 14."""
    words = tuple(word("man", LEFT, i) for i in range(3))
    reference = {"a": [Sentence((*words, word("hat", LEFT, 3)), ("man",) * 3 + ("hat",))]}
    guess = {"a": [Sentence(words)]}
    accuracy = word_accuracy(reference, guess)
    assert accuracy_score(accuracy).value == 0.5
    by_word = accuracy_score(accuracy, replace(FLICKR30K, average="word"))
    assert by_word.value == 0.75
    assert by_word.signature != accuracy_score(accuracy).signature


def test_frequency_groups():
    names = [f"class{i}" for i in range(7)]
    reference = {n: [Sentence((word(n, LEFT),), (n,))] for n in names}
    said = {n: [Sentence((word(n, LEFT if i < 4 else FAR),))] for i, n in enumerate(names)}
    counts = class_counts(match_words(reference, said), "all")
    groups = frequency_scores(counts, {n: 100 - i for i, n in enumerate(names)}, bins=3)
    assert [s.name for s in groups] == [f"F1_all_frequency_{i}of3" for i in (1, 2, 3)]
    assert [s.value for s in groups] == pytest.approx([1.0, 0.5, 0.0])
    turned = frequency_scores(counts, {n: i for i, n in enumerate(names)}, bins=3)
    assert turned[0].value == 0.0


def test_partial_boxes_as_upper_bound():
    reference = {"a": [Sentence((word("man", (0.0, 0.0, 40.0, 40.0)),), ("man",))]}
    face = {"a": [Sentence((word("man", (10.0, 0.0, 20.0, 10.0)),))]}
    assert values(reference, face)["F1_all"] == 0.0
    assert values(reference, face, replace(FLICKR30K, partial=True))["F1_all"] == 1.0


def test_refusals():
    some = {"a": [Sentence((word("man", LEFT),), ("man",))]}
    with pytest.raises(DeixisError, match="no image"):
        match_words({}, some)
    with pytest.raises(DeixisError, match="no object word with a box"):
        match_words({"a": [Sentence((), ("man",))]}, some)
    with pytest.raises(DeixisError, match="Image a has 2 generated captions"):
        match_words(some, {"a": some["a"] * 2})
    with pytest.raises(DeixisError, match="Image a has 2 grounded sentences, but the reference has 1"):
        word_accuracy(some, {"a": some["a"] * 2})
    with pytest.raises(ValueError, match="2 boxes, but 1 frames"):
        ObjectWord("man", 0, (LEFT, RIGHT), (1,))


# What must hold for any input ---------------------------------------------------------------------------------------

classes = st.sampled_from(["man", "dog", "hat", "ball", "tree"])
corner = st.integers(0, 6).map(lambda i: 10.0 * i)
boxes = st.tuples(corner, corner, st.integers(2, 5), st.integers(2, 5)).map(
    lambda b: (b[0], b[1], b[0] + 10 * b[2], b[1] + 10 * b[3])
)


@st.composite
def sentences(draw, least=0):
    names = draw(st.lists(st.tuples(classes, boxes), min_size=least, max_size=4))
    tokens = [draw(st.sampled_from(["a", "dog", "hats", "runs"])) for _ in range(8)]
    return Sentence(tuple(ObjectWord(name, 2 * i, (box,)) for i, (name, box) in enumerate(names)), tuple(tokens))


@st.composite
def corpora(draw):
    n = draw(st.integers(1, 4))
    references = {str(i): draw(st.lists(sentences(1), min_size=1, max_size=3)) for i in range(n)}
    predictions = {str(i): [draw(sentences())] for i in range(n) if i == 0 or draw(st.booleans())}
    return references, predictions


protocols = st.sampled_from([FLICKR30K, ACTIVITYNET, PAPER, replace(PAPER, match="first")])


@settings(max_examples=60, deadline=None)
@given(corpora(), protocols, st.randoms(use_true_random=False))
def test_order_of_images_means_nothing(corpus, protocol, random):
    references, predictions = corpus
    order = list(references)
    random.shuffle(order)
    before = grounding_scores(references, predictions, protocol, {"hats": "hat"}, {"man": 3})
    after = grounding_scores({i: references[i] for i in order}, predictions, protocol, {"hats": "hat"}, {"man": 3})
    for one, other in zip(before, after, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert np.array_equal(one.items[[one.ids.index(i) for i in order]], other.items, equal_nan=True)


@settings(max_examples=40, deadline=None)
@given(corpora(), protocols)
def test_value_follows_from_the_statistics(corpus, protocol):
    for score in grounding_scores(*corpus, protocol, frequency={"dog": 2}):
        assert score.stats.shape[0] == len(score.ids)
        assert score.value == RULES[score.rule](score.stats.sum(0, keepdims=True))[0]
        assert 0.0 <= score.value <= 1.0
        assert np.isfinite(score.stats).all()


@settings(max_examples=40, deadline=None)
@given(corpora(), protocols, sentences(1))
def test_another_image_changes_no_item(corpus, protocol, stranger):
    references, predictions = corpus
    more = {**references, "new": [stranger]}
    before = grounding_scores(references, predictions, protocol)
    after = grounding_scores(more, {**predictions, "new": [stranger]}, protocol)
    for one, other in zip(before, after, strict=True):
        if "per_sent" in one.name and one.signature != other.signature:
            continue  # one reference a sentence became a mixture; the protocol per sentence says so
        assert np.allclose(one.items, other.items[:-1], equal_nan=True)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), sentences(1), min_size=1), protocols)
def test_a_perfect_prediction_scores_one(truth, protocol):
    """One thing of each class a sentence: with two, the first match cannot meet the second."""
    unique = {image: [replace(s, objects=tuple({w.name: w for w in s.objects}.values()))] for image, s in truth.items()}
    for score in grounding_scores(unique, unique, protocol):
        assert score.value == pytest.approx(1.0), score
    assert accuracy_score(word_accuracy(unique, unique, protocol), protocol).value == 1.0


def test_conventions_show_in_the_signature():
    reference = {"a": [Sentence((word("man", LEFT),), ("man",))] * 2}
    said = {"a": [Sentence((word("man", LEFT),))]}
    fields = {
        "threshold": 0.3,
        "extra_pixel": False,
        "refs": "pool",
        "match": "any",
        "classes": "reference",
        "unannotated": "wrong",
        "bare": "skipped",
        "partial": True,
    }
    plain = {s.name: s.signature for s in grounding_scores(reference, said)}
    for name, value in fields.items():
        changed = grounding_scores(reference, said, Protocol(**{name: value}))
        assert changed[0].signature != plain[changed[0].name], name
    changed = grounding_scores(reference, said, Protocol(sentences="annotated"))
    assert {s.name for s in changed if s.signature != plain[s.name]} == {n for n in plain if n.endswith("per_sent")}
    assert plain["F1_all"].startswith(
        "refs:each|iou:>0.5+1px|match:first|unannotated:excused|bare:counted|classes:submitted"
    )
    assert "refs:pool" in plain["F1_all_per_sent"]
    about = grounding_scores(reference, said, split="test", lemma="spacy")[0].signature
    assert about.startswith("split:test|lemma:spacy|")
