"""Comparisons: what a file describes is trained, evaluated, kept and told; nothing twice, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis import DeixisError, cli
from deixis.data.scenes import make_scenes
from deixis.files import lock
from deixis.metrics.phrases import REFER, baselines
from deixis.metrics.references import make_reference
from deixis.metrics.score import mean_score, save_scores, write_json
from deixis.runs.run import Given, Material
from deixis.tables import runs as running
from deixis.tables.describe import Experiment, Run, read_experiment
from deixis.tables.page import between_marks, cell
from deixis.tables.report import RESAMPLES, read_kept, summarise, to_markdown, write_report
from deixis.tables.runs import Bench, Unfinished, evaluate_without, is_kept, kept_folder
from deixis.training.loop import Step, Talk
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, FeatureStore, StoreWriter

DATA = Path("scenes:10")
SIZES = "--model.words 8 --model.hidden 12 --model.attention 6 --phases.0.epochs 2 --images 5 --minimum 1"
TOML = f"""
budget = 10

[rows.plain]
recipe = "updown-small"
options = "{SIZES}"
seeds = [0, 1]
minutes = 1

[rows.taught]
title = "plain, taught"
recipe = "updown+scan-small"
options = "{SIZES}"
teacher = "matcher"
seeds = [0]
minutes = 1.5

[rows.matcher]
recipe = "scan-small"
options = "--model.words 8 --model.embed 8 --phases.0.epochs 1 --phases.1.epochs 1 --images 10 --minimum 1"
seeds = [0, 1]
place = "attention"
minutes = 1

[rows.plain-vote]
from = "plain"
place = "vote"

[rows.plain-found]
from = "plain"
finder = "matcher"

[rows.whole]
without = "whole-image"

