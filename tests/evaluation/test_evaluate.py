"""Evaluation of models on a split: predictions, scores and signatures."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis import DeixisError, GroundedCaption, Grounding, HeatMap, Regions
from deixis.data import Caption, Dataset, Entity, Sample
from deixis.data.scenes import make_scenes
from deixis.evaluation.evaluate import (
    attended_phrases,
    evaluate_captions,
    evaluate_grounder,
    grounded_phrases,
    runtime_mark,
)
from deixis.evaluation.files import write_evaluation
from deixis.evaluation.split import SplitPhotos
from deixis.language.parse import parser_name
from deixis.language.queries import Query
from deixis.language.vocabulary import Vocabulary
from deixis.localize.points import bicubic_maximum
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.metrics.bootstrap import paired_bootstrap
from deixis.metrics.evaluate import ClassCount, Evaluation, Options, evaluate
from deixis.metrics.formats import Mention, Predictions
from deixis.metrics.references import Reference, make_reference
from deixis.pipelines.caption import CaptionOptions, caption
from deixis.pipelines.models import Models
from deixis.types import Phrase
from small_models import small_captioner, small_matcher

pytestmark = pytest.mark.usefixtures("without_java")


class World:
    """Four made scenes, their photographs with regions, and a captioner of their words."""

    def __init__(self) -> None:
        self.samples: list[Sample] = list(make_scenes(4, 0, "test"))
        vocabulary = Vocabulary.build((c.tokens for s in self.samples for c in s.captions), 1)
        self.captioner = small_captioner(GenerationConfig(max_words=6), vocabulary, "tiny")
        extractor = self.captioner.extractor
        self.regions: dict[str, Regions] = {s.image_id: extractor.extract(s.open()) for s in self.samples}
        self.photos = SplitPhotos(self.samples, self.regions)

    @property
    def models(self) -> Models:
        return Models(self.captioner)

    def reference(self, samples: Sequence[Sample] | None = None) -> Reference:
        samples = self.samples if samples is None else samples
        return make_reference(Dataset("scenes", "test", tuple(samples)), lambda: samples)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


class CentreGrounder:
    """Grounds every phrase in the middle of the image."""

    name, hash, extractor, rerank_weights = "centre", "", None, None

    def encode(self, photos: Sequence[Any]) -> list[Any]:
        return list(photos)

    def ground(self, photo: Any, queries: Sequence[Query], place: Any = None) -> list[Grounding]:
        width, height = photo.size
        box = (width / 4, height / 4, 3 * width / 4, 3 * height / 4)
        return [Grounding(p.text, box, 1.0, p.start, p.end) for query in queries for p in query.phrases]

    def evidence(self, photo: Any, phrases: Sequence[Phrase], parses: Any = None) -> list[float]:
        return [1.0] * len(phrases)

    def caption_probability(self, evidence: float) -> None:
        return None


CENTRE: Any = CentreGrounder()


# Attention at the words of true captions ----------------------------------------------------------------------------


def test_force_decoding_a_caption_repeats_its_attention(world: World) -> None:
    """Forced to generate its own caption, the captioner attends as it did when it generated it."""
    regions = list(world.regions.values())
    generated = [beam[0] for beam in world.captioner.decode(regions)]
    forced = world.captioner.force_decode(regions, [[one.words] for one in generated])
    for own, (again,) in zip(generated, forced, strict=True):
        assert again.words == own.words
        assert again.logprob == pytest.approx(own.logprob, abs=1e-4)
        np.testing.assert_allclose(again.trace.attention, own.trace.attention, atol=1e-5)
        np.testing.assert_array_equal(again.trace.branch_mask, own.trace.branch_mask)


def test_phrases_are_answered_at_their_head_noun(world: World) -> None:
    answers = attended_phrases(world.models, world.reference(), world.photos, "attention")
    mention = next(each for each in answers if len(each.phrase.split()) == 2)  # "the dog": the head is the last word
    (answer,) = answers[mention]
    sample = next(sample for sample in world.samples if sample.image_id == mention.image)
    assert mention.caption is not None
    assert mention.start is not None
    caption = sample.captions[mention.caption]
    regions = world.regions[sample.image_id]
    ((candidate,),) = world.captioner.force_decode([regions], [[caption.tokens]])
    step = mention.start + 1
    best = candidate.trace.attention[step][candidate.trace.branch_mask[step]].argmax(-1)
    corners = regions.boxes[best]
    assert answer.box == (*corners[:, :2].min(0), *corners[:, 2:].max(0))
    assert answer.text.lower() == mention.phrase


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


# Captions -----------------------------------------------------------------------------------------------------------


def test_all_scores_of_a_captioner(world: World) -> None:
    found = evaluate_captions(world.models, world.reference(), world.photos)
    names = {score.name for score in found.evaluation.scores}
    assert {"CIDEr", "F1_all", "F1_loc", "F1_all_per_sent", "attention_accuracy", "accuracy", "pointing"} <= names
    assert set(found.predictions.captions) == {sample.image_id for sample in world.samples}


def test_the_scored_captions_are_those_of_the_pipeline(world: World) -> None:
    found = evaluate_captions(world.models, world.reference(), world.photos)
    photos = [world.photos[sample.image_id] for sample in world.samples]
    for sample, result in zip(world.samples, caption(photos, world.models), strict=True):
        assert found.results[sample.image_id].to_dict() == result.to_dict()
        assert found.predictions.captions[sample.image_id] == result.caption


def test_an_image_that_is_not_in_the_store_is_left_out(world: World) -> None:
    first, *others = world.samples
    store = {image: regions for image, regions in world.regions.items() if image != first.image_id}
    found = evaluate_captions(world.models, world.reference(), SplitPhotos(world.samples, store))
    assert set(found.predictions.captions) == {sample.image_id for sample in others}


def test_captions_are_kept_with_the_kinds_of_their_words(tmp_path: Path) -> None:
    groundings = (Grounding("a dog", (0, 0, 9, 9), 0.5, 0, 2), Grounding("hat", (0, 0, 9, 9), 0.5, 3, 4))
    nouns = (Grounding("dog", (0, 0, 9, 9), 0.5, 1, 2), Grounding("hat", (0, 0, 9, 9), 0.5, 3, 4))
    said = GroundedCaption(("a", "dog", "'s", "hat"), groundings, image="i", word_groundings=nouns)
    predictions = Predictions(Path("p"), "deixis", {"i": said})
    write_evaluation(tmp_path, predictions, Evaluation((), kinds={"i": {1: "partial"}}), {"model": "m"})
    record = json.loads((tmp_path / "captions.jsonl").read_text())
    assert [entry.get("kind") for entry in record["groundings"]] == ["partial", None]
    assert [entry.get("kind") for entry in record["word_groundings"]] == ["partial", None]
    assert GroundedCaption.from_json(record) == said


def test_written_captions_are_the_lines_of_the_caption_verb(world: World, tmp_path: Path) -> None:
    found = evaluate_captions(world.models, world.reference(), world.photos)
    write_evaluation(tmp_path, found.predictions, found.evaluation, {"model": "tiny"}, found.results)
    for line in (tmp_path / "captions.jsonl").read_text().splitlines():
        record = json.loads(line)
        for entry in (*record["groundings"], *record["word_groundings"]):
            entry.pop("kind", None)
        assert record == found.results[record["image"]].to_dict()
        assert {"sure", "note", "warnings", "model_hash", "schema"} <= set(record)


def test_a_grounder_gives_the_boxes_of_captions(world: World) -> None:
    """Words and their scores stay; boxes and their scores are the grounder's; true captions are not grounded."""
    reference = world.reference()
    own = evaluate_captions(world.models, reference, world.photos)
    placed = evaluate_captions(Models(world.captioner, CENTRE), reference, world.photos)
    old, new = ({score.name: score for score in found.evaluation.scores} for found in (own, placed))
    assert new["CIDEr"].value == old["CIDEr"].value
    assert {name for name in old if name not in new} >= {"attention_accuracy", "accuracy", "pointing"}
    assert placed.predictions.phrases == {}
    for image, grounded in placed.predictions.captions.items():
        width, height = world.regions[image].size
        assert grounded.words == own.predictions.captions[image].words
        assert {g.box for g in grounded.groundings} <= {(width / 4, height / 4, 3 * width / 4, 3 * height / 4)}
    assert any(grounded.groundings for grounded in placed.predictions.captions.values())


