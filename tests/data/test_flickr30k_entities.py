"""Flickr30k Entities from small files in the official format, good and bad."""

from pathlib import Path

import numpy as np
import pytest

from deixis.data import flickr30k_entities as flickr
from deixis.data.reading import BadRecord
from deixis.errors import DeixisError

CAPTIONS = [
    "[/EN#1/people A man] and [/EN#2/people/other his friends] wear [/EN#3/clothing hats] .",
    "[/EN#1/people The man] looks at [/EN#0/notvisual something] far away .",
    "[/EN#2/people Friends] of [/EN#1/people a man] .",
    "Nothing is marked here .",
    "[/EN#4/scene A busy street] , [/EN#3/clothing two straw hats] .",
]

XML = """<annotation>
  <filename>7.jpg</filename>
  <size><width>100</width><height>50</height><depth>3</depth></size>
  <object>
    <name>1</name>
    <bndbox><xmin>1</xmin><ymin>1</ymin><xmax>100</xmax><ymax>50</ymax></bndbox>
  </object>
  <object>
    <name>2</name>
    <name>3</name>
    <bndbox><xmin>11</xmin><ymin>21</ymin><xmax>11</xmax><ymax>30</ymax></bndbox>
  </object>
  <object>
    <name>3</name>
    <bndbox><xmin>2</xmin><ymin>3</ymin><xmax>4</xmax><ymax>5</ymax></bndbox>
  </object>
  <object>
    <name>4</name>
    <scene>1</scene>
    <nobndbox>0</nobndbox>
  </object>
</annotation>
"""


def build(root: Path, captions: dict[str, list[str]], xml: dict[str, str] | None = None, **lists: list[str]) -> Path:
    """A folder in the official layout; every image is in train unless lists say otherwise."""
    (root / "Sentences").mkdir()
    (root / "Annotations").mkdir()
    (root / "flickr30k-images").mkdir()
    for image_id, lines in captions.items():
        (root / "Sentences" / f"{image_id}.txt").write_text("\n".join(lines) + "\n")
    for image_id, text in (xml or {}).items():
        (root / "Annotations" / f"{image_id}.xml").write_text(text)
    for split, ids in (lists or {"train": list(captions)}).items():
        (root / f"{split}.txt").write_text("\n".join(ids) + "\n")
    return root


def told(dataset) -> list[tuple[str, int | None, str]]:
    return [(Path(entry.file).name, entry.line, entry.reason) for entry in dataset.skipped]


def test_captions_phrases_and_chains(tmp_path):
    dataset = flickr.load(build(tmp_path, {"7": CAPTIONS}, {"7": XML}), "train")
    assert not dataset.skipped
    (sample,) = dataset
    assert (sample.image_id, sample.size) == ("7", (100, 50))
    assert sample.path == tmp_path / "flickr30k-images" / "7.jpg"
    first = sample.captions[0]
    assert first.text == "A man and his friends wear hats ."
    assert first.tokens == ("a", "man", "and", "his", "friends", "wear", "hats")
    friends = first.phrases[1]
    assert (friends.text, friends.entity, friends.types) == ("his friends", "2", ("people", "other"))
    assert first.tokens[friends.start : friends.end] == ("his", "friends")
    assert friends.head == ""
    for caption in sample.captions:
        for phrase in caption.phrases:
            assert " ".join(caption.tokens[phrase.start : phrase.end]) == phrase.text.lower()
    assert sample.captions[3].phrases == ()


def test_chain_0_is_not_an_entity(tmp_path):
    (sample,) = flickr.load(build(tmp_path, {"7": CAPTIONS}, {"7": XML}), "train")
    phrase = sample.captions[1].phrases[1]
    assert (phrase.text, phrase.entity, phrase.types) == ("something", None, ("notvisual",))
    assert [entity.id for entity in sample.entities] == ["1", "2", "3", "4"]


