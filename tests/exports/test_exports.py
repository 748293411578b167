"""Every format keeps what it says it keeps: written, read back, compared. And nothing is written outside its folder."""

import csv
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis import boxes as geometry
from deixis import data
from deixis.data.reading import BadRecord
from deixis.data.report import inspect
from deixis.data.sample import Caption, Dataset, Sample
from deixis.errors import DeixisError
from deixis.exports import FILES, FORMATS, add_files, add_to_captions, read, write
from deixis.exports.picture import (
    Answer,
    Picture,
    PictureBuilder,
    file_names,
    find_words,
    place,
    text_and_spans,
    with_size,
)
from deixis.photographs import Photographs
from deixis.types import GroundedCaption, Grounding, HeatMap

DOG = Grounding("dog", (10.25, 20.0, 59.5, 79.75), 0.75, 2, 3, parts=((10.25, 20.0, 30.0, 40.0),))
BOY = Grounding("boys", (0.0, 0.0, 100.0, 80.0), 0.5, 6, 7)
SAID = GroundedCaption(
    ("a", "brown", "dog", "and", "the", "two", "boys"),
    (DOG, BOY),
    logprob=-3.5,
    image="beach.jpg",
    width=100,
    height=80,
    model="da",
    caption="A brown dog, and the two boys.",
)
BARE = GroundedCaption(("nothing", "here"), (), -1.0, "мост.png", 64, 48, "da")
HAT = Answer(
    Grounding("a red hat", (5.0, 5.0, 20.0, 15.0), 0.25, point=(7.0, 8.0), heat=HeatMap(np.eye(2), (64, 48))), "reir"
)
MENTION = Answer(Grounding("two old shoes", (1.0, 2.0, 3.0, 4.0), 0.125), "scan", caption=2, start=4)
PICTURES = [
    Picture("beach.jpg", (100, 80), (SAID,)),
    Picture("мост.png", (64, 48), (BARE,), (HAT, MENTION)),
]


def there_and_back(pictures, format, tmp_path, **options):
    out = tmp_path / f"out{FILES.get(format, '')}"
    assert write(pictures, format, out, **options) == []
    skipped = []
    back = read(out, skipped)
    assert skipped == []
    return back


def without(picture: Picture, *lost: str) -> Picture:
    """What is left of a picture in a format that loses something: parts, marks (point, heat), logprob."""

    def kept(g: Grounding) -> Grounding:
        g = replace(g, parts=()) if "parts" in lost else g
        return replace(g, point=None, heat=None) if "marks" in lost else g

    captions = tuple(
        replace(c, groundings=tuple(map(kept, c.groundings)), logprob=None if "logprob" in lost else c.logprob)
        for c in picture.captions
    )
    answers = tuple(replace(a, grounding=kept(a.grounding)) for a in picture.answers)
    return replace(picture, captions=captions, answers=answers)


def whole(grounding: Grounding) -> Grounding:
    """With its box on the pixel grid, and what the XML formats have no place for gone."""
    x1, y1, x2, y2 = np.round(grounding.box)
    return Grounding(grounding.text, (x1, y1, x2, y2), 1.0, grounding.start, grounding.end)


# Round trips --------------------------------------------------------------------------------------------------------


def test_json_lines_lose_nothing(tmp_path):
    # an answer without a point comes back with that of its box, which is what it means
    pointed = replace(MENTION, grounding=replace(MENTION.grounding, point=(2.0, 3.0)))
    expected = [PICTURES[0], replace(PICTURES[1], answers=(HAT, pointed))]
    assert there_and_back(PICTURES, "jsonl", tmp_path) == expected


def test_csv_loses_parts_points_and_heat(tmp_path):
    expected = [without(picture, "parts", "marks") for picture in PICTURES]
    assert there_and_back(PICTURES, "csv", tmp_path) == expected


def test_coco_loses_parts_points_and_heat(tmp_path):
    expected = [without(picture, "parts", "marks") for picture in PICTURES]
    assert there_and_back(PICTURES, "coco", tmp_path) == expected


def test_label_studio_loses_the_logprob_too(tmp_path):
    back = there_and_back(PICTURES, "label-studio", tmp_path)
    expected = [without(picture, "parts", "marks", "logprob") for picture in PICTURES]
    for picture, wanted in zip(back, expected, strict=True):
        boxes = [g.box for g in picture.places()]
        assert np.allclose(boxes, [g.box for g in wanted.places()], atol=1e-9)  # per cent and back
        assert _unboxed(picture) == _unboxed(wanted)


