"""Corrections of frequent errors of the spaCy model on captions.

The model was trained on news. It often tags the verb of a short caption ("a dog leaps over a log") as a noun ("dog
leaps"). A singular article does not go with a plural noun, and a numeral above one does not go with a singular noun;
in these cases the last word is a verb. The rules change one caption in thirty of Flickr30k; of sixty changes checked by
hand, one was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from deixis.language.animate import is_animate

_SINGULAR_DETERMINERS = frozenset(["a", "an", "another", "each", "every", "one", "this", "that"])
_PLURAL_DETERMINERS = frozenset(
    ["two", "three", "four", "five", "six", "seven", "eight", "ten", "several", "some", "many", "few", "both", "these"]
)
# Nouns that stay nouns although the caption itself is ungrammatical: "a jean shorts", "a couple dogs".
_PLURAL_NOUNS = frozenset(
    ("bags", "bats", "boots", "bubbles", "clothes", "dogs", "dresses", "fans", "fingers", "glasses", "gloves",
     "guys", "jeans", "letters", "lights", "rocks", "ropes", "sands", "shirts", "shoes", "shorts", "stairs", "toys",
     "trees", "trunks")
)  # fmt: skip
# Verbs of two people or animals ("a black dog and a brown dog play") that are not part of compounds ("a dog run").
_JOINT_VERBS = frozenset(
    ("dance", "fight", "hug", "kiss", "look", "play", "pose", "sit", "smile", "stand", "swim", "talk", "walk", "watch",
     "wrestle")
)  # fmt: skip
_IRREGULAR = {"getting": "get", "having": "have"}
_VERB_DEPENDENTS = frozenset(["prep", "agent", "prt", "advmod", "advcl", "xcomp", "dobj"])
_ONE_CONSONANT = re.compile(
    r"[^aeiou]*[aeiou][^aeiouwxy]"
)  # "rid", "star": their own forms double the last letter ("ridding")


@dataclass
class MutableParse:
    """Mutable copy of the fields of :class:`deixis.language.parse.Parse`."""

    tokens: list[str]
    lemmas: list[str]
    pos: list[str]
    tags: list[str]
    heads: list[int]
    labels: list[str]
    chunks: list[tuple[int, int]]


def correct(parsed: MutableParse, verbs: Container[str]) -> None:
    """Correct a parse in place; ``verbs`` are the lemmas of all English verbs."""
    for i, (token, lemma) in enumerate(zip(parsed.tokens, parsed.lemmas, strict=True)):
        if parsed.tags[i].startswith("VB"):
            parsed.lemmas[i] = _lemma(token, lemma, verbs)
    for number, (start, end) in enumerate(parsed.chunks):
        base = _verb_in_chunk(parsed, start, end, verbs)
        if base:
            parsed.chunks[number] = (start, end - 1)
            if parsed.tags[end - 1] == "NN" and parsed.tokens[end - 1] != base:
                _make_participle(parsed, start, end - 1, base)
            else:
                _detach_verb(parsed, start, end - 1)
                _make_verb(parsed, end - 1, base)
    for noun, (verb, label) in enumerate(zip(parsed.heads, parsed.labels, strict=True)):
        base = _verb_with_subject(parsed, noun, verb, verbs) if label == "nsubj" else ""
        if base:
            _reattach_noun(parsed, verb)
            _make_verb(parsed, verb, base)


def _lemma(token: str, lemma: str, verbs: Container[str]) -> str:
    """Return the corrected lemma of a verb: "ride" for "riding", because the form of "rid" is "ridding"."""
    if (
        token in (f"{lemma}ing", f"{lemma}ed", f"{lemma}es")
        and _ONE_CONSONANT.fullmatch(lemma)
        and f"{lemma}e" in verbs
    ):
        return f"{lemma}e"
    return _IRREGULAR.get(token, lemma)


def _base(token: str, verbs: Container[str]) -> str:
    """Return the lemma of a verb form that ends in -s; "" if it is none."""
    if token in _PLURAL_NOUNS or not token.endswith("s"):
        return ""
    forms = [token[:-1], token[:-2] if token.endswith("es") else "", f"{token[:-3]}y" if token.endswith("ies") else ""]
    return next((form for form in forms if form in verbs), "")


def _base_of_participle(token: str, verbs: Container[str]) -> str:
    """Return the lemma of a verb form that ends in -ing; "" if it is none."""
    stem = token.removesuffix("ing")
    forms = [f"{stem}e", stem[:-1] if stem[-2:-1] == stem[-1:] else "", stem]
    return "" if stem == token else next((form for form in forms if form in verbs), "")


def _verb_in_chunk(parsed: MutableParse, start: int, end: int, verbs: Container[str]) -> str:
    """Return the lemma of a verb at the end of a noun chunk: "a black dog leaps", "two dogs race"; "" if none."""
    last, before = end - 1, end - 2
    if before < start or parsed.heads[before] != last or not parsed.tags[before].startswith("NN"):
        return ""
    plural = parsed.tags[before] == "NNS"
    if parsed.tags[last] == "NNS" and not plural and parsed.tokens[start] in _SINGULAR_DETERMINERS:
        return _base(parsed.tokens[last], verbs)
    if (
        parsed.tags[last] == "NN"
        and plural
        and parsed.tokens[start] in _PLURAL_DETERMINERS
        and parsed.tokens[last] in verbs
    ):
        return parsed.tokens[last]
    if parsed.tags[last] == "NN" and is_animate(parsed.lemmas[before]):
        if parsed.labels[last] == "conj" and parsed.tokens[last] in _JOINT_VERBS:
            return parsed.tokens[last]
        return _base_of_participle(parsed.tokens[last], verbs)
    return ""


def _verb_with_subject(parsed: MutableParse, noun: int, verb: int, verbs: Container[str]) -> str:
    """Return the lemma of a verb that is tagged as a noun but has a subject and no auxiliary; "" if none."""
    below = [i for i, head in enumerate(parsed.heads) if head == verb]
    if noun >= verb or any(parsed.pos[i] == "AUX" for i in below):
        return ""
    if parsed.tags[verb] == "NNS":
        return _base(parsed.tokens[verb], verbs)
    several = parsed.tags[noun] == "NNS" or any(
        h == noun and parsed.labels[i] == "conj" for i, h in enumerate(parsed.heads)
    )
    return parsed.tokens[verb] if parsed.tags[verb] == "NN" and several and parsed.tokens[verb] in verbs else ""


def _make_verb(parsed: MutableParse, verb: int, base: str) -> None:
    parsed.tags[verb] = "VBZ" if parsed.tags[verb] == "NNS" else "VBP"
    parsed.pos[verb], parsed.lemmas[verb] = "VERB", base
    for i, (head, tag, label) in enumerate(zip(parsed.heads, parsed.tags, parsed.labels, strict=True)):
        if head == verb and tag == "VB" and label == "acl":  # "attempts to climb"
            parsed.labels[i] = "xcomp"


def _make_participle(parsed: MutableParse, start: int, verb: int, base: str) -> None:
    """Replace a participle in the tree by the noun before it; the participle becomes a dependent of the noun."""
    noun = verb - 1
    parsed.tags[verb], parsed.pos[verb], parsed.lemmas[verb] = "VBG", "VERB", base
    for i in range(start, noun):
        if parsed.heads[i] == verb:
            parsed.heads[i] = noun
    parsed.heads[noun] = noun if parsed.heads[verb] == verb else parsed.heads[verb]
    parsed.labels[noun] = parsed.labels[verb]
    parsed.heads[verb], parsed.labels[verb] = noun, "acl"


def _detach_verb(parsed: MutableParse, start: int, verb: int) -> None:
    """Separate the noun phrase [start, verb) from the verb that was its head."""
    noun, above, label = verb - 1, parsed.heads[verb], parsed.labels[verb]
    for i in range(start, noun):
        if parsed.heads[i] == verb:
            parsed.heads[i] = noun
    if label == "conj":  # two coordinated nouns are the subject
        parsed.heads[noun], parsed.labels[noun] = above, "conj"
        parsed.heads[verb], parsed.labels[verb] = parsed.heads[above], parsed.labels[above]
        parsed.heads[above], parsed.labels[above] = verb, "nsubj"
        if parsed.heads[verb] == above:  # the first noun was the root
            parsed.heads[verb] = verb
        return
    if label not in ("pobj", "dobj"):
        parsed.heads[noun], parsed.labels[noun] = verb, "nsubj"
        return
    # "A girl in a snowsuit peeks out": "snowsuit" stays the object of "in", and "girl" is the subject of "peeks".
    parsed.heads[noun], parsed.labels[noun] = above, label
    if label == "pobj":
        above = parsed.heads[above]
    parsed.heads[verb] = above
    parsed.labels[verb] = "acl" if parsed.pos[above] in ("NOUN", "PROPN", "PRON") else "conj"
    for i in range(verb + 1, len(parsed.tokens)):
        if parsed.heads[i] == above and parsed.labels[i] in _VERB_DEPENDENTS:
            parsed.heads[i] = verb


def _reattach_noun(parsed: MutableParse, verb: int) -> None:
    """Reattach a noun to its preposition: "mud" to "in" in "a dog covered in mud runs"."""
    noun = start = verb - 1
    if parsed.labels[noun] != "compound" or parsed.heads[noun] != verb:
        return
    while start and parsed.heads[start - 1] in (noun, verb) and parsed.labels[start - 1] in ("det", "amod", "compound"):
        start -= 1
        parsed.heads[start] = noun
    before = start - 1
    if before >= 0 and parsed.pos[before] == "ADP" and before not in parsed.heads:
        parsed.heads[noun], parsed.labels[noun] = before, "pobj"
        parsed.chunks = sorted({*parsed.chunks, (start, verb)})
