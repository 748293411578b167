"""The object words of captions: which word stands for which class, as the papers make classes of phrases.

The class of a phrase is the lemma of its head noun; it is a class when training captions name it often enough. The
lemma is spaCy's, in the context of the sentence, or that of a map which makes runs of different tools comparable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from deixis import boxes as geometry
from deixis.data import Caption, Sample
from deixis.language.parse import Parse, parse, parse_words
from deixis.metrics.grounded_captions import ObjectWord, Sentence, Sentences
from deixis.types import Box, GroundedCaption, Phrase

Lemmas = Mapping[str, str] | None
"""Word -> lemma, a word that is not in it being its own lemma; None: spaCy's."""


def count_classes(samples: Iterable[Sample], lemmas: Lemmas = None, quiet: bool = False) -> Counter[str]:
    """How often captions name each class with a phrase that refers to something visible."""
    captions = [caption for sample in samples for caption in sample.captions]
    counts: Counter[str] = Counter()
    for caption, parsed in zip(captions, _parses(captions, map(_open, captions), quiet), strict=True):
        heads = (_class_of(phrase, parsed, lemmas) for phrase in caption.phrases if phrase.entity is not None)
        counts.update(head[0] for head in heads if head is not None)
    return counts


def reference_sentences(
    samples: Sequence[Sample], classes: Collection[str] | None, lemmas: Lemmas = None, quiet: bool = False
) -> dict[str, tuple[Sentence, ...]]:
    """The captions of each image as object words of the given classes (None: of any class) that have boxes.

    Several boxes of a photograph's entity become the one box around them, as in GVD's reference; those of a video
    segment stay, each in its frame. Tokens are lemmas. A photograph without any box is left out: nobody annotated it.
    """
    captions = [caption for sample in samples for caption in sample.captions]
    # with a map of lemmas only unknown heads need the grammar
    parsed = iter(_parses(captions, (lemmas is None or _open(caption) for caption in captions), quiet))
    sentences: dict[str, tuple[Sentence, ...]] = {}
    for sample in samples:
        found = tuple(_sentence(sample, caption, next(parsed), classes, lemmas) for caption in sample.captions)
        if sample.frames or any(len(entity.boxes) for entity in sample.entities):
            sentences[sample.image_id] = found
    return sentences


def lemmatise(sentences: Sentences, lemmas: Lemmas = None, quiet: bool = False) -> tuple[Sentences, Mapping[str, str]]:
    """Reference sentences for :func:`match_words`, and the lemmas to give it.

    With a map they stay as they are. With spaCy the tokens become lemmas in the context of their sentence, and the
    lemmas are those of the class names, which the published evaluators lemmatise too.
    """
    if lemmas is not None:
        return sentences, lemmas
    flat = [sentence for group in sentences.values() for sentence in group]
    # an empty token keeps its place, as positions count
    parsed = parse_words([[token or "-" for token in sentence.tokens] for sentence in flat], quiet=quiet)
    done = iter([replace(sentence, tokens=p.lemmas) for sentence, p in zip(flat, parsed, strict=True)])
    names = sorted({word.name for sentence in flat for word in sentence.objects})
    alone = parse_words([[name] for name in names], quiet=quiet)
    return (
        {image: tuple(next(done) for _ in group) for image, group in sentences.items()},
        {name: p.lemmas[0] for name, p in zip(names, alone, strict=True)},
    )


def said_words(
    captions: Mapping[str, GroundedCaption], classes: Collection[str], lemmas: Lemmas = None, quiet: bool = False
) -> dict[str, tuple[Sentence]]:
    """The groundings of generated captions as object words; those of no known class are no object words."""
    # a single word is its own head, and a map needs no grammar
    simple = lemmas is not None and all(g.end - g.start == 1 for c in captions.values() for g in c.groundings)
    parses = [None] * len(captions) if simple else parse_words([c.words for c in captions.values()], quiet=quiet)
    said: dict[str, tuple[Sentence]] = {}
    for (image, caption), parsed in zip(captions.items(), parses, strict=True):
        words = []
        for grounding in caption.groundings:
            at = grounding.start if parsed is None else parsed.head(grounding.start, grounding.end)
            if at is None:
                continue
            name = _lemma(caption.words[at].lower(), parsed, at, lemmas)
            if name in classes:
                words.append(ObjectWord(name, at, (grounding.box,)))
        said[image] = (Sentence(tuple(words), caption.words),)
    return said


def _open(caption: Caption) -> bool:
    """Whether the class of any phrase of the caption is still to be found."""
    return not all(phrase.head and phrase.types for phrase in caption.phrases)


def _parses(captions: Sequence[Caption], wanted: Iterable[bool], quiet: bool) -> list[Parse | None]:
    """The parses of the captions for which one is wanted, None for the others."""
    chosen = list(wanted)
    found = iter(parse([c.text for c, want in zip(captions, chosen, strict=True) if want], quiet=quiet))
    return [next(found) if want else None for want in chosen]


def _sentence(
    sample: Sample, caption: Caption, parsed: Parse | None, classes: Collection[str] | None, lemmas: Lemmas
) -> Sentence:
    entities = {entity.id: entity for entity in sample.entities}
    words: dict[int, ObjectWord] = {}
    for phrase in caption.phrases:
        entity = entities.get(phrase.entity or "")
        head = _class_of(phrase, parsed, lemmas)
        if entity is None or len(entity.boxes) == 0 or head is None:
            continue
        name, at = head
        if classes is not None and name not in classes:
            continue
        if entity.frames is None:
            x1, y1, x2, y2 = geometry.union(entity.boxes).tolist()
            words[at] = ObjectWord(name, at, ((x1, y1, x2, y2),))
        else:
            boxes: tuple[Box, ...] = tuple((x1, y1, x2, y2) for x1, y1, x2, y2 in entity.boxes.tolist())
            words[at] = ObjectWord(name, at, boxes, tuple(entity.frames.tolist()))
    tokens = tuple(_lemma(token, parsed, i, lemmas) for i, token in enumerate(caption.tokens))
    return Sentence(tuple(words[at] for at in sorted(words)), tokens)


def _class_of(phrase: Phrase, parsed: Parse | None, lemmas: Lemmas) -> tuple[str, int] | None:
    """The class of a phrase and the position of its head noun; None for a phrase without words.

    A phrase whose head is known already (ActivityNet Entities) is one word, whose class is its type.
    """
    if parsed is None or (phrase.head and phrase.types):
        return phrase.types[0], phrase.start
    at = parsed.head(phrase.start, phrase.end)
    return None if at is None else (_lemma(parsed.tokens[at], parsed, at, lemmas), at)


def _lemma(word: str, parsed: Parse | None, at: int, lemmas: Lemmas) -> str:
    if lemmas is not None or parsed is None:
        return word if lemmas is None else lemmas.get(word, word)
    return parsed.lemmas[at]
