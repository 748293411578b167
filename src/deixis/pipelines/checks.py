"""Checks of a generated caption: second look, out of distribution, match score, information gain."""

from __future__ import annotations

from typing import Literal

from deixis.language.names import with_article
from deixis.pipelines.information_gain import MIN_GAIN
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import MIN_PRESENCE, Warning
from deixis.pipelines.second_look import CONFIDENT_TEMPLATE_PROB, SecondLook, second_look
from deixis.types import Candidate

Check = Literal["second-look", "ood", "match", "gain"]
CHECKS: tuple[Check, ...] = ("second-look", "ood", "match", "gain")

OUT_OF_DISTRIBUTION = Warning("out_of_distribution", "the image is unlike the training photographs.")
LOW_MATCH = Warning("low_match", "the grounder's match score is low.")
LOW_GAIN = Warning("low_information_gain", "the sentence would be about as likely for a blank image.")


def run_checks(
    candidate: Candidate, photo: Photo, models: Models, gain: float, checks: tuple[Check, ...] = CHECKS
) -> tuple[Candidate, tuple[Warning, ...]]:
    """Return the candidate, or a template in its place, and the warnings, the most important first.

    ``gain`` is the information gain of the candidate, which is computed for a batch.
    """
    looked = SecondLook(candidate)
    if "second-look" in checks:
        looked = second_look(candidate, photo, models.extractor)
    warnings, ood = [], models.captioner.ood
    if "ood" in checks and ood is not None and ood.is_ood(photo.regions(models.extractor)):
        warnings.append(OUT_OF_DISTRIBUTION)
    warnings += subject_warnings(looked)
    if not looked.template_prob:  # the sentence is the captioner's
        if "match" in checks and not matches(candidate, photo, models):
            warnings.append(LOW_MATCH)
        if "gain" in checks and gain < MIN_GAIN:
            warnings.append(LOW_GAIN)
    return looked.candidate, tuple(warnings)


def subject_warnings(looked: SecondLook) -> list[Warning]:
    """Return the warnings of a second look."""
    if not looked.missing_subject:
        return []
    missing = f'"{with_article(looked.missing_subject)}", which neither detector nor classifier found.'
    if not looked.template_prob:
        return [Warning("subject_not_found", f"the sentence mentions {missing}")]
    confident = looked.template_prob >= CONFIDENT_TEMPLATE_PROB
    message = f"template caption; the generated sentence mentions {missing}"
    return [Warning("template_caption", message, lowers_confidence=not confident)]


def matches(candidate: Candidate, photo: Photo, models: Models) -> bool:
    """Return whether the grounder's match probability is high enough; True where there is no such probability."""
    grounder = models.grounder
    if grounder is None or not candidate.words:
        return True
    parsed = photo.parse(candidate.words)
    (evidence,) = grounder.evidence(photo.encoded(grounder), [parsed.phrase(0, len(parsed))], [parsed])
    probability = grounder.caption_probability(evidence)
    return probability is None or probability >= MIN_PRESENCE
