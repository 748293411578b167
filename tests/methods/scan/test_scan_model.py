"""The aligner: places by hand, words that count, folders that come back, regions of another extractor refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import DeixisError, Phrase, Regions
from deixis.calibration import Calibration
from deixis.evaluation.evaluate import set_place
from deixis.language.parse import parse
from deixis.language.vocabulary import Vocabulary
from deixis.localize.heat import heat_map, hottest
from deixis.localize.votes import chosen
from deixis.methods.scan.model import Placing, ScanGrounder, counting, place
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.pipelines.load import check_caption
from deixis.types import HeatMap
from deixis.vision.extractor import named_extractor

VOCABULARY = Vocabulary.build([["a", "brown", "dog", "runs", "after", "big", "ball"]], minimum=1)
DOG = Phrase("a dog", 0, 2)


@pytest.fixture(scope="module")
def aligner() -> ScanGrounder:
    torch.manual_seed(0)
    eyes = named_extractor("tiny", "grid")
    width = eyes.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    config = ScanConfig(len(VOCABULARY), width, words=8, embed=12, count="nouns")
    matcher = ScanNet(config)
    torch.nn.init.normal_(matcher.embed.weight)
    extractor = eyes.to_json()
    return ScanGrounder(matcher, VOCABULARY, extractor, "test", Calibration(slope=3.0, offset=0.1), Placing("best"))


def photo(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8))


# Places by hand -----------------------------------------------------------------------------------------------------

BOXES = np.array([[0, 0, 40, 40], [20, 20, 80, 80], [80, 0, 100, 20]], dtype=np.float32)
REGIONS = Regions(BOXES, np.zeros((3, 1)), (100, 80))
WEIGHTS = np.array([0.3, 0.5, 0.2])


def test_the_best_region_is_the_box() -> None:
    found = place(DOG, WEIGHTS, 0.7, REGIONS, Placing(place="best"))
    assert (found.box, found.score, found.parts) == ((20, 20, 80, 80), 0.7, ())
    assert (found.text, found.start, found.end) == ("a dog", 0, 2)


def test_the_regions_vote_for_the_box() -> None:
    """The best region is a part; the second best is the whole, with which the third has more in common."""
    boxes = np.array([[0, 0, 10, 10], [0, 0, 20, 20], [5, 5, 20, 20], [80, 0, 100, 20]], dtype=np.float32)
    regions = Regions(boxes, np.zeros((4, 1)), (100, 80))
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    assert place(DOG, weights, 0.7, regions, Placing(place="best")).box == (0, 0, 10, 10)
    assert place(DOG, weights, 0.7, regions, Placing()).box == (0, 0, 20, 20)


def test_the_heat_is_summed_where_regions_lie() -> None:
    """Cells of 25 x 20 pixels. The cell 25..50 x 20..40 lies in the second box, and .6 of it in the first."""
    heat = heat_map(WEIGHTS, REGIONS, 4).grid
    assert heat.shape == (4, 4)
    assert heat[0, 0] == pytest.approx(0.3)
    assert heat[1, 1] == pytest.approx(0.5 + 0.3 * 15 / 25)
    assert heat[2, 2] == pytest.approx(0.5)
    assert heat[0, 3] == pytest.approx(0.2 * 20 / 25)
    assert heat[3, 3] == pytest.approx(0.5 * 5 / 25)
    whole = heat_map(WEIGHTS, REGIONS, 100).grid.sum() * 1 * 0.8  # a cell has 1 x .8 pixels
    assert whole == pytest.approx(0.3 * 1600 + 0.5 * 3600 + 0.2 * 400)


def test_the_point_is_the_middle_of_the_hottest_place() -> None:
    """Where the first two boxes meet, 20..40 x 20..40, though neither its corner nor the best box's centre."""
    x, y = place(DOG, WEIGHTS, 0.7, REGIONS, Placing(cells=40)).pointing()
    assert (x, y) == (pytest.approx(30, abs=2.5), pytest.approx(30, abs=2.5))


