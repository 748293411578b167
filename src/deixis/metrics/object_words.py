"""Object words of captions: find the words of references and predictions that have an object class.

Classes are those of :class:`deixis.language.classes.ObjectClasses`: lemmas of head nouns that are frequent enough in
the training captions. Lemmas come from spaCy or from a given map. The map makes the output of different tools
comparable. ActivityNet Entities and GVD's reference files have their own classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from deixis import boxes as geometry
from deixis.data import Caption, Entity, Sample
from deixis.language.classes import ObjectClasses
from deixis.language.parse import Parse
from deixis.language.spacy_parse import spacy_parse, spacy_parse_words
from deixis.metrics.grounded_captions import ObjectWord, Sentence, Sentences
from deixis.types import Box, GroundedCaption, Grounding, Phrase

Lemmas = Mapping[str, str] | None
"""Word -> lemma (a word without an entry is its own lemma); None: use spaCy."""

Place = tuple[tuple[Box, ...], tuple[int, ...]]
"""Boxes, and the frame of each in a video segment; no frames for an image."""

USUAL_MINIMUM, USUAL_IMAGES = 100, 29_783
"""Minimum mentions of a class, for the number of training images of Flickr30k Entities.

The papers use a list of 480 classes. The minimum scales with the number of images: a quarter of the images needs 25
mentions, which gives 448 classes.
"""


def default_minimum(images: int) -> int:
    """Default minimum of mentions of a class, for a number of training images."""
    return max(1, round(USUAL_MINIMUM * images / USUAL_IMAGES))


# Data sets ----------------------------------------------------------------------------------------------------------


def find_classes(samples: Sequence[Sample], minimum: int, lemmas: Lemmas = None, quiet: bool = False) -> ObjectClasses:
    """Find the object classes of the phrases with an entity."""
    captions = [caption for sample in samples for caption in sample.captions]
    visible = [[phrase for phrase in caption.phrases if phrase.entity is not None] for caption in captions]
    if any(_has_class(phrase) for phrases in visible for phrase in phrases):
        return _given_classes(phrase for phrases in visible for phrase in phrases)
    return ObjectClasses.build(zip(_parse(captions, lemmas, quiet), visible, strict=True), minimum)


def reference_sentences(
    samples: Sequence[Sample], classes: ObjectClasses, lemmas: Lemmas = None, quiet: bool = False
) -> dict[str, tuple[Sentence, ...]]:
    """Image -> captions with their annotated object words; the tokens are lemmas.

    Several boxes of an entity in an image become their union, as in GVD's reference. In a video segment each box keeps
    its frame. Images without any box are left out.
    """
    parses = iter(_parse([caption for sample in samples for caption in sample.captions], lemmas, quiet))
    sentences: dict[str, tuple[Sentence, ...]] = {}
    for sample in samples:
        places = {entity.id: _place(entity) for entity in sample.entities if len(entity.boxes)}
        found = tuple(
            _sentence(caption, next(parses), classes, [places.get(phrase.entity or "") for phrase in caption.phrases])
            for caption in sample.captions
        )
        if sample.is_video or any(len(entity.boxes) for entity in sample.entities):
            sentences[sample.image_id] = found
    return sentences


def predicted_sentences(
    samples: Sequence[Sample],
    classes: ObjectClasses,
    places: Mapping[tuple[str, int, int], Place],
    lemmas: Lemmas = None,
    quiet: bool = False,
) -> dict[str, tuple[Sentence, ...]]:
    """Image -> captions with their object words, each with the predicted place of its phrase.

    ``places`` maps (image, caption number, first word of the phrase) to boxes and their frames.
    """
    parses = iter(_parse([caption for sample in samples for caption in sample.captions], lemmas, quiet))

    def sentence(image: str, number: int, caption: Caption) -> Sentence:
        answers = [places.get((image, number, phrase.start)) for phrase in caption.phrases]
        return _sentence(caption, next(parses), classes, answers)

    return {
        s.image_id: tuple(sentence(s.image_id, n, caption) for n, caption in enumerate(s.captions)) for s in samples
    }


def _sentence(caption: Caption, parsed: Parse, classes: ObjectClasses, places: Sequence[Place | None]) -> Sentence:
    """Build a sentence from a caption and the boxes of its phrases (None: no box)."""
    words: dict[int, ObjectWord] = {}
    for phrase, place in zip(caption.phrases, places, strict=True):
        if place is None:
            continue
        at = phrase.start if _has_class(phrase) else parsed.head(phrase.start, phrase.end)
        name = phrase_class(parsed, phrase, classes)
        if at is not None and name is not None:
            words[at] = ObjectWord(name, at, *place)
    # a token with a class is replaced by the class name, so that both sides are comparable
    tokens = tuple(classes.of(token) or lemma for token, lemma in zip(parsed.tokens, parsed.lemmas, strict=True))
    return Sentence(tuple(words[at] for at in sorted(words)), tokens)


def phrase_class(parsed: Parse, phrase: Phrase, classes: ObjectClasses) -> str | None:
    """Return the class of a phrase: that of the data set where it gives one, else that of the head noun."""
    return phrase.types[0] if _has_class(phrase) else classes.of_phrase(parsed, phrase)


def _place(entity: Entity) -> Place:
    if entity.frames is None:
        x1, y1, x2, y2 = geometry.union(entity.boxes).tolist()
        return ((x1, y1, x2, y2),), ()
    return tuple((x1, y1, x2, y2) for x1, y1, x2, y2 in entity.boxes.tolist()), tuple(entity.frames.tolist())


def _has_class(phrase: Phrase) -> bool:
    """Whether the data set gives the class of a phrase, as in ActivityNet Entities (one word, type = class)."""
    return bool(phrase.head and phrase.types)


def _given_classes(phrases: Iterable[Phrase]) -> ObjectClasses:
    """Build the object classes from those given in a data set."""
    uses = Counter((phrase.head, phrase.types[0]) for phrase in phrases if _has_class(phrase))
    counts: Counter[str] = Counter()
    words: dict[str, str] = {}
    for (word, name), times in sorted(uses.items(), key=lambda use: use[1]):
        counts[name] += times
        words[word] = name  # the most frequent class of a word is written last
    order = sorted(counts, key=lambda name: (-counts[name], name))
    return ObjectClasses(tuple(order), tuple(counts[name] for name in order), words)


def _parse(captions: Sequence[Caption], lemmas: Lemmas, quiet: bool) -> list[Parse]:
    return [
        _relemmatised(parsed, lemmas) for parsed in spacy_parse([caption.text for caption in captions], quiet=quiet)
    ]


def _relemmatised(parsed: Parse, lemmas: Lemmas) -> Parse:
    if lemmas is None:
        return parsed
    return replace(parsed, lemmas=tuple(lemmas.get(token, token) for token in parsed.tokens))


# GVD's files --------------------------------------------------------------------------------------------------------


def lemmatise(sentences: Sentences, lemmas: Lemmas = None, quiet: bool = False) -> tuple[Sentences, Mapping[str, str]]:
    """Lemmatise reference sentences for :func:`match_words`; also return its ``lemmas`` argument.

    With a given map the sentences are unchanged. With spaCy the tokens become lemmas in the context of their sentence.
    The returned lemmas are those of the class names, which the published evaluators lemmatise too.
    """
    if lemmas is not None:
        return sentences, lemmas
    flat = [sentence for group in sentences.values() for sentence in group]
    # replace an empty token, so that word positions are unchanged
    parsed = spacy_parse_words([[token or "-" for token in sentence.tokens] for sentence in flat], quiet=quiet)
    done = iter([replace(sentence, tokens=p.lemmas) for sentence, p in zip(flat, parsed, strict=True)])
    names = {word.name for sentence in flat for word in sentence.objects}
    return {image: tuple(next(done) for _ in group) for image, group in sentences.items()}, _lemmatise_words(
        names, quiet
    )


def named_classes(
    counts: Mapping[str, int], captions: Iterable[GroundedCaption], lemmas: Lemmas = None, quiet: bool = False
) -> ObjectClasses:
    """Build object classes with given names; a caption word has the class that equals its lemma."""
    words = {word.lower() for caption in captions for word in caption.words}
    lemma = _lemmatise_words(words, quiet) if lemmas is None else {word: lemmas.get(word, word) for word in words}
    order = sorted(counts, key=lambda name: (-counts[name], name))
    known = {word: lemma[word] for word in sorted(words) if lemma[word] in counts}
    return ObjectClasses(tuple(order), tuple(counts[name] for name in order), known)


def _lemmatise_words(words: Iterable[str], quiet: bool) -> dict[str, str]:
    """Lemmatise each word without context."""
    order = sorted(words)
    parsed = spacy_parse_words([[word] for word in order], quiet=quiet)
    return {word: p.lemmas[0] for word, p in zip(order, parsed, strict=True)}


# Predictions --------------------------------------------------------------------------------------------------------


def place_of(grounding: Grounding) -> Place:
    """Return the box of a grounding; of a clip, its boxes in all frames with the frame of each."""
    if not grounding.track:
        return (grounding.box,), () if grounding.frame is None else (grounding.frame,)
    return tuple(one.box for one in grounding.track), tuple(one.frame for one in grounding.track)


def predicted_words(
    captions: Mapping[str, GroundedCaption], classes: ObjectClasses, quiet: bool = False
) -> dict[str, tuple[Sentence]]:
    """Image -> generated caption with its grounded nouns as object words; nouns without a class are left out."""
    # a single word is its own head; only longer groundings need a parse
    long = [image for image, c in captions.items() if any(g.end - g.start > 1 for g in c.nouns())]
    parses = dict(zip(long, spacy_parse_words([captions[image].words for image in long], quiet=quiet), strict=True))
    predicted: dict[str, tuple[Sentence]] = {}
    for image, caption in captions.items():
        words = []
        for grounding in caption.nouns():
            at = parses[image].head(grounding.start, grounding.end) if image in parses else grounding.start
            name = None if at is None else classes.of(caption.words[at])
            if at is not None and name is not None:
                words.append(ObjectWord(name, at, *place_of(grounding)))
        predicted[image] = (Sentence(tuple(words), caption.words),)
    return predicted
