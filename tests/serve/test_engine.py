"""The engine: batches, bounds, what happens to bad photographs and at the end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pytest
from serving import Models, png

from deixis import DeixisError, GroundedCaption, Regions
from deixis.images import load_image
from deixis.localize.heat import heat_map
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.model import Captioner
from deixis.pipelines.caption import CaptionOptions, caption
from deixis.pipelines.check import check
from deixis.pipelines.information_gain import MIN_GAIN, information_gains
from deixis.pipelines.models import Models as Pipeline
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CaptionResult
from deixis.serve.engine import BusyError, CaptionAsk, CheckAsk, Engine, GroundAsk, Limits, caption_json, named
from deixis.types import AttentionTrace, Candidate, Grounding
from small_models import small_fusion


class Slow(Captioner):
    """A captioner that waits for an event, and records how many images came together."""

    def __init__(self, other: Captioner) -> None:
        super().__init__(other.network, other.vocabulary, other.extractor.to_json(), "slow", other.generation)
        self.go, self.sizes = threading.Event(), list[int]()

    def decode(self, regions: Sequence[Regions], width: int | None = None) -> list[list[Candidate]]:
        self.sizes.append(len(regions))
        assert self.go.wait(30)
        return super().decode(regions, width)


def captioned(photo: bytes, *models: Captioner | ScanGrounder, heat: bool = False) -> CaptionResult:
    """The result of the caption pipeline."""
    (found,) = caption([Photo(load_image(photo), "")], Pipeline(*models), CaptionOptions(heat=heat))  # type: ignore[arg-type]
    return found


def test_the_answer_is_that_of_the_pipeline(models: Models) -> None:
    engine = Engine([models.captioner])
    answer = engine.ask(CaptionAsk(png(), "tiny")).result(30)
    engine.close()
    assert answer == captioned(png(), models.captioner).to_dict()


def test_the_default_grounder_grounds_for_the_default_captioner_and_for_no_other(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deixis.serve.engine.DEFAULT_CAPTIONER", models.captioner.name)
    monkeypatch.setattr("deixis.serve.engine.DEFAULT_GROUNDER", models.grounder.name)
    engine = Engine([models.captioner, models.single, models.grounder])
    asked = [engine.ask(CaptionAsk(png(), one.name, steps=True)) for one in (models.captioner, models.single)]
    placed, own = (GroundedCaption.from_json(one.result(30)) for one in asked)
    engine.close()
    found = captioned(png(), models.captioner, models.grounder, heat=True)
    alone = captioned(png(), models.captioner)
    assert [one.box for one in found.groundings] != [one.box for one in alone.groundings]
    assert [(one.box, one.score) for one in placed.groundings] == [(one.box, one.score) for one in found.groundings]
    single = captioned(png(), models.single)
    assert [one.box for one in own.groundings] == [one.box for one in single.groundings]
    assert (placed.model, own.model) == ("tiny, placed by grounder", "single")
    for one, other in zip(placed.groundings, found.groundings, strict=True):  # the heat is the grounder's too
        assert one.heat is not None
        assert other.heat is not None
        np.testing.assert_array_equal(one.heat.grid, other.heat.grid.round(3))


@pytest.mark.parametrize("min_gain", [-1.0, 1.0])
def test_low_information_gain_lowers_the_confidence(
    models: Models, min_gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The captioner generates the same sentence for every photograph, so that its gain is about 0."""
    monkeypatch.setattr("deixis.pipelines.checks.MIN_GAIN", min_gain)
    engine = Engine([models.captioner])
    answer = engine.ask(CaptionAsk(png(), "tiny")).result(30)
    engine.close()
    regions = Photo(load_image(png())).regions(models.captioner.extractor)
    ((candidate,),) = models.captioner.decode([regions])
    (gain,) = information_gains([candidate], models.captioner, Pipeline(models.captioner).blank)
    assert abs(gain) < MIN_GAIN
    assert answer["sure"] == (gain >= min_gain)
    assert [one["code"] for one in answer["warnings"]] == ([] if answer["sure"] else ["low_information_gain"])


