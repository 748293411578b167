"""The ReIR grounder: phrases with their relations, model folders, its command, and calibration."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import DeixisError, cli
from deixis.boxes import contains
from deixis.calibration import Calibration, auc, fit
from deixis.language.parse import parse
from deixis.language.queries import caption_query, phrase_queries
from deixis.language.vocabulary import Vocabulary
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum, point_in_box
from deixis.methods.reir.model import ReirGrounder, alone
from deixis.methods.reir.network import Matched, ReirConfig, ReirNet
from deixis.pipelines.check import check
from deixis.pipelines.ground import ground
from deixis.pipelines.models import load_grounder
from deixis.pipelines.photo import Photo
from deixis.types import Grounding, Phrase, Regions
from deixis.vision.extractor import RegionExtractor, named_extractor
from deixis.vision.grid_extractor import describe

VOCABULARY = Vocabulary.build([["a", "man", "dog", "in", "red", "hat", "on", "the"]], minimum=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An untrained grounder, and a photograph."""
    root = tmp_path_factory.mktemp("grounder")
    extractor = named_extractor("tiny", "grid", 20)
    pixels = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(root / "photo.png")
    features = extractor.extract(pixels).features.shape[1]
    torch.manual_seed(0)
    sizes = {"words": 6, "width": 8, "hidden": 8, "names": "none"}
    network = ReirNet(ReirConfig(vocabulary=len(VOCABULARY), features=features, **sizes))
    calibration = Calibration(0.5, 0.25)
    ReirGrounder(network, VOCABULARY, extractor.to_json(), "a name", calibration).save_pretrained(root / "model")
    return root / "model", root / "photo.png"


def attending(network: ReirNet, weights: torch.Tensor) -> Callable[..., Matched]:
    """Return the network's forward function with these weights as coarse attention."""
    real = network.forward

    def forward(*args: object) -> Matched:
        matched = real(*args)
        return replace(matched, attention=weights.to(matched.attention.dtype).expand_as(matched.attention))

    return forward


def test_phrases_of_a_list_are_grounded_one_by_one(folder: tuple[Path, Path]) -> None:
    grounder, photo = ReirGrounder.from_pretrained(folder[0]), Photo(folder[1])
    both = ground(photo, ["A man in a red hat!", "the dog"], grounder)
    assert [one.text for one in both] == ["A man in a red hat!", "the dog"]
    assert [(one.start, one.end) for one in both] == [(0, 6), (0, 2)]
    (single,) = ground(Photo(str(folder[1])), ["the dog"], grounder)
    np.testing.assert_allclose(single.box, both[1].box, atol=1e-3)
    for one in both:
        x1, y1, x2, y2 = one.box
        assert 0 <= x1 < x2 <= 90
        assert 0 <= y1 < y2 <= 60
        assert 0 < one.score < 1
        assert one.heat is not None
        assert one.heat.size == (90, 60)
        assert one.point == point_in_box(one.heat, one.box, centre_of_maximum(one.heat))
        assert contains(one.box, one.point)
    assert ground(photo, [], grounder) == []
    assert grounder.ground(photo.encoded(grounder), []) == []


def test_the_heat_is_that_of_the_coarse_attention(folder: tuple[Path, Path]) -> None:
    """The point is the one of the box that is nearest to the attention."""
    grounder = ReirGrounder.from_pretrained(folder[0], backend="torch")
    (regions,) = grounder.encode([grounder.extractor.extract(Image.open(folder[1]))])
    (before,) = grounder.ground(regions, phrase_queries(["the dog"]))
    real, inside = grounder.network.forward, 0
    for best in range(len(regions)):
        weights = torch.zeros(len(regions))
        weights[best] = 1
        grounder.network.forward = attending(grounder.network, weights)
        (found,) = grounder.ground(regions, phrase_queries(["the dog"]))
        grounder.network.forward = real
        assert found.heat == heat_map(weights.double().numpy(), regions.boxes, regions.size)
        assert contains(regions.boxes[best], centre_of_maximum(found.heat))
        assert found.box == before.box
        assert contains(found.box, found.pointing())
        if contains(found.box, centre_of_maximum(found.heat)):
            inside += 1
            assert found.point == centre_of_maximum(found.heat)
    assert 0 < inside < len(regions)


