"""Object hallucination: how often captions name what is not in the image (CHAIR; Rohrbach et al. 2018)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from deixis.errors import DeixisError
from deixis.metrics.score import Score, make_score, mean_score, signature


def mentioned_classes(tokens: Sequence[str], classes: Mapping[str, str]) -> list[str]:
    """The object classes that a caption names, in order and as often as it names them.

    ``classes`` maps a word, or words with spaces between them, to its class: ``{"dog": "dog", "puppy": "dog",
    "hot dog": "hot dog"}``. The longest match wins, so that a hot dog is no dog. Words are compared as they are:
    lemmatise both sides, or list the plurals.
    """
    longest = max((len(words.split()) for words in classes), default=0)
    found, at = [], 0
    while at < len(tokens):
        for length in range(min(longest, len(tokens) - at), 0, -1):
            name = classes.get(" ".join(tokens[at : at + length]))
            if name is not None:
                found.append(name)
                at += length
                break
        else:
            at += 1
    return found


def hallucination(
    mentioned: Mapping[str, Sequence[str]],
    present: Mapping[str, Collection[str]],
    synonyms: Mapping[str, str] | None = None,
) -> list[Score]:
    """CHAIRs and CHAIRi; for both, lower is better.

    ``mentioned`` holds the classes that the caption of each image names (see :func:`mentioned_classes`), ``present``
    those that are in the image, by its annotation, its reference captions or both. ``synonyms`` maps names to one
    class on both sides. CHAIRs is the share of captions with a hallucinated class, captions that name nothing
    included; CHAIRi is the share of mentions, where a class named twice is two, as in the published code.
    """
    if not mentioned:
        raise DeixisError("There is no caption to look for hallucinated objects in.")
    missing = next((image for image in mentioned if image not in present), None)
    if missing is not None:
        raise DeixisError(f"Nobody says what is in image {missing}; give its classes, an empty list if there is none.")

    same = synonyms or {}
    mentions, wrong = [], []
    for image, names in mentioned.items():
        true = {same.get(name, name) for name in present[image]}
        mentions.append(len(names))
        wrong.append(sum(same.get(name, name) not in true for name in names))
    said, absent = np.array(mentions, dtype=np.float64), np.array(wrong, dtype=np.float64)
    ids = list(mentioned)
    text = signature(count="mentions", synonyms="yes" if synonyms else "no")
    rate = np.divide(absent, said, out=np.full(len(said), np.nan), where=said > 0)
    return [
        mean_score("CHAIRs", ids, absent > 0, text),
        make_score("CHAIRi", ids, rate, np.stack([absent, said], axis=1), "mean", text),
    ]