def test_of_two_places_alike_the_point_is_in_one() -> None:
    grid = np.zeros((1, 5))
    grid[0, [0, 4]] = 1
    assert hottest(HeatMap(grid, (50, 10))) in [(5, 5), (45, 5)]


# Words --------------------------------------------------------------------------------------------------------------


def test_words_that_count() -> None:
    (grammar,) = parse(["A brown dog runs after a big frisbee"])
    assert counting(grammar, "all", VOCABULARY) == (True,) * 8
    nouns = [
        word for word, counts in zip(grammar.tokens, counting(grammar, "nouns", VOCABULARY), strict=True) if counts
    ]
    assert nouns == ["dog"]  # nobody has told the matcher what a frisbee is
    both = counting(grammar, "NOUN+ADJ", VOCABULARY)
    assert [word for word, counts in zip(grammar.tokens, both, strict=True) if counts] == ["brown", "dog", "big"]


def test_sentences_are_read_between_begin_and_end(aligner: ScanGrounder) -> None:
    words, counts = aligner.encode(parse(["a dog runs", "ball"]))
    assert VOCABULARY.decode(words[0].tolist()) == ("a", "dog", "runs")
    assert words[0, 0] == VOCABULARY.bos
    assert words[1].tolist() == [VOCABULARY.bos, VOCABULARY.id("ball"), VOCABULARY.eos, 0, 0]
    assert counts.tolist() == [[False, False, True, False, False], [False, True, False, False, False]]
    everything = ScanGrounder(
        ScanNet(replace(aligner.matcher.config, count="all")), VOCABULARY, aligner.eyes.to_json(), ""
    )
    assert everything.encode(parse(["a dog runs", "ball"]))[1].sum(1).tolist() == [5, 3]


# People's calls -----------------------------------------------------------------------------------------------------


def test_every_noun_phrase_of_a_sentence_is_found(aligner: ScanGrounder) -> None:
    found = aligner.ground(photo(), "A dog runs after the big ball.")
    assert [(g.text, g.start, g.end) for g in found] == [("a dog", 0, 2), ("the big ball", 4, 7)]
    regions = aligner.eyes.look(photo())
    (look,), (near,) = aligner.align(regions, parse(["A dog runs after the big ball."]))
    assert near.shape == (7,)
    assert look.shape == (7, len(regions))
    np.testing.assert_allclose(look.sum(1), 1, rtol=1e-5)
    for grounding, word in zip(found, (1, 6), strict=True):
        assert grounding.box == tuple(regions.boxes[look[word].argmax()])
        assert grounding.score == pytest.approx(1 / (1 + np.exp(-3 * near[word] - 0.1)), rel=1e-5)
        assert grounding.heat is not None


def test_phrases_of_a_sentence_and_phrases_alone(aligner: ScanGrounder) -> None:
    sentence = "a dog runs after the big ball"
    regions = aligner.eyes.look(photo())
    phrases = [Phrase("a dog", 0, 2), Phrase("the big ball", 4, 7), Phrase("big", 5, 6)]
    found = aligner.ground(regions, sentence, phrases)
    (look,), _ = aligner.align(regions, parse([sentence]))
    for grounding, row in zip(found, [1, 6, 5], strict=True):  # the noun speaks for its phrase; "big" for itself
        assert grounding.box == tuple(regions.boxes[look[row].argmax()])
    alone = aligner.ground(regions, ["A dog", "the big ball"])
    assert [g.text for g in alone] == ["A dog", "the big ball"]
    (same,) = aligner.ground(regions, "a dog")
    assert (alone[0].box, alone[0].start, alone[0].end) == (same.box, 0, 2)
    assert alone[0].score == pytest.approx(same.score, rel=1e-5)


