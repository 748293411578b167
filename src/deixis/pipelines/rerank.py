"""A finder as the judge of a captioner's beam: which of its sentences is about the photograph.

A beam ends with several sentences, and the likeliest is often the one that can be said of most photographs. A finder
was taught to tell the captions of a photograph from those of others. It reads all sentences of the beam, and what it
finds of each as a whole, and of the noun phrase that it finds least of, counts beside the log-probability. Nothing is
trained for it, and the words stay the captioner's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from deixis.language.parse import parse
from deixis.language.sentence import is_direction
from deixis.methods.albef.model import AlbefGrounder, Presence
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.model import Captioner, Judge
from deixis.pipelines.load import PhraseGrounder
from deixis.types import Regions

PAIR, LEAST, COSINE = 8.0, 1.2, 2.0
"""What counts beside a sentence's log-probability over the power of its length: the pair score of a fusion model and
the log-chance of the phrase that it finds least of, or the score of a matcher. Chosen on validation captions
(``experiments/flickr8k-entities/judging.txt``)."""

DIM = 1e-3
"""The least chance that is told from none."""


def assist(captioner: Captioner, finder: PhraseGrounder | None) -> None:
    """Let a captioner see with the eyes of a finder that sees the same, and be judged by it if it can judge.

    Who judged it before judges no more.
    """
    captioner.judge = None
    if finder is not None and finder.eyes is not None and finder.eyes.name == captioner.eyes.name:
        captioner.eyes, captioner.judge = finder.eyes, judge_of(finder)


def judge_of(finder: PhraseGrounder) -> Judge | None:
    """What a finder says for each of several sentences, in nats; None if it cannot tell sentences from each other.

    A fusion model that was calibrated can, and a matcher whose score is a mean cosine.
    """
    if isinstance(finder, AlbefGrounder) and finder.presence is not None:
        return partial(by_phrases, finder, finder.presence)
    if isinstance(finder, ScanGrounder) and finder.matcher.config.aggregation == "mean":
        return partial(by_cosines, finder)
    return None


def by_phrases(pointer: AlbefGrounder, presence: Presence, regions: Regions, sentences: Sequence[str]) -> list[float]:
    """By the pair score of each sentence, and the chance of its least likely noun phrase."""
    return [PAIR * whole + LEAST * least for whole, least in read(pointer, presence, regions, sentences)]


def read(
    pointer: AlbefGrounder, presence: Presence, regions: Regions, sentences: Sequence[str]
) -> list[tuple[float, float]]:
    """The pair score of each sentence, and the log-chance of that noun phrase of it which is found least.

    A sentence that names nothing is as bad as one that names what is not there. "Front" of "in front of" is no thing.
    """
    named = [
        [phrase.text for phrase in grammar.phrases if not is_direction(grammar.tokens, phrase.end - 1)]
        for grammar in parse(sentences, quiet=True)
    ]
    phrases = list(dict.fromkeys(text for texts in named for text in texts))
    evidence = pointer.evidence(regions, [*sentences, *phrases])
    whole, parts = evidence[: len(sentences)], evidence[len(sentences) :]
    chances = {text: presence.phrase(one) for text, one in zip(phrases, parts, strict=True)}
    least = [min((chances[text] for text in texts), default=0.0) for texts in named]
    return [(one, math.log(max(chance, DIM))) for one, chance in zip(whole, least, strict=True)]


def by_cosines(aligner: ScanGrounder, regions: Regions, sentences: Sequence[str]) -> list[float]:
    """By the mean cosine between the words of each sentence and what they attend to."""
    return [COSINE * float(score) for score in aligner.scores([regions], sentences)[0]]
