"""``deixis eval``: predictions, scores and pages of a trained captioner."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import deixis
from deixis import DeixisError, GroundedCaption, Grounding, HeatMap, Regions, cli
from deixis.commands.eval import rank_images, write
from deixis.data import Caption, Dataset, Entity, Sample
from deixis.data.scenes import make_scenes
from deixis.evaluation import evaluate_captioner, evaluate_finder, read_phrases
from deixis.language.vocabulary import Vocabulary
from deixis.metrics.evaluate import ClassCount, Evaluation, Options, evaluate
from deixis.metrics.formats import Mention, Predictions
from deixis.metrics.phrases import peak
from deixis.metrics.references import make_reference
from deixis.metrics.score import Score, load_scores, make_score
from deixis.models.aligner import Aligner
from deixis.models.captioner import Captioner, Style
from deixis.models.decoder import Decoder, DecoderConfig
from deixis.models.matcher import Matcher, MatcherConfig
from deixis.types import Phrase
from deixis.vision.extractor import named_extractor


def captioner(vocabulary: Vocabulary, features: int, extractor: dict[str, object], branches: int = 1) -> Captioner:
    torch.manual_seed(0)
    decoder = Decoder(
        DecoderConfig(len(vocabulary), features, words=8, hidden=12, attention=6, dropout=0.0, branches=branches)
    )
    return Captioner(decoder, vocabulary, extractor, "tiny", Style(max_words=6))


@pytest.fixture(scope="module")
def world() -> tuple[list[Sample], dict[str, Regions], Captioner]:
    samples = list(make_scenes(4, 0, "test"))
    eyes = named_extractor("tiny", "grid")
    regions = {sample.image_id: eyes.extract(sample.open()) for sample in samples}
    vocabulary = Vocabulary.build((c.tokens for s in samples for c in s.captions), 1)
    extractor = {"name": eyes.name, "description": eyes.describe()}
    return samples, regions, captioner(vocabulary, regions[samples[0].image_id].features.shape[1], extractor, 2)


def test_readings_are_the_places_of_the_words_it_would_say(
    world: tuple[list[Sample], dict[str, Regions], Captioner],
) -> None:
    """Made to say its own caption, it looks where it looked when it made it."""
    samples, regions, model = world
    seen = [regions[sample.image_id] for sample in samples]
    said = list(model.captions(seen))
    for caption, (places,) in zip(said, model.readings(seen, [[c.words] for c in said], batch=3), strict=True):
        assert [place.text for place in places] == list(caption.words)
        for grounding in caption.groundings:
            assert places[grounding.start].box == pytest.approx(grounding.box)
            assert places[grounding.start].score == pytest.approx(grounding.score, abs=1e-5)


def test_phrases_are_answered_at_their_head_noun(world: tuple[list[Sample], dict[str, Regions], Captioner]) -> None:
    samples, regions, model = world
    answers = read_phrases(model, samples[:1], regions)
    places = next(iter(model.readings([regions[samples[0].image_id]], [[c.tokens for c in samples[0].captions]])))
    named = [(n, p) for n, c in enumerate(samples[0].captions) for p in c.phrases if p.entity not in (None, "scene")]
    number, phrase = next((n, p) for n, p in named if len(p.text.split()) == 2)  # "the dog": its head is the last word
    (answer,) = answers[Mention(samples[0].image_id, phrase.text, number, phrase.start)]
    assert answer.box == places[number][phrase.end - 1].box
    assert answer.text == phrase.text


def test_attention_accuracy_by_hand() -> None:
    """Two object words of two classes, one answered rightly: half of the classes."""
    phrases = (Phrase("a dog", 0, 2, entity="1"), Phrase("a ball", 3, 5, entity="2"))
    caption = Caption("a dog and a ball", ("a", "dog", "and", "a", "ball"), phrases)
    boxes = {"1": [[0, 0, 20, 20]], "2": [[50, 50, 80, 80]]}
    entities = tuple(Entity(key, np.array(value, dtype=float)) for key, value in boxes.items())
    sample = Sample("i", (caption,), entities=entities, size=(100, 100))
    reference = make_reference(Dataset("own", "test", (sample,)), lambda: [sample])
    answers = {
        Mention("i", "a dog", 0, 0): (Grounding("a dog", (1, 1, 21, 21), 1.0),),
        Mention("i", "a ball", 0, 3): (Grounding("a ball", (0, 0, 30, 30), 1.0),),
    }
    predictions = Predictions(Path("p"), "deixis", phrases=answers)
    result = evaluate(predictions, reference, Options(metrics=("words", "phrases"), quiet=True))
    scores = {score.name: score for score in result.scores}
    assert scores["attention_accuracy"].value == pytest.approx(0.5)
    assert "average:class" in scores["attention_accuracy"].signature
    assert result.classes == (ClassCount("ball", 1, 1, 0), ClassCount("dog", 1, 1, 1))
    assert scores["accuracy"].value == pytest.approx(0.5)


def test_everything_is_scored(world: tuple[list[Sample], dict[str, Regions], Captioner]) -> None:
    samples, regions, model = world
    reference = make_reference(Dataset("scenes", "test", tuple(samples)), lambda: samples)
    predictions, result = evaluate_captioner(model, reference, regions)
    names = {score.name for score in result.scores}
    assert {"CIDEr", "F1_all", "F1_loc", "F1_all_per_sent", "attention_accuracy", "accuracy", "pointing"} <= names
    assert set(predictions.captions) == {sample.image_id for sample in samples}


def test_captions_are_kept_with_the_kinds_of_their_words(tmp_path: Path) -> None:
    groundings = (Grounding("a dog", (0, 0, 9, 9), 0.5, 0, 2), Grounding("hat", (0, 0, 9, 9), 0.5, 3, 4))
    said = GroundedCaption(("a", "dog", "'s", "hat"), groundings, image="i")
    predictions = Predictions(Path("p"), "deixis", {"i": said})
    write(tmp_path, predictions, Evaluation((), kinds={"i": {1: "partial"}}), {"model": "m"})
    record = json.loads((tmp_path / "captions.jsonl").read_text())
    assert [entry.get("kind") for entry in record["groundings"]] == ["partial", None]
    assert GroundedCaption.from_json(record) == said


def test_phrases_are_kept_with_the_points_that_were_scored_and_without_heat_maps(tmp_path: Path) -> None:
    heat = HeatMap(np.array([[0.1, 0.2, 0.1], [0.1, 0.3, 0.9]]), (90, 40))
    found = {Mention("i", "a dog", 0, 1): (Grounding("a dog", (0, 0, 9, 9), 0.5, heat=heat),)}
    write(tmp_path, Predictions(Path("p"), "deixis", phrases=found), Evaluation(()), {"model": "m"})
    record = json.loads((tmp_path / "phrases.jsonl").read_text())
    assert "heat" not in record
    assert (record["image"], record["caption"], record["start"]) == ("i", 0, 1)
    assert tuple(record["point"]) == peak(heat)
    assert peak(heat) != Grounding("a dog", (0, 0, 9, 9), 0.5, heat=heat).pointing()  # or this test shows nothing


class Centre:
    """Answers every phrase with the middle of the image."""

    name, eyes = "centre", None

    def ground(
        self, photo: Regions, wanted: str | Sequence[str], phrases: Sequence[Phrase] | None = None
    ) -> list[Grounding]:
        width, height = photo.size
        box = (width / 4, height / 4, 3 * width / 4, 3 * height / 4)
        return [Grounding(text, box, 1.0) for text in ([phrase.text for phrase in phrases] if phrases else wanted)]


def test_phrase_grounders_are_scored_too(world: tuple[list[Sample], dict[str, Regions], Captioner]) -> None:
    samples, regions, _ = world
    reference = make_reference(Dataset("scenes", "test", tuple(samples)), lambda: samples)
    predictions, result = evaluate_finder(Centre(), reference, regions)
    scores = {score.name: score.value for score in result.scores}
    assert len(predictions.phrases) == len(reference.phrases)
    assert scores["pointing"] == pytest.approx(scores["baseline_image_centre"])
    assert 0 <= scores["attention_accuracy"] < 1


def test_a_matcher_is_asked_which_image_belongs_to_which_caption(
    world: tuple[list[Sample], dict[str, Regions], Captioner],
) -> None:
    samples, regions, model = world
    aligner = matcher_like(model, regions[samples[0].image_id].features.shape[1])
    reference = make_reference(Dataset("scenes", "test", tuple(samples)), lambda: samples)
    _, result = evaluate_finder(aligner, reference, regions)
    scores = {score.name: score for score in result.scores}
    assert {"pointing", "attention_accuracy", "i2t_R@1", "t2i_median_rank"} <= set(scores)
    assert scores["t2i_R@5"].value == 1.0  # there are four images
    assert scores["t2i_R@5"].signature.startswith("data:scenes|split:test|images:4")
    bare = [replace(sample, entities=()) for sample in samples]
    _, result = evaluate_finder(aligner, make_reference(Dataset("scenes", "test", tuple(bare)), tuple), regions)
    assert {score.name[:4] for score in result.scores} == {"i2t_", "t2i_"}
    with pytest.raises(DeixisError, match="no phrases with boxes"):
        evaluate_finder(Centre(), make_reference(Dataset("scenes", "test", tuple(bare)), tuple), regions)


def test_a_finder_places_the_nouns_of_captions(world: tuple[list[Sample], dict[str, Regions], Captioner]) -> None:
    """Words and their scores stay; boxes and their scores are the finder's; true sentences are nobody's business."""
    samples, regions, model = world
    reference = make_reference(Dataset("scenes", "test", tuple(samples)), lambda: samples)
    own, before = evaluate_captioner(model, reference, regions)
    placed, after = evaluate_captioner(model, reference, regions, finder=Centre())
    old, new = ({score.name: score for score in result.scores} for result in (before, after))
    assert new["CIDEr"].value == old["CIDEr"].value
    assert new["F1_loc"].signature == old["F1_loc"].signature  # the protocol is the same, so the two can be compared
    assert {name for name in old if name not in new} >= {"attention_accuracy", "accuracy", "pointing"}
    assert placed.phrases == {}
    for image, caption in placed.captions.items():
        width, height = regions[image].size
        assert caption.words == own.captions[image].words
        assert {g.box for g in caption.groundings} <= {(width / 4, height / 4, 3 * width / 4, 3 * height / 4)}
    assert any(caption.groundings for caption in placed.captions.values())


def test_images_are_ordered_by_grounding_then_words() -> None:
    def score(name: str, values: list[float]) -> Score:
        items = np.array(values)
        stats = np.stack([np.nan_to_num(items), np.ones(4)], 1)
        return make_score(name, ("a", "b", "c", "d"), items, stats, "mean", "v")

    result = Evaluation((score("F1_all_per_sent", [0.5, 0, 0, float("nan")]), score("CIDEr", [0, 0.9, 0.2, 3])))
    captions = {image: GroundedCaption(("a",), image=image) for image in "abcd"}
    assert [image for image, _ in rank_images(result, captions)] == ["c", "b", "a"]
    assert rank_images(result, captions)[0][1] == "F1_all_per_sent 0.00, CIDEr 0.20"


def matcher_like(model: Captioner, features: int, extractor: str = "") -> Aligner:
    torch.manual_seed(0)
    matcher = Matcher(MatcherConfig(len(model.vocabulary), features, words=8, embed=8))
    eyes = model.eyes.to_json()
    return Aligner(matcher, model.vocabulary, {**eyes, "name": extractor or eyes["name"]}, "finds")


def test_the_verb(
    world: tuple[list[Sample], dict[str, Regions], Captioner], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one's own pairs there are no boxes: captions only. Photographs are looked at as there is no store."""
    samples, regions, model = world
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    lines = []
    for number, sample in enumerate(samples):
        sample.open().save(data / f"{number}.png")
        lines += [json.dumps({"image": f"{number}.png", "caption": c.text, "split": "test"}) for c in sample.captions]
    (data / "captions.jsonl").write_text("\n".join(lines) + "\n")
    model.save_pretrained(run)
    assert cli.run(["eval", str(run), "--data", str(data), "--json", "--shown", "1", "--quiet"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["supervision"] == "unknown"
    folder = run / "eval-test"
    stored, _ = load_scores(folder / "scores.json")
    assert stored["CIDEr"].value == pytest.approx(scores["scores"]["CIDEr"]["value"])
    records = map(json.loads, (folder / "captions.jsonl").read_text().splitlines())
    kept = [GroundedCaption.from_json(record) for record in records]
    assert {caption.image for caption in kept} == {"0.png", "1.png", "2.png", "3.png"}
    page = (folder / "index.html").read_text()
    assert page.count('<script type="text/plain" id="photo') == 2
    assert page.index("Worst") < page.index("Best")
    assert (folder / "scores.html").exists()
    assert cli.run(["report", str(run), "--quiet"]) == 0  # it knows from the evaluation where the photographs are
    assert (run / "report.html").read_text().count('<script type="text/plain" id="photo') == 4

    # the same words, with boxes of another model, beside the model's own
    width = regions[samples[0].image_id].features.shape[1]
    recipe = {"recipe.json": json.dumps({"supervision": "boxes"})}
    matcher_like(model, width).save_pretrained(tmp_path / "finder", recipe)
    order = ["eval", str(run), "--data", str(data), "--quiet", "--json", "--finder"]
    assert cli.run([*order, str(tmp_path / "finder"), "--place", "vote"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["finder"], told["place"]) == ("tiny, placed by finds", "finds", "vote")
    assert told["supervision"] == "unknown; finder: boxes"
    assert told["scores"]["CIDEr"]["value"] == scores["scores"]["CIDEr"]["value"]
    records = map(json.loads, (run / "eval-test-finder" / "captions.jsonl").read_text().splitlines())
    placed = [GroundedCaption.from_json(record) for record in records]
    assert [caption.words for caption in placed] == [caption.words for caption in kept]
    assert [g.box for caption in placed for g in caption.groundings] != [g.box for c in kept for g in c.groundings]
    matcher_like(model, width, "others").save_pretrained(tmp_path / "other")
    assert cli.run([*order, str(tmp_path / "other")]) == 1
    assert "finds sees regions of others, and tiny regions of" in capsys.readouterr().err.replace("\n", " ")
    order[1] = str(tmp_path / "finder")
    assert cli.run([*order, str(tmp_path / "finder")]) == 1
    assert "finds phrases itself" in capsys.readouterr().err


def test_a_finder_judges_the_beam_before_it_places_the_nouns(
    world: tuple[list[Sample], dict[str, Regions], Captioner],
) -> None:
    samples, regions, model = world
    wide = Captioner(
        model.decoder, model.vocabulary, model.eyes.to_json(), "wide", Style(beam=2, judged=6, max_words=6)
    )
    reference = make_reference(Dataset("scenes", "test", tuple(samples)), tuple)
    alone, _ = evaluate_captioner(wide, reference, regions)
    finder = matcher_like(wide, regions[samples[0].image_id].features.shape[1])
    placed, _ = evaluate_captioner(wide, reference, regions, finder=finder)
    judged = list(wide.captions([regions[image] for image in placed.captions]))
    assert wide.judge is not None
    assert [caption.words for caption in placed.captions.values()] == [caption.words for caption in judged]
    assert [c.words for c in placed.captions.values()] != [c.words for c in alone.captions.values()]
    again, _ = evaluate_captioner(wide, reference, regions)  # the judge does not stay
    assert again.captions == alone.captions


def test_a_finder_that_needs_a_grid_looks_at_the_photographs(
    world: tuple[list[Sample], dict[str, Regions], Captioner], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The models of the package, without a store: what they see of a photograph has the grid that the finder needs."""
    (tmp_path / "data").mkdir()
    world[0][0].open().save(tmp_path / "data" / "0.png")
    (tmp_path / "data" / "captions.jsonl").write_text(
        json.dumps({"image": "0.png", "caption": world[0][0].captions[0].text, "split": "test"}) + "\n"
    )
    order = ["eval", "deixis-8k", "--finder", "deixis-8k-grounder", "--data", str(tmp_path / "data")]
    assert cli.run([*order, "--out", str(tmp_path / "out"), "--device", "cpu", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finder"] == "deixis-8k-grounder"


def test_a_folder_without_a_model_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["eval", str(tmp_path), "--data", str(tmp_path)]) == 1
    assert "config.json" in capsys.readouterr().err


def test_models_are_imported_when_asked_for() -> None:
    assert deixis.Captioner is Captioner
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = deixis.nothing_of_the_kind