def test_a_captioner_with_and_without_a_grounder_can_be_compared(world: World) -> None:
    """The signatures say where boxes come from; the protocol of the scores is the same."""
    found = [
        {score.name: score for score in evaluate_captions(models, world.reference(), world.photos).evaluation.scores}
        for models in (world.models, Models(world.captioner, CENTRE))
    ]
    assert [scores["F1_loc"].signature.split("|")[-2:] for scores in found] == [
        ["place:attention", "words:own"],
        ["place:grounder", "words:head"],
    ]
    assert {"CIDEr", "F1_loc"} <= {one.name for one in paired_bootstrap(*found, n=10)}


def test_a_grounder_reranks_the_beam_before_it_grounds(world: World) -> None:
    generation = GenerationConfig(beam=2, rerank_beam=6, max_words=6)
    network, vocabulary = world.captioner.network, world.captioner.vocabulary
    wide = Captioner(network, vocabulary, world.captioner.extractor.to_json(), "wide", generation)
    models = Models(wide, small_matcher(vocabulary))
    sentences = {}
    for name, used, options in (
        ("alone", Models(wide), CaptionOptions()),
        ("reranked", models, CaptionOptions()),
        ("not reranked", models, CaptionOptions(rerank="none")),
        ("alone again", Models(wide), CaptionOptions()),
    ):
        found = evaluate_captions(used, world.reference(), world.photos, options)
        sentences[name] = [one.words for one in found.predictions.captions.values()]
    assert sentences["reranked"] != sentences["alone"]
    assert sentences["alone"] == sentences["not reranked"] == sentences["alone again"]