[rows.best]
without = "best-proposal"

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
    """Interrupted in the second training, gone on with, asked for again; then reported without data."""
    monkeypatch.setenv("PATH", "")  # METEOR's Java takes longer than everything else here
    folder, work = tmp_path / "toy", tmp_path / "work"
    experiment = described(folder)
    (folder / "README.md").write_text("# Toy\n\nWhat we think of it.\n")
    began: list[tuple[str, Given | None]] = []
    real = running.run_recipe

    def impatient(recipe: Any, material: Material, out: Path, talk: Talk, given: Given | None) -> Path:
        began.append((out.name, given))

        def step(now: Step) -> None:
            if len(began) == 2 and now.step == 3:
                raise KeyboardInterrupt

        return real(recipe, material, out, replace(talk, step=step), given)

    monkeypatch.setattr(running, "run_recipe", impatient)
    args = ["table", str(folder), "--data", str(DATA), "--work", str(work), "--features", str(store), "--quiet"]
    assert cli.run(args) == 130
    assert [name for name, _ in began] == ["plain-0", "matcher-0"]
    assert {path.name for path in (folder / "runs").iterdir()} == {"whole", "best", "plain-0"}
    half = json.loads((work / "matcher-0" / "table.json").read_text())
    assert half["seconds"] > 0
    assert not half["finished"]

    capsys.readouterr()
    assert cli.run([*args, "--json"]) == 0
    # what others need comes first, and one seed after the other; `plain-vote` and `plain-found` train nothing
    assert [name for name, _ in began[2:]] == ["matcher-0", "taught-0", "plain-1", "matcher-1"]
    assert dict(began)["taught-0"] == Given(teacher=work / "matcher-0")
    lines = (folder / "runs" / "matcher-0" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1]
    assert json.loads((folder / "runs" / "taught-0" / "recipe.json").read_text())["distil"]["teacher"] == "scan-small"
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
    assert "against_baseline" not in plain
    # the same weights say the same words
    assert captioners["plain-vote"]["scores"]["CIDEr"]["values"] == plain["values"]
    assert captioners["plain-found"]["scores"]["CIDEr"]["values"] == plain["values"]
    assert captioners["plain-found"]["scores"]["F1_all"]["against_baseline"]["items"] == 2
    assert captioners["plain-found"]["core_minutes_in_all"] == pytest.approx(
        captioners["plain"]["core_minutes"] + grounders["matcher"]["core_minutes"]
    )
    found = json.loads((folder / "runs" / "plain-found-0" / "run.json").read_text())
    assert (found["asked"]["from"], found["asked"]["finder"]) == ("plain", "matcher-0")
    assert found["supervision"] == "photographs with captions, no boxes"
    assert captioners["plain-vote"]["scores"]["CIDEr"]["against_baseline"]["p"] == 1
    assert captioners["plain-vote"]["core_minutes"] == 0
    assert captioners["plain-vote"]["core_minutes_in_all"] == pytest.approx(captioners["plain"]["core_minutes"])
    assert captioners["taught"]["core_minutes_in_all"] > captioners["taught"]["core_minutes"] > 0
    assert grounders["best"]["scores"]["mean_iou"]["mean"] > grounders["matcher"]["scores"]["mean_iou"]["mean"]

    page = (folder / "README.md").read_text()
    assert page.startswith("# Toy\n\nWhat we think of it.\n")
    assert "| plain, taught | captions | 0 |" in page
    assert plain["signature"] in page
    assert (folder / "captioners.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "grounders.png").exists()

    done = len(began)
    assert cli.run(args) == 0
    assert len(began) == done
    (folder / "README.md").unlink()
    assert cli.run(["table", str(folder), "--only-report", "--quiet"]) == 0
    assert page.split("\n", 4)[4] == (folder / "README.md").read_text()  # the table, without the lines of people

    # a model that was lost is trained again for a row that needs it, and its result is kept as it was
    mark = (folder / "runs" / "matcher-0" / "run.json").stat().st_mtime_ns
    (work / "matcher-0" / "table.json").unlink()
    for path in (folder / "runs" / "taught-0").iterdir():
        path.unlink()
    (folder / "runs" / "taught-0").rmdir()
    bench = Bench(experiment, DATA, work, {"default": store})
    assert [run.name for run in bench.do(experiment.runs(["taught"]))] == ["matcher-0", "taught-0"]
    assert (folder / "runs" / "matcher-0" / "run.json").stat().st_mtime_ns == mark

    # a column that cannot be had (there is no Java) is no reason to keep less
    described(tmp_path / "more", TOML.replace('{ score = "CIDEr" }', '{ score = "CIDEr" }, { score = "METEOR" }'))
    args[1] = str(tmp_path / "more")
    capsys.readouterr()
    assert cli.run([*args[:-1], "--rows", "plain", "--seeds", "0"]) == 1
    said = capsys.readouterr().err
    assert "plain-0 has no result yet, for want of a column: METEOR" in said.replace("\n", " ")
    assert not (tmp_path / "more" / "runs" / "plain-0").exists()

    # one name of features stands for one extractor
    other = tmp_path / "other.store"
    with StoreWriter(other, Contents("other eyes", {})):
        pass
    (work / "taught-0" / "table.json").unlink()
    (folder / "runs" / "taught-0").rename(folder / "runs" / "another")
    with pytest.raises(DeixisError, match="regions of other eyes, and whole saw those of tiny"):
        Bench(experiment, DATA, work, {"default": other}).do(experiment.runs())

    changed = described(folder, TOML.replace("--phases.0.epochs 2", "--phases.0.epochs 3"))
    with pytest.raises(DeixisError, match=r"recipe\.phases\.0\.epochs was different.*new name"):
        read_kept(changed)


def test_features_that_nobody_said_where_to_find_are_asked_for_at_once(tmp_path: Path) -> None:
    wide = described(tmp_path / "toy", TOML.replace('without = "best', 'features = "wide"\nwithout = "best'))
    bench = Bench(wide, DATA, tmp_path / "work", {"default": tmp_path})
    with pytest.raises(DeixisError, match=r"the row 'best' sees the features 'wide'.*wide=STORE"):
        bench.do(wide.runs())


def test_without_learning_is_what_the_evaluators_call_baselines(store: Path) -> None:
    regions = FeatureStore(store)
    reference = make_reference(make_scenes(2, 0, "test"), tuple)
    boxes = {sample.image_id: regions[sample.image_id].boxes for sample in reference.samples}
    known = {score.name: score.value for score in baselines(reference.phrases, REFER, boxes)}
    whole = {score.name: score.value for score in evaluate_without("whole-image", reference, regions).scores}
    best = {score.name: score.value for score in evaluate_without("best-proposal", reference, regions).scores}
    assert whole["accuracy"] == known["baseline_whole_image"]
    assert whole["pointing"] == known["baseline_image_centre"]
    assert best["accuracy"] == known["bound_best_proposal"]


# Side by side -------------------------------------------------------------------------------------------------------


class Hollow(Bench):
    """Trains and evaluates nothing, but leaves the marks of it."""

    def train(self, run: Run) -> None:
        self.model(run).mkdir(exist_ok=True)
        asked = self.experiment.asked(run)
        write_json(self.model(run) / "table.json", {"asked": asked, "seconds": 0, "finished": True})

    def keep(self, run: Run) -> None:
        keep_by_hand(self.experiment, run, {"CIDEr": [0.0]})


def keep_by_hand(
    experiment: Experiment, run: Run, values: Mapping[str, list[float]], seconds: float = 0, **about: str
) -> None:
    home = kept_folder(experiment, run)
    home.mkdir(parents=True)
    ids = [str(number) for number in range(len(next(iter(values.values()))))]
    scores = [mean_score(name, ids, items, f"how:{name}") for name, items in values.items()]
    save_scores(home / f"scores-{experiment.report}.json.gz", scores, {"others": {"extra": [0.5, "how:extra"]}})
    shown = {"supervision": "photographs with captions, no boxes", "extractor": "eyes", "proposals": "none", **about}
    write_json(home / "run.json", {"asked": experiment.asked(run), "training_seconds": seconds, **shown})


def test_what_another_process_does_is_left_to_it(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    with StoreWriter(tmp_path / "store", Contents("eyes", {})):
        pass
    bench = Hollow(experiment, DATA, tmp_path / "work", {"default": tmp_path / "store"})
    bench.work.mkdir()
    held = lock(bench.work / "matcher-0.lock")
    assert held is not None
    other = Run(experiment.rows["matcher"], 0)
    waited: list[set[str]] = []

    def wait() -> None:
        """The other process finishes what it was at."""
        waited.append({run.name for run in experiment.runs() if is_kept(experiment, run)})
        bench.train(other)
        bench.keep(other)
        held.close()

    done = [run.name for run in bench.do(experiment.runs(), wait)]
    assert done[-2:] == ["taught-0", "plain-found-0"]  # nobody can be taught or placed before the matcher is there
    assert "matcher-0" not in done
    assert waited == [{run.name for run in experiment.runs()} - {"matcher-0", "plain-found-0", "taught-0"}]
    assert bench.do(experiment.runs()) == []


def test_a_run_that_lacks_a_column_waits_for_another_time(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    with StoreWriter(tmp_path / "store", Contents("eyes", {})):
        pass
    said: list[str] = []

    class Once(Hollow):
        def keep(self, run: Run) -> None:
            if run.name == "matcher-0" and not said:
                raise Unfinished("no Java")
            super().keep(run)

    bench = Once(experiment, DATA, tmp_path / "work", {"default": tmp_path / "store"}, say=said.append)
    done = [run.name for run in bench.do(experiment.runs())]
    assert said == ["no Java"]
    assert set(done) == {run.name for run in experiment.runs()} - {"matcher-0"}  # its model was there for the others
    assert [run.name for run in bench.do(experiment.runs())] == ["matcher-0"]


# Numbers ------------------------------------------------------------------------------------------------------------

SMALL = """
[rows.a]
recipe = "updown-small"
seeds = [0, 1]
[rows.b]
title = "the other"
recipe = "updown+pos-scan-small"
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
    a, b = summarise(experiment, table, read_kept(experiment))
    assert a.entries["CIDEr"].mean == pytest.approx(0.2)
    assert a.entries["CIDEr"].std == pytest.approx(0.1 * np.sqrt(2))
    better = b.entries["CIDEr"].against
    assert better is not None
    assert better.difference == pytest.approx(0.25)
    assert better.difference_interval == pytest.approx((0.25, 0.25))
    assert better.p == pytest.approx(1 / (RESAMPLES + 1))
    # CHAIRi: the differences of the images are 1 and 0; two are drawn, so 0, .5, .5 or 1 with equal chance
    worse = b.entries["CHAIRi"].against
    assert worse is not None
    assert worse.difference == pytest.approx(0.5)
    assert worse.difference_interval == (0, 1)
    assert worse.p == pytest.approx(0.5, abs=0.03)
    assert (a.minutes, a.minutes_in_all) == (2, 2)
    assert (b.minutes, b.minutes_in_all) == (2, 7)  # ten minutes of a teacher for one of two seeds

    text = to_markdown(experiment, table, [a, b])
    assert "| a | captions | 0, 1 | 20.0 ± 14.1 | **0.00 ± 0.00** | 2 |" in text
    assert "| the other | captions | 0, 1 | **45.0 ± 21.2** \\* | 0.50 ± 0.00 | 7 |" in text
    assert "among 2 comparisons" in text
    assert f"| the other | +25.0 (+25.0 to +25.0), p 0.0001 | +0.50 (+0.00 to +1.00), p {worse.p:.4f} |" in text
    assert "CIDEr: `how:CIDEr`" in text
    assert "`bootstrap:paired|drawn:images|resamples:10000|value:mean over seeds|seed:0|v" in text


def test_other_protocols_and_single_seeds_are_shown_but_not_compared(tmp_path: Path) -> None:
    experiment = described(
        tmp_path / "toy", SMALL.replace('score = "CIDEr" }', 'score = "CIDEr" }, { score = "METEOR" }')
    )
    row = experiment.rows
    keep_by_hand(experiment, Run(row["a"], 0), {"CIDEr": [0.0, 0.2]})
    keep_by_hand(experiment, Run(row["c"], 0), {"CIDEr": [0.9, 0.9]}, proposals="boxes: COCO", supervision="boxes")
    home = kept_folder(experiment, Run(row["c"], 0))
    other_way = [mean_score("CIDEr", ["0", "1"], [0.9, 0.9], "another:way")]
    save_scores(home / "scores-test.json.gz", other_way, {"others": {"METEOR": [0.25, "how:METEOR"]}})
    (found,) = write_report(experiment, resamples=100)
    a, c = found["rows"]
    assert c["scores"]["CIDEr"] == {"mean": 0.9, "std": None, "values": [0.9], "signature": "another:way"}
    page = (experiment.folder / "README.md").read_text()
    assert "| c | boxes; proposals: boxes: COCO | 0 | **90.0** | 25.0 | 0 |" in page
    assert "| a | captions | 0 | 10.0 | – | 0 |" in page
    assert "CIDEr: `how:CIDEr`  \nCIDEr: `another:way`" in page
    assert "differences from" not in page
    assert a["seeds"] == [0]


def test_a_table_may_stand_on_a_page_elsewhere_and_shows_its_chart_there(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy", SMALL.replace("[[tables]]", '[[tables]]\ntext = "../pages/results.md"'))
    keep_by_hand(experiment, Run(experiment.rows["a"], 0), {"CIDEr": [0.0, 0.2]})
    (tmp_path / "pages").mkdir()
    write_report(experiment, resamples=100)
    (name,) = [table.name for table in experiment.tables]
    assert f"](../toy/{name}.png)" in (tmp_path / "pages" / "results.md").read_text()
    assert (experiment.folder / f"{name}.png").exists()


def test_tables_stand_between_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table a -->\nold\n<!-- end of table a -->\nafter\n")
    between_marks(page, "new \\1", "a")
    between_marks(page, "second", "b")
    between_marks(page, "third", "b")
    assert page.read_text() == (
        "before\n<!-- table a -->\nnew \\1\n<!-- end of table a -->\nafter\n\n"
        "<!-- table b -->\nthird\n<!-- end of table b -->\n"
    )
    assert cell([1.0, 2.0, 6.0], 2) == "3.00 ± 2.65"


# Descriptions -------------------------------------------------------------------------------------------------------


def test_dependencies_come_first_and_only_what_is_asked_for(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    assert [run.name for run in experiment.runs(["taught"])] == ["matcher-0", "taught-0", "matcher-1"]
    assert [run.name for run in experiment.runs(["taught"], [0])] == ["matcher-0", "taught-0"]
    assert experiment.rows["plain-vote"].seeds == (0, 1)
    assert experiment.minutes(experiment.runs()) == 5.5
    with pytest.raises(DeixisError, match="no row 'tought'"):
        experiment.runs(["tought"])
    with pytest.raises(DeixisError, match="seed among 7"):
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
        ('"updown-small"', '"updwn-small"', r"the row 'plain': there is no recipe 'updwn-small'; did you mean updown"),
        ("--phases.0.epochs 2", "--phases.0.epoch 2", r"the row 'plain'.*no options of the recipe updown-small"),
        ('teacher = "matcher"', 'teacher = "nobody"', "needs the row 'nobody'"),
        ('teacher = "matcher"', 'teacher = "whole"', "trains none"),
        ("seeds = [0]\n", "seeds = [2]\n", "needs 'matcher' with the seed 2"),
        ('from = "plain"', "", "exactly one of 'recipe', 'from' and 'without'"),
        ('from = "plain"\nfinder', 'without = "whole-image"\nfinder', "say with 'from' whose captions"),
        ('from = "plain"\nfinder', 'from = "matcher"\nfinder', "'matcher' writes no captions"),
        ('finder = "matcher"', 'finder = "taught"', "'taught' writes captions; a 'finder' is a row whose model finds"),
        ('finder = "matcher"', 'finder = "nobody"', "needs the row 'nobody'"),
        ('finder = "matcher"', 'finder = "best"', "trains none"),
        ('recipe = "scan-small"', 'recipe = "scan-small"\nfeatures = "wide"', "see different features"),
        ('place = "vote"', 'place = "votes"', "'place' is 'votes'; there is best, vote"),
        ('score = "F1_all"', 'score = "F2_all"', "no metric 'F2_all'"),
        ('baseline = "plain"', 'baseline = "whole"', "not among its rows"),
        ("minutes = 1.5", "minuts = 1.5", "nobody knows what 'minuts' means"),
        ("minutes = 1.5", 'minutes = "x"', "should be a number"),
        ('chart = ["accuracy"]', 'chart = ["CIDEr"]', "draws 'CIDEr'"),
        ("[rows.whole]", '[rows."a b"]', "folders bear this name"),
        ("[rows.whole]", "[rows.plain-1]\nwithout = 'whole-image'\n[rows.whole]", "two runs would be called 'plain-1'"),
        ("[rows.whole]", "[rows.whole", "cannot be read"),
    ],
)
def test_mistakes_are_told_before_anything_is_done(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in TOML
    with pytest.raises(DeixisError, match=reason):
        described(tmp_path / "toy", TOML.replace(old, new, 1))


def test_a_finder_sees_what_the_captioner_sees(tmp_path: Path) -> None:
    wide = TOML.replace('teacher = "matcher"\n', "").replace("updown+scan-small", "updown-small")
    wide = wide.replace('recipe = "scan-small"', 'recipe = "scan-small"\nfeatures = "wide"')
    with pytest.raises(DeixisError, match="'plain' and its finder 'matcher' see different features"):
        described(tmp_path / "toy", wide)


def test_runs_from_before_there_were_finders_are_still_good(tmp_path: Path) -> None:
    experiment = described(tmp_path / "toy")
    run = Run(experiment.rows["plain-vote"], 0)
    keep_by_hand(experiment, run, {"CIDEr": [0.0]})
    file = kept_folder(experiment, run) / "run.json"
    record = json.loads(file.read_text())
    del record["asked"]["finder"]
    file.write_text(json.dumps(record))
    assert is_kept(experiment, run)
    with pytest.raises(DeixisError, match="finder was different"):
        is_kept(experiment, Run(replace(run.row, finder="matcher"), 0))


def test_a_model_that_began_from_another_seed_is_another_model(tmp_path: Path) -> None:
    """Kept when the teacher had one seed for all; then the teacher has as many as its pupils."""
    pupils = 'teacher = "matcher"\nseeds = [0, 1]'
    text = TOML.replace('teacher = "matcher"\nseeds = [0]', pupils)
    text = text.replace('seeds = [0, 1]\nplace = "attention"', 'seeds = [0]\nplace = "attention"')
    one = described(tmp_path / "toy", text)
    assert one.asked(Run(one.rows["plain-found"], 1))["finder"] == "matcher-0"
    for seed in (0, 1):
        keep_by_hand(one, Run(one.rows["taught"], seed), {"CIDEr": [0.0]})
    several = described(tmp_path / "toy", text)
    assert is_kept(several, Run(several.rows["taught"], 0))
    with pytest.raises(DeixisError, match=r"taught-1 was made by another description \(given\.teacher was different"):
        is_kept(several, Run(several.rows["taught"], 1))


def test_the_row_of_the_finder_tells_how_it_chooses_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, str | None]] = []

    class Model:
        def __init__(self, folder: Path, device: str) -> None:
            assert device == "cuda:1"
            self.name = folder.name

    def scored(captioner: Model, reference: None, regions: object, finder: Model) -> tuple[None, str]:
        return None, f"{captioner.name} by {finder.name}"

    monkeypatch.setattr(running, "Captioner", Model)
    for name in ("load_model", "load_finder"):
        monkeypatch.setattr(running, name, Model)
    monkeypatch.setattr(running, "set_place", lambda model, place: loaded.append((model.name, place)))
    monkeypatch.setattr(running, "evaluate_captioner", scored)
    experiment = described(tmp_path / "toy")
    bench, row = Bench(experiment, DATA, tmp_path / "work", {}, device="cuda:1"), experiment.rows["plain-found"]
    assert bench.evaluate(Run(row, 1), None, {}) == "plain-1 by matcher-1"  # type: ignore[arg-type, comparison-overlap]
    bench.evaluate(Run(replace(row, place="vote"), 1), None, {})  # type: ignore[arg-type]
    assert loaded == [("matcher-1", "best"), ("matcher-1", "vote")]


def test_a_circle_is_refused(tmp_path: Path) -> None:
    circle = TOML.replace('recipe = "scan-small"', 'recipe = "scan-small"\nteacher = "taught"', 1)
    circle = circle.replace('teacher = "matcher"\nseeds = [0]', 'teacher = "matcher"\nseeds = [0, 1]')
    with pytest.raises(DeixisError, match="no beginning"):
        described(tmp_path / "toy", circle)


def test_a_folder_without_a_description_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["table", str(tmp_path), "--only-report"]) == 1
    assert "table.toml does not exist" in capsys.readouterr().err
    described(tmp_path)
    assert cli.run(["table", str(tmp_path)]) == 2
    assert "--work" in capsys.readouterr().err
    where = ["--data", str(DATA), "--work", str(tmp_path), "--features", "a=b", "a=c"]
    assert cli.run(["table", str(tmp_path), *where]) == 2
    assert "twice" in capsys.readouterr().err
