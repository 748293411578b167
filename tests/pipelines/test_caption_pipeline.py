"""Caption pipeline: the chosen sentence, its warnings and its confidence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.language.queries import caption_query
from deixis.pipelines import checks
from deixis.pipelines.api import CaptionPipeline
from deixis.pipelines.caption import CaptionOptions, caption, reranks
from deixis.pipelines.checks import CHECKS, LOW_GAIN, LOW_MATCH, OUT_OF_DISTRIBUTION, run_checks, subject_warnings
from deixis.pipelines.models import Models, load_models
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CaptionResult, Warning
from deixis.pipelines.second_look import SecondLook
from deixis.types import AttentionTrace, Candidate, GroundedCaption
from deixis.vision.ood import OodDetector
from small_models import noise, save_noise, small_captioner

TRACE = AttentionTrace(np.zeros((2, 1, 1), np.float32), np.ones((2, 1), bool), np.zeros((1, 4)), (60, 40))
CANDIDATE = Candidate(("a", "dog"), -2.0, -1.0, TRACE)


def result(*warnings: Warning) -> CaptionResult:
    return CaptionResult("x.jpg", GroundedCaption(("a", "dog")), warnings, TRACE)


def grey() -> Photo:
    return Photo(Image.new("RGB", (64, 48), "grey"), "x.jpg")


# Notes and confidence -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("warnings", "note", "confident"),
    [
        ((), "", True),
        ((LOW_GAIN,), "Low confidence: the sentence would be about as likely for a blank image.", False),
        ((LOW_MATCH,), "Low confidence: the grounder's match score is low.", False),
        ((OUT_OF_DISTRIBUTION,), "Low confidence: the image is unlike the training photographs.", False),
        ((LOW_MATCH, LOW_GAIN), "Low confidence: the grounder's match score is low.", False),
    ],
)
def test_note_is_the_first_warning(warnings: tuple[Warning, ...], note: str, confident: bool) -> None:
    found = result(*warnings)
    assert (found.note, found.confident) == (note, confident)


@pytest.mark.parametrize(
    ("missing", "template_prob", "note", "confident"),
    [
        ("dog", 0.0, 'Low confidence: the sentence mentions "a dog", which neither', False),
        ("people", 0.0, 'Low confidence: the sentence mentions "people", which neither', False),
        ("dog", 0.7, 'Template caption; the generated sentence mentions "a dog", which neither', True),
        ("dog", 0.69, 'Low confidence: template caption; the generated sentence mentions "a dog"', False),
    ],
)
def test_note_names_a_missing_subject(missing: str, template_prob: float, note: str, confident: bool) -> None:
    found = result(*subject_warnings(SecondLook(CANDIDATE, missing, template_prob)))
    assert found.note.startswith(note)
    assert (found.confident, found.template) == (confident, template_prob > 0)


def test_no_warning_where_the_subject_was_found() -> None:
    assert subject_warnings(SecondLook(CANDIDATE)) == []


def out_of_distribution() -> Models:
    """A captioner for which every photograph is out of distribution."""
    captioner = small_captioner()
    features = captioner.network.config.features
    captioner.ood = OodDetector(np.zeros(features), np.zeros((0, features)), -1.0)
    return Models(captioner)


def test_out_of_distribution_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "second_look", lambda *_: SecondLook(CANDIDATE, "dog", 0.8))
    chosen, warnings = run_checks(CANDIDATE, grey(), out_of_distribution(), 9.0)
    assert [warning.code for warning in warnings] == ["out_of_distribution", "template_caption"]
    assert result(*warnings).note.startswith("Low confidence: the image is unlike")
    assert chosen is CANDIDATE


def test_json_of_a_result() -> None:
    record = result(LOW_GAIN).to_dict()
    assert GroundedCaption.from_json(record) == GroundedCaption(("a", "dog"))
    assert (record["sure"], record["plain"], record["note"][:14]) == (False, False, "Low confidence")
    assert record["warnings"] == [{"code": LOW_GAIN.code, "message": LOW_GAIN.message}]
    assert json.loads(json.dumps(record)) == record


@pytest.mark.parametrize(
    ("missing", "template_prob", "min_gain", "confident"),
    [
        ("", 0.0, -9, True),
        ("", 0.0, 9, False),
        ("dog", 0.0, -9, False),
        ("dog", 0.69, -9, False),
        ("dog", 0.7, 9, True),
    ],
)
def test_confidence_of_templates_and_of_generated_sentences(
    missing: str, template_prob: float, min_gain: float, confident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template depends on its class probability; a generated sentence on its gain and on its subject."""
    monkeypatch.setattr(checks, "MIN_GAIN", min_gain)
    monkeypatch.setattr(checks, "second_look", lambda chosen, *_: SecondLook(chosen, missing, template_prob))
    (found,) = caption([grey()], Models(small_captioner()))
    assert (found.confident, found.template) == (confident, bool(template_prob))
    assert any(f'"a {missing}"' in warning.message for warning in found.warnings) == bool(missing)
    assert found.caption.image == "x.jpg"