def test_the_point_lies_in_the_box(folder: tuple[Path, Path]) -> None:
    """For random attention and random boxes, with both box rules."""
    grounder, rng = ReirGrounder.from_pretrained(folder[0], backend="torch"), np.random.default_rng(0)
    features = grounder.network.config.features
    queries = phrase_queries(["the dog", "a man in a red hat"])
    real, outside = grounder.network.forward, 0
    for _ in range(40):
        boxes = np.sort(rng.uniform(0, 80, (9, 2, 2)), axis=1).reshape(9, 4) + np.array([0, 0, 1, 1])
        grounder.network.forward = attending(grounder.network, torch.from_numpy(rng.dirichlet(np.ones(9))))
        values = rng.normal(size=(9, features)).astype(np.float16)
        regions = Regions(boxes.astype(np.float32), values, (100, 90), extractor=grounder.extractor.name)
        for place in (None, "attention", "vote"):
            for found in grounder.ground(regions, queries, place):
                assert found.point is not None
                assert contains(found.box, found.point)
                assert found.heat is not None
                outside += not contains(found.box, centre_of_maximum(found.heat))
        grounder.network.forward = real
    assert outside > 10


def test_the_phrases_of_a_caption_are_grounded_with_their_relations(folder: tuple[Path, Path]) -> None:
    grounder, photo = ReirGrounder.from_pretrained(folder[0], backend="torch"), Photo(folder[1])
    related = []
    real = grounder.network.forward
    grounder.network.forward = lambda *args: related.append(args[1].related) or real(*args)
    found = ground(photo, "A man in a red hat.", grounder)
    assert [(one.text, one.start, one.end) for one in found] == [("a man", 0, 2), ("a red hat", 3, 6)]
    assert related[0].tolist() == [[[False, True], [True, False]]]
    with pytest.raises(DeixisError, match="no noun phrase in 'quickly'"):
        ground(photo, "quickly", grounder)
    with pytest.raises(DeixisError, match="no words"):
        alone(", .")
    with pytest.raises(DeixisError, match="no words"):
        ground(photo, ["a man", ", ."], grounder)


def test_given_spans_of_a_caption_are_grounded(folder: tuple[Path, Path]) -> None:
    grounder, photo = ReirGrounder.from_pretrained(folder[0]), Photo(folder[1])
    (parsed,) = parse(["A man in a red hat."])
    query = caption_query(parsed, [Phrase("red", 4, 5), Phrase("A man", 0, 2)])
    found = grounder.ground(photo.encoded(grounder), [query])
    assert [(one.text, one.start, one.end) for one in found] == [("red", 4, 5), ("A man", 0, 2)]


def test_another_box_rule_can_be_asked_for(folder: tuple[Path, Path]) -> None:
    grounder, photo = ReirGrounder.from_pretrained(folder[0], backend="torch"), Photo(folder[1])
    asked = []
    real = grounder.network.forward
    grounder.network.forward = lambda *args: asked.append(args[3]) or real(*args)
    for place in (None, "attention", "vote"):
        assert len(ground(photo, ["the dog"], grounder, place)) == 1
    assert asked == [None, "attention", "vote"]
    with pytest.raises(DeixisError, match=r"a name finds boxes by attention .* attention or vote, not threshold"):
        ground(photo, ["the dog"], grounder, "threshold")


def test_evidence_of_a_text_is_that_of_its_score(folder: tuple[Path, Path]) -> None:
    """A caption has no probability as a whole, and captions are not reranked."""
    grounder, photo = ReirGrounder.from_pretrained(folder[0]), Photo(folder[1])
    texts = ["the dog", "a man in a red hat"]
    evidence = grounder.evidence(photo.encoded(grounder), [Phrase(text, 0, 1) for text in texts])
    scores = [one.score for one in ground(photo, texts, grounder)]
    assert [grounder.phrase_probability(one) for one in evidence] == pytest.approx(scores, abs=1e-5)
    assert scores == pytest.approx([1 / (1 + np.exp(-0.5 * one - 0.25)) for one in evidence], abs=1e-5)
    assert check(photo, "A man in a red hat.", grounder).match is None
    assert grounder.rerank_weights is None


