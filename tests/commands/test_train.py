"""``deixis train``: help, options that add up, names of version 0.1. Runs are in tests/runs."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from deixis import cli
from deixis.commands import train as command
from deixis.commands.training_progress import TrainingProgress
from deixis.runs.recipes import RECIPES
from deixis.training.callbacks import Step

WHERE = ["--data", "data", "--features", "store", "--out", "run"]


def test_help_lists_the_published_rows_and_then_what_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["train", "--help"]) == 0
    said = capsys.readouterr().out
    places = [said.index(f"\n  {name} ") for name in RECIPES]
    assert places == sorted(places)
    for option in ("--teacher", "--cycle", "--reward", "--reward-model"):
        assert said.index(f"\n  {option} ") > places[-1]


def test_help_of_a_recipe_lists_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.run(["train", "updown-small", "--reward", "cider", "--help"])
    said = capsys.readouterr().out
    for option in ("--init-from", "--teacher", "--cycle.decode", "--phases.1.lr", "--batch-images", "--monitor"):
        assert option in said


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["updown+pos-scan-small"], "deixis train updown-small --teacher pos-scan"),
        (["updown", *WHERE, "--start", "x"], "--start is now --init-from"),
        (["updown", *WHERE, "--judge", "x"], "--judge is now --reward-model"),
        (["updown", *WHERE, "--schedule.rate", "1"], "--schedule.rate is now --schedule.lr"),
        (["scan", *WHERE, "--cycle"], "does not train a captioner"),
        (["updown", *WHERE, "--teacher", "no-such-folder"], "or the folder of a trained matcher"),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_step(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["train", *args]) == 2
    assert said in capsys.readouterr().err


def test_added_losses_and_values_make_one_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[command.Options] = []
    monkeypatch.setattr(command, "train", lambda options: found.append(options) or 0)
    options = ["--teacher", "pos-scan", "--cycle", "--reward", "cider", "--phases.2.epochs", "7", "--cycle.decode", "1"]
    assert cli.run(["train", "distributed-attention-small", *WHERE, *options, "--init-from", "old"]) == 0
    (options,) = found
    assert options.recipe.name == "distributed-attention+pos-scan+cycle+scst-cider-small"
    assert [(phase.loss, phase.epochs) for phase in options.recipe.phases] == [
        ("", 7),
        ("cycle", 5),
        ("self-critical", 7),
    ]
    assert options.recipe.cycle.decode == 1
    assert options.recipe.teacher == "pos-scan-small"
    assert options.init_from == "old"


def test_the_display_counts_from_one_and_explains_each_loss_once() -> None:
    out = io.StringIO()
    with TrainingProgress(Console(file=out, width=200, force_terminal=True, highlight=False), "mine") as progress:
        assert "None" not in out.getvalue()
        callbacks = progress.callbacks()
        for number in (1, 2):
            callbacks.step(Step(1, 3, number, 6, 0.1, {"words": 2.5}, {"words": "cross-entropy"}))
        progress.progress.refresh()
        callbacks.validated(1, {"CIDEr": 0.5}, True)
    said = out.getvalue()
    assert said.count("words: cross-entropy") == 1
    assert "epoch 1/3, step 2/6 · words 2.50" in said
    assert "epoch 1/3: CIDEr 0.5000 (best so far)" in said
    assert "None" not in said


def test_initial_weights_are_given_by_name_or_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "FeatureStore", lambda path: None)
    data = SimpleNamespace(notes=())
    monkeypatch.setattr("deixis.training.data.TrainingData.from_folders", lambda *_: data)
    given = []

    def run(recipe: object, data: object, out: Path, callbacks: object, init: object) -> None:
        given.append(init.model)  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr("deixis.runs.run.run_recipe", run)
    where = ["--data", "data", "--features", "store", "--out", str(tmp_path / "run")]
    for name in ("deixis-8k-pairs", str(tmp_path)):
        with pytest.raises(KeyboardInterrupt):
            command.cli(["updown-small", *where, "--init-from", name])
    assert [path.name for path in given] == ["deixis-8k-pairs", tmp_path.name]
