"""Doing what a comparison lacks: train, evaluate, keep. Nothing twice, and several processes may share the work.

Models are trained in a work folder, which may be large and may be lost. What is kept of a run is small and stands
beside the description, in ``runs/NAME``: ``run.json`` (what was asked for, what it cost, what it was shown), the
recipe, the training's log, and ``scores-SPLIT.json.gz`` for both splits. A folder is put there as a whole.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deixis.data.reading import read_json
from deixis.errors import DeixisError
from deixis.evaluation.evaluate import evaluate_captioner, evaluate_finder, joint_supervision, set_place
from deixis.files import atomic_folder, lock
from deixis.methods.updown.model import Captioner
from deixis.metrics.bootstrap import by_image
from deixis.metrics.evaluate import Evaluation, Options, evaluate
from deixis.metrics.formats import Mention, Predictions, phrase_key
from deixis.metrics.phrases import FLICKR30K, REFER, overlaps
from deixis.metrics.references import Reference, read_reference
from deixis.metrics.score import save_scores, write_json
from deixis.pipelines.load import load_finder, load_model
from deixis.runs.recipes import Recipe
from deixis.runs.run import Given, Material, run_recipe
from deixis.tables.describe import FILE, Experiment, Run, Without
from deixis.training.loop import Scores, Talk
from deixis.types import Box, Grounding, Json, Regions
from deixis.vision.store import FeatureStore

DATA = "{data}"
"""In a text of a recipe: the folder of the data set, wherever it is on this machine."""

LATER = {"finder": ""}
"""What was not asked for in older runs, with the value that means the same."""

PATIENCE = 5.0  # seconds between two looks at what other processes have finished

Watch = Callable[[str], AbstractContextManager[Talk]]  # title of a run -> whom its training tells how it goes


class Unfinished(DeixisError):
    """A run that has no result for now, as something that a column needs could not be had; others go on."""


def kept_folder(experiment: Experiment, run: Run) -> Path:
    """Where the results of a run are kept."""
    return experiment.folder / "runs" / run.name


def is_kept(experiment: Experiment, run: Run) -> bool:
    """Whether a run is done; a sentence where it was done by another description than the present one."""
    folder = kept_folder(experiment, run)
    if not folder.is_dir():
        return False
    record = read_json(folder / "run.json")
    _refuse_other(folder, record["asked"], experiment.asked(run))
    return True


@contextmanager
def silent(title: str) -> Iterator[Talk]:
    """A training that tells nobody anything."""
    yield Talk()


@dataclass(frozen=True, eq=False)
class Bench:
    """Where the work is done: the data, a folder for models, and the feature stores by name."""

    experiment: Experiment
    data: Path
    work: Path
    stores: Mapping[str, Path]
    watch: Watch = silent
    say: Callable[[str], None] = lambda text: None
    device: str = "auto"  # of evaluation
    # what was read before
    _opened: dict[str, FeatureStore] = field(default_factory=dict, init=False)
    _materials: dict[str, Material] = field(default_factory=dict, init=False)
    _references: dict[str, Reference] = field(default_factory=dict, init=False)

    def do(self, runs: Sequence[Run], wait: Callable[[], None] = lambda: time.sleep(PATIENCE)) -> list[Run]:
        """Do all runs that have no kept result, each when those that it needs are done; the ones that were done here.

        A run that could not be evaluated as the tables want it is told and left for another time. ``wait`` is called
        when all that could be done is being done by other processes.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        self._require_stores(self._left(runs))
        done: list[Run] = []
        given_up: set[str] = set()
        told = False
        while left := [run for run in self._left(runs) if run.name not in given_up]:
            for run in left:
                if not all(self._trained(other) for other in self.experiment.needed(run)):
                    continue
                try:
                    mine = self._alone(run)
                except Unfinished as error:
                    self.say(str(error))
                    given_up.add(run.name)
                    break
                if mine:
                    done.append(run)
                    told = False
                    break
            else:
                if not told:
                    self.say(f"another process is at {left[0].name}; waiting for it")
                    told = True
                wait()
        return done

    def _left(self, runs: Sequence[Run]) -> list[Run]:
        """Runs without a result, in order, behind models that they need and that are not there (any more)."""
        left: dict[str, Run] = {}

        def add(run: Run) -> None:
            for other in self.experiment.needed(run):
                if not self._trained(other):
                    add(other)
            left.setdefault(run.name, run)

        for run in runs:
            if not is_kept(self.experiment, run):
                add(run)
        return list(left.values())

    def _require_stores(self, runs: Sequence[Run]) -> None:
        """Refuse to begin without the features that are needed, or with others than kept runs have seen."""
        for run in runs:
            if run.row.features not in self.stores:
                raise DeixisError(
                    f"the row '{run.row.name}' sees the features '{run.row.features}'; say where they are "
                    f"(--features {run.row.features}=STORE), or choose other --rows."
                )
        for run in self.experiment.runs() if runs else ():
            name = run.row.features
            if name in self.stores and is_kept(self.experiment, run):
                seen = read_json(kept_folder(self.experiment, run) / "run.json")["extractor"]
                if seen != self.store(name).extractor:
                    raise DeixisError(
                        f"{self.stores[name]} holds regions of {self.store(name).extractor}, and {run.name} saw those "
                        f"of {seen} as its features '{name}'; one name stands for one extractor in all rows."
                    )

    def _alone(self, run: Run) -> bool:
        """Do a run; False where another process does it at this moment."""
        held = lock(self.work / f"{run.name}.lock")
        if held is None:
            return False
        with held:
            if run.row.recipe is not None:
                self.train(run)
            if not is_kept(self.experiment, run):  # another process may have been faster
                self.keep(run)
        return True

    # Training

    def model(self, run: Run) -> Path:
        """The folder of a run's model."""
        return self.work / run.name

    def _trained(self, run: Run) -> bool:
        path = self.model(run) / "table.json"
        return path.exists() and bool(read_json(path)["finished"])

    def train(self, run: Run) -> None:
        """Train the model of a run, or go on with it."""
        folder, recipe, experiment = self.model(run), run.recipe, self.experiment
        assert recipe is not None
        extractor = self.store(run.row.features).extractor
        clock = _Clock(folder / "table.json", {**experiment.asked(run), "extractor": extractor})
        if clock.finished:
            return
        given = Given(**{role: self.model(experiment.model_for(run, row)) for role, row in run.row.given})
        with clock, self.watch(run.name) as talk:

            def validated(epoch: int, scores: Scores, best: bool) -> None:
                talk.validated(epoch, scores, best)
                clock.write()

            told = replace(talk, validated=validated)
            run_recipe(_on_this_machine(recipe, self.data), self.material(run.row.features), folder, told, given)
        clock.write(finished=True)

    def material(self, features: str) -> Material:
        """What rows with these features are trained on."""
        if features not in self._materials:
            splits = self.experiment.train, self.experiment.choose
            self._materials[features] = Material.from_folder(self.data, self.store(features), *splits)
        return self._materials[features]

    def store(self, features: str) -> FeatureStore:
        """The feature store of that name."""
        if features not in self._opened:
            self._opened[features] = FeatureStore(self.stores[features])
        return self._opened[features]

    # Results

    def keep(self, run: Run) -> None:
        """Evaluate a run on both splits and write its results."""
        with atomic_folder(kept_folder(self.experiment, run)) as tmp_path:
            self._write_results(run, tmp_path)

    def _write_results(self, run: Run, out: Path) -> None:
        """Write recipe, log, scores of both splits and training time to a folder."""
        began = time.process_time()
        experiment = self.experiment
        shown, seconds = "nothing", 0.0
        if run.row.recipe is not None:
            folder = self.model(run)
            recipe = read_json(folder / "recipe.json") | _naming_data(run.row.recipe)
            (out / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
            shutil.copyfile(folder / "log.jsonl", out / "log.jsonl")
            shown, seconds = recipe["supervision"], read_json(folder / "table.json")["seconds"]
        elif run.row.source:
            recipes = [read_json(self.model(needed) / "recipe.json") for needed in experiment.needed(run)]
            shown, *finder = (recipe["supervision"] for recipe in recipes)
            shown = joint_supervision(shown, *finder) if finder else shown
        store = self.store(run.row.features)
        about = {
            "asked": experiment.asked(run),
            "supervision": shown,
            "extractor": store.extractor,
            "proposals": store.contents.description.get("proposals", {}).get("supervision", "unknown"),
            "training_seconds": round(seconds, 1),
        }
        for split in dict.fromkeys((experiment.choose, experiment.report)):
            self.say(f"{run.name}: evaluating on {split}")
            result = self.evaluate(run, self.reference(split), store)
            for metric in sorted(experiment.columns() & result.absent.keys()):
                raise Unfinished(
                    f"{run.name} has no result yet, for want of a column: {result.absent[metric]} "
                    f"Run the same again, or take {metric} out of {experiment.folder / FILE}."
                )
            columns = [by_image(score) for score in result.scores if score.name in experiment.columns()]
            # of the others the number will do
            others = {s.name: [s.value, s.signature] for s in result.scores if s.name not in experiment.columns()}
            meta = {"run": run.name, "split": split, "supervision": shown, "others": others}
            save_scores(out / f"scores-{split}.json.gz", columns, meta)
        about["evaluation_seconds"] = round(time.process_time() - began, 1)
        write_json(out / "run.json", about)

    def evaluate(self, run: Run, reference: Reference, regions: Mapping[str, Regions]) -> Evaluation:
        """All scores of a run on a split."""
        if run.row.without is not None:
            return evaluate_without(run.row.without, reference, regions)
        trained = self.experiment.model_for(run, run.row.source) if run.row.source else run
        model = load_model(self.model(trained), self.device)
        finder, place = None, run.row.place
        if run.row.finder:
            other = self.experiment.rows[run.row.finder]
            helper = self.model(self.experiment.model_for(run, other.name))
            finder, place = load_finder(helper, self.device), place or other.place
        if place is not None:
            set_place(finder or model, place)
        if isinstance(model, Captioner):
            return evaluate_captioner(model, reference, regions, finder=finder)[1]
        return evaluate_finder(model, reference, regions)[1]

    def reference(self, split: str) -> Reference:
        """A split to score against."""
        if split not in self._references:
            self._references[split] = read_reference(self.data, split)
        return self._references[split]


def evaluate_without(kind: Without, reference: Reference, regions: Mapping[str, Regions]) -> Evaluation:
    """What answers without learning are worth: the whole image (and its centre), or the best box of each phrase."""
    protocol = FLICKR30K if reference.name == "flickr30k_entities" else REFER
    answers = {}
    for phrase in reference.phrases:
        box: Box = (0.0, 0.0, float(phrase.size[0]), float(phrase.size[1]))
        if kind == "best-proposal":
            boxes = regions[phrase.image].boxes.astype(float)
            best = boxes[int(overlaps([phrase] * len(boxes), boxes, protocol).argmax())]
            box = (float(best[0]), float(best[1]), float(best[2]), float(best[3]))
        mention = Mention(phrase.image, phrase_key(phrase.phrase), phrase.caption, phrase.start)
        answers[mention] = (Grounding(phrase.phrase, box, 1.0),)
    if not answers:
        raise DeixisError(f"{reference.name} ({reference.split}) has no phrases with boxes to compare with.")
    predictions = Predictions(Path(kind), "deixis", phrases=answers)
    return evaluate(predictions, reference, Options(metrics=("words", "phrases"), missing="skip"))


class _Clock:
    """The file of a training that says what was asked for, how much time of the processor went into it, and its end."""

    def __init__(self, path: Path, asked: Json) -> None:
        self.path, self.asked = path, asked
        self.seconds, self.finished = 0.0, False
        if path.exists():
            before = read_json(path)
            _refuse_other(path.parent, before["asked"], asked)
            self.seconds, self.finished = float(before["seconds"]), bool(before["finished"])
        self.began = time.process_time()

    def __enter__(self) -> _Clock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.began = time.process_time()
        self.write()
        return self

    def __exit__(self, *_: object) -> None:
        self.write()

    def write(self, finished: bool = False) -> None:
        now = time.process_time()
        self.seconds, self.began = self.seconds + now - self.began, now
        write_json(self.path, {"asked": self.asked, "seconds": self.seconds, "finished": finished})


def _naming_data(recipe: Recipe) -> dict[str, Any]:
    """The texts of a recipe that name the folder of the data, as they are described."""
    return {name: text for name, text in vars(recipe).items() if isinstance(text, str) and DATA in text}


def _on_this_machine(recipe: Recipe, data: Path) -> Recipe:
    """The recipe with the folder of the data where its texts name it."""
    return replace(recipe, **{name: text.replace(DATA, str(data)) for name, text in _naming_data(recipe).items()})


def _refuse_other(folder: Path, before: Json, now: Json) -> None:
    """Refuse to go on with, or to report, a run that was made by another description.

    A field of a recipe that was not there before has the value now that means the same.
    """
    apart = list(_differences({**LATER, **before}, json.loads(json.dumps(now))))
    if apart:
        raise DeixisError(
            f"{folder} was made by another description ({', '.join(apart)} was different); "
            "give the row a new name, or delete the folder to make it anew."
        )


def _differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in before:
            yield from _differences(before[name], now.get(name), f"{where}.{name}" if where else name)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _differences(old, new, f"{where}.{number}")
    elif before != now:
        yield where
