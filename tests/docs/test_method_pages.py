"""The pages of the methods: every pointer from an equation to a function is followed, every link exists."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

METHODS = Path(__file__).parents[2] / "src" / "deixis" / "methods"
TESTS = Path(__file__).parents[1] / "methods"
PAGES = sorted(METHODS.glob("*/README.md"))
PAPERS = ("DA", "POS-SCAN", "Cyclical", "ReIR", "AMC")
LAST = {"DA": 7, "POS-SCAN": 19, "Cyclical": 8, "ReIR": 17, "AMC": 9}  # number of the last equation of each paper

POINTER = re.compile(r"\[`[^`]+`\]\(([^)]+)\) `([\w.]+)`")
NUMBERS = r"\d+(?:(?:, | and | to )\d+)*"
MENTION = re.compile(rf"(?:({'|'.join(PAPERS)}),? )?Eq\. ({NUMBERS})")
PLACE = re.compile(r"(?:Sec\.|Table) [\d.]*\w")


@dataclass(frozen=True)
class Row:
    """A row of a table of equations."""

    page: Path
    equations: tuple[tuple[str, int], ...]  # paper and number
    places: tuple[str, ...]  # sections and tables of the paper
    file: Path
    name: str  # dotted: class and method, or function

    def __str__(self) -> str:
        return f"{self.page.parent.name}: {self.name}"


def numbers(text: str) -> set[int]:
    """Numbers of "4 to 6, 8": 4, 5, 6, 8."""
    found: set[int] = set()
    for part in re.split(r", | and ", text):
        first, _, last = part.partition(" to ")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def mentions(text: str) -> set[tuple[str, int]]:
    """Papers ("" where none is named) and numbers of the equations in a text."""
    found: set[tuple[str, int]] = set()
    paper = ""
    for match in MENTION.finditer(text):
        paper = match[1] or paper if text[: match.start()].endswith((", ", "; ")) else match[1] or ""
        found |= {(paper, number) for number in numbers(match[2])}
    return found


def rows(page: Path) -> Iterator[Row]:
    """Rows whose first cell names an equation, a section or a table, and whose last cell points at code."""
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        pointer = POINTER.fullmatch(cells[-1].removesuffix(" |").strip())
        if line.startswith("| ") and pointer:
            equations = tuple(sorted(mentions(cells[0].removeprefix("| "))))
            places = tuple(PLACE.findall(cells[0]))
            yield Row(page, equations, places, (page.parent / pointer[1]).resolve(), pointer[2])


ROWS = [row for page in PAGES for row in rows(page)]


def prose(file: Path) -> str:
    """Comments and docstrings of a Python file."""
    source = file.read_text(encoding="utf-8")
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    return "\n".join([*docstrings, *comments])


def definitions(file: Path) -> set[str]:
    """Functions, classes and methods of a Python file; methods with the name of their class."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_every_method_has_a_page_with_pointers() -> None:
    folders = {path.name for path in METHODS.iterdir() if (path / "network.py").is_file()}
    assert {page.parent.name for page in PAGES} == folders
    assert {row.page.parent.name for row in ROWS} == folders


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_pointer_leads_to_a_definition_that_names_its_equation(row: Row) -> None:
    assert row.equations or row.places, "a pointer without an equation"
    assert row.file.is_file()
    assert row.name in definitions(row.file)
    text = prose(row.file)
    named = mentions(text)
    header = ast.get_docstring(ast.parse(row.file.read_text(encoding="utf-8"))) or ""
    papers = {paper for paper in PAPERS if re.search(rf"\b{paper}\b", header)}
    for paper, number in row.equations:
        assert paper in PAPERS
        alone = papers == {paper} and ("", number) in named  # a file about one paper need not repeat its name
        assert (paper, number) in named or alone, f"{row.file.name} does not name {paper} Eq. {number}"
    for place in row.places:
        assert place in text, f"{row.file.name} does not name {place}"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_equation_of_a_paper_has_a_pointer(paper: str) -> None:
    found = {number for row in ROWS for name, number in row.equations if name == paper}
    assert found == set(range(1, LAST[paper] + 1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_loss_is_named_and_every_link_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    for link in links:
        assert (page.parent / link.split("#")[0]).exists(), link
    for loss in (page.parent / "losses").glob("[!_]*.py"):
        assert f"losses/{loss.name}" in links, f"{loss.name} is not on the page"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_loss_has_a_test_with_a_numerical_gradient(page: Path) -> None:
    tests = TESTS / page.parent.name / "losses"
    for loss in (page.parent / "losses").glob("[!_]*.py"):
        assert "autograd.gradcheck(" in (tests / f"test_{loss.name}").read_text(encoding="utf-8"), loss.name


def test_numbers_and_mentions_are_read() -> None:
    assert numbers("4 to 6, 8 and 10") == {4, 5, 6, 8, 10}
    assert mentions("POS-SCAN Eq. 11, 12; DA Eq. 2") == {("POS-SCAN", 11), ("POS-SCAN", 12), ("DA", 2)}
    assert mentions("(DA Eq. 3 and 4). Eq. 5") == {("DA", 3), ("DA", 4), ("", 5)}
    assert mentions("AMC, Eq. 4 to 6") == {("AMC", 4), ("AMC", 5), ("AMC", 6)}