def _unboxed(picture: Picture) -> Picture:
    """With every box 0."""
    nowhere = (0.0, 0.0, 0.0, 0.0)
    captions = tuple(
        replace(c, groundings=tuple(replace(g, box=nowhere) for g in c.groundings)) for c in picture.captions
    )
    answers = tuple(replace(a, grounding=replace(a.grounding, box=nowhere)) for a in picture.answers)
    return replace(picture, captions=captions, answers=answers)


def test_flickr30k_entities_keep_captions_and_whole_pixels(tmp_path):
    first, second = there_and_back(PICTURES, "flickr30k-entities", tmp_path)
    plain = replace(SAID, image="beach", logprob=None, model="", groundings=(whole(DOG), whole(BOY)))
    assert first == Picture("beach", (100, 80), (plain,))
    assert [caption.caption for caption in second.captions] == ["nothing here", "a red hat", "two old shoes"]
    assert [g.box for g in second.places()] == [(5, 5, 20, 15), (1, 2, 3, 4)]
    assert second.answers == ()  # a phrase without a caption is a sentence by itself there


def test_pascal_voc_keeps_nouns_and_whole_pixels(tmp_path):
    first, second = there_and_back(PICTURES, "pascal-voc", tmp_path)
    assert first == Picture(
        "beach.jpg",
        (100, 80),
        answers=(
            Answer(Grounding("dog", (10.0, 20.0, 60.0, 80.0), 1.0)),
            Answer(Grounding("boy", (0.0, 0.0, 100.0, 80.0), 1.0)),
        ),
    )
    assert (second.image, [answer.grounding.text for answer in second.answers]) == ("мост.png", ["hat", "shoe"])


@pytest.mark.parametrize("format", ["jsonl", "csv", "coco", "label-studio", "flickr30k-entities"])
def test_several_captions_of_an_image_stay_apart(tmp_path, format):
    second = replace(SAID, groundings=(BOY,), logprob=-9.0)  # of the very same words
    [back] = there_and_back([Picture("beach.jpg", (100, 80), (SAID, second, SAID))], format, tmp_path)
    texts = [[g.text for g in caption.groundings] for caption in back.captions]
    assert texts == [["dog", "boys"], ["boys"], ["dog", "boys"]]


@pytest.mark.parametrize("format", FORMATS)
def test_twice_is_the_same_as_once(tmp_path, format):
    once = there_and_back(PICTURES, format, tmp_path / "1")
    again = there_and_back(once, format, tmp_path / "2")
    if format != "label-studio":  # whose boxes are per cent: compared above, to 1e-9
        assert again == once
    assert [p.image for p in again] == [p.image for p in once]


# What readers of the formats see ------------------------------------------------------------------------------------


def test_the_loader_reads_exported_flickr30k_entities(tmp_path):
    write(PICTURES, "flickr30k-entities", tmp_path, split="val")
    (tmp_path / "flickr30k-images").mkdir()
    report = inspect(tmp_path)
    assert report.dataset == "flickr30k_entities"
    counts = report.splits["val"]
    assert (counts.images, counts.captions, counts.phrases, counts.boxes) == (2, 4, 4, 4)
    assert all("expected 5 captions" in note.reason for note in report.skipped)
    sample = data.load(tmp_path, "val")[0]
    assert sample.captions[0].tokens == SAID.words
    assert (tmp_path / "Sentences/beach.txt").read_text() == (
        "A brown [/EN#1/other dog], and the two [/EN#2/other boys].\n"
    )
    box = "<xmin>11</xmin>\n      <ymin>21</ymin>\n      <xmax>60</xmax>\n      <ymax>80</ymax>"
    assert box in (tmp_path / "Annotations/beach.xml").read_text()  # from 1, both ends included


def test_the_loader_reads_exported_coco(tmp_path):
    pictures = [replace(PICTURES[0], image="000000000139.jpg"), replace(PICTURES[1], image="7.png")]
    write(pictures, "coco", tmp_path)
    dataset = data.load(tmp_path, "val2017")
    assert dataset.skipped == ()
    assert [sample.image_id for sample in dataset] == ["139", "7"]
    entities = dataset[0].entities
    assert [entity.label for entity in entities] == ["dog", "boy"]
    assert np.allclose(entities[0].boxes, [DOG.box])
    content = json.loads((tmp_path / "annotations/instances_val2017.json").read_text())
    assert content["annotations"][0]["bbox"] == [10.25, 20.0, 49.25, 59.75]
    assert {category["name"] for category in content["categories"]} == {"dog", "boy", "hat", "shoe"}


