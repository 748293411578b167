"""The ALBEF grounder: heat maps, points and boxes of phrases, checked captions, model folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.boxes import contains
from deixis.calibration import Calibration, Presence
from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.language.queries import caption_query, phrase_queries
from deixis.language.wordpiece import WordPieces
from deixis.localize.alpha import rank_boxes
from deixis.localize.class_names import class_probabilities
from deixis.localize.heat_rules import DETECTOR_RULES, PROPOSAL_RULES, HeatRules
from deixis.localize.points import bicubic_maximum, point_in_box
from deixis.localize.threshold import threshold_box
from deixis.methods.albef import model as albef_model
from deixis.methods.albef.colours import jitter_colours
from deixis.methods.albef.images import square_grid, square_pixels, standardise
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.network import AlbefConfig, AlbefNet, pad_texts, pair_scores
from deixis.pipelines.check import check
from deixis.pipelines.ground import ground
from deixis.pipelines.photo import Photo
from deixis.types import Grounding, HeatPlace, Labels, Phrase, Regions
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


CALIBRATED = Presence(Calibration(3.0, -0.5), Calibration(2.0, 1.0))


def make_grounder(config: AlbefConfig, presence: Presence | None = None) -> AlbefGrounder:
    torch.manual_seed(0)
    network = AlbefNet(config)
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    if config.patch:
        return AlbefGrounder(network, PIECES, None, "pixels", presence=presence)
    extractor = named_extractor("tiny", "grid").to_json()
    return AlbefGrounder(network, PIECES, extractor, "cells", presence=presence)


def image() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8))


def extracted(grounder: AlbefGrounder) -> Regions:
    assert grounder.extractor is not None
    return grounder.extractor.extract(image())


def asked(texts: Sequence[str]) -> list[Phrase]:
    return [phrase for query in phrase_queries(texts) for phrase in query.phrases]


# Phrases --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("presence", [None, CALIBRATED])
@pytest.mark.parametrize("config", [CELLS, PIXELS])
def test_phrases_are_grounded_together_as_alone(config: AlbefConfig, presence: Presence | None) -> None:
    grounder = make_grounder(config, presence)
    phrases = ["a red bike", "the dog", "a man riding a bike near the dog"]
    found = ground(Photo(image()), phrases, grounder)
    assert [grounding.text for grounding in found] == phrases
    for phrase, together in zip(phrases, found, strict=True):
        (alone,) = ground(Photo(image()), [phrase], grounder)
        assert together.score == pytest.approx(alone.score, abs=1e-5)
        assert together.box == alone.box
        assert together.heat is not None
        assert alone.heat is not None
        np.testing.assert_allclose(together.heat.grid, alone.heat.grid, atol=1e-4)
        assert together.heat.grid.max() == pytest.approx(1.0)
        assert together.heat.size == (64, 48)
        assert together.point == point_in_box(together.heat, together.box, bicubic_maximum(together.heat))
        assert contains(together.box, together.pointing())
    assert len({grounding.score for grounding in found}) == 3


@pytest.mark.parametrize("presence", [None, CALIBRATED])
def test_texts_go_through_the_network_in_batches(presence: Presence | None, monkeypatch: pytest.MonkeyPatch) -> None:
    grounder = make_grounder(CELLS, presence)
    (encoded,) = grounder.encode([extracted(grounder)])
    queries = phrase_queries(PHRASES)
    whole = grounder.ground(encoded, queries), grounder.evidence(encoded, asked(PHRASES))
    monkeypatch.setattr(albef_model, "BATCH", 2)
    (again,) = grounder.encode([extracted(grounder)])
    assert grounder.evidence(again, asked(PHRASES)) == pytest.approx(whole[1], abs=1e-5)
    for one, other in zip(grounder.ground(again, queries), whole[0], strict=True):
        assert (one.text, one.box) == (other.text, other.box)
        assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("config", [CELLS, PIXELS])
def test_a_batch_of_photographs_is_encoded_as_each_alone(config: AlbefConfig) -> None:
    grounder = make_grounder(config)
    other = image().resize((50, 80))
    photos = [image(), other, image()]
    given = photos if grounder.extractor is None else [grounder.extractor.extract(photo) for photo in photos]
    for one, together in zip(given, grounder.encode(given), strict=True):
        (alone,) = grounder.encode([one])
        assert together.size == one.size
        for a, b in zip(*(grounder.ground(e, phrase_queries(["the dog"])) for e in (together, alone)), strict=True):
            assert a.box == b.box
            assert a.score == pytest.approx(b.score, abs=1e-5)


# Boxes ----------------------------------------------------------------------------------------------------------------

PHRASES = ["the dog", "a man", "a red bike", "dogs", "a man and the dog", "a man riding a bike near the dog"]
LEMMAS = ["dog", "man", "bike", "dog", "man", "man"]
PLURAL = [False, False, False, True, True, False]
NAMED = [True, True, False, True, True, True]  # the classes are dog, person, and a tree that no phrase names


def scored(grounder: AlbefGrounder, supervision: str) -> Regions:
    """Return the photograph's regions with random scores and classes; ``supervision`` is that of the proposals."""
    regions = extracted(grounder)
    assert grounder.extractor is not None
    grounder.extractor.description["proposals"]["supervision"] = supervision
    rng = np.random.default_rng(3)
    labels = Labels(rng.integers(0, 3, (len(regions), 1)), rng.random((len(regions), 1)), ("dog", "person", "tree"))
    return replace(regions, scores=rng.random(len(regions)) ** 4, labels=labels)


