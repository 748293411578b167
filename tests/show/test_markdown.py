"""Markdown tables and pages that have them between marks."""

from pathlib import Path

from deixis.show.markdown import between_marks, cell, markdown


def test_tables_stand_between_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table a -->\nold\n<!-- end of table a -->\nafter\n")
    between_marks(page, "new \\1", "a")
    between_marks(page, "second", "b")
    between_marks(page, "third", "b")
    assert page.read_text() == (
        "before\n<!-- table a -->\nnew \\1\n<!-- end of table a -->\nafter\n\n"
        "<!-- table b -->\nthird\n<!-- end of table b -->\n"
    )


def test_cells_and_rows() -> None:
    assert cell([1.0, 2.0, 6.0], 2) == "3.00 ± 2.65"
    assert cell([0.25]) == "0.2"
    assert markdown(["", "a"], [["x", 1], ["y", 2]]) == "|  | a |\n|---|---|\n| x | 1 |\n| y | 2 |"
