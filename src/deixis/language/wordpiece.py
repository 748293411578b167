"""WordPiece tokeniser of BERT (uncased): lower case, no accents, greedy longest pieces.

Texts are short and few, so plain Python is fast enough and avoids a dependency.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import ClassVar

from deixis.errors import DeixisError
from deixis.files import read_settings, read_text

_UNUSED = re.compile(r"\[unused\d+\]")
LONGEST = 100  # characters; a longer word is unknown


@dataclass(frozen=True)
class WordPieces:
    """Uncased vocabulary of BERT; a piece that continues a word begins with ``##``."""

    specials: ClassVar[tuple[str, ...]] = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        absent = [name for name in self.specials if name not in self._ids]
        if absent:
            raise ValueError(f"the vocabulary has no {', '.join(absent)}")

    @classmethod
    def build(cls, texts: Iterable[str], minimum: int = 5) -> WordPieces:
        """Build a vocabulary of words that occur at least ``minimum`` times, and all characters of the texts."""
        counts = Counter(word for text in texts for word in words(text))
        letters = sorted({letter for word in counts for letter in word})
        known = [*cls.specials, *letters, *(f"##{letter}" for letter in letters)]
        kept = sorted((-count, word) for word, count in counts.items() if count >= minimum and len(word) > 1)
        return cls((*known, *(word for _, word in kept)))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces)}

    def __len__(self) -> int:
        return len(self.pieces)

    def id(self, piece: str) -> int:
        """Return the id of a piece."""
        return self._ids[piece]

    def encode(self, text: str, longest: int = 0, sep: bool = True) -> tuple[int, ...]:
        """Return the ids of [CLS], the pieces of a text and, with ``sep``, [SEP]: at most ``longest`` (0: no limit)."""
        ids = [piece for word in words(text) for piece in self._cut(word)]
        end = (self.id("[SEP]"),) if sep else ()
        return self.id("[CLS]"), *ids[: longest - 1 - len(end) if longest else None], *end

    def _cut(self, word: str) -> list[int]:
        """Split a word greedily into the longest pieces; the whole word is unknown if that fails."""
        if len(word) > LONGEST:
            return [self.id("[UNK]")]
        ids, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start and (("##" if start else "") + word[start:end]) not in self._ids:
                end -= 1
            if end == start:
                return [self.id("[UNK]")]
            ids.append(self._ids[("##" if start else "") + word[start:end]])
            start = end
        return ids

    def shorter(self, texts: Iterable[str], most: int) -> WordPieces:
        """Return a vocabulary of at most ``most`` pieces in the same order: those of the texts, then the first others.

        Single characters are kept, alone and within a word, so that the same words can be split. BERT lists frequent
        words first, after unused pieces (``[unused0]`` and so on), which are dropped.
        """
        needed = {i for text in texts for i in self.encode(text)} | {self.id(name) for name in self.specials}
        needed |= {i for i, piece in enumerate(self.pieces) if len(piece.removeprefix("##")) == 1}
        if len(needed) > most:
            raise ValueError(f"the texts need {len(needed)} word pieces, more than {most}")
        others = (i for i, piece in enumerate(self.pieces) if i not in needed and not _UNUSED.fullmatch(piece))
        kept = needed.union(islice(others, most - len(needed)))
        return WordPieces(tuple(self.pieces[i] for i in sorted(kept)))

    def to_text(self) -> str:
        """Return the pieces as a JSON list."""
        return json.dumps(list(self.pieces), ensure_ascii=False, indent=0) + "\n"

    @classmethod
    def load(cls, path: Path) -> WordPieces:
        """Read a file of :meth:`to_text` (``.json``), or the ``vocab.txt`` of BERT with one piece per line."""
        try:
            pieces = read_settings(path) if path.suffix == ".json" else read_text(path).split("\n")
            if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
                raise ValueError("it is not a list of strings")
            return cls(tuple(pieces) if pieces[-1] else tuple(pieces[:-1]))
        except FileNotFoundError:
            raise DeixisError(
                f"{path} does not exist; it must have the vocabulary of word pieces. Restore the file."
            ) from None
        except (OSError, ValueError, IndexError, RecursionError) as error:
            raise DeixisError(f"{path} is not a vocabulary of word pieces ({error}). Restore the file.") from None


def words(text: str) -> list[str]:
    """Split text into words as BERT does: lower case, no accents; punctuation and Chinese characters are words."""
    flat = unicodedata.normalize("NFD", text.lower())
    return "".join(map(_spaced, flat)).split()


@lru_cache(maxsize=4096)
def _spaced(letter: str) -> str:
    """Return a character as it stands in the text: as it is, between spaces where it is a word, or not at all."""
    code, kind = ord(letter), unicodedata.category(letter)
    if kind == "Mn" or letter in "\0\ufffd" or (kind in ("Cc", "Cf", "Co") and letter not in "\t\n\r"):
        return ""
    # BERT counts every ASCII symbol as punctuation, also $, + and ^, which Unicode does not
    mark = kind[0] == "P" or (33 <= code <= 126 and not letter.isalnum())
    if mark or any(low <= code <= high for low, high in _CHINESE):
        return f" {letter} "
    return " " if kind == "Zs" else letter


_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