def test_names_that_are_not_all_numbers_count_from_one(tmp_path):
    write([PICTURES[0], replace(PICTURES[1], image="7.png")], "coco", tmp_path)
    content = json.loads((tmp_path / "annotations/captions_val2017.json").read_text())
    assert [(image["id"], image["file_name"]) for image in content["images"]] == [(1, "beach.jpg"), (2, "7.png")]


def test_label_studio_has_per_cent_and_an_interface_with_every_label(tmp_path):
    write(PICTURES, "label-studio", tmp_path, prefix="/data/local-files/?d=photos/")
    first, _, reir, scan = json.loads((tmp_path / "tasks.json").read_text())
    assert first["data"]["image"] == "/data/local-files/?d=photos/beach.jpg"
    sentence, dog, _ = first["predictions"][0]["result"]
    assert sentence["value"]["text"] == ["A brown dog, and the two boys."]
    assert (dog["original_width"], dog["original_height"]) == (100, 80)
    value = dog["value"]
    assert (value["x"], value["y"], value["width"], value["height"]) == pytest.approx((10.25, 25.0, 49.25, 74.6875))
    assert first["predictions"][0]["score"] == 0.625
    for task, model in ((reir, "reir"), (scan, "scan")):
        [prediction] = task["predictions"]
        assert prediction["model_version"] == model
        assert [item["type"] for item in prediction["result"]] == ["rectanglelabels"]
    config = (tmp_path / "config.xml").read_text()
    assert all(f'<Label value="{noun}"' in config for noun in ("dog", "boy", "hat", "shoe"))


def test_what_people_corrected_in_label_studio_comes_back(tmp_path):
    write(PICTURES[:1], "label-studio", tmp_path)
    [task] = json.loads((tmp_path / "tasks.json").read_text())
    result = task["predictions"][0]["result"]
    result[0]["value"]["text"] = ["Look: a brown dog and a tree."]  # another sentence, where the dog stands elsewhere
    result[1]["value"] |= {"x": 50.0, "width": 25.0}
    result[2]["value"]["rectanglelabels"] = ["tree"]  # no boys
    drawn = {"x": 0.0, "y": 0.0, "width": 10.0, "height": 10.0, "rotation": 0}
    result.append({**result[1], "value": drawn | {"rectanglelabels": ["cloud"]}, "meta": None, "score": None})
    exported = {"data": {"image": "/data/upload/1/beach%20%E2%98%80.jpg"}, "predictions": [3]}
    exported["annotations"] = [{"result": result}, {"result": [], "was_cancelled": True}]
    path = tmp_path / "project-1.json"
    path.write_text(json.dumps([exported]))
    skipped = []
    [picture] = read(path, skipped)
    assert skipped == []
    assert picture.image == "beach ☀.jpg"
    [caption] = picture.captions
    dog, tree = caption.groundings
    assert (dog.text, dog.start, dog.end) == ("dog", 3, 4)
    assert dog.box == pytest.approx((50, 20, 75, 79.75))
    assert (tree.text, tree.start, tree.box) == ("tree", 6, BOY.box)
    [cloud] = picture.answers  # not in the sentence
    assert (cloud.grounding.text, cloud.grounding.score) == ("cloud", 1.0)


def test_a_turned_rectangle_is_named(tmp_path):
    write(PICTURES[:1], "label-studio", tmp_path)
    path = tmp_path / "tasks.json"
    tasks = json.loads(path.read_text())
    tasks[0]["predictions"][0]["result"][1]["value"]["rotation"] = 30
    path.write_text(json.dumps(tasks))
    skipped = []
    assert read(path, skipped) == []
    assert "task 0: a rotated rectangle" in str(skipped[0])


# Names and paths ----------------------------------------------------------------------------------------------------

EVIL = ("../../x.jpg", "/etc/passwd", "..", "a\0b.jpg", "x\n.jpg", "C:\\photos\\1.jpg", "d/1.jpg", "D/1.JPG", "1.png")