@pytest.mark.parametrize(
    ("options", "marks"),
    [
        (CaptionOptions(), ["place:attention", "words:own"]),
        (CaptionOptions(place="vote"), ["place:vote", "words:own"]),
        (CaptionOptions(rerank="none"), ["place:attention", "words:own", "rerank:none"]),
        (CaptionOptions(checks=()), ["place:attention", "words:own", "checks:none"]),
        (CaptionOptions(checks=("ood", "gain")), ["place:attention", "words:own", "checks:ood+gain"]),
    ],
)
def test_options_stand_in_every_signature(world: World, options: CaptionOptions, marks: list[str]) -> None:
    found = evaluate_captions(world.models, world.reference(world.samples[:1]), world.photos, options)
    for score in found.evaluation.scores:
        assert score.signature.split("|")[-len(marks) :] == marks
        assert f"|parser:{parser_name()}|" in score.signature


# Grounders ----------------------------------------------------------------------------------------------------------


def test_scores_of_a_phrase_grounder(world: World) -> None:
    reference = world.reference()
    predictions, result = evaluate_grounder(CENTRE, reference, world.photos)
    scores = {score.name: score.value for score in result.scores}
    assert len(predictions.phrases) == len(reference.phrases)
    assert all(score.signature.endswith(f"|parser:{parser_name()}") for score in result.scores)
    assert scores["pointing"] == pytest.approx(scores["baseline_image_centre"])
    assert 0 <= scores["attention_accuracy"] < 1


def test_signatures_name_torch_and_not_numpy(tmp_path: Path) -> None:
    small_matcher().save_pretrained(tmp_path)
    marks = [runtime_mark(ScanGrounder.from_pretrained(tmp_path, backend)) for backend in ("numpy", "torch")]
    assert marks == [f"parser:{parser_name()}", f"parser:{parser_name()}|backend:torch"]
    assert runtime_mark(Models(small_captioner())) == marks[1]


