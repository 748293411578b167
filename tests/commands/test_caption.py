"""``deixis caption``: one photograph and folders of them, from files to sentences, pictures and lines of JSON."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from deixis import GroundedCaption, cli
from deixis.commands.console import stoppable, track
from deixis.pipelines.api import CaptionPipeline
from deixis.pipelines.captions_file import CaptionsFile
from deixis.pipelines.checks import LOW_GAIN, subject_warnings
from deixis.pipelines.models import load_models
from deixis.pipelines.output import coloured, print_caption
from deixis.pipelines.results import CaptionResult, Warning
from deixis.pipelines.second_look import SecondLook
from deixis.types import AttentionTrace, Candidate, Grounding
from deixis.vision import bulk
from deixis.vision.extractor import RegionExtractor
from small_models import assert_close, small_fusion, small_matcher

TRACE = AttentionTrace(np.zeros((4, 1, 1), np.float32), np.ones((4, 1), bool), np.zeros((1, 4)), (60, 40))
CAPTION = GroundedCaption(
    ("a", "man", "'s", "dog"),
    (Grounding("man", (1, 1, 30, 30), 0.5, 1, 2), Grounding("dog", (5, 5, 40, 30), 0.5, 3, 4)),
    -3.0,
    caption="A man's dog.",
)


def expected(model: Path, photo: Path, grounder: Path | None = None) -> CaptionResult:
    """What the Python interface returns."""
    return CaptionPipeline(load_models(model, grounder))(str(photo))


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_file_that_is_no_image_is_an_error_before_models_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("deixis.pipelines.models.load_models", load)
    (tmp_path / "notes.txt").write_text("to do")
    assert cli.run(["caption", str(tmp_path / "notes.txt")]) == 1
    assert "notes.txt cannot be read as an image" in capsys.readouterr().err


def test_one_photograph_is_a_plain_sentence_in_a_pipe(
    model: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = photos / "0.png"
    assert cli.run(["caption", str(photo), "--model", str(model), "--profile"]) == 0
    said = capsys.readouterr()
    assert said.out == expected(model, photo).text + "\n"
    assert said.out[0].isupper()
    assert "Low confidence: " in said.err
    assert "\x1b" not in said.out + said.err
    assert all(
        part in said.err
        for part in ("import", "load", "regions", "decode", "rerank", "check", "place", "peak memory", "backend of")
    )


def test_json_is_that_of_a_grounded_caption(model: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = photos / "0.png"
    assert cli.run(["caption", str(photo), "--model", str(model), "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = GroundedCaption.from_json(json.loads(said.out))
    assert (found.image, found.model, found.width, found.height) == (str(photo), "small", 60, 40)
    assert json.loads(said.out) == expected(model, photo).to_dict()
    assert json.loads(said.out)["sure"] is False  # an untrained captioner has no information gain


@pytest.mark.parametrize("proposals", ["grid", "selective-search"])
def test_a_grounder_gives_the_noun_phrases_their_boxes(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], proposals: str
) -> None:
    """With the captioner's extractor the regions are shared; with another one the grounder has its own."""
    photo, draw, out = photos / "0.png", tmp_path / "drawn.svg", tmp_path / "captions.jsonl"
    small_matcher(name="finds", proposals=proposals).save_pretrained(tmp_path / "grounder")
    order = ["caption", str(photo), "--model", str(model), "--grounder", str(tmp_path / "grounder")]
    assert cli.run([*order, "--json", "--quiet", "--draw", str(draw), "--out", str(out)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == expected(model, photo, tmp_path / "grounder").to_dict()
    assert lines(out) == [record]
    found = GroundedCaption.from_json(record)
    assert found.groundings
    assert found.model == "small, placed by finds"
    if proposals != "grid":  # no reranking, so that the words are the captioner's own
        assert found.words == expected(model, photo).caption.words
    assert draw.read_bytes().startswith(b"<svg")
    assert cli.run([*order[:-2], "--out", str(out)]) == 1  # boxes of two kinds do not go into one file
    assert "captions of the model small, placed by finds, not small" in capsys.readouterr().err.replace("\n", " ")


def test_a_folder_becomes_a_file_that_is_gone_on_with(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "captions.jsonl"
    order = ["caption", str(photos), "--model", str(model), "--out", str(out)]
    assert cli.run(order) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "5 captions" in said.err
    assert f"{photos / 'broken.jpg'} cannot be read as an image" in said.err
    whole, records = out.read_bytes(), list(lines(out))
    names = [line["image"] for line in records]
    assert names == [str(photos / name) for name in ("0.png", "1.png", "2.png", "3.png", "more/0.png")]
    rows = whole.splitlines(keepends=True)
    for cut in (rows[0] + rows[1][:-20], rows[0] + rows[1][:-1], rows[0]):  # half a line, no line end, whole lines
        out.write_bytes(cut)
        assert cli.run(order) == 0
        assert_close(lines(out), records)  # last bits depend on the photographs that are computed together
    whole = out.read_bytes()
    assert "photographs are already captioned" in capsys.readouterr().err
    assert cli.run(order) == 0  # nothing is left to do, and nothing is done
    assert out.read_bytes() == whole


@pytest.mark.slow
def test_several_processes_write_the_same(model: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = ["caption", str(photos), "--model", str(model), "--json", "--quiet", "--processes"]
    assert cli.run([*order, "1"]) == 0
    one = capsys.readouterr().out
    assert cli.run([*order, "2"]) == 0
    assert capsys.readouterr().out == one
    assert one.count("\n") == 5


def test_photographs_that_are_opened_are_captioned_when_the_user_stops(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt during the extraction of the third photograph."""
    extract, seen = RegionExtractor.extract_batch, list[str]()

    def interrupted(self: RegionExtractor, images: Any, image_ids: Any) -> Any:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.extend(image_ids)
        return extract(self, images, image_ids)

    out = tmp_path / "captions.jsonl"
    order = ["caption", str(photos), "--model", str(model), "--out", str(out)]
    with monkeypatch.context() as patched:
        patched.setattr(RegionExtractor, "extract_batch", interrupted)
        assert cli.run(order) == 130
    assert f"Stopped: {out} has 2 captions. The same command resumes." in capsys.readouterr().err
    assert [line["image"] for line in lines(out)] == seen
    assert cli.run(order) == 0
    assert len(lines(out)) == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_captions_of_opened_photographs_are_written_when_the_user_stops(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A signal while the captions of a batch are written."""
    out, write = tmp_path / "captions.jsonl", CaptionsFile.write

    def interrupted(self: CaptionsFile, record: dict[str, object]) -> None:
        if len(lines(out)) == 2:
            os.kill(os.getpid(), number)
        write(self, record)

    monkeypatch.setattr(CaptionsFile, "write", interrupted)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    assert cli.run(["caption", str(photos), "--model", str(model), "--out", str(out)]) == 130
    assert len({str(line["image"]) for line in lines(out)}) == len(lines(out)) == 5
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_signal_stops_before_the_next_item_and_a_second_one_at_once() -> None:
    def interrupted(times: int) -> Iterator[int]:
        for item in range(9):
            if item == 3:
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)
            yield item

    for times, given in ((1, [0, 1, 2, 3]), (2, [0, 1, 2])):
        taken: list[int] = []
        with pytest.raises(KeyboardInterrupt), stoppable(interrupted(times)) as items:
            taken.extend(items)  # extend keeps what came before the interrupt
        assert taken == given


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"image": "x.jpg", "model": "another"}\n', "captions of the model another, not small"),
        ('{"image": "x.jpg", "model": "small"}\nnot JSON\n', "line 2: not a caption"),
        ("[1]\n", "line 1: not a caption"),
        ("notes without an end of line", "line 1: not a caption"),
    ],
)
def test_a_file_of_something_else_is_left_alone(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    out = tmp_path / "other.jsonl"
    out.write_text(content)
    assert cli.run(["caption", str(photos / "0.png"), "--model", str(model), "--out", str(out)]) == 1
    assert said in capsys.readouterr().err
    assert out.read_text() == content


def test_what_cannot_be_done_is_said(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["caption", str(photos / "broken.jpg"), "--model", str(model)]) == 1
    assert "broken.jpg cannot be read" in capsys.readouterr().err
    assert cli.run(["caption", str(photos / "nothing.jpg"), "--model", str(model)]) == 1
    assert "nothing.jpg does not exist" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert cli.run(["caption", str(tmp_path / "empty"), "--model", str(model)]) == 1
    assert "has no photographs" in capsys.readouterr().err
    assert cli.run(["caption", str(photos / "0.png"), "--model", str(model), "-o", str(tmp_path / "no" / "x")]) == 1
    assert "or choose another path" in capsys.readouterr().err
    assert cli.run(["caption"]) == 2
    assert "deixis caption photo.jpg" in capsys.readouterr().err


def test_pictures_are_drawn_to_a_file_or_a_folder(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo, drawn = photos / "0.png", tmp_path / "drawn.png"
    assert cli.run(["caption", str(photo), "--model", str(model), "--draw", str(drawn)]) == 0
    assert f"drawn: {drawn}" in capsys.readouterr().err
    with Image.open(drawn) as image:
        assert image.height > image.width * 40 / 60  # the sentence stands below
    Image.open(photo).convert("RGB").save(photos / "0.jpg")
    pictures = tmp_path / "pictures"
    assert cli.run(["caption", str(photos), "--model", str(model), "--draw", str(pictures), "--quiet"]) == 0
    found = sorted(path.relative_to(pictures).as_posix() for path in pictures.rglob("*.png"))
    assert found == ["0.png", "0.png.png", "1.png", "2.png", "3.png", "more/0.png"]
    assert cli.run(["caption", str(photos), "--model", str(model), "--draw", str(drawn)]) == 2
    assert "must be a folder" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert cli.run(["caption", str(photos), "--model", str(model), "--draw", str(tmp_path / "file")]) == 1
    assert "It is a file; choose a folder." in capsys.readouterr().err


def test_branches_are_drawn_of_one_photograph(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo, drawn = photos / "0.png", tmp_path / "branches.svg"
    assert cli.run(["caption", str(photo), "--model", str(model), "--branches", str(drawn), "--json"]) == 0
    nouns = json.loads(capsys.readouterr().out)["groundings"]
    assert nouns
    assert drawn.read_text().count("<use ") == len(nouns) * 3  # two branches, and what is merged
    assert cli.run(["caption", str(photos), "--model", str(model), "--branches", str(drawn)]) == 2
    assert "one photograph" in capsys.readouterr().err


def test_words_have_the_colours_of_their_boxes() -> None:
    line = coloured(CAPTION)
    assert line.plain == "A man's dog."
    styles = {line.plain[span.start : span.end]: str(span.style) for span in line.spans if span.style}
    assert set(styles) == {"man", "dog"}
    assert "#0072b2" in styles["man"]
    assert styles["man"] != styles["dog"]


def test_stdout_stays_data_while_a_bar_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    bar = io.StringIO()
    outcomes = iter([bulk.Outcome(bulk.Job("0", ())), bulk.Outcome(bulk.Job("1", ()))])
    for outcome in track(outcomes, 2, Console(file=bar, force_terminal=True)):
        print(outcome.job.image_id)
    assert capsys.readouterr().out == "0\n1\n"
    assert "2/2" in bar.getvalue()


def test_a_phrase_of_several_words_has_one_colour() -> None:
    wall = Grounding("rock wall", (0, 0, 9, 9), 0.5, 1, 3)
    line = coloured(GroundedCaption(("a", "rock", "wall", "stands"), (wall,), caption="A rock wall stands."))
    assert [line.plain[span.start : span.end] for span in line.spans if span.style] == ["rock wall"]


def test_a_terminal_gets_colours_low_confidence_and_where_it_can_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = str(tmp_path / "x.png")
    Image.new("RGB", (60, 40), "white").save(photo)
    shown = replace(CAPTION, image=photo, width=60, height=40)
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "truecolor", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def show(*warnings: Warning, alone: bool = True, drawn: bool = False) -> tuple[str, str]:
        print_caption(CaptionResult(photo, shown, warnings, TRACE), console, alone, drawn)
        return capsys.readouterr()

    monkeypatch.setenv("DEIXIS_IMAGES", "kitty")
    out, err = show(LOW_GAIN)
    assert out.startswith("\x1b_Ga=T,f=100,m=")
    assert "48;2;0;114;178mman" in out
    assert "Low confidence: the sentence would be about as likely for a blank image." in err
    template = subject_warnings(SecondLook(Candidate(("a",), None, 0.0, TRACE), "dog", 0.9))
    assert 'the generated sentence mentions "a dog"' in show(*template)[1]
    monkeypatch.setenv("DEIXIS_IMAGES", "none")
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path / "cache"))
    show(drawn=True)
    assert not (tmp_path / "cache").exists()  # the command prints at the end where it was drawn
    assert "captioned.png" in show()[1]
    with Image.open(tmp_path / "cache" / "captioned.png") as picture:
        assert picture.height > picture.width * 40 / 60
    (tmp_path / "cache" / "captioned.png").unlink()
    out, _ = show(alone=False)
    assert not (tmp_path / "cache" / "captioned.png").exists()
    assert out.startswith(f"\x1b[2m{shown.image}  \x1b[0mA ")
    assert "\x1b_G" not in out
    assert "low confidence" not in out
    assert "(low confidence)" in show(LOW_GAIN, alone=False)[0]


# Options ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["grounder", "heat", "alpha", "threshold"])
def test_a_box_rule_of_a_grounder_needs_a_grounder(
    model: Path, photos: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert cli.run(["caption", str(photos / "0.png"), "--model", str(model), "--place", option]) == 1
    assert f"--place {option} needs a grounder" in capsys.readouterr().err


def test_a_box_rule_that_a_grounder_does_not_have_is_an_error(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_fusion(["a dog runs and a red ball"], "pixels").save_pretrained(tmp_path / "pixels")
    order = ["caption", str(photos / "0.png"), "--model", str(model), "--grounder", str(tmp_path / "pixels"), "--json"]
    assert cli.run([*order, "--place", "alpha"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Its --place is threshold, not alpha." in err
    assert cli.run([*order, "--place", "threshold"]) == 0


@pytest.mark.parametrize("option", [["--place", "best"], ["--rerank", "always"], ["--check", "some"]])
def test_unknown_values_of_options_are_errors(
    model: Path, photos: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.run(["caption", str(photos / "0.png"), "--model", str(model), *option])
    assert stopped.value.code == 2
    assert option[0] in capsys.readouterr().err