@pytest.mark.parametrize("format", FORMATS)
def test_no_image_name_leads_out_of_the_folder(tmp_path, format):
    pictures = [replace(PICTURES[0], image=name, captions=(replace(SAID, image=name),)) for name in EVIL]
    out = tmp_path / "inner" / f"out{FILES.get(format, '')}"
    write(pictures, format, out)
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert files
    assert all(path == out or out in path.parents for path in files)
    if format in ("flickr30k-entities", "pascal-voc"):
        assert len([path for path in files if path.suffix == ".xml"]) == len(EVIL)
    names = [picture.image for picture in read(out, [])]
    assert len(names) == len(EVIL)
    if format not in ("flickr30k-entities", "pascal-voc"):  # whose names are those of files
        assert names == list(EVIL)


def test_file_names_are_plain_and_never_the_same():
    names = file_names([Picture(name) for name in (*EVIL, "я" * 300 + ".jpg")])
    assert len({name.casefold() for name in names.values()}) == len(names)
    assert all("/" not in name and "\\" not in name and name not in (".", "..") for name in names.values())
    assert all(len(name.encode()) < 255 for name in names.values())
    assert names["../../x.jpg"] == "x.jpg"
    assert names["d/1.jpg"] == "d_1.jpg"


def test_an_unknown_size_is_named_where_it_is_needed(tmp_path):
    picture = Picture("x", None, (replace(SAID, image="x", width=0, height=0),))
    for format in ("coco", "label-studio", "pascal-voc"):
        [note] = write([picture], format, tmp_path / format)
        assert "unknown image size" in str(note)
    assert there_and_back([picture], "flickr30k-entities", tmp_path)[0].size is None
    assert there_and_back([picture], "csv", tmp_path) == [without(picture, "parts")]


def test_photographs_tell_sizes_and_file_names(tmp_path):
    from PIL import Image

    (tmp_path / "a").mkdir()
    Image.new("RGB", (30, 20)).save(tmp_path / "a" / "17.jpg")
    caption = GroundedCaption(("dog",), (Grounding("dog", (1.0, 2.0, 3.0, 4.0), 1.0, 0, 1),), image="17")
    [picture] = add_files([Picture("17", None, (caption,))], Photographs(tmp_path), [])
    assert (picture.size, picture.file, picture.captions[0].height) == ((30, 20), "a/17.jpg", 20)
    write([picture], "label-studio", tmp_path / "out", prefix="p/")
    assert json.loads((tmp_path / "out/tasks.json").read_text())[0]["data"]["image"] == "p/a/17.jpg"


# Words --------------------------------------------------------------------------------------------------------------


def test_marked_phrases_cannot_share_words(tmp_path):
    crossing = Grounding("dog and", (0.0, 0.0, 9.0, 9.0), 0.5, 2, 4)
    notes = write([Picture("x", None, (replace(SAID, groundings=(crossing, DOG)),))], "flickr30k-entities", tmp_path)
    assert [note.reason for note in notes] == ["'dog' overlaps 'dog and'; this format has no overlapping phrases"]
    assert "[/EN#1/other dog, and] the" in (tmp_path / "Sentences/x.txt").read_text()


def test_brackets_and_line_breaks_do_not_break_the_markup(tmp_path):
    caption = GroundedCaption(
        ("-lsb-", "a", "-rsb-", "dog"), (Grounding("dog", (0.0, 0.0, 9.0, 9.0), 0.5, 3, 4),), caption="[a]\ndog"
    )
    write([Picture("x", None, (caption,))], "flickr30k-entities", tmp_path)
    assert (tmp_path / "Sentences/x.txt").read_text() == "(a) [/EN#1/other dog]\n"


def test_words_of_another_tokeniser_keep_their_places():
    odd = GroundedCaption(("a", "t-shirt's", "ok.", "hat"), (Grounding("hat", (0.0, 0.0, 1.0, 1.0), 1.0, 3, 4),))
    text, places = text_and_spans(odd)
    assert [text[slice(*place)] for place in places] == list(odd.words)
    text, places = text_and_spans(SAID)
    assert text == SAID.caption
    assert text[slice(*places[2])] == "dog"


@pytest.mark.parametrize("format", ["csv", "coco", "label-studio", "flickr30k-entities"])
def test_words_that_are_not_those_of_the_text_are_written_instead(tmp_path, format):
    said = GroundedCaption(("one", "dog"), (replace(DOG, start=1, end=2),), caption="A completely other text.")
    picture = with_size(Picture("x", None, (replace(said, image="x"),)), (100, 80))
    [back] = there_and_back([picture], format, tmp_path)
    [caption] = back.captions
    assert (caption.words, caption.caption) == (said.words, "one dog")
    assert (caption.groundings[0].start, caption.groundings[0].end) == (1, 2)


