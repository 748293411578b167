"""The paired bootstrap: against brute force, against theory, and what it refuses to compare."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.metrics import bootstrap
from deixis.metrics.bleu import bleu
from deixis.metrics.bootstrap import by_image, paired_bootstrap
from deixis.metrics.score import Score, make_score, mean_score, signature


def normal_scores(n: int, shift: float, seed: int) -> tuple[dict[str, Score], dict[str, Score]]:
    generator = np.random.default_rng(seed)
    ids = [str(number) for number in range(n)]
    common, own = generator.normal(size=n), generator.normal(size=n)
    a = mean_score("m", ids, common, "s")
    return {"m": a}, {"m": mean_score("m", ids, common + shift + 0.5 * own, "s")}


def test_intervals_match_the_standard_error_of_a_mean() -> None:
    a, b = normal_scores(400, shift=0.1, seed=3)
    (found,) = paired_bootstrap(a, b, n=20_000)
    for value, interval, items in (
        (found.a, found.a_interval, a["m"].items),
        (found.b, found.b_interval, b["m"].items),
        (found.difference, found.difference_interval, b["m"].items - a["m"].items),
    ):
        half = 1.96 * items.std() / np.sqrt(400)
        assert interval == pytest.approx((value - half, value + half), abs=0.06 * half)
    # Pairing pays: the two systems share most of their ups and downs.
    assert np.ptp(found.difference_interval) < 0.5 * np.ptp(found.a_interval)


def test_the_p_value_is_that_of_a_two_sided_test() -> None:
    a, b = normal_scores(400, shift=0.0, seed=3)
    difference = b["m"].items - a["m"].items
    # Put the mean difference at exactly two standard errors: p = 0.0455.
    moved = a["m"].items + difference - difference.mean() + 2 * difference.std() / np.sqrt(400)
    b = {"m": mean_score("m", a["m"].ids, moved, "s")}
    (found,) = paired_bootstrap(a, b, n=20_000)
    assert found.p == pytest.approx(0.0455, abs=0.01)
    (other_way,) = paired_bootstrap(b, a, n=20_000)
    assert other_way.p == pytest.approx(found.p)
    assert other_way.difference == -found.difference


def test_under_the_null_small_p_values_are_rare() -> None:
    p = [paired_bootstrap(*normal_scores(60, shift=0.0, seed=seed), n=300, seed=seed)[0].p for seed in range(200)]
    assert 0.005 < np.mean(np.array(p) < 0.05) < 0.12


def test_a_system_against_itself_has_no_difference() -> None:
    a, _ = normal_scores(50, shift=0, seed=1)
    (found,) = paired_bootstrap(a, a, n=200)
    assert (found.difference, found.difference_interval, found.p) == (0, (0, 0), 1)


def test_resamples_are_exact_for_a_metric_of_sums() -> None:
    references = {str(n): [list("abcdefgh")[: 4 + n % 4]] for n in range(30)}
    better = {image: captions[0] for image, captions in references.items()}
    worse = {image: captions[0][: 2 + int(image) % 3] for image, captions in references.items()}
    a, b = ({score.name: score for score in bleu(mine, references)} for mine in (worse, better))
    found = {each.name: each for each in paired_bootstrap(a, b, n=100, seed=5)}

    drawn = np.random.default_rng(5).integers(30, size=(100, 30))
    images = list(references)
    values = []
    for draw in drawn:  # the metric over again, on captions drawn with replacement
        again = {f"{place}": images[item] for place, item in enumerate(draw)}
        scores = bleu({k: worse[i] for k, i in again.items()}, {k: references[i] for k, i in again.items()})
        values.append(scores[2].value)
    expected = np.percentile(values, [2.5, 97.5])
    assert found["BLEU-3"].a_interval == pytest.approx(tuple(expected), abs=1e-9)


def test_sparse_statistics_sum_like_dense_ones() -> None:
    generator = np.random.default_rng(0)
    weights = generator.integers(3, size=(40, 7)).astype(float)
    dense = generator.normal(size=(40, 30))
    sparse = np.where(generator.random((40, 30)) < 0.05, dense, 0)
    for stats in (dense, sparse, np.zeros((40, 3))):
        np.testing.assert_allclose(bootstrap._sum_function(stats)(weights), weights.T @ stats, atol=1e-12)


def test_items_are_matched_by_id_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = normal_scores(80, shift=0.3, seed=2)
    order = np.random.default_rng(1).permutation(80)
    score = b["m"]
    shuffled = {"m": mean_score("m", [score.ids[i] for i in order], score.items[order], "s")}
    before = paired_bootstrap(a, b, n=1000)
    assert paired_bootstrap(a, shuffled, n=1000)[0].p == before[0].p
    assert paired_bootstrap(a, shuffled, n=1000)[0].difference_interval == pytest.approx(before[0].difference_interval)
    assert paired_bootstrap(a, b, n=1000, seed=1) != before

    counted: list[int] = []
    monkeypatch.setattr(bootstrap, "BLOCK_CELLS", 80 * 300)
    paired_bootstrap(a, b, n=1000, done=counted.append)
    assert counted == [300, 300, 300, 100]


def test_one_metric_does_not_depend_on_its_company() -> None:
    a, b = normal_scores(40, shift=0.3, seed=2)
    more = {"x": mean_score("x", ["1", "2"], [0.5, 1], "s"), **a, "only": mean_score("only", ["1"], [0.5], "s")}
    found = paired_bootstrap(more, {**b, "x": more["x"]}, n=500)
    assert [each.name for each in found] == ["x", "m"]
    assert found[1] == paired_bootstrap(a, b, n=500)[0]


def test_what_cannot_be_compared_is_named() -> None:
    a, b = normal_scores(10, shift=0.3, seed=2)
    other_way = {"m": dataclasses.replace(b["m"], signature="iou:.5")}
    with pytest.raises(DeixisError, match=r"m: the signatures differ: A has s, B has iou:\.5"):
        paired_bootstrap(a, other_way)
    fewer = {"m": mean_score("m", b["m"].ids[2:], b["m"].items[2:], "s")}
    with pytest.raises(DeixisError, match=r"m: only A has scores for 0, 1. Score"):
        paired_bootstrap(a, fewer)
    with pytest.raises(DeixisError, match=r"m: only B has scores for 0, 1. Score"):
        paired_bootstrap(fewer, b)
    empty = {"m": make_score("m", [], [], np.zeros((0, 2)), "mean", signature())}
    with pytest.raises(DeixisError, match="no items"):
        paired_bootstrap(empty, empty)


def test_phrases_of_one_image_are_drawn_together() -> None:
    """Ten equal phrases of an image say no more than one: the interval is that of the images."""
    images = np.random.default_rng(0).random(60)
    alone = mean_score("x", [f"{i}" for i in range(60)], images, signature())
    ids = [f"{i}#{k}" for k in range(10) for i in range(60)]
    phrases = mean_score("x", ids, np.tile(images, 10), signature())
    once = paired_bootstrap({"x": alone}, {"x": alone}, n=500)[0]
    tenfold = paired_bootstrap({"x": phrases}, {"x": phrases}, n=500)[0]
    assert tenfold.a_interval == pytest.approx(once.a_interval)
    assert tenfold.items == 600


def test_the_value_of_several_seeds_is_their_mean_in_every_draw() -> None:
    """For a mean of items it does not matter whether seeds or items are averaged first."""
    a, b = normal_scores(60, shift=0.2, seed=4)
    _, other = normal_scores(60, shift=0.1, seed=5)
    (found,) = paired_bootstrap([a], [b, other], n=500)
    both = mean_score("m", a["m"].ids, (b["m"].items + other["m"].items) / 2, "s")
    (expected,) = paired_bootstrap(a, {"m": both}, n=500)
    assert found.b == pytest.approx(expected.b)
    assert found.difference_interval == pytest.approx(expected.difference_interval)
    assert found.p == pytest.approx(expected.p)


def test_statistics_of_images_give_the_same_comparison() -> None:
    ids = [f"{i}#{k}" for i in range(20) for k in range(1 + i % 3)]
    values = np.random.default_rng(0).random((2, len(ids)))
    a, b = ({"x": mean_score("x", ids, row, signature())} for row in values)
    summed = [{"x": by_image(system["x"])} for system in (a, b)]
    assert summed[0]["x"].ids == tuple(map(str, range(20)))
    assert summed[0]["x"].items[1] == pytest.approx(values[0, 1:3].mean())
    (before,), (after,) = paired_bootstrap(a, b, n=300), paired_bootstrap(*summed, n=300)
    assert after.difference_interval == pytest.approx(before.difference_interval)
    assert after.p == before.p
    assert by_image(summed[0]["x"]) is summed[0]["x"]
