"""Logs of runs, of this version and of 0.1."""

import json
from pathlib import Path

from deixis.training.log import append_line, best_epoch, cut_log, read_log

NEW = {"epoch": 2, "step": 8, "lr": 0.1, "loss": 1.0, "losses": {"words": 1.0}, "scores": {"CIDEr": 0.5}}
OLD = {"epoch": 0, "step": 4, "rate": 0.2, "losses": {"words": 2.0}, "scores": {"CIDEr": 0.4}}


def test_old_lines_are_counted_from_one(tmp_path: Path) -> None:
    assert read_log(tmp_path) == []
    append_line(tmp_path, OLD)
    append_line(tmp_path, NEW)
    first, second = read_log(tmp_path)
    assert (first["epoch"], first["lr"], first["scores"]) == (1, 0.2, OLD["scores"])
    assert second == NEW


def test_lines_behind_the_checkpoint_and_torn_lines_are_removed(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    append_line(tmp_path, OLD)
    append_line(tmp_path, NEW)
    with log.open("a") as file:
        file.write('{"epoch": 3, "st')
    cut_log(tmp_path, 4)
    (line,) = map(json.loads, log.read_text().splitlines())
    assert line["epoch"] == 1


def test_the_best_epoch_of_old_metrics_is_counted_from_one() -> None:
    assert best_epoch({"best_epoch": 3}) == 3
    assert best_epoch({"epoch": 3}) == 4
    assert best_epoch({}) is None
