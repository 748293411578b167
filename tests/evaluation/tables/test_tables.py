"""Comparisons: description, training and evaluation of missing runs, kept runs, report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis import DeixisError, cli
from deixis.data.scenes import make_scenes
from deixis.evaluation.tables import runs as running
from deixis.evaluation.tables.describe import Experiment, Run, read_experiment
from deixis.evaluation.tables.kept import KeptRun, keep_run, read_kept
from deixis.evaluation.tables.report import RESAMPLES, summarise, write_report
from deixis.evaluation.tables.runs import MissingScore, Runner
from deixis.files import lock
from deixis.metrics.references import make_reference
from deixis.metrics.score import mean_score, pack_scores, write_json
from deixis.runs.run import InitFrom
from deixis.show.comparison import to_markdown
from deixis.training.callbacks import Callbacks, Step
from deixis.training.data import TrainingData
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, StoreWriter

DATA = Path("scenes:10")
SIZES = "--model.words 8 --model.hidden 12 --model.attention 6 --phases.0.epochs 2 --batch-images 5 --min-count 1"
TOML = f"""
budget = 10

[rows.plain]
recipe = "updown-small"
options = "{SIZES}"
seeds = [0, 1]
minutes = 1

[rows.taught]
title = "plain, taught"
recipe = "updown-small"
options = "--teacher scan {SIZES}"
teacher = "matcher"
seeds = [0]
minutes = 1.5

[rows.matcher]
recipe = "scan-small"
options = "--model.words 8 --model.embed 8 --phases.0.epochs 1 --phases.1.epochs 1 --batch-images 10 --min-count 1"
seeds = [0, 1]
place = "attention"
minutes = 1

[rows.plain-vote]
source = "plain"
place = "vote"

[rows.plain-found]
source = "plain"
grounder = "matcher"

[rows.whole]
control = "whole-image"

[rows.best]
control = "best-proposal"

[[tables]]
name = "captioners"
title = "Captioners"
rows = ["plain", "plain-vote", "plain-found", "taught"]
baseline = "plain"
columns = [
  {{ score = "CIDEr" }},
  {{ score = "F1_all", title = "F1" }},
  {{ score = "errors_partial", title = "partial", better = "less" }},
]

