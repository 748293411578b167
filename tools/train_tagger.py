"""Learn the parser of inference (src/deixis/language/tagger.npz) from spaCy's parses of training captions.

    python tools/train_tagger.py parse --flickr FOLDER --coco captions.jsonl.gz --karpathy dataset_coco.json --out WORK
    python tools/train_tagger.py train WORK --out src/deixis/language/tagger.npz
    python tools/train_tagger.py measure WORK

``parse`` writes the corrected parses of spaCy for the training captions and for the validation captions of both data
sets, as texts and as words without punctuation and capitals. ``train`` learns the network from the training captions,
and ``measure`` compares it with spaCy on the validation captions. The log of the shipped weights is
``experiments/parser/train.txt``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional as F

from deixis.language import tagger as network
from deixis.language.descriptions import describe
from deixis.language.parse import Parse, build_parse, inputs_of_text
from deixis.language.queries import visible_phrases
from deixis.language.spacy_parse import spacy_parse, spacy_parse_words
from deixis.language.tagger import BEGIN, DILATIONS, INSIDE, OUTSIDE, REACH, Tagger
from deixis.language.tokenise import PUNCTUATION, tokenise, tokens

TRAINING = ("flickr-train", "coco-train")
VALIDATION = ("flickr-val", "coco-val")
MIN_WORDS, MIN_SUFFIXES = 5, 20  # occurrences in the training captions
WIDTH, PAIR, LABEL = 96, 48, 64
WORD, SUFFIX = 20, 10
EPOCHS, TOKENS, RATE = 3, 1000, 3e-3  # tokens of a batch
FRAGMENTS = 0.15
"""Share of captions of which only a noun phrase is learnt in an epoch: queries are phrases."""
MARK = re.compile(r"\[/EN#\S+ ([^\]]*)\]")


@dataclass(frozen=True)
class Example:
    """A sentence for the network, with the parse of its kept tokens."""

    words: list[str]  # lower case, with punctuation
    kept: list[int]  # indices of the tokens of the parse
    parse: Parse


# Parses of spaCy ----------------------------------------------------------------------------------------------------


def flickr_captions(folder: Path, split: str) -> Iterator[str]:
    """Yield the captions of a split of Flickr30k Entities, without markup."""
    for image in (folder / f"{split}.txt").read_text().split():
        for line in (folder / "Sentences" / f"{image}.txt").read_text(encoding="utf-8").splitlines():
            yield MARK.sub(r"\1", line).strip()


def coco_captions(file: Path) -> Iterator[str]:
    """Yield the captions of a list of images, one JSON object per line."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield from (caption.strip() for caption in json.loads(line)["captions"])


def karpathy_captions(file: Path, split: str) -> Iterator[str]:
    """Yield the captions of a split of a file in Karpathy's layout."""
    for image in json.loads(file.read_text())["images"]:
        if image["split"] == split:
            yield from (sentence["raw"].strip() for sentence in image["sentences"])


def differs(text: str) -> bool:
    """Return whether spaCy gets another sentence if punctuation and capitals are removed."""
    words = [token.text for token in tokenise(text)]
    inner = words[:-1] if words[-1] in ".!?" else words
    return any(word.lower() in PUNCTUATION for word in inner) or any(word != word.lower() for word in inner[1:])


def write_parses(file: Path, captions: Iterable[str]) -> None:
    """Write a line for each different caption, and for its words where they differ from the text."""
    texts = list(dict.fromkeys(text for text in captions if tokens(text)))
    words = list(dict.fromkeys(tokens(t) for t in texts if file.name.startswith(VALIDATION) or differs(t)))
    with gzip.open(file, "wt", encoding="utf-8") as out:
        for text, p in zip(texts, spacy_parse(texts), strict=True):
            out.write(json.dumps([text, p.tokens, p.lemmas, p.pos, p.tags, p.heads, p.labels, p.chunks]) + "\n")
        for p in spacy_parse_words(words):
            out.write(json.dumps([None, p.tokens, p.lemmas, p.pos, p.tags, p.heads, p.labels, p.chunks]) + "\n")