def test_a_place_that_a_file_tells_counts_unless_the_words_stand_elsewhere():
    words = ("a", "big", "dog", "and", "a", "dog")
    assert (place(DOG, words, 5, 6).start, place(DOG, words, 1, 2).start) == (5, 2)
    assert place(DOG, words, 2, 4).end == 4  # a longer span that begins with the word
    puppy = replace(DOG, text="puppy")
    assert place(puppy, words, 1, 3).start == 1
    with pytest.raises(BadRecord, match="'puppy' is not in the 6 words"):
        place(puppy, words, 5, 7)


def test_finding_words():
    words = ("a", "man", "and", "a", "man")
    assert find_words(words, "A man") == (0, 2)
    assert find_words(words, "a man", 3) == (3, 5)
    assert find_words(words, "a man", 1) == (0, 2)
    assert find_words(words, "woman") is None
    assert find_words(words, "...") is None


def test_answers_go_into_the_captions_of_a_data_set():
    text = "A man and a man with hats"
    tokens = tuple(text.lower().split())
    samples = (Sample("1", (Caption(text, tokens), Caption("a hat", ("a", "hat"))), Path("1.jpg"), size=(50, 40)),)

    def answer(phrase, x, caption=None, start=None):
        return Answer(Grounding(phrase, (x, 0.0, 9.0, 9.0), 0.5), "scan", caption, start)

    answers = (answer("a man", 0.0, 0, 3), answer("hats", 1.0), answer("a hat", 2.0), answer("a tree", 3.0))
    [picture] = add_to_captions([Picture("1.jpg", None, (), answers)], Dataset("pairs", "test", samples))
    first, second = picture.captions
    assert [(g.text, g.start, g.end, g.box[0]) for g in first.groundings] == [("a man", 3, 5, 0.0), ("hats", 6, 7, 1.0)]
    assert [(g.text, g.start, g.end, g.box[0]) for g in second.groundings] == [("a hat", 0, 2, 2.0)]
    assert (first.caption, first.width, first.model) == (text, 50, "scan")
    assert picture.answers == (answers[3],)


# Bad input ----------------------------------------------------------------------------------------------------------


def test_bad_lines_are_named_and_the_others_read(tmp_path):
    good = json.dumps(SAID.to_json())
    outside = SAID.to_json() | {"groundings": [{**DOG.to_json(), "box": [200, 0, 210, 10]}]}
    lines = [
        good,
        "{broken",
        json.dumps({"image": "x", "words": ["a"]}),
        json.dumps(outside),
        json.dumps({"phrase": "a dog", "box": [0, 0, 5, 5]}),
        json.dumps({"image": "x", "phrase": "a dog", "box": [0, 0, 5, None]}),
        json.dumps(SAID.to_json() | {"width": 99}),
        json.dumps(SAID.to_json() | {"groundings": [{**DOG.to_json(), "heat": 3}]}),
        json.dumps({"image": "x", "phrase": "a dog", "box": [0, 0, 5, 5], "start": -1}),
        json.dumps(SAID.to_json() | {"caption": "half a \ud83d"}),
        json.dumps(SAID.to_json() | {"width": "100"}),
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(lines))
    skipped = []
    assert read(path, skipped) == [PICTURES[0]]
    assert sorted(note.line for note in skipped) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    told = "\n".join(map(str, skipped))
    assert "'dog': the box from (200, 0) to (210, 10) is empty or outside the image" in told
    assert "Set --image" in told
    assert "beach.jpg has size 99 x 80 here, but 100 x 80 in an earlier record" in told


def test_records_without_an_image_are_of_the_one_that_is_named(tmp_path):
    path = tmp_path / "found.jsonl"
    path.write_text(json.dumps(HAT.grounding.to_phrase_json("reir")))
    [picture] = read(path, [], image="photos/мост.png")
    assert picture == Picture("photos/мост.png", None, (), (HAT,))


ODD = (None, True, -1, 0, 10**30, "", "x", [], {}, [1], {"a": 1}, [[]], "../x")


