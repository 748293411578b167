"""Vocabularies, object classes and lists of images in the preparation files of captioning papers.

``dic_flickr30k.json``, ``dic_anet.json``      GVD: ``ix_to_word``, ``wtod``, ``wtol``, ``images`` or ``videos``
``flickrtalk.json``, ``cocotalk.json``         self-critical training and POS-SCAN: ``ix_to_word``, ``images``
``f30k_precomp_vocab.json``                    SCAN: ``word2idx``

Word ids begin with 1 and class ids with 0; class 0 of a network is the background.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deixis.data.reading import BadFile, read_json, read_lines
from deixis.errors import DeixisError
from deixis.language.classes import ObjectClasses
from deixis.language.vocabulary import SPECIAL, Vocabulary

UNKNOWN = ("UNK", "<unk>")
"""Names of the unknown word in published files."""


@dataclass(frozen=True)
class Entry:
    """One image or video segment of a list: row ``i`` of the feature files is entry ``i``."""

    image_id: str
    split: str = ""
    file: str = ""  # file name of the photograph
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class Dictionary:
    """Content of a preparation file; parts that a file does not have are empty."""

    path: Path
    words: tuple[str, ...]  # by id, from 1 in the file
    classes: tuple[str, ...] = ()  # by id, from 0 in the file
    class_of: Mapping[str, str] = field(default_factory=dict)  # word -> class: words whose lemma is a class name
    lemmas: Mapping[str, str] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    video: bool = False


def read_dictionary(path: Path) -> Dictionary:
    """Read a preparation file of GVD, of self-critical training or of SCAN."""
    if not path.is_file():
        raise DeixisError(f"{path} does not exist. Expected a file such as dic_flickr30k.json or flickrtalk.json.")
    value = read_json(path)
    if not isinstance(value, dict):
        raise BadFile(path, "not a JSON object")
    if "word2idx" in value:
        return Dictionary(path, _by_id(path, _table(path, value, "word2idx", int), 0))
    video = "videos" in value
    words = _words(path, value)
    numbers = _table(path, value, "wtod", int) if "wtod" in value else {}
    classes = _classes(path, numbers)
    lemmas = _table(path, value, "wtol", str) if "wtol" in value else {}
    # the published evaluation: a word has the class whose name has the same lemma
    by_lemma = {lemmas[name]: classes[number] for name, number in numbers.items() if name in lemmas}
    class_of = {word: by_lemma[lemmas[word]] for word in words if lemmas.get(word) in by_lemma}
    return Dictionary(path, words, classes, class_of, lemmas, _entries(path, value, video), video)


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the vocabulary of a published file, or one that ``deixis train`` wrote."""
    value = read_json(path) if path.is_file() else None
    if isinstance(value, dict) and "format" in value:
        return Vocabulary.load(path)
    words = read_dictionary(path).words
    special = (*UNKNOWN, "<pad>", "<start>", "<end>", *SPECIAL)
    try:
        return Vocabulary(SPECIAL + tuple(word for word in words if word not in special))
    except ValueError as error:
        raise BadFile(path, str(error)) from None


def read_classes(path: Path) -> ObjectClasses:
    """Read object classes: a dictionary with ``wtod``, a list of names, or a file of :class:`ObjectClasses`.

    In a list, a line has the names of one class, joined by commas; only these words have the class.
    """
    if path.suffix != ".json":
        lines = [[name.strip() for name in line.split(",")] for _, line in read_lines(path)]
        names = tuple(line[0] for line in lines)
        words = {word: line[0] for line in lines for word in line}
    else:
        value = read_json(path)
        if isinstance(value, dict) and "format" in value:
            return ObjectClasses.load(path)
        dictionary = read_dictionary(path)
        if not dictionary.classes:
            raise BadFile(path, 'no classes: the table "wtod" is missing')
        names, words = dictionary.classes, dict(dictionary.class_of)
    try:
        return ObjectClasses(names, (0,) * len(names), words)
    except ValueError as error:
        raise BadFile(path, str(error)) from None


def _words(path: Path, value: dict[str, Any]) -> tuple[str, ...]:
    table = _table(path, value, "ix_to_word", str)
    try:
        return _by_id(path, {word: int(number) for number, word in table.items()}, 1)
    except ValueError:
        raise BadFile(path, '"ix_to_word" must have numbers as keys') from None


def _by_id(path: Path, ids: Mapping[str, int], first: int) -> tuple[str, ...]:
    order = sorted(ids, key=lambda word: ids[word])
    if [ids[word] for word in order] != list(range(first, first + len(order))):
        raise BadFile(path, f"the word ids are not {first} to {first + len(order) - 1}")
    return tuple(order)


def _classes(path: Path, numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the classes by number; of several names of one class, the first in the file."""
    names: dict[int, str] = {}
    for name, number in numbers.items():
        names.setdefault(number, name)
    if sorted(names) != list(range(len(names))):
        raise BadFile(path, f'the numbers in "wtod" are not 0 to {len(names) - 1}')
    return tuple(names[number] for number in range(len(names)))


def _entries(path: Path, value: dict[str, Any], video: bool) -> tuple[Entry, ...]:
    listed = value.get("videos" if video else "images", [])
    if not isinstance(listed, list) or not all(isinstance(e, dict) and "id" in e for e in listed):
        raise BadFile(path, f'"{"videos" if video else "images"}" must be a list of objects with an "id"')
    found = []
    for entry in listed:
        width, height = entry.get("width"), entry.get("height")
        size = (width, height) if isinstance(width, int) and isinstance(height, int) and width > 0 < height else None
        image_id = segment_name(str(entry["id"])) if video else str(entry["id"])
        found.append(Entry(image_id, str(entry.get("split", "")), str(entry.get("file_path", "")), size))
    return tuple(found)


def segment_name(name: str) -> str:
    """Id of a video segment from GVD's name: ``v_x_segment_03`` is ``v_x_segment_3``."""
    video, mark, number = name.rpartition("_segment_")
    return f"{video}{mark}{int(number)}" if mark and number.isdecimal() else name


def _table(path: Path, value: dict[str, Any], name: str, kind: type) -> dict[str, Any]:
    table = value.get(name)
    if not isinstance(table, dict) or not all(type(entry) is kind for entry in table.values()):
        raise BadFile(path, f'the table "{name}" is missing or has values that are not {kind.__name__}')
    return table
