"""Options of the caption pipeline: each one changes what it names, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis import cli
from deixis.pipelines.caption import CaptionOptions, caption
from deixis.pipelines.checks import CHECKS
from deixis.pipelines.models import Models, load_models
from deixis.pipelines.photo import Photo
from deixis.pipelines.place import PlaceOption
from deixis.types import GroundedCaption, Grounding

pytest.importorskip("skimage", reason="scikit-image, whose photographs are captioned, is not installed")

from deixis.commands.demo import photograph

BOXES = {"box", "score", "parts", "point", "head"}
"""Fields of a grounding that depend on the box rule."""


RULES: tuple[PlaceOption, ...] = ("attention", "vote", "grounder", "heat")
"""Box rules of the shipped models."""


@pytest.fixture(scope="module")
def results(shipped: Models) -> dict[str, dict[str, Any]]:
    """The JSON of one photograph by every rule for boxes."""
    found = {}
    for place in RULES:
        (result,) = caption([photo()], shipped, CaptionOptions(place=place))
        found[place] = result.to_dict()
    (result,) = caption([photo()], shipped)
    return found | {"default": result.to_dict()}


def photo() -> Photo:
    """A photograph whose caption is no template, and which has several noun phrases."""
    return Photo(photograph("astronaut"))


def boxes(record: dict[str, Any]) -> list[tuple[float, ...]]:
    return [tuple(one["box"]) for one in record["groundings"]]


def without_boxes(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what a rule for boxes may change: boxes and scores, and which single words have any."""
    phrases = [{name: one[name] for name in one if name not in BOXES} for one in record["groundings"]]
    return {name: record[name] for name in record if name != "word_groundings"} | {"groundings": phrases}


# Place --------------------------------------------------------------------------------------------------------------


def test_place_changes_boxes_and_nothing_else(results: dict[str, dict[str, Any]]) -> None:
    assert len(results["default"]["groundings"]) > 1
    for place, record in results.items():
        assert without_boxes(record) == without_boxes(results["default"]), place


def test_the_default_is_the_rule_of_the_grounder(results: dict[str, dict[str, Any]]) -> None:
    assert results["default"] == results["grounder"] == results["heat"]


def test_the_rules_differ(results: dict[str, dict[str, Any]]) -> None:
    assert len({tuple(boxes(results[rule])) for rule in ("attention", "vote", "heat")}) > 1
    assert boxes(results["attention"]) != boxes(results["heat"])


def test_scores_of_a_grounder_do_not_depend_on_its_box_rule(results: dict[str, dict[str, Any]]) -> None:
    scores = [[one["score"] for one in results[rule]["groundings"]] for rule in ("grounder", "heat")]
    assert scores[0] == scores[1]


def test_boxes_by_attention_come_from_the_attention(shipped: Models) -> None:
    (result,) = caption([photo()], shipped, CaptionOptions(place="attention"))
    trace = result.trace
    for one in result.groundings:
        assert one.head is not None
        best = trace.boxes[trace.attention[one.head][trace.branch_mask[one.head]].argmax(-1)]
        assert one.box == pytest.approx((*best[:, :2].min(0), *best[:, 2:].max(0)))


# Rerank -------------------------------------------------------------------------------------------------------------


def test_rerank_none_takes_the_captioners_own_sentence(shipped: Models) -> None:
    """The sentence of a captioner alone, with boxes of the grounder."""
    (reranked,), (own,) = (caption([photo()], shipped, CaptionOptions(rerank=rule)) for rule in ("grounder", "none"))  # type: ignore[arg-type]
    (alone,) = caption([photo()], Models(shipped.captioner))
    assert own.caption.words == alone.caption.words != reranked.caption.words
    assert own.caption.logprob == pytest.approx(alone.caption.logprob, abs=1e-4)
    assert own.caption.model == reranked.caption.model == shipped.name
    assert all(one.point is not None for one in own.groundings)


# Checks -------------------------------------------------------------------------------------------------------------


def test_check_none_changes_the_warnings_and_nothing_else(shipped: Models) -> None:
    """Of a photograph that is unlike the training photographs."""
    rocket = photograph("rocket")
    (result,), (unchecked,) = (
        caption([Photo(rocket)], shipped, CaptionOptions(checks=checks)) for checks in (CHECKS, ())
    )
    checked, plain = result.to_dict(), unchecked.to_dict()
    assert checked["warnings"]
    assert (plain["warnings"], plain["note"], plain["sure"]) == ([], "", True)
    changed = {"warnings", "note", "sure"}
    assert {n: plain[n] for n in plain if n not in changed} == {n: checked[n] for n in checked if n not in changed}


