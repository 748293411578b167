"""Penn Treebank tokens of captions, as the usual caption metrics count them.

The metrics tokenise with Stanford CoreNLP 3.4.1 (a Java program), lower the case and drop punctuation. ``tokens``
gives the same words without Java; ``tokenise`` also keeps punctuation, case and the position of each token.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache

# Tokens that the metrics drop. Brackets ("-lrb-") are kept: the metrics search for them in upper case, after all tokens
# were converted to lower case.
PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])


@dataclass(frozen=True, slots=True)
class Token:
    """A token: normalised text in the original case, and its character span ``text[start:end]``."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """Lower-case words of a text and their character spans ``starts[i]`` to ``ends[i]``."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, char_start: int, char_end: int) -> tuple[int, int]:
        """Return the token span [start, end) that overlaps characters [char_start, char_end); empty if none does."""
        start = bisect_right(self.ends, char_start)
        return start, max(start, bisect_left(self.starts, char_end)) if char_end > char_start else start


def tokenise(text: str) -> list[Token]:
    """Return all tokens of a text, with punctuation, in the original case.

    A period that ends an abbreviation and the sentence at once belongs to the abbreviation.
    """
    return [Token(form, start, end) for form, start, end in _lex(text)]


def tokens(text: str) -> tuple[str, ...]:
    """Return the words that caption metrics count: lower case, without punctuation."""
    plain = _PLAIN.match(text)
    if plain is not None and len(text) - plain.end() <= _SHORT:
        # words of letters between spaces are tokens; the rest of a caption, such as "grass.", is often the same
        words = plain[0].lower().split()
        if _HALVES.keys().isdisjoint(words):
            return (*words, *_rest(text[plain.end() :]))
    return tuple([form for form, _, _ in _words(text)])


@lru_cache(maxsize=2**14)
def _rest(text: str) -> tuple[str, ...]:
    return tuple([form for form, _, _ in _words(text)])


def align(text: str) -> Alignment:
    """Return ``tokens(text)`` with their positions, to map character spans to token spans."""
    words = _words(text)
    return Alignment(tuple([w[0] for w in words]), tuple([w[1] for w in words]), tuple([w[2] for w in words]))


def token_span(text: str, char_start: int, char_end: int) -> tuple[int, int]:
    """Return the span [start, end) of ``tokens(text)`` that overlaps characters [char_start, char_end).

    For several spans of one text, call ``align(text)`` once and then ``span``.
    """
    return align(text).span(char_start, char_end)


def _words(text: str) -> list[tuple[str, int, int]]:
    return [(lowered, start, end) for form, start, end in _lex(text) if (lowered := form.lower()) not in PUNCTUATION]


# The lexer ---------------------------------------------------------------------------------------------------------
# At each position the rule with the longest match is applied, the first one on a tie. The group of a rule is the token.
# Text that a rule matches after the group is context: it counts for the length and is read again. Rules ignore case.

_A = "['’\x92]"  # the apostrophes of contractions
_L = (  # letters, combining marks and the soft hyphen
    r"(?:[^\W\d_²³¹¼-¾⁰-₟⅐-↉①-⓿❶-➓]"
    r"|[\xad\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065e\u0670\u06d6-\u06ed\u0900-\u0903"
    r"\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a03\u0a3c-\u0a51\u0abc-\u0acd"
    r"\u0b3c-\u0b57\u0bbe-\u0bcd\u0c3e-\u0c56\u0cbc-\u0cd6\u0d3e-\u0d4d\u0e31\u0e34-\u0e3a\u0e47-\u0e4e])"
)
_N = rf"(?:{_L}|\d)"
_WORD = rf"{_L}{_N}*(?:[.!?]{_L}{_N}*)*"
_AUXILIARY = r"(?:'(?:[sdm]|re|ve|ll)(?![a-z])|[’\x92](?:[sdm]|re|ve|ll))"
_PART = rf"(?:[dlo]{_A}{_N}{{2,}}|{_N}+)"
_COMPOUND = rf"{_PART}(?:[-_\u058a\u2010\u2011]{_PART})*"
_NUMBER = r"[-+]?(?:\d+(?:[.:,]\d+)*|(?:[.:,]\d+)+)"
_SLASHED = r"[a-z0-9]+(?:-[a-z]+)*(?:/[a-z0-9]+(?:-[a-z]+)*)+"
_PATH = r"[^\s\"<>|()]*[^\s\"<>|(){}.!?,-]"  # path of a URL, without punctuation at its end
_MAIL = r"[^\s\"<>|(){}]"
_HOST = r"[^\s\"<>|(){}.]"

