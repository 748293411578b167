"""The training loop: it learns, resumes after any step, and every recipe takes a step."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis import DeixisError, Regions
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions
from deixis.methods.updown.batches import Example, Target, collate, one_caption_each
from deixis.methods.updown.losses.self_critical import Images, reward_converged
from deixis.methods.updown.network import Decoder
from deixis.methods.updown.recipes import UPDOWN_RECIPES, UpDownRecipe, with_cycle, with_reward, with_teacher
from deixis.methods.updown.sample import Sampled
from deixis.methods.updown.train import Network, Rewards, fill
from deixis.training import checkpoint
from deixis.training.callbacks import Callbacks, Step
from deixis.training.checkpoint import Progress
from deixis.training.log import read_log
from deixis.training.loop import cosine_lr, make_optimiser, step_lr, train
from deixis.training.prefetch import Prefetch, ahead
from deixis.training.recipe import Phase, Schedule
from deixis.training.types import Scores

WORDS = ("dog", "cat", "ball", "car")
VOCABULARY = Vocabulary.build([["a", "and", *WORDS]], minimum=1)


def world(n: int = 24, seed: int = 0, telling: bool = False) -> tuple[list[Example], dict[str, Regions]]:
    """Images of two things in a row of regions; each caption names them in the order of the regions.

    In a ``telling`` world every region knows both things and their order.
    """
    random = np.random.default_rng(seed)
    examples, regions = [], {}
    for i in range(n):
        things = random.choice(len(WORDS), 2, replace=False)
        places = np.sort(random.choice(5, 2, replace=False))
        features = random.normal(0, 0.05, (5, 6)).astype(np.float32)
        features[places, things] += 1
        features[:, 5] = np.arange(5) / 5
        if telling:
            features = np.concatenate([features, np.tile(np.eye(4, dtype=np.float32)[things].ravel(), (5, 1))], 1)
        boxes = np.stack([[10 * k, 0, 10 * k + 10, 10] for k in range(5)]).astype(np.float32)
        words = ["a", WORDS[things[0]], "and", "a", WORDS[things[1]]]
        targets = tuple(
            Target(0, word, tuple(boxes[place]), int(thing))
            for word, place, thing in zip((1, 4), places, things, strict=True)
        )
        visual = ((False, True, False, False, True, False),)
        examples.append(Example(f"{i}", (tuple(VOCABULARY.encode(words)),), visual, visual, targets))
        regions[f"{i}"] = Regions(boxes, features, (50, 10), grid=features.reshape(1, 5, -1))
    return examples, regions


def tiny(name: str = "updown-small", epochs: int = 3, **changes: object) -> UpDownRecipe:
    return shrunk(UPDOWN_RECIPES[name], epochs, **changes)


def shrunk(recipe: UpDownRecipe, epochs: int, **changes: object) -> UpDownRecipe:
    model = replace(recipe.model, words=12, hidden=24, attention=12, dropout=0.1)
    phases = tuple(replace(phase, epochs=epochs) for phase in recipe.phases)
    return replace(recipe, model=model, phases=phases, batch_images=5, **changes)


def all_seeing(regions: PaddedRegions, words: Tensor) -> Tensor:
    """A teacher that looks where the thing of a word is; it is told by the regions' own features."""
    names = torch.tensor([WORDS.index(word) if word in WORDS else len(WORDS) for word in VOCABULARY.words])
    named = zip(regions.features, names[words[..., 1:]], strict=True)
    return torch.stack([(20 * features[:, things]).movedim(0, -1).softmax(-1) for features, things in named])


def own_words(images: Images, sentences: Sampled) -> Tensor:
    """How many different things the sentence names that are in the image."""
    there = torch.stack([(images.regions.features[..., thing] > 0.5).any(1) for thing in range(len(WORDS))], 1)
    ids = torch.tensor([VOCABULARY.id(word) for word in WORDS])
    named = (sentences.words.unsqueeze(-1) == ids).any(2)  # [I, S, things]
    return (named & there.unsqueeze(1)).sum(-1).float()


