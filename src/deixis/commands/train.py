"""``deixis train``: train a model with a recipe."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro

from deixis.commands.console import Device, Quiet, Switch, Threads, print_json, stderr_console
from deixis.data.dictionary import read_classes, read_vocabulary
from deixis.files import exclusive, make_folder, write_atomic
from deixis.runs.options import AddedLosses, matcher
from deixis.runs.recipes import RECIPES, find_recipe
from deixis.training.recipe import Recipe
from deixis.training.renamed import refuse_old_options
from deixis.vision.store import FeatureStore

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)

ADDED = """\
Losses that add up, for every recipe of a captioner:
  --teacher MATCHER       distil the attention of a matcher at nouns (POS-SCAN)
  --cycle                 replace the loss of the last phase by the cycle of Cyclical
  --reward cider          then train self-critically with CIDEr-D as the reward
  --reward-model MATCHER  add the match score of a matcher to the reward (needs --reward)
MATCHER is scan, pos-scan or the folder of a trained matcher. Without a folder the matcher is trained first, inside
RUN; small recipes train small matchers. For example:
  deixis train distributed-attention-small --teacher pos-scan --cycle --reward cider --data ...

--dry-run (captioners, and fusion models on pixels, without --data, --features and --out) builds the network on random
tensors of the published shapes and prints parameters, peak memory, seconds a step, steps and hours of the whole
schedule; --json as JSON."""


@dataclass(frozen=True)
class Options(Generic[AnyRecipe]):
    """Train a model with a recipe on one or several data sets with extracted features.

    An interrupted run resumes with the same command. Every value of the recipe is an option. Several processes share
    the batches of a run: torchrun --nproc-per-node 2 -m deixis train ... (see docs/scale.md).

    For example: deixis train updown-small --data flickr30k --features flickr30k.store --out runs/updown
    """

    data: tuple[Path, ...]  # the data set (see deixis data check), or several; vocabulary and model are shared
    features: tuple[
        Path, ...
    ]  # its feature store (see deixis features); for several data sets one each, or one for all
    out: Path  # folder of the run; it becomes the model folder
    recipe: Annotated[AnyRecipe, tyro.conf.arg(name="")]
    init_from: str = ""  # initial weights: model name, folder, or .pth of ALBEF; captioners run the last phase only
    teacher: str = ""  # matcher whose attention is distilled: scan, pos-scan or the folder of a trained one
    cycle: Switch = False  # replace the loss of the last phase by the cycle of Cyclical
    reward: Literal["", "cider"] = ""  # then train self-critically with this reward
    reward_model: str = ""  # matcher whose score is added to the reward: scan, pos-scan or the folder of a trained one
    vocabulary: Path | None = None  # words of a published file: dic_flickr30k.json, cocotalk.json, SCAN's vocabulary
    classes: Path | None = None  # object classes of a published file: dic_flickr30k.json or flickr30k_class_name.txt
    data_weights: tuple[float, ...] = ()  # share of each data set in an epoch; if not given: by number of examples
    seeds: int = 1  # number of runs with consecutive seeds, each in a folder of its own
    train_split: str = "train"
    val_split: str = "val"
    val_data: Path | None = (
        None  # another data set for validation; its features are in the same store, or in a last --features
    )
    device: Device = "auto"
    threads: Threads = 0
    quiet: Quiet = False


def cli(args: Sequence[str]) -> int:
    """Read the recipe's name, add losses to it, then read options whose defaults are the recipe's."""
    if not args or args[0] in ("-h", "--help"):
        names = "\n".join(f"  {name:<42}{recipe.paper}" for name, recipe in RECIPES.items())
        about = inspect.cleandoc(Options.__doc__ or "")
        print(f"usage: deixis train RECIPE --data DIR --features STORE --out RUN [options]\n\n{about}\n")
        print(f"Recipes (deixis train RECIPE --help lists all options of one):\n{names}\n\n{ADDED}")
        return 0
    name, *rest = args
    refuse_old_options(rest)
    added, others = AddedLosses.parse(rest)
    recipe = added.add_to(find_recipe(name))
    if "--dry-run" in others:
        return measure(recipe, others)
    features: Any = tyro.MISSING if recipe.uses_regions else ()
    default = Options(data=tyro.MISSING, features=features, out=tyro.MISSING, recipe=recipe)
    options: Any = Options
    return train(tyro.cli(options[type(recipe)], default=default, args=rest, prog=f"deixis train {name}"))


def measure(recipe: Recipe, args: Sequence[str]) -> int:
    """Measure a recipe at full size; ``args`` are values of the recipe, and --json."""
    from deixis.methods.albef.recipes import AlbefRecipe
    from deixis.methods.reir.recipes import ReirRecipe
    from deixis.methods.scan.recipes import ScanRecipe
    from deixis.runs import dry_run, dry_run_fusion, dry_run_matchers

    values = [arg for arg in args if arg not in ("--json", "--dry-run")]
    with stderr_console("--json" in args).status(f"{recipe.name} on random tensors"):
        found: dry_run.DryRun | dry_run_fusion.FusionDryRun | dry_run_matchers.MatcherDryRun
        if isinstance(recipe, AlbefRecipe):
            found = dry_run_fusion.with_arguments(recipe, values)
        elif isinstance(recipe, ScanRecipe | ReirRecipe):
            found = dry_run_matchers.with_arguments(recipe, values)
        else:
            found = dry_run.with_arguments(recipe, values)
    print_json(found.to_json()) if "--json" in args else print(found.text())
    return 0


def train(options: Options[Recipe]) -> int:
    """Run the recipe once for each seed; print the scores of the best epochs, and mean and deviation over seeds."""
    import torch

    from deixis import distributed
    from deixis.commands.training_progress import TrainingProgress
    from deixis.device import train_on
    from deixis.evaluation.precondition import teacher_precondition
    from deixis.pipelines.models import model_folder
    from deixis.runs.run import InitFrom, run_recipe, seed_summary
    from deixis.training.data import TrainingData
    from deixis.training.log import best_epoch

    train_on(options.device)
    distributed.start()
    if options.threads:
        torch.set_num_threads(options.threads)
    console = stderr_console(options.quiet or distributed.rank() > 0)
    stores = [FeatureStore(path) for path in options.features]
    with console.status(f"reading {', '.join(map(str, options.data))}"):
        splits = options.train_split, options.val_split
        data = TrainingData.from_folders(options.data, stores, options.data_weights, *splits, options.val_data)
        if options.vocabulary is not None:
            data = replace(data, vocabulary=read_vocabulary(options.vocabulary))
        if options.classes is not None:
            data = replace(data, classes=read_classes(options.classes))
    for note in data.notes:
        console.print(note)
    given = options.init_from
    init = InitFrom(
        None if not given else Path(given) if Path(given).is_file() else model_folder(given),
        matcher(options.teacher, "--teacher")[1] if options.teacher else None,
        matcher(options.reward_model, "--reward-model")[1] if options.reward_model else None,
    )
    found = []
    for seed in range(options.recipe.seed, options.recipe.seed + options.seeds):
        out = options.out if options.seeds == 1 else options.out / f"seed-{seed}"
        make_folder(out)
        alone = exclusive(out, "--out") if distributed.rank() == 0 else nullcontext()
        title = f"{options.recipe.name}, seed {seed}"
        with alone, distributed.clear_errors(), TrainingProgress(console, title) as progress:
            run_recipe(replace(options.recipe, seed=seed), data, out, progress.callbacks(), init)
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
        found.append(metrics["validation"])
        scores = ", ".join(f"{name} {value:.4f}" for name, value in found[-1].items())
        console.print(f"{out}: best epoch {best_epoch(metrics)}, {scores}")
        if options.teacher and distributed.rank() == 0:
            checked = teacher_precondition(init.teacher or out / "teacher", out, data)
            if checked is not None:
                console.print(checked.message(), markup=False)
    if options.seeds > 1 and distributed.rank() == 0:
        summary = seed_summary(found)
        write_atomic(options.out / "summary.json", json.dumps(summary, indent=1) + "\n")
        for name, value in summary.items():
            console.print(f"{name}: {value['mean']:.4f} ± {value['std']:.4f} over {options.seeds} seeds")
    return 0
