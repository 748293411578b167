"""Caption scores of video segments: pairs by temporal IoU, each video a corpus, the mean over videos and thresholds."""

import json
import math

import pytest

from deixis.data.reading import BadFile
from deixis.metrics.densevid import (
    Event,
    densevid_scores,
    is_dense_reference,
    read_dense_captions,
    read_dense_reference,
    temporal_iou,
    write_dense_captions,
)


def event(start, end, text):
    return Event(start, end, tuple(text.split()), text)


def values(predictions, references, **options):
    return {score.name: score.value for score in densevid_scores(predictions, references, **options)}


def test_temporal_iou():
    assert temporal_iou(event(0, 10, ""), event(5, 15, "")) == pytest.approx(5 / 15)
    assert temporal_iou(event(0, 1, ""), event(5, 6, "")) == 0
    assert temporal_iou(event(2, 4, ""), event(2, 4, "")) == pytest.approx(1)


def test_a_prediction_is_compared_with_every_segment_that_overlaps_enough():
    # tIoU with the two references: 1 and 10 / 16. At .3 and .5 there are two pairs, at .7 and .9 one.
    predictions = {"v": [event(0, 10, "a man runs")]}
    references = [{"v": [event(0, 10, "a man runs"), event(0, 16, "dogs sleep now")]}]
    # BLEU-1, one corpus of the video: 3 of 6 words with two pairs, 3 of 3 with one
    found = values(predictions, references, metrics=("BLEU",))
    assert found["densevid_BLEU-1"] == pytest.approx((0.5 + 0.5 + 1 + 1) / 4, abs=1e-6)


def test_two_reference_files_are_separate_pairs_and_not_two_references():
    predictions = {"v": [event(0, 10, "a man runs")]}
    references = [{"v": [event(0, 10, "a man runs")]}, {"v": [event(0, 10, "dogs sleep now")]}]
    found = values(predictions, references, metrics=("BLEU",))
    assert found["densevid_BLEU-1"] == pytest.approx(0.5, abs=1e-6)  # with two references of one pair it would be 1


def test_every_video_counts_the_same_and_one_without_a_caption_counts_0():
    long = [event(k, k + 1, "a man runs") for k in range(5)]
    predictions = {"a": long, "b": [event(0, 1, "wrong words here")]}
    references = [{"a": long, "b": [event(0, 1, "a man runs")], "c": [event(0, 1, "a man runs")]}]
    found = values(predictions, references, metrics=("BLEU", "ROUGE-L"))
    assert found["densevid_BLEU-1"] == pytest.approx((1 + 0 + 0) / 3, abs=1e-6)
    assert found["densevid_ROUGE-L"] == pytest.approx(1 / 3, abs=1e-6)


def test_a_prediction_that_overlaps_nothing_is_compared_with_nothing():
    references = [{"v": [event(0, 10, "a man runs")]}]
    right = values({"v": [event(0, 10, "a man runs")]}, references, metrics=("ROUGE-L",))["densevid_ROUGE-L"]
    also = [event(0, 10, "a man runs"), event(50, 60, "a man runs")]
    assert right == pytest.approx(1)
    assert values({"v": also}, references, metrics=("ROUGE-L",))["densevid_ROUGE-L"] == pytest.approx(0.5)


def test_cider_has_the_document_frequencies_of_one_video():
    # two segments, two words each, of one video. idf = log(2 / 1) for every n-gram; the sentences are equal: 10 for
    # n = 1 and 2, 0 for n = 3 and 4, so (10 + 10 + 0 + 0) / 4
    both = [event(0, 1, "red ball"), event(5, 6, "blue car")]
    assert values({"v": both}, [{"v": both}], metrics=("CIDEr",))["densevid_CIDEr"] == pytest.approx(5, abs=1e-6)
    # one segment: log(1 / 1) = 0, so that CIDEr of the video is 0. As one corpus of three segments it would not be.
    more, name = {"v": both, "w": both[:1]}, "densevid_CIDEr"
    assert values(more, [more], metrics=("CIDEr",))[name] == pytest.approx(2.5, abs=1e-6)
    assert math.isfinite(values({}, [more], metrics=("CIDEr",))[name])


def test_files(tmp_path):
    truth = tmp_path / "anet_entities_val_1.json"
    record = {"duration": 9.0, "timestamps": [[0, 4.5], [4, 9]], "sentences": ["A man runs.", "Caf\u00e9 closes."]}
    truth.write_text(json.dumps({"v_a": record}))
    assert is_dense_reference(truth)
    (first, second) = read_dense_reference(truth)["v_a"]
    assert (first.start, first.end, first.words) == (0, 4.5, ("a", "man", "runs"))
    assert second.words == ("caf", "closes")  # letters beyond ASCII become spaces
    out = tmp_path / "dense.json"
    write_dense_captions(out, {"v_a": [event(0.123, 4.567, "a man runs")]})
    written = json.loads(out.read_text())
    assert written["results"] == {"v_a": [{"sentence": "a man runs", "timestamp": [0.12, 4.57]}]}
    assert set(written) == {"results", "version", "external_data"}
    assert read_dense_captions(out)["v_a"][0].words == ("a", "man", "runs")
    assert not is_dense_reference(out)
    for name, content in {
        "a.json": {"v": {"timestamps": [[0, 1]], "sentences": []}},
        "b.json": {"v": {"timestamps": [[0, "x"]], "sentences": ["a"]}},
    }.items():
        (tmp_path / name).write_text(json.dumps(content))
        with pytest.raises(BadFile, match=name):
            read_dense_reference(tmp_path / name)
    (tmp_path / "c.json").write_text(json.dumps({"results": {"v": [{"sentence": "a"}]}}))
    with pytest.raises(BadFile, match=r"c\.json"):
        read_dense_captions(tmp_path / "c.json")
