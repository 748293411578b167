"""Train and evaluate the missing runs of a comparison; several processes may share the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from deixis.data.reading import read_json
from deixis.errors import DeixisError
from deixis.evaluation.controls import evaluate_control
from deixis.evaluation.evaluate import evaluate_folder, joint_supervision
from deixis.evaluation.split import SplitPhotos
from deixis.evaluation.tables.describe import FILE, Experiment, Run
from deixis.evaluation.tables.kept import KeptRun, keep_run, read_kept, require_same
from deixis.files import lock
from deixis.metrics.bootstrap import by_image
from deixis.metrics.evaluate import Evaluation
from deixis.metrics.references import read_reference
from deixis.metrics.score import pack_scores, write_json
from deixis.model_folder import read_supervision
from deixis.runs.recipes import with_data
from deixis.runs.run import InitFrom, run_recipe
from deixis.toml import require
from deixis.training.callbacks import Callbacks, no_progress
from deixis.training.data import TrainingData
from deixis.training.log import read_log
from deixis.types import Json
from deixis.vision.store import FeatureStore

STATE = "table.json"  # in the model folder: settings, processor time, whether the training is finished


class MissingScore(DeixisError):
    """A score of a column could not be computed, so the run is not kept; other runs continue."""


@dataclass(eq=False)
class Runner:
    """Runner of an experiment. Models are trained in the folder ``work``, which may be deleted afterwards."""

    experiment: Experiment
    data: Path
    work: Path
    stores: Mapping[str, Path]  # feature stores by name
    progress: Callable[[str], AbstractContextManager[Callbacks]] = no_progress  # of training a run
    message: Callable[[str], None] = lambda text: None
    device: str = "auto"  # of evaluation

    def __post_init__(self) -> None:
        self.skipped: set[str] = set()  # runs with a missing score
        splits = self.experiment.train, self.experiment.choose
        self.store = cache(lambda name: FeatureStore(self.stores[name]))
        self.training_data = cache(lambda name: TrainingData.from_folder(self.data, self.store(name), *splits))
        self.reference = cache(lambda split: read_reference(self.data, split))

    def run_all(self, runs: Sequence[Run], wait: Callable[[], None] = lambda: time.sleep(5)) -> None:
        """Do all runs without a stored result. ``wait`` is called while other processes do the remaining runs."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.skipped.clear()
        self._check_stores(runs)
        waiting = False
        while left := self._left(runs):
            if any(self._run(run) for run in left):  # only one run: other processes may have finished the next
                waiting = False
                continue
            if not waiting:
                self.message(f"waiting for {left[0].name}, which another process runs")
            waiting = True
            wait()

    def _left(self, runs: Sequence[Run]) -> list[Run]:
        finished = read_kept(self.experiment).keys() | self.skipped
        return [run for run in runs if run.name not in finished]

    def _check_stores(self, runs: Sequence[Run]) -> None:
        """Require the feature stores of the missing runs, with the same extractors as in the kept runs."""
        rows = {run.row.features: run.row.name for run in self._left(runs)}
        for name, row in rows.items():
            require(name in self.stores, f"row '{row}'", f"no features '{name}'. Add --features {name}=STORE.")
        for one in read_kept(self.experiment).values():
            if (name := one.asked["features"]) in rows:
                own = self.store(name).extractor
                found = f"its features are from {own}, those of {one.run} from {one.extractor}"
                advice = f"Use a store of the same extractor, or another name than '{name}'."
                require(one.extractor == own, self.stores[name], f"{found}. {advice}")

    def _run(self, run: Run) -> bool:
        """Train missing models that a run needs, then do the run; False if another process is doing one of them."""
        held = lock(self.work / f"{run.name}.lock")
        if held is None:
            return False
        with held:
            if not all(self._trained(other) or self._run(other) for other in self.experiment.needed(run)):
                return False
            if run.row.recipe is not None:
                self.train(run)
            if run.name not in read_kept(self.experiment):
                try:
                    self.keep(run)
                except MissingScore as error:
                    self.message(str(error))
                    self.skipped.add(run.name)
        return True

    def model(self, run: Run) -> Path:
        """Return the folder of a model."""
        return self.work / run.name

    def _trained(self, run: Run) -> bool:
        path = self.model(run) / STATE
        return path.exists() and bool(read_json(path)["finished"])

    def train(self, run: Run) -> None:
        """Train the model of a run, or resume its training."""
        folder, recipe = self.model(run), run.recipe
        assert recipe is not None
        settings = {**self.experiment.settings(run), "extractor": self.store(run.row.features).extractor}
        before: Json = {"asked": settings, "seconds": 0.0, "finished": False}
        if (folder / STATE).exists():
            before = read_json(folder / STATE)
            require_same(folder, before["asked"], settings)
        if before["finished"]:
            return
        began = time.process_time()

        def save(finished: bool = False) -> None:
            seconds = before["seconds"] + time.process_time() - began
            write_json(folder / STATE, {"asked": settings, "seconds": seconds, "finished": finished})

        folder.mkdir(parents=True, exist_ok=True)
        save()
        given = {role: self.model(self.experiment.model_for(run, row)) for role, row in run.row.given.items()}
        init = InitFrom(given.get("init_from"), given.get("teacher"), given.get("reward_model"))
        with self.progress(run.name) as callbacks:

            def validated(epoch: int, scores: Mapping[str, float], best: bool) -> None:
                callbacks.validated(epoch, scores, best)
                save()

            data, timed = self.training_data(run.row.features), replace(callbacks, validated=validated)
            try:
                run_recipe(with_data(recipe, self.data), data, folder, timed, init)
            finally:
                save()
        save(finished=True)

    def keep(self, run: Run) -> None:
        """Evaluate a run on both splits and keep its scores."""
        began, experiment, store = time.process_time(), self.experiment, self.store(run.row.features)
        columns = {column.score for table in experiment.tables for column in table.columns}
        values: dict[str, dict[str, dict[str, float]]] = {}
        statistics: dict[str, str] = {}
        for split in dict.fromkeys((experiment.choose, experiment.report)):
            self.message(f"{run.name}: evaluating on {split}")
            result = self.evaluate(run, split)
            for score in sorted(columns & result.absent.keys()):
                advice = f"Run the same command again, or remove {score} from {experiment.folder / FILE}."
                raise MissingScore(f"{run.name}: no {score}: {result.absent[score]} {advice}")
            values[split] = {}
            for one in result.scores:
                values[split].setdefault(one.signature, {})[one.name] = one.value
            statistics[split] = pack_scores([by_image(one) for one in result.scores if one.name in columns])
        models = [self.model(one) for one in ([run] if run.row.recipe else experiment.needed(run))]
        shown = [read_supervision(model) for model in models]
        trained = run.row.recipe is not None
        kept = KeptRun(
            run=run.name,
            asked=experiment.settings(run),
            supervision=joint_supervision(shown[0], shown[-1]) if shown else "nothing",
            extractor=store.extractor,
            proposals=store.contents.description.get("proposals", {}).get("supervision", "unknown"),
            training_seconds=round(read_json(models[0] / STATE)["seconds"], 1) if trained else 0.0,
            evaluation_seconds=round(time.process_time() - began, 1),
            values=values,
            log=read_log(models[0]) if trained else [],
            statistics=statistics,
        )
        keep_run(experiment, kept)

    def evaluate(self, run: Run, split: str) -> Evaluation:
        """Compute all scores of a run on a split."""
        row, reference, store = run.row, self.reference(split), self.store(run.row.features)
        if row.control is not None:
            return evaluate_control(row.control, reference, store)
        model, *grounder = self.experiment.needed(run) if row.source else [run]
        place = row.place or (self.experiment.rows[row.grounder].place if row.grounder else None)
        photos, folder = SplitPhotos(reference.samples, store), self.model(grounder[0]) if grounder else None
        return evaluate_folder(self.model(model), reference, photos, folder, place, self.device)
