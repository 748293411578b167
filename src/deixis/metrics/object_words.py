"""The object words of captions: which word stands for which class, on both sides of the comparison.

Classes are those of :class:`deixis.language.classes.ObjectClasses`: lemmas of head nouns that training captions name
often enough. The lemma is spaCy's, or that of a map, which makes runs of different tools comparable. ActivityNet
Entities and GVD's reference files come with their own classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from deixis import boxes as geometry
from deixis.data import Caption, Entity, Sample
from deixis.language.classes import ObjectClasses
from deixis.language.parse import Parse, parse, parse_words
from deixis.metrics.grounded_captions import ObjectWord, Sentence, Sentences
from deixis.types import Box, GroundedCaption, Phrase

Lemmas = Mapping[str, str] | None
"""Word -> lemma, a word that is not in it being its own lemma; None: spaCy's."""

USUAL_MINIMUM, USUAL_IMAGES = 100, 29_783
"""Mentions that make a class among the training images of Flickr30k Entities.

The papers have a list of 480 classes. In proportion a quarter of the images needs 25 mentions, which leaves 448.
"""


def default_minimum(images: int) -> int:
    """How often the captions of so many training images must name a class, where nobody says."""
    return max(1, round(USUAL_MINIMUM * images / USUAL_IMAGES))


# Data sets ----------------------------------------------------------------------------------------------------------


def find_classes(samples: Sequence[Sample], minimum: int, lemmas: Lemmas = None, quiet: bool = False) -> ObjectClasses:
    """The classes of captions whose phrases refer to something visible."""
    captions = [caption for sample in samples for caption in sample.captions]
    visible = [[phrase for phrase in caption.phrases if phrase.entity is not None] for caption in captions]
    if any(_settled(phrase) for phrases in visible for phrase in phrases):
        return _given_classes(phrase for phrases in visible for phrase in phrases)
    return ObjectClasses.build(zip(_parse(captions, lemmas, quiet), visible, strict=True), minimum)


def reference_sentences(
    samples: Sequence[Sample], classes: ObjectClasses, lemmas: Lemmas = None, quiet: bool = False
) -> dict[str, tuple[Sentence, ...]]:
    """The captions of each image as those object words that have boxes; the tokens are lemmas.

    Several boxes of a photograph's entity become the one box around them, as in GVD's reference; those of a video
    segment stay, each in its frame. A photograph without any box is left out: nobody annotated it.
    """
    parses = iter(_parse([caption for sample in samples for caption in sample.captions], lemmas, quiet))
    sentences: dict[str, tuple[Sentence, ...]] = {}
    for sample in samples:
        places = {entity.id: _place(entity) for entity in sample.entities if len(entity.boxes)}
        found = tuple(
            _sentence(caption, next(parses), classes, [places.get(phrase.entity or "") for phrase in caption.phrases])
            for caption in sample.captions
        )
        if sample.frames or any(len(entity.boxes) for entity in sample.entities):
            sentences[sample.image_id] = found
    return sentences


def answered_sentences(
    samples: Sequence[Sample],
    classes: ObjectClasses,
    boxes: Mapping[tuple[str, int, int], Box],
    lemmas: Lemmas = None,
    quiet: bool = False,
) -> dict[str, tuple[Sentence, ...]]:
    """The captions of each image as object words, each with the box that was answered for its phrase.

    ``boxes`` are by image, number of the caption and first word of the phrase.
    """
    parses = iter(_parse([caption for sample in samples for caption in sample.captions], lemmas, quiet))

    def sentence(image: str, number: int, caption: Caption) -> Sentence:
        answers = [boxes.get((image, number, phrase.start)) for phrase in caption.phrases]
        return _sentence(caption, next(parses), classes, [box and ((box,), ()) for box in answers])

    return {
        s.image_id: tuple(sentence(s.image_id, n, caption) for n, caption in enumerate(s.captions)) for s in samples
    }


Place = tuple[tuple[Box, ...], tuple[int, ...]]
"""Boxes, and the frame of each in a video segment."""


