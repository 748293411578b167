"""Train tiny networks in double precision; run by torchrun, or in one process by the test.

Usage: ``two_processes.py OUT CASE ... [--kill RANK STEP]``. The weights of each case are OUT/CASE.safetensors.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

METHODS = Path(__file__).parents[1] / "methods"
sys.path[:0] = [str(Path(__file__).parent), *(str(METHODS / name) for name in ("scan", "reir", "albef"))]

import test_albef_train as albef_test  # noqa: E402
import test_loop as updown_test  # noqa: E402
import test_reir_train as reir_test  # noqa: E402
import test_scan_train as scan_test  # noqa: E402

from deixis import distributed  # noqa: E402
from deixis.language.vocabulary import Vocabulary  # noqa: E402
from deixis.language.wordpiece import WordPieces  # noqa: E402
from deixis.methods.albef import train as albef  # noqa: E402
from deixis.methods.albef.losses.map_consistency import MapConfig  # noqa: E402
from deixis.methods.albef.network import AlbefNet  # noqa: E402
from deixis.methods.reir import train as reir  # noqa: E402
from deixis.methods.scan import train as scan  # noqa: E402
from deixis.methods.updown import train as updown  # noqa: E402
from deixis.methods.updown.batches import collate as collate_captions  # noqa: E402
from deixis.methods.updown.recipes import UpDownRecipe, with_reward, with_teacher  # noqa: E402
from deixis.training.data import TrainingData  # noqa: E402
from deixis.training.loop import train  # noqa: E402
from deixis.training.recipe import Phase, Recipe, Schedule  # noqa: E402
from deixis.types import Regions  # noqa: E402

Parts = tuple[Recipe, nn.Module, Sequence[Any], Callable[[Any, Tensor], Any]]


def doubled(part: Any) -> Any:
    """Floats of a dataclass in double precision."""
    if isinstance(part, Tensor):
        return part.double() if part.is_floating_point() else part
    if is_dataclass(part):
        return replace(part, **{name: doubled(value) for name, value in vars(part).items()})  # type: ignore[type-var]
    return part


def captioner(recipe: UpDownRecipe) -> Parts:
    examples, regions = updown_test.world(21)  # batches of five: the last has one image for two processes
    # images differ in the number of captions and of regions
    examples = [
        replace(e, captions=e.captions * (1 + n % 3), visual=e.visual * 3, nouns=e.nouns * 3)
        for n, e in enumerate(examples)
    ]
    examples = [replace(e, visual=e.visual[: len(e.captions)], nouns=e.nouns[: len(e.captions)]) for e in examples]
    network = updown.Network(
        recipe, updown.fill(recipe, updown_test.VOCABULARY, regions["0"]), updown_test.all_seeing, updown_test.REWARDS
    )
    return recipe, network, examples, lambda some, keys: collate_captions(some, regions, Vocabulary.pad, keys)


def cyclical() -> Parts:
    recipe = with_teacher(updown_test.UPDOWN_RECIPES["cyclical-small"], "pos-scan")
    return captioner(updown_test.shrunk(recipe, 2, scheduled_sampling=0.5))


def clips() -> Parts:
    """Clips of different lengths: batch norm over all rows of a batch, and dropout within the GRU."""
    examples, _ = updown_test.world(13)
    random = np.random.default_rng(0)
    regions = {}
    for number, example in enumerate(examples):
        boxes = np.tile([0.0, 0, 10, 10], (4 + number % 2, 1))
        regions[example.image_id] = Regions(
            boxes,
            random.random((len(boxes), 6)),
            (50, 10),
            frames=np.arange(len(boxes)) // 2,
            segment=(0.0, 1.0, 0.25, 0.75),
            temporal=random.random((3 + number % 5, 8)),
        )
    recipe = updown_test.tiny("gvd-video-small", 2)
    recipe = replace(recipe, model=replace(recipe.model, motion=3, steps=6, dropout=0.3))
    network = updown.Network(recipe, updown.fill(recipe, updown_test.VOCABULARY, regions["0"]))
    return recipe, network, examples, lambda some, keys: collate_captions(some, regions, Vocabulary.pad, keys)


def supervised() -> Parts:
    return captioner(updown_test.tiny("supervised-small", 2))


def rewarded() -> Parts:
    return captioner(updown_test.shrunk(with_reward(updown_test.DISTRIBUTED), 1))


def matcher() -> Parts:
    samples, regions = scan_test.world(20)
    recipe = replace(scan_test.tiny(), phases=(Phase(1, "all"), Phase(1)), batch_images=13)  # 40 pairs: 13, 13, 13, 1
    vocabulary = Vocabulary.build((c.tokens for s in samples for c in s.captions), 1)
    network = scan.Network(recipe, replace(recipe.model, vocabulary=len(vocabulary), features=len(scan_test.THINGS)))
    pairs = scan.make_pairs(samples, vocabulary, "all", recipe.max_words)
    return recipe, network, pairs, lambda some, keys: scan.collate(some, regions)


def grounder() -> Parts:
    samples, regions = reir_test.world(17)
    recipe = reir_test.tiny(epochs=2, schedule=Schedule(lr=1e-2, clip_norm=1.0))
    recipe = replace(recipe, self_taught=replace(recipe.self_taught, warmup=0.0))
    vocabulary = Vocabulary.build((c.tokens for s in samples for c in s.captions), 1)
    width = len(reir_test.THINGS)
    config = replace(recipe.model, vocabulary=len(vocabulary), features=width, names="none", whiten=0)
    network = reir.Network(recipe, config, [5, 9])
    categories = {"on": 1, "under": 2}
    examples = reir.make_examples(samples, recipe.max_words)
    return (
        recipe,
        network,
        examples,
        lambda some, keys: reir.collate(some, regions, vocabulary, categories, config, keys),
    )


def fusion(loss: str = "amc", **changes: Any) -> Parts:
    samples, regions = albef_test.world(25, 1)
    data = TrainingData(samples, samples, regions, {"name": "made", "description": {}}, "made")
    model = replace(albef_test.TINY, dropout=0.1)
    recipe = albef_test.recipe(loss, 2, flip=True, captions=0.3, align=0.5, batch_images=8, model=model, **changes)
    pieces = WordPieces.build([c.text for s in samples for c in s.captions], 1)
    torch.manual_seed(0)
    network = albef.Network(recipe, AlbefNet(replace(model, vocabulary=len(pieces))), pieces)
    boxed, bare = albef.find_triplets(recipe, data), {sample.image_id for sample in samples[::3]}
    made = albef.make_examples(recipe, samples, pieces, lambda s: () if s.image_id in bare else boxed(s))
    examples = list(made)

    def collate(some: Any, keys: Tensor) -> albef.Batch:
        return albef.collate(
            some, lambda i, random: torch.from_numpy(regions[i].grid), model, pieces.id("[PAD]"), True, keys=keys
        )

    return recipe, network, examples, collate


CASES: dict[str, Callable[[], Parts]] = {
    "cyclical": cyclical,
    "clips": clips,
    "supervised": supervised,
    "rewarded": rewarded,
    "matcher": matcher,
    "grounder": grounder,
    "fusion": fusion,
    "fusion-pooled": lambda: fusion(maps=MapConfig(pooled=True)),
    "fusion-align": lambda: fusion("align"),
    "fusion-groups": lambda: fusion(negative_group=3, maps=MapConfig(pooled=True)),
    "fusion-accumulate": lambda: fusion(accumulate=2),
}


def run(case: str, out: Path, kill: tuple[int, int] | None = None) -> nn.Module:
    """Train one case; with ``kill``, a process of that rank dies before that step."""
    recipe, network, examples, collate = CASES[case]()
    step = 0

    def make(some: list[Any], keys: Tensor) -> Any:
        nonlocal step
        step += 1
        if kill == (distributed.rank(), step):
            os.kill(os.getpid(), signal.SIGKILL)
        return doubled(collate(some, keys))

    with distributed.clear_errors():
        return train(
            recipe,
            network.double(),
            examples,
            make,
            out / case,
            lambda network, phase: {recipe.monitor: 0.0},
            lambda network, epoch, scores: None,
            save_every=0,
            after_step=getattr(network, "end_step", lambda: None),
        )


def main(out: Path, *args: str) -> None:
    """Train cases and write their weights."""
    torch.set_num_threads(1)
    distributed.start()
    names = list(args[: args.index("--kill")] if "--kill" in args else args)
    kill = (int(args[-2]), int(args[-1])) if "--kill" in args else None
    for name in names:
        network = run(name, out, kill)
        if distributed.rank() == 0:
            save_file(
                {key: value.contiguous() for key, value in network.state_dict().items()}, out / f"{name}.safetensors"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
