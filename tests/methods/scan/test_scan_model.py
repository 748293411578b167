"""The SCAN grounder: boxes by hand, words that count, model folders, and regions of another extractor."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import DeixisError, Phrase, Regions
from deixis.boxes import contains
from deixis.calibration import Calibration
from deixis.language.parse import parse
from deixis.language.queries import caption_query, phrase_queries
from deixis.language.vocabulary import Vocabulary
from deixis.localize.attention import select_region
from deixis.methods.scan.model import Placing, ScanGrounder, place_phrase
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.pipelines.check import check
from deixis.pipelines.ground import ground
from deixis.pipelines.photo import Photo
from deixis.types import Place
from deixis.vision.extractor import named_extractor

VOCABULARY = Vocabulary.build([["a", "brown", "dog", "runs", "after", "big", "ball"]], minimum=1)
DOG = Phrase("a dog", 0, 2)
SENTENCE = "A dog runs after the big ball."


@pytest.fixture(scope="module")
def grounder() -> ScanGrounder:
    torch.manual_seed(0)
    extractor = named_extractor("tiny", "grid")
    width = extractor.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    network = ScanNet(ScanConfig(len(VOCABULARY), width, words=8, embed=12, count="nouns"))
    torch.nn.init.normal_(network.embed.weight)
    calibration = Calibration(slope=3.0, offset=0.1)
    return ScanGrounder(network, VOCABULARY, extractor.to_json(), "test", calibration, Placing("attention"))


def image(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8))


# Boxes by hand --------------------------------------------------------------------------------------------------------

BOXES = np.array([[0, 0, 40, 40], [20, 20, 80, 80], [80, 0, 100, 20]], dtype=np.float32)
REGIONS = Regions(BOXES, np.zeros((3, 1)), (100, 80))
WEIGHTS = np.array([0.3, 0.5, 0.2])


def test_attention_rule_takes_the_best_region() -> None:
    found = place_phrase(DOG, WEIGHTS, 0.7, REGIONS, "attention", 32)
    assert (found.box, found.score, found.parts) == ((20, 20, 80, 80), 0.7, ())
    assert (found.text, found.start, found.end) == ("a dog", 0, 2)


def test_vote_rule_takes_the_region_with_the_most_votes() -> None:
    """The best region is a part; the second best is the whole, with which the third has more in common."""
    boxes = np.array([[0, 0, 10, 10], [0, 0, 20, 20], [5, 5, 20, 20], [80, 0, 100, 20]], dtype=np.float32)
    regions = Regions(boxes, np.zeros((4, 1)), (100, 80))
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    assert place_phrase(DOG, weights, 0.7, regions, "attention", 32).box == (0, 0, 10, 10)
    assert place_phrase(DOG, weights, 0.7, regions, "vote", 32).box == (0, 0, 20, 20)


def test_the_point_is_the_middle_of_the_hottest_area() -> None:
    """Where the first two boxes meet, 20..40 x 20..40, though neither its corner nor the best box's centre."""
    x, y = place_phrase(DOG, WEIGHTS, 0.7, REGIONS, "vote", 40).pointing()
    assert (x, y) == (pytest.approx(30, abs=2.5), pytest.approx(30, abs=2.5))


@pytest.mark.parametrize("place", ["attention", "vote"])
def test_the_point_lies_in_the_box(place: Place) -> None:
    """For random boxes and weights; the hottest point of the whole map is often outside."""
    rng = np.random.default_rng(0)
    outside = 0
    for _ in range(200):
        corners = np.sort(rng.uniform(0, 80, (7, 2, 2)), axis=1)
        boxes = corners.reshape(7, 4) + np.array([0, 0, 1, 1])
        regions = Regions(boxes.astype(np.float32), np.zeros((7, 1)), (100, 90))
        found = place_phrase(DOG, rng.dirichlet(np.ones(7)), 0.5, regions, place, 16)
        assert found.point is not None
        assert contains(found.box, found.point)
        assert found.heat is not None
        outside += not contains(found.box, found.heat.argmax())
    assert outside > 10


# Words ----------------------------------------------------------------------------------------------------------------


def test_sentences_are_encoded_between_bos_and_eos(grounder: ScanGrounder) -> None:
    found = grounder.sentences(parse(["a dog runs", "ball"]))
    ends = VOCABULARY.bos, VOCABULARY.eos
    assert VOCABULARY.decode(found.ids[0]) == ("a", "dog", "runs")
    assert (found.ids[0][0], found.ids[0][-1]) == ends
    assert found.ids[1] == (ends[0], VOCABULARY.id("ball"), ends[1])
    assert found.counts == [(False, False, True, False, False), (False, True, False)]
    network = ScanNet(replace(grounder.network.config, count="all"))
    everything = ScanGrounder(network, VOCABULARY, grounder.extractor.to_json(), "")
    assert [sum(each) for each in everything.sentences(parse(["a dog runs", "ball"])).counts] == [5, 3]


# Grounding ------------------------------------------------------------------------------------------------------------


