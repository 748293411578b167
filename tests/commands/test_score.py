"""``deixis score`` as people call it: golden numbers, data sets, foreign outputs, faults, files it writes."""

import gzip
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from deixis import cli
from deixis.data import load
from deixis.metrics.object_words import default_minimum
from deixis.metrics.references import phrase_references
from deixis.metrics.score import load_scores
from deixis.types import GroundedCaption, Grounding

GOLDEN = Path(__file__).parents[1] / "golden"
PACK = Path(
    os.environ.get("DEIXIS_FLICKR30K_ENTITIES")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "flickr30k-entities-8k"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(capsys):
    """Run the verb; exit code, what --json wrote (else None), and what people were told."""

    def score(*args):
        code = cli.run(["score", *map(str, args)])
        said = capsys.readouterr()
        if "--json" in args:
            return code, json.loads(said.out) if said.out else None, said.err
        return code, None, said.out + said.err

    return score


def unpack(name, folder):
    data = json.loads(gzip.decompress((GOLDEN / name).read_bytes()))
    for part in ("reference", "split", "generated", "given", "lemmas"):
        (folder / f"{part}.json").write_text(json.dumps(data[part]))
    files = ["--reference", folder / "reference.json", "--split-file", folder / "split.json"]
    return files, ["--lemmas", folder / "lemmas.json"], data["out"]


# Golden numbers -----------------------------------------------------------------------------------------------------


def test_gvd_submission(tmp_path, run):
    files, lemmas, out = unpack("flickr_grounding.json.gz", tmp_path)
    code, document, _ = run(tmp_path / "generated.json", *files, *lemmas, "--missing", "zero", "--json")
    assert code == 0
    scores = document["scores"]
    for mode in ("all", "loc"):
        assert scores[f"F1_{mode}"]["value"] == pytest.approx(out["test"][mode]["f1"], abs=1e-9)
        assert scores[f"precision_{mode}"]["value"] == pytest.approx(out["test"][mode]["precision"], abs=1e-9)
    assert re.search(r"split:test\|missing:zero\|lemma:map-\w{8}\|refs:each", scores["F1_all"]["signature"])
    assert sum(score["value"] for name, score in scores.items() if name.startswith("errors_")) == pytest.approx(1)


def test_boxes_on_reference_sentences_are_told_by_content(tmp_path, run):
    files, _, out = unpack("flickr_grounding.json.gz", tmp_path)
    _, document, _ = run(tmp_path / "given.json", *files, "--split", "val", "--missing", "zero", "--json")
    assert list(document["scores"]) == ["attention_accuracy"]
    assert document["scores"]["attention_accuracy"]["value"] == pytest.approx(out["val"]["gt"]["accuracy"], abs=1e-9)


def test_activitynet_submissions(tmp_path, run):
    files, lemmas, out = unpack("anet_grounding.json.gz", tmp_path)
    common = [*files, *lemmas, "--split", "validation", "--missing", "zero", "--json"]
    _, document, _ = run(tmp_path / "generated.json", *common)
    for mode in ("all", "loc"):
        assert document["scores"][f"F1_{mode}"]["value"] == pytest.approx(out[mode]["f1"], abs=1e-9)
        per_sentence = document["scores"][f"F1_{mode}_per_sent"]["value"]
        assert per_sentence == pytest.approx(out[mode]["f1_per_sent"], abs=1e-9)
    _, document, _ = run(tmp_path / "given.json", *common)
    assert document["scores"]["attention_accuracy"]["value"] == pytest.approx(out["gt"]["accuracy"], abs=1e-9)


def test_activitynet_folder(tmp_path, run):
    """The official files in a folder give what the reference file gives."""
    _, lemmas, out = unpack("anet_grounding.json.gz", tmp_path)
    root = tmp_path / "anet"
    root.mkdir()
    (tmp_path / "reference.json").rename(root / "anet_entities_cleaned_class_thresh50_trainval.json")
    splits = {**json.loads((tmp_path / "split.json").read_text()), "testing": []}
    (root / "split_ids_anet_entities.json").write_text(json.dumps(splits))
    common = ["--reference", root, "--split", "val", *lemmas, "--missing", "zero", "--json"]
    _, document, _ = run(tmp_path / "generated.json", *common)
    for mode in ("all", "loc"):
        assert document["scores"][f"F1_{mode}"]["value"] == pytest.approx(out[mode]["f1"], abs=1e-9)
        per_sentence = document["scores"][f"F1_{mode}_per_sent"]["value"]
        assert per_sentence == pytest.approx(out[mode]["f1_per_sent"], abs=1e-9)


def test_missing_predictions(tmp_path, run):
    files, lemmas, _ = unpack("flickr_grounding.json.gz", tmp_path)
    common = [tmp_path / "generated.json", *files, *lemmas, "--json"]
    code, document, told = run(*common)
    assert (code, document) == (1, None)
    assert "2 of 50 images have no prediction: '1174', '1199'. Use --missing zero" in told
    zero, skip = (run(*common, "--missing", choice)[1]["scores"]["recall_all"] for choice in ("zero", "skip"))
    assert skip["value"] > zero["value"]
    assert "missing:skip" in skip["signature"]


def test_paper_protocol(tmp_path, run):
    files, lemmas, _ = unpack("flickr_grounding.json.gz", tmp_path)
    common = [tmp_path / "generated.json", *files, *lemmas, "--missing", "zero", "--json", "--metrics", "F1_all"]
    official, paper = (run(*common, "--protocol", name)[1]["scores"]["F1_all"] for name in ("official", "paper"))
    assert official["value"] != paper["value"]
    assert "refs:pool|iou:>0.5+1px|match:any" in paper["signature"]
    assert "classes:reference" in paper["signature"]


def test_spacy_lemmas_agree_with_the_map_where_they_should(tmp_path, run):
    """The map stands in for a lemmatiser of single words; only words such as "people" differ, so F1_all is near."""
    files, lemmas, _ = unpack("flickr_grounding.json.gz", tmp_path)
    common = [tmp_path / "generated.json", *files, "--missing", "zero", "--json", "--metrics", "F1_all"]
    by_map, by_spacy = (run(*common, *extra)[1]["scores"]["F1_all"] for extra in (lemmas, []))
    assert by_spacy["value"] == pytest.approx(by_map["value"], abs=0.01)
    assert "lemma:spacy-" in by_spacy["signature"]


# A data set ---------------------------------------------------------------------------------------------------------

SENTENCES = [
    "[/EN#1/people A man] walks [/EN#2/animals two dogs] .",
    "[/EN#1/people The man] has [/EN#2/animals dogs] on [/EN#3/other a leash] .",
    "[/EN#2/animals Dogs] and [/EN#1/people their owner] .",
    "[/EN#1/people A man] in [/EN#4/clothing a hat] .",
    "[/EN#1/people A man] outside .",
]
BOXES = {"1": [(1, 1, 40, 80)], "2": [(50, 40, 70, 80), (71, 40, 90, 80)], "4": [(10, 1, 30, 10)]}


def annotation():
    things = "".join(
        f"<object><name>{chain}</name><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox>"
        "</object>"
        for chain, boxes in BOXES.items()
        for a, b, c, d in boxes
    )
    return f"<annotation><size><width>100</width><height>80</height></size>{things}</annotation>"


@pytest.fixture
def flickr(tmp_path):
    root = tmp_path / "flickr"
    for folder in ("Sentences", "Annotations", "flickr30k-images"):
        (root / folder).mkdir(parents=True)
    splits = {"train": ["1", "2", "3"], "val": ["4"], "test": ["5", "6"]}
    for split, ids in splits.items():
        (root / f"{split}.txt").write_text("\n".join(ids))
        for image in ids:
            (root / "Sentences" / f"{image}.txt").write_text("\n".join(SENTENCES))
            (root / "Annotations" / f"{image}.xml").write_text(annotation())
    return root


def write_lines(path, records):
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


UNION = {"1": [0, 0, 40, 80], "2": [49, 39, 90, 80], "4": [9, 0, 30, 10]}
PHRASES = {"A man": "1", "The man": "1", "their owner": "1", "two dogs": "2", "dogs": "2", "a hat": "4"}


def phrase_answers(images=("5", "6"), phrases=PHRASES):
    return [{"image": i, "phrase": p, "box": UNION[chain], "score": 1} for i in images for p, chain in phrases.items()]


def test_phrases_of_a_data_set(tmp_path, flickr, run):
    answers = write_lines(tmp_path / "answers.jsonl", phrase_answers())
    proposals = tmp_path / "proposals.json"
    detections = [{"image_id": i, "category": "x", "bbox": [0, 0, 40, 80], "score": 0.5} for i in "56"]
    proposals.write_text(json.dumps(detections))
    code, document, _ = run(answers, "--reference", flickr, "--json", "--proposals", proposals)
    assert code == 0
    scores = document["scores"]
    # nine mentions that have boxes in each of two images; the leash has none
    assert scores["accuracy"]["items"] == 18
    for name in ("accuracy", "mean_iou", "pointing_centre", "pointing_union", "accuracy[people]", "accuracy_at_0.9"):
        assert scores[name]["value"] == pytest.approx(1.0), name
    # the middle of the two dogs lies between them
    assert scores["pointing"]["value"] == pytest.approx(12 / 18)
    assert scores["accuracy[animals]"]["items"] == 6
    assert scores["bound_best_proposal"]["value"] == pytest.approx(10 / 18)
    assert scores["baseline_whole_image"]["value"] == 0.0
    assert "target:union|iou:>=0.5|" in scores["accuracy"]["signature"]


def test_a_mention_can_be_named(tmp_path, flickr, run):
    """The answer for one mention holds there, the general one everywhere else."""
    wrong = {"image": "5", "phrase": "A man", "caption": 4, "start": 0, "box": [90, 70, 99, 79], "score": 1}
    answers = write_lines(tmp_path / "answers.jsonl", [*phrase_answers(), wrong])
    _, document, _ = run(answers, "--reference", flickr, "--json", "--metrics", "accuracy")
    assert document["scores"]["accuracy"]["value"] == pytest.approx(17 / 18)
    assert set(document["scores"]) == {"accuracy", *(f"accuracy[{k}]" for k in ("people", "animals", "clothing"))}


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (phrase_answers(("5",)), "9 of 18 phrases have no prediction: '6#0.0-2 A man'"),
        (phrase_answers(("5", "7")), "image '7' is not in the reference"),
        ([*phrase_answers(), {**phrase_answers()[0], "phrase": "a cat"}], "the phrase 'a cat' of image 5 is not in"),
        ([*phrase_answers(), phrase_answers()[0]], "duplicate: 'A man'"),
        ([{**phrase_answers()[0], "box": [0, 0, 400, 80]}], "is outside the image of 100 x 80 pixels"),
        ([{**phrase_answers()[0], "box": [0, 0, float("nan"), 80]}], "Expected finite numbers"),
    ],
)
def test_faults_are_named(tmp_path, flickr, run, records, message):
    code, document, told = run(write_lines(tmp_path / "answers.jsonl", records), "--reference", flickr, "--json")
    assert (code, document) == (1, None)
    assert message in told
    assert "answers.jsonl" in told


