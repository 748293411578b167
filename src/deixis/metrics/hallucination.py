"""Object hallucination: share of caption objects that are not in the image (CHAIR; Rohrbach et al. 2018)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from deixis.errors import DeixisError
from deixis.metrics.score import Score, make_score, mean_score, signature


def mentioned_classes(tokens: Sequence[str], classes: Mapping[str, str]) -> list[str]:
    """List the object classes in a caption, in order and with repetitions.

    ``classes`` maps a word, or several words separated by spaces, to a class: ``{"dog": "dog", "puppy": "dog",
    "hot dog": "hot dog"}``. The longest match is used, so that "hot dog" is not a dog. Words are compared unchanged:
    lemmatise both sides, or include the plurals.
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
    """Compute CHAIRs and CHAIRi; lower is better.

    ``mentioned`` has the classes in the caption of each image (see :func:`mentioned_classes`). ``present`` has the
    classes in the image, from its annotation, its reference captions or both. ``synonyms`` maps names to one class on
    both sides. CHAIRs is the share of captions with a hallucinated class, including captions without any class.
    CHAIRi is the share of hallucinated mentions; repeated mentions count, as in the published code.
    """
    if not mentioned:
        raise DeixisError("CHAIR needs at least one caption, but there is none. Check the predictions and --split.")
    missing = next((image for image in mentioned if image not in present), None)
    if missing is not None:
        raise DeixisError(f"The classes present in image {missing} are missing. Use an empty list if there are none.")

    same = synonyms or {}
    mentions, wrong = [], []
    for image, names in mentioned.items():
        true = {same.get(name, name) for name in present[image]}
        mentions.append(len(names))
        wrong.append(sum(same.get(name, name) not in true for name in names))
    total, absent = np.array(mentions, dtype=np.float64), np.array(wrong, dtype=np.float64)
    ids = list(mentioned)
    text = signature(count="mentions", synonyms="yes" if synonyms else "no")
    rate = np.divide(absent, total, out=np.full(len(total), np.nan), where=total > 0)
    return [
        mean_score("CHAIRs", ids, absent > 0, text),
        make_score("CHAIRi", ids, rate, np.stack([absent, total], axis=1), "mean", text),
    ]