def test_check_none_keeps_the_generated_sentence(shipped: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second look there is no template; here its subject is said to be missing."""
    monkeypatch.setattr("deixis.pipelines.second_look.is_missing", lambda *_: True)
    (checked,), (unchecked,) = (
        caption([Photo(photograph("chelsea"))], shipped, options)
        for options in (CaptionOptions(), CaptionOptions(checks=()))
    )
    assert checked.template
    assert not unchecked.template
    assert unchecked.caption.logprob is not None
    assert checked.text != unchecked.text


def test_heat_maps_are_kept_on_request_and_change_nothing(shipped: Models, results: dict[str, dict[str, Any]]) -> None:
    (found,) = caption([photo()], shipped, CaptionOptions(heat=True))
    assert all(one.heat is not None for one in found.groundings)
    record = found.to_dict()
    for one in record["groundings"]:
        del one["heat"]
    assert record == results["default"]


# Command line -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (["--rerank", "none"], CaptionOptions(rerank="none")),
        (["--check", "none"], CaptionOptions(checks=())),
        *((["--place", place], CaptionOptions(place=place)) for place in RULES),
    ],
)
def test_the_command_line_passes_options_on(
    loaded_once: Models, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], options: CaptionOptions
) -> None:
    file = tmp_path / "astronaut.png"
    photograph("astronaut").save(file)
    assert cli.run(["caption", str(file), *args, "--json", "--quiet", "--device", "cpu"]) == 0
    (expected,) = caption([Photo(str(file))], loaded_once, options)
    assert json.loads(capsys.readouterr().out) == expected.to_dict()


def test_grounder_none_is_a_captioner_alone(
    loaded_once: Models, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "astronaut.png"
    photograph("astronaut").save(file)
    assert cli.run(["caption", str(file), "--grounder", "none", "--json", "--quiet", "--device", "cpu"]) == 0
    record = json.loads(capsys.readouterr().out)
    (expected,) = caption([Photo(str(file))], load_models(grounder="none", device="cpu"))
    assert record == expected.to_dict()
    assert record["model"] == "deixis-base"
    assert "low_match" not in [warning["code"] for warning in record["warnings"]]


# Noun phrases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", RULES)
def test_groundings_are_noun_phrases_with_points_in_their_boxes(results: dict[str, dict[str, Any]], place: str) -> None:
    found = GroundedCaption.from_json(results[place])
    assert any(one.end - one.start > 1 for one in found.groundings)
    covered: set[int] = set()
    for one in found.groundings:
        assert one.text == " ".join(found.words[one.start : one.end])
        assert one.text.split()[0] not in ("a", "an", "the", "his", "her")
        assert not covered & set(range(one.start, one.end))  # a word belongs to one phrase
        covered |= set(range(one.start, one.end))
        assert one.head is not None
        assert one.start <= one.head < one.end
        assert_point_inside(one, found)


@pytest.mark.parametrize("place", RULES)
def test_word_groundings_are_single_nouns_and_under_attention_verbs(
    results: dict[str, dict[str, Any]], place: str
) -> None:
    found = GroundedCaption.from_json(results[place])
    assert found.word_groundings
    heads = {one.head: one for one in found.groundings}
    for word in found.word_groundings:
        assert word.end - word.start == 1
        assert word.text == found.words[word.start]
        assert_point_inside(word, found)
        if word.start in heads:
            assert word.box == heads[word.start].box
    assert set(heads) <= {word.start for word in found.word_groundings}
    kinds = {word.pos for word in found.word_groundings}
    assert kinds == ({"NOUN", "VERB"} if place in ("attention", "vote") else {"NOUN"})
    assert all(word.pos == "NOUN" for word in found.nouns())


def assert_point_inside(one: Grounding, found: GroundedCaption) -> None:
    (x1, y1, x2, y2), (x, y) = one.box, one.pointing()
    assert 0 <= x1 <= x <= x2 <= found.width
    assert 0 <= y1 <= y <= y2 <= found.height
    assert np.isfinite(one.score)


def test_a_compound_noun_is_one_span_with_one_box(shipped: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "a man climbs a rock wall": two phrases; "rock" has no box of its own by a grounder."""
    words = ("a", "man", "climbs", "a", "rock", "wall")
    one = photo()
    forced = shipped.captioner.force_decode([one.regions(shipped.extractor)], [[words]])
    monkeypatch.setattr(shipped.captioner, "decode", lambda *_: forced)
    options = CaptionOptions(checks=())
    (found,) = caption([one], shipped, options)
    assert [(g.text, g.start, g.end, g.head) for g in found.groundings] == [("man", 1, 2, 1), ("rock wall", 4, 6, 5)]
    assert [g.text for g in found.caption.word_groundings] == ["man", "wall"]
    (found,) = caption([one], shipped, CaptionOptions(checks=(), place="attention"))
    assert [(g.text, g.start, g.end) for g in found.groundings] == [("man", 1, 2), ("rock wall", 4, 6)]
    assert [(g.text, g.pos) for g in found.caption.word_groundings] == [
        ("man", "NOUN"),
        ("climbs", "VERB"),
        ("rock", "NOUN"),
        ("wall", "NOUN"),
    ]