def test_what_cannot_be_looked_for_is_told(aligner: ScanGrounder) -> None:
    assert aligner.ground(photo(), []) == []
    assert aligner.ground(photo(), "running and running") == []
    with pytest.raises(DeixisError, match="no word in the phrase"):
        aligner.ground(photo(), ["a dog", "..."])


def test_photographs_paths_and_regions_score_alike(aligner: ScanGrounder, tmp_path: Path) -> None:
    photo().save(tmp_path / "x.png")
    regions = [aligner.eyes.look(photo(seed)) for seed in range(5)]
    sentences = ["a dog runs", "the big ball"]
    scores = aligner.scores(regions, sentences, batch=2)
    assert scores.shape == (5, 2)
    for given in (photo(), regions[0], str(tmp_path / "x.png")):
        assert aligner.score(given, "the big ball") == pytest.approx(scores[0, 1], abs=1e-6)
    assert len(np.unique(scores.round(6))) == 10


def test_a_folder_comes_back(aligner: ScanGrounder, tmp_path: Path) -> None:
    kept = ScanGrounder(
        aligner.matcher, VOCABULARY, aligner.eyes.to_json(), "kept", Calibration(2.0), Placing("best", 8)
    )
    kept.save_pretrained(tmp_path, {"README.md": "a card"})
    again = ScanGrounder.from_pretrained(tmp_path)
    assert again.ground(photo(), "a dog") == kept.ground(photo(), "a dog")
    assert (again.placing, again.calibration, again.name) == (kept.placing, kept.calibration, "kept")
    assert (tmp_path / "README.md").read_text() == "a card"


def test_another_kind_of_model_is_refused(aligner: ScanGrounder, tmp_path: Path) -> None:
    aligner.save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"matcher",', '"captioner",'))
    with pytest.raises(DeixisError, match="another kind"):
        ScanGrounder.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(config.replace('"embed": 12', '"embed": 13'))
    with pytest.raises(DeixisError, match="not a matcher that this version can read"):
        ScanGrounder.from_pretrained(tmp_path)


def test_regions_of_another_extractor_are_refused(aligner: ScanGrounder) -> None:
    other = Regions(np.zeros((1, 4)), np.zeros((1, 16)), (9, 9), extractor="another")
    with pytest.raises(DeixisError, match="another"):
        aligner.ground(other, "a dog")
    with pytest.raises(DeixisError, match="another"):
        aligner.scores([other], ["a dog"])


def test_a_caption_is_held_against_a_photograph(aligner: ScanGrounder) -> None:
    """A matcher has a chance for each phrase and none for the whole caption."""
    checked = check_caption(aligner, photo(), "A dog and the big ball.")
    found = aligner.ground(photo(), "A dog and the big ball.")
    assert checked.caption.groundings == tuple(found)
    assert (checked.caption.words[1], checked.caption.width, checked.caption.model) == ("dog", 60, "test")
    assert checked.match is None
    assert checked.to_json()["doubtful"] == [one.text for one in found if one.score < 0.5]


def test_the_place_of_a_trained_model_can_be_changed(aligner: ScanGrounder) -> None:
    regions = aligner.eyes.look(photo())
    other = ScanGrounder(aligner.matcher, VOCABULARY, aligner.eyes.to_json(), "other", placing=Placing("best"))
    before = [one.box for one in other.ground(regions, "A dog and the big ball.")]
    set_place(other, "vote")
    (look,), _ = other.align(regions, parse(["A dog and the big ball."]))
    after = [one.box for one in other.ground(regions, "A dog and the big ball.")]
    assert before == [tuple(regions.boxes[look[row].argmax()]) for row in (1, 5)]
    assert after == [tuple(regions.boxes[chosen(regions, look[row], "vote")]) for row in (1, 5)]
    assert before != after
    with pytest.raises(DeixisError, match="other finds boxes by attention to regions; its --place is best or vote"):
        set_place(other, "heat")
