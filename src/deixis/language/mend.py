"""Slips of the small English model that captions provoke, put right by grammar.

Captions are full of bare statements ("a dog leaps over a log") that the model, raised on news, reads as one long noun
("dog leaps"). A singular article cannot go with a plural noun, nor a number with a singular one, so such a last word
is a verb. The rules touch one caption in thirty of Flickr30k; of sixty changes looked at, one was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from deixis.language.beings import is_being

_ONE = frozenset(["a", "an", "another", "each", "every", "one", "this", "that"])
_MANY = frozenset(
    ["two", "three", "four", "five", "six", "seven", "eight", "ten", "several", "some", "many", "few", "both", "these"]
)
# Nouns that stay nouns where the slip is the caption's own: "a jean shorts", "a couple dogs".
_THINGS = frozenset(
    ("bags", "bats", "boots", "bubbles", "clothes", "dogs", "dresses", "fans", "fingers", "glasses", "gloves",
     "guys", "jeans", "letters", "lights", "rocks", "ropes", "sands", "shirts", "shoes", "shorts", "stairs", "toys",
     "trees", "trunks")
)  # fmt: skip
# "A black dog and a brown dog play": what two beings do and no part of a name for a thing ("a dog run", "a man cave").
_TOGETHER = frozenset(
    ("dance", "fight", "hug", "kiss", "look", "play", "pose", "sit", "smile", "stand", "swim", "talk", "walk", "watch",
     "wrestle")
)  # fmt: skip
_IRREGULAR = {"getting": "get", "having": "have"}
_OF_VERBS = frozenset(["prep", "agent", "prt", "advmod", "advcl", "xcomp", "dobj"])
_ONE_CONSONANT = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")  # "rid", "star": their own forms double the last letter


@dataclass
class Draft:
    """A parse that can still be changed: the fields of :class:`deixis.language.parse.Parse`."""

    tokens: list[str]
    lemmas: list[str]
    pos: list[str]
    tags: list[str]
    heads: list[int]
    labels: list[str]
    chunks: list[tuple[int, int]]


def mend(draft: Draft, verbs: Container[str]) -> None:
    """Mend the draft in place; ``verbs`` are the lemmas of all English verbs."""
    for i, (token, lemma) in enumerate(zip(draft.tokens, draft.lemmas, strict=True)):
        if draft.tags[i].startswith("VB"):
            draft.lemmas[i] = _lemma(token, lemma, verbs)
    for number, (start, end) in enumerate(draft.chunks):
        base = _verb_in_chunk(draft, start, end, verbs)
        if base:
            draft.chunks[number] = (start, end - 1)
            if draft.tags[end - 1] == "NN" and draft.tokens[end - 1] != base:
                _make_participle(draft, start, end - 1, base)
            else:
                _take_out(draft, start, end - 1)
                _make_verb(draft, end - 1, base)
    for noun, (verb, label) in enumerate(zip(draft.heads, draft.labels, strict=True)):
        base = _verb_with_subject(draft, noun, verb, verbs) if label == "nsubj" else ""
        if base:
            _give_back_noun(draft, verb)
            _make_verb(draft, verb, base)


def _lemma(token: str, lemma: str, verbs: Container[str]) -> str:
    """The lemma, mended: "riding" is of "ride", for that of "rid" is written "ridding"."""
    if (
        token in (f"{lemma}ing", f"{lemma}ed", f"{lemma}es")
        and _ONE_CONSONANT.fullmatch(lemma)
        and f"{lemma}e" in verbs
    ):
        return f"{lemma}e"
    return _IRREGULAR.get(token, lemma)


def _base(token: str, verbs: Container[str]) -> str:
    """The verb that ends in -s here, or nothing."""
    if token in _THINGS or not token.endswith("s"):
        return ""
    forms = [token[:-1], token[:-2] if token.endswith("es") else "", f"{token[:-3]}y" if token.endswith("ies") else ""]
    return next((form for form in forms if form in verbs), "")


def _base_of_participle(token: str, verbs: Container[str]) -> str:
    """The verb that ends in -ing here, or nothing."""
    stem = token.removesuffix("ing")
    forms = [f"{stem}e", stem[:-1] if stem[-2:-1] == stem[-1:] else "", stem]
    return "" if stem == token else next((form for form in forms if form in verbs), "")


def _verb_in_chunk(draft: Draft, start: int, end: int, verbs: Container[str]) -> str:
    """The lemma of the verb that ends a noun chunk: "a black dog leaps", "two dogs race", "a dog swimming"."""
    last, before = end - 1, end - 2
    if before < start or draft.heads[before] != last or not draft.tags[before].startswith("NN"):
        return ""
    plural = draft.tags[before] == "NNS"
    if draft.tags[last] == "NNS" and not plural and draft.tokens[start] in _ONE:
        return _base(draft.tokens[last], verbs)
    if draft.tags[last] == "NN" and plural and draft.tokens[start] in _MANY and draft.tokens[last] in verbs:
        return draft.tokens[last]
    if draft.tags[last] == "NN" and is_being(draft.lemmas[before]):
        if draft.labels[last] == "conj" and draft.tokens[last] in _TOGETHER:
            return draft.tokens[last]
        return _base_of_participle(draft.tokens[last], verbs)
    return ""


def _verb_with_subject(draft: Draft, noun: int, verb: int, verbs: Container[str]) -> str:
    """The lemma of a verb that was tagged as a noun, though the tree gives it a subject and no "is"."""
    below = [i for i, head in enumerate(draft.heads) if head == verb]
    if noun >= verb or any(draft.pos[i] == "AUX" for i in below):
        return ""
    if draft.tags[verb] == "NNS":
        return _base(draft.tokens[verb], verbs)
    several = draft.tags[noun] == "NNS" or any(
        h == noun and draft.labels[i] == "conj" for i, h in enumerate(draft.heads)
    )
    return draft.tokens[verb] if draft.tags[verb] == "NN" and several and draft.tokens[verb] in verbs else ""


def _make_verb(draft: Draft, verb: int, base: str) -> None:
    draft.tags[verb] = "VBZ" if draft.tags[verb] == "NNS" else "VBP"
    draft.pos[verb], draft.lemmas[verb] = "VERB", base
    for i, (head, tag, label) in enumerate(zip(draft.heads, draft.tags, draft.labels, strict=True)):
        if head == verb and tag == "VB" and label == "acl":  # "attempts to climb"
            draft.labels[i] = "xcomp"


def _make_participle(draft: Draft, start: int, verb: int, base: str) -> None:
    """Let the noun before the participle take its place in the tree, and the participle depend on the noun."""
    noun = verb - 1
    draft.tags[verb], draft.pos[verb], draft.lemmas[verb] = "VBG", "VERB", base
    for i in range(start, noun):
        if draft.heads[i] == verb:
            draft.heads[i] = noun
    draft.heads[noun] = noun if draft.heads[verb] == verb else draft.heads[verb]
    draft.labels[noun] = draft.labels[verb]
    draft.heads[verb], draft.labels[verb] = noun, "acl"


def _take_out(draft: Draft, start: int, verb: int) -> None:
    """Make the noun phrase [start, verb) stand without the verb that was its head."""
    noun, above, label = verb - 1, draft.heads[verb], draft.labels[verb]
    for i in range(start, noun):
        if draft.heads[i] == verb:
            draft.heads[i] = noun
    if label == "conj":  # of two nouns that are the subject together
        draft.heads[noun], draft.labels[noun] = above, "conj"
        draft.heads[verb], draft.labels[verb] = draft.heads[above], draft.labels[above]
        draft.heads[above], draft.labels[above] = verb, "nsubj"
        if draft.heads[verb] == above:  # the first noun was the root
            draft.heads[verb] = verb
        return
    if label not in ("pobj", "dobj"):
        draft.heads[noun], draft.labels[noun] = verb, "nsubj"
        return
    # "A girl in a snowsuit peeks out": the snowsuit stays with its preposition, and it is the girl who peeks.
    draft.heads[noun], draft.labels[noun] = above, label
    if label == "pobj":
        above = draft.heads[above]
    draft.heads[verb] = above
    draft.labels[verb] = "acl" if draft.pos[above] in ("NOUN", "PROPN", "PRON") else "conj"
    for i in range(verb + 1, len(draft.tokens)):
        if draft.heads[i] == above and draft.labels[i] in _OF_VERBS:
            draft.heads[i] = verb


def _give_back_noun(draft: Draft, verb: int) -> None:
    """In "a dog covered in mud runs" the mud goes back to the preposition that it was torn from."""
    noun = start = verb - 1
    if draft.labels[noun] != "compound" or draft.heads[noun] != verb:
        return
    while start and draft.heads[start - 1] in (noun, verb) and draft.labels[start - 1] in ("det", "amod", "compound"):
        start -= 1
        draft.heads[start] = noun
    before = start - 1
    if before >= 0 and draft.pos[before] == "ADP" and before not in draft.heads:
        draft.heads[noun], draft.labels[noun] = before, "pobj"
        draft.chunks = sorted({*draft.chunks, (start, verb)})