def _spoilt(value, dice):
    """The document with one thing in it left out or replaced by something that does not belong there."""
    if not isinstance(value, dict | list) or not value or dice.random() < 0.1:
        return dice.choice(ODD)
    copy = value.copy()
    key = dice.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
    if dice.random() < 0.15:
        del copy[key]
    else:
        copy[key] = _spoilt(copy[key], dice)
    return copy


@pytest.mark.parametrize("format", ["jsonl", "coco", "label-studio"])
def test_whatever_is_wrong_with_json_is_a_sentence(tmp_path, format):
    out = tmp_path / f"out{FILES.get(format, '')}"
    write(PICTURES, format, out)
    files = sorted(out.rglob("*.json")) if out.is_dir() else [out]
    dice = random.Random(5)
    troubles = 0
    for _ in range(150):
        path = dice.choice(files)
        before = path.read_text()
        lines = before.splitlines() if format == "jsonl" else [before]
        at = dice.randrange(len(lines))
        lines[at] = json.dumps(_spoilt(json.loads(lines[at]), dice))
        path.write_text("\n".join(lines))
        skipped = []
        try:
            read(out, skipped)
        except DeixisError:
            troubles += 1
        troubles += bool(skipped)
        path.write_text(before)
    assert troubles > 50  # and no other exception


def test_bad_rows_of_a_table_are_named(tmp_path):
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption", "phrase", "start", "end", "x1", "y1", "x2", "y2"])
        writer.writerow(["1.jpg", "a dog", "dog", 1, 2, 0, 0, 5, 5])
        writer.writerow(["1.jpg", "a dog", "cat", 1, 3, 0, 0, 5, 5])
        writer.writerow(["1.jpg", "", "dog", "", "", 0, 0, "nan", 5])
        writer.writerow(["", "", "dog", "", "", 0, 0, 5, 5])
        writer.writerow(["2.jpg", "", "cat", "", "", 5, 0, 1, 5])
    skipped = []
    [first, second] = read(path, skipped)
    assert first.captions[0].groundings == (Grounding("dog", (0, 0, 5, 5), 1.0, 1, 2),)
    assert second == Picture("2.jpg")
    assert [note.line for note in skipped] == [3, 4, 5, 6]


def test_other_peoples_xml(tmp_path):
    (tmp_path / "Annotations").mkdir()
    sound = "<object><name>dog</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>4</ymax></bndbox></object>"
    (tmp_path / "Annotations/a.xml").write_text(f"<annotation>{sound}<object><name>x</name></object></annotation>")
    (tmp_path / "Annotations/b.xml").write_text("<annotation>")
    skipped = []
    [picture] = read(tmp_path, skipped)
    assert picture == Picture("a", None, (), (Answer(Grounding("dog", (0, 0, 5, 4), 1.0)),))
    assert ["a.xml" in note.file for note in skipped] == [True, False]


def test_outputs_of_other_models(tmp_path):
    path = tmp_path / "kosmos.json"
    output = ["a dog on grass", [["a dog", [0, 5], [[0.1, 0.2, 0.5, 0.8]]]]]
    record = {"image": "1.jpg", "width": 100, "height": 50, "caption": output[0], "entities": output[1]}
    path.write_text(json.dumps([record]))
    [picture] = read(path, [])
    assert picture.captions[0].groundings[0].box == (10.0, 10.0, 50.0, 40.0)
    path.write_text(json.dumps({"results": {"1": [{"clss": [], "idx_in_sent": [], "bbox": []}]}}))
    with pytest.raises(DeixisError, match="has classes instead of words"):
        read(path, [])


def test_album_takes_the_size_from_whoever_tells_it():
    builder = PictureBuilder()
    builder.add_caption(replace(SAID, width=0, height=0))
    builder.add_answer("beach.jpg", HAT, (100, 80))
    [picture] = builder.pictures()
    assert (picture.size, picture.captions[0].width) == ((100, 80), 100)


def test_whole_pixels():
    boxes = geometry.to_whole_pixels([[0.4, 0.6, 0.3, 9.5], [9.9, 9.9, 12.0, 12.0], [2.0, 3.0, 4.0, 5.0]], 10, 10)
    assert boxes.tolist() == [[0, 1, 1, 10], [9, 9, 10, 10], [2, 3, 4, 5]]
    assert geometry.to_whole_pixels([1.2, 1.2, 400.6, 5.0]).tolist() == [1, 1, 401, 5]