def test_requests_that_wait_are_answered_together_each_with_its_own(models: Models) -> None:
    slow = Slow(models.captioner)
    engine = Engine([slow], Limits(batch=3, gather=1.0))
    sizes = [(60, 40), (33, 90), (200, 50), (41, 41), (42, 41), (43, 41)]
    first = engine.ask(CaptionAsk(png(0, sizes[0]), "slow"))
    while not slow.sizes:
        threading.Event().wait(0.005)
    others = [engine.ask(CaptionAsk(png(0, size), "slow")) for size in sizes[1:]]
    slow.go.set()
    said = [GroundedCaption.from_json(one.result(30)) for one in (first, *others)]
    engine.close()
    assert slow.sizes == [1, 3, 2]
    assert [(one.width, one.height) for one in said] == sizes
    for one, size in zip(said, sizes, strict=True):
        alone = captioned(png(0, size), models.captioner).caption
        assert one.words == alone.words == ("a", "dog", "runs", "after", "a", "red", "ball")
        assert [g.box for g in one.groundings] == [g.box for g in alone.groundings]
    assert (engine.batches, engine.answered) == (3, 6)


def test_a_bad_photograph_harms_no_other(models: Models) -> None:
    slow = Slow(models.captioner)
    slow.go.set()
    engine = Engine([slow], Limits(gather=1.0, batch=3))
    asked = [engine.ask(CaptionAsk(photo, "slow")) for photo in (png(1), b"no image", png(2))]
    assert asked[0].result(30)["words"]
    with pytest.raises(DeixisError, match="cannot be read as an image"):
        asked[1].result(30)
    assert asked[2].result(30)["words"]
    engine.close()
    assert slow.sizes == [2]


def test_a_model_that_fails_is_told_to_all_who_asked_and_the_engine_goes_on(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine([models.captioner])
    with monkeypatch.context() as broken:
        broken.setattr(Captioner, "decode", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.ask(CaptionAsk(png(), "tiny")).result(30)
    assert engine.ask(CaptionAsk(png(), "tiny")).result(30)["words"]
    engine.close()


def test_places_are_bounded_and_come_free_again(models: Models) -> None:
    engine = Engine([models.captioner], Limits(waiting=2))
    with engine.place():
        with engine.place(), pytest.raises(BusyError) as busy, engine.place():
            pass
        assert busy.value.retry >= 1
        with engine.place():
            assert engine.under_way == 2
    assert engine.under_way == 0
    engine.close()


def test_what_was_accepted_is_answered_at_the_end_and_nothing_after_it(models: Models) -> None:
    slow = Slow(models.captioner)
    engine = Engine([slow], Limits(batch=2))
    asked = [engine.ask(CaptionAsk(png(seed), "slow")) for seed in range(7)]
    closing = threading.Thread(target=engine.close)
    closing.start()
    while engine.open:
        threading.Event().wait(0.005)
    with pytest.raises(BusyError):
        engine.ask(CaptionAsk(png(), "slow"))
    with pytest.raises(BusyError), engine.place():
        pass
    slow.go.set()
    closing.join(30)
    assert [bool(one.result(0)["words"]) for one in asked] == [True] * 7


def test_who_has_gone_is_not_worked_for(models: Models) -> None:
    slow = Slow(models.captioner)
    engine = Engine([slow])
    first = engine.ask(CaptionAsk(png(0), "slow"))
    while not slow.sizes:
        threading.Event().wait(0.005)
    gone: Future[object] = engine.ask(CaptionAsk(png(1), "slow"))
    assert gone.cancel()
    slow.go.set()
    assert first.result(30)
    engine.close()
    assert slow.sizes == [1]


def test_a_photograph_is_opened_once_for_all_models_with_equal_extractors(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine([models.captioner, models.single, models.grounder], Limits(kept=2))
    opened: list[bytes] = []

    def load(photo: bytes, *args: object) -> object:
        opened.append(photo)
        return load_image(photo)

    monkeypatch.setattr("deixis.serve.engine.load_image", load)

    def ask(seed: int) -> None:
        engine.ask(CaptionAsk(png(seed), "tiny")).result(30)
        engine.ask(CaptionAsk(png(seed), "single")).result(30)
        engine.ask(GroundAsk(png(seed), "grounder", ("a dog",))).result(30)

    for seed in (0, 1, 0, 2):  # the third pushes out the one that was asked for longest ago
        ask(seed)
    assert opened == [png(0), png(1), png(2)]
    ask(0)
    assert len(opened) == 3
    ask(1)
    assert opened[3:] == [png(1)]
    engine.close()


def test_steps_have_the_attention_of_each_branch_by_hand() -> None:
    boxes = np.array([[0, 0, 32, 32], [32, 0, 64, 32]], dtype=np.float32)
    attention = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.25, 0.75]]], dtype=np.float32)
    trace = AttentionTrace(attention, np.array([[True, False], [True, True]]), boxes, (64, 32))
    caption = GroundedCaption(("a", "dog"), (Grounding("dog", (0, 0, 64, 32), 0.6, 1, 2),), width=64, height=32)
    result = CaptionResult("", caption, (), trace)
    record = caption_json(result, steps=True)
    assert [step["word"] for step in record["steps"]] == ["a", "dog"]
    first, second = record["steps"][0]["branches"]
    assert (first["voted"], second["voted"]) == (True, False)
    assert first["boxes"][0] == {"box": [0, 0, 32, 32], "weight": 0.9}
    assert second["boxes"][0] == {"box": [32, 0, 64, 32], "weight": 0.8}
    grid = np.array(first["heat"]["grid"])
    assert grid.shape == (16, 16)
    assert np.allclose(grid[:, :8], 0.9)
    assert np.allclose(grid[:, 8:], 0.1)
    heat = np.array(record["groundings"][0]["heat"]["grid"])  # both branches predicted "dog": their mean attention
    assert np.allclose(heat, heat_map(np.array([0.375, 0.625]), boxes, (64, 32), 16).grid)
    assert "steps" not in caption_json(result, steps=False)


