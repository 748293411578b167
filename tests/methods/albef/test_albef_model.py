"""The pointer: heat maps, points and boxes of phrases, captions held against photographs, folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.calibration import Calibration
from deixis.errors import DeixisError
from deixis.evaluation.evaluate import set_place
from deixis.language.wordpiece import WordPieces
from deixis.localize.alpha import rank_boxes
from deixis.localize.class_names import class_probabilities
from deixis.localize.heat_rules import DETECTOR_RULES, PROPOSAL_RULES, HeatRules
from deixis.localize.points import bicubic_maximum
from deixis.localize.threshold import threshold_box
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.images import jitter_colours, square_grid, square_pixels, standardise
from deixis.methods.albef.model import AlbefGrounder, Presence, pad_texts
from deixis.methods.albef.network import AlbefNet
from deixis.methods.albef.pair_scores import pair_scores
from deixis.types import HeatPlace, Labels, Phrase, Regions
from deixis.vision.extractor import named_extractor

PIECES = WordPieces.build(["a man riding a red bike near the dog"], 1)
CELLS = AlbefConfig(
    vocabulary=len(PIECES),
    hidden=12,
    heads=2,
    feed=16,
    positions=16,
    text_layers=1,
    fusion_layers=2,
    patch=0,
    features=16,
    side=6,
    image_hidden=12,
    image_heads=2,
    image_feed=16,
    image_layers=1,
    shared=8,
    map_layer=0,
)
PIXELS = replace(CELLS, patch=8, features=0, side=4)


def made(config: AlbefConfig) -> AlbefGrounder:
    torch.manual_seed(0)
    network = AlbefNet(config)
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    if config.patch:
        return AlbefGrounder(network, PIECES, None, "pixels")
    eyes = named_extractor("tiny", "grid")
    return AlbefGrounder(network, PIECES, eyes.to_json(), "cells")


def photo() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8))


@pytest.mark.parametrize("config", [CELLS, PIXELS])
def test_phrases_of_one_photograph_are_found_together_as_alone(config: AlbefConfig) -> None:
    pointer, phrases = made(config), ["a red bike", "the dog", "a man riding a bike near the dog"]
    found = pointer.ground(photo(), phrases)
    assert [grounding.text for grounding in found] == phrases
    for phrase, together in zip(phrases, found, strict=True):
        (alone,) = pointer.ground(photo(), [phrase])
        assert together.score == pytest.approx(alone.score, abs=1e-5)
        assert together.box == alone.box
        assert together.heat is not None
        assert alone.heat is not None
        np.testing.assert_allclose(together.heat.grid, alone.heat.grid, atol=1e-4)
        assert together.heat.grid.max() == pytest.approx(1.0)
        assert together.heat.size == (64, 48)
        assert together.point == bicubic_maximum(together.heat)
    assert len({grounding.score for grounding in found}) == 3


PHRASES = ["the dog", "a man", "a red bike", "dogs", "a man and the dog", "a man riding a bike near the dog"]
SEVERAL = [False, False, False, True, True, False]
LEMMAS = ["dog", "man", "bike", "dog", "man", "man"]
KNOWN = [True, True, False, True, True, True]  # dog, person, and a tree that no phrase names
CLASSES = ("dog", "person", "tree")


def scored(pointer: AlbefGrounder, supervision: str) -> Regions:
    """The photograph's regions with random scores and names; the pointer is told how its proposer was trained."""
    assert pointer.eyes is not None
    regions = pointer.eyes.look(photo())
    pointer.eyes.description["proposals"]["supervision"] = supervision
    dice = np.random.default_rng(3)
    labels = Labels(dice.integers(0, 3, (len(regions), 1)), dice.random((len(regions), 1)), CLASSES)
    return replace(regions, scores=dice.random(len(regions)) ** 4, labels=labels)


