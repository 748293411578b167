"""The table of the architecture is true: every part of the package stands in it, and imports only what it may."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deixis"


def rows() -> dict[str, set[str]]:
    """Part of the package -> the parts that it may import."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)(?:\.py|/)` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    return {part: set(re.findall(r"`(\w+)`", may)) | ({"everything"} & {may.strip()}) for part, may in found}


def imported(file: Path) -> Iterator[str]:
    """The parts of the package that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "deixis":
            names = [f"deixis.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from (name.split(".")[1] for name in names if name.startswith("deixis."))


def parts() -> list[str]:
    return sorted(
        path.stem
        for path in PACKAGE.iterdir()
        if not path.name.startswith("_") and (path.is_dir() or path.suffix == ".py")
    )


def test_every_part_is_in_the_table() -> None:
    assert sorted(rows()) == parts()


@pytest.mark.parametrize("part", parts())
def test_a_part_imports_what_it_may(part: str) -> None:
    may = rows()[part]
    if "everything" in may:
        return
    place = PACKAGE / part
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    used = {name for file in files for name in imported(file)} - {part, "errors", "__version__", "DeixisError"}
    assert used <= may, f"{part} imports {sorted(used)}, and the table says {sorted(may)}"


def modules() -> dict[str, Path]:
    """Name of each module of the package -> its file."""
    files = {file: file.relative_to(PACKAGE.parent).with_suffix("").parts for file in PACKAGE.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): file for file, parts in files.items()}


def module_imports(file: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file imports: at its top, inside a function, or for types only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else str(node.module) for name in within}
    return found & known.keys() - {"deixis"}


def test_no_module_imports_itself_through_others() -> None:
    """Also no import that is hidden in a function, or for types only."""
    known = modules()
    left = {name: module_imports(file, known) - {name} for name, file in known.items()}
    while free := [name for name, used in left.items() if not used & left.keys()]:
        for name in free:  # its imports are free of cycles
            del left[name]
    assert left == {}


SHARED = {"caption_files", "console", "corpus", "training_progress"}
"""Modules of the commands that are no verbs."""


def test_commands_do_not_import_each_other() -> None:
    found = set()
    for file in sorted((PACKAGE / "commands").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "deixis.commands":
                found |= {(file.stem, alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deixis.commands."):
                found.add((file.stem, str(node.module).split(".")[2]))
    assert {(command, other) for command, other in found if other not in SHARED} == set()


def test_methods_do_not_import_each_other() -> None:
    methods = {path.name for path in (PACKAGE / "methods").iterdir() if path.is_dir() and not path.name.startswith("_")}
    found = set()
    for file in sorted((PACKAGE / "methods").rglob("*.py")):
        method = file.relative_to(PACKAGE / "methods").parts[0]
        others = "|".join(sorted(methods - {method}))
        used = re.findall(rf"deixis\.methods(?:\.| import )({others})\b", file.read_text(encoding="utf-8"))
        found |= {(method, other) for other in used}
    assert found == set()
