"""Results in Python: what they print, show, save and convert to, and what a pipeline returns for its input."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.pipelines import caption as caption_module
from deixis.pipelines.api import CaptionPipeline, GroundPipeline
from deixis.pipelines.caption import BATCH
from deixis.pipelines.check import check
from deixis.pipelines.checks import LOW_GAIN
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CaptionResult, CheckResult, GroundResult
from deixis.types import AttentionTrace, GroundedCaption, Grounding
from small_models import noise, save_noise, small_captioner, small_fusion

TRACE = AttentionTrace(np.zeros((4, 1, 1), np.float32), np.ones((4, 1), bool), np.zeros((1, 4)), (60, 40))
GROUNDINGS = (
    Grounding("man", (1, 1, 30.4, 30), 0.534, 1, 2, point=(3.0, 3.0)),
    Grounding("red hat", (5, 5, 40, 30), 0.3, 3, 5, point=(6.0, 6.0)),
)
CAPTION = GroundedCaption(
    ("a", "man", "and", "red", "hat"), GROUNDINGS, -3.0, "x.png", 60, 40, "m", "A man and <red> hat."
)
TEXT = "man 0.53 [1, 1, 30, 30]; red hat 0.30 [5, 5, 40, 30]"


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Any]:
    """A result of each kind."""
    file = str(save_noise(tmp_path / "x.png"))
    return {
        "caption": CaptionResult(file, CAPTION, (), TRACE),
        "ground": GroundResult(file, GROUNDINGS, "m", "h"),
        "check": CheckResult(file, CAPTION, 0.25),
    }


KINDS = ["caption", "ground", "check"]


# One result ---------------------------------------------------------------------------------------------------------


def test_print_is_one_line() -> None:
    assert str(CaptionResult("x", CAPTION, (), TRACE)) == "A man and <red> hat."
    assert str(CaptionResult("x", CAPTION, (LOW_GAIN,), TRACE)) == "A man and <red> hat. (low confidence)"
    assert str(GroundResult("x", GROUNDINGS, "m", "h")) == TEXT
    assert str(CheckResult("x", CAPTION, 0.25)) == f"match 0.25; {TEXT}"
    assert str(CheckResult("x", CAPTION, None)) == TEXT


@pytest.mark.parametrize("kind", KINDS)
def test_repr_is_short_and_has_no_arrays(results: dict[str, Any], kind: str) -> None:
    text = repr(results[kind])
    assert "\n" not in text
    assert len(text) < 200
    assert "array" not in text
    assert "red hat 0.30 [5, 5, 40, 30]" in text


def test_a_caption_result_has_the_parts_of_its_caption(results: dict[str, Any]) -> None:
    found = results["caption"]
    assert (found.text, found.groundings) == ("A man and <red> hat.", GROUNDINGS)
    assert (found.confident, found.template, found.note) == (True, False, "")
    assert [one.text for one in found.absent] == ["red hat"]


def test_a_ground_result_is_a_sequence(results: dict[str, Any]) -> None:
    found = results["ground"]
    assert len(found) == 2
    assert list(found) == list(GROUNDINGS)
    assert found[1].text == "red hat"
    assert found[:1] == GROUNDINGS[:1]
    assert GROUNDINGS[0] in found


def test_a_check_result_names_absent_phrases(results: dict[str, Any]) -> None:
    found = results["check"]
    assert [one.text for one in found.absent] == ["red hat"]
    assert found.to_dict()["doubtful"] == ["red hat"]


@pytest.mark.parametrize("kind", KINDS)
def test_to_dict_is_json(results: dict[str, Any], kind: str) -> None:
    record = results[kind].to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["schema"] == 3
    assert {"model", "model_hash", "groundings"} <= set(record)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".svg"])
def test_save_writes_the_photograph_with_boxes(results: dict[str, Any], kind: str, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"drawn{suffix}"
    results[kind].save(str(file))
    if suffix == ".svg":
        assert file.read_text().startswith("<svg")
    else:
        with Image.open(file) as drawn:
            assert drawn.size == results[kind].image().size


@pytest.mark.parametrize("kind", KINDS)
def test_image_is_a_picture_that_is_not_the_photograph(results: dict[str, Any], kind: str) -> None:
    picture = results[kind].image()
    assert isinstance(picture, Image.Image)
    plain = results[kind].photograph().resize(picture.size)
    assert np.abs(np.asarray(picture.convert("RGB"), int) - np.asarray(plain.convert("RGB"), int)).max() > 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_the_picture(results: dict[str, Any], kind: str) -> None:
    page = results[kind]._repr_html_()
    found = re.fullmatch(r'<img src="data:image/png;base64,([^"]+)" alt="([^"]+)">', page)
    assert found is not None
    with Image.open(io.BytesIO(base64.b64decode(found[1]))) as picture:
        assert picture.size == results[kind].image().size
    assert "<" not in found[2]


def test_a_result_keeps_its_source_and_no_regions(tmp_path: Path) -> None:
    """So that results of any number of photographs fit into memory; a path is opened again for drawing."""
    pipeline, file = CaptionPipeline(Models(small_captioner())), save_noise(tmp_path / "x.png")
    for source in (file, str(file), noise(), np.array(noise())):
        found = pipeline(source)
        assert found.source is source
        assert np.array_equal(np.asarray(found.photograph()), np.asarray(noise()))
        assert found.image().width >= 60
    assert not any(isinstance(value, Photo) for value in vars(found).values())


# Inputs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pipeline() -> CaptionPipeline:
    return CaptionPipeline(Models(small_captioner()))


def test_paths_images_and_arrays_give_the_same_caption(pipeline: CaptionPipeline, tmp_path: Path) -> None:
    file = save_noise(tmp_path / "x.png")
    found = [pipeline(source).to_dict() for source in (file, str(file), noise(), np.array(noise()))]
    assert [record.pop("image") for record in found] == [str(file), str(file), "", ""]
    assert found[0] == found[1] == found[2] == found[3]


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_gives_a_list(pipeline: CaptionPipeline, kind: type) -> None:
    images = kind(noise(seed) for seed in range(3))
    found = pipeline(images)
    assert isinstance(found, list)
    assert [one.text for one in found] == [pipeline(image).text for image in images]
    assert pipeline([]) == []


def test_a_generator_gives_an_iterator_that_reads_as_it_needs(pipeline: CaptionPipeline) -> None:
    opened: list[int] = []

    def photographs() -> Iterator[Image.Image]:
        for seed in range(3 * BATCH):
            opened.append(seed)
            yield noise(seed)

    found = pipeline(photographs())
    assert isinstance(found, Iterator)
    assert opened == []
    first = next(found)
    assert first.text == pipeline(noise(0)).text
    assert len(opened) == BATCH
    for _ in range(BATCH):
        next(found)
    assert len(opened) == 2 * BATCH


def test_a_generator_without_end_can_be_read(pipeline: CaptionPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caption_module, "BATCH", 2)
    found = pipeline(noise() for _ in iter(int, 1))
    assert len([next(found) for _ in range(5)]) == 5


def test_an_array_that_is_no_image_is_an_error(pipeline: CaptionPipeline) -> None:
    with pytest.raises(deixis.DeixisError, match=r"shape \(4, 4\)"):
        pipeline(np.zeros((4, 4), np.uint8))


def test_a_file_that_is_not_there_is_an_error(pipeline: CaptionPipeline, tmp_path: Path) -> None:
    with pytest.raises(deixis.DeixisError, match=r"nothing\.jpg does not exist"):
        pipeline(tmp_path / "nothing.jpg")


# Grounding and checking ---------------------------------------------------------------------------------------------


def test_phrases_and_sentences() -> None:
    pipeline = GroundPipeline(small_fusion(["a dog runs after a red ball"]))
    found = pipeline(noise(), ["a dog", "the red ball"])
    assert isinstance(found, GroundResult)
    assert [one.text for one in found] == ["a dog", "the red ball"]
    assert [one.text for one in pipeline(noise(), "A dog runs after a red ball.")] == ["a dog", "a red ball"]
    assert found.image().width >= 60
    with pytest.raises(deixis.DeixisError, match="there is no noun phrase in 'running'"):
        pipeline(noise(), "running")
    with pytest.raises(deixis.DeixisError, match=r"the phrase '' has no words"):
        pipeline(noise(), [""])


def test_check_has_the_probability_of_each_phrase_and_of_the_whole() -> None:
    fusion = small_fusion(["a dog runs after a red ball"])
    found = check(Photo(noise()), "A dog runs after a red ball.", fusion)
    assert [one.text for one in found.groundings] == ["a dog", "a red ball"]
    assert found.match is not None
    assert 0 < found.match < 1
    assert found.caption.caption == "A dog runs after a red ball."


def test_pipelines_have_a_short_repr(pipeline: CaptionPipeline) -> None:
    assert repr(pipeline) == "<CaptionPipeline small>"
    assert repr(GroundPipeline(small_fusion(["a dog"], "f"))) == "<GroundPipeline f>"


def test_loading_by_name_and_folder(loaded_once: Models, tmp_path: Path) -> None:
    assert deixis.load_captioner(device="cpu").models.captioner is loaded_once.captioner
    assert deixis.load_captioner(grounder="none", device="cpu").models.grounder is None
    assert deixis.load_grounder(device="cpu").grounder is loaded_once.grounder
    small_captioner().save_pretrained(tmp_path)
    options = deixis.CaptionOptions(checks=())
    assert deixis.load_captioner(tmp_path, options=options)(noise()).confident