@pytest.mark.parametrize(("supervision", "rules"), [("none", PROPOSAL_RULES), ("boxes", DETECTOR_RULES)])
def test_the_box_is_the_proposal_that_the_rule_chooses(supervision: str, rules: HeatRules) -> None:
    pointer = made(CELLS)
    regions = scored(pointer, supervision)
    found = pointer.ground(regions, PHRASES)
    maps = np.stack([one.heat.grid for one in found if one.heat is not None])
    assert regions.labels is not None
    named = class_probabilities(LEMMAS, regions.labels, CLASSES)
    means = [
        rules.plural if many else rules.known if known else rules.other
        for many, known in zip(SEVERAL, KNOWN, strict=True)
    ]
    expected = [rule.select(maps, regions, named)[i] for i, rule in enumerate(means)]
    assert [one.box for one in found] == [tuple(regions.boxes[number]) for number in expected]
    if supervision == "boxes":  # the photograph is noise, but the rules differ about it
        for rule in (*vars(DETECTOR_RULES).values(), *vars(PROPOSAL_RULES).values()):
            assert expected != list(rule.select(maps, regions, named))
        assert expected != [rule.select(maps, regions)[i] for i, rule in enumerate(means)]


def test_other_rules_for_the_box_can_be_asked_for() -> None:
    pointer = made(CELLS)
    regions = scored(pointer, "boxes")
    boxes = {}
    for place in get_args(HeatPlace):
        set_place(pointer, place)
        found = pointer.ground(regions, PHRASES)
        assert found == pointer.ground(regions, PHRASES, box=place)
        assert found[0].box == pointer.check(regions, "the dog").caption.groundings[0].box
        boxes[place] = [one.box for one in found]
    heats = [one.heat for one in found if one.heat is not None]
    assert boxes["alpha"] == [tuple(regions.boxes[rank_boxes(heat, regions.boxes, 0.5)[0]]) for heat in heats]
    assert boxes["threshold"] == [threshold_box(heat) for heat in heats]
    assert len(set(map(tuple, boxes.values()))) == 3
    with pytest.raises(DeixisError, match="cells finds boxes by heat maps; its --place is heat or alpha or threshold"):
        set_place(pointer, "vote")


def test_without_proposals_the_box_is_around_what_is_hot() -> None:
    pointer = made(CELLS)
    regions = pointer.eyes.look(photo()) if pointer.eyes else None
    assert regions is not None
    (found,) = pointer.ground(regions.select(np.zeros(len(regions), dtype=bool)), ["the dog"])
    assert found.heat is not None
    assert found.box == threshold_box(found.heat)


def test_a_caption_stands_for_its_noun_phrases() -> None:
    found = made(PIXELS).ground(photo(), "A man riding a red bike.")
    assert [(grounding.text, grounding.start, grounding.end) for grounding in found] == [
        ("a man", 0, 2),
        ("a red bike", 3, 6),
    ]
    given = made(PIXELS).ground(photo(), "A man riding a red bike.", [Phrase("bike", 5, 6)])
    assert [(one.text, one.start, one.end) for one in given] == [("bike", 5, 6)]
    assert made(PIXELS).ground(photo(), []) == []
    assert made(PIXELS).ground(photo(), "...") == []


def test_a_caption_is_checked_word_by_word() -> None:
    pointer = made(PIXELS)
    checked = pointer.check(photo(), "A man riding a red bike.")
    alone = pointer.ground(photo(), ["a man", "a red bike", "A man riding a red bike."])
    assert [g.score for g in checked.caption.groundings] == pytest.approx([g.score for g in alone[:2]], abs=1e-5)
    assert checked.match == pytest.approx(alone[2].score, abs=1e-5)
    assert [g.text for g in checked.doubtful] == [g.text for g in alone[:2] if g.score < 0.5]
    value = checked.to_json()
    assert value["caption"] == "A man riding a red bike."
    assert value["match"] == checked.match
    for other in (pointer, made(CELLS)):
        assert other.check(photo(), "Running quickly.").caption.groundings == ()
    with pytest.raises(DeixisError, match="the caption has no words"):
        pointer.check(photo(), " ! ")