def read_parses(file: Path) -> list[Example]:
    """Read a file of :func:`write_parses`."""
    found = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            text, *fields, chunks = json.loads(line)
            parsed = Parse(*map(tuple, fields), tuple(map(tuple, chunks)))
            given = list(parsed.tokens), list(range(len(parsed)))
            words, kept = given if text is None else inputs_of_text(text)
            if len(parsed):
                found.append(Example(words, kept, parsed))
    return found


# Tables -------------------------------------------------------------------------------------------------------------


def lemma_rules(examples: Sequence[Example]) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the shortest endings of words, by tag, that give the most frequent lemma of each word."""
    seen: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for example in examples:
        p = example.parse
        for word, tag, lemma in zip(p.tokens, p.tags, p.lemmas, strict=True):
            seen[tag, word][lemma] += 1
    edits: dict[str, dict[str, tuple[int, str, int]]] = defaultdict(dict)
    for (tag, word), lemmas in seen.items():
        if lemmas.total() >= 2 or lemmas.most_common(1)[0][0] != word:
            lemma, count = lemmas.most_common(1)[0]
            same = next(
                (i for i, (a, b) in enumerate(zip(word, lemma, strict=False)) if a != b), min(len(word), len(lemma))
            )
            edits[tag][word] = (len(word) - same, lemma[same:], count)
    rules: dict[tuple[str, str], tuple[int, str]] = {}
    for tag, words in edits.items():
        for length in range(0, 6):
            votes: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
            for word, (remove, add, count) in words.items():
                if len(word) >= length:
                    votes[word[len(word) - length :]][remove, add] += min(count, 20)
            for suffix, counted in votes.items():
                best, times = counted.most_common(1)[0]
                known = next((rules[tag, suffix[i:]] for i in range(1, length + 1) if (tag, suffix[i:]) in rules), None)
                if (best != (known or (0, ""))) and (times >= 3 or length == 0):
                    rules[tag, suffix] = best
        for word, (remove, add, count) in words.items():
            known = next((rules[tag, word[i:]] for i in range(len(word) + 1) if (tag, word[i:]) in rules), (0, ""))
            if known != (remove, add) and count >= 2:
                rules[tag, f"^{word}"] = (remove, add)
    return rules


def make_tagger(examples: Sequence[Example]) -> Tagger:
    """Return a parser without weights: vocabulary, classes and lemmas of the training captions."""
    words = Counter(word for example in examples for word in example.words)
    known = [word for word, count in sorted(words.items(), key=lambda w: (-w[1], w[0])) if count >= MIN_WORDS]
    ends: Counter[str] = Counter()
    for word, count in words.items():
        ends.update({word[-3:]: count} if len(word) < 3 else {word[-3:]: count, word[-2:]: count})
    suffixes = [end for end, count in sorted(ends.items()) if count >= MIN_SUFFIXES]

    def names(field: Callable[[Parse], Sequence[str]]) -> tuple[str, ...]:
        return tuple(sorted({name for example in examples for name in field(example.parse)}))

    return Tagger(
        {word: row for row, word in enumerate(known, 1)},
        {end: row for row, end in enumerate(suffixes, 1)},
        names(lambda p: p.tags),
        names(lambda p: p.pos),
        names(lambda p: p.labels),
        lemma_rules(examples),
        {},
    )


# Training -----------------------------------------------------------------------------------------------------------


class Network(nn.Module):
    """The network of :mod:`deixis.language.tagger`, with the same names of weights."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        sizes = {
            "word": (len(tagger.words) + 1, WORD),
            "suffix": (len(tagger.suffixes) + 1, SUFFIX),
            "input": (WORD + 2 * SUFFIX + 6, WIDTH),
            **{f"conv{i}": (3 * WIDTH, WIDTH) for i in range(len(DILATIONS))},
            "tag": (WIDTH, len(tagger.tags)),
            "pos": (WIDTH, len(tagger.pos)),
            "chunk": (WIDTH, 3),
            "below": (WIDTH, PAIR),
            "above": (WIDTH, PAIR),
            "pair": (PAIR, PAIR),
            "distance": (WIDTH, 2 * REACH + 1),
            "label.below": (WIDTH, LABEL),
            "label.above": (WIDTH, LABEL),
            "label": (LABEL, len(tagger.labels)),
        }
        self.names = list(sizes)
        for name, (rows, columns) in sizes.items():
            scale = 0.3 if name in ("word", "suffix") else (2 / rows) ** 0.5
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.randn(rows, columns) * scale))
            if name not in ("word", "suffix", "pair", "label.above"):
                self.register_parameter(f"{name.replace('.', '_')}_bias", nn.Parameter(torch.zeros(columns)))

    def w(self, name: str) -> Tensor:
        """Return a weight."""
        return getattr(self, name.replace(".", "_"))

    def linear(self, x: Tensor, name: str) -> Tensor:
        """Return x W + b."""
        return x @ self.w(name) + self.w(f"{name}_bias")

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the weights with the names of the file."""
        found = {}
        for name in self.names:
            found[name] = self.w(name).detach().numpy()
            if hasattr(self, f"{name.replace('.', '_')}_bias"):
                found[f"{name}.bias"] = self.w(f"{name}_bias").detach().numpy()
        return found

    def encode(self, rows: Tensor, there: Tensor) -> Tensor:
        """As :func:`deixis.language.tagger.encode`."""
        suffix = self.w("suffix")
        mask = there[..., None].float()
        parts = [F.embedding(rows[..., 0], self.w("word")), F.embedding(rows[..., 1], suffix)]
        known = torch.cat([*parts, F.embedding(rows[..., 2], suffix), F.one_hot(rows[..., 3], 6).float()], -1)
        x = self.linear(known, "input") * mask
        for number, step in enumerate(DILATIONS):
            normal = F.layer_norm(x, (WIDTH,)) * mask
            wide = F.pad(normal, (0, 0, step, step))
            near = torch.cat([wide[:, : x.shape[1]], normal, wide[:, 2 * step :]], -1)
            x = (x + torch.relu(self.linear(near, f"conv{number}"))) * mask
        return F.layer_norm(x, (WIDTH,)) * mask

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the sum of the cross-entropies of tag, part of speech, chunk, head and label."""
        x = self.encode(batch["rows"], batch["there"])
        kept = batch["tag"] >= 0

        def entropy(scores: Tensor, name: str) -> Tensor:
            return F.cross_entropy(scores[kept], batch[name][kept])

        below, above = torch.relu(self.linear(x, "below")), torch.relu(self.linear(x, "above"))
        steps = torch.arange(x.shape[1])
        distance = (steps - steps[:, None]).clamp(-REACH, REACH) + REACH
        far = self.linear(x, "distance").gather(2, distance.expand(len(x), -1, -1))
        heads = (below @ self.w("pair")) @ above.transpose(1, 2) + far
        heads = heads.masked_fill(~batch["is_head"][:, None], -1e9)
        true = batch["head"].clamp(min=0)
        over = x.gather(1, true[..., None].expand(-1, -1, WIDTH))
        hidden = torch.relu(self.linear(x, "label.below") + over @ self.w("label.above"))
        total = entropy(heads, "head") + entropy(self.linear(hidden, "label"), "label")
        return total + sum(entropy(self.linear(x, name), name) for name in ("tag", "pos", "chunk"))