@pytest.mark.parametrize(("supervision", "rules"), [("none", PROPOSAL_RULES), ("boxes", DETECTOR_RULES)])
def test_the_box_is_the_proposal_that_the_rule_chooses(supervision: str, rules: HeatRules) -> None:
    grounder = make_grounder(CELLS)
    regions = scored(grounder, supervision)
    assert [(phrase.lemma, phrase.plural) for phrase in asked(PHRASES)] == list(zip(LEMMAS, PLURAL, strict=True))
    found = ground(Photo("", regions=regions), PHRASES, grounder)
    maps = np.stack([one.heat.grid for one in found if one.heat is not None])
    assert regions.labels is not None
    named = class_probabilities(LEMMAS, regions.labels, regions.labels.names)
    means = [
        rules.plural if many else rules.known if name else rules.other for many, name in zip(PLURAL, NAMED, strict=True)
    ]
    expected = [rule.select(maps, regions, named)[i] for i, rule in enumerate(means)]
    assert [one.box for one in found] == [tuple(regions.boxes[number]) for number in expected]
    if supervision == "boxes":  # the photograph is noise, but the rules give different boxes
        for rule in (*vars(DETECTOR_RULES).values(), *vars(PROPOSAL_RULES).values()):
            assert expected != list(rule.select(maps, regions, named))
        assert expected != [rule.select(maps, regions)[i] for i, rule in enumerate(means)]


def test_class_probabilities_by_hand() -> None:
    labels = Labels(np.array([[0, 2], [1, 0]]), np.array([[0.7, 0.2], [0.6, 0.3]]), ("dog", "person", "tree"))
    texts = ["a brown puppy", "the dog", "a tree near a dog", "a group of men", "the sky"]
    found = class_probabilities([*(phrase.lemma for phrase in asked(texts)), ""], labels, labels.names)
    np.testing.assert_allclose(found, [[0.7, 0.3], [0.7, 0.3], [0.2, 0], [0, 0.6], [1, 1], [1, 1]])


def test_other_box_rules_can_be_asked_for() -> None:
    grounder = make_grounder(CELLS)
    photo = Photo("", regions=scored(grounder, "boxes"))
    found: dict[str, list[Grounding]] = {
        place: ground(photo, PHRASES, grounder, place) for place in get_args(HeatPlace)
    }
    assert found["heat"] == ground(photo, PHRASES, grounder)  # the default
    assert found["heat"][0].box == check(photo, "the dog", grounder).groundings[0].box
    boxes = {place: [one.box for one in each] for place, each in found.items()}
    heats = [one.heat for one in found["heat"] if one.heat is not None]
    regions = photo.regions(grounder.extractor) if grounder.extractor is not None else None
    assert regions is not None
    assert boxes["alpha"] == [tuple(regions.boxes[rank_boxes(heat, regions.boxes, 0.5)[0]]) for heat in heats]
    assert boxes["threshold"] == [threshold_box(heat) for heat in heats]
    assert len(set(map(tuple, boxes.values()))) == 3
    with pytest.raises(DeixisError, match=r"cells finds boxes by heat maps\. Its --place is heat or alpha or"):
        ground(photo, PHRASES, grounder, "vote")
    with pytest.raises(DeixisError, match=r"pixels finds boxes by heat maps\. Its --place is threshold, not heat"):
        ground(Photo(image()), PHRASES, make_grounder(PIXELS), "heat")