def test_predictions_of_another_split_are_left_out(tmp_path, flickr, run):
    answers = write_lines(tmp_path / "answers.jsonl", phrase_answers(("5", "6", "4")))
    code, document, _ = run(answers, "--reference", flickr, "--json")
    assert code == 0
    assert document["notes"] == ["6 predictions for images of other splits were skipped"]


def grounded(image, words, places):
    groundings = tuple(Grounding(words[at], tuple(map(float, box)), 0.9, at, at + 1) for at, box in places.items())
    return GroundedCaption(tuple(words), groundings, -1.0, f"{image}.jpg", 100, 80, "m").to_json()


def captions(man=UNION["1"]):
    words = ["a", "man", "with", "dogs", "and", "leashes"]
    return [grounded(image, words, {1: man, 3: UNION["2"], 5: [0, 0, 9, 9]}) for image in "56"]


def test_grounded_captions_of_a_data_set(tmp_path, flickr, run):
    """Classes are lemmas of head nouns, "dogs" is said for "two dogs", and several boxes become one."""
    said = write_lines(tmp_path / "captions.jsonl", captions())
    choose = ["--min-count", "3", "--json", "--metrics", "grounding", "errors", "hallucination", "CIDEr", "BLEU"]
    code, document, _ = run(said, "--reference", flickr, *choose)
    assert code == 0
    scores = document["scores"]
    # man 1/1, dog 1/1, owner and hat never said; the leash has no box and is excused
    assert scores["recall_all"]["value"] == pytest.approx(2 / 4)
    assert scores["precision_loc"]["value"] == pytest.approx(2 / 4)
    assert scores["precision_all_per_sent"]["value"] == 1.0
    assert scores["CHAIRi"]["value"] == 0.0
    assert scores["errors_partial"]["value"] == 0.0
    assert {"CIDEr", "BLEU-1", "BLEU-4"} <= set(scores)
    assert "METEOR" not in scores
    assert "min_count:3" in scores["F1_all"]["signature"]
    # in training the owner is named three times and the man twelve times
    choose = ["--min-count", "4", "--json", "--metrics", "recall_all", "errors_hallucinated"]
    _, fewer, _ = run(said, "--reference", flickr, *choose)
    assert fewer["scores"]["recall_all"]["value"] == pytest.approx(1.0)
    # "man" against one reference and "dogs" against two, of ten; the leash is too rare to be an object word
    assert fewer["scores"]["errors_hallucinated"]["value"] == pytest.approx(3 / 10)
    small = write_lines(tmp_path / "small.jsonl", captions(man=[5, 5, 20, 20]))
    _, partial, _ = run(small, "--reference", flickr, "--min-count", "3", "--json", "--metrics", "errors")
    assert partial["scores"]["wrong_partial"]["value"] == 1.0
    # as an upper bound, a box inside the true box is correct: the figures are those of the true box
    choose = ["--min-count", "3", "--json", "--metrics", "grounding", "--accept-partial"]
    _, bound, _ = run(small, "--reference", flickr, *choose)
    for name in ("recall_all", "precision_loc"):
        assert bound["scores"][name]["value"] == scores[name]["value"]
        assert "iou:>0.5+1px or inside" in bound["scores"][name]["signature"]
        assert "or inside" not in scores[name]["signature"]