@pytest.mark.parametrize(("probability", "confident"), [(0.5, True), (0.49, False)])
def test_low_match_score_lowers_the_confidence(
    probability: float, confident: bool, shipped: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MIN_GAIN", -99)
    monkeypatch.setattr(shipped.captioner, "ood", None)  # a grey picture is out of distribution
    monkeypatch.setattr(checks, "second_look", lambda chosen, *_: SecondLook(chosen))
    monkeypatch.setattr(shipped.grounder, "caption_probability", lambda evidence: probability)
    (found,) = caption([grey()], shipped)
    assert found.confident is confident
    assert found.warnings == (() if confident else (LOW_MATCH,))


def test_a_grey_picture_is_out_of_distribution(shipped: Models) -> None:
    (found,) = caption([grey()], shipped)
    assert found.warnings[0] == OUT_OF_DISTRIBUTION


# Models together ----------------------------------------------------------------------------------------------------


def test_default_captioner_has_the_default_grounder_and_shares_its_regions(shipped: Models) -> None:
    assert shipped.grounder is not None
    assert shipped.extractor is shipped.grounder.extractor
    assert shipped.shares_regions
    assert reranks(shipped, CaptionOptions())
    assert shipped.name == "deixis-8k, placed by deixis-8k-grounder"
    photo = Photo(noise(0, (64, 48)))
    (found,) = caption([photo], shipped, CaptionOptions(checks=()))
    assert found.groundings
    assert found.caption.model == shipped.name
    assert found.caption.model_hash == f"{shipped.captioner.hash}+{shipped.grounder.hash}"
    again = Photo(noise(0, (64, 48)))
    query = caption_query(again.parse(found.caption.words))
    placed = shipped.grounder.ground(again.encoded(shipped.grounder), [query])
    assert [one.box for one in found.groundings] == [one.box for one in placed]
    assert [one.score for one in found.groundings] == pytest.approx([one.score for one in placed], abs=1e-5)


def test_without_a_grounder_nothing_is_reranked(loaded_once: Models) -> None:
    alone = load_models(grounder="none", device="cpu")
    assert alone.grounder is None
    assert alone.captioner is loaded_once.captioner
    assert not reranks(alone, CaptionOptions())
    assert (alone.name, alone.hash) == ("deixis-8k", alone.captioner.hash)


def test_one_photograph_is_captioned_as_several_are(tmp_path: Path) -> None:
    models = Models(small_captioner())
    file = save_noise(tmp_path / "photo.png")
    pipeline = CaptionPipeline(models)
    (found,) = caption([Photo(noise(), str(file))], models)
    assert pipeline(file).to_dict() == found.to_dict()
    assert pipeline(noise()).caption == replace(found.caption, image="")
    several = pipeline([file, save_noise(tmp_path / "other.png", 1)])
    assert [one.text for one in several] == [found.text, pipeline(noise(1)).text]


def test_checks_are_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check finds a fault; each one alone gives its own warning."""
    monkeypatch.setattr(checks, "matches", lambda *_: False)
    monkeypatch.setattr(checks, "MIN_GAIN", 99)
    monkeypatch.setattr(checks, "second_look", lambda chosen, *_: SecondLook(chosen, "dog"))
    models = out_of_distribution()
    codes = {one: [w.code for w in run_checks(CANDIDATE, grey(), models, 9.0, (one,))[1]] for one in CHECKS}
    assert codes == {
        "second-look": ["subject_not_found"],
        "ood": ["out_of_distribution"],
        "match": ["low_match"],
        "gain": ["low_information_gain"],
    }
    assert run_checks(CANDIDATE, grey(), models, 9.0, ())[1] == ()