def test_heat_maps_are_replaced_by_their_maximum(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pointing scores the maximum of the heat map, which may lie outside the box."""
    heat = HeatMap(np.array([[0.1, 0.2, 0.1], [0.1, 0.3, 0.9]]), (90, 40))
    box, inside = (0, 0, 9, 9), (4.0, 4.0)
    assert bicubic_maximum(heat) not in (inside, heat.argmax())  # else this test shows nothing

    def ground(photo: Any, queries: Sequence[Query], place: Any = None) -> list[Grounding]:
        phrases = [phrase for query in queries for phrase in query.phrases]
        return [Grounding(p.text, box, 0.5, p.start, p.end, point=inside, heat=heat) for p in phrases]

    monkeypatch.setattr(CENTRE, "ground", ground)
    found = grounded_phrases(CENTRE, world.samples[:1], world.photos)
    write_evaluation(tmp_path, Predictions(Path("p"), "deixis", phrases=found), Evaluation(()), {"model": "m"})
    records = [json.loads(line) for line in (tmp_path / "phrases.jsonl").read_text().splitlines()]
    assert len(records) == len(found)
    for record, mention in zip(records, found, strict=True):
        assert "heat" not in record
        assert (record["image"], record["caption"], record["start"]) == (mention.image, mention.caption, mention.start)
        assert (tuple(record["point"]), tuple(record["heat_point"])) == (inside, bicubic_maximum(heat))


def test_a_matcher_is_also_scored_on_retrieval(world: World) -> None:
    matcher = small_matcher(world.captioner.vocabulary)
    _, result = evaluate_grounder(matcher, world.reference(), world.photos)
    scores = {score.name: score for score in result.scores}
    assert {"pointing", "attention_accuracy", "i2t_R@1", "t2i_median_rank"} <= set(scores)
    at_head = scores["attention_accuracy_head"]  # phrases of scenes have one noun
    assert at_head.signature.endswith("|words:head")
    assert matcher.placing.words == "nouns"
    _, attended = evaluate_grounder(matcher, world.reference(), world.photos, "attention")
    assert at_head.value == next(score.value for score in attended.scores if score.name == "attention_accuracy")
    assert scores["t2i_R@5"].value == 1.0  # there are four images
    assert scores["t2i_R@5"].signature.startswith("data:scenes|split:test|images:4")
    bare = world.reference([replace(sample, entities=()) for sample in world.samples])
    _, result = evaluate_grounder(matcher, bare, world.photos)
    assert {score.name[:4] for score in result.scores} == {"i2t_", "t2i_"}
    with pytest.raises(DeixisError, match="no phrases with boxes"):
        evaluate_grounder(CENTRE, bare, world.photos)


def test_a_box_rule_that_a_grounder_does_not_have_is_an_error(world: World) -> None:
    matcher = small_matcher(world.captioner.vocabulary)
    with pytest.raises(DeixisError, match="Its --place is attention or vote or heat, not alpha"):
        evaluate_grounder(matcher, world.reference(), world.photos, "alpha")


# Photographs of a split ---------------------------------------------------------------------------------------------


def test_regions_of_a_split_are_extracted_once_and_unreadable_photographs_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    extractor, opened = world.captioner.extractor, list[str]()
    broken = world.samples[1]

    def open_sample(self: Sample) -> Any:
        opened.append(self.image_id)
        if self is broken:
            raise DeixisError(f"{self.image_id} cannot be read.")
        return original(self)

    original = Sample.open
    monkeypatch.setattr(Sample, "open", open_sample)
    photos, skipped = SplitPhotos(world.samples), list[str]()
    assert list(photos.extract(extractor, skipped.append)) == [sample.image_id for sample in world.samples]
    assert skipped == [f"{broken.image_id} is skipped: {broken.image_id} cannot be read."]
    assert broken.image_id not in photos
    assert len(photos) == 3
    for image in photos:
        assert photos[image].regions(extractor) is photos[image].regions(extractor)
        assert photos[image] is not photos[image]  # encodings are not kept for a whole split
    assert opened == [sample.image_id for sample in world.samples]
