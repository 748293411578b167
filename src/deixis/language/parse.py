"""Parse captions: tokens, lemmas, parts of speech, noun chunks and a dependency tree.

:func:`parse` and :func:`parse_words` use the network of :mod:`deixis.language.tagger`; every verb that uses a model
calls them. :mod:`deixis.language.spacy_parse` makes the same kind of parse with spaCy, for training data and metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from deixis.files import sha256
from deixis.language.tagger import BEGIN, OUTSIDE, WEIGHTS, Tagged, Tagger, tagger
from deixis.language.tokenise import PUNCTUATION, tokenise
from deixis.types import Phrase

PARTITIVE = frozenset(
    ("array", "bit", "body", "bunch", "collection", "couple", "crowd", "flock", "group", "herd", "kind", "lot",
     "number", "pack", "pair", "piece", "row", "series", "set", "sort", "type", "variety")
)  # fmt: skip
"""Nouns (lemmas) that state a quantity before "of": the head of "a group of people" is "people"."""

COLLECTIVE = frozenset(
    ("audience", "band", "bunch", "choir", "class", "couple", "crew", "crowd", "duo", "family", "flock", "gang",
     "group", "herd", "orchestra", "pack", "pair", "team", "trio")
)  # fmt: skip
"""Singular nouns for several objects (lemmas)."""

PAIRED = frozenset(
    ("binoculars", "clothes", "eyeglasses", "glasses", "goggles", "headphones", "jeans", "khakis", "leggings",
     "overalls", "pajamas", "pants", "scissors", "shorts", "slacks", "stairs", "sunglasses", "swimtrunks", "tights",
     "trousers", "trunks")
)  # fmt: skip
"""Plural nouns for one object."""

_NOUNS = frozenset(["NN", "NNS", "NNP", "NNPS"])


@dataclass(frozen=True, slots=True)
class Parse:
    """Dependency parse of a caption; all fields but ``chunks`` have one entry per token."""

    tokens: tuple[str, ...]  # lower case
    lemmas: tuple[str, ...]  # lower case
    pos: tuple[str, ...]  # universal part of speech, e.g. "NOUN"
    tags: tuple[str, ...]  # Penn Treebank tag, e.g. "NNS"
    heads: tuple[int, ...]  # index of the head token; a root is its own head
    labels: tuple[str, ...]  # dependency label, e.g. "nsubj"
    chunks: tuple[tuple[int, int], ...]  # token spans [start, end) of base noun phrases, without pronouns

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def nouns(self) -> tuple[bool, ...]:
        """Whether each token is a noun (NN, NNS, NNP, NNPS)."""
        return tuple([tag in _NOUNS for tag in self.tags])

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """Noun chunks with their head nouns; "a group of people" is one phrase."""
        found: list[Phrase] = []
        end = 0
        for start, last in self.chunks:
            if found and start == end + 1 and self.tokens[end] == "of" and self.lemmas[end - 1] in PARTITIVE:
                start = found.pop().start
            found.append(self.phrase(start, last))
            end = last
        return tuple(found)

    def phrase(self, start: int, end: int) -> Phrase:
        """Return the tokens [start, end) as a phrase with its head noun."""
        head = self.head(start, end)
        text = " ".join(self.tokens[start:end])
        if head is None:
            return Phrase(text, start, end)
        plural = self.is_plural(start, end)
        return Phrase(text, start, end, head=self.tokens[head], lemma=self.lemmas[head], plural=plural)

    def top(self, start: int, end: int) -> int | None:
        """Return the noun of [start, end) nearest to the root of the tree, else the word nearest to the root.

        The last one is returned if several are equally near, and None for an empty span.
        """
        ranked = [(self.tags[i] not in _NOUNS, self._depth(i, start, end), -i) for i in range(start, end)]
        return -min(ranked)[2] if ranked else None

    def head(self, start: int, end: int) -> int | None:
        """Return the head noun of [start, end): its :meth:`top`, but "people" in "a group of people"."""
        top = self.top(start, end)
        while top is not None and self.lemmas[top] in PARTITIVE and top + 2 < end and self.tokens[top + 1] == "of":
            below = self.top(top + 2, end)
            if below is None or self.tags[below] not in _NOUNS:
                break
            top = below
        return top

    def is_plural(self, start: int, end: int) -> bool:
        """Return whether tokens [start, end) name several objects: "dogs", "a crowd", "a man and a woman"."""
        head = self.head(start, end)
        if head is None:
            return False
        if self.tags[head] == "CD":
            return self.tokens[head] not in ("one", "1")
        others = range(head + 1, end)
        joined = any(self.labels[i] == "conj" and self.heads[i] == head and self.tags[i] in _NOUNS for i in others)
        plural = self.tags[head] in ("NNS", "NNPS") and self.tokens[head] not in PAIRED
        return joined or plural or self.lemmas[head] in COLLECTIVE

    def _depth(self, token: int, start: int, end: int) -> int:
        """Return the number of steps up the tree within the span."""
        depth = 0
        while start <= (above := self.heads[token]) < end and above != token:
            token, depth = above, depth + 1
        return depth


def parse(texts: Sequence[str]) -> list[Parse]:
    """Parse captions or phrases, one for each text; punctuation is read, but is no token of the parse."""
    return _parse([inputs_of_text(text) for text in texts])


def parse_words(captions: Sequence[Sequence[str]]) -> list[Parse]:
    """Parse tokenised captions, such as those of a captioner; every word is one token of the parse."""
    return _parse([([word.lower() for word in words], list(range(len(words)))) for words in captions])


@lru_cache(maxsize=1)
def parser_name() -> str:
    """Return the name of the parser with a hash of its weights, for signatures of scores."""
    return f"deixis-{sha256(WEIGHTS)[:8]}"


KEPT = 2048  # parses in memory
_kept: OrderedDict[tuple[tuple[str, ...], tuple[int, ...]], Parse] = OrderedDict()

Inputs = tuple[list[str], list[int]]
"""All tokens of a sentence in lower case, and the indices of those of its parse."""
_ENDS = frozenset(".!?")


def inputs_of_text(text: str) -> Inputs:
    """Return the tokens of a text without final punctuation, and the indices of its words."""
    words = [token.text.lower() for token in tokenise(text)]
    if words and words[-1] in _ENDS:
        words.pop()
    return words, [i for i, word in enumerate(words) if word not in PUNCTUATION]


def _parse(sentences: Sequence[Inputs]) -> list[Parse]:
    """Parse sentences; the last parses are kept, because phrases and sentences of a beam come back."""
    keys = [(tuple(words), tuple(kept)) for words, kept in sentences]
    parses = {key: _kept[key] for key in keys if key in _kept}
    new = [key for key in dict.fromkeys(keys) if key not in parses]
    if new:
        network = tagger()
        found = network([words for words, _ in new])
        parses |= {key: build_parse(network, *key, one) for key, one in zip(new, found, strict=True)}
    for key in keys:
        _kept[key] = parses[key]
        _kept.move_to_end(key)
    while len(_kept) > KEPT:
        _kept.popitem(last=False)
    return [parses[key] for key in keys]


def build_parse(network: Tagger, words: Sequence[str], kept: Sequence[int], found: Tagged) -> Parse:
    """Return the parse of the kept tokens of a sentence."""
    tokens = tuple([words[i] for i in kept])
    tags = tuple(["." if words[i] in PUNCTUATION else found.tags[i] for i in kept])
    return Parse(
        tokens=tokens,
        lemmas=tuple([network.lemma(word, tag) for word, tag in zip(tokens, tags, strict=True)]),
        pos=tuple(["PUNCT" if words[i] in PUNCTUATION else found.pos[i] for i in kept]),
        tags=tags,
        heads=tuple([bisect_left(kept, found.heads[i]) for i in kept]),
        labels=tuple([found.labels[i] for i in kept]),
        chunks=_chunks([found.chunks[i] for i in kept]),
    )


def _chunks(places: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the spans of noun chunks."""
    spans: list[tuple[int, int]] = []
    for at, place in enumerate(places):
        if place != OUTSIDE and (place == BEGIN or not spans or spans[-1][1] != at):
            spans.append((at, at + 1))
        elif place != OUTSIDE:
            spans[-1] = (spans[-1][0], at + 1)
    return tuple(spans)