REWARDS: Rewards = {"own": (1.0, own_words)}


def keep_nothing(network: Network, epoch: int, scores: Scores) -> None:
    """Stand for the function that writes a model."""


def run(
    recipe: UpDownRecipe,
    out: Path,
    callbacks: Callbacks | None = None,
    n: int = 24,
    telling: bool = False,
    rewards: Rewards = REWARDS,
    **options: float,
) -> Decoder:
    examples, regions = world(n, telling=telling)
    network = Network(recipe, fill(recipe, VOCABULARY, regions["0"]), all_seeing, rewards)
    return train(
        recipe,
        network,
        examples,
        lambda some, keys: collate(some, regions, VOCABULARY.pad, keys),
        out,
        lambda network, phase: {"CIDEr": 0.0},
        keep_nothing,
        callbacks,
        lambda lines: reward_converged(lines, recipe.self_critical),
        **options,
    ).decoder


def weights(decoder: Decoder) -> dict[str, torch.Tensor]:
    return decoder.state_dict()


def same(a: Decoder, b: Decoder) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights(a).values(), weights(b).values(), strict=True))


class Killed(Exception):
    """Stands for whatever ends a process."""


def dies_at(step: int) -> Callbacks:
    def die(report: Step) -> None:
        if report.step == step:
            raise Killed

    return Callbacks(step=die)


UPDOWN, DISTRIBUTED = UPDOWN_RECIPES["updown-small"], UPDOWN_RECIPES["distributed-attention-small"]
REWARDED = with_reward(DISTRIBUTED)
KILLED = [
    UPDOWN,
    UPDOWN_RECIPES["cyclical-small"],
    with_teacher(DISTRIBUTED, "pos-scan"),
    replace(REWARDED, phases=REWARDED.phases[-1:]),
    replace(UPDOWN, name="updown-sgd", schedule=Schedule(optimiser="sgd", warmup_steps=5, milestones=(0.5,))),
]


@pytest.mark.parametrize("recipe", KILLED, ids=lambda recipe: recipe.name)
def test_a_run_that_was_killed_ends_with_the_same_weights(tmp_path: Path, recipe: UpDownRecipe) -> None:
    recipe = shrunk(recipe, epochs=2)
    whole = run(recipe, tmp_path / "whole", save_every=1e9)
    for step in (3, 7, 8):  # in the middle of an epoch, again in the next, and at the very next step
        with pytest.raises(Killed):
            run(recipe, tmp_path / "killed", dies_at(step), save_every=0)
    again = run(recipe, tmp_path / "killed", save_every=0)
    assert same(whole, again)
    logs = [(tmp_path / name / "log.jsonl").read_text() for name in ("whole", "killed")]
    assert logs[0] == logs[1]


def test_what_was_not_saved_is_done_again(tmp_path: Path) -> None:
    recipe = tiny(epochs=2)
    whole = run(recipe, tmp_path / "whole")
    with pytest.raises(Killed):
        run(recipe, tmp_path / "killed", dies_at(8), save_every=1e9)  # the last checkpoint is the end of epoch 0
    assert same(whole, run(recipe, tmp_path / "killed"))


