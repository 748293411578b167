"""Relations in a caption: (phrase, relation, phrase) triples from its dependency parse.

A relation is a preposition ("in", "in front of"), a verb ("wear", "pick up") or both ("jump over", "dressed in").
Verbs are lemmas, but a past participle that describes a state keeps its form. A passive with an agent is converted to
the active: "a dog held by a man" gives (a man, hold, a dog).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deixis.language.animate import is_animate
from deixis.language.parse import Parse
from deixis.types import Phrase


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation ``name`` from ``phrases[subject]`` to ``phrases[object]``."""

    subject: int
    name: str
    object: int


def relations(parse: Parse, phrases: Sequence[Phrase] | None = None) -> tuple[Relation, ...]:
    """Return the unique relations between phrases of a caption (by default its noun chunks).

    Phrases are token spans of the parse. A token in several phrases belongs to the shortest one.
    """
    return tuple(dict.fromkeys(_Clauses(parse, parse.phrases if phrases is None else phrases).relations()))


def relation_categories(names: Iterable[str], minimum: int = 101, most: int = 0) -> tuple[str, ...]:
    """Return the relations that occur at least ``minimum`` times, most frequent first; at most ``most`` if it is not 0.

    ReIR keeps those with more than 100 occurrences. Its category 0 is "no relation", so ``categories[i]`` is number
    ``i + 1``.
    """
    counts = Counter(names)
    kept = sorted((n for n, count in counts.items() if count >= minimum), key=lambda n: (-counts[n], n))
    return tuple(kept[:most] if most else kept)


_NOMINAL = frozenset(["NOUN", "PROPN", "PRON", "NUM"])
_VERBAL = frozenset(["VERB", "AUX"])
_RELATIVE = frozenset(["WDT", "WP"])
_SUBJECTS = frozenset(["nsubj", "nsubjpass"])
_INHERITING = frozenset(["conj", "xcomp", "advcl", "ccomp", "pcomp", "dep"])
"""Dependency labels of verbs that share the subject of their head if they have none."""
_INANIMATE_VERBS = frozenset(
    ("advertise", "blow", "burn", "contain", "display", "drive", "face", "fall", "float", "flow", "fly", "go", "grow",
     "hang", "have", "lead", "line", "move", "overlook", "read", "say", "shine", "show", "spray", "surround")
)  # fmt: skip
"""Verbs with subjects that are not people or animals."""
_RELATIONAL_NOUNS = frozenset(["front", "top", "back", "line"])  # part of a preposition: "in front of", "on top of"
_LEADING = frozenset(
    ("across", "ahead", "along", "around", "away", "back", "behind", "beside", "between", "close", "down", "far",
     "from", "in", "inside", "into", "near", "next", "off", "on", "onto", "out", "outside", "over", "right",
     "through", "up")
)  # fmt: skip
"""First words of prepositions of several words: "next to", "out of", "from behind"."""


