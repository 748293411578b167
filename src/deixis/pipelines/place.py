"""Ground the noun phrases of a caption, by the captioner's attention or with a phrase grounder."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from deixis.errors import DeixisError
from deixis.language.parse import Parse
from deixis.language.queries import Query, head_of, shown_span, visible_phrases
from deixis.language.sentence import is_not_visible
from deixis.localize.attention import ground_word
from deixis.pipelines.clip import Clip
from deixis.pipelines.ground import check_place, ground_queries
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.types import Candidate, Grounding, Place

PlaceOption = Literal["attention", "vote", "grounder", "heat", "alpha", "threshold"]
"""Where boxes come from: the captioner's attention by one of two rules; the grounder, by its own or another rule."""

Groundings = tuple[tuple[Grounding, ...], tuple[Grounding, ...]]
"""Of noun phrases, and of single words."""


def place_rule(models: Models, asked: PlaceOption | None) -> PlaceOption:
    """Return the asked place rule; without one, that of the grounder, or the captioner's where there is none.

    Raise an error if these models have no such rule.
    """
    option = asked or (models.captioner.generation.place if models.grounder is None else "grounder")
    if option in get_args(Place):
        return option
    if models.grounder is None:
        raise DeixisError(f"--place {option} needs a grounder. Give one with --grounder, or use --place attention.")
    if option != "grounder":
        check_place(models.grounder, option)
    return option


def place(candidate: Candidate, photo: Photo, models: Models, option: PlaceOption, heat: bool = False) -> Groundings:
    """Return the groundings of a sentence's visible noun phrases, and of its words; ``heat`` keeps heat maps."""
    parsed = photo.parse(candidate.words)
    if candidate.groundings:  # of a template
        return candidate.groundings, tuple(_of_head(one, parsed) for one in candidate.groundings)
    if option in get_args(Place):
        return by_attention(candidate, parsed, photo, models, "vote" if option == "vote" else "attention")
    return by_grounder(parsed, photo, models, option, heat)


def by_attention(candidate: Candidate, parsed: Parse, photo: Photo, models: Models, rule: Place) -> Groundings:
    """Ground phrases by the attention at their head word, and every noun and verb by its own attention."""
    regions, detector = photo.regions(models.extractor), models.extractor.is_detector

    times = photo.times if isinstance(photo, Clip) else ()
    threshold = models.captioner.generation.frame_threshold

    def ground(step: int) -> Grounding:
        word = parsed.tokens[step]
        return ground_word(candidate.trace, step, word, regions, rule, detector, threshold, times)

    phrases = []
    for phrase in visible_phrases(parsed):
        start, end = shown_span(parsed, phrase)
        text = " ".join(parsed.tokens[start:end])
        phrases.append(replace(ground(head_of(parsed, phrase)), text=text, start=start, end=end))
    words = [
        replace(ground(at), pos="NOUN" if parsed.nouns[at] else "VERB")
        for at, pos in enumerate(parsed.pos)
        if (parsed.nouns[at] and not is_not_visible(parsed.tokens, at)) or pos == "VERB"
    ]
    return tuple(phrases), tuple(words)


def by_grounder(parsed: Parse, photo: Photo, models: Models, option: PlaceOption, heat: bool) -> Groundings:
    """Ground phrases with the grounder, in their sentence; a head word has the box of its phrase."""
    grounder = models.grounder
    assert grounder is not None  # see place_rule
    wanted = visible_phrases(parsed)
    rule = None if option == "grounder" else option
    found = ground_queries(photo, [Query(parsed, wanted)], grounder, rule) if wanted else []
    phrases = []
    for phrase, one in zip(wanted, found, strict=True):
        start, end = shown_span(parsed, phrase)
        text = " ".join(parsed.tokens[start:end])
        head = head_of(parsed, phrase)
        kept = one.heat if heat else None
        phrases.append(replace(one, text=text, start=start, end=end, head=head, heat=kept, point=one.pointing()))
    return tuple(phrases), tuple(_of_head(one, parsed) for one in phrases)


def _of_head(one: Grounding, parsed: Parse) -> Grounding:
    head = one.end - 1 if one.head is None else one.head
    return replace(one, text=parsed.tokens[head], start=head, end=head + 1, heat=None, pos="NOUN")
