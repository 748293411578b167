"""Limits on the size of the code, and on how much of it one verb runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deixis"

LINES = {"data/scenes": 1_800, "evaluation/tables": 600}
"""Folder -> most lines of Python."""
COMMAND_LINES = 180  # of one verb

TRACE = {"caption": (324, 62), "ground": (228, 47)}
"""Verb -> most functions and files of the package that one photograph runs, with empty caches."""


def lines(folder: Path) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in folder.rglob("*.py"))


@pytest.mark.parametrize(("folder", "most"), LINES.items())
def test_lines_of_a_folder(folder: str, most: int) -> None:
    assert lines(PACKAGE / folder) <= most


@pytest.mark.parametrize("file", sorted((PACKAGE / "commands").glob("*.py")), ids=lambda file: file.stem)
def test_lines_of_a_command(file: Path) -> None:
    # console is shared by all commands; eval also checks for images that a model was trained on
    most = {"console": 350, "eval": 155}.get(file.stem, COMMAND_LINES)
    assert len(file.read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "options"), [("caption", []), ("ground", ["a woman"])])
def test_functions_and_files_of_a_verb(verb: str, options: list[str], tmp_path: Path) -> None:
    skimage = pytest.importorskip("skimage")
    photo = Path(skimage.__file__).parent / "data" / "astronaut.png"
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "walk.py"), verb, str(photo), *options],
        env={**os.environ, "DEIXIS_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"(\d+) functions in (\d+) files", done.stdout)
    assert found is not None
    functions, files = TRACE[verb]
    assert int(found[1]) <= functions
    assert int(found[2]) <= files
    if verb == "caption":
        called = re.findall(r"^ *[\d,]+  (?:\S+/)?(\w+)\.py:\d+  (\S+)$", done.stdout, re.MULTILINE)
        steps = steps_of_the_page()
        assert len(steps) > 12
        assert [step for step in called if step in steps] == steps  # in the order of the first call


def steps_of_the_page() -> list[tuple[str, str]]:
    """Module and function of the steps of ``deixis caption photo.jpg`` in docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.split("deixis caption photo.jpg\n")[1].split("```")[0]
    names = re.findall(r"^ {2,6}(\S+)", block, re.MULTILINE)
    methods = {"Captioner.decode": ("model", "Captioner.decode")}
    return [methods.get(name) or tuple(name.split(".")[-2:]) for name in names]
