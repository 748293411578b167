"""Vocabulary of a captioner."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from deixis.errors import DeixisError
from deixis.files import read_settings, write_atomic

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
FORMAT = "deixis-vocabulary-1"


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids: 0 to 3 are padding, begin, end and unknown; then words by decreasing frequency."""

    pad: ClassVar[int] = 0
    bos: ClassVar[int] = 1
    eos: ClassVar[int] = 2
    unk: ClassVar[int] = 3

    words: tuple[str, ...]  # [len(self)] special words first
    minimum: int = 1  # minimum frequency of a word in the captions

    def __post_init__(self) -> None:
        if self.words[: len(SPECIAL)] != SPECIAL:
            raise ValueError(f"a vocabulary must begin with {', '.join(SPECIAL)}")
        if len(self._ids) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"the word '{twice}' is in the vocabulary twice")
        if any(not word or " " in word for word in self.words):
            raise ValueError("a word of a vocabulary must not be empty or contain spaces")

    @classmethod
    def build(cls, captions: Iterable[Sequence[str]], minimum: int = 5) -> Vocabulary:
        """Build the vocabulary of words that occur at least ``minimum`` times in tokenised captions."""
        counts = Counter(word for caption in captions for word in caption)
        kept = sorted((-count, word) for word, count in counts.items() if count >= minimum and word not in SPECIAL)
        return cls(SPECIAL + tuple(word for _, word in kept), minimum)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """Return the id of a word, or that of the unknown word."""
        return self._ids.get(word, self.unk)

    def encode(self, tokens: Sequence[str], *, ends: bool = True) -> list[int]:
        """Convert tokens to ids, between begin and end unless ``ends`` is false."""
        ids = [self._ids.get(token, self.unk) for token in tokens]
        return [self.bos, *ids, self.eos] if ends else ids

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Convert ids to words up to the first end; begin and padding are left out."""
        words = []
        for i in ids:
            if i == self.eos:
                break
            if i not in (self.pad, self.bos):
                words.append(self.words[i])
        return tuple(words)

    def to_json(self) -> dict[str, Any]:
        """Return ``{"format", "minimum", "words"}``, without the special words."""
        return {"format": FORMAT, "minimum": self.minimum, "words": list(self.words[len(SPECIAL) :])}

    @classmethod
    def from_json(cls, value: Any) -> Vocabulary:
        """Create a vocabulary from the value of :meth:`to_json`."""
        if not isinstance(value, Mapping) or value.get("format") != FORMAT:
            raise DeixisError(f'a vocabulary must have the field "format" with the value "{FORMAT}".')
        words, minimum = value.get("words"), value.get("minimum")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DeixisError('the field "words" of a vocabulary must be a list of strings.')
        if isinstance(minimum, bool) or not isinstance(minimum, int):
            raise DeixisError('the field "minimum" of a vocabulary must be a whole number.')
        try:
            return cls(SPECIAL + tuple(words), minimum)
        except ValueError as error:
            raise DeixisError(f"{error}.") from None

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON."""
        write_atomic(path, json.dumps(self.to_json(), ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read a file of :meth:`save`."""
        try:
            return cls.from_json(read_settings(path))
        except FileNotFoundError:
            raise DeixisError(
                f"{path} does not exist. Every captioner needs it beside its weights. Restore the file."
            ) from None
        except (OSError, ValueError, RecursionError, DeixisError) as error:
            raise DeixisError(f"{path} is not a readable vocabulary: {error}") from None