class _Clauses:
    """Relations of one caption, found from each object phrase upwards in the tree."""

    def __init__(self, parse: Parse, phrases: Sequence[Phrase]) -> None:
        self.parse = parse
        self.phrases = phrases
        self.below: list[list[int]] = [[] for _ in parse.tokens]
        for token, head in enumerate(parse.heads):
            if head != token:
                self.below[head].append(token)
        self.owner: list[int | None] = [None] * len(parse)
        for number in sorted(range(len(phrases)), key=lambda n: phrases[n].start - phrases[n].end):  # longest first
            for token in range(phrases[number].start, phrases[number].end):
                self.owner[token] = number

    def relations(self) -> Iterator[Relation]:
        for number, phrase in enumerate(self.phrases):
            head = self.parse.top(phrase.start, phrase.end)
            if head is None or self._is_relational_noun(head):
                continue
            for subject, name, inverse in self._above(head):
                if subject != number:
                    yield Relation(number, name, subject) if inverse else Relation(subject, name, number)

    # Each of these yields (phrase, name of the relation, whether that phrase is the object).

    def _above(self, token: int) -> Iterator[tuple[int, str, bool]]:
        parse, head, label = self.parse, self.parse.heads[token], self.parse.labels[token]
        joined = self._conjunction_head(token)
        if joined is not None:
            yield from self._above(joined)
        elif label == "pobj":
            yield from self._through_preposition(head)
        elif label in ("dobj", "dative") and parse.pos[head] in _VERBAL:
            name = self._verb(head)
            if name:
                to = " to" if label == "dative" else ""
                yield from ((subject, name + to, False) for subject in self._subjects(head))
        elif label == "poss":
            owned = self.owner[head]
            if owned is not None:
                yield owned, "have", True
        yield from self._from_relative_clause(token)

    def _through_preposition(self, token: int) -> Iterator[tuple[int, str, bool]]:
        parse = self.parse
        first = last = token
        while (above := self._longer_preposition(first)) is not None:
            first = above
        name, head = " ".join(parse.tokens[first : last + 1]), parse.heads[first]
        name = "follow" if name == "following" else name
        if head == first or last - first > 3:
            return
        if parse.pos[head] in _VERBAL:
            subjects = self._subjects(head)
            by_agent = parse.labels[last] == "agent"
            if parse.lemmas[head] == "be":
                yield from ((subject, name, False) for subject in subjects)
            elif verb := self._verb(head, without=range(first, last + 1), active=by_agent):
                yield from ((subject, verb if by_agent else f"{verb} {name}", by_agent) for subject in subjects)
        elif parse.pos[head] == "ADJ" and self.owner[head] is None:
            yield from ((subject, f"{parse.tokens[head]} {name}", False) for subject in self._described(head))
        elif (subject := self.owner[head]) is not None:
            yield subject, name, False

    def _longer_preposition(self, token: int) -> int | None:
        """Return an earlier word of the same preposition: "next" for "to", "in" for "of" in "in front of"."""
        parse, head = self.parse, self.parse.heads[token]
        if head >= token:
            return None
        if self._is_relational_noun(head) or (parse.labels[head] == "pobj" and self.owner[head] is None):
            return parse.heads[head] if parse.labels[head] == "pobj" else None
        if parse.tokens[head] in _LEADING and parse.pos[head] in ("ADV", "ADP", "SCONJ", "ADJ"):
            return head
        return None

    def _is_relational_noun(self, token: int) -> bool:
        below = self.below[token]
        return (
            self.parse.tokens[token] in _RELATIONAL_NOUNS
            and self.parse.labels[token] == "pobj"
            and all(self.parse.labels[i] == "prep" for i in below)
            and any(self.parse.tokens[i] == "of" for i in below)
        )

    def _from_relative_clause(self, token: int) -> Iterator[tuple[int, str, bool]]:
        """Yield relations in which the noun is the object of a relative clause: "a horse that a man rides"."""
        parse = self.parse
        for verb in self.below[token]:
            if parse.labels[verb] != "relcl" or parse.pos[verb] not in _VERBAL:
                continue
            below = [i for i in self.below[verb] if parse.tags[i] not in _RELATIVE]
            labels = {parse.labels[i] for i in below}
            where = any(parse.tags[i] == "WRB" or any(parse.tags[k] in _RELATIVE for k in self.below[i]) for i in below)
            name = self._verb(verb)
            if "nsubj" not in labels or "dobj" in labels or where or not name:
                continue
            stranded = [parse.tokens[i] for i in below if parse.labels[i] == "prep" and not self.below[i]]
            yield from ((subject, " ".join([name, *stranded]), False) for subject in self._subjects(verb))

    def _verb(self, token: int, without: Iterable[int] = (), active: bool = False) -> str:
        """Return the verb with its particles; "" if it is negated."""
        parse = self.parse
        if any(parse.labels[i] == "neg" for i in self.below[token]):
            return ""
        active = active or any(parse.labels[i] == "aux" and parse.lemmas[i] == "have" for i in self.below[token])
        form = parse.lemmas[token] if active or parse.tags[token] != "VBN" else parse.tokens[token]
        particles = [parse.tokens[i] for i in self.below[token] if parse.labels[i] == "prt" and i not in without]
        return " ".join([form, *particles])

    def _subjects(self, verb: int) -> list[int]:
        """Return the subject phrases of a verb (the patient, in a passive)."""
        parse = self.parse
        label, head = parse.labels[verb], parse.heads[verb]
        own = self._subject_tokens(verb)
        if own:
            return [number for i in own for number in self._phrase(i)]
        if head == verb:
            return []
        if label in ("acl", "relcl"):
            return self._agent(verb, head)
        if label in _INHERITING:
            return self._subjects(head) if parse.pos[head] in _VERBAL else self._described(head)
        return []

    def _subject_tokens(self, verb: int) -> list[int]:
        """Return the direct subjects of a verb; a relative pronoun is replaced by its noun."""
        parse = self.parse
        there = any(parse.labels[i] == "expl" for i in self.below[verb])
        own = [i for i in self.below[verb] if parse.labels[i] in (("attr",) if there else _SUBJECTS)]
        if not own:
            return []
        relative = parse.tags[own[0]] in _RELATIVE and parse.labels[verb] == "relcl"
        return [parse.heads[verb] if relative else own[0], *self._conjuncts(own[0])]

    def _agent(self, verb: int, noun: int) -> list[int]:
        """Return the subject phrase of a participle after a noun: "man" in "a man in a car wearing a hat"."""
        parse = self.parse
        active = parse.tags[verb] == "VBG" and parse.lemmas[verb] not in _INANIMATE_VERBS
        passive = any(parse.tokens[i] == "being" for i in self.below[verb])
        if is_animate(parse.lemmas[noun]) or not (active or passive or parse.lemmas[verb] == "dress"):
            return self._phrase(noun)
        return [n for i in self._animate_above(noun) for n in self._phrase(i)] or self._phrase(noun)

    def _animate_above(self, noun: int) -> list[int]:
        """Return the nearest people or animals above a noun in the tree: "man" above "hat" in "a man in a hat"."""
        parse, token = self.parse, noun
        while parse.heads[token] != token:
            token = parse.heads[token]
            if parse.pos[token] in _VERBAL and (subjects := self._subject_tokens(token)):
                return [i for i in subjects if is_animate(parse.lemmas[i])]
            if is_animate(parse.lemmas[token]):
                return [token]
        return []

    def _conjunction_head(self, token: int) -> int | None:
        """Return the noun that a conjunct is coordinated with: that of the tree, or an object in between.

        spaCy often coordinates "spoon" with "girl" in "a girl holding a cup and a spoon sits". A singular verb, and
        whether the nouns are animate, correct this.
        """
        parse, head = self.parse, self.parse.heads[token]
        if parse.labels[token] in _SUBJECTS:  # second subject of one verb
            subjects = [i for i in self.below[head] if parse.labels[i] in _SUBJECTS]
            head = subjects[0]
        elif parse.labels[token] != "conj" or parse.pos[head] not in _NOMINAL:
            return None
        if head >= token:
            return None
        between = [
            i for i in range(head + 1, token) if parse.labels[i] in ("dobj", "pobj") and self.owner[i] is not None
        ]
        animate = is_animate(parse.lemmas[token])
        if between and (self._singular(head) or (is_animate(parse.lemmas[head]) and not animate)):
            return between[-1]
        if animate and not is_animate(parse.lemmas[head]) and parse.tokens[parse.heads[head]] in ("in", "on"):
            return next((i for i in self._animate_above(head) if i < token), head)  # "a boy on a bicycle and a man"
        return head

    def _conjuncts(self, token: int) -> list[int]:
        """Return all nouns that are coordinated with this one."""
        below = [*self.below[token], *self.below[self.parse.heads[token]]]
        near = [i for i in below if i != token and self._conjunction_head(i) == token]
        return near + [i for other in near for i in self._conjuncts(other)]

    def _singular(self, subject: int) -> bool:
        """Return whether the verb has a singular form."""
        parse, verb = self.parse, self.parse.heads[subject]
        forms = [verb, *(i for i in self.below[verb] if parse.pos[i] == "AUX")]
        return parse.labels[subject] in _SUBJECTS and any(parse.tags[i] == "VBZ" for i in forms)

    def _described(self, token: int) -> list[int]:
        """Return the phrases that an adjective, preposition or clause describes."""
        parse, head = self.parse, self.parse.heads[token]
        if parse.pos[token] in _NOMINAL:
            return self._phrase(token)
        if head == token:
            return []
        return self._subjects(head) if parse.pos[head] in _VERBAL else self._described(head)

    def _phrase(self, token: int) -> list[int]:
        number = self.owner[token]
        return [] if number is None else [number]