def _sentence(caption: Caption, parsed: Parse, classes: ObjectClasses, places: Sequence[Place | None]) -> Sentence:
    """A caption whose phrases have places, or None where nobody knows one."""
    words: dict[int, ObjectWord] = {}
    for phrase, place in zip(caption.phrases, places, strict=True):
        if place is None:
            continue
        at = phrase.start if _settled(phrase) else parsed.head(phrase.start, phrase.end)
        name = phrase.types[0] if _settled(phrase) else classes.of_phrase(parsed, phrase)
        if at is not None and name is not None:
            words[at] = ObjectWord(name, at, *place)
    # a token that stands for a class is called by it, so that the two sides meet
    tokens = tuple(classes.of(token) or lemma for token, lemma in zip(parsed.tokens, parsed.lemmas, strict=True))
    return Sentence(tuple(words[at] for at in sorted(words)), tokens)


def _place(entity: Entity) -> Place:
    if entity.frames is None:
        x1, y1, x2, y2 = geometry.union(entity.boxes).tolist()
        return ((x1, y1, x2, y2),), ()
    return tuple((x1, y1, x2, y2) for x1, y1, x2, y2 in entity.boxes.tolist()), tuple(entity.frames.tolist())


def _settled(phrase: Phrase) -> bool:
    """Whether the data set says itself what a phrase is: in ActivityNet Entities one word, whose type is its class."""
    return bool(phrase.head and phrase.types)


def _given_classes(phrases: Iterable[Phrase]) -> ObjectClasses:
    """The classes that a data set gives to its words."""
    uses = Counter((phrase.head, phrase.types[0]) for phrase in phrases if _settled(phrase))
    counts: Counter[str] = Counter()
    words: dict[str, str] = {}
    for (word, name), times in sorted(uses.items(), key=lambda use: use[1]):
        counts[name] += times
        words[word] = name  # the most frequent class of a word comes last
    order = sorted(counts, key=lambda name: (-counts[name], name))
    return ObjectClasses(tuple(order), tuple(counts[name] for name in order), words)


def _parse(captions: Sequence[Caption], lemmas: Lemmas, quiet: bool) -> list[Parse]:
    return [_relemmatised(parsed, lemmas) for parsed in parse([caption.text for caption in captions], quiet=quiet)]


def _relemmatised(parsed: Parse, lemmas: Lemmas) -> Parse:
    if lemmas is None:
        return parsed
    return replace(parsed, lemmas=tuple(lemmas.get(token, token) for token in parsed.tokens))


# GVD's files --------------------------------------------------------------------------------------------------------


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
    names = {word.name for sentence in flat for word in sentence.objects}
    return {image: tuple(next(done) for _ in group) for image, group in sentences.items()}, _alone(names, quiet)


def named_classes(
    counts: Mapping[str, int], captions: Iterable[GroundedCaption], lemmas: Lemmas = None, quiet: bool = False
) -> ObjectClasses:
    """Classes whose names are known, with the words of captions that stand for them by their lemma."""
    words = {word.lower() for caption in captions for word in caption.words}
    lemma = _alone(words, quiet) if lemmas is None else {word: lemmas.get(word, word) for word in words}
    order = sorted(counts, key=lambda name: (-counts[name], name))
    known = {word: lemma[word] for word in sorted(words) if lemma[word] in counts}
    return ObjectClasses(tuple(order), tuple(counts[name] for name in order), known)


def _alone(words: Iterable[str], quiet: bool) -> dict[str, str]:
    """The lemma of each word by itself."""
    order = sorted(words)
    parsed = parse_words([[word] for word in order], quiet=quiet)
    return {word: p.lemmas[0] for word, p in zip(order, parsed, strict=True)}


# What was said ------------------------------------------------------------------------------------------------------


def said_words(
    captions: Mapping[str, GroundedCaption], classes: ObjectClasses, quiet: bool = False
) -> dict[str, tuple[Sentence]]:
    """Return the grounded nouns of generated captions as object words; a noun of no class is no object word."""
    # a single word is its own head; only longer groundings need the grammar
    long = [image for image, c in captions.items() if any(g.end - g.start > 1 for g in c.nouns())]
    parses = dict(zip(long, parse_words([captions[image].words for image in long], quiet=quiet), strict=True))
    said: dict[str, tuple[Sentence]] = {}
    for image, caption in captions.items():
        words = []
        for grounding in caption.nouns():
            at = parses[image].head(grounding.start, grounding.end) if image in parses else grounding.start
            name = None if at is None else classes.of(caption.words[at])
            if at is not None and name is not None:
                words.append(ObjectWord(name, at, (grounding.box,)))
        said[image] = (Sentence(tuple(words), caption.words),)
    return said
