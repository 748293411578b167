"""Progress display of a training run: a bar with the loss terms, and a line for every validation."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deixis.training.callbacks import Callbacks, Step


class TrainingProgress:
    """Context manager whose :meth:`callbacks` show a run on a console."""

    def __init__(self, console: Console, title: str) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=console.quiet or not console.is_terminal,
        )
        self.task = self.progress.add_task(title, total=None, status="preparing")
        self.epochs = 0
        self.explained: set[str] = set()

    def __enter__(self) -> TrainingProgress:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def callbacks(self) -> Callbacks:
        """Return the callbacks of the training loop."""
        return Callbacks(step=self._step, validated=self._validated, message=self._message)

    def _step(self, step: Step) -> None:
        self.epochs = step.epochs
        self._explain(step)
        losses = ", ".join(f"{name} {value:.2f}" for name, value in step.losses.items())
        status = f"epoch {step.epoch}/{step.epochs}, step {step.step}/{step.steps} · {losses}"
        self.progress.update(self.task, total=step.steps, completed=step.step, status=status)

    def _explain(self, step: Step) -> None:
        """Print the explanation of each new loss term."""
        new = [name for name in step.losses if name not in self.explained]
        self.explained.update(new)
        for name in new:
            self._message(f"{name}: {step.explanations.get(name, 'loss term of the method')}")

    def _validated(self, epoch: int, scores: Mapping[str, float], best: bool) -> None:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        self.console.print(f"epoch {epoch}/{self.epochs}: {figures}{' (best so far)' if best else ''}")

    def _message(self, text: str) -> None:
        self.console.print(f"  {text}", style="dim", markup=False, soft_wrap=True)