def test_boxes_become_zero_based_and_end_exclusive(tmp_path):
    (sample,) = flickr.load(build(tmp_path, {"7": CAPTIONS}, {"7": XML}), "train")
    np.testing.assert_array_equal(sample.entity("1").boxes, [[0, 0, 100, 50]])
    np.testing.assert_array_equal(sample.entity("2").boxes, [[10, 20, 11, 30]])
    np.testing.assert_array_equal(sample.entity("3").boxes, [[10, 20, 11, 30], [1, 2, 4, 5]])
    street = sample.entity("4")
    assert street.boxes.shape == (0, 4)
    assert street.scene
    assert not street.no_box
    assert sample.entity("2").types == ("people", "other")


def test_an_image_without_xml_has_entities_and_no_boxes(tmp_path):
    dataset = flickr.load(build(tmp_path, {"7": CAPTIONS}), "train")
    assert not dataset.skipped
    assert dataset[0].size is None
    assert [len(entity.boxes) for entity in dataset[0].entities] == [0, 0, 0, 0]


def test_a_thing_that_nobody_could_box(tmp_path):
    xml = "<annotation><object><name>1</name><scene>0</scene><nobndbox>1</nobndbox></object></annotation>"
    (sample,) = flickr.load(build(tmp_path, {"7": CAPTIONS}, {"7": xml}), "train")
    assert sample.entity("1").no_box
    assert not sample.entity("1").scene


def test_unrelated_captions_are_left_out_without_complaint(tmp_path):
    root = build(tmp_path, {"7": CAPTIONS}, {"7": XML})
    (root / "UNRELATED_CAPTIONS").write_text("# format: image, caption\n7 5\n8 1\nseven\n")
    dataset = flickr.load(root, "train")
    (sample,) = dataset
    assert [caption.text[:4] for caption in sample.captions] == ["A ma", "The ", "Frie", "Noth"]
    assert sample.entity("4") is not None  # only the fifth caption speaks of it, and the annotation may
    assert told(dataset) == [("UNRELATED_CAPTIONS", 4, "expected an image id and a caption number")]


def test_split_lists_keep_their_order_and_name_doubles(tmp_path):
    captions = {"2": CAPTIONS, "1": CAPTIONS, "3": CAPTIONS}
    root = build(tmp_path, captions, train=["2", "1", "2", "", "../1", "9"], test=["3"])
    assert flickr.splits(root) == ("train", "test")
    dataset = flickr.load(root, "train")
    assert [sample.image_id for sample in dataset] == ["2", "1"]
    assert told(dataset) == [
        ("train.txt", 3, "duplicate image 2"),
        ("train.txt", 5, "'../1' is not a file name without a folder"),
        ("train.txt", 6, "image 9 has no captions (Sentences/9.txt is missing)"),
    ]
    with pytest.raises(DeixisError, match=r"val\.txt does not exist. Available: train, test"):
        flickr.load(root, "val")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[/EN#1/people A man] holds [/EN#2/other a cup .", "'\\[/EN#2/other a cup .' at column 28: unclosed"),
        ("[/EN#1/people A man [/EN#2/other a cup] .", "at column 1: unclosed"),
        ("A man] holds a cup .", "unmatched ']' at column 6"),
        ("[/EN#1/people] holds a cup .", "unclosed, or without chain and type"),
        ("[/EN#x/people A man] holds a cup .", "unclosed, or without chain and type"),
        ("[A man] holds a cup .", "unclosed, or without chain and type"),
        ("[/EN#1/people  ] holds a cup .", "unclosed, or without chain and type"),
        ("   ", "empty"),
    ],
)
def test_bad_markup_is_named(line, says):
    with pytest.raises(BadRecord, match=says):
        flickr.parse_caption(line)


def test_one_bad_caption_does_not_hide_the_others(tmp_path):
    broken = [*CAPTIONS[:2], "[/EN#5/other A cup", *CAPTIONS[3:]]
    xml = XML.replace("<name>4</name>", "<name>5</name>")
    dataset = flickr.load(build(tmp_path, {"7": broken, "8": CAPTIONS}, {"7": xml}), "train")
    assert [len(sample.captions) for sample in dataset] == [4, 5]
    (entry,) = told(dataset)  # chain 5 is known although its caption could not be read
    assert entry[:2] == ("7.txt", 3)