# Abbreviations that keep their period: before a word, at the end of a name or list, with a capital only (states),
# before a number only.
_TITLES = (
    "adj adm adv alex assoc asst atty ave brig capt cf cie cmdr col cpl dept det dr drs elec ens ft gen gov govs "
    "hon insp invt jos lt maj mfg mlle mme mr mrs ms msgr mt mtg natl pfc ph ph.d pres prof profs pvt rep reps "
    "rev sen sens sfc sgt spc st ste supt treas vs wm"
)
_ENDINGS = (
    "al ala apr ariz assn aug bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb fla "
    "fri ga inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn "
    "plc ppte ppty pte ptes pty ptys rd rt sep sept seq sq sr sys tel tenn thu thurs tue tues univ va vt wed wis "
    "wisc wyo"
)
_STATES = "Ark Az Del Ill La Mass Miss Ore Pa Tex Wash"
_BEFORE_NUMBER = "art ca fig figs no nos op pp prop"
# Words that start a new sentence after a single letter with a period.
_STARTERS = (
    "A About According Additionally After An As At But Earlier He Her Here However If In It Last Many More Now Once "
    "One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You"
)


# one pattern for each list, the longest words first
_TITLE, _ENDING, _STATE, _NUMBERED, _STARTER = (
    "(?:" + "|".join(map(re.escape, sorted(words.split(), key=len, reverse=True))) + ")"
    for words in (_TITLES, _ENDINGS, f"{_STATES} {_STATES.upper()}", _BEFORE_NUMBER, f"{_STARTERS} {_STARTERS.upper()}")
)
_RULES = [
    re.compile(rule, re.IGNORECASE)
    for rule in (
        rf"((?:{_ENDING}|(?-i:{_STATE}))\.)\S?",
        rf"({_WORD})",
        rf"({_WORD}){_AUXILIARY}",
        rf"([a-z]*[a-mo-z])n{_A}t",
        rf"(n{_A}t)",
        rf"({_AUXILIARY})",
        # compounds, and words joined by slashes
        rf"({_COMPOUND})",
        rf"({_COMPOUND}){_AUXILIARY}",
        rf"({_N}(?:[.,]|{_N})*-{_COMPOUND})",
        rf"({_SLASHED})",
        rf"({_SLASHED}){_AUXILIARY}",
        # abbreviations
        r"([a-z](?:\.[a-z])*\.)",
        rf"([a-z])\.(?-i:\s+{_STARTER}(?!\S))",
        rf"({_TITLE}\.)",
        rf"({_NUMBERED}\.)\s*\d",
        rf"((?:{_WORD}|{_NUMBER}|{_COMPOUND})\.)[,;:]",
        # apostrophes: hallowe'en, O'Neil, l', y'all, ol', 'em, rock 'n' roll, 'tis, '94, '90s
        rf"({_L}+[aeiouy]{_A}(?:[aeiou]|(?-i:[A-Z]))[a-z]*)",
        rf"((?:n|(?-i:[A-HJ-XZ])){_A}[a-z]{{2,}})",
        rf"([djl]{_A})",
        rf"(y{_A}){_N}",
        rf"(ol{_A})",
        rf"({_A}(?:em|till?|cause|n{_A}|\d0s))",
        r"('n(?!\S)|[’\x92]n)",
        r"('t)(?:is|was)",
        rf"({_A}\d\d)(?!\S)",
        # numbers, fractions, dates, telephone numbers
        rf"({_NUMBER})",
        r"((?:\d{1,4}[- \xa0])?\d{1,4}/\d{1,4})",
        r"(\d{1,2}[-/]\d{1,2}[-/]\d{2,4})",
        r"((?:\(\d{2,3}\)[ \xa0]?|(?:\d{2,4}[- \xa0])?\d{2,4}[- \xa0])\d{3,4}[- \xa0]?\d{3,5})",
        # names with symbols, addresses, tags, entities, emoticons
        r"((?-i:[A-Z]*)\$)",
        r"((?-i:[A-Z]+(?:[&+][A-Z]+)+))",
        r"(c\+\+|[cf]#)",
        rf"(#{_L}+|@[a-z_][a-z0-9_]*)",
        rf"([a-z0-9]{_MAIL}{{0,64}}@(?:{_HOST}+\.)*{_HOST}+)",
        rf"((?-i:https?|HTTPS?)://{_PATH})",
        rf"(www\.(?:[a-z0-9-]+\.)*[a-z0-9-]+|{_WORD}\.(?:com|net|org|edu)/{_PATH})",
        r"(</?[a-z][a-z0-9]*(?:\s+[a-z]+(?:\s*=\s*\"[^\"]*\")?)*\s*/?>|<!--.*?-->)",
        rf"(<[a-z0-9]{_MAIL}{{0,64}}@{_MAIL}+>)",
        r"(&(?:amp|lt|gt|quot|nbsp|#\d+);)",
        r"([<>]?[:;=][-o*']?[()\[\]{dpo\\@|](?![a-z0-9])|[-<>=x'^v]_[-<>=x'^]|o'o)",
        # punctuation and symbols; other characters, such as emoji, are dropped
        r"(\.{3,}|\.(?:[ \xa0]\.){2,})",
        r"(-+|[!?]+|\*+|_+|#+|@+|<<|>>|``|''|[‘’“”‛‹›\x91-\x94]{2})",
        r"([!-/:-@\[-`{-~\x80\x91-\x94\x96\x97¡-¬®-´¶-¿×÷;·–-‘’-•…‰-›※‾-⁂⁄⁰⁴-⁾₀-₎₠₤€℀-⯿、。〒・！-／：-＠［-｀｛-･￠￡￥￦\xad])",
    )
]
_FAST = re.compile(r"\s*([A-Za-z]+|,|\.(?=\s*$))(?!\S)")  # fast path: words and commas before a space
_PLAIN = re.compile(r"\s*(?:[A-Za-z]+(?!\S)\s*)+")  # the words of the fast path at the start of a text
_SHORT = 64  # characters of a rest of a text that is cached
_SURROGATES = re.compile(r"[\ud800-\udfff]")  # surrogates of damaged files, which are not valid text
_HALVES = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "lemme": 3, "gimme": 3}
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_FORMS = (
    _BRACKETS
    | dict.fromkeys("‘‛‹\x91", "`")
    | dict.fromkeys("’›\x92", "'")
    | dict.fromkeys("“«\x93", "``")
    | dict.fromkeys("”»\x94", "''")
    | dict.fromkeys("–—―\x96\x97", "--")
    | dict.fromkeys("€₠¤\x80", "$")
    | {"£": "#", "¢": "cents", "…": "...", "\xad": "-"}
    | {"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"}
    | {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": "''", "&nbsp;": ""}
)
_CONTRACTED = re.compile(rf"{_AUXILIARY}|n{_A}t|{_A}", re.IGNORECASE)


def _lex(text: str) -> list[tuple[str, int, int]]:
    """Return (normalised form, start, end) of each token."""
    if not text.isascii():
        text = _SURROGATES.sub(" ", text)
    found: list[tuple[str, int, int]] = []
    place = 0
    while place < len(text):
        fast = _FAST.match(text, place)
        if fast is not None:
            start, place = fast.span(1)
            form = fast[1]
        else:
            start = place
            place = _longest(text, start)
            if place == start:  # white space, or a character without a rule
                place += 1
                continue
            form = _normal(text, start, place)
        cut = _HALVES.get(form.lower())
        if cut is not None:
            found.append((form[:cut], start, start + cut))
            found.append((form[cut:], start + cut, place))
        elif form:
            found.append((form, start, place))
    return found


def _longest(text: str, start: int) -> int:
    """Return the end of the token that begins at ``start``; ``start`` if none begins there."""
    reach, end = start, start
    for rule in _RULES:
        match = rule.match(text, start)
        if match is not None and match.end() > reach:
            reach, end = match.end(), match.end(1)
    return end


def _normal(text: str, start: int, end: int) -> str:
    """Return the Penn Treebank form of ``text[start:end]``."""
    form = text[start:end]
    if form.isalnum() and form.isascii():
        return form
    if form in _FORMS:
        return _FORMS[form]
    if form == '"':
        return "``" if text[end : end + 1].isalnum() else "''"
    if form == "'":
        return "`" if len(text) > end + 1 and text[end : end + 2].isalpha() else "'"
    if len(form) > 1 and not form.strip(". \t\xa0"):
        return "..."
    if not form.strip("-") and 2 <= len(form) <= 4:
        return "--"
    if len(form) == 2 and form[0] in _FORMS and form[1] in _FORMS:
        return _FORMS[form[0]] + _FORMS[form[1]]
    form = re.sub(r"\s", "\xa0", form.replace("\xad", ""))
    form = re.sub(r"[()]", lambda bracket: _BRACKETS[bracket[0]], form)
    return re.sub(_A, "'", form) if _CONTRACTED.fullmatch(form) else form
