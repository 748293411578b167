"""Object classes: the single words that phrases are about, as grounding is scored by.

A phrase stands for the lemma of its head noun ("two young men" for "man"), and the lemmas that a corpus has often
enough are its classes. The words as written are kept with them, so that a word of a generated caption finds its class
without a parser.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.files import write_atomic
from deixis.language.parse import Parse
from deixis.types import Phrase

FORMAT = "deixis-classes-1"
_RARE = 0.01  # a noun with no larger share of its uses in the singular is a plural by nature: "sunglasses"


@dataclass(frozen=True)
class ObjectClasses:
    """The classes of a corpus, most frequent first, and the words that stand for them."""

    names: tuple[str, ...]
    counts: tuple[int, ...]  # [len(names)] phrases of each class
    words: Mapping[str, str] = field(hash=False)  # a word as written, in lower case -> its class
    minimum: int = 1  # how many phrases a class had to have

    def __post_init__(self) -> None:
        if len(self.names) != len(self.counts) or len(set(self.names)) != len(self.names):
            raise ValueError("classes need different names, and a count each")
        unknown = set(self.words.values()) - set(self.names)
        if unknown:
            raise ValueError(f"a word stands for the class '{min(unknown)}', which is not there")

    @classmethod
    def build(cls, captions: Iterable[tuple[Parse, Sequence[Phrase]]], minimum: int = 20) -> ObjectClasses:
        """The classes of parsed captions and their phrases (token spans of the parse).

        Give the phrases that can be seen: what a data set marks as not visual is for the caller to leave out. A word
        stands for a class where it is mostly a noun with that lemma.
        """
        phrases: Counter[str] = Counter()  # by lemma
        uses: Counter[str] = Counter()  # by word
        forms: defaultdict[str, Counter[str]] = defaultdict(Counter)  # lemma -> the words that are this noun
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
        """The class that a word stands for, or None."""
        return self.words.get(word.lower())

    def of_phrase(self, parse: Parse, phrase: Phrase) -> str | None:
        """The class that a phrase of a parsed caption is about, or None."""
        head = parse.head(phrase.start, phrase.end)
        return self.of(parse.tokens[head]) if head is not None and parse.nouns[head] else None

    def object_words(self, words: Sequence[str]) -> list[tuple[int, str]]:
        """(position, class) of those words of a caption that stand for a class."""
        return [(i, name) for i, word in enumerate(words) if (name := self.of(word)) is not None]

    def save(self, path: Path) -> None:
        """Write the classes as JSON."""
        value = {"format": FORMAT, "minimum": self.minimum, "classes": dict(zip(self.names, self.counts, strict=True))}
        write_atomic(path, json.dumps(value | {"words": dict(self.words)}, ensure_ascii=False, indent=0))

    @classmethod
    def load(cls, path: Path) -> ObjectClasses:
        """Read what :meth:`save` wrote."""
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(value, dict) or value.get("format") != FORMAT:
                raise ValueError(f'the field "format" is not "{FORMAT}"')
            classes, words = _table(value, "classes", int), _table(value, "words", str)
            return cls(tuple(classes), tuple(classes.values()), words, int(value["minimum"]))
        except FileNotFoundError:
            raise DeixisError(f"{path} is not there. Build the classes of a corpus first.") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DeixisError(f"{path} is not a list of object classes that can be read: {error}.") from None


def _name(lemma: str, forms: Counter[str]) -> str:
    singular = forms[lemma] > _RARE * forms.total()
    return lemma if singular else forms.most_common(1)[0][0]


def _table(value: Mapping[str, Any], name: str, kind: type) -> dict[str, Any]:
    table = value.get(name)
    if not isinstance(table, dict) or not all(isinstance(entry, kind) for entry in table.values()):
        raise ValueError(f'the field "{name}" is not a table of {kind.__name__}')
    return table
