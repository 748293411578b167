"""``deixis caption``: one photograph and folders of them, from files to sentences, pictures and lines of JSON."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from deixis.commands.captions_file import CaptionsFile
from deixis.pipelines.load import load_captioner, load_finder
from deixis.pipelines.looks import Looks
from PIL import Image
from rich.console import Console

from deixis import GroundedCaption, cli
from deixis.commands import caption as verb
from deixis.commands.console import track
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.pipelines.caption import Told
from deixis.pipelines.place import reground
from deixis.types import Grounding
from deixis.vision import bulk
from deixis.vision.extractor import named_extractor

LOOKS = Looks(np.zeros((1, 1, 1), np.float32), np.ones((1, 1), bool))
CAPTION = GroundedCaption(
    ("a", "man", "'s", "dog"),
    (Grounding("man", (1, 1, 30, 30), 0.5, 1, 2), Grounding("dog", (5, 5, 40, 30), 0.5, 3, 4)),
    -3.0,
    caption="A man's dog.",
)


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_one_photograph_is_a_plain_sentence_in_a_pipe(
    model: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = photos / "0.png"
    assert cli.run(["caption", str(photo), "--model", str(model), "--profile"]) == 0
    said = capsys.readouterr()
    assert said.out == load_captioner(model).caption(photo).caption + "\n"
    assert said.out[0].isupper()
    assert "\x1b" not in said.out + said.err
    assert all(part in said.err for part in ("import", "load", "regions", "caption", "peak memory"))


def test_json_is_that_of_a_grounded_caption(model: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = photos / "0.png"
    assert cli.run(["caption", str(photo), "--model", str(model), "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = GroundedCaption.from_json(json.loads(said.out))
    assert (found.image, found.model, found.width, found.height) == (str(photo), "small", 60, 40)
    assert found.words == load_captioner(model).caption(photo).words
    assert json.loads(said.out)["sure"] is False  # nothing was learnt: it owes no word to the photograph


def test_a_finder_gives_the_nouns_their_boxes(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the eyes of the captioner it takes what the captioner saw; with others it looks for itself."""
    captioner, photo = load_captioner(model), photos / "0.png"
    for proposals in ("grid", "selective-search"):
        eyes = named_extractor("tiny", proposals)
        width = captioner.decoder.config.features
        torch.manual_seed(0)
        matcher = ScanNet(ScanConfig(len(captioner.vocabulary), width, words=8, embed=8))
        torch.nn.init.normal_(matcher.embed.weight)
        extractor = eyes.to_json()
        ScanGrounder(matcher, captioner.vocabulary, extractor, "finds").save_pretrained(tmp_path / proposals)
        draw, out = tmp_path / f"{proposals}.svg", tmp_path / f"{proposals}.jsonl"
        order = ["caption", str(photo), "--model", str(model), "--finder", str(tmp_path / proposals)]
        assert cli.run([*order, "--json", "--quiet", "--draw", str(draw), "--out", str(out)]) == 0
        found = GroundedCaption.from_json(json.loads(capsys.readouterr().out))
        own, finder = captioner.caption(photo), load_finder(tmp_path / proposals)
        assert found == reground(finder, photo, own)
        assert found.groundings
        assert found.words == own.words
        assert found.model == "small, placed by finds"
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
    whole = out.read_bytes()
    names = [line["image"] for line in lines(out)]
    assert names == [str(photos / name) for name in ("0.png", "1.png", "2.png", "3.png", "more/0.png")]
    rows = whole.splitlines(keepends=True)
    for cut in (rows[0] + rows[1][:-20], rows[0] + rows[1][:-1], rows[0]):  # half a line, no line end, whole lines
        out.write_bytes(cut)
        assert cli.run(order) == 0
        assert out.read_bytes() == whole
    assert "were captioned before" in capsys.readouterr().err
    assert cli.run(order) == 0  # nothing is left to do, and nothing is done
    assert out.read_bytes() == whole