[[tables]]
name = "grounders"
title = "Grounders"
text = "grounders.md"
rows = ["plain", "matcher", "whole", "best"]
baseline = "matcher"
columns = [{{ score = "accuracy" }}, {{ score = "mean_iou", digits = 2, scale = 1 }}, {{ score = "pointing" }}]
chart = ["accuracy"]
"""


def lines_of(experiment: Experiment) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (experiment.folder / "runs.jsonl").read_text().splitlines()]


def described(folder: Path, text: str = TOML) -> Experiment:
    folder.mkdir(exist_ok=True)
    (folder / "table.toml").write_text(text)
    return read_experiment(folder)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("features") / "scenes.store"
    eyes = named_extractor("tiny", "grid")
    with StoreWriter(path, Contents(eyes.name, eyes.description)) as writer:
        for split, n in (("train", 10), ("val", 2), ("test", 2)):
            for sample in make_scenes(n, 0, split):
                writer.add(sample.image_id, eyes.extract(sample.open()))
    return path


def test_a_toy_comparison(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted in the second training, resumed, started again; then reported without data."""
    monkeypatch.setenv("PATH", "")  # METEOR's Java takes longer than everything else here
    folder, work = tmp_path / "toy", tmp_path / "work"
    experiment = described(folder)
    (folder / "README.md").write_text("# Toy\n\nWhat we think of it.\n")
    began: list[tuple[str, InitFrom | None]] = []
    real = running.run_recipe

    def impatient(recipe: Any, data: TrainingData, out: Path, callbacks: Callbacks, init: InitFrom | None) -> Path:
        began.append((out.name, init))

        def step(now: Step) -> None:
            if len(began) == 2 and now.step == 3:
                raise KeyboardInterrupt

        return real(recipe, data, out, replace(callbacks, step=step), init)

    monkeypatch.setattr(running, "run_recipe", impatient)
    args = ["table", str(folder), "--data", str(DATA), "--work", str(work), "--features", str(store), "--quiet"]
    assert cli.run(args) == 130
    assert [name for name, _ in began] == ["plain-0", "matcher-0"]
    assert [line["run"] for line in lines_of(experiment)] == ["whole", "best", "plain-0"]
    half = json.loads((work / "matcher-0" / "table.json").read_text())
    assert half["seconds"] > 0
    assert not half["finished"]

    capsys.readouterr()
    assert cli.run([*args, "--json"]) == 0
    # needed rows come first, and one seed after the other; `plain-vote` and `plain-found` train nothing
    assert [name for name, _ in began[2:]] == ["matcher-0", "taught-0", "plain-1", "matcher-1"]
    assert dict(began)["taught-0"] == InitFrom(teacher=work / "matcher-0")
    kept = {line["run"]: line for line in lines_of(experiment)}
    assert len(kept) == len(lines_of(experiment)) == len(experiment.runs())
    assert [epoch["epoch"] for epoch in kept["matcher-0"]["log"]] == [1, 2]
    assert kept["taught-0"]["asked"]["recipe"]["distillation"]["teacher"] == "scan-small"
    assert kept["taught-0"]["asked"]["given"] == {"teacher": "matcher-0"}
    assert kept["plain-vote-0"]["log"] == []
    told = json.loads(capsys.readouterr().out)
    captioners, grounders = ({row["row"]: row for row in each["rows"]} for each in told["tables"])
    assert {name: row["seeds"] for name, row in captioners.items()} == {
        "plain": [0, 1],
        "plain-vote": [0, 1],
        "plain-found": [0, 1],
        "taught": [0],
    }
    plain = captioners["plain"]["scores"]["CIDEr"]
    assert plain["mean"] == pytest.approx(np.mean(plain["values"]))
    assert plain["std"] == pytest.approx(np.std(plain["values"], ddof=1))
    assert plain["against_baseline"] is None
    # the same weights give the same captions
    assert captioners["plain-vote"]["scores"]["CIDEr"]["values"] == plain["values"]
    assert captioners["plain-found"]["scores"]["CIDEr"]["values"] == plain["values"]
    assert captioners["plain-found"]["scores"]["F1_all"]["against_baseline"]["items"] == 2
    assert captioners["plain-found"]["core_minutes_in_all"] == pytest.approx(
        captioners["plain"]["core_minutes"] + grounders["matcher"]["core_minutes"]
    )
    found = kept["plain-found-0"]
    assert (found["asked"]["source"], found["asked"]["grounder"]) == ("plain", "matcher-0")
    assert found["supervision"] == "photographs with captions, no boxes"
    assert found["values"]["test"][captioners["plain-found"]["scores"]["F1_all"]["signature"]]["F1_all"] >= 0
    assert kept["whole"]["supervision"] == "nothing"
    assert captioners["plain-vote"]["scores"]["CIDEr"]["against_baseline"]["p"] == 1
    assert captioners["plain-vote"]["core_minutes"] == 0
    assert captioners["plain-vote"]["core_minutes_in_all"] == pytest.approx(captioners["plain"]["core_minutes"])
    assert captioners["taught"]["core_minutes_in_all"] > captioners["taught"]["core_minutes"] > 0
    assert grounders["best"]["scores"]["mean_iou"]["mean"] > grounders["matcher"]["scores"]["mean_iou"]["mean"]

    page = (folder / "README.md").read_text()
    assert page.startswith("# Toy\n\nWhat we think of it.\n")
    assert "| plain, taught | 0 |" in page
    assert plain["signature"] in page
    assert (folder / "captioners.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "grounders.png").exists()

    done = len(began)
    assert cli.run(args) == 0
    assert len(began) == done
    (folder / "README.md").unlink()
    assert cli.run(["table", str(folder), "--only-report", "--quiet"]) == 0
    assert page.split("\n", 4)[4] == (folder / "README.md").read_text()  # the table, without the written text

    # a lost model is trained again for a row that needs it, and its kept result stays
    (work / "matcher-0" / "table.json").unlink()
    remove_kept(experiment, "taught-0")
    Runner(experiment, DATA, work, {"default": store}).run_all(experiment.runs(["taught"]))
    assert [name for name, _ in began[done:]] == ["matcher-0"]  # the model of taught-0 is there
    assert {line["run"]: line for line in lines_of(experiment)}["matcher-0"] == kept["matcher-0"]
    assert [line["run"] for line in lines_of(experiment)].count("taught-0") == 1

    # a run without the score of a column (there is no Java) is not kept
    described(tmp_path / "more", TOML.replace('{ score = "CIDEr" }', '{ score = "CIDEr" }, { score = "METEOR" }'))
    args[1] = str(tmp_path / "more")
    capsys.readouterr()
    assert cli.run([*args[:-1], "--rows", "plain", "--seeds", "0"]) == 1
    said = capsys.readouterr().err
    assert "plain-0: no METEOR" in said.replace("\n", " ")
    assert "no result for plain-0" in said.replace("\n", " ")
    assert not (tmp_path / "more" / "runs.jsonl").exists()

    # one name of features is one extractor
    other = tmp_path / "other.store"
    with StoreWriter(other, Contents("other eyes", {})):
        pass
    (work / "taught-0" / "table.json").unlink()
    remove_kept(experiment, "taught-0")
    with pytest.raises(DeixisError, match="features are from other eyes, those of whole from tiny"):
        Runner(experiment, DATA, work, {"default": other}).run_all(experiment.runs())

    changed = described(folder, TOML.replace("--phases.0.epochs 2", "--phases.0.epochs 3"))
    with pytest.raises(DeixisError, match=r"run 'plain-0'.*recipe\.phases\.0\.epochs.*new name"):
        read_kept(changed)


def remove_kept(experiment: Experiment, name: str) -> None:
    """Delete the line of a run."""
    file = experiment.folder / "runs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines_of(experiment) if line["run"] != name))


def test_missing_feature_stores_are_refused_before_any_run(tmp_path: Path) -> None:
    wide = described(tmp_path / "toy", TOML.replace('control = "best', 'features = "wide"\ncontrol = "best'))
    runner = Runner(wide, DATA, tmp_path / "work", {"default": tmp_path})
    with pytest.raises(DeixisError, match=r"row 'best': no features 'wide'.*wide=STORE"):
        runner.run_all(wide.runs())


# Several processes --------------------------------------------------------------------------------------------------


class Hollow(Runner):
    """Train and evaluate nothing, but leave the files of both."""

    def train(self, run: Run) -> None:
        self.model(run).mkdir(exist_ok=True)
        asked = self.experiment.settings(run)
        write_json(self.model(run) / "table.json", {"asked": asked, "seconds": 0, "finished": True})

    def keep(self, run: Run) -> None:
        keep_by_hand(self.experiment, run, {"CIDEr": [0.0]})


def keep_by_hand(
    experiment: Experiment,
    run: Run,
    scores: Mapping[str, list[float]],
    seconds: float = 0,
    mark: str = "how",
    others: Mapping[str, float] | None = None,
    **about: Any,
) -> None:
    """Keep a run with per-image values of some scores, and others without statistics."""
    made = [mean_score(name, [str(n) for n in range(len(v))], v, f"{mark}:{name}") for name, v in scores.items()]
    values = {f"{mark}:{name}": {name: value} for name, value in (others or {}).items()}
    values |= {score.signature: {score.name: score.value} for score in made}
    fields: dict[str, Any] = {
        "run": run.name,
        "asked": experiment.settings(run),
        "supervision": "photographs with captions, no boxes",
        "extractor": "eyes",
        "proposals": "none",
        "training_seconds": seconds,
        "evaluation_seconds": 0.0,
        "values": {experiment.report: values},
        "log": [],
        "statistics": {experiment.report: pack_scores(made)},
    }
    keep_run(experiment, KeptRun(**{**fields, **about}))


def hollow(tmp_path: Path, kind: type[Hollow] = Hollow, **options: Any) -> Hollow:
    with StoreWriter(tmp_path / "store", Contents("eyes", {})):
        pass
    return kind(described(tmp_path / "toy"), DATA, tmp_path / "work", {"default": tmp_path / "store"}, **options)


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path) -> None:
    runner = hollow(tmp_path)
    experiment = runner.experiment
    runner.work.mkdir()
    held = lock(runner.work / "matcher-0.lock")
    assert held is not None
    other = Run(experiment.rows["matcher"], 0)
    waited: list[set[str]] = []

    def wait() -> None:
        """The other process finishes its run."""
        waited.append(set(read_kept(experiment)))
        runner.train(other)
        runner.keep(other)
        held.close()

    runner.run_all(experiment.runs(), wait)
    everything = {run.name for run in experiment.runs()}
    assert waited == [everything - {"matcher-0", "plain-found-0", "taught-0"}]  # these two need the matcher
    names = [line["run"] for line in lines_of(experiment)]
    assert sorted(names) == sorted(everything)
    assert names[-3:] == ["matcher-0", "taught-0", "plain-found-0"]


