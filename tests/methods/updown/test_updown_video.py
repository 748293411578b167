"""Captioner of clips: elimination per frame, location with the frame, supervision in the annotated frame, training."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from deixis.data import scenes
from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.methods.scan.recipes import SCAN_RECIPES
from deixis.methods.updown.batches import Example, Target, collate
from deixis.methods.updown.frame_threshold import best_threshold
from deixis.methods.updown.losses.supervised import attention_nll
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig, _eliminated
from deixis.methods.updown.recipes import UPDOWN_RECIPES, with_teacher
from deixis.runs.run import InitFrom, run_recipe
from deixis.runs.teachers import TranslatedMatcher
from deixis.training.data import TrainingData
from deixis.types import Regions

CONFIG = DecoderConfig(
    11, 3, words=4, hidden=6, attention=5, dropout=0.0, branches=3, location=4, frames=2, temporal=3, steps=4,
    image="temporal",
)  # fmt: skip


def clip(seed: int = 0, frames=(0, 0, 0, 1, 1), extractor: str = "") -> Regions:
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 40, (len(frames), 2))
    boxes = np.concatenate([corner, corner + random.uniform(5, 20, (len(frames), 2))], 1)
    return Regions(boxes, random.random((len(frames), 3)), (80, 60), frames=np.array(frames), extractor=extractor)


def test_a_branch_takes_the_best_region_of_each_frame():
    alpha = torch.tensor([[[0.5, 0.1, 0.1, 0.2, 0.1]]])
    frames, free = torch.tensor([[0, 0, 0, 1, 1]]), torch.ones(1, 1, 5, dtype=torch.bool)
    first = _eliminated(alpha, free, frames, 2)
    assert first[0, 0].tolist() == [True, False, False, True, False]
    # the second branch: frame 1 has one region left, which stays in reach
    second = _eliminated(torch.tensor([[[0.0, 0.3, 0.2, 0.0, 0.5]]]), free & ~first, frames, 2)
    assert second[0, 0].tolist() == [False, True, False, False, False]
    # a photograph: one region in all
    assert _eliminated(alpha, free, None, 0)[0, 0].tolist() == [True, False, False, False, False]


def test_branches_never_share_a_region_of_a_frame():
    torch.manual_seed(1)
    decoder = Decoder(replace(CONFIG, branches=2)).eval()
    decoded = decoder(decoder.encode_regions(pad_regions([clip()])), torch.tensor([[[1, 4, 5]]]))
    for step in decoded.attention[0, 0]:  # [K, N]
        for rows in (slice(0, 3), slice(3, 5)):
            assert step[0, rows].argmax() != step[1, rows].argmax()
            assert step[1, rows][step[0, rows].argmax()] == 0


def test_the_location_has_corners_by_width_and_the_frame():
    decoder = Decoder(CONFIG).eval()
    seen = []
    decoder.locate.register_forward_hook(lambda _, given, out: seen.append(given[0]))
    regions = clip()
    decoder.encode_regions(pad_regions([regions]))
    expected = np.concatenate([regions.boxes / 80, regions.frames[:, None] / 2], 1)  # y too is divided by the width
    np.testing.assert_allclose(seen[0][0].numpy(), expected, rtol=1e-5)
    blind = Decoder(replace(CONFIG, see_time=False, temporal=0, image="regions"))
    blind.locate.register_forward_hook(lambda _, given, out: seen.append(given[0]))
    blind.encode_regions(pad_regions([regions]))
    assert not seen[1][..., 4].any()


def test_the_order_of_frames_matters_only_with_time():
    torch.manual_seed(0)
    one, swapped = clip(frames=(0, 0, 1, 1)), clip(frames=(1, 1, 0, 0))  # the same regions in other frames
    words = torch.tensor([[[1, 4, 5]]])
    for config, equal in (
        (replace(CONFIG, branches=1), False),
        (replace(CONFIG, branches=1, see_time=False, temporal=0, image="regions"), True),
    ):
        decoder = Decoder(config).eval()
        first, second = (decoder(decoder.encode_regions(pad_regions([r])), words).states for r in (one, swapped))
        assert torch.allclose(first, second, atol=1e-6) == equal


def test_supervision_counts_the_annotated_frame_only():
    box = tuple(clip().boxes[1].tolist())
    example = Example("v", ((1, 4, 5, 2),), targets=(Target(0, 1, box, frame=0),))
    batch = collate([example], {"v": clip()}, 0)
    assert (batch.overlap > 0.5)[0, 0, 1].tolist() == [False, True, False, False, False]
    assert batch.within[0, 0, 1].tolist() == [True, True, True, False, False]
    attention = torch.tensor([0.1, 0.2, 0.1, 0.5, 0.1]).expand(1, 1, 3, 1, 5)
    # -log(.2 / (.1 + .2 + .1)): the attention in frame 1 has no effect
    assert attention_nll(attention, batch.overlap > 0.5, batch.within).item() == pytest.approx(-np.log(0.5))
    other = collate([replace(example, targets=(Target(0, 1, box, frame=1),))], {"v": clip()}, 0)
    assert not (other.overlap > 0.5).any()  # the box is right, the frame is wrong


def test_the_threshold_of_shown_frames():
    # shares .9, .62 are right, .3, .2 are wrong. At .35 .. .6 both right ones are shown: F1 = 2 * 2 / (2 + 4)
    shares = np.array([0.9, 0.62, 0.3, 0.2])
    assert best_threshold(shares, np.array([True, True, False, False])) == pytest.approx(0.6)
    assert best_threshold(shares, np.array([False] * 4)) == 0.5


def scene_data(tmp_path) -> TrainingData:
    """Two made clips of 3 frames, with boxes of their things as regions."""
    samples = [scenes.make_video(0, index, size=48, frames=3) for index in range(2)]
    regions = {}
    for sample in samples:
        found = scenes.proposals(sample, n=5)
        features = np.random.default_rng(0).random((15, 4))
        regions[sample.image_id] = Regions(found.boxes, features, (48, 48), frames=found.frames, extractor="made")
    return TrainingData(
        samples, samples, regions, {"name": "made", "description": {"backbone": {}, "proposals": {}}}, "scenes"
    )


VIDEO = [name for name in UPDOWN_RECIPES if "-video" in name and name.endswith("-small")]


def test_every_video_recipe_has_a_small_sibling():
    assert len(VIDEO) == 7
    assert all(name.removesuffix("-small") in UPDOWN_RECIPES for name in VIDEO)
    assert UPDOWN_RECIPES["cyclical-video"].batch_images == 96
    assert [phase.epochs for phase in UPDOWN_RECIPES["cyclical-video"].phases] == [50, 25]
    assert UPDOWN_RECIPES["supervised-video"].supervised.attention == 0.05
    assert UPDOWN_RECIPES["gvd-video"].model.steps == 480
    model = UPDOWN_RECIPES["supervised-video"].model
    assert (model.fc7, model.classes, model.location) == (2048, 432, 300)  # the region encoding of GVD
    schedule = UPDOWN_RECIPES["cyclical-video"].schedule
    assert (schedule.patience, schedule.min_lr) == (10, 5e-6)
    assert UPDOWN_RECIPES["cyclical-video"].phases[1].from_best


@pytest.mark.parametrize(
    "name", ["distributed-attention-video-small", "cyclical-video-small", "supervised-video-small"]
)
def test_training_a_captioner_of_clips(tmp_path, name):
    recipe = UPDOWN_RECIPES[name]
    model = replace(recipe.model, words=8, hidden=12, attention=6, location=4)
    phases = tuple(replace(phase, epochs=1) for phase in recipe.phases)
    data = scene_data(tmp_path)
    run_recipe(replace(recipe, model=model, phases=phases, min_count=1, max_words=8), data, tmp_path / "run")
    captioner = Captioner.from_pretrained(tmp_path / "run")
    assert captioner.describes_clips
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["decoder"]["temporal"], config["decoder"]["steps"]) == (4, 10)  # rows of the sampled frames
    assert 0 <= config["generation"]["frame_threshold"] <= 1
    regions = next(iter(data.regions.values()))
    ((best, *_),) = captioner.decode([regions])
    assert best.trace.frames is not None
    with pytest.raises(DeixisError, match="describes clips, but a photograph was given"):
        captioner.decode([replace(regions, frames=None)])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["attention", "vote"])
def test_a_matcher_teaches_the_attention_in_each_frame(tmp_path, target):
    data = scene_data(tmp_path)
    matcher = SCAN_RECIPES["pos-scan-small"]
    sizes = replace(matcher.model, words=6, embed=8)
    short = tuple(replace(phase, epochs=1) for phase in matcher.phases)
    run_recipe(replace(matcher, model=sizes, phases=short, min_count=1), data, tmp_path / "teacher")
    recipe = with_teacher(UPDOWN_RECIPES["gvd-video-small"], "pos-scan")
    model = replace(recipe.model, words=8, hidden=12, attention=6, location=4)
    phases = tuple(replace(phase, epochs=1) for phase in recipe.phases)
    distillation = replace(recipe.distillation, target=target)
    recipe = replace(recipe, model=model, phases=phases, min_count=1, max_words=8, distillation=distillation)
    run_recipe(recipe, data, tmp_path / "run", init=InitFrom(teacher=tmp_path / "teacher"))
    (line,) = (json.loads(text) for text in (tmp_path / "run" / "log.jsonl").read_text().splitlines())
    assert line["losses"]["distil"] > 0


def test_votes_of_a_teacher_stay_in_their_frame():
    """Two frames with the same two boxes; all attention is in frame 0, so no region of frame 1 has a vote."""
    boxes = np.array([[0, 0, 20, 20], [2, 2, 22, 22], [0, 0, 20, 20], [2, 2, 22, 22.0]])
    regions = pad_regions([Regions(boxes, np.eye(4)[:, :3], (40, 40), frames=np.array([0, 0, 1, 1]))])
    matcher = TranslatedMatcher.__new__(TranslatedMatcher)
    matcher.target, matcher.counts, matcher.ids = "vote", None, torch.arange(9)

    class Fixed:
        def to(self, device):
            return self

        def attention(self, regions, words, counts):
            return torch.tensor([0.7, 0.3, 0.0, 0.0]).expand(1, 1, words.shape[2], 4)

    matcher.matcher = Fixed()
    found = matcher.attention(regions, torch.tensor([[[1, 4, 2]]]))
    assert found[..., 2:].abs().max() == 0
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)


def test_recipes_of_photographs_and_clips_are_not_confused(tmp_path):
    data = scene_data(tmp_path)
    with pytest.raises(DeixisError, match="describes photographs, but the data has clips"):
        run_recipe(UPDOWN_RECIPES["gvd-small"], data, tmp_path / "run")
    still = replace(data, regions={name: replace(r, frames=None) for name, r in data.regions.items()})
    with pytest.raises(DeixisError, match="describes clips, but the data has photographs"):
        run_recipe(UPDOWN_RECIPES["gvd-video-small"], still, tmp_path / "run")
    assert Vocabulary.pad == 0