def test_a_folder_gives_the_same_grounder(folder: tuple[Path, Path], tmp_path: Path) -> None:
    grounder = load_grounder(folder[0])
    assert isinstance(grounder, ReirGrounder)
    assert grounder.calibration == Calibration(0.5, 0.25)
    assert grounder.name == "a name"
    assert grounder.hash != ""
    grounder.save_pretrained(tmp_path)
    again = load_grounder(tmp_path)
    assert ground(Photo(folder[1]), ["the dog"], again) == ground(Photo(folder[1]), ["the dog"], grounder)


def test_a_folder_of_version_0_1_is_read(folder: tuple[Path, Path], tmp_path: Path) -> None:
    ReirGrounder.from_pretrained(folder[0]).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["refiner"]["place"] = "best"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ReirGrounder.from_pretrained(tmp_path).network.config.place == "attention"
    (tmp_path / "config.json").write_text(json.dumps({**config, "refiner": 5}))
    with pytest.raises(DeixisError, match="not a grounder that this version can read"):
        ReirGrounder.from_pretrained(tmp_path)


def test_other_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "kind": "captioner"}))
    with pytest.raises(DeixisError, match=r"writes captions; use deixis caption\. Expected here: a phrase grounder\."):
        load_grounder(tmp_path)
    with pytest.raises(DeixisError, match="not a folder"):
        load_grounder(tmp_path / "nothing")


def test_regions_of_another_extractor_are_refused(folder: tuple[Path, Path]) -> None:
    other = Regions(np.zeros((1, 4)), np.zeros((1, 16)), (9, 9), extractor="another")
    with pytest.raises(DeixisError, match="another"):
        ReirGrounder.from_pretrained(folder[0]).encode([other])


def test_the_verb(folder: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, photo = map(str, folder)
    drawn = tmp_path / "found.png"
    assert cli.run(["ground", photo, "a man", "the dog", "--model", model, "--json", "--draw", str(drawn)]) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["phrase"] for line in lines] == ["a man", "the dog"]
    assert {line["image"] for line in lines} == {photo}
    fields = {"image", "phrase", "box", "point", "score", "model", "heat", "model_hash", "schema"}
    assert set(lines[0]) == fields
    assert lines[0]["model_hash"] == ReirGrounder.from_pretrained(model).hash
    assert Image.open(drawn).size[0] >= 90
    assert cli.run(["ground", photo, "--caption", "a man in a red hat", "--model", model]) == 0
    said = capsys.readouterr()
    assert [line.split("  ")[0] for line in said.out.splitlines()] == ["phrase", "a man", "a red hat"]
    assert said.err == ""
    assert cli.run(["ground", photo, "a man", "--model", model, "--min-score", "1.1", "--json"]) == 0
    assert capsys.readouterr().out == ""