def test_minimum_count_follows_the_size_of_the_training_split(tmp_path, flickr, run):
    assert [default_minimum(images) for images in (29_783, 7_455, 100, 0)] == [100, 25, 1, 1]
    said = write_lines(tmp_path / "captions.jsonl", captions())
    _, document, _ = run(said, "--reference", flickr, "--json", "--metrics", "F1_all")
    assert "min_count:1|" in document["scores"]["F1_all"]["signature"]


def test_lemma_map_in_place_of_spacy(tmp_path, flickr, run):
    said = write_lines(tmp_path / "captions.jsonl", captions())
    lemmas = tmp_path / "lemmas.json"
    lemmas.write_text(json.dumps({"dogs": "animal", "man": "animal", "owner": "animal"}))
    choose = ["--min-count", "1", "--json", "--metrics", "F1_all", "--lemmas", lemmas]
    _, document, _ = run(said, "--reference", flickr, *choose)
    # classes animal and hat; man and dogs are both "animal", and only one of them is where the first animal is
    assert document["scores"]["F1_all"]["value"] < 0.5
    assert "lemma:map-" in document["scores"]["F1_all"]["signature"]
    code, _, told = run(said, "--reference", flickr, "--min-count", "500", "--metrics", "F1_all")
    assert code == 1
    assert "Lower --min-count" in told