def test_a_checkpoint_is_there_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny(epochs=2)
    whole = run(recipe, tmp_path / "whole")
    real: Callable[..., None] = checkpoint.save_file
    calls = []

    def torn(tensors: object, path: Path) -> None:
        calls.append(path)
        if len(calls) == 6:
            Path(path).write_bytes(b"half")
            raise Killed
        real(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", torn)
    with pytest.raises(Killed):
        run(recipe, tmp_path / "killed", save_every=0)
    monkeypatch.undo()
    assert same(whole, run(recipe, tmp_path / "killed"))
    assert [p.name for p in (tmp_path / "killed").glob("resume*")] == ["resume-10"]


def test_another_recipe_is_refused_in_a_sentence(tmp_path: Path) -> None:
    run(tiny(epochs=1), tmp_path)
    recipe = tiny(epochs=2)
    with pytest.raises(DeixisError, match="another --out"):
        run(replace(recipe, model=replace(recipe.model, hidden=32)), tmp_path)


def test_the_seed_decides(tmp_path: Path) -> None:
    first, again = run(tiny(epochs=1), tmp_path / "a"), run(tiny(epochs=1), tmp_path / "b")
    other = run(tiny(epochs=1, seed=1), tmp_path / "c")
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize(
    ("name", "right_looks"),
    [("updown-small", 0.6), ("distributed-attention-small", 0.6), ("cyclical-small", 0.6), ("supervised-small", 0.9)],
)
def test_it_learns_to_say_what_it_sees_and_to_look_at_it(tmp_path: Path, name: str, right_looks: float) -> None:
    recipe = tiny(name, epochs=28, schedule=Schedule(lr=1e-2, decay=0.95, decay_every=1, clip_norm=1.0))
    words, looks = right(run(replace(recipe, batch_images=8), tmp_path, n=160))
    # chance: one of four words, one of five regions
    assert words > 0.8
    assert looks > right_looks


def right(decoder: Decoder, telling: bool = False) -> tuple[float, float]:
    """How often it says the right noun of captions it has not seen, and how often it then looks at the right region."""
    examples, regions = world(40, seed=1, telling=telling)
    batch = collate(examples, regions, VOCABULARY.pad)
    with torch.no_grad():
        decoded = decoder(decoder.encode_regions(batch.regions), batch.words[..., :-1])
        said = decoder.word_logprobs(decoded.states)[:, 0, :, 0].argmax(-1)
    assert batch.overlap is not None
    positive = batch.overlap > 0.5
    nouns = positive.any(-1)[:, 0]
    looked = decoded.attention[:, 0, :, 0].argmax(-1)[nouns]
    found = positive[:, 0][nouns].gather(-1, looked.unsqueeze(-1))
    return (said[nouns] == batch.words[:, 0, 1:][nouns]).float().mean().item(), found.float().mean().item()


@pytest.mark.parametrize(("name", "branches"), [("updown", "mean"), ("distributed-attention", "each")])
def test_a_teacher_teaches_where_to_look(tmp_path: Path, name: str, branches: Literal["mean", "each"]) -> None:
    """In a world in which every region tells what there is to say, so that nobody has to look in the right place."""
    looks = []
    for weight in (0.0, 1.0):
        plain = UPDOWN_RECIPES[f"{name}-small"]
        recipe = shrunk(with_teacher(plain, "pos-scan"), epochs=10 // len(plain.phases))
        schedule = Schedule(lr=1e-2, decay=0.95, decay_every=1, clip_norm=1.0)
        distillation = replace(recipe.distillation, weight=weight, branches=branches)
        recipe = replace(recipe, batch_images=8, schedule=schedule, distillation=distillation)
        decoder = run(recipe, tmp_path / str(weight), n=120, telling=True)
        words, right_looks = right(decoder, telling=True)
        assert words > 0.9
        looks.append(right_looks)
    assert looks[1] > looks[0] + 0.15


def test_rewards_teach_what_to_say(tmp_path: Path) -> None:
    """From a captioner that hardly knows its words to one that mostly names both things, by rewards alone."""
    recipe = shrunk(with_reward(UPDOWN), epochs=3)
    learn, critic = recipe.phases
    schedule = Schedule(lr=1e-2, decay=1.0, clip_norm=1.0)
    recipe = replace(recipe, phases=(replace(learn, epochs=3), replace(critic, epochs=5, lr=1e-2)), schedule=schedule)
    run(recipe, tmp_path, n=80)
    told = [json.loads(line)["losses"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert set(told[2]) == {"words"}
    assert set(told[3]) == {"policy", "reward", "baseline", "gap", "reward-own"}
    assert told[7]["reward"] > told[3]["reward"] + 0.4  # of two


def test_a_phase_ends_when_there_is_reward_converged_to_learn(tmp_path: Path) -> None:
    """All sentences are worth the same."""
    recipe = shrunk(with_reward(UPDOWN), epochs=5)
    config = replace(recipe.self_critical, patience=2)
    recipe = replace(recipe, phases=recipe.phases[-1:], self_critical=config)
    run(recipe, tmp_path, rewards={"same": (1.0, lambda images, said: said.scores * 0)})
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


def combinations() -> list[UpDownRecipe]:
    """Every small recipe, and the losses that add up in all ways on three of them."""
    small = [recipe for name, recipe in UPDOWN_RECIPES.items() if name.endswith("-small") and not recipe.model.frames]
    taught = [with_teacher(each, "pos-scan") for each in (UPDOWN, DISTRIBUTED, UPDOWN_RECIPES["cyclical-small"])]
    cycled = [with_cycle(each) for each in (UPDOWN, DISTRIBUTED, *taught[:2])]
    rewarded = [with_reward(each, "scan") for each in (UPDOWN, *taught, *cycled)]
    return [*small, *taught, *cycled, *rewarded]


# but for sizes, a small recipe has the network and losses of the other
@pytest.mark.parametrize("recipe", combinations(), ids=lambda recipe: recipe.name)
def test_every_recipe_takes_a_step(recipe: UpDownRecipe) -> None:
    recipe = replace(recipe, model=replace(recipe.model, words=16, hidden=32, attention=16))  # the wiring, quickly
    examples, regions = world(3)
    network = Network(recipe, fill(recipe, VOCABULARY, regions["0"]), all_seeing, {"cider": (1.0, own_words)})
    batch = collate(examples, regions, VOCABULARY.pad)
    torch.manual_seed(0)
    for phase in recipe.phases:
        terms = network(phase, batch, 0.5)
        assert set(terms) <= set(recipe.loss_terms)  # each is explained
        torch.stack([term for term in terms.values() if term.requires_grad]).sum().backward()
    moved = [parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters()]
    assert all(moved), [n for (n, _), m in zip(network.named_parameters(), moved, strict=True) if not m]


@pytest.mark.parametrize("name", ["supervised-small", "gvd-supervised-small"])
def test_a_batch_without_boxes_has_no_supervised_loss(name: str) -> None:
    examples, regions = world(2)
    recipe = tiny(name)
    network = Network(recipe, fill(recipe, VOCABULARY, regions["0"]))
    batch = collate([replace(example, targets=()) for example in examples], regions, VOCABULARY.pad)
    terms = network(recipe.phases[0], batch, 0.0)
    assert float(terms.pop("words").detach()) > 0
    assert terms
    assert all(term.item() == 0 for term in terms.values())


def test_a_supervised_batch_without_targets_is_refused() -> None:
    examples, regions = world(2)
    recipe = tiny("supervised-small")
    network = Network(recipe, fill(recipe, VOCABULARY, regions["0"]))
    batch = collate([replace(example, targets=None) for example in examples], regions, VOCABULARY.pad)
    with pytest.raises(ValueError, match="no targets"):
        network(recipe.phases[0], batch, 0.0)


def test_later_phases_continue_the_decay_and_some_have_none(tmp_path: Path) -> None:
    rates: list[float] = []
    callbacks = Callbacks(step=lambda step: rates.append(step.lr))
    phases = (Phase(1), Phase(2), Phase(2, lr=4.0, decay=False))
    recipe = replace(tiny(schedule=Schedule(lr=1.0, decay=0.5, decay_every=2, min_lr=0.4)), phases=phases)
    run(recipe, tmp_path, callbacks)
    assert rates[::5] == [1.0, 1.0, 0.5, 4.0, 4.0]  # the decay comes after two epochs of the first two phases
    rates.clear()
    low = Schedule(lr=1.0, decay=0.1, decay_every=1, min_lr=0.4)
    run(tiny(epochs=3, schedule=low), tmp_path / "low", callbacks)
    assert rates[::5] == [1.0, 0.4, 0.4]


def test_a_phase_starts_from_the_best_epoch_of_the_phase_before(tmp_path: Path) -> None:
    """The first phase is best after its first epoch; later steps of a rate of zero show what the second began with."""
    recipe = replace(tiny(schedule=Schedule(lr=1e-2)), phases=(Phase(3), Phase(1, lr=1e-30, from_best=True)))
    examples, regions = world()
    scores, kept = iter([0.9, 0.5, 0.1, 0.3]), []

    def save(network: Network, epoch: int, scores: Scores) -> None:
        kept.append({name: value.clone() for name, value in network.state_dict().items()})

    network = train(
        recipe,
        Network(recipe, fill(recipe, VOCABULARY, regions["0"])),
        examples,
        lambda some, keys: collate(some, regions, VOCABULARY.pad, keys),
        tmp_path,
        lambda network, phase: {"CIDEr": next(scores)},
        save,
        restore=lambda network: network.load_state_dict(kept[0]),
    )
    for name, value in network.state_dict().items():
        torch.testing.assert_close(value, kept[0][name], msg=name)


def test_gradients_are_clipped_by_value(tmp_path: Path) -> None:
    seen: list[float] = []
    examples, regions = world()
    recipe = tiny(epochs=1, schedule=Schedule(lr=1e-3, clip_norm=0.0, clip_value=1e-4))
    network = Network(recipe, fill(recipe, VOCABULARY, regions["0"]))
    train(
        recipe,
        network,
        examples,
        lambda some, keys: collate(some, regions, VOCABULARY.pad, keys),
        tmp_path,
        lambda network, phase: {"CIDEr": 0.0},
        lambda network, epoch, scores: None,
        after_step=lambda: seen.extend(float(p.grad.abs().max()) for p in network.parameters() if p.grad is not None),
    )
    assert max(seen) == pytest.approx(1e-4)


def test_batches_of_captions_have_one_caption_of_an_image() -> None:
    targets = (Target(0, 1, (0, 0, 1, 1), 2), Target(1, 3, (0, 0, 1, 1), 4))
    example = Example("a", ((1, 5, 2), (1, 6, 7, 2)), ((True,), (False,)), (), targets)
    first, second = one_caption_each([example])
    assert (first.captions, second.captions) == (((1, 5, 2),), ((1, 6, 7, 2),))
    assert (first.visual, second.nouns) == (((True,),), ())
    assert second.targets == (Target(0, 3, (0, 0, 1, 1), 4),)
    assert one_caption_each([replace(example, targets=None)])[0].targets is None


def test_scheduled_sampling_rises_in_steps() -> None:
    recipe = UPDOWN_RECIPES["updown"]  # 30 epochs
    assert [round(recipe.sampling_chance(epoch / 30), 2) for epoch in (0, 4, 5, 9, 10, 24, 25, 29)] == [
        *(0, 0, 0.05, 0.05, 0.1, 0.2, 0.25, 0.25)
    ]
    linear = replace(recipe, sampling_step=0.0)
    assert linear.sampling_chance(0.5) == pytest.approx(0.125)


def test_the_learning_rate_follows_the_schedule(tmp_path: Path) -> None:
    rates: list[float] = []
    callbacks = Callbacks(step=lambda step: rates.append(step.lr))
    run(tiny(epochs=4, schedule=Schedule(lr=1.0, decay=0.5, decay_every=2)), tmp_path / "steps", callbacks)
    assert rates == [1.0] * 10 + [0.5] * 10
    rates.clear()
    waits = Schedule(lr=1.0, decay=0.1, decay_every=0, patience=1)
    run(tiny(epochs=3, schedule=waits), tmp_path / "waits", callbacks)  # the score never rises after the first epoch
    assert rates == pytest.approx([1.0] * 10 + [0.1] * 5)


def test_a_phase_stops_when_the_score_does_not_rise(tmp_path: Path) -> None:
    run(tiny(epochs=9, schedule=Schedule(early_stop_epochs=2)), tmp_path)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3


def test_the_best_checkpoint_belongs_to_the_last_phase(tmp_path: Path) -> None:
    scores = iter([0.9, 0.5, 0.1, 0.3, 0.2])
    kept: list[int] = []
    recipe = replace(tiny("distributed-attention-small"), phases=(Phase(2, branches=1), Phase(3)))
    examples, regions = world()
    train(
        recipe,
        Network(recipe, fill(recipe, VOCABULARY, regions["0"])),
        examples,
        lambda some, keys: collate(some, regions, VOCABULARY.pad, keys),
        tmp_path,
        lambda network, phase: {"CIDEr": next(scores)},
        lambda network, epoch, scores: kept.append(epoch),
    )
    assert kept == [1, 3, 4]


@pytest.mark.parametrize(("changes", "kept"), [((-0.1, -0.1), [1, 2, 3]), ((0.2, -0.1), [1]), ((0.1, -0.2), [1, 3])])
def test_among_equal_scores_the_epoch_with_the_lower_loss_is_kept(
    tmp_path: Path, changes: tuple[float, ...], kept: list[int]
) -> None:
    """The score stays the same; the loss changes so much from epoch to epoch."""
    saved: list[int] = []
    losses = iter(np.cumsum([1.0, *changes]).tolist())

    class GivenLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = torch.nn.Parameter(torch.zeros(()))

        def forward(self, phase: Phase, batch: "Row", progress: float) -> dict[str, Tensor]:
            return {"loss": self.value * 0 + next(losses)}

    train(
        replace(tiny(epochs=3), batch_images=10),
        GivenLoss(),
        [1.0] * 10,
        lambda some, keys: Row(torch.tensor(some)),
        tmp_path,
        lambda network, phase: {"CIDEr": 0.5},
        lambda network, epoch, scores: saved.append(epoch),
    )
    assert saved == kept


def test_the_log_has_a_line_an_epoch(tmp_path: Path) -> None:
    run(tiny("cyclical-small", epochs=1), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[0]["loss"] == pytest.approx(lines[0]["losses"]["words"])
    assert set(lines[0]["losses"]) == {"words"}
    assert set(lines[1]["losses"]) == {"decode", "reconstruct"}


def test_an_old_run_is_resumed(tmp_path: Path) -> None:
    """Version 0.1 counted the epochs of the log from 0 and called the learning rate "rate"."""
    recipe = tiny(epochs=2)
    whole = run(recipe, tmp_path / "whole")
    with pytest.raises(Killed):
        run(recipe, tmp_path / "old", dies_at(7))  # the last checkpoint is the end of the first epoch
    (line,) = read_log(tmp_path / "old")
    new = (tmp_path / "old" / "log.jsonl").read_text()
    old = {"epoch": 0, "step": 5, "rate": line["lr"], "losses": line["losses"], "scores": line["scores"]}
    (tmp_path / "old" / "log.jsonl").write_text(json.dumps(old) + "\n")
    progress = tmp_path / "old" / "resume-5" / "progress.json"
    values = json.loads(progress.read_text())
    values = {name: value for name, value in values.items() if name not in ("lr", "loss", "best_loss")}
    progress.write_text(json.dumps({**values, "rate": line["lr"] * recipe.schedule.decay, "best_epoch": 0}))
    assert same(whole, run(recipe, tmp_path / "old"))
    assert json.loads(new)["epoch"] == 1
    assert [(each["epoch"], each["lr"]) for each in read_log(tmp_path / "old")] == [
        (each["epoch"], each["lr"]) for each in read_log(tmp_path / "whole")
    ]


def test_progress_is_plain_json(tmp_path: Path) -> None:
    run(tiny(epochs=1), tmp_path)
    value = json.loads((tmp_path / "resume-5" / "progress.json").read_text())
    assert Progress(**value).epoch == 1


def test_an_unknown_loss_is_refused() -> None:
    recipe = replace(tiny(), phases=(Phase(1, loss="cycles"),))
    with pytest.raises(DeixisError, match="cycle"):
        Network(recipe, fill(recipe, VOCABULARY, world(1)[1]["0"]))


def test_a_score_that_validation_does_not_give_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="F1_loc"):
        run(tiny(epochs=1, monitor="F1_loc"), tmp_path)


class Weight(torch.nn.Module):
    """The smallest thing that learns, with a term that is only told."""

    def __init__(self) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.zeros(()))

    def forward(self, phase: Phase, batch: "Row", progress: float) -> dict[str, torch.Tensor]:
        return {"loss": (self.value - batch.number.mean()) ** 2, "told": torch.tensor(1e6)}


@dataclass(frozen=True)
class Row:
    number: torch.Tensor


def test_any_network_can_be_trained_and_a_phase_may_end_by_its_log(tmp_path: Path) -> None:
    recipe = tiny(epochs=9, schedule=Schedule(lr=0.1))
    seen: list[int] = []

    def finished(lines: Sequence[dict[str, Any]]) -> bool:
        seen.append(len(lines))
        return lines[-1]["losses"]["told"] == 1e6 and len(lines) == 3

    network = train(
        recipe,
        Weight(),
        [1.0] * 10,
        lambda some, keys: Row(torch.tensor(some)),
        tmp_path,
        lambda network, phase: {"CIDEr": 0.0},
        lambda network, epoch, scores: None,
        finished=finished,
    )
    assert seen == [1, 2, 3]
    assert 0 < float(network.value.detach()) < 1.5  # the term without gradient moved nothing


def test_warm_up_and_milestones() -> None:
    schedule = Schedule(lr=1e-3, decay=0.1, warmup_steps=500, milestones=(0.4, 0.5))  # ReIR: 80k steps, 32k and 40k
    rates = [step_lr(schedule, schedule.lr, step, 80_000) for step in (0, 250, 500, 31_999, 32_000, 39_999, 40_000)]
    assert rates == pytest.approx([1e-6, 5.005e-4, 1e-3, 1e-3, 1e-4, 1e-4, 1e-5])


def test_sgd_with_momentum_and_weight_decay() -> None:
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    optimiser = make_optimiser(Schedule(optimiser="sgd", lr=0.1, momentum=0.9, weight_decay=0.5), [weight])
    for velocity, after in ((2.0, 1.8), (3.7, 1.43)):  # gradient 1 + .5 w; then .9 * 2 + 1.9
        optimiser.zero_grad()
        weight.sum().backward()
        optimiser.step()
        assert float(optimiser.state[weight]["momentum_buffer"]) == pytest.approx(velocity)
        assert float(weight.detach()) == pytest.approx(after)


# Parts of a batch, the published cosine, images in the background ----------------------------------------------------


class Line(torch.nn.Module):
    """One number that follows the mean of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, phase: Phase, batch: "Numbers", progress: float) -> dict[str, Tensor]:
        return {"square": ((self.weight * batch.values + self.bias - 3 * batch.values) ** 2).mean()}


@dataclass(frozen=True)
class Numbers:
    values: Tensor


def follow(run: Path, **changes: Any) -> tuple[Line, list[float], list[Any]]:
    recipe = tiny(epochs=changes.pop("epochs", 1), monitor="score", **changes)
    events: list[Any] = []
    network = train(
        recipe,
        Line(),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        lambda some, keys: Numbers(torch.tensor(some)),
        run,
        lambda network, phase: {"score": 1.0},
        lambda network, epoch, scores: events.append(("save", epoch)),
        prefetch=lambda some: events.append(("ahead", len(some))),
        after_step=lambda: events.append(("step",)),
    )
    return network, [line["losses"]["square"] for line in read_log(run)], events


def test_parts_of_a_batch_have_the_gradient_of_the_batch(tmp_path: Path) -> None:
    whole, losses, events = follow(tmp_path / "whole")
    parts, again, _ = follow(tmp_path / "parts", accumulate=3)  # parts of two and one
    assert again == pytest.approx(losses)
    torch.testing.assert_close(parts.weight, whole.weight)
    assert [event for event in events if event[0] == "ahead"] == [("ahead", 2)]  # in a thread, before or after a step
    assert [event for event in events if event[0] != "ahead"] == [("step",), ("step",), ("save", 1)]


def test_no_epochs_save_the_initial_network(tmp_path: Path) -> None:
    network, losses, events = follow(tmp_path, epochs=0)
    assert (float(network.weight.detach()), losses, events) == (0.0, [], [("save", 0)])


def test_the_published_cosine() -> None:
    """Values of the scheduler of ALBEF's code for AMC's settings, worked out by hand."""
    schedule = Schedule(lr=1e-5, cosine=True, warmup_epochs=20, warmup_lr=1e-6, min_lr=1e-6)

    def rate(epoch: int, batch: int) -> float:
        return cosine_lr(schedule, 1e-5, epoch, batch, 30)

    assert [rate(0, batch) for batch in (0, 1, 100)] == [1e-6] * 3
    assert rate(0, 101) == rate(0, 200) == pytest.approx(1.45e-6)
    assert rate(0, 2000) == pytest.approx(9.55e-6)
    assert rate(0, 2001) == rate(0, 9999) == pytest.approx(1e-6 + 9e-6 * 0.25)  # 1 + cos(2 pi / 3) is 1 / 2
    assert rate(5, 7) == pytest.approx(1e-6 + 9e-6 * (1 - 3**0.5 / 2) / 2)  # 25 of 30
    assert rate(10, 0) == rate(29, 0) == 1e-6


def test_weight_decay_leaves_vectors_out() -> None:
    matrix, vector = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))
    made = make_optimiser(Schedule(optimiser="adamw", weight_decay=0.02, decay_all=False, lr=0.1), [matrix, vector])
    for parameter in (matrix, vector):
        parameter.grad = torch.zeros_like(parameter)
    made.step()
    torch.testing.assert_close(matrix.detach(), torch.full((2, 2), 0.998))
    assert torch.equal(vector.detach(), torch.ones(2))


def test_a_value_is_made_while_the_one_before_is_used() -> None:
    started = {key: threading.Event() for key in range(4)}

    def make(key: int) -> int:
        started[key].set()
        if key == 3:
            raise ValueError("three")
        return 10 * key

    values = ahead(make, iter(range(4)))
    assert next(values) == 0
    assert started[1].wait(10)  # made in a thread, although nobody asked for it
    assert not started[2].is_set()  # at most one
    assert [next(values), next(values)] == [10, 20]
    with pytest.raises(ValueError, match="three"):
        next(values)


def test_values_are_loaded_ahead_and_released() -> None:
    loaded: list[str] = []

    def load(key: str) -> str:
        loaded.append(key)
        return key.upper()

    values = Prefetch(load, workers=2)
    values.ahead(["a", "b", "a"])
    assert (values["a"], values["b"], values["a"]) == ("A", "B", "A")
    values.ahead(["b", "c"])
    assert (values["a"], values["c"]) == ("A", "C")
    values.ahead([])
    assert sorted(loaded) == ["a", "b", "c"]
    assert values["a"] == "A"  # released: loaded again
    assert loaded.count("a") == 2
    assert Prefetch(load, workers=0)["d"] == "D"
