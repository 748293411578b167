"""SCAN's captions (``f30k_precomp``, ``coco_precomp``): five lines of text for each image.

``<split>_caps.txt``     one caption per line, for train, dev, test and testall
``<split>_tags.txt``     POS-SCAN: part-of-speech tags of the words of each caption; optional
``<split>_files.json``   POS-SCAN: file name of each image, or
``<split>_ids.txt``      SCAN: id of each image, or one line for each caption

The words of a caption are those between spaces. The ids are those that ``deixis features --layout bottom-up`` gives to
the features of the same folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deixis.data.reading import BadFile, read_json, read_text
from deixis.data.sample import Caption, Dataset, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import align

NAME = "scan_precomp"

SPLITS = ("train", "dev", "test", "testall")
CAPTIONS_PER_IMAGE = 5
IMAGE_FOLDERS = ("images", "flickr30k-images", "flickr30k_images")
_AUTHORS = "the authors of SCAN (K.-H. Lee and others) or of POS-SCAN (Y. Zhou and others)"


def expected(root: Path) -> tuple[Expected, ...]:
    """List the files of each split."""
    return tuple(
        entry
        for split in splits(root) or SPLITS[:3]
        for entry in (
            Expected(f"{split}_caps.txt", f"the captions of {split}", _AUTHORS),
            Expected(_list(root, split), f"the images of {split}", _AUTHORS),
            Expected(f"{split}_tags.txt", f"the parts of speech of {split}", _AUTHORS, False),
        )
    )


def recognise(root: Path) -> bool:
    """Whether the folder has captions and a list of images of a split."""
    return any((root / _list(root, split)).is_file() for split in splits(root))


def splits(root: Path) -> tuple[str, ...]:
    """List the splits with captions."""
    return tuple(split for split in SPLITS if (root / f"{split}_caps.txt").is_file())


def load(root: Path, split: str) -> Dataset:
    """Load one split, in file order."""
    if split not in splits(root):
        raise DeixisError(f"{root} has no {split}_caps.txt. Available splits: {', '.join(splits(root)) or 'none'}.")
    path, tag_file = root / f"{split}_caps.txt", root / f"{split}_tags.txt"
    lines = _lines(path)
    tags = _lines(tag_file) if tag_file.is_file() else None
    if tags is not None and len(tags) != len(lines):
        raise BadFile(tag_file, f"{len(tags)} lines, but {path.name} has {len(lines)}")
    names = _names(root / _list(root, split), len(lines), path)
    skipped: list[Skipped] = []
    captions: dict[str, list[Caption]] = {name: [] for name in names}
    for number, line in enumerate(lines):
        caption = _caption(line, None if tags is None else tags[number].split())
        if caption is None:
            skipped.append(Skipped(str(path), "no words, or another number of tags than words", number + 1))
        else:
            captions[names[number // CAPTIONS_PER_IMAGE]].append(caption)
    folder = next((root / name for name in IMAGE_FOLDERS if (root / name).is_dir()), root / IMAGE_FOLDERS[0])
    samples = tuple(
        Sample(Path(name).stem, tuple(found), path=folder / (name if "." in name else f"{name}.jpg"))
        for name, found in captions.items()
        if found
    )
    return Dataset(NAME, split, samples, tuple(skipped))


def _list(root: Path, split: str) -> str:
    return f"{split}_files.json" if (root / f"{split}_files.json").is_file() else f"{split}_ids.txt"


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).rstrip("\n").split("\n")]


def _names(path: Path, captions: int, source: Path) -> list[str]:
    """Names of the images, one for each five captions."""
    value = read_json(path) if path.suffix == ".json" else _lines(path)
    if not isinstance(value, list) or not all(isinstance(name, str | int) for name in value):
        raise BadFile(path, "expected a list of images")
    names = [Path(str(name)).name for name in value]
    if len(names) == captions:  # one line for each caption
        names = names[::CAPTIONS_PER_IMAGE]
    if len(names) * CAPTIONS_PER_IMAGE != captions or len(set(names)) != len(names):
        raise BadFile(path, f"{len(names)} images for {captions} captions of {source.name}; expected five each")
    return names


def _caption(line: str, tags: list[str] | None) -> Caption | None:
    """Return a caption with the tags of its tokens; a token of punctuation is left out."""
    words = line.split()
    if not words or (tags is not None and len(tags) != len(words)):
        return None
    text = " ".join(words)
    aligned = align(text)
    if not aligned.tokens:
        return None
    of_token = [""] * len(aligned.tokens)
    at = 0
    for word, tag in zip(words, tags or (), strict=False):
        start, end = aligned.span(at, at + len(word))
        of_token[start:end] = [tag] * (end - start)
        at += len(word) + 1
    return Caption(text, tuple(map(sys.intern, aligned.tokens)), tags=() if tags is None else tuple(of_token))
