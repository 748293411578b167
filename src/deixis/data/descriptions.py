"""Descriptions (noun phrases and relations) of the captions of samples."""

from __future__ import annotations

from collections.abc import Sequence

from deixis.data.sample import Sample
from deixis.language.descriptions import Description, describe
from deixis.language.spacy_parse import spacy_parse

NOT_VISUAL = "notvisual"  # type of phrases that Flickr30k Entities marks as not visible in the image


def caption_descriptions(samples: Sequence[Sample]) -> dict[str, tuple[Description, ...]]:
    """Image id -> a description of each caption.

    Phrases are those of the data set if it has any, else those of the parser. Annotated spans give words, not boxes.
    Phrases annotated as not visible are left out.
    """
    captions = [(sample, caption) for sample in samples for caption in sample.captions]
    annotated = any(caption.phrases for _, caption in captions)
    found: dict[str, list[Description]] = {}
    for (sample, caption), parsed in zip(captions, spacy_parse([c.text for _, c in captions]), strict=True):
        phrases = [phrase for phrase in caption.phrases if NOT_VISUAL not in phrase.types] if annotated else None
        found.setdefault(sample.image_id, []).append(describe(parsed, phrases))
    return {image: tuple(several) for image, several in found.items()}
