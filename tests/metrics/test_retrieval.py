"""Retrieval: agreement with SCAN's evaluation, ties, folds, and ranks by brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.metrics import retrieval as module
from deixis.metrics.retrieval import retrieval, retrieval_ranks
from deixis.metrics.score import RULES

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "scan_recall.npz")
SIMILARITIES = GOLDEN["similarities"]
IMAGES = [str(number) for number in range(200)]
OWNER = np.repeat(np.arange(200), 5)


def by_name(similarities: np.ndarray, images: list[str], **options: object) -> dict[str, float]:
    return {score.name: score.value for score in retrieval(similarities, images, **options)}  # type: ignore[arg-type]


def test_ranks_and_metrics_agree_with_scan() -> None:
    i2t, t2i = retrieval_ranks(SIMILARITIES, OWNER)
    np.testing.assert_array_equal(i2t, GOLDEN["i2t_ranks"])
    np.testing.assert_array_equal(t2i, GOLDEN["t2i_ranks"])
    values = by_name(SIMILARITIES, IMAGES)
    for way in ("i2t", "t2i"):
        mine = [values[f"{way}_{name}"] for name in ("R@1", "R@5", "R@10", "median_rank", "mean_rank")]
        np.testing.assert_allclose(mine, GOLDEN[way] / [100, 100, 100, 1, 1], atol=1e-9)


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_CELLS", 7_000)
    i2t, t2i = retrieval_ranks(SIMILARITIES, OWNER)
    np.testing.assert_array_equal(i2t, GOLDEN["i2t_ranks"])
    np.testing.assert_array_equal(t2i, GOLDEN["t2i_ranks"])


def test_a_memory_mapped_matrix_is_taken(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", SIMILARITIES)
    mapped = np.load(tmp_path / "s.npy", mmap_mode="r")
    np.testing.assert_array_equal(retrieval_ranks(mapped, OWNER)[0], GOLDEN["i2t_ranks"])


def test_five_folds_average_five_searches() -> None:
    folded = retrieval(SIMILARITIES, IMAGES, folds=5)
    parts = [by_name(SIMILARITIES[i : i + 40, 5 * i : 5 * i + 200], IMAGES[i : i + 40]) for i in range(0, 200, 40)]
    for score in folded:
        assert score.value == pytest.approx(np.mean([part[score.name] for part in parts]), abs=1e-12)
        assert "images:40|captions:200|folds:5" in score.signature


def test_ties_put_the_wrong_answer_first() -> None:
    i2t, t2i = retrieval_ranks(np.zeros((3, 6)), np.repeat(np.arange(3), 2))
    assert i2t.tolist() == [4, 4, 4]  # behind all captions of others, not behind its own
    assert t2i.tolist() == [2] * 6


def test_a_perfect_matcher_finds_everything_first() -> None:
    values = by_name(np.kron(np.eye(4), np.ones((1, 5))), list("abcd"))
    assert set(values.values()) == {1.0}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_ranks_by_brute_force_in_any_order(seed: int) -> None:
    generator = np.random.default_rng(seed)
    images, captions = generator.integers(1, 6), 12
    owner = np.concatenate([np.arange(images), generator.integers(images, size=captions - images)])
    similarities = generator.integers(0, 4, size=(images, captions)) / 4  # many ties
    i2t, t2i = retrieval_ranks(similarities, owner)
    for image in range(images):
        best = max(similarities[image, owner == image])
        assert i2t[image] == sum(similarities[image, owner != image] >= best)
    for caption, image in enumerate(owner):
        others = np.delete(similarities[:, caption], image)
        assert t2i[caption] == sum(others >= similarities[image, caption])

    order = generator.permutation(images)  # the images in another order: the same values
    names = [str(number) for number in range(images)]
    place = np.argsort(order)
    shuffled = retrieval(similarities[order], [names[i] for i in order], owner=place[owner])
    for before, after in zip(retrieval(similarities, names, owner=owner), shuffled, strict=True):
        assert after.value == pytest.approx(before.value, abs=1e-12)
        np.testing.assert_allclose(after.items, before.items[order], atol=1e-12)


@pytest.mark.parametrize("folds", [1, 5])
def test_the_median_of_a_resample_follows_from_the_sums(folds: int) -> None:
    scores = retrieval(SIMILARITIES, IMAGES, folds=folds)  # type: ignore[arg-type]
    score = next(score for score in scores if score.name == "t2i_median_rank")
    size = 200 // folds
    parts = [SIMILARITIES[i : i + size, 5 * i : 5 * (i + size)] for i in range(0, 200, size)]
    ranks = np.concatenate([retrieval_ranks(part, np.repeat(np.arange(size), 5))[1] for part in parts])
    generator = np.random.default_rng(0)
    for _ in range(20):
        times = np.bincount(generator.integers(200, size=200), minlength=200)
        drawn = [
            np.repeat(ranks[5 * i : 5 * (i + size)], np.repeat(times[i : i + size], 5)) for i in range(0, 200, size)
        ]
        expected = np.mean([np.floor(np.median(fold)) + 1 for fold in drawn])
        assert RULES[score.rule]((times @ score.stats)[None])[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("similarities", "images", "options", "message"),
    [
        (np.zeros((2, 9)), ["a", "b"], {}, "2 x 9. Expected 2 images x 10 captions"),
        (np.zeros((2, 10)), ["a", "b"], {"folds": 5}, "5 equal folds"),
        (np.full((2, 10), np.nan), ["a", "b"], {}, "row 0 and caption 0 is not finite"),
        (np.zeros((2, 2)), ["a", "b"], {"owner": [0, 0]}, "row 1 has no caption"),
        (np.zeros((2, 2)), ["a", "b"], {"owner": [0, 2]}, "from 0 to 1"),
        (np.zeros((0, 0)), [], {}, "at least one image"),
    ],
)
def test_what_cannot_be_searched_is_named(
    similarities: np.ndarray, images: list[str], options: dict[str, object], message: str
) -> None:
    with pytest.raises(DeixisError, match=message):
        retrieval(similarities, images, **options)  # type: ignore[arg-type]
