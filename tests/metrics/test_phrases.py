"""Phrase grounding and pointing: parity with AMC's and ReIR's evaluators, conventions by hand, properties."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.localize.alpha import rank_boxes
from deixis.localize.points import bicubic_maximum
from deixis.metrics.phrases import (
    FLICKR30K,
    REFER,
    PhraseReference,
    Protocol,
    baselines,
    overlaps,
    phrase_scores,
    pointing,
    predicted_points,
    recall,
)
from deixis.metrics.score import RULES
from deixis.types import Grounding, HeatMap

GOLDEN = Path(__file__).parents[1] / "golden"


def reference(name, boxes, size=(100, 100), category="", image=None):
    return PhraseReference(name, image or name, f"the {name}", geometry.as_boxes(boxes), size, category)


def answer(box, **more):
    return Grounding("thing", tuple(float(x) for x in box), 1.0, **more)


def by_name(scores):
    return {score.name: score for score in scores}


# Parity -------------------------------------------------------------------------------------------------------------


def test_amc_pointing_on_flickr30k():
    data = np.load(GOLDEN / "amc_pointing.npz")
    out = json.loads(str(data["out"]))["grounding_eval_flickr"]
    boxes = np.split(data["flickr_boxes"].astype(float), np.cumsum(data["flickr_counts"])[:-1])
    references, answers = [], {}
    for i, (height, width) in enumerate(data["hw"].tolist()):
        exact = geometry.from_zero_based_inclusive(boxes[i])
        references.append(reference(str(i), exact, (width, height), str(data["split"][i])))
        answers[str(i)] = [answer((0, 0, 1, 1), heat=HeatMap(data["heat16"][i], (width, height)))]
    source, points = predicted_points(references, answers)
    assert source == "heat"
    assert np.array_equal(points, data["point"])
    scores = by_name(phrase_scores(references, answers, FLICKR30K))
    assert np.array_equal(scores["pointing"].items, data["hit"])
    assert scores["pointing[val]"].value == pytest.approx(out["val_d"], abs=1e-12)
    assert scores["pointing[test]"].value == pytest.approx(out["test"], abs=1e-12)


def test_amc_on_refcoco():
    data = np.load(GOLDEN / "amc_pointing.npz")
    out = json.loads(str(data["out"]))
    detections = np.split(data["refcoco_dets"].astype(float), np.cumsum(data["refcoco_counts"])[:-1])
    references, answers = [], {}
    for i, (height, width) in enumerate(data["hw"].tolist()):
        true = geometry.from_xywh(data["refcoco_box"][i : i + 1].astype(float))
        references.append(reference(str(i), true, (width, height), str(data["refcoco_split"][i])))
        heat = HeatMap(data["heat24"][i], (width, height))
        found = geometry.from_xywh(detections[i])
        answers[str(i)] = [answer(found[rank_boxes(heat, found, alpha=0.5)[0]], heat=heat)]
    scores = by_name(phrase_scores(references, answers, REFER))
    for split in ("val", "testA", "testB"):
        expected = out["grounding_eval_refcoco_pointing"][f"{split}_d"]
        assert scores[f"pointing[{split}]"].value == pytest.approx(expected, abs=1e-12)
        expected = out["grounding_eval_refcoco_bbox_alpha0.5"][f"{split}_d"]
        assert scores[f"accuracy[{split}]"].value == pytest.approx(expected, abs=1e-12)


@pytest.fixture(scope="module")
def reir():
    data = dict(np.load(GOLDEN / "reir_eval.npz"))
    image = np.repeat(np.arange(len(data["phrases"])), data["phrases"])
    references = [
        # the file's sizes are height, width; corners are taken as they are, as ReIR does: no + 1
        reference(str(i), geometry.from_zero_based_inclusive([box]), data["size"][at][::-1], str(kind))
        for i, (box, at, kind) in enumerate(zip(data["targets"], image, data["types"], strict=True))
    ]

    def clipped(boxes, at):
        height, width = data["size"][at]
        return geometry.from_zero_based_inclusive(geometry.clip(boxes, width, height))

    return data, image, references, clipped, json.loads(str(data["out"]))


@pytest.mark.parametrize(
    ("stage", "key", "point"),
    [
        ("pred_s1", "acc", "PointAcc"),
        ("pred_s2", "acc_s2", "PointAccS2"),
        ("pred_fusion", "acc_s2_fusion", "PointAccS2Fusion"),
    ],
)
def test_reir_accuracy_and_pointing(reir, stage, key, point):
    data, image, references, clipped, out = reir
    answers = {str(i): [answer(clipped(box, image[i]))] for i, box in enumerate(data[stage])}
    scores = by_name(phrase_scores(references, answers, FLICKR30K))
    assert scores["accuracy"].value == pytest.approx(out["iter0"][key], abs=1e-12)
    logged = dict(part.split(":") for part in out["iter0"]["log"][1].split("Accuracy: ")[1].split(", "))
    assert scores["pointing_centre"].value == pytest.approx(float(logged[point]), abs=1e-6)
    if stage == "pred_s1":
        expected = {"animals": 0.27692307692307694, "clothing": 0.30851063829787234, "people": 1 / 3, "other": 0.44}
        assert {k: scores[f"accuracy[{k}]"].value for k in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("step", "moved"), [("iter0", False), ("iter100000", True)])
def test_reir_recall_at_k(reir, step, moved):
    data, image, references, clipped, out = reir
    answers = {}
    for i, at in enumerate(image):
        found = geometry.clip(data["precomp"][at].astype(float), *data["size"][at][::-1])
        if moved:
            found = geometry.apply_deltas(found, data["delta"][i] / 1e5 / np.array([10, 10, 5, 5]))
        order = np.argsort(-data["sim"][i], kind="stable")
        answers[str(i)] = [answer(box) for box in clipped(found, at)[order[:10]]]
    scores = by_name(phrase_scores(references, answers, FLICKR30K))
    assert scores["recall_at_5"].value == pytest.approx(out[step]["acc_top5"], abs=1e-12)
    assert scores["recall_at_10"].value == pytest.approx(out[step]["acc_top10"], abs=1e-12)


# Conventions by hand ------------------------------------------------------------------------------------------------

TWO = [[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]]


def test_union_or_any():
    one = [reference("men", TWO)]
    assert overlaps(one, np.array([[0.0, 0, 30, 10]]), REFER) == pytest.approx([1.0])
    assert overlaps(one, np.array([[20.0, 0, 30, 10]]), REFER) == pytest.approx([1 / 3])
    assert overlaps(one, np.array([[20.0, 0, 30, 10]]), replace(REFER, target="any")) == pytest.approx([1.0])
    between = [(15.0, 5.0)]
    assert pointing(one, between, "any", "strict") == 0
    assert pointing(one, between, "union", "strict") == 1


def test_threshold():
    one, half = [reference("man", [[0.0, 0, 10, 10]])], {"man": [answer((0, 0, 10, 5))]}
    for protocol, hit in ((REFER, 1.0), (replace(REFER, compare=">"), 0.0), (replace(REFER, threshold=0.51), 0.0)):
        score = by_name(phrase_scores(one, half, protocol))["accuracy"]
        assert score.value == hit
        assert f"iou:{protocol.compare}{protocol.threshold:g}" in score.signature


def test_extra_pixel():
    one = [reference("man", [[0.0, 0, 11, 11]])]
    box = np.array([[0.0, 0, 11, 6]])
    assert overlaps(one, box, Protocol(extra_pixel=True)) == pytest.approx([6 / 11])
    assert overlaps(one, box, Protocol(extra_pixel=False)) == pytest.approx([0.5])


@pytest.mark.parametrize(("edge", "corner", "far"), [("strict", 0, 0), ("inclusive", 1, 1), ("half-open", 1, 0)])
def test_edges(edge, corner, far):
    one = [reference("man", [[10.0, 10, 20, 20]])]
    assert pointing(one, [(10, 10)], "any", edge, extra_pixel=True) == corner
    assert pointing(one, [(20, 20)], "any", edge, extra_pixel=True) == far
    assert pointing(one, [(15, 15)], "any", edge, extra_pixel=True) == 1
    assert pointing(one, [(15, 25)], "any", edge, extra_pixel=True) == 0


def test_one_way_of_pointing_for_a_whole_file():
    two = [reference("a", [[0.0, 0, 10, 10]]), reference("b", [[0.0, 0, 10, 10]])]
    hot = HeatMap(np.eye(4), (100, 100))
    full = answer((40, 40, 60, 60), point=(5.0, 5.0), heat=hot)
    source, points = predicted_points(two, {"a": [full], "b": [full]})
    assert (source, points.tolist()[0]) == ("heat", list(bicubic_maximum(hot)))
    pointed = replace(full, heat=None)
    source, points = predicted_points(two, {"a": [full], "b": [pointed]})
    assert (source, points.tolist()) == ("given", [[5.0, 5.0], [5.0, 5.0]])
    source, points = predicted_points(two, {"a": [full], "b": [answer((40, 40, 60, 60))]})
    assert (source, points.tolist()) == ("box centre", [[50.0, 50.0], [50.0, 50.0]])


def test_recall_looks_at_the_first_k():
    one = [reference("man", [[0.0, 0, 10, 10]])]
    answers = {"man": [answer((50, 50, 60, 60)), answer((0, 0, 10, 10))]}
    assert recall(one, answers, 1) == 0
    assert recall(one, answers, 2) == 1
    assert recall(one, {}, 2) == 0


def test_baselines():
    two = [
        reference("big", [[0.0, 0, 80, 80]], image="i"),
        reference("small", [[0.0, 0, 10, 10]], image="i"),
    ]
    scores = by_name(baselines(two, REFER, {"i": np.array([[0.0, 0, 10, 9], [5.0, 5, 9, 9]])}))
    assert list(scores["baseline_whole_image"].items) == [1, 0]
    assert list(scores["baseline_image_centre"].items) == [1, 0]
    assert list(scores["bound_best_proposal"].items) == [0, 1]
    assert list(by_name(baselines(two, REFER, {}))["bound_best_proposal"].items) == [0, 0]
    assert "bound_best_proposal" not in by_name(baselines(two, REFER))


def test_missing_answers_are_wrong():
    two = [reference("a", [[0.0, 0, 10, 10]], category="people"), reference("b", [[0.0, 0, 10, 10]])]
    scores = by_name(phrase_scores(two, {"a": [answer((0, 0, 10, 10))]}, REFER))
    for name in ("accuracy", "mean_iou", "pointing", "pointing_union", "pointing_centre", "accuracy_at_0.9"):
        assert list(scores[name].items) == [1, 0], name
    assert scores["accuracy[people]"].ids == ("a",)


def test_refusals():
    with pytest.raises(DeixisError, match="no phrase with a box"):
        phrase_scores([], {})
    with pytest.raises(ValueError, match="same id"):
        phrase_scores([reference("a", TWO), reference("a", TWO)], {})
    with pytest.raises(ValueError, match=r"expected boxes \[M, 4\], got"):
        reference("a", [])


# Properties ---------------------------------------------------------------------------------------------------------

boxes = st.tuples(*[st.integers(0, 60)] * 2, *[st.integers(5, 40)] * 2).map(
    lambda b: [float(b[0]), float(b[1]), float(b[0] + b[2]), float(b[1] + b[3])]
)
protocols = st.sampled_from([FLICKR30K, REFER, Protocol(target="any", compare=">")])
cases = st.lists(st.tuples(st.lists(boxes, min_size=1, max_size=3), boxes), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(cases, protocols)
def test_a_perfect_answer_scores_one(pairs, protocol):
    references = [reference(str(i), truth) for i, (truth, _) in enumerate(pairs)]
    answers = {
        r.id: [answer(geometry.union(r.boxes) if protocol.target == "union" else r.boxes[0])] for r in references
    }
    scores = by_name(phrase_scores(references, answers, protocol))
    for name in ("accuracy", "mean_iou", "accuracy_at_0.9", "pointing_centre"):
        assert scores[name].value == pytest.approx(1.0), name


@settings(max_examples=50, deadline=None)
@given(cases, protocols, st.randoms(use_true_random=False))
def test_order_means_nothing_and_items_stand_alone(pairs, protocol, random):
    references = [reference(str(i), truth, category="ab"[i % 2]) for i, (truth, _) in enumerate(pairs)]
    answers = {str(i): [answer(box)] for i, (_, box) in enumerate(pairs)}
    before = by_name(phrase_scores(references, answers, protocol))
    shuffled = list(references)
    random.shuffle(shuffled)
    after = by_name(phrase_scores(shuffled, answers, protocol))
    alone = by_name(phrase_scores(references[:1], answers, protocol))
    for name, score in before.items():
        assert score.value == pytest.approx(after[name].value, abs=1e-12)
        assert score.value == RULES[score.rule](score.stats.sum(0, keepdims=True))[0]
        if "[" not in name:
            assert score.items[0] == alone[name].items[0]


@settings(max_examples=50, deadline=None)
@given(cases)
def test_union_and_any_by_brute_force(pairs):
    references = [reference(str(i), truth) for i, (truth, _) in enumerate(pairs)]
    guesses = np.array([box for _, box in pairs])
    union = [geometry.iou([g], [geometry.union(r.boxes)])[0, 0] for g, r in zip(guesses, references, strict=True)]
    any_box = [geometry.iou([g], r.boxes).max() for g, r in zip(guesses, references, strict=True)]
    assert overlaps(references, guesses, REFER) == pytest.approx(union)
    assert overlaps(references, guesses, Protocol(target="any")) == pytest.approx(any_box)


def test_conventions_show_in_the_signature():
    one, said = [reference("a", TWO)], {"a": [answer((0, 0, 10, 10))]}
    plain = {s.name: s.signature for s in phrase_scores(one, said)}
    for name, change in {
        "accuracy": {"target": "any"},
        "mean_iou": {"extra_pixel": True},
        "pointing": {"point_edge": "inclusive"},
        "pointing_centre": {"centre_edge": "strict"},
        "accuracy_at_0.3": {"compare": ">"},
    }.items():
        changed = by_name(phrase_scores(one, said, replace(FLICKR30K, **change)))
        assert changed[name].signature != plain[name], name
    assert by_name(phrase_scores(one, said, split="testA"))["accuracy"].signature.startswith("split:testA|")