def test_kosmos_and_florence_on_a_data_set(tmp_path, flickr, run):
    kosmos = tmp_path / "kosmos.json"
    entity = ["two dogs", [11, 19], [[0.49, 0.4875, 0.7, 1.0], [0.7, 0.4875, 0.9, 1.0]]]
    kosmos.write_text(json.dumps({image: ["A man with two dogs.", [entity]] for image in "56"}))
    choose = ["--min-count", "3", "--json", "--metrics", "precision_loc_per_sent"]
    _, document, _ = run(kosmos, "--reference", flickr, *choose)
    assert document["format"] == "kosmos-2"
    assert document["scores"]["precision_loc_per_sent"]["value"] == 1.0
    florence = tmp_path / "florence.json"
    output = {"bboxes": [UNION[c] for c in PHRASES.values()], "labels": list(PHRASES)}
    florence.write_text(json.dumps({image: {"<CAPTION_TO_PHRASE_GROUNDING>": output} for image in "56"}))
    _, document, _ = run(florence, "--reference", flickr, "--json")
    assert document["format"] == "florence-2"
    assert document["scores"]["accuracy"]["value"] == 1.0


def test_coco_captions_without_java(tmp_path, flickr, run, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = tmp_path / "results.json"
    said.write_text(json.dumps([{"image_id": int(i), "caption": "A man walks two dogs ."} for i in "56"]))
    code, document, told = run(said, "--reference", flickr, "--json")
    assert code == 0
    assert document["scores"]["BLEU-4"]["value"] == pytest.approx(1.0)
    assert set(document["absent"]) == {"METEOR", "SPICE"}
    assert "METEOR is missing: " in told
    assert "F1_all" not in document["scores"]


# What is written and said -------------------------------------------------------------------------------------------


class Outside(HTMLParser):
    """Addresses that a page would fetch."""

    def __init__(self):
        super().__init__()
        self.tags, self.found = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.found += [v for k, v in attributes if k in ("src", "href", "data", "action", "srcset")]


def test_page_is_whole_and_alone(tmp_path, flickr, run):
    answers = write_lines(tmp_path / "<answers>.jsonl", phrase_answers())
    page, scores = tmp_path / "page.html", tmp_path / "scores.json"
    code, _, told = run(answers, "--reference", flickr, "--html", page, "--out", scores)
    assert code == 0
    assert f"written: {page}" in told
    html = page.read_text()
    parser = Outside()
    parser.feed(html)
    assert parser.found == []
    assert "url(" not in html
    assert "@import" not in html
    assert {"svg", "table", "figure"} <= set(parser.tags)
    assert "color-scheme: light dark" in html
    assert "Per category" in html
    assert "Accuracy at every IoU threshold" in html
    assert "&lt;answers&gt;.jsonl" in html
    assert "<answers>" not in html
    read, meta = load_scores(scores)
    assert read["accuracy"].value == 1.0
    assert meta["split"] == "test"


def test_page_of_grounded_captions(tmp_path, run):
    files, lemmas, _ = unpack("flickr_grounding.json.gz", tmp_path)
    page = tmp_path / "page.html"
    run(tmp_path / "generated.json", *files, *lemmas, "--missing", "zero", "--html", page, "--quiet")
    html = page.read_text()
    for title in ("Errors of object words", "Kinds of wrong boxes", "F1_all by class frequency"):
        assert title in html
    assert html.count('class="slice"') == 5 + 3


def test_scores_can_be_compared(tmp_path, flickr, run, capsys):
    good = write_lines(tmp_path / "good.jsonl", phrase_answers())
    bad = write_lines(tmp_path / "bad.jsonl", [{**a, "box": [90, 70, 99, 79]} for a in phrase_answers()])
    for path in (good, bad):
        run(path, "--reference", flickr, "--out", path.with_suffix(".json"), "--quiet")
    files = [str(path.with_suffix(".json")) for path in (bad, good)]
    assert cli.run(["compare", *files, "--n", "200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["accuracy"]["difference"] == 1.0


def test_table_and_streams(tmp_path, flickr, run):
    answers = write_lines(tmp_path / "answers.jsonl", phrase_answers())
    code, document, told = run(answers, "--reference", flickr)
    assert (code, document) == (0, None)
    assert re.search(r"accuracy\[people\] +1\.0000", told)
    assert "data:flickr30k_entities|split:test|target:union|iou:>=0.5|" in told
    assert "accuracy_at_0.3" not in told
    assert run(answers, "--reference", flickr, "--quiet")[2] == ""


def test_wrong_wishes(tmp_path, flickr, run):
    answers = write_lines(tmp_path / "answers.jsonl", phrase_answers())
    common = [answers, "--reference", flickr]
    for extra, message in (
        (["--metrics", "F2"], "Unknown metric 'F2'. Choose groups (captions, grounding"),
        (["--metrics", "F1_all"], "contains phrases, not captions. Use --metrics phrases"),
        (["--metrics", "recall_at_5"], "'recall_at_5' cannot be computed from these predictions. Available: accuracy"),
        (["--metrics", "BLEU"], "Caption metrics need captions"),
        (["--split", "dev"], "dev.txt does not exist"),
        (["--split-file", "x"], "is a data set with its own splits"),
        (["--html", tmp_path / "no" / "page.html"], "cannot be written"),
    ):
        code, _, told = run(*common, *extra)
        assert code == 1, extra
        assert message in told, extra


def test_an_empty_reference_is_an_error(tmp_path, flickr, run):
    for image in "56":
        (flickr / "Annotations" / f"{image}.xml").unlink()
    answers = write_lines(tmp_path / "answers.jsonl", phrase_answers())
    code, _, told = run(answers, "--reference", flickr, "--json")
    assert code == 1
    assert "has no reference for them" in told
    code, _, told = run(answers, "--reference", flickr, "--metrics", "phrases")
    assert code == 1
    assert "The reference has no phrases with boxes" in told
    (flickr / "test.txt").write_text("")
    code, _, told = run(answers, "--reference", flickr)
    assert code == 1
    assert "the split 'test' is empty" in told


@pytest.mark.skipif(not PACK.is_dir(), reason="no Flickr30k Entities here; DEIXIS_FLICKR30K_ENTITIES names its folder")
def test_whole_image_on_the_pack(tmp_path, run):
    references = phrase_references(load(PACK, "test"))
    records = {(r.image, r.phrase.lower()): (0, 0, *r.size) for r in references}
    lines = [{"image": image, "phrase": phrase, "box": box} for (image, phrase), box in records.items()]
    answers = write_lines(tmp_path / "answers.jsonl", lines)
    _, document, _ = run(answers, "--reference", PACK, "--json")
    scores = {name: score["value"] for name, score in document["scores"].items()}
    assert len({r.image for r in references}) == 185
    assert scores["accuracy"] == scores["baseline_whole_image"] == pytest.approx(0.232, abs=5e-4)
    assert scores["pointing_union"] == pytest.approx(scores["pointing"], abs=0.01)
    assert scores["baseline_image_centre"] == pytest.approx(0.579, abs=5e-4)