def targets(example: Example, tagger: Tagger, index: dict[str, dict[str, int]]) -> dict[str, np.ndarray]:
    """Return rows and classes of a sentence; tokens that are not in the parse have class -1."""
    p, count = example.parse, len(example.words)
    found = {name: np.full(count, -1) for name in ("tag", "pos", "chunk", "head", "label")}
    chunk = [OUTSIDE] * len(p)
    for start, end in p.chunks:
        chunk[start:end] = [BEGIN] + [INSIDE] * (end - start - 1)
    for at, i in enumerate(example.kept):
        found["tag"][i] = index["tag"][p.tags[at]]
        found["pos"][i] = index["pos"][p.pos[at]]
        found["label"][i] = index["label"][p.labels[at]]
        found["chunk"][i], found["head"][i] = chunk[at], example.kept[p.heads[at]]
    found["rows"] = np.array([tagger.features(word) for word in example.words])
    found["is_head"] = np.array([word not in PUNCTUATION for word in example.words])
    return found


def fragment(example: Example, rng: np.random.Generator) -> Example | None:
    """Return a noun chunk, its head noun, or a noun with all that depends on it, as a sentence of its own."""
    p = example.parse
    if not p.chunks:
        return None
    start, end = p.chunks[rng.integers(len(p.chunks))]
    head = p.top(start, end)
    assert head is not None
    which = rng.random()
    if which < 0.15:
        start, end = head, head + 1
    elif which < 0.6:
        inside = [_leads_to(p, i, head) for i in range(len(p))]
        while end < len(p) and inside[end]:
            end += 1
    below = range(start, end)
    if not p.nouns[head] or any(p.heads[i] not in below for i in below if i != head):
        return None
    part = Parse(
        p.tokens[start:end],
        p.lemmas[start:end],
        p.pos[start:end],
        p.tags[start:end],
        tuple(i - start if i == head else p.heads[i] - start for i in below),
        tuple("ROOT" if i == head else p.labels[i] for i in below),
        tuple((a - start, b - start) for a, b in p.chunks if start <= a and b <= end) if end - start > 1 else ((0, 1),),
    )
    first, last = example.kept[start], example.kept[end - 1] + 1
    return Example(example.words[first:last], [i - first for i in example.kept[start:end]], part)


