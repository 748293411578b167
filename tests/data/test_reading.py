"""Files that other people wrote: faults are named with file and line, and nothing dangerous is followed."""

import json
from pathlib import Path

import pytest

from deixis.data import reading
from deixis.data.reading import BadFile, BadRecord
from deixis.errors import DeixisError


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_text_has_no_byte_order_mark_and_one_kind_of_line_end(tmp_path):
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\n\r\n two\xe2\x80\xa8three \r\n")
    assert reading.read_lines(path) == [(1, "one"), (3, "two\u2028three")]


def test_text_that_is_not_utf8_names_its_line(tmp_path):
    path = write(tmp_path / "a.txt", b"fine\nna\xefve\n")
    with pytest.raises(BadFile, match=r"a\.txt, line 2: not UTF-8"):
        reading.read_lines(path)


def test_missing_and_too_large_files(tmp_path):
    with pytest.raises(DeixisError, match=r"none\.txt does not exist"):
        reading.read_text(tmp_path / "none.txt")
    with pytest.raises(BadFile, match="more than the limit of 3"):
        reading.read_text(write(tmp_path / "a.txt", "four"), limit=3)
    with pytest.raises(BadFile, match="cannot be read"):
        reading.read_text(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1,\n "b" 2}', r"line 2: not valid JSON .*column 6"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "not usable JSON"),
        ("9" * 5000, "not usable JSON"),
        ("", "line 1: not valid JSON"),
    ],
)
def test_bad_json_names_file_and_line(tmp_path, text, says):
    with pytest.raises(BadFile, match=f"bad.json.*{says}"):
        reading.read_json(write(tmp_path / "bad.json", text))


def test_json_members_are_dropped_at_any_depth(tmp_path):
    content = {"info": 1, "annotations": [{"id": 1, "segmentation": [[0.0, 1.0]]}]}
    path = write(tmp_path / "a.json", json.dumps(content))
    assert reading.read_json(path, drop=("info", "segmentation")) == {"annotations": [{"id": 1}]}
    assert reading.read_json(path) == content


def test_a_bad_json_line_does_not_hide_the_others(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"a": 1}\n{"a": \n\n[1]\n{"a": 2}\n')
    skipped = []
    assert list(reading.read_json_lines(path, skipped)) == [(1, {"a": 1}), (5, {"a": 2})]
    assert [(entry.line, entry.file) for entry in skipped] == [(2, str(path)), (4, str(path))]


def test_a_quote_that_never_closes_costs_one_line(tmp_path):
    text = 'Image, caption \na.jpg,"one\ntwo"\nb.jpg,"open\nc.jpg,"fine"\nd.jpg\n\ne.jpg,"last\n'
    skipped = []
    rows = list(reading.read_table(write(tmp_path / "a.csv", text), ",", skipped))
    assert rows == [(2, {"image": "a.jpg", "caption": "one\ntwo"}), (5, {"image": "c.jpg", "caption": "fine"})]
    assert [entry.line for entry in skipped] == [4, 6, 8]
    assert "expected 2 fields, as in the header, found 1" in skipped[1].reason


def test_xml_gives_elements_with_lines(tmp_path):
    path = write(tmp_path / "a.xml", "<a>\n<b>1</b>\n<b> 2.5 </b><c>x &amp; y</c><e/>\n</a>")
    root = reading.read_xml(path)
    assert (root.tag, root.line) == ("a", 1)
    assert [(node.text, node.line) for node in root.all("b")] == [("1", 2), (" 2.5 ", 3)]
    assert root.number("b") == 1.0
    assert root.flag("b")
    assert not root.flag("e")
    assert root.find("c").text == "x & y"
    with pytest.raises(BadRecord, match=r"<c> is 'x & y'. Expected a number"):
        root.number("c")
    with pytest.raises(BadRecord, match=r"<a> has no <z>"):
        root.number("z")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<a>\n<b></a>", r"line 2: not well-formed XML \(mismatched tag\)"),
        ("<a>\n\n", r"line 3: not well-formed"),
        ("", "not well-formed"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>\n<a>&b;</a>', "line 1: a document type declaration"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd">\n<a/>', "document type"),
        ("<a>" * 100 + "</a>" * 100, "nested more than"),
        ("<a>&undeclared;</a>", "not well-formed"),
    ],
)
def test_bad_xml_names_file_and_line_and_never_expands_entities(tmp_path, text, says):
    with pytest.raises(BadFile, match=f"bad.xml.*{says}"):
        reading.read_xml(write(tmp_path / "bad.xml", text))


def test_fields_of_a_record():
    record = {
        "n": 3,
        "f": 3.0,
        "t": " word ",
        "e": " ",
        "box": [1, 2.5, 3, 4],
        "flag": True,
        "none": None,
        "big": 1e400,
    }
    assert reading.get_int(record, "n") == reading.get_int(record, "f") == 3
    assert reading.get_text(record, "t") == "word"
    assert reading.get_numbers(record, "box", 4) == [1.0, 2.5, 3.0, 4.0]
    for call in (
        lambda: reading.get_int(record, "t"),
        lambda: reading.get_int(record, "flag"),
        lambda: reading.get_int(record, "big"),
        lambda: reading.get_int({"n": 10**400}, "n"),
        lambda: reading.get_int({"n": 1.5}, "n"),
        lambda: reading.get_int(record, "none"),
        lambda: reading.get_int([1], "n"),
        lambda: reading.get_text(record, "e"),
        lambda: reading.get_text(record, "n"),
        lambda: reading.get_text({"t": "\ud83d"}, "t"),
        lambda: reading.get_list(record, "t"),
        lambda: reading.get_numbers(record, "box", 2),
        lambda: reading.get_numbers({"box": [1, 2, 3, "4"]}, "box", 4),
        lambda: reading.get_numbers({"box": [1, 2, 3, float("nan")]}, "box", 4),
    ):
        with pytest.raises(BadRecord):
            call()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "/etc/passwd", "a\0"])
def test_a_plain_name_has_no_folder_in_it(name):
    with pytest.raises(BadRecord):
        reading.plain_name(name)
    assert reading.plain_name("..a b.jpg") == "..a b.jpg"


def test_paths_stay_inside_the_root(tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "secret.jpg").touch()
    (root / "sub" / "a.jpg").touch()
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "up").symlink_to(tmp_path)
    (root / "fine.jpg").symlink_to(root / "sub" / "a.jpg")

    assert reading.inside(root, "sub/a.jpg") == root / "sub" / "a.jpg"
    assert reading.inside(root, ".\\sub\\a.jpg") == root / "sub" / "a.jpg"
    assert reading.inside(root, str(root / "sub" / "a.jpg")) == root / "sub" / "a.jpg"
    assert reading.inside(root, "fine.jpg") == root / "fine.jpg"
    assert reading.inside(root, "absent.jpg") == root / "absent.jpg"
    for name in (
        "../secret.jpg",
        "sub/../../secret.jpg",
        "..\\secret.jpg",
        str(tmp_path / "secret.jpg"),
        "/etc/passwd",
    ):
        with pytest.raises(BadRecord):
            reading.inside(root, name)
    for name in ("link.jpg", "up/secret.jpg", "a\0b"):
        with pytest.raises(BadRecord):
            reading.inside(root, name)