def test_a_calibrated_pointer_tells_chances_by_what_texts_find() -> None:
    pointer, phrases = made(CELLS), ["a man", "a red bike"]
    plain = pointer.check(photo(), "A man riding a red bike.")
    found = pointer.evidence(photo(), [*phrases, "A man riding a red bike."])
    with torch.no_grad():
        texts = pointer.texts(phrases)
        encoded = pointer.network.encode(pointer.see(photo())[0])
        expected = pair_scores(pointer.network, encoded, texts, pointer.network.encode_text(texts))[0].tolist()
    assert found[:2] == pytest.approx(expected, abs=1e-5)
    pointer.presence = Presence(Calibration(3.0, -0.5), Calibration(-2.0, 1.0))
    checked = pointer.check(photo(), "A man riding a red bike.")
    scores = [one.score for one in checked.caption.groundings]
    assert scores == pytest.approx([1 / (1 + np.exp(0.5 - 3 * x)) for x in found[:2]], abs=1e-5)
    assert checked.match == pytest.approx(1 / (1 + np.exp(2 * found[2] - 1)), abs=1e-5)
    assert [one.score for one in pointer.ground(photo(), phrases)] == pytest.approx(scores, abs=1e-5)
    boxes = ([one.box for one in each.caption.groundings] for each in (checked, plain))
    assert next(boxes) == next(boxes)  # what is there is no matter of where


@pytest.mark.parametrize("config", [CELLS, PIXELS])
def test_a_folder_brings_the_same_pointer_back(config: AlbefConfig, tmp_path: Path) -> None:
    pointer = made(config)
    pointer.save_pretrained(tmp_path / "model", {"README.md": "a card"})
    assert (tmp_path / "model" / "README.md").read_text() == "a card"
    assert json.loads((tmp_path / "model" / "config.json").read_text())["kind"] == "fusion"
    again = AlbefGrounder.from_pretrained(tmp_path / "model")
    assert again.network.config == config
    assert again.pieces == PIECES
    assert again.ground(photo(), ["the dog"]) == pointer.ground(photo(), ["the dog"])
    assert again.presence is None
    pointer.presence = Presence(Calibration(3.0, -0.5), Calibration(2.0, 1.0))
    pointer.save_pretrained(tmp_path / "calibrated")
    assert AlbefGrounder.from_pretrained(tmp_path / "calibrated").presence == pointer.presence
    kept = json.loads((tmp_path / "model" / "config.json").read_text())
    del kept["presence"]  # as folders were before there was such a thing
    (tmp_path / "model" / "config.json").write_text(json.dumps(kept))
    assert AlbefGrounder.from_pretrained(tmp_path / "model").presence is None


def test_what_a_detector_knows_of_a_thing_is_evidence_too() -> None:
    pointer = made(CELLS)
    alone = pointer.evidence(scored(pointer, "none"), PHRASES)
    regions = scored(pointer, "boxes")
    assert regions.labels is not None
    sure = class_probabilities(LEMMAS, regions.labels, CLASSES).max(1)
    assert 0 < sure.min() < 1 == sure[2]  # nobody asked it about bikes
    expected = [one + 0.015 * np.log(chance) for one, chance in zip(alone, sure, strict=True)]
    assert pointer.evidence(regions, PHRASES) == pytest.approx(expected, abs=1e-6)
    gone = replace(regions, labels=replace(regions.labels, probs=np.zeros_like(regions.labels.probs)))
    assert pointer.evidence(gone, ["the dog"]) == pytest.approx([alone[0] + 0.015 * np.log(0.01)], abs=1e-5)