def test_a_run_that_lacks_a_score_is_skipped_until_the_next_time(tmp_path: Path) -> None:
    said: list[str] = []

    class Once(Hollow):
        def keep(self, run: Run) -> None:
            if run.name == "matcher-0" and not said:
                raise MissingScore("no Java")
            super().keep(run)

    runner = hollow(tmp_path, Once, message=said.append)
    everything = {run.name for run in runner.experiment.runs()}
    runner.run_all(runner.experiment.runs())
    assert said == ["no Java"]
    assert set(read_kept(runner.experiment)) == everything - {"matcher-0"}  # others could take its model
    runner.run_all(runner.experiment.runs())
    assert set(read_kept(runner.experiment)) == everything


# Kept runs ----------------------------------------------------------------------------------------------------------


def test_an_incomplete_last_line_is_dropped_and_replaced(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    first, second, third = experiment.runs()[:3]
    for run in (first, second):
        keep_by_hand(experiment, run, {"CIDEr": [0.5]})
    file = tmp_path / "toy" / "runs.jsonl"
    whole = file.read_bytes()
    for length in (1, 40, len(whole.splitlines()[1])):
        file.write_bytes(whole[: len(whole.splitlines()[0]) + 1 + length])
        assert list(read_kept(experiment)) == [first.name]
    keep_by_hand(experiment, second, {"CIDEr": [0.5]})
    assert file.read_bytes() == whole
    keep_by_hand(experiment, third, {"CIDEr": [0.5]})
    assert list(read_kept(experiment)) == [first.name, second.name, third.name]


def test_two_processes_add_a_run_once(tmp_path: Path) -> None:
    """Each process waits for the lock and finds the lines of the others."""
    experiment = described(tmp_path / "toy")
    path = tmp_path / "toy" / "runs.jsonl"
    runs = experiment.runs()
    held = lock(path)
    assert held is not None
    with ThreadPoolExecutor(4) as pool:
        kept = [pool.submit(keep_by_hand, experiment, run, {"CIDEr": [0.5]}) for run in [*runs, *runs]]
        assert path.read_bytes() == b""  # all wait
        held.close()
        for one in kept:
            one.result()
    assert sorted(line["run"] for line in lines_of(experiment)) == sorted(run.name for run in runs)


@pytest.mark.parametrize(
    ("line", "reason"),
    [("no JSON", "invalid run"), ('{"run": "x"}', "missing"), ("[]", "invalid run")],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    experiment = described(tmp_path / "toy")
    keep_by_hand(experiment, experiment.runs()[0], {"CIDEr": [0.5]})
    with (tmp_path / "toy" / "runs.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(DeixisError, match=rf"runs\.jsonl, line 2.*{reason}"):
        read_kept(experiment)


def test_a_run_without_scores_on_the_reported_split_is_refused(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    keep_by_hand(experiment, experiment.runs()[0], {"CIDEr": [0.5]})
    with pytest.raises(DeixisError, match=r"run 'whole': no scores on 'dev'\. Delete the line"):
        read_kept(replace(experiment, report="dev"))


def test_kept_runs_of_rows_that_are_gone_are_not_read(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    keep_by_hand(experiment, Run(replace(experiment.rows["plain"], name="gone"), 0), {"CIDEr": [0.5]})
    assert read_kept(experiment) == {}


# Numbers ------------------------------------------------------------------------------------------------------------

SMALL = """
[rows.a]
recipe = "updown-small"
seeds = [0, 1]
[rows.b]
title = "the other"
recipe = "updown-small"
options = "--teacher pos-scan"
seeds = [0, 1]
teacher = "m"
[rows.c]
recipe = "cyclical-small"
[rows.m]
recipe = "pos-scan-small"
seeds = [0, 1]
[[tables]]
name = "t"
title = "T"
rows = ["a", "b", "c"]
baseline = "a"
columns = [{ score = "CIDEr" }, { score = "CHAIRi", title = "C", better = "less", scale = 1, digits = 2 }]
"""


def test_means_deviations_and_the_bootstrap_by_hand(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy", SMALL)
    row = experiment.rows
    # a: seeds .1 and .3. b: each image .25 better in the mean of the seeds, so every draw has the same difference
    keep_by_hand(experiment, Run(row["a"], 0), {"CIDEr": [0.0, 0.2], "CHAIRi": [0.0, 0.0]}, seconds=60)
    keep_by_hand(experiment, Run(row["a"], 1), {"CIDEr": [0.2, 0.4], "CHAIRi": [0.0, 0.0]}, seconds=180)
    keep_by_hand(experiment, Run(row["b"], 0), {"CIDEr": [0.5, 0.7], "CHAIRi": [1.0, 0.0]}, seconds=120)
    keep_by_hand(experiment, Run(row["b"], 1), {"CIDEr": [0.2, 0.4], "CHAIRi": [1.0, 0.0]}, seconds=120)
    keep_by_hand(experiment, Run(row["m"], 0), {"CIDEr": [0.0, 0.0]}, seconds=600)
    table = experiment.tables[0]
    summary = summarise(experiment, table, read_kept(experiment))
    a, b = summary.lines
    assert a.scores["CIDEr"].mean == pytest.approx(0.2)
    assert a.scores["CIDEr"].std == pytest.approx(0.1 * np.sqrt(2))
    better = b.scores["CIDEr"].against_baseline
    assert better is not None
    assert better.difference == pytest.approx(0.25)
    assert better.difference_interval == pytest.approx((0.25, 0.25))
    assert better.p == pytest.approx(1 / (RESAMPLES + 1))
    # CHAIRi: the differences of the images are 1 and 0; two are drawn, so 0, .5, .5 or 1 with equal chance
    worse = b.scores["CHAIRi"].against_baseline
    assert worse is not None
    assert worse.difference == pytest.approx(0.5)
    assert worse.difference_interval == (0, 1)
    assert worse.p == pytest.approx(0.5, abs=0.03)
    assert (a.core_minutes, a.core_minutes_in_all) == (2, 2)
    assert (b.core_minutes, b.core_minutes_in_all) == (2, 7)  # ten minutes of a teacher for one of two seeds

    text = to_markdown(summary, "t.png")
    assert "| a | 0, 1 | 20.0 ± 14.1 | **0.00 ± 0.00** | 2 |" in text
    assert "| the other | 0, 1 | **45.0 ± 21.2** \\* | 0.50 ± 0.00 | 7 |" in text
    assert "Supervision: captions. Mean" in text  # a common supervision is no column
    assert "2 tests: about 0.1 false positives are expected" in text
    assert f"| the other | +25.0 (+25.0 to +25.0), p 0.0001 | +0.50 (+0.00 to +1.00), p {worse.p:.4f} |" in text
    assert "CIDEr: `how:CIDEr`" in text
    assert "`bootstrap:paired|drawn:images|resamples:10000|value:mean over seeds|seed:0|v" in text


def test_other_protocols_and_single_seeds_are_shown_but_not_compared(tmp_path: Path) -> None:
    experiment = described(
        tmp_path / "toy", SMALL.replace('score = "CIDEr" }', 'score = "CIDEr" }, { score = "METEOR" }')
    )
    row = experiment.rows
    keep_by_hand(experiment, Run(row["a"], 0), {"CIDEr": [0.0, 0.2]})
    keep_by_hand(
        experiment,
        Run(row["c"], 0),
        {"CIDEr": [0.9, 0.9]},
        mark="another",
        others={"METEOR": 0.25},
        proposals="boxes: COCO",
        supervision="boxes",
    )
    (found,) = write_report(experiment, resamples=100)
    a, c = found["rows"]
    assert c["scores"]["CIDEr"] == {
        "values": [0.9],
        "mean": 0.9,
        "std": None,
        "signature": "another:CIDEr",
        "against_baseline": None,
    }
    page = (experiment.folder / "README.md").read_text()
    assert "| c | boxes; proposals: boxes: COCO | 0 | **90.0** | 25.0 | 0 |" in page
    assert "| a | captions | 0 | 10.0 | – | 0 |" in page
    assert "CIDEr: `how:CIDEr`  \nCIDEr: `another:CIDEr`" in page
    assert "differences from" not in page
    assert a["seeds"] == [0]


def test_the_share_of_the_gap_by_hand(tmp_path: Path) -> None:
    """Means over two seeds: a .2, b .35, m .8; equal differences in all images, so every draw has the same share."""
    text = SMALL.replace('rows = ["a", "b", "c"]', 'rows = ["a", "b", "m"]\nsupervised = "m"')
    experiment = described(tmp_path / "toy", text)
    row = experiment.rows
    for name, values in (("a", (0.1, 0.3)), ("b", (0.3, 0.4)), ("m", (0.6, 1.0))):
        for seed, value in enumerate(values):
            keep_by_hand(experiment, Run(row[name], seed), {"CIDEr": [value - 0.1, value + 0.1]})
    (found,) = write_report(experiment, resamples=100)
    a, b, m = (line["scores"]["CIDEr"] for line in found["rows"])
    assert "gap" not in a
    assert "gap" not in m
    assert b["gap"]["closed"] == pytest.approx(0.15 / 0.6)
    assert b["gap"]["interval"] == pytest.approx((0.25, 0.25))
    page = (experiment.folder / "README.md").read_text()
    assert "| the other | x 1.75, 25 % (25 to 25) |" in page
    with pytest.raises(DeixisError, match="'nobody' is not among its rows"):
        described(tmp_path / "other", text.replace('supervised = "m"', 'supervised = "nobody"'))


def test_a_table_may_stand_on_a_page_elsewhere_and_shows_its_chart_there(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy", SMALL.replace("[[tables]]", '[[tables]]\ntext = "../pages/results.md"'))
    keep_by_hand(experiment, Run(experiment.rows["a"], 0), {"CIDEr": [0.0, 0.2]})
    (tmp_path / "pages").mkdir()
    write_report(experiment, resamples=100)
    (name,) = [table.name for table in experiment.tables]
    assert f"](../toy/{name}.png)" in (tmp_path / "pages" / "results.md").read_text()
    assert (experiment.folder / f"{name}.png").exists()


# Descriptions -------------------------------------------------------------------------------------------------------


def test_dependencies_come_first_and_only_what_is_asked_for(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    assert [run.name for run in experiment.runs(["taught"])] == ["matcher-0", "taught-0", "matcher-1"]
    assert [run.name for run in experiment.runs(["taught"], [0])] == ["matcher-0", "taught-0"]
    assert experiment.rows["plain-vote"].seeds == (0, 1)
    with pytest.raises(DeixisError, match="no row 'tought'"):
        experiment.runs(["tought"])
    with pytest.raises(DeixisError, match="no row has the seed 7"):
        experiment.runs((), [7])


def test_a_row_with_one_seed_serves_every_seed_of_others(tmp_path: Path) -> None:
    text = TOML.replace('seeds = [0, 1]\nplace = "attention"', 'seeds = [3]\nplace = "attention"')
    experiment = described(tmp_path / "toy", text.replace('teacher = "matcher"\nseeds = [0]', 'teacher = "matcher"'))
    taught, found = (replace(experiment.rows[name], seeds=(0, 1)) for name in ("taught", "plain-found"))
    for seed in (0, 1):
        assert [run.name for run in experiment.needed(Run(taught, seed))] == ["matcher-3"]
        assert [run.name for run in experiment.needed(Run(found, seed))] == [f"plain-{seed}", "matcher-3"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"updown-small"', '"updwn-small"', r"row 'plain': unknown recipe 'updwn-small'. Did you mean updown"),
        ('"updown-small"', '"updown+scan-small"', r"row 'plain': .*deixis train updown-small --teacher scan"),
        ('teacher = "matcher"', 'judge = "matcher"', r"row 'taught': 'judge' is now 'reward_model'"),
        ("--min-count 1", "--minimum 1", r"row 'plain': --minimum is now --min-count"),
        ("--phases.0.epochs 2", "--phases.0.epoch 2", r"row 'plain': invalid options for updown-small: '.*--help"),
        ('teacher = "matcher"', 'teacher = "nobody"', "row 'taught': it needs the row 'nobody', which does not exist"),
        ('teacher = "matcher"', 'teacher = "whole"', "needs a model of 'whole', which is not trained"),
        ("seeds = [0]\n", "seeds = [2]\n", r"needs 'matcher' with the seeds \[2\]"),
        ('source = "plain"', "", "row 'plain-vote': give exactly one of 'recipe', 'source' and 'control'"),
        (
            'source = "plain"',
            'source = "plain"\nteacher = "matcher"',
            "only a row with 'recipe' takes 'options', 'init_from'",
        ),
        ('source = "plain"\ngrounder', 'control = "whole-image"\ngrounder', "'grounder' needs 'source'"),
        ('source = "plain"\ngrounder', 'source = "matcher"\ngrounder', "'matcher' is not a captioner"),
        ('grounder = "matcher"', 'grounder = "taught"', "'taught' is a captioner. Name a grounder"),
        ('grounder = "matcher"', 'grounder = "nobody"', "needs the row 'nobody'"),
        ('grounder = "matcher"', 'grounder = "best"', "'best', which is not trained"),
        ('recipe = "scan-small"', 'recipe = "scan-small"\nfeatures = "wide"', "other 'features' than 'matcher'"),
        (
            'place = "vote"',
            'place = "votes"',
            "row 'plain-vote': field 'place': 'votes' is not valid. Use one of attention, vote",
        ),
        ('score = "F1_all"', 'score = "F2_all"', "Unknown metric 'F2_all'"),
        (
            'baseline = "plain"',
            'baseline = "whole"',
            "table 1 'captioners': the baseline 'whole' is not among its rows",
        ),
        ('rows = ["plain", "matcher"', 'rows = ["plein", "matcher"', "table 2 'grounders': no row 'plein'"),
        ("minutes = 1.5", "minuts = 1.5", "row 'taught': unknown field 'minuts'"),
        ("minutes = 1.5", 'minutes = "x"', "row 'taught': field 'minutes': expected a number, got 'x'"),
        ("seeds = [0]\n", "seeds = [0, true]\n", "field 'seeds', item 2: expected a whole number, got True"),
        ('title = "Grounders"\n', "", "table 2: field 'title' is missing"),
        ("digits = 2", "digits = 2.5", "table 2: field 'columns', item 2: field 'digits': expected a whole number"),
        ('chart = ["accuracy"]', 'chart = ["CIDEr"]', "the chart shows 'CIDEr'"),
        ("[rows.whole]", '[rows."a b"]', "row 'a b': invalid name. Use letters"),
        ("[rows.whole]", "[rows.whole]\nseeds = [0]", "row 'whole': a row without training takes no 'seeds'"),
        ("[rows.whole]", "[rows.plain-1]\ncontrol = 'whole-image'\n[rows.whole]", "two runs are named 'plain-1'"),
        ("[rows.whole]", "[rows.whole", "cannot be read"),
        ("budget = 10", "budgt = 10", "unknown field 'budgt'"),
    ],
)
def test_mistakes_are_refused_before_any_run(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in TOML
    with pytest.raises(DeixisError, match=rf"table\.toml.*{reason}"):
        described(tmp_path / "toy", TOML.replace(old, new, 1))


def test_a_grounder_has_the_features_of_the_captioner(tmp_path: Path) -> None:
    wide = TOML.replace('teacher = "matcher"\n', "").replace("--teacher scan ", "")
    wide = wide.replace('recipe = "scan-small"', 'recipe = "scan-small"\nfeatures = "wide"')
    with pytest.raises(DeixisError, match="row 'plain-found': it has other 'features' than 'matcher'"):
        described(tmp_path / "toy", wide)


def test_a_setting_that_a_kept_run_does_not_have_must_be_empty(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    run = Run(experiment.rows["plain-vote"], 0)
    asked = experiment.settings(run)
    del asked["grounder"]
    keep_by_hand(experiment, run, {"CIDEr": [0.0]}, asked=asked)
    assert run.name in read_kept(experiment)
    found = described(tmp_path / "toy", TOML.replace('place = "vote"', 'place = "vote"\ngrounder = "matcher"'))
    with pytest.raises(DeixisError, match=r"run 'plain-vote-0': stored result with other settings: grounder \(kept"):
        read_kept(found)


def test_a_model_that_started_from_another_seed_is_another_model(tmp_path: Path) -> None:
    """Kept when the teacher had one seed for all; then the teacher has as many as its pupils."""
    pupils = 'teacher = "matcher"\nseeds = [0, 1]'
    text = TOML.replace('teacher = "matcher"\nseeds = [0]', pupils)
    one = described(
        tmp_path / "toy", text.replace('seeds = [0, 1]\nplace = "attention"', 'seeds = [0]\nplace = "attention"')
    )
    assert one.settings(Run(one.rows["plain-found"], 1))["grounder"] == "matcher-0"
    several = described(tmp_path / "toy", text)
    keep_by_hand(one, Run(one.rows["taught"], 0), {"CIDEr": [0.0]})
    assert list(read_kept(several)) == ["taught-0"]
    keep_by_hand(one, Run(one.rows["taught"], 1), {"CIDEr": [0.0]})
    with pytest.raises(DeixisError, match=r"run 'taught-1': stored result with other settings: given\.teacher \(kept"):
        read_kept(several)


def test_the_row_of_the_grounder_sets_how_it_chooses_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[object, ...]] = []

    def evaluated(
        model: Path, reference: object, photos: object, grounder: Path | None, place: str | None, device: str
    ) -> None:
        called.append((model.name, grounder.name if grounder else None, place, device))

    monkeypatch.setattr(running, "evaluate_folder", evaluated)
    monkeypatch.setattr(running, "read_reference", lambda data, split: make_reference(make_scenes(1, 0, split), tuple))
    monkeypatch.setattr(running, "FeatureStore", lambda path: {})
    experiment = described(tmp_path / "toy")
    runner = Runner(experiment, DATA, tmp_path / "work", {"default": tmp_path}, device="cuda:1")
    found, voted, plain = (experiment.rows[name] for name in ("plain-found", "plain-vote", "plain"))
    for row in (found, replace(found, place="vote"), voted, plain):
        runner.evaluate(Run(row, 1), "val")
    assert called == [
        ("plain-1", "matcher-1", "attention", "cuda:1"),
        ("plain-1", "matcher-1", "vote", "cuda:1"),
        ("plain-1", None, "vote", "cuda:1"),
        ("plain-1", None, None, "cuda:1"),
    ]


def test_a_circle_is_refused(tmp_path: Path) -> None:
    circle = TOML.replace('recipe = "scan-small"', 'recipe = "scan-small"\nteacher = "taught"', 1)
    circle = circle.replace('teacher = "matcher"\nseeds = [0]', 'teacher = "matcher"\nseeds = [0, 1]')
    with pytest.raises(
        DeixisError, match=r"circular dependency: (matcher -> taught -> matcher|taught -> matcher -> taught)"
    ):
        described(tmp_path / "toy", circle)


def test_a_folder_without_a_description_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["table", str(tmp_path), "--only-report"]) == 1
    assert "table.toml cannot be read" in capsys.readouterr().err
    described(tmp_path)
    assert cli.run(["table", str(tmp_path)]) == 2
    assert "--work" in capsys.readouterr().err
    where = ["--data", str(DATA), "--work", str(tmp_path), "--features", "a=b", "a=c"]
    assert cli.run(["table", str(tmp_path), *where]) == 2
    assert "twice" in capsys.readouterr().err
