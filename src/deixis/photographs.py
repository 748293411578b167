"""Image files and clips of a folder, and search by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from deixis.clips import SUFFIXES as VIDEO_SUFFIXES
from deixis.clips import frame_files
from deixis.errors import DeixisError, display_name
from deixis.images import load_image

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".heic", ".heif", ".jp2"),
    *(".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"),
)
"""Suffixes of image files. A file with such a suffix that Pillow cannot open is reported as skipped."""


def images_in(directory: Path) -> Iterator[Path]:
    """Yield the image files of a folder and its subfolders in order; hidden files are left out.

    Folders of frames (01.jpg .. 10.jpg) are clips and are left out, see :func:`clips_in`.
    """
    for folder, inner, files in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if frame_files(Path(folder)):
            continue
        for name in sorted(files):
            path = Path(folder, name)
            if path.suffix.lower() in SUFFIXES and not name.startswith(".") and path.is_file():
                yield path


def clips_in(directory: Path) -> Iterator[Path]:
    """Yield the video files and the folders of frames of a folder and its subfolders in order."""
    for folder, inner, files in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if frame_files(Path(folder)):
            yield Path(folder)
            continue
        for name in sorted(files):
            path = Path(folder, name)
            if path.suffix.lower() in VIDEO_SUFFIXES and not name.startswith(".") and path.is_file():
                yield path


class Photographs:
    """Image files of a folder and its subfolders, found by path, file name or stem."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DeixisError(f"{display_name(folder)} is not a folder; name the one that holds the photographs.")
        self.folder = folder
        self._named: dict[str, set[Path]] = {}
        for path in images_in(folder):
            for name in {path.relative_to(folder).as_posix(), path.name, path.stem}:
                self._named.setdefault(name, set()).add(path)

    def find(self, name: str) -> Path | None:
        """Return the file with this path, file name or stem; None if there is none or more than one."""
        path = PurePath(name)
        for known in (path.as_posix(), path.name, path.stem):
            if len(found := self._named.get(known, set())) == 1:
                return next(iter(found))
        return None


def find_photographs(given: Sequence[Path]) -> list[Path]:
    """Return the given files, and the images and clips of given folders with their subfolders, each once."""
    if len(given) == 1 and not given[0].exists():
        load_image(given[0])  # raises an error that names near files
    found: dict[Path, None] = {}
    for path in given:
        inside = [*clips_in(path), *images_in(path)] if path.is_dir() else [path]
        if not inside:
            raise DeixisError(f"{display_name(path)} has no photographs in it, nor in its subfolders.")
        found.update(dict.fromkeys(inside))
    return list(found)