def test_fewer_word_pieces_change_nothing_for_the_words_that_stay() -> None:
    pointer = made(CELLS)
    pointer.presence = Presence(Calibration(3.0, -0.5), Calibration(2.0, 1.0))
    few = pointer.with_pieces(PIECES.shorter(["the dog"], len(PIECES) - 4))
    assert len(few.pieces) == few.network.config.vocabulary == len(PIECES) - 4
    assert few.ground(photo(), ["the dog"]) == pointer.ground(photo(), ["the dog"])
    assert torch.equal(few.network.words.bias, pointer.network.words.bias[[PIECES.id(p) for p in few.pieces.pieces]])
    rare = next(piece for piece in PIECES.pieces if piece not in few.pieces.pieces)
    assert len(few.pieces.encode(rare)) > len(PIECES.encode(rare)) == 3  # it is spelt now
    assert few.ground(photo(), [rare])[0].heat != pointer.ground(photo(), [rare])[0].heat


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    bare = Regions(np.zeros((1, 4)), np.zeros((1, 4)), (10, 10), extractor=named_extractor("tiny", "grid").name)
    with pytest.raises(DeixisError, match="Extract the features with --grid"):
        made(CELLS).ground(bare, ["a dog"])
    with pytest.raises(DeixisError, match="cells of width 3; this model needs 16"):
        made(CELLS).ground(replace(bare, grid=np.zeros((2, 2, 3))), ["a dog"])
    with pytest.raises(DeixisError, match="reads photographs themselves"):
        made(PIXELS).ground(bare, ["a dog"])
    made(PIXELS).save_pretrained(tmp_path)
    (tmp_path / "vocabulary.json").unlink()
    with pytest.raises(DeixisError, match="word pieces, is not there"):
        AlbefGrounder.from_pretrained(tmp_path)


def test_images_become_squares() -> None:
    ramp = np.tile(np.arange(4.0)[None, :, None], (2, 1, 16))  # 2 rows, 4 columns
    regions = Regions(np.zeros((0, 4)), np.zeros((0, 1)), (8, 4), grid=ramp)
    square = square_grid(regions, replace(CELLS, side=4))
    assert square.shape == (4, 4, 16)
    torch.testing.assert_close(square[:, :, 0], torch.arange(4.0).expand(4, 4))
    pixels = square_pixels(Image.new("RGB", (60, 20), (255, 0, 51)), PIXELS)
    torch.testing.assert_close(pixels, torch.tensor([1.0, 0.0, 0.2]).view(3, 1, 1).expand(3, 32, 32))
    assert standardise(pixels)[0, 0, 0].item() == pytest.approx((1 - 0.48145466) / 0.26862954)


def test_colours_vary_and_stay_colours() -> None:
    torch.manual_seed(0)
    pixels = torch.rand(3, 8, 8)
    seen = [jitter_colours(pixels) for _ in range(30)]
    assert all(one.min() >= 0 and one.max() <= 1 for one in seen)
    assert len({one.sum().item() for one in seen}) == 30
    grey = [one for one in seen if torch.allclose(one[0], one[1], atol=1e-5)]
    assert 0 < len(grey) < 15


def test_texts_are_padded_to_a_length() -> None:
    texts = pad_texts([(1, 2), (1, 2, 3)], pad=0, length=4)
    assert texts.ids.tolist() == [[1, 2, 0, 0], [1, 2, 3, 0]]
    assert texts.mask.tolist() == [[True, True, False, False], [True, True, True, False]]


def test_the_match_of_a_caption_is_the_one_that_its_check_tells() -> None:
    pointer = made(CELLS)
    pointer.presence = Presence(Calibration(1.0, 0.5), Calibration(2.0, -0.5))
    regions = pointer.eyes.look(photo()) if pointer.eyes is not None else None
    assert regions is not None
    match = pointer.check(regions, "a man near the dog").match
    assert match == pytest.approx(pointer.match(regions, "a man near the dog"))
    assert match == pytest.approx(pointer.presence.caption(pointer.evidence(regions, ["a man near the dog"])[0]))