def test_every_noun_phrase_of_a_sentence_is_grounded(grounder: ScanGrounder) -> None:
    photo = Photo(image())
    found = ground(photo, SENTENCE, grounder)
    assert [(g.text, g.start, g.end) for g in found] == [("a dog", 0, 2), ("the big ball", 4, 7)]
    regions = photo.regions(grounder.extractor)
    (attention,), (relevance,) = grounder.align(photo.encoded(grounder), parse([SENTENCE]))
    assert relevance.shape == (7,)
    assert attention.shape == (7, len(regions))
    np.testing.assert_allclose(attention.sum(1), 1, rtol=1e-5)
    for grounding, word in zip(found, (1, 6), strict=True):
        assert grounding.box == tuple(regions.boxes[attention[word].argmax()])
        assert grounding.score == pytest.approx(1 / (1 + np.exp(-3 * relevance[word] - 0.1)), rel=1e-5)
        assert grounding.heat is not None
        assert grounding.point is not None
        assert contains(grounding.box, grounding.point)


def test_a_phrase_is_read_at_its_nouns_or_at_its_head_alone(grounder: ScanGrounder) -> None:
    photo, sentence = Photo(image()), "the dog ball runs"
    encoded, (parsed,) = photo.encoded(grounder), parse([sentence])
    phrase = Phrase("the dog ball", 0, 3)
    (attention,), (relevance,) = grounder.align(encoded, [parsed])
    boxes = photo.regions(grounder.extractor).boxes
    assert [parsed.nouns[t] for t in range(3)] == [False, True, True]
    query = [caption_query(parsed, [phrase])]
    (mean,) = grounder.ground(encoded, query)
    assert mean.box == tuple(boxes[attention[1:3].mean(0).argmax()])
    grounder.placing = replace(grounder.placing, words="head")
    try:
        (head,) = grounder.ground(encoded, query)
    finally:
        grounder.placing = replace(grounder.placing, words="nouns")
    assert head.box == tuple(boxes[attention[2].argmax()])
    assert head.score == pytest.approx(1 / (1 + np.exp(-3 * relevance[2] - 0.1)), rel=1e-5)
    assert mean.score == pytest.approx(1 / (1 + np.exp(-3 * relevance[1:3].mean() - 0.1)), rel=1e-5)


def test_phrases_of_a_sentence_and_phrases_alone(grounder: ScanGrounder) -> None:
    regions = grounder.extractor.extract(image())
    (encoded,) = grounder.encode([regions])
    (parsed,) = parse(["a dog runs after the big ball"])
    phrases = [Phrase("a dog", 0, 2), Phrase("the big ball", 4, 7), Phrase("big", 5, 6)]
    found = grounder.ground(encoded, [caption_query(parsed, phrases)])
    (attention,), _ = grounder.align(encoded, [parsed])
    for grounding, row in zip(found, [1, 6, 5], strict=True):  # the noun of a phrase; "big" itself
        assert grounding.box == tuple(regions.boxes[attention[row].argmax()])
    alone = grounder.ground(encoded, phrase_queries(["A dog", "the big ball"]))
    assert [g.text for g in alone] == ["A dog", "the big ball"]
    (same,) = grounder.ground(encoded, [caption_query(parse(["a dog"])[0])])
    assert (alone[0].box, alone[0].start, alone[0].end) == (same.box, 0, 2)
    assert alone[0].score == pytest.approx(same.score, rel=1e-5)


def test_queries_of_several_sentences_are_grounded_in_order(grounder: ScanGrounder) -> None:
    (encoded,) = grounder.encode([grounder.extractor.extract(image())])
    queries = [caption_query(parsed) for parsed in parse([SENTENCE, "Running.", "A brown dog."])]
    together = grounder.ground(encoded, queries)
    assert [one.text for one in together] == ["a dog", "the big ball", "a brown dog"]
    apart = [one for query in queries for one in grounder.ground(encoded, [query])]
    for a, b in zip(together, apart, strict=True):
        assert (a.text, a.box, a.start, a.end) == (b.text, b.box, b.start, b.end)
        assert a.score == pytest.approx(b.score, rel=1e-5)


def test_a_batch_of_photographs_is_encoded_as_each_alone(grounder: ScanGrounder) -> None:
    regions = [grounder.extractor.extract(image(seed)) for seed in range(3)]
    regions[1] = regions[1].select(np.arange(7))  # padded in the batch
    for one, together in zip(regions, grounder.encode(regions), strict=True):
        (alone,) = grounder.encode([one])
        for a, b in zip(*(grounder.ground(e, phrase_queries(["a dog"])) for e in (together, alone)), strict=True):
            assert a.box == b.box
            assert a.score == pytest.approx(b.score, rel=1e-5)


