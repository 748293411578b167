"""Clips through the pipelines: by frames with a captioner of photographs, drawings, ground, the command line, eval."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.cli import main
from deixis.clips import decode_all
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.pipelines.api import CaptionPipeline, GroundPipeline
from deixis.pipelines.caption import CaptionOptions
from deixis.pipelines.models import Models
from deixis.pipelines.results import BY_FRAMES
from deixis.show.clip import box_at
from deixis.types import FrameBox, GroundedCaption
from small_clips import write_clip
from small_models import FEATURES, VOCABULARY, small_captioner, small_matcher

pytest.importorskip("av")
OPTIONS = CaptionOptions(checks=())


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    random = np.random.default_rng(0)
    frames = [random.integers(0, 255, (48, 64, 3), dtype=np.uint8) for _ in range(20)]
    return write_clip(tmp_path_factory.mktemp("clip") / "noise.mp4", frames, rate=5)


def run(args: list[str]) -> object:
    with pytest.raises(SystemExit) as end:
        main(args)
    return end.value.code


def video_captioner() -> Captioner:
    torch.manual_seed(0)
    config = DecoderConfig(
        len(VOCABULARY), FEATURES, words=8, hidden=12, attention=6, dropout=0.0, branches=2, location=4, frames=10,
        temporal=FEATURES, steps=10, image="temporal",
    )  # fmt: skip
    return Captioner(Decoder(config), VOCABULARY, small_captioner().extractor.to_json(), "clips")


def test_a_captioner_of_photographs_answers_by_frames_and_says_so(clip):
    models = Models(small_captioner(), small_matcher())
    result = CaptionPipeline(models, OPTIONS)(clip)
    assert [warning.code for warning in result.warnings] == [BY_FRAMES]
    assert "describes photographs" in result.note
    assert result.confident
    assert len(result.caption.times) == 10
    assert result.caption.times[5] == pytest.approx(2.2, abs=0.01)  # 4 s: frame k at .2 + .4 k
    for one in (*result.groundings, *result.caption.word_groundings):
        assert [box.frame for box in one.track] == list(range(10))
        assert one.box == one.track[one.frame].box
        assert one.score == max(box.score for box in one.track)
        assert all(box.shown == (box.score >= 0.5) for box in one.track)
    read = GroundedCaption.from_json(json.loads(json.dumps(result.to_dict())))
    assert read == result.caption
    # the sentence is that of the middle frame
    middle = Image.fromarray(np.asarray(result.frames()[5]))
    assert CaptionPipeline(models, OPTIONS)(middle).text == result.text


def test_a_captioner_of_clips(clip, tmp_path):
    result = CaptionPipeline(Models(video_captioner()), OPTIONS)(clip)
    assert result.warnings == ()
    assert result.trace.frames is not None
    for one in result.caption.word_groundings:
        assert [box.frame for box in one.track] == list(range(10))
    for name in ("strip.png", "strip.svg", "words.png"):
        if name == "words.png":
            result.words_drawing()
        else:
            result.save(tmp_path / name)
            assert (tmp_path / name).stat().st_size > 0
    result.save(tmp_path / "out.mp4")
    times, images = zip(*decode_all(tmp_path / "out.mp4"), strict=True)
    assert len(times) == 20
    assert times[-1] == pytest.approx(3.8, abs=0.05)
    assert images[0].height > 48  # the sentence is below


def test_grounding_in_a_clip(clip, tmp_path):
    result = GroundPipeline(small_matcher())(clip, ["a dog"])
    assert len(result[0].track) == 10
    assert result[0].time == pytest.approx(0.2 + 0.4 * result[0].frame)
    result.save(tmp_path / "strip.png")
    assert Image.open(tmp_path / "strip.png").width > 1000


def test_boxes_appear_while_their_noun_is_shown():
    track = [
        FrameBox(0, 1.0, (0, 0, 10, 10), 0.9),
        FrameBox(1, 2.0, (10, 0, 20, 10), 0.9),
        FrameBox(2, 3.0, (50, 0, 60, 10), 0.1, shown=False),
    ]
    assert box_at(track, 1.5).box == (5, 0, 15, 10)  # half-way
    assert box_at(track, 0.0).box == (0, 0, 10, 10)
    assert box_at(track, 2.4).box == (10, 0, 20, 10)  # nearest frame
    assert box_at(track, 2.6) is None
    assert box_at((), 1.0) is None


def test_command_line(clip, tmp_path, capsys):
    Captioner.save_pretrained(video_captioner(), tmp_path / "model")
    common = ["--model", str(tmp_path / "model"), "--quiet"]
    assert run(["caption", str(clip), *common, "--draw", str(tmp_path / "words.png"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["times"]) == 10
    assert record["schema"] == 3
    assert (tmp_path / "words.png").stat().st_size > 0
    folder = tmp_path / "clips"
    folder.mkdir()
    (folder / "a.mp4").write_bytes(clip.read_bytes())
    (folder / "b.mp4").write_bytes(b"broken")
    assert run(["caption", str(folder), *common, "-o", str(tmp_path / "out.jsonl")]) == 0
    assert [json.loads(line)["image"] for line in (tmp_path / "out.jsonl").open()] == [str(folder / "a.mp4")]
    assert run(["caption", str(clip), *common, "--draw", str(tmp_path / "drawn.mp4")]) == 0
    sentence = capsys.readouterr().out.strip()
    assert sentence.rstrip(".").lower().split() == record["words"]
    assert len(list(decode_all(tmp_path / "drawn.mp4"))) == 20  # every frame of the clip, with its boxes
    assert run(["caption", str(folder / "b.mp4"), *common]) == 1
    assert "not a readable video" in capsys.readouterr().err


def test_features_and_eval_of_made_clips(tmp_path, capsys):
    store = tmp_path / "store"
    common = ["--backbone", "tiny", "--proposals", "grid", "--boxes", "6", "--processes", "1", "--quiet"]
    assert run(["features", "scenes-video:2", "-o", str(store), *common]) == 0
    captioner = video_captioner()
    from deixis.vision.extractor import named_extractor

    captioner = Captioner(captioner.network, VOCABULARY, named_extractor("tiny", "grid", 6).to_json(), "clips")
    captioner.save_pretrained(tmp_path / "model")
    out = tmp_path / "eval"
    args = ["eval", str(tmp_path / "model"), "--data", "scenes-video:2", "--features", str(store), "--out", str(out)]
    assert run([*args, "--json", "--quiet"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert {"F1_all", "F1_loc", "F1_all_per_sent", "attention_accuracy", "CIDEr", "densevid_CIDEr"} <= set(scores)
    (line,) = (json.loads(line) for line in (out / "captions.jsonl").open())
    assert all(len(one["track"]) == 10 for one in line["word_groundings"])
    dense = json.loads((out / "dense-captions.json").read_text())["results"]
    assert list(dense) == [line["image"]]
    # the same predictions from the file give the same scores
    assert run(["score", str(out / "captions.jsonl"), "--reference", "scenes-video:2", "--json", "--quiet"]) == 0
    again = json.loads(capsys.readouterr().out)["scores"]
    assert again["F1_all"]["value"] == pytest.approx(scores["F1_all"]["value"])
