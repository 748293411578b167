"""Object classes of a corpus, for the scores of grounded words.

The class of a phrase is the lemma of its head noun ("man" for "two young men"). Lemmas that are frequent in a corpus
are its classes. A table from words to classes gives the class of a word in a generated caption without a parser.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.files import read_settings, write_atomic
from deixis.language.parse import Parse
from deixis.types import Phrase

FORMAT = "deixis-classes-1"
_RARE = 0.01  # a noun with a smaller share of singular uses is named by its plural: "sunglasses"


@dataclass(frozen=True)
class ObjectClasses:
    """Object classes of a corpus, most frequent first, and a table from words to classes."""

    names: tuple[str, ...]
    counts: tuple[int, ...]  # [len(names)] phrases of each class
    words: Mapping[str, str] = field(hash=False)  # word in lower case -> class
    minimum: int = 1  # minimum number of phrases of a class

    def __post_init__(self) -> None:
        if len(self.names) != len(self.counts) or len(set(self.names)) != len(self.names):
            raise ValueError("class names must be unique, with one count for each")
        unknown = set(self.words.values()) - set(self.names)
        if unknown:
            raise ValueError(f"a word has the class '{min(unknown)}', which is not a class of this list")

    @classmethod
    def build(cls, captions: Iterable[tuple[Parse, Sequence[Phrase]]], minimum: int = 20) -> ObjectClasses:
        """Build the classes from parsed captions and their phrases (token spans of the parse).

        The caller leaves out phrases that are not visual. A word has a class if most of its occurrences are a noun with
        that lemma.
        """
        phrases: Counter[str] = Counter()  # by lemma
        uses: Counter[str] = Counter()  # by word
        forms: defaultdict[str, Counter[str]] = defaultdict(Counter)  # lemma -> its words
        for parse, spans in captions:
            uses.update(parse.tokens)
            for word, lemma, noun in zip(parse.tokens, parse.lemmas, parse.nouns, strict=True):
                if noun:
                    forms[lemma][word] += 1
            heads = [parse.head(span.start, span.end) for span in spans]
            phrases.update(parse.lemmas[head] for head in heads if head is not None and parse.nouns[head])
        counts: Counter[str] = Counter()
        words: dict[str, str] = {}
        for lemma, count in phrases.items():
            if count >= minimum:
                name = _name(lemma, forms[lemma])
                counts[name] += count
                words |= {word: name for word, times in forms[lemma].items() if 2 * times > uses[word]}
        order = sorted(counts, key=lambda name: (-counts[name], name))
        return cls(tuple(order), tuple(counts[name] for name in order), dict(sorted(words.items())), minimum)

    def __len__(self) -> int:
        return len(self.names)

    def of(self, word: str) -> str | None:
        """Return the class of a word, or None."""
        return self.words.get(word.lower())

    def of_phrase(self, parse: Parse, phrase: Phrase) -> str | None:
        """Return the class of a phrase's head noun, or None."""
        head = parse.head(phrase.start, phrase.end)
        return self.of(parse.tokens[head]) if head is not None and parse.nouns[head] else None

    def object_words(self, words: Sequence[str]) -> list[tuple[int, str]]:
        """Return (position, class) of the words of a caption that have a class."""
        return [(i, name) for i, word in enumerate(words) if (name := self.of(word)) is not None]

    def save(self, path: Path) -> None:
        """Write the classes as JSON."""
        value = {"format": FORMAT, "minimum": self.minimum, "classes": dict(zip(self.names, self.counts, strict=True))}
        write_atomic(path, json.dumps(value | {"words": dict(self.words)}, ensure_ascii=False, indent=0))

    @classmethod
    def load(cls, path: Path) -> ObjectClasses:
        """Read a file of :meth:`save`."""
        try:
            value = read_settings(path)
            if not isinstance(value, dict) or value.get("format") != FORMAT:
                raise ValueError(f'the field "format" is not "{FORMAT}"')
            classes, words = _table(value, "classes", int), _table(value, "words", str)
            return cls(tuple(classes), tuple(classes.values()), words, int(value["minimum"]))
        except FileNotFoundError:
            raise DeixisError(f"{path} does not exist. Build the object classes of the corpus first.") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DeixisError(f"{path} is not a readable list of object classes: {error}.") from None


def _name(lemma: str, forms: Counter[str]) -> str:
    singular = forms[lemma] > _RARE * forms.total()
    return lemma if singular else forms.most_common(1)[0][0]


def _table(value: Mapping[str, Any], name: str, kind: type) -> dict[str, Any]:
    table = value.get(name)
    if not isinstance(table, dict) or not all(isinstance(entry, kind) for entry in table.values()):
        raise ValueError(f'the field "{name}" is not a table of {kind.__name__}')
    return table
