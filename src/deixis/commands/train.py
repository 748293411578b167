"""``deixis train``: a recipe, a data set and its features become a model."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deixis.commands.console import stderr_console
from deixis.files import exclusive
from deixis.runs.recipes import RECIPES, Recipe, find
from deixis.vision.store import FeatureStore

if TYPE_CHECKING:
    from deixis.training.loop import Talk

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)

SUMS = """Objectives add up: updown, distributed-attention and cyclical may be followed by
  +scan, +pos-scan                    a matcher shows where to look when a noun is said
  +cycle                              the cycle of Cyclical (over distributed-attention)
  +scst-cider, +scst-scan, +scst-pos-scan
                                      then self-critical training, also rewarded by a matcher
in this order, and -small last: distributed-attention+pos-scan+cycle-small"""


@dataclass(frozen=True)
class Options(Generic[AnyRecipe]):
    """Train a model by a recipe on a data set whose features were made before.

    Stop it whenever you like: the same command goes on where it was. Every value of the recipe can be changed.

    For example: deixis train updown-small --data flickr30k --features flickr30k.store --out runs/updown
    """

    data: Path  # the data set (see deixis data check)
    features: Path  # its feature store (see deixis features)
    out: Path  # the run's folder; it becomes the model
    recipe: Annotated[AnyRecipe, tyro.conf.arg(name="")]
    start: Path | None = None  # a trained model to begin from (of a captioner's recipe only the last phase is run)
    teacher: Path | None = None  # a trained matcher that shows a captioner where to look; none: it is trained first
    judge: Path | None = None  # a trained matcher that rewards a captioner; none: the teacher, or it is trained first
    seeds: int = 1  # train so many times, with seeds one apart, each in a folder of its own
    train_split: str = "train"
    val_split: str = "val"
    device: str = "auto"  # where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps
    threads: int = 0  # of torch; 0: one for each core
    quiet: Switch = False


def cli(args: Sequence[str]) -> int:
    """Read the recipe's name, then options whose defaults are the recipe's."""
    if not args or args[0] in ("-h", "--help"):
        names = "\n".join(f"  {name:<36}{recipe.paper}" for name, recipe in RECIPES.items() if "+" not in name)
        print(f"usage: deixis train RECIPE --data DIR --features STORE --out RUN [options]\n\n{Options.__doc__}")
        print(f"recipes (deixis train RECIPE --help shows all values of one):\n{names}\n\n{SUMS}")
        return 0
    recipe = find(args[0])
    default = Options(data=tyro.MISSING, features=tyro.MISSING, out=tyro.MISSING, recipe=recipe)
    options: Any = Options
    return train(
        tyro.cli(options[type(recipe)], default=default, args=list(args[1:]), prog=f"deixis train {recipe.name}")
    )


def train(options: Options[Recipe]) -> int:
    """Run the recipe once for each seed and tell mean and deviation of the validation scores."""
    import torch

    from deixis.device import train_on
    from deixis.runs.run import Given, Material, run_recipe

    train_on(options.device)
    if options.threads:
        torch.set_num_threads(options.threads)
    talk = stderr_console(options.quiet)
    store = FeatureStore(options.features)
    with talk.status(f"reading {options.data}"):
        material = Material.from_folder(options.data, store, options.train_split, options.val_split)
    given = Given(options.start, options.teacher, options.judge)
    found = []
    for seed in range(options.recipe.seed, options.recipe.seed + options.seeds):
        out = options.out if options.seeds == 1 else options.out / f"seed-{seed}"
        out.mkdir(parents=True, exist_ok=True)
        with exclusive(out, "--out"), Bar(talk, f"{options.recipe.name}, seed {seed}") as bar:
            run_recipe(replace(options.recipe, seed=seed), material, out, bar.talk(), given)
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
        found.append(metrics["validation"])
        talk.print(f"{out}: best epoch {metrics['epoch']}, " + ", ".join(f"{k} {v:.4f}" for k, v in found[-1].items()))
    if options.seeds > 1:
        summary = {
            name: {
                "mean": statistics.mean(scores[name] for scores in found),
                "std": statistics.stdev(scores[name] for scores in found),
                "seeds": options.seeds,
            }
            for name in found[0]
        }
        (options.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        for name, value in summary.items():
            talk.print(f"{name}: {value['mean']:.4f} ± {value['std']:.4f} over {options.seeds} seeds")
    return 0


class Bar:
    """A progress bar with the loss terms, and a line for every validation."""

    def __init__(self, console: Console, title: str) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} · {task.fields[losses]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=console.quiet or not console.is_terminal,
        )
        self.task = self.progress.add_task(title, total=None, losses="")

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def talk(self) -> Talk:
        """What the training loop calls."""
        from deixis.training.loop import Scores, Step, Talk

        def step(report: Step) -> None:
            losses = ", ".join(f"{name} {value:.2f}" for name, value in report.losses.items())
            self.progress.update(self.task, total=report.steps, completed=report.step, losses=losses)

        def validated(epoch: int, scores: Scores, best: bool) -> None:
            figures = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
            self.console.print(f"epoch {epoch}: {figures}{' (best so far)' if best else ''}")

        def say(text: str) -> None:
            self.console.print(f"  {text}", style="dim", markup=False, soft_wrap=True)

        return Talk(step=step, validated=validated, say=say)
