"""Which file of a folder a name means."""

from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.photographs import Photographs, images_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("beach.jpg", "a/1.JPG", "b/1.JPG", "b/мост.png", "notes.txt", ".hidden/x.jpg", ".y.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_images_of_a_folder(folder: Path) -> None:
    found = [path.relative_to(folder).as_posix() for path in images_in(folder)]
    assert found == ["beach.jpg", "a/1.JPG", "b/1.JPG", "b/мост.png"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("beach.jpg", "beach.jpg"),
        ("beach", "beach.jpg"),
        ("/somewhere/else/beach.jpg", "beach.jpg"),
        ("a/1.JPG", "a/1.JPG"),
        ("1", None),  # there are two
        ("b/мост.png", "b/мост.png"),
        ("notes.txt", None),
        ("../../beach.jpg", "beach.jpg"),  # a name, never a way out of the folder
        ("x.jpg", None),
    ],
)
def test_a_name_means_a_file(folder: Path, name: str, file: str | None) -> None:
    assert Photographs(folder).find(name) == (None if file is None else folder / file)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="is not a folder"):
        Photographs(tmp_path / "none")