def test_several_processes_write_the_same(model: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = ["caption", str(photos), "--model", str(model), "--json", "--quiet", "--processes"]
    assert cli.run([*order, "1"]) == 0
    one = capsys.readouterr().out
    assert cli.run([*order, "2"]) == 0
    assert capsys.readouterr().out == one
    assert one.count("\n") == 5


def test_what_was_looked_at_is_written_when_the_user_stops(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def interrupted(extractor: object, job: bulk.Job) -> bulk.Outcome:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(job)
        return bulk.outcome_of(extractor, job)  # type: ignore[arg-type]

    out = tmp_path / "captions.jsonl"
    order = ["caption", str(photos), "--model", str(model), "--out", str(out)]
    with monkeypatch.context() as patched:
        patched.setattr(verb, "outcome_of", interrupted)
        assert cli.run(order) == 130
    assert "2 captions are safe" in capsys.readouterr().err
    assert [line["image"] for line in lines(out)] == [job.image_id for job in seen]
    assert cli.run(order) == 0
    assert len(lines(out)) == 5


def test_what_was_looked_at_is_captioned_after_all_when_the_user_stops_that(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, once = tmp_path / "captions.jsonl", iter([True])
    write = CaptionsFile.write

    def interrupted(self: CaptionsFile, record: dict[str, object]) -> None:
        if len(lines(out)) == 2 and next(once, False):
            raise KeyboardInterrupt
        write(self, record)

    monkeypatch.setattr(CaptionsFile, "write", interrupted)
    assert cli.run(["caption", str(photos), "--model", str(model), "--out", str(out)]) == 130
    assert len({str(line["image"]) for line in lines(out)}) == len(lines(out)) == 5


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
    assert "has no photographs in it" in capsys.readouterr().err
    assert cli.run(["caption", str(photos / "0.png"), "--model", str(model), "-o", str(tmp_path / "no" / "x")]) == 1
    assert "choose another --out" in capsys.readouterr().err
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
    line = verb.coloured(CAPTION)
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


def test_a_terminal_gets_colours_doubt_and_where_it_can_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (60, 40), "white").save(tmp_path / "x.png")
    shown = replace(CAPTION, image=str(tmp_path / "x.png"), width=60, height=40)
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "truecolor", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    talk = Console(stderr=True, highlight=False, soft_wrap=True)
    monkeypatch.setenv("DEIXIS_IMAGES", "kitty")
    verb.show(Told(shown, LOOKS, sure=False), talk, alone=True)
    said, note = capsys.readouterr()
    assert said.startswith("\x1b_Ga=T,f=100,m=")
    assert "48;2;0;114;178mman" in said
    assert "Not sure: it might say the same" in note
    verb.show(Told(shown, LOOKS, sure=True, plain=True, doubted="dog"), talk, alone=True)
    assert "own sentence is about a dog" in capsys.readouterr().err
    monkeypatch.setenv("DEIXIS_IMAGES", "none")
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path / "cache"))
    verb.show(Told(shown, LOOKS, sure=True), talk, alone=True, drawn=tmp_path / "drawn.png")
    assert not (tmp_path / "cache").exists()  # it is told at the end where it was drawn
    verb.show(Told(shown, LOOKS, sure=True), talk, alone=True)
    assert "captioned.png" in capsys.readouterr().err
    with Image.open(tmp_path / "cache" / "captioned.png") as picture:
        assert picture.height > picture.width * 40 / 60
    (tmp_path / "cache" / "captioned.png").unlink()
    verb.show(Told(shown, LOOKS, sure=True), talk, alone=False)
    assert not (tmp_path / "cache" / "captioned.png").exists()
    said = capsys.readouterr().out
    assert said.startswith(f"\x1b[2m{shown.image}  \x1b[0mA ")
    assert "\x1b_G" not in said
    assert "not sure" not in said
    verb.show(Told(shown, LOOKS, sure=False), talk, alone=False)
    assert "(not sure)" in capsys.readouterr().out