def test_what_cannot_be_grounded_is_named(grounder: ScanGrounder) -> None:
    photo = Photo(image())
    (encoded,) = grounder.encode([photo.regions(grounder.extractor)])
    assert grounder.ground(encoded, []) == []
    assert grounder.ground(encoded, [caption_query(parse(["running and running"])[0])]) == []
    assert ground(photo, [], grounder) == []
    with pytest.raises(DeixisError, match="no noun phrase in 'running and running'"):
        ground(photo, "running and running", grounder)
    with pytest.raises(DeixisError, match=r"the phrase '\.\.\.' has no words"):
        ground(photo, ["a dog", "..."], grounder)


def test_image_path_and_regions_have_the_same_scores(grounder: ScanGrounder, tmp_path: Path) -> None:
    image().save(tmp_path / "x.png")
    regions = [grounder.extractor.extract(image(seed)) for seed in range(5)]
    sentences = ["a dog runs", "the big ball"]
    scores = grounder.scores(regions, sentences, batch=2)
    assert scores.shape == (5, 2)
    for photo in (Photo(image()), Photo("", regions=regions[0]), Photo(str(tmp_path / "x.png"))):
        evidence = grounder.evidence(photo.encoded(grounder), [Phrase(text, 0, 1) for text in sentences])
        assert evidence == pytest.approx(scores[0].tolist(), abs=1e-6)
    assert len(np.unique(scores.round(6))) == 10


def test_the_box_rule_of_a_trained_model_can_be_changed(grounder: ScanGrounder) -> None:
    photo, sentence = Photo(image()), "A dog and the big ball."
    regions = photo.regions(grounder.extractor)
    own = [one.box for one in ground(photo, sentence, grounder)]
    other = [one.box for one in ground(photo, sentence, grounder, "vote")]
    (attention,), _ = grounder.align(photo.encoded(grounder), parse([sentence]))
    assert own == [tuple(regions.boxes[attention[row].argmax()]) for row in (1, 5)]
    assert other == [tuple(regions.boxes[select_region(regions, attention[row], "vote")]) for row in (1, 5)]
    assert own != other
    assert [one.box for one in ground(photo, sentence, grounder)] == own  # it is not kept
    message = r"finds boxes by attention .* Its --place is attention or vote or heat, not alpha"
    with pytest.raises(DeixisError, match=message):
        ground(photo, sentence, grounder, "alpha")


def test_only_mean_cosines_rerank(grounder: ScanGrounder) -> None:
    for aggregation, reranks in (("mean", True), ("logsumexp", False)):
        network = ScanNet(replace(grounder.network.config, aggregation=aggregation))
        other = ScanGrounder(network, VOCABULARY, grounder.extractor.to_json(), "")
        assert (other.rerank_weights is not None) is reranks


def test_a_caption_is_checked_against_a_photograph(grounder: ScanGrounder) -> None:
    """There is a probability for each phrase and none for the whole caption."""
    photo, caption = Photo(image()), "A dog and the big ball."
    checked = check(photo, caption, grounder)
    found = ground(photo, caption, grounder)
    assert checked.caption.groundings == tuple(found)
    assert (checked.caption.words[1], checked.caption.width, checked.caption.model) == ("dog", 60, "test")
    assert checked.match is None
    assert checked.to_dict()["doubtful"] == [one.text for one in found if one.score < 0.5]


# Folders --------------------------------------------------------------------------------------------------------------


def test_a_folder_gives_the_same_grounder(grounder: ScanGrounder, tmp_path: Path) -> None:
    extractor = grounder.extractor.to_json()
    kept = ScanGrounder(grounder.network, VOCABULARY, extractor, "kept", Calibration(2.0), Placing("attention", 8))
    kept.save_pretrained(tmp_path, {"README.md": "a card"})
    again = ScanGrounder.from_pretrained(tmp_path, backend="torch")
    assert ground(Photo(image()), "a dog", again) == ground(Photo(image()), "a dog", kept)
    assert (again.placing, again.calibration, again.name) == (kept.placing, kept.calibration, "kept")
    assert again.hash != ""
    assert (tmp_path / "README.md").read_text() == "a card"


def test_a_folder_of_version_0_1_is_read(grounder: ScanGrounder, tmp_path: Path) -> None:
    grounder.save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"place": "attention"', '"place": "best"'))
    assert ScanGrounder.from_pretrained(tmp_path).placing == Placing("attention")


def test_another_kind_of_model_is_refused(grounder: ScanGrounder, tmp_path: Path) -> None:
    grounder.save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"matcher",', '"captioner",'))
    with pytest.raises(DeixisError, match="expected: matcher, format 1"):
        ScanGrounder.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(config.replace('"embed": 12', '"embed": 13'))
    with pytest.raises(DeixisError, match="not a matcher that this version can read"):
        ScanGrounder.from_pretrained(tmp_path)


def test_regions_of_another_extractor_are_refused(grounder: ScanGrounder) -> None:
    other = Regions(np.zeros((1, 4)), np.zeros((1, 16)), (9, 9), extractor="another")
    with pytest.raises(DeixisError, match="another"):
        grounder.encode([other])
    with pytest.raises(DeixisError, match="another"):
        grounder.scores([other], ["a dog"])
