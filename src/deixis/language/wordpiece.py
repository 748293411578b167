"""Word pieces as BERT cuts them: lower case, accents off, then the longest pieces of the vocabulary.

Texts of people are short and few here, so a page of Python does what would otherwise be another dependency.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import ClassVar

from deixis.errors import DeixisError

_UNUSED = re.compile(r"\[unused\d+\]")
LONGEST = 100  # letters; a longer word is unknown


@dataclass(frozen=True)
class WordPieces:
    """BERT's uncased vocabulary; a piece that goes on within a word begins with ``##``."""

    specials: ClassVar[tuple[str, ...]] = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        absent = [name for name in self.specials if name not in self._ids]
        if absent:
            raise ValueError(f"the vocabulary has no {', '.join(absent)}")

    @classmethod
    def build(cls, texts: Iterable[str], minimum: int = 5) -> WordPieces:
        """Words that texts have at least ``minimum`` times, and all letters, so that any word can be cut."""
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
        """The piece's id."""
        return self._ids[piece]

    def encode(self, text: str, longest: int = 0) -> tuple[int, ...]:
        """Ids of [CLS], the text's pieces and [SEP]; cut to ``longest`` ids in all, where that is not 0."""
        ids = [piece for word in words(text) for piece in self._cut(word)]
        return self.id("[CLS]"), *ids[: longest - 2 if longest else None], self.id("[SEP]")

    def _cut(self, word: str) -> list[int]:
        """Always the longest piece that fits; a word that cannot be cut so is unknown as a whole."""
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
        """At most ``most`` of the pieces, in their order: those that texts need, and from the front as many as go in.

        Letters stay, alone and within a word, so that every word that could be cut can still be. BERT's list has the
        most frequent words first, behind pieces for nobody's use, ``[unused0]`` and so on.
        """
        needed = {i for text in texts for i in self.encode(text)} | {self.id(name) for name in self.specials}
        needed |= {i for i, piece in enumerate(self.pieces) if len(piece.removeprefix("##")) == 1}
        if len(needed) > most:
            raise ValueError(f"the texts need {len(needed)} word pieces, more than {most}")
        others = (i for i, piece in enumerate(self.pieces) if i not in needed and not _UNUSED.fullmatch(piece))
        kept = needed.union(islice(others, most - len(needed)))
        return WordPieces(tuple(self.pieces[i] for i in sorted(kept)))

    def to_text(self) -> str:
        """The pieces as a JSON list, for a file."""
        return json.dumps(list(self.pieces), ensure_ascii=False, indent=0) + "\n"

    @classmethod
    def load(cls, path: Path) -> WordPieces:
        """Read a file of :meth:`to_text` (``.json``), or BERT's own ``vocab.txt`` with a piece on each line."""
        try:
            text = path.read_text(encoding="utf-8")
            pieces = json.loads(text) if path.suffix == ".json" else text.split("\n")
            if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
                raise ValueError("it is not a list of strings")
            return cls(tuple(pieces) if pieces[-1] else tuple(pieces[:-1]))
        except FileNotFoundError:
            raise DeixisError(f"{path}, the vocabulary of word pieces, is not there.") from None
        except (OSError, ValueError, IndexError, RecursionError) as error:
            raise DeixisError(f"{path} is not a vocabulary of word pieces ({error}).") from None


def words(text: str) -> list[str]:
    """BERT's words: lower case, accents off; every mark of punctuation and every Chinese character stands alone."""
    flat = unicodedata.normalize("NFD", text.lower())
    return "".join(_spaced(flat)).split()


def _spaced(text: str) -> Iterator[str]:
    for letter in text:
        kind = unicodedata.category(letter)
        if kind == "Mn" or letter in "\0\ufffd" or (kind in ("Cc", "Cf", "Co") and letter not in "\t\n\r"):
            continue
        yield f" {letter} " if _alone(letter, kind) else " " if kind == "Zs" else letter


def _alone(letter: str, kind: str) -> bool:
    code = ord(letter)
    # marks such as $, +, ^ are no punctuation to Unicode, but BERT counts all of ASCII that is neither letter nor digit
    mark = kind[0] == "P" or (33 <= code <= 126 and not letter.isalnum())
    chinese = any(low <= code <= high for low, high in _CHINESE)
    return mark or chinese


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