def test_the_verb_says_what_is_wrong(folder: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    model, photo = map(str, folder)
    assert cli.run(["ground", photo, "--model", model]) == 2
    assert "--caption" in capsys.readouterr().err
    assert cli.run(["ground", photo, "a dog", "--model", photo]) == 1
    assert "it is not a folder, and the package has" in capsys.readouterr().err
    assert cli.run(["ground", photo, "a dog", "--model", model, "--draw", "nowhere/x.png"]) == 1
    assert "nowhere/x.png cannot be written" in capsys.readouterr().err


# Calibration --------------------------------------------------------------------------------------------------------


def test_calibration_finds_the_curve_behind_the_numbers() -> None:
    random = np.random.default_rng(0)
    evidence = random.normal(2, 3, 40_000)
    chance = 1 / (1 + np.exp(-(0.8 * evidence - 1.5)))
    there = random.random(len(evidence)) < chance
    curve = fit(evidence[there], evidence[~there])
    assert curve.slope == pytest.approx(0.8, abs=0.05)
    # both sides are taken to be as likely as each other: the offset moves by the log of their ratio
    assert curve.offset == pytest.approx(-1.5 - np.log(there.sum() / (~there).sum()), abs=0.1)
    assert curve(-1e6) == 0
    assert curve(1e6) == 1


def test_calibration_where_there_is_little_to_learn() -> None:
    apart = fit([1.0, 2.0], [-1.0, -2.0])
    assert np.isfinite(apart.slope)
    assert apart(1.5) > 0.9 > 0.1 > apart(-1.5)
    assert fit([], [1.0]) == Calibration()
    assert fit([1.0, 1.0], [2.0, 3.0]) == Calibration()  # evidence against
    assert Calibration()(7.0) == 0.5


def test_auc_by_hand() -> None:
    assert auc([3, 2], [1, 0]) == 1
    assert auc([0], [1, 2]) == 0
    assert auc([1, 1], [1]) == 0.5
    assert auc([3, 1], [2, 0]) == 0.75
    with pytest.raises(ValueError, match="needs evidence"):
        auc([], [1])


def test_moved_boxes_are_pooled_where_there_is_a_grid(folder: tuple[Path, Path], tmp_path: Path) -> None:
    """A model that was trained with a grid extracts one for a fresh photograph; without one, scores say so."""
    plain = ReirGrounder.from_pretrained(folder[0], backend="torch")
    assert not plain.repools
    assert plain.signature == "moved:not_pooled"
    with torch.no_grad():
        plain.network.coarse.offset.bias.copy_(torch.tensor([2.0, 1.0, -2.0, -2.0]))
    gridded = ReirGrounder(plain.network, VOCABULARY, plain.extractor.to_json(), "gridded", grid=4)
    gridded.save_pretrained(tmp_path)
    gridded = ReirGrounder.from_pretrained(tmp_path)
    assert gridded.repools
    assert gridded.signature == ""
    photo = Photo(folder[1])
    (found,) = ground(photo, ["the dog"], gridded)
    assert photo.regions(gridded.extractor).grid is not None
    assert found.initial_box is not None
    boxes = [tuple(box) for box in photo.regions(gridded.extractor).boxes.tolist()]
    assert min(np.abs(np.subtract(found.initial_box, box)).max() for box in boxes) < 1e-3
    again = Grounding.from_json(found.to_json())
    assert again.initial_box == found.initial_box


def test_moved_boxes_are_pooled_from_maps_of_version_2(tmp_path: Path) -> None:
    """A model that was trained with maps extracts them for a fresh photograph and refuses regions without them."""
    pixels = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    extractor = RegionExtractor(describe("v2"), maps=True)
    features = extractor.extract(pixels).features.shape[1]
    torch.manual_seed(0)
    sizes = {"words": 6, "width": 8, "hidden": 8, "names": "none"}
    network = ReirNet(ReirConfig(vocabulary=len(VOCABULARY), features=features, **sizes))
    with torch.no_grad():
        network.coarse.offset.bias.copy_(torch.tensor([2.0, 1.0, -2.0, -2.0]))
    ReirGrounder(network, VOCABULARY, extractor.to_json(), "maps", maps=True).save_pretrained(tmp_path / "model")
    grounder = ReirGrounder.from_pretrained(tmp_path / "model")
    assert grounder.repools
    assert grounder.signature == ""
    photo = Photo(tmp_path / "photo.png")
    (found,) = ground(photo, ["the dog"], grounder)
    regions = photo.regions(grounder.extractor)
    assert regions.maps
    assert not grounder.extractor.accepts(replace(regions, maps=()))
    assert found.initial_box is not None
    plain = ReirGrounder(network, VOCABULARY, extractor.to_json(), "plain")
    assert plain.signature == "moved:not_pooled"
    kept = plain.find([regions], [[alone("the dog")]])[0][0]
    pooled = grounder.find([regions], [[alone("the dog")]])[0][0]
    np.testing.assert_allclose(kept.attention, pooled.attention, rtol=1e-5)  # the coarse stage is the same
