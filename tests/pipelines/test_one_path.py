"""One path: command line, Python, HTTP, demo and evaluation give the same numbers for the same photograph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deixis
from deixis import cli
from deixis.commands.demo import PHOTOS, photograph
from deixis.metrics.score import load_scores
from deixis.pipelines.api import CaptionPipeline
from deixis.pipelines.caption import CaptionOptions
from deixis.pipelines.models import Models
from deixis.vision.bulk import Job, outcome_of
from deixis.vision.store import Contents, StoreWriter
from small_models import assert_close

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
pytest.importorskip("skimage", reason="scikit-image, whose photographs are captioned, is not installed")

from starlette.testclient import TestClient

from deixis.serve.app import create_app
from deixis.serve.engine import CaptionAsk, Engine, Limits

SENTENCE = "A woman in a red shirt holds a white helmet."
PHRASES = ["a woman", "a red shirt", "a zebra"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photographs of ``deixis demo`` as a data set of pairs."""
    root = tmp_path_factory.mktemp("photographs")
    for name in PHOTOS:
        photograph(name).save(root / f"{name}.png")
    lines = [{"image": f"{name}.png", "caption": f"a photograph of {name}", "split": "test"} for name in PHOTOS]
    (root / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


@pytest.fixture(scope="module")
def photo(folder: Path) -> Path:
    """A photograph whose caption is no template and has two noun phrases."""
    return folder / "astronaut.png"


@pytest.fixture(scope="module")
def client(shipped: Models) -> Iterator[TestClient]:
    assert shipped.grounder is not None
    with TestClient(create_app(Engine([shipped.captioner, shipped.grounder])), "http://127.0.0.1") as started:
        yield started


def run(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    """The JSON lines that a command writes to stdout."""
    assert cli.run([*args, "--json", "--device", "cpu", "--quiet"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def post(client: TestClient, path: str, photo: Path, **query: Any) -> dict[str, Any]:
    response = client.post(path, params=query, content=photo.read_bytes(), headers={"Content-Type": "image/png"})
    assert response.status_code == 200
    return response.json()


def in_subprocess(*args: str) -> str:
    command = [sys.executable, "-m", "deixis", *args, "--json", "--device", "cpu", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def without_name(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "image"}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal but for the image's name, and for the rounding of numbers.

    Sums of float32 depend on the number of photographs and threads that are computed together.
    """
    assert_close(without_name(found), without_name(expected), 1e-4)


# Captions -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_command_line_python_and_http_give_the_same_caption(
    loaded_once: Models, client: TestClient, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = run(capsys, "caption", str(photo))
    assert record["image"] == str(photo)
    assert len(record["groundings"]) > 1
    assert record["logprob"] is not None
    assert deixis.load_captioner(device="cpu")(str(photo)).to_dict() == record
    assert without_name(post(client, "/v1/caption", photo)) == without_name(record)
    pixels = deixis.load_captioner(device="cpu")(photograph("astronaut"))
    assert without_name(pixels.to_dict()) == without_name(record)


@pytest.mark.slow
def test_a_process_of_its_own_gives_the_same_caption(
    loaded_once: Models, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = run(capsys, "caption", str(photo))
    assert_same(json.loads(in_subprocess("caption", str(photo))), record)


@pytest.mark.slow
def test_demo_and_evaluation_give_the_captions_of_the_command_line(
    loaded_once: Models, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], without_java: None
) -> None:
    """All three caption the three photographs as one batch."""
    paths = [str(folder / f"{name}.png") for name in PHOTOS]
    captions = run(capsys, "caption", *paths)
    assert [record["image"] for record in captions] == paths
    demo = run(capsys, "demo", "--out", str(tmp_path / "demo"))
    assert [record["image"] for record in demo] == list(PHOTOS)
    assert [without_name(record) for record in demo] == [without_name(record) for record in captions]
    evaluated = evaluate(capsys, folder, tmp_path / "eval")
    assert [record["image"] for record in evaluated] == [f"{name}.png" for name in PHOTOS]
    assert [without_name(record) for record in evaluated] == [without_name(record) for record in captions]


def test_a_folder_and_single_photographs_give_the_same_captions(
    loaded_once: Models, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    together = {record["image"]: record for record in run(capsys, "caption", str(folder))}
    assert len(together) == len(PHOTOS)
    for path, record in together.items():
        (alone,) = run(capsys, "caption", path)
        assert_same(alone, record)


def test_requests_that_are_answered_together_give_the_same_captions(folder: Path, shipped: Models) -> None:
    """Also for photographs whose regions the server has kept."""
    assert shipped.grounder is not None
    engine = Engine([shipped.captioner, shipped.grounder], Limits(gather=5.0, batch=len(PHOTOS)))
    files = [folder / f"{name}.png" for name in PHOTOS]
    for _ in range(2):
        asked = [engine.ask(CaptionAsk(file.read_bytes(), shipped.captioner.name)) for file in files]
        for file, answer in zip(files, asked, strict=True):
            assert_same(answer.result(60), CaptionPipeline(shipped)(file).to_dict())
    engine.close()
    assert engine.batches == 2


# Evaluation ---------------------------------------------------------------------------------------------------------


def evaluate(capsys: pytest.CaptureFixture[str], data: Path, out: Path, *options: str) -> list[dict[str, Any]]:
    """The captions that ``deixis eval`` has scored, without the kinds of errors."""
    args = ["eval", "deixis-base", "--data", str(data), "--out", str(out), *options, "--device", "cpu", "--quiet"]
    assert cli.run(args) == 0
    capsys.readouterr()
    records = [json.loads(line) for line in (out / "captions.jsonl").read_text().splitlines()]
    for record in records:
        for grounding in (*record["groundings"], *record["word_groundings"]):
            grounding.pop("kind", None)
    return records


@pytest.fixture(scope="module")
def store(folder: Path, shipped: Models, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The feature store of the photographs, with the grids that the grounder reads."""
    path, extractor = tmp_path_factory.mktemp("features") / "store", shipped.extractor
    with StoreWriter(path, Contents(extractor.name, extractor.description, {"grid": extractor.grid})) as writer:
        for name in PHOTOS:
            outcome = outcome_of(extractor, Job(f"{name}.png", (folder / f"{name}.png",)))
            assert outcome.regions is not None
            writer.add(f"{name}.png", outcome.regions)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--place", "attention"],
        ["--place", "heat", "--rerank", "none"],
        ["--check", "none"],
        ["--grounder", "none"],
    ],
    ids=" ".join,
)
def test_evaluation_scores_what_the_command_line_prints(
    loaded_once: Models,
    folder: Path,
    store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    without_java: None,
    options: list[str],
) -> None:
    """With and without a feature store, sentences and boxes are those of ``deixis caption`` with the same options."""
    printed = run(capsys, "caption", *(str(folder / f"{name}.png") for name in PHOTOS), *options)
    extracted = evaluate(capsys, folder, tmp_path / "extracted", *options)
    stored = evaluate(capsys, folder, tmp_path / "stored", *options, "--features", str(store))
    assert [without_name(record) for record in extracted] == [without_name(record) for record in printed]
    assert stored == extracted
    scores = [load_scores(tmp_path / name / "scores.json")[0] for name in ("extracted", "stored")]
    assert {name: one.value for name, one in scores[0].items()} == {name: one.value for name, one in scores[1].items()}


# Phrases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [None, "vote"])
def test_command_line_python_and_http_ground_phrases_alike(
    loaded_once: Models, client: TestClient, photo: Path, capsys: pytest.CaptureFixture[str], place: Any
) -> None:
    option = [] if place is None else ["--place", place]
    printed = run(capsys, "ground", str(photo), *PHRASES, *option)
    found = deixis.load_grounder(device="cpu")(photo, PHRASES, place)
    about = {"image": str(photo), "model_hash": found.model_hash, "schema": 3}
    assert printed == [one | about for one in found.to_dict()["groundings"]]
    if place is None:
        answer = post(client, "/v1/ground", photo, phrase=PHRASES)
        assert [without_found(one) for one in answer["groundings"]] == found.to_dict()["groundings"]
        assert (answer["model_hash"], answer["schema"]) == (found.model_hash, 3)
        assert [one["found"] for one in answer["groundings"]] == [one.score >= 0.5 for one in found]


def without_found(grounding: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in grounding.items() if name != "found"}


def test_command_line_and_python_ground_a_sentence_alike(
    loaded_once: Models, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run(capsys, "ground", str(photo), "--caption", SENTENCE)
    found = deixis.load_grounder(device="cpu")(photo, SENTENCE)
    assert [one.text for one in found] == ["a woman", "a red shirt", "a white helmet"]
    assert [(one["phrase"], one["box"], one["score"]) for one in printed] == [
        (one.text, list(one.box), one.score) for one in found
    ]


# Checks -------------------------------------------------------------------------------------------------------------


def test_command_line_python_and_http_check_a_caption_alike(
    loaded_once: Models, client: TestClient, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (printed,) = run(capsys, "check", str(photo), SENTENCE)
    assert deixis.check(str(photo), SENTENCE, device="cpu").to_dict() == printed
    assert 0 < printed["match"] < 1
    answer = post(client, "/v1/check", photo, caption=SENTENCE)
    assert without_name(answer) == {**without_name(printed), "threshold": 0.5}


def test_check_and_ground_find_the_same_boxes(loaded_once: Models, photo: Path) -> None:
    """Both ground the noun phrases of a sentence; so does a caption that has these words."""
    checked = deixis.check(photo, SENTENCE, device="cpu")
    found = deixis.load_grounder(device="cpu")(photo, SENTENCE)
    assert [(one.text, one.box) for one in checked.groundings] == [(one.text, one.box) for one in found]
    assert [one.score for one in checked.groundings] == pytest.approx([one.score for one in found], abs=1e-5)
    result = CaptionPipeline(loaded_once, CaptionOptions(rerank="none", checks=()))(photo)
    again = deixis.load_grounder(device="cpu")(photo, result.text)
    assert [one.box for one in result.groundings] == [one.box for one in again]
