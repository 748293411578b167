"""GVD submissions: generated or ground-truth sentences, as the file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import official_files as official
from deixis.errors import DeixisError
from deixis.metrics.evaluate import Evaluation, Options, evaluate
from deixis.metrics.formats import read_predictions
from deixis.metrics.references import read_reference

LEMMAS = {word: official.LEMMAS.get(word, word) for word in official.WORDS}


def submission(tmp_path: Path, mode: str | None, entries: int, name: str = "dog") -> Path:
    """Boxes at word 1 of each sentence, in all images of the split val."""
    entry = {"clss": [name], "idx_in_sent": [1], "bbox": [[0, 4, 30, 40]]}
    ids = [str(i) for i, split in zip(official.IDS, official.SPLITS, strict=True) if split == "val"]
    value: dict[str, object] = {"results": {i: [entry] * entries for i in ids}}
    path = tmp_path / "submission.json"
    path.write_text(json.dumps(value if mode is None else value | {"eval_mode": mode}))
    return path


def score(tmp_path: Path, path: Path, **options: object) -> Evaluation:
    official.gvd_annotations(tmp_path)
    split_file = tmp_path / "split_ids_flickr30k_entities.json"
    reference = read_reference(tmp_path / "flickr30k_cleaned_class.json", "val", split_file)
    found = read_predictions(path, reference.images)
    return evaluate(found, reference, Options(lemmas=LEMMAS, **options))  # type: ignore[arg-type]


def names(found: Evaluation) -> set[str]:
    return {each.name for each in found.scores}


def test_the_file_says_the_mode(tmp_path: Path) -> None:
    assert "F1_all" in names(score(tmp_path, submission(tmp_path, "gen", 1)))
    assert names(score(tmp_path, submission(tmp_path, "GT", 5))) == {"attention_accuracy"}


def test_ground_truth_never_reads_the_classes(tmp_path: Path) -> None:
    right = score(tmp_path, submission(tmp_path, "GT", 5)).scores[0]
    wrong = score(tmp_path, submission(tmp_path, "GT", 5, "no class at all")).scores[0]
    assert right.value == wrong.value > 0
    path = submission(tmp_path, "GT", 5)
    value = json.loads(path.read_text())
    for entries in value["results"].values():
        for entry in entries:
            entry.pop("clss", None)
    path.write_text(json.dumps(value))
    assert score(tmp_path, path).scores[0].value == right.value


def test_without_a_mode_the_number_of_entries_decides(tmp_path: Path) -> None:
    assert "F1_all" in names(score(tmp_path, submission(tmp_path, None, 1)))
    assert names(score(tmp_path, submission(tmp_path, None, 5))) == {"attention_accuracy"}


@pytest.mark.parametrize(
    ("mode", "entries", "options", "message"),
    [
        ("gen", 5, {}, "5 entries of image 1028, but a file of generated sentences"),
        ("GT", 1, {}, "1 entries of image 1028, but a file of ground-truth sentences"),
        ("gt", 5, {}, "Expected gen or GT"),
        ("gen", 1, {"eval_mode": "GT"}, "--eval-mode is GT"),
        ("gen", 1, {"metrics": ("words",)}, "no scores of words"),
        ("GT", 5, {"metrics": ("F1_all",)}, "no scores of grounding"),
        (None, 3, {}, "3 entries"),
    ],
)
def test_contradictions_are_refused(
    tmp_path: Path, mode: str | None, entries: int, options: dict[str, object], message: str
) -> None:
    with pytest.raises(DeixisError, match=message):
        score(tmp_path, submission(tmp_path, mode, entries), **options)


def anet(tmp_path: Path, mode: str | None) -> tuple[Path, Path, Path]:
    """Two videos in two splits; the box of the word 1 is right in the first and wrong in the second segment."""
    segment = {
        "tokens": ["a", "dog"],
        "process_idx": [[1]],
        "process_clss": [["dog"]],
        "process_bnd_box": [[0, 0, 99, 99]],
        "frame_ind": [0],
    }
    videos = {name: {"segments": {"0": segment, "1": segment}} for name in ("v_a", "v_b")}
    official.write_json(tmp_path / "reference.json", {"annotations": videos})
    official.write_json(tmp_path / "splits.json", {"validation": ["v_a"], "testing": ["v_b"]})
    right, wrong = ([[x, x, x + 99, x + 99]] * 10 for x in (0, 300))
    results = {
        name: {
            number: {"clss": ["dog"], "idx_in_sent": [1], "bbox_for_all_frames": [boxes]}
            for number, boxes in (("0", right), ("1", wrong))
        }
        for name in ("v_a", "v_b")
    }
    value = {"results": results} | ({} if mode is None else {"eval_mode": mode})
    official.write_json(tmp_path / "submission.json", value)
    return tmp_path / "submission.json", tmp_path / "reference.json", tmp_path / "splits.json"


def test_scores_per_sentence_divide_by_every_segment_of_the_file(tmp_path: Path) -> None:
    path, reference_file, splits = anet(tmp_path, "gen")
    reference = read_reference(reference_file, "validation", splits)
    found = read_predictions(path, reference.images)
    ours = {s.name: s.value for s in evaluate(found, reference, Options(lemmas=LEMMAS)).scores}
    assert ours["F1_all_per_sent"] == 0.5
    scored = evaluate(found, reference, Options(lemmas=LEMMAS, missing="zero")).scores
    official_script = {s.name: s for s in scored}
    assert official_script["F1_all_per_sent"].value == 0.25  # one right segment of the four in the file
    assert official_script["F1_all_per_sent[split]"].value == 0.5
    assert "sentences:file" in official_script["F1_all_per_sent"].signature
    assert official_script["F1_all"].value == ours["F1_all"]


def test_a_video_submission_without_a_mode(tmp_path: Path) -> None:
    path, reference_file, splits = anet(tmp_path, None)
    reference = read_reference(reference_file, "validation", splits)

    def scored(**options: str) -> Evaluation:
        return evaluate(read_predictions(path, reference.images), reference, Options(lemmas=LEMMAS, **options))

    found = scored()  # positions and classes of the reference
    assert names(found) == {"attention_accuracy"}
    assert any("scored as GT" in note for note in found.notes)
    assert "F1_all" in names(scored(eval_mode="gen"))
    path.write_text(path.read_text().replace('"dog"', '"cat"'))
    with pytest.raises(DeixisError, match="--eval-mode"):
        scored()
    path.write_text(path.read_text().replace('"idx_in_sent": [1]', '"idx_in_sent": [4]'))
    assert any("scored as gen" in note for note in scored().notes)
