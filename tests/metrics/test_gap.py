"""Share of the gap closed, and share of annotated classes that are generated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis import cli
from deixis.metrics.gap import gap_closed
from deixis.metrics.grounded_captions import ObjectWord, Sentence, classes_generated
from deixis.metrics.score import mean_score, save_scores

BOX = (0.0, 0.0, 9.0, 9.0)


def scores(values: list[float]) -> dict[str, object]:
    return {"F1": mean_score("F1", [f"i{n}" for n in range(len(values))], np.array(values), "sig")}


def test_gap_closed() -> None:
    baseline, method, supervised = scores([0.1, 0.2, 0.3]), scores([0.2, 0.3, 0.4]), scores([0.5, 0.6, 0.7])
    (gap,) = gap_closed(baseline, method, supervised, n=200)  # type: ignore[arg-type]
    assert gap.closed == pytest.approx((0.3 - 0.2) / (0.6 - 0.2))
    assert gap.interval == pytest.approx((0.25, 0.25))  # the same share in every item
    (none,) = gap_closed(baseline, method, baseline, n=200)  # type: ignore[arg-type]
    assert none.closed is None


def test_compare_prints_the_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name, values in (("a", [0.1, 0.2]), ("b", [0.3, 0.2]), ("s", [0.5, 0.4])):
        save_scores(tmp_path / f"{name}.json", list(scores(values).values()), {})  # type: ignore[arg-type]
        files.append(str(tmp_path / f"{name}.json"))
    assert cli.run(["compare", *files[:2], "--supervised", files[2], "--n", "200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["gap_closed"]["F1"]
    assert found["closed"] == pytest.approx(0.1 / 0.3)
    assert cli.run(["compare", *files[:2], "--supervised", files[2], "--n", "200"]) == 0
    assert "33.3%" in capsys.readouterr().out


def test_classes_generated() -> None:
    def sentence(*names: str) -> tuple[Sentence, ...]:
        return (Sentence(tuple(ObjectWord(name, i, (BOX,)) for i, name in enumerate(names))),)

    references = {"1": sentence("dog", "man"), "2": sentence("dog", "ball"), "3": sentence("tree")}
    predictions = {"1": sentence("ball"), "2": sentence("dog", "cat"), "3": sentence()}
    # dog and ball of dog, man, ball, tree; the place does not matter, and cat is not annotated
    assert classes_generated(references, predictions).value == pytest.approx(2 / 4)
