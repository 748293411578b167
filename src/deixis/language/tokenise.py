"""Penn Treebank tokens of a caption, as the caption metrics of the field count them.

The metrics tokenise with Stanford CoreNLP 3.4.1 (a Java program), lower the case and drop punctuation. ``tokens``
gives the same words without Java; ``tokenise`` keeps punctuation, case and the place of each token in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

# What the metrics drop. Brackets stay: they are compared in upper case after the tokens were lowered.
PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its normalised text in the original case, and the characters ``text[start:end]`` it stands for."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """The lower-case words of a text, and where each of them lies in it (characters ``starts[i]`` to ``ends[i]``)."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, char_start: int, char_end: int) -> tuple[int, int]:
        """The tokens [start, end) that the characters [char_start, char_end) touch; start == end where none does."""
        start = bisect_right(self.ends, char_start)
        return start, max(start, bisect_left(self.starts, char_end))


def tokenise(text: str) -> list[Token]:
    """All tokens of a text, punctuation included, in the original case."""
    return [Token(form, start, end) for form, start, end in _lex(text)]


def tokens(text: str) -> tuple[str, ...]:
    """The words that the caption metrics count: lower case, punctuation dropped."""
    return tuple([form for form, _, _ in _words(text)])


def align(text: str) -> Alignment:
    """``tokens(text)`` with their places, for mapping many character spans of one text to token spans."""
    words = _words(text)
    return Alignment(tuple([w[0] for w in words]), tuple([w[1] for w in words]), tuple([w[2] for w in words]))


def token_span(text: str, char_start: int, char_end: int) -> tuple[int, int]:
    """The span [start, end) of ``tokens(text)`` that the characters [char_start, char_end) touch.

    For several spans of one text call ``align(text)`` once and ``span`` on its answer.
    """
    return align(text).span(char_start, char_end)


def _words(text: str) -> list[tuple[str, int, int]]:
    return [(lowered, start, end) for form, start, end in _lex(text) if (lowered := form.lower()) not in PUNCTUATION]


_APOSTROPHE = "['’]"
_LETTER = r"[^\W\d_]"
_WORD = rf"{_LETTER}(?:{_LETTER}|\d)*"
_PATTERN = re.compile(
    rf"""
      (?P<plain>[A-Za-z]+(?=\s|$))
    | (?P<period>\.(?=\s|$))
    | (?P<comma>,(?=\s|$))
    | (?P<word>
        {_LETTER}+(?=n{_APOSTROPHE}t\b)
      | n{_APOSTROPHE}t\b
      | {_APOSTROPHE}(?:n{_APOSTROPHE}|s|d|m|re|ve|ll|em|n|till?|cause)(?!\w)
      | {_APOSTROPHE}\d\ds?\b
      | (?:\w+@)?(?:{_WORD}\.)+(?:com|net|org|edu)\b
      | (?:Mr|Mrs|Ms|Dr|St|Jr|Sr|vs|etc|Mt|Ft)\.
      | (?:[A-Za-z]\.)+
      | o{_APOSTROPHE}clock\b
      | {_WORD}(?:-{_WORD}|[.!?](?={_LETTER}){_WORD}|/{_WORD})*
      | \d+(?:[.,:/-]\d+)*(?:-?\w+)*(?:-\w+)*
      | [A-Z]+&[A-Z]+
      )
    | (?P<dash>--+|[‒-―])
    | (?P<dots>\.\.\.+|…)
    | (?P<other>\S)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SPLIT = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "lemme": 3, "gimme": 3}
_FORMS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-", "’": "'", "‘": "`"}


def _lex(text: str) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for match in _PATTERN.finditer(text):
        form, kind = match.group(), match.lastgroup
        start, end = match.span()
        if kind == "plain" or kind == "word":
            cut = _SPLIT.get(form.lower())
            if cut is not None:
                found.append((form[:cut], start, start + cut))
                found.append((form[cut:], start + cut, end))
                continue
            form = form.replace("’", "'")
        elif kind == "dash":
            form = "--"
        elif kind == "dots":
            form = "..."
        elif kind == "other":
            if form in '"“”':
                form = "''"
            form = _FORMS.get(form, form)
        found.append((form, start, end))
    return found