def test_a_model_that_reads_pixels_checks_a_whole_caption_too() -> None:
    text = "A man riding a red bike."
    fusion = small_fusion([text], "p")
    engine = Engine([fusion])
    answer = engine.ask(CheckAsk(png(), "p", text)).result(30)
    found = engine.ask(GroundAsk(png(), "p", ("a man",))).result(30)
    engine.close()
    alone = check(Photo(load_image(png()), ""), text, fusion)
    assert answer == {**alone.to_dict(), "threshold": 0.5}
    assert 0 < answer["match"] < 1
    assert (found["width"], found["height"]) == (60, 40)
    assert found["groundings"][0]["found"] == (found["groundings"][0]["score"] >= 0.5)


def test_models_of_one_name_are_told_apart(models: Models) -> None:
    assert list(named([models.captioner, models.grounder, models.captioner])) == ["tiny", "grounder", "tiny-2"]


def test_no_file_is_opened_for_a_request(models: Models) -> None:
    engine = Engine([models.captioner, models.grounder])
    engine.warm()
    watching, opened = threading.Event(), list[str]()

    def watch(event: str, args: tuple[object, ...]) -> None:
        if watching.is_set() and event in ("open", "sqlite3.connect", "os.mkdir", "os.listdir", "subprocess.Popen"):
            opened.append(f"{event} {args[0]}")

    sys.addaudithook(watch)
    watching.set()
    try:
        engine.ask(CaptionAsk(png(8), "tiny", steps=True)).result(30)
        engine.ask(GroundAsk(png(8), "grounder", ("../../etc/passwd", "/etc/passwd"))).result(30)
        engine.ask(CheckAsk(png(8), "grounder", "a dog runs after a ball in a file:///etc/passwd")).result(30)
    finally:
        watching.clear()
    engine.close()
    assert opened == []
