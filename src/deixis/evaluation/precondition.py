"""Precondition of attention distillation: the teacher attends to annotated boxes more often than its student."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deixis.data import Dataset
from deixis.evaluation.evaluate import Answers, attended_phrases, grounded_phrases, head_phrases
from deixis.evaluation.split import SplitPhotos
from deixis.methods.scan.model import ScanGrounder
from deixis.metrics.evaluate import Options, evaluate
from deixis.metrics.formats import Predictions
from deixis.metrics.references import Reference, make_reference
from deixis.pipelines.models import Models, load_captioner, load_grounder
from deixis.training.data import TrainingData


@dataclass(frozen=True)
class Precondition:
    """Attention accuracy of a teacher and of the captioner that was trained with it, on one split."""

    teacher: float
    student: float

    @property
    def met(self) -> bool:
        """Whether the teacher is better than the student."""
        return self.teacher > self.student

    def message(self) -> str:
        """Return both accuracies and, if the precondition is not met, what follows from it."""
        text = f"attention accuracy on validation boxes: teacher {self.teacher:.3f}, student {self.student:.3f}"
        if self.met:
            return text
        return f"{text}. Precondition not met: the teacher is not better than its student, so no gain can be expected."


def teacher_precondition(teacher: Path, student: Path, data: TrainingData) -> Precondition | None:
    """Measure the attention accuracy of both on the validation split; None if it has no phrases with boxes."""
    reference = make_reference(Dataset(data.source, "val", tuple(data.validation)), lambda: data.training)
    if not reference.phrases:
        return None
    photos = SplitPhotos(reference.samples, data.regions)
    grounder = load_grounder(teacher)
    if isinstance(grounder, ScanGrounder):  # at the head of a phrase, as its student
        matcher = head_phrases(grounder, reference.samples, photos)
    else:
        matcher = grounded_phrases(grounder, reference.samples, photos, "attention")
    captioner = attended_phrases(Models(load_captioner(student)), reference, photos, "attention")
    first, second = _accuracy(matcher, reference), _accuracy(captioner, reference)
    return None if first is None or second is None else Precondition(first, second)


def _accuracy(answers: Answers, reference: Reference) -> float | None:
    """Return the attention accuracy of answers; None if no object word can be scored."""
    predictions = Predictions(Path("attention"), "deixis", phrases=answers)
    scores = evaluate(predictions, reference, Options(metrics=("words",), missing="skip")).scores
    return next((score.value for score in scores if score.name == "attention_accuracy"), None)
