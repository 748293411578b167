"""Read the folder of a run: recipe, log, scores and predictions, as 'deixis train' and 'deixis eval' write them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deixis.data import Caption, Sample, Skipped
from deixis.data.reading import BadFile, read_json, read_json_lines
from deixis.errors import DeixisError
from deixis.metrics.evaluate import ClassCount
from deixis.metrics.score import Score, load_scores
from deixis.training.log import best_epoch, current_line
from deixis.training.renamed import current_fields
from deixis.types import GroundedCaption, Grounding, Json

FindSample = Callable[[str], Sample | None]
"""Function from an image name to its sample (file, and captions of a data set); None if it is not found."""


@dataclass(frozen=True)
class Evaluated:
    """The scores of one split."""

    split: str
    about: Mapping[str, str]
    scores: Sequence[Score]
    classes: Sequence[ClassCount] = ()


@dataclass(frozen=True)
class Run:
    """The content of a run's folder. Anything but the name may be missing."""

    name: str
    recipe: Json = field(default_factory=dict)
    log: Sequence[Json] = ()  # one record per epoch, with "epoch" (from 1), "losses" and "scores"
    best_epoch: int | None = None  # from 1
    evaluated: Sequence[Evaluated] = ()


def read_run(folder: Path) -> Run:
    """Read recipe, log, validation metrics and evaluations; the evaluation of the test split comes first."""
    if not folder.is_dir():
        raise DeixisError(f"{folder} is not a folder. Give the folder that 'deixis train' wrote.")
    recipe = _json_object(folder / "recipe.json")
    log = list(_records(folder / "log.jsonl"))
    if any(not isinstance(line.get("epoch"), int) for line in log):
        raise BadFile(folder / "log.jsonl", 'a line without a whole number as "epoch"')
    evaluations = [path.parent for path in folder.glob("eval-*/scores.json")]
    evaluations.sort(key=lambda path: (path.name != "eval-test", path.name))
    evaluated = [read_evaluation(path) for path in evaluations]
    if not log and not evaluated:
        raise DeixisError(f"{folder} has no log and no evaluation. 'deixis train' and 'deixis eval' write them.")
    name = str(recipe.get("name") or folder.resolve().name)
    shown = current_fields(recipe) | {key: recipe[key] for key in ("supervision",) if key in recipe}
    best = best_epoch(_json_object(folder / "metrics.json"))
    return Run(name, shown, [current_line(line) for line in log], best, evaluated)


def read_evaluation(folder: Path) -> Evaluated:
    """Read the scores of one evaluation."""
    scores, meta = load_scores(folder / "scores.json")
    try:
        classes = [
            ClassCount(str(n), int(trained), int(count), int(right))
            for n, trained, count, right in meta.pop("classes", ())
        ]
    except (TypeError, ValueError):
        raise BadFile(folder / "scores.json", "the classes are not a list of names with three numbers each") from None
    about = {str(name): str(value) for name, value in meta.items()}
    return Evaluated(folder.name.removeprefix("eval-"), about, list(scores.values()), classes)


def choose_evaluation(run: Run, split: str, folder: Path) -> Evaluated | None:
    """The evaluation of a split; without a split the first one, None if there is none."""
    if not split:
        return run.evaluated[0] if run.evaluated else None
    found = next((each for each in run.evaluated if each.split == split), None)
    if found is None:
        there = ", ".join(each.split for each in run.evaluated) or "none"
        raise DeixisError(
            f"{folder} has no evaluation of the split '{split}' (it has: {there}). 'deixis eval' writes one."
        )
    return found


def read_captions(folder: Path, find: FindSample) -> dict[str, GroundedCaption]:
    """Read the caption of each image: generated, or the reference caption with phrases of a grounder."""
    made = folder / "captions.jsonl"
    if made.exists():
        try:
            return {caption.image: caption for caption in map(GroundedCaption.from_json, _records(made))}
        except DeixisError as error:
            raise DeixisError(f"{made}: {error}") from None
    return _grounded_references(folder / "phrases.jsonl", find)


def read_error_kinds(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Read the evaluated words of each image's caption, each with its kind of error or "correct"."""
    return {
        str(record.get("image")): [
            (str(g["word"]), str(g["kind"])) for g in record.get("groundings", ()) if "kind" in g
        ]
        for record in _records(folder / "captions.jsonl")
    }


def _grounded_references(file: Path, find: FindSample) -> dict[str, GroundedCaption]:
    """Image -> the reference caption with the most grounded phrases."""
    answers: dict[str, dict[int, list[tuple[int, Grounding]]]] = defaultdict(lambda: defaultdict(list))
    model = ""
    try:
        for record in _records(file):
            record.pop("heat", None)
            caption, start = int(record["caption"]), int(record["start"])
            answers[str(record["image"])][caption].append((start, Grounding.from_phrase_json(record)))
            model = str(record.get("model", ""))
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(file, f"a record is not one of 'deixis eval' ({error!r})") from None
    found = {}
    for image, captions in answers.items():
        number, phrases = max(captions.items(), key=lambda pair: len(pair[1]))
        sample = find(image)
        reference = sample.captions[number] if sample and number < len(sample.captions) else None
        width, height = _size(sample, phrases)
        found[image] = replace(_sentence(phrases, reference), image=image, model=model, width=width, height=height)
    return found


def _sentence(phrases: Sequence[tuple[int, Grounding]], caption: Caption | None) -> GroundedCaption:
    """Put phrases into their caption; without the caption, join the phrases with dots."""
    spans = {p.start: p.end for p in caption.phrases} if caption else {}
    if caption and all(start in spans for start, _ in phrases):
        inside = tuple(replace(found, start=start, end=spans[start]) for start, found in phrases)
        return GroundedCaption(caption.tokens, inside)
    words: list[str] = []
    groundings = []
    for _, found in sorted(phrases, key=lambda pair: pair[0]):
        phrase = found.text.split()
        words += ["·", *phrase] if words else phrase
        groundings.append(replace(found, start=len(words) - len(phrase), end=len(words)))
    return GroundedCaption(tuple(words), tuple(groundings))


def _size(sample: Sample | None, phrases: Sequence[tuple[int, Grounding]]) -> tuple[int, int]:
    """Width and height of the image; if it is not found, the smallest size that holds its boxes."""
    try:
        if sample is not None:
            return sample.image_size()
    except (DeixisError, FileNotFoundError):
        pass
    corners = np.array([found.box[2:] for _, found in phrases])
    return int(np.ceil(corners[:, 0].max())), int(np.ceil(corners[:, 1].max()))


def _json_object(path: Path) -> Json:
    found = read_json(path) if path.exists() else {}
    if not isinstance(found, dict):
        raise BadFile(path, "not a JSON object")
    return found


def _records(path: Path) -> Iterator[Json]:
    """The objects of a JSON lines file; nothing if the file does not exist."""
    if path.exists():
        skipped: list[Skipped] = []
        yield from (record for _, record in read_json_lines(path, skipped))
        if skipped:
            raise DeixisError(f"{skipped[0]}. Correct or remove this line.")
