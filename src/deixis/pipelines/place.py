"""A finished caption whose nouns get their places anew, from a model that finds phrases.

A captioner looks at a photograph to choose its next word, a finder to tell where a phrase is. So the words stay the
captioner's, and the boxes become the finder's.
"""

from __future__ import annotations

from dataclasses import replace

from deixis.language.parse import Parse, parse_words
from deixis.language.tokenise import tokens
from deixis.pipelines.load import PhraseGrounder
from deixis.types import GroundedCaption, Phrase, Regions
from deixis.vision.eyes import Photo


def reground(finder: PhraseGrounder, photo: Photo, caption: GroundedCaption, heats: bool = False) -> GroundedCaption:
    """The same sentence; box, score and point of each grounded word are those that a finder gives to its noun phrase.

    The phrases are asked for together and in their sentence, which tells a finder more than they do alone. A word
    outside all noun phrases is a phrase of its own. Heat maps are left out unless ``heats`` are wanted.
    """
    model = together(caption.model, finder)
    if not caption.groundings:
        return replace(caption, model=model)
    (grammar,) = parse_words([caption.words], quiet=True)
    around = [phrase_around(grammar, word.start, word.end) for word in caption.groundings]
    phrases = list(dict.fromkeys(around))  # "tennis" and "ball" stand in one phrase, which is asked for once
    text = " ".join(caption.words)
    if tokens(text) == caption.words:
        found = finder.ground(photo, text, phrases)
    else:  # a word that reads as two, or as none, would shift the spans
        found = finder.ground(photo, [phrase.text for phrase in phrases])
    places = dict(zip(phrases, found, strict=True))
    groundings = tuple(
        replace(
            word,
            box=place.box,
            score=place.score,
            parts=place.parts,
            point=place.pointing(),
            heat=place.heat if heats else None,
        )
        for word, place in zip(caption.groundings, [places[phrase] for phrase in around], strict=True)
    )
    return replace(caption, groundings=groundings, model=model)


def phrase_around(grammar: Parse, start: int, end: int) -> Phrase:
    """The noun phrase that words [start, end) stand in; else these words themselves."""
    around = (phrase for phrase in grammar.phrases if phrase.start <= start and end <= phrase.end)
    return next(around, grammar.phrase(start, end))


def together(captioner: str, finder: PhraseGrounder) -> str:
    """How the two are called where one model's name would stand."""
    return f"{captioner}, placed by {finder.name}"


def understands(finder: PhraseGrounder, regions: Regions) -> bool:
    """Whether a finder can use regions that were made for another model, or has to look at the photograph itself."""
    eyes = finder.eyes
    return eyes is not None and eyes.name == regions.extractor and (eyes.grid == 0 or regions.grid is not None)