def test_a_wrong_number_of_captions_is_told_and_used(tmp_path):
    dataset = flickr.load(build(tmp_path, {"7": CAPTIONS[:4], "8": ["[/EN#1/other x"] * 5}), "train")
    assert [len(sample.captions) for sample in dataset] == [4]
    assert ("7.txt", None, "expected 5 captions, found 4; these are used") in told(dataset)
    assert ("train.txt", 2, "image 8 has no usable caption") in told(dataset)


def box(x1, y1, x2, y2) -> str:
    return f"<bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox>"


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (f"<name>1</name>{box(50, 10, 20, 30)}", "invalid box 50, 10, 20, 30: xmax < xmin or ymax < ymin"),
        (
            f"<name>1</name>{box(101, 10, 120, 30)}",
            "the box 101, 10, 120, 30 is outside the image of 100 x 50 pixels",
        ),
        (f"<name>99</name>{box(1, 1, 2, 2)}", "chain 99 is not in any caption"),
        (f"<name>1</name>{box(1, 1, 2, 'wide')}", "<ymax> is 'wide'. Expected a number"),
        (f"<name>1</name>{box(1, 1, 2, 'nan')}", "<ymax> is 'nan'. Expected a number"),
        ("<name>1</name><bndbox><xmin>1</xmin></bndbox>", "<bndbox> has no <ymin>"),
        ("<name>1</name>", "<object> has no <bndbox>, and neither <scene> nor <nobndbox> is 1"),
        (box(1, 1, 2, 2), "<object> has no <name>"),
    ],
)
def test_a_bad_object_is_named_and_the_others_stay(tmp_path, thing, says):
    xml = XML.replace("</annotation>", f"  <object>{thing}</object>\n</annotation>")
    dataset = flickr.load(build(tmp_path, {"7": CAPTIONS}, {"7": xml}), "train")
    assert told(dataset) == [("7.xml", 22, says)]
    assert [len(entity.boxes) for entity in dataset[0].entities] == [1, 1, 2, 0]


def test_a_box_that_reaches_over_the_edge_is_cut(tmp_path):
    xml = XML.replace("<xmax>100</xmax>", "<xmax>130</xmax>")
    dataset = flickr.load(build(tmp_path, {"7": CAPTIONS}, {"7": xml}), "train")
    assert not dataset.skipped
    np.testing.assert_array_equal(dataset[0].entity("1").boxes, [[0, 0, 100, 50]])


def test_broken_xml_costs_the_boxes_of_one_image(tmp_path):
    xml = {"7": XML.replace("</annotation>", ""), "8": XML, "9": XML.replace("<width>100", "<width>0")}
    dataset = flickr.load(build(tmp_path, {"7": CAPTIONS, "8": CAPTIONS, "9": CAPTIONS}, xml), "train")
    assert [sum(len(entity.boxes) for entity in sample.entities) for sample in dataset] == [0, 4, 4]
    assert told(dataset) == [
        ("7.xml", 23, "not well-formed XML (no element found)"),
        ("9.xml", 3, "invalid image size 0 x 50"),
    ]


def test_a_file_in_another_encoding_costs_one_image(tmp_path):
    root = build(tmp_path, {"7": CAPTIONS, "8": CAPTIONS})
    (root / "Sentences" / "7.txt").write_bytes("A café .\n".encode("latin-1"))
    dataset = flickr.load(root, "train")
    assert [sample.image_id for sample in dataset] == ["8"]
    assert told(dataset) == [("7.txt", 1, "not UTF-8 text")]


def test_recognise(tmp_path):
    assert not flickr.recognise(tmp_path)
    (tmp_path / "Sentences").mkdir()
    assert not flickr.recognise(tmp_path)
    (tmp_path / "val.txt").write_text("1\n")
    assert flickr.recognise(tmp_path)


def test_the_other_spelling_of_the_image_folder(tmp_path):
    root = build(tmp_path, {"7": CAPTIONS})
    (root / "flickr30k-images").rename(root / "flickr30k_images")
    assert flickr.load(root, "train")[0].path == root / "flickr30k_images" / "7.jpg"
    assert "flickr30k_images" in [entry.path for entry in flickr.expected(root)]