def test_without_proposals_the_box_is_around_the_hottest_area() -> None:
    grounder = make_grounder(CELLS)
    regions = extracted(grounder)
    empty = regions.select(np.zeros(len(regions), dtype=bool))
    (found,) = ground(Photo("", regions=empty), ["the dog"], grounder)
    assert found.heat is not None
    assert found.box == threshold_box(found.heat)


@pytest.mark.parametrize("place", get_args(HeatPlace))
def test_the_point_lies_in_the_box(place: HeatPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """For random maps and proposals; the maximum of the map is often outside the box."""
    grounder, rng = make_grounder(CELLS, CALIBRATED), np.random.default_rng(0)
    regions, outside = extracted(grounder), 0
    monkeypatch.setattr(grounder.calls, "maps", lambda *given: rng.random((2, 6, 6)))
    for _ in range(40):
        boxes = np.sort(rng.uniform(0, 45, (9, 2, 2)), axis=1).reshape(9, 4) + np.array([0, 0, 1, 1])
        some = replace(regions.select(np.arange(9)), boxes=boxes.astype(np.float32))
        for found in ground(Photo("", regions=some), ["the dog", "two men"], grounder, place):
            assert found.point is not None
            assert contains(found.box, found.point)
            assert found.heat is not None
            outside += not contains(found.box, bicubic_maximum(found.heat))
    assert outside > 10


# Captions -------------------------------------------------------------------------------------------------------------


def test_a_caption_stands_for_its_noun_phrases() -> None:
    grounder, photo = make_grounder(PIXELS), Photo(image())
    found = ground(photo, "A man riding a red bike.", grounder)
    assert [(one.text, one.start, one.end) for one in found] == [("a man", 0, 2), ("a red bike", 3, 6)]
    (parsed,) = parse(["A man riding a red bike."])
    given = grounder.ground(photo.encoded(grounder), [caption_query(parsed, [Phrase("bike", 5, 6)])])
    assert [(one.text, one.start, one.end) for one in given] == [("bike", 5, 6)]
    assert ground(photo, [], grounder) == []
    assert grounder.ground(photo.encoded(grounder), [caption_query(parse(["..."])[0])]) == []
    with pytest.raises(DeixisError, match="no noun phrase"):
        ground(photo, "...", grounder)


def test_a_caption_is_checked_phrase_by_phrase() -> None:
    grounder, photo = make_grounder(PIXELS), Photo(image())
    checked = check(photo, "A man riding a red bike.", grounder)
    alone = ground(photo, ["a man", "a red bike", "A man riding a red bike."], grounder)
    assert [g.score for g in checked.groundings] == pytest.approx([g.score for g in alone[:2]], abs=1e-5)
    assert checked.match == pytest.approx(alone[2].score, abs=1e-5)
    assert [g.text for g in checked.absent] == [g.text for g in alone[:2] if g.score < 0.5]
    value = checked.to_dict()
    assert value["caption"] == "A man riding a red bike."
    assert value["match"] == checked.match
    for other in (grounder, make_grounder(CELLS)):
        assert check(Photo(image()), "Running quickly.", other).groundings == ()
    with pytest.raises(DeixisError, match="the caption has no words"):
        check(photo, " ! ", grounder)


def test_a_calibrated_model_gives_probabilities_of_pair_scores() -> None:
    grounder, phrases, caption = make_grounder(CELLS), ["a man", "a red bike"], "A man riding a red bike."
    plain = check(Photo(image()), caption, grounder)
    (encoded,) = grounder.encode([extracted(grounder)])
    found = grounder.pair_evidence(encoded, asked([*phrases, caption]))
    with torch.no_grad():
        texts = grounder.calls.texts(grounder.texts(phrases))
        expected = pair_scores(grounder.network, encoded.image, texts, grounder.network.encode_text(texts))[0].tolist()
    assert found[:2] == pytest.approx(expected, abs=1e-5)
    grounder.presence = Presence(Calibration(3.0, -0.5), Calibration(-2.0, 1.0))
    photo = Photo(image())
    checked = check(photo, caption, grounder)
    scores = [one.score for one in checked.groundings]
    assert scores == pytest.approx([1 / (1 + np.exp(0.5 - 3 * x)) for x in found[:2]], abs=1e-5)
    assert checked.match == pytest.approx(1 / (1 + np.exp(2 * found[2] - 1)), abs=1e-5)
    assert [one.score for one in ground(photo, phrases, grounder)] == pytest.approx(scores, abs=1e-5)
    assert [one.box for one in checked.groundings] == [one.box for one in plain.groundings]


def test_the_match_of_a_caption_is_the_probability_of_its_evidence() -> None:
    for presence in (None, Presence(Calibration(1.0, 0.5), Calibration(2.0, -0.5))):
        grounder = make_grounder(CELLS, presence)
        photo = Photo("", regions=extracted(grounder))
        match = check(photo, "a man near the dog", grounder).match
        (evidence,) = grounder.evidence(photo.encoded(grounder), asked(["a man near the dog"]))
        assert match == grounder.caption_probability(evidence)
        assert match == pytest.approx(evidence if presence is None else presence.caption(evidence))
        assert (grounder.rerank_weights is None) == (presence is None)


def test_the_class_probability_of_a_detector_is_evidence_too() -> None:
    grounder, phrases = make_grounder(CELLS), asked(PHRASES)
    plain = grounder.pair_evidence(grounder.encode([scored(grounder, "none")])[0], phrases)
    regions = scored(grounder, "boxes")
    assert regions.labels is not None
    best = class_probabilities(LEMMAS, regions.labels, regions.labels.names).max(1)
    assert 0 < best.min() < 1 == best[2]  # there is no class for bikes
    expected = [one + 0.015 * np.log(probability) for one, probability in zip(plain, best, strict=True)]
    (encoded,) = grounder.encode([regions])
    assert grounder.pair_evidence(encoded, phrases) == pytest.approx(expected, abs=1e-6)
    absent = replace(regions, labels=replace(regions.labels, probs=np.zeros_like(regions.labels.probs)))
    (encoded,) = grounder.encode([absent])
    assert grounder.pair_evidence(encoded, asked(["the dog"])) == pytest.approx([plain[0] + 0.015 * np.log(0.01)])


def test_a_text_of_a_photograph_is_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    grounder = make_grounder(CELLS, CALIBRATED)
    (encoded,) = grounder.encode([extracted(grounder)])
    scored: list[int] = []
    real = grounder.calls.pair_scores
    monkeypatch.setattr(grounder.calls, "pair_scores", lambda *given: scored.append(len(given[1])) or real(*given))
    first = grounder.evidence(encoded, asked(["the dog", "a man", "the dog"]))
    assert first[0] == first[2] != first[1]
    assert grounder.evidence(encoded, asked(["a man", "the dog"])) == [first[1], first[0]]
    grounder.evidence(encoded, asked(["a bike", "a man"]))
    assert scored == [2, 1]


def test_the_evidence_of_a_text_does_not_depend_on_what_was_asked_before() -> None:
    """The same text with two lemmas: in another sentence its head noun is another one."""
    grounder = make_grounder(CELLS)
    (phrase,) = asked(["the dog"])
    other = replace(phrase, lemma="bike")
    fresh = [
        grounder.pair_evidence(grounder.encode([scored(grounder, "boxes")])[0], [one])[0] for one in (phrase, other)
    ]
    assert fresh[0] != fresh[1]
    (encoded,) = grounder.encode([scored(grounder, "boxes")])
    assert grounder.pair_evidence(encoded, [phrase, other]) == pytest.approx(fresh)
    assert grounder.pair_evidence(encoded, [other, phrase]) == pytest.approx(fresh[::-1])


# Folders --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [CELLS, PIXELS])
def test_a_folder_gives_the_same_grounder(config: AlbefConfig, tmp_path: Path) -> None:
    grounder = make_grounder(config)
    grounder.save_pretrained(tmp_path / "model", {"README.md": "a card"})
    assert (tmp_path / "model" / "README.md").read_text() == "a card"
    assert json.loads((tmp_path / "model" / "config.json").read_text())["kind"] == "fusion"
    again = AlbefGrounder.from_pretrained(tmp_path / "model", backend="torch")
    assert again.network.config == config
    assert again.pieces == PIECES
    assert again.hash != ""
    assert ground(Photo(image()), ["the dog"], again) == ground(Photo(image()), ["the dog"], grounder)
    assert again.presence is None
    grounder.presence = CALIBRATED
    grounder.save_pretrained(tmp_path / "calibrated")
    assert AlbefGrounder.from_pretrained(tmp_path / "calibrated").presence == grounder.presence
    kept = json.loads((tmp_path / "model" / "config.json").read_text())
    del kept["presence"]  # as in folders that are older than the field
    (tmp_path / "model" / "config.json").write_text(json.dumps(kept))
    assert AlbefGrounder.from_pretrained(tmp_path / "model", backend="torch").presence is None


def test_fewer_word_pieces_change_nothing_for_the_words_that_stay() -> None:
    grounder, photo = make_grounder(CELLS, CALIBRATED), Photo(image())
    few = grounder.with_pieces(PIECES.shorter(["the dog"], len(PIECES) - 4))
    assert len(few.pieces) == few.network.config.vocabulary == len(PIECES) - 4
    assert ground(photo, ["the dog"], few) == ground(photo, ["the dog"], grounder)
    assert torch.equal(few.network.words.bias, grounder.network.words.bias[[PIECES.id(p) for p in few.pieces.pieces]])
    rare = next(piece for piece in PIECES.pieces if piece not in few.pieces.pieces)
    assert len(few.pieces.encode(rare)) > len(PIECES.encode(rare)) == 3  # it is spelt now
    assert ground(photo, [rare], few)[0].heat != ground(photo, [rare], grounder)[0].heat


def test_input_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    bare = Regions(np.zeros((1, 4)), np.zeros((1, 4)), (10, 10), extractor=named_extractor("tiny", "grid").name)
    with pytest.raises(DeixisError, match="Extract the features with --grid"):
        make_grounder(CELLS).encode([bare])
    with pytest.raises(DeixisError, match="cells of width 3; this model needs 16"):
        make_grounder(CELLS).encode([replace(bare, grid=np.zeros((2, 2, 3)))])
    with pytest.raises(DeixisError, match="another"):
        make_grounder(CELLS).encode([replace(bare, grid=np.zeros((2, 2, 16)), extractor="another")])
    with pytest.raises(DeixisError, match="reads pixels, not regions"):
        make_grounder(PIXELS).encode([bare])
    make_grounder(PIXELS).save_pretrained(tmp_path)
    (tmp_path / "vocabulary.json").unlink()
    with pytest.raises(DeixisError, match="does not exist; it must have the vocabulary of word pieces"):
        AlbefGrounder.from_pretrained(tmp_path)


# Inputs ---------------------------------------------------------------------------------------------------------------


def test_images_become_squares() -> None:
    ramp = np.tile(np.arange(4.0)[None, :, None], (2, 1, 16))  # 2 rows, 4 columns
    regions = Regions(np.zeros((0, 4)), np.zeros((0, 1)), (8, 4), grid=ramp)
    square = square_grid(regions, replace(CELLS, side=4))
    assert square.shape == (4, 4, 16)
    np.testing.assert_allclose(square[:, :, 0], np.tile(np.arange(4.0), (4, 1)))
    pixels = square_pixels(Image.new("RGB", (60, 20), (255, 0, 51)), PIXELS.pixels)
    np.testing.assert_allclose(pixels, np.tile(np.float32([[[1.0]], [[0.0]], [[0.2]]]), (1, 32, 32)))
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


def test_a_head_word_of_no_training_caption_is_unknown(tmp_path: Path) -> None:
    """Its score is low, JSON and the model folder keep it; a model without a list of words knows every word."""
    photo = Image.new("RGB", (40, 40), "grey")
    plain = AlbefGrounder(AlbefNet(PIXELS), PIECES, None, "tiny", presence=CALIBRATED)
    assert [one.unknown_word for one in ground(Photo(photo), ["a unicorn"], plain)] == [""]
    knowing = AlbefGrounder(
        AlbefNet(PIXELS), PIECES, None, "tiny", presence=Presence(Calibration(0.0, 5.0), Calibration()),
        words=frozenset(["dog", "a", "red"]),
    )  # fmt: skip
    knowing.save_pretrained(tmp_path)
    for grounder in (knowing, AlbefGrounder.from_pretrained(tmp_path)):
        dog, unicorn = ground(Photo(photo), ["two dogs", "a red Unicorn"], grounder)
        assert (dog.unknown_word, unicorn.unknown_word) == ("", "unicorn")
        assert dog.score > 0.9
        assert unicorn.score == albef_model.UNKNOWN_SCORE
        assert Grounding.from_phrase_json(unicorn.to_phrase_json()).unknown_word == "unicorn"
        assert "unknown_word" not in dog.to_phrase_json()