def _leads_to(p: Parse, token: int, head: int) -> bool:
    while p.heads[token] != token and token != head:
        token = p.heads[token]
    return token == head


def batches(
    sentences: list[dict[str, np.ndarray]], rng: np.random.Generator, rank: int, processes: int
) -> Iterator[dict[str, Tensor]]:
    """Yield this process's share of padded batches of sentences of similar length, in random order."""
    lengths = np.array([len(one["tag"]) for one in sentences])
    order = np.argsort(lengths + rng.random(len(lengths)))
    groups: list[list[int]] = [[]]
    for i in order:
        if (len(groups[-1]) + 1) * lengths[i] > TOKENS and groups[-1]:
            groups.append([])
        groups[-1].append(i)
    order = rng.permutation(len(groups))[: len(groups) // processes * processes]
    for at in order[rank::processes]:
        some = [sentences[i] for i in groups[at]]
        size = (len(some), max(len(one["tag"]) for one in some))
        batch = {name: np.full(size, -1) for name in ("tag", "pos", "chunk", "head", "label")}
        batch |= {"rows": np.zeros((*size, 4), np.int64), "is_head": np.zeros(size, bool)}
        for row, one in enumerate(some):
            for name, values in one.items():
                batch[name][row, : len(values)] = values
        there = np.arange(size[1]) < np.array([[len(one["tag"])] for one in some])
        yield {name: torch.from_numpy(values) for name, values in (batch | {"there": there}).items()}


def average(model: nn.Module) -> None:
    """Average the gradients of all processes."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def train(examples: Sequence[Example], seed: int, epochs: int, report: Callable[[Tagger, str], None]) -> Tagger:
    """Learn the network; ``report`` is called after each epoch."""
    torch.manual_seed(seed)
    rank, processes = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    rng, noise = np.random.default_rng(seed), np.random.default_rng((seed, rank))
    tagger = make_tagger(examples)
    index = {
        name: {value: row for row, value in enumerate(values)}
        for name, values in (("tag", tagger.tags), ("pos", tagger.pos), ("label", tagger.labels))
    }
    model = Network(tagger)
    print(f"{sum(p.numel() for p in model.parameters()):,} weights, {len(tagger.words):,} words", flush=True)
    print(f"{len(tagger.suffixes):,} suffixes, {len(tagger.lemmas):,} rules of lemmas", flush=True)
    every = [targets(example, tagger, index) for example in examples]
    counts = np.zeros(len(tagger.words) + 1)
    for one in every:
        np.add.at(counts, one["rows"][:, 0], 1)
    drop = 0.01 + 0.5 / (1 + counts / 5)  # rare words are often read as unknown
    whole = epochs * sum(len(one["tag"]) for one in every)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.99))
    seen = 0  # tokens
    began = time.process_time()
    for epoch in range(epochs):
        sentences = list(every)
        for at in np.flatnonzero(rng.random(len(every)) < FRAGMENTS):
            part = fragment(examples[at], rng)
            if part is not None:
                sentences[at] = targets(part, tagger, index)
        total, number = 0.0, 0
        for batch in batches(sentences, rng, rank, processes):
            unknown = noise.random(batch["there"].shape) < drop[batch["rows"][..., 0].numpy()]
            batch["rows"][..., 0][torch.from_numpy(unknown)] = 0
            share = seen / whole  # the rate rises in the first 3 % of the tokens, then falls to 0
            optimiser.param_groups[0]["lr"] = RATE * max(min(share / 0.03, (1 - share) / 0.97), 0.001)
            seen += int(batch["there"].sum()) * processes
            optimiser.zero_grad()
            loss = model.loss(batch)
            loss.backward()
            if processes > 1:
                average(model)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            total, number = total + loss.item(), number + 1
        seconds = time.process_time() - began
        if rank:
            continue
        print(f"epoch {epoch + 1}: loss {total / number:.4f}, {seconds:.0f} s of CPU", flush=True)
        tagger.weights.update(quantised(model.arrays()))
        report(tagger, f"epoch {epoch + 1}")
    return tagger


# The file -----------------------------------------------------------------------------------------------------------


def integers(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """Return a matrix in 8 bits with a scale for each column (each row of an embedding); a bias in 16 bits."""
    if array.ndim == 1:
        return {name: array.astype(np.float16)}
    axis = 1 if name in ("word", "suffix") else 0
    scale = np.maximum(np.abs(array).max(axis, keepdims=True) / 127, 1e-8).astype(np.float16)
    whole = np.rint(array / scale.astype(np.float32)).clip(-127, 127).astype(np.int8)
    return {name: whole, f"{name}.scale": scale}


def quantised(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights as they are read from the file."""
    found = {}
    for name, array in arrays.items():
        stored = integers(name, array)
        scale = stored.get(f"{name}.scale")
        found[name] = stored[name].astype(np.float32) * (1 if scale is None else scale.astype(np.float32))
    return found


def save(tagger: Tagger, file: Path) -> None:
    """Write what :meth:`Tagger.load` reads."""
    texts = {
        "words": list(tagger.words),
        "suffixes": list(tagger.suffixes),
        "tags": tagger.tags,
        "pos": tagger.pos,
        "labels": tagger.labels,
        "lemmas": [f"{tag}\t{end}\t{remove}\t{add}" for (tag, end), (remove, add) in sorted(tagger.lemmas.items())],
    }
    arrays = {f"text.{name}": np.frombuffer("\n".join(lines).encode(), np.uint8) for name, lines in texts.items()}
    for name, weights in tagger.weights.items():
        arrays |= integers(name, weights)
    np.savez_compressed(file, **arrays)


# Agreement with spaCy -----------------------------------------------------------------------------------------------


def agreement(tagger: Tagger, examples: Sequence[Example]) -> dict[str, float]:
    """Return shares of equal answers, in percent; F1 for sets of phrases and relations."""
    tagged = tagger([example.words for example in examples])
    right: Counter[str] = Counter()
    of: Counter[str] = Counter()

    def count(name: str, ours: Iterable[object], true: Iterable[object]) -> None:
        ours, true = list(ours), list(true)
        right[name] += 2 * len(set(ours) & set(true))
        of[name] += len(set(ours)) + len(set(true))

    for example, found in zip(examples, tagged, strict=True):
        true, ours = example.parse, build_parse(tagger, example.words, example.kept, found)
        for name, mine, theirs in (
            ("tags", ours.tags, true.tags),
            ("parts of speech", ours.pos, true.pos),
            ("lemmas", ours.lemmas, true.lemmas),
            ("nouns", ours.nouns, true.nouns),
            ("heads of tokens", ours.heads, true.heads),
            (
                "labels",
                list(zip(ours.heads, ours.labels, strict=True)),
                list(zip(true.heads, true.labels, strict=True)),
            ),
        ):
            right[name] += sum(a == b for a, b in zip(mine, theirs, strict=True))
            of[name] += len(true)
        for at, noun in enumerate(true.nouns):
            if noun:
                right["lemmas of nouns"] += ours.lemmas[at] == true.lemmas[at]
                right["part of speech of nouns"] += ours.pos[at] == true.pos[at]
                of["lemmas of nouns"] += 1
                of["part of speech of nouns"] += 1
        count("chunks", ours.chunks, true.chunks)
        count("noun phrases", [(x.start, x.end) for x in ours.phrases], [(x.start, x.end) for x in true.phrases])
        mine, theirs = visible_phrases(ours), visible_phrases(true)
        count("visible phrases", [(x.start, x.end) for x in mine], [(x.start, x.end) for x in theirs])
        for phrase in {(x.start, x.end) for x in mine} & {(x.start, x.end) for x in theirs}:
            a, b = ours.phrase(*phrase), true.phrase(*phrase)
            right["head and lemma of equal phrases"] += (a.head, a.lemma) == (b.head, b.lemma)
            right["number of equal phrases"] += a.plural == b.plural
            of["head and lemma of equal phrases"] += 1
            of["number of equal phrases"] += 1
        words = [describe(parse) for parse in (ours, true)]
        count("relations", *([(d.phrases[r.subject], r.name, d.phrases[r.object]) for r in d.relations] for d in words))
    return {name: 100 * right[name] / of[name] for name in of}


def show(title: str, found: dict[str, float]) -> None:
    """Print the agreement of one set of sentences."""
    print(f"{title}: " + ", ".join(f"{name} {share:.2f}" for name, share in found.items()), flush=True)


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("parse")
    step.add_argument("--flickr", type=Path, required=True)
    step.add_argument("--coco", type=Path, required=True)
    step.add_argument("--karpathy", type=Path, required=True)
    step.add_argument("--out", type=Path, required=True)
    step = steps.add_parser("train")
    step.add_argument("work", type=Path)
    step.add_argument("--out", type=Path, required=True)
    step.add_argument("--seed", type=int, default=1)
    step.add_argument("--epochs", type=int, default=EPOCHS)
    step.add_argument("--most", type=int, default=0, help="captions of each file, for a trial")
    step = steps.add_parser("measure")
    step.add_argument("work", type=Path)
    step.add_argument("--weights", type=Path, default=network.WEIGHTS)
    step.add_argument("--every", type=int, default=1, help="measure every N-th sentence only")
    options = parser.parse_args()
    if options.step == "parse":
        options.out.mkdir(parents=True, exist_ok=True)
        for split in ("train", "val"):
            write_parses(options.out / f"flickr-{split}.jsonl.gz", flickr_captions(options.flickr, split))
        write_parses(options.out / "coco-train.jsonl.gz", coco_captions(options.coco))
        write_parses(options.out / "coco-val.jsonl.gz", karpathy_captions(options.karpathy, "val"))
        return
    validation = {name: read_parses(options.work / f"{name}.jsonl.gz") for name in VALIDATION}

    def report(tagger: Tagger, title: str, some: int | None = 150) -> None:
        for name, examples in validation.items():
            show(f"{title}, {name}, {len(examples[:some]):,} sentences", agreement(tagger, examples[:some]))

    if options.step == "measure":
        validation = {name: examples[:: options.every] for name, examples in validation.items()}
        report(Tagger.load(options.weights), "agreement with spaCy", None)
        return
    training = []
    for name in TRAINING:
        if (options.work / f"{name}.jsonl.gz").exists():
            training += read_parses(options.work / f"{name}.jsonl.gz")[: options.most or None]
    if "RANK" in os.environ:  # torchrun --nproc-per-node 2 tools/train_tagger.py train ...
        dist.init_process_group("gloo")
    tagger = train(training, options.seed, options.epochs, report)
    if dist.is_initialized() and dist.get_rank():
        return
    save(tagger, options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")
    report(Tagger.load(options.out), "from the file", None)


if __name__ == "__main__":
    main()
