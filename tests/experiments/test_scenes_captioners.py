"""The parts of the scenes experiment that its figures rest on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data import Dataset
from deixis.data.scenes import make_scenes
from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.types import Regions

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "scenes"))
from captioners import copied
from material import Partial, Scenes, naming_things, whitened

DESCRIPTION = {"backbone": {"name": "none"}, "proposals": {"name": "none"}}


def scenes_of(regions: dict[str, Regions], training: Dataset) -> Scenes:
    return Scenes(training, training, training, regions, {"name": "", "description": DESCRIPTION})


def test_captions_are_cut_to_the_things_they_name() -> None:
    scenes = make_scenes(6)
    for before, after in zip(scenes, naming_things(scenes_of({}, scenes)).training, strict=True):
        named = [p for c in before.captions for p in c.phrases if p.entity in _things(before)]
        kept = [(c, p) for c in after.captions for p in c.phrases]
        assert [p.text for p in named] == [p.text for _, p in kept]
        for caption, phrase in kept:
            assert caption.tokens[phrase.start : phrase.end] == tuple(phrase.text.split())
        assert all(len(c.tokens) == sum(p.end - p.start + 1 for p in c.phrases) - 1 for c in after.captions)


def _things(sample: object) -> set[str]:
    return {e.id for e in sample.entities if len(e.boxes) and ("." not in e.id or e.id.startswith("group."))}  # type: ignore[attr-defined]


def test_whitened_features_have_unit_variance_and_a_name_of_their_own() -> None:
    scenes = make_scenes(5)
    dice = np.random.default_rng(0)
    mixed = dice.normal(size=(6, 6))
    # rows come in fours of which the first decides on the statistics
    found = {s.image_id: np.repeat(dice.normal(size=(20, 6)) @ mixed + 5, 4, 0).astype(np.float32) for s in scenes}
    regions = {image: Regions(np.ones((80, 4)), f, (9, 9), extractor="raw") for image, f in found.items()}
    white = whitened(scenes_of(regions, scenes), 4)
    together = np.concatenate([white.regions[s.image_id].features for s in scenes])
    np.testing.assert_allclose(together.T @ together / len(together), np.eye(4), atol=1e-3)
    names = {r.extractor for r in white.regions.values()}
    assert names == {white.extractor["name"]}
    assert names.isdisjoint({"raw"})


def test_proposals_are_those_of_the_scene() -> None:
    sample = make_scenes(1)[0]
    assert sample.pixels is not None
    proposer = Partial({sample.image_id: sample}, limit=20)
    assert len(proposer.propose(sample.pixels, sample.image_id)) == 20
    with pytest.raises(KeyError):
        proposer.propose(sample.pixels, "another")


def test_copies_of_a_branch_take_its_best_regions_in_turn() -> None:
    torch.manual_seed(0)
    decoder = Decoder(DecoderConfig(vocabulary=9, features=5, words=6, hidden=8, attention=4))
    one = Captioner(decoder, Vocabulary.build([["a"]], 1), {"name": "", "description": DESCRIPTION}, "one")
    three = copied(one, 3).decoder
    features, mask = torch.randn(2, 7, 5), torch.ones(2, 7, dtype=torch.bool)
    words = torch.full((2, 1, 1), Vocabulary.bos)
    single = decoder(decoder.encode(features, mask), words).attention[:, 0, 0, 0]
    many = three(three.encode(features, mask), words).attention[:, 0, 0]
    assert torch.equal(many.argmax(-1), single.topk(3).indices)
    torch.testing.assert_close(many[:, 0], single)
