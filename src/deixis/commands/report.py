"""``deixis report``: a run's folder as one page: curves, scores, errors, and every caption to look at."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import numpy as np
import tyro
from PIL import Image
from rich.console import Console
from rich.progress import track

from deixis import data
from deixis.commands.eval import ORDER, rank_images
from deixis.data import Caption, Sample, Skipped
from deixis.data.reading import BadFile, read_json, read_json_lines
from deixis.errors import DeixisError
from deixis.metrics.error_analysis import SAID_KINDS
from deixis.metrics.evaluate import ClassCount, Evaluation
from deixis.metrics.score import Score, load_scores
from deixis.photographs import Photographs
from deixis.runs.renamed import current_fields
from deixis.show.drawing import data_url
from deixis.show.page import Shown
from deixis.show.report import Evaluated, Run, report_page
from deixis.training.log import best_epoch, current_line
from deixis.types import GroundedCaption, Grounding, Json

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

THUMBNAIL = 320  # pixels of the longer side of a photograph inside the page
QUALITY = 72
LISTED = 100  # at most so many are worst, and best; a tenth of the images where they are fewer


def report(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    out: Path | None = None,
    split: str = "",
    images: Path | None = None,
    link: Switch = False,
    quiet: Switch = False,
) -> int:
    """Make one HTML page of a run: how it learnt, its scores with their protocols, its errors, and a gallery.

    The page needs no server and nothing from elsewhere. What a run lacks is left out: a folder that was never
    evaluated still has its curves, and without photographs the gallery shows boxes and words.

    For example: deixis report runs/updown --out report.html

    Args:
        run: the folder of a model, as 'deixis train' and 'deixis eval' leave it.
        out: the page to write; report.html in the run's folder if not given.
        split: which evaluated split the gallery shows; test where there is one.
        images: the data set or folder that has the photographs, if not where the evaluation found them.
        link: refer to the photographs instead of keeping small copies of them inside the page.
        quiet: say nothing.
    """
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    page = out or run / "report.html"
    with talk.status(f"reading {run}"):
        told = read_run(run)
        if not told.log and not told.evaluated:
            raise DeixisError(f"{run} has no log and no evaluation; 'deixis train' and 'deixis eval' write them.")
        chosen = choose(told.evaluated, split, run)
    if chosen is not None:
        told = with_gallery(told, run / f"eval-{chosen.split}", chosen, images, page if link else None, talk)
    try:
        page.write_text(report_page(told), encoding="utf-8")
    except OSError as error:
        raise DeixisError(f"{page} cannot be written ({error.strerror}); choose another --out.") from None
    talk.print(f"{page}: {len(told.shown):,} images, {page.stat().st_size / 1e6:.1f} MB", markup=False)
    return 0


def with_gallery(
    run: Run, folder: Path, chosen: Evaluated, images: Path | None, linked: Path | None, talk: Console
) -> Run:
    """The run with the captions of one evaluation; ``linked`` is the page, where photographs stay outside of it."""
    with talk.status(f"reading {folder}"):
        find = find_samples(images, chosen.about)
        captions = read_captions(folder, find)
        notes, lists = rank(captions, chosen.scores, read_kinds(folder))
    bar = track(captions.items(), "photographs", console=talk, transient=True, disable=not talk.is_terminal)
    shown = [
        Shown(None, replace(caption, model=""), notes[image], src=address(find(image), linked))
        for image, caption in bar
    ]
    if shown and not any(item.src for item in shown):
        talk.print("no photographs were found; --images says where they are.")
    return replace(run, shown=shown, lists=lists, shown_of=chosen.split)


# The run's folder ---------------------------------------------------------------------------------------------------


def read_run(run: Path) -> Run:
    """Everything but the gallery; evaluations of the test split come first."""
    if not run.is_dir():
        raise DeixisError(f"{run} is not a folder; name the one that 'deixis train' made.")
    recipe = _json_object(run / "recipe.json")
    shown = current_fields(recipe) | {name: recipe[name] for name in ("supervision",) if name in recipe}
    log = list(_records(run / "log.jsonl"))
    bad = next((line for line in log if not isinstance(line.get("epoch"), int)), None)
    if bad is not None:
        raise BadFile(run / "log.jsonl", 'a line without a whole number as "epoch"')
    metrics = _json_object(run / "metrics.json")
    folders = [path.parent for path in run.glob("eval-*/scores.json")]
    folders.sort(key=lambda folder: (folder.name != "eval-test", folder.name))
    evaluated = [read_evaluation(folder) for folder in folders]
    name = str(recipe.get("name") or run.resolve().name)
    return Run(name, shown, [current_line(line) for line in log], best_epoch(metrics), evaluated)


def read_evaluation(folder: Path) -> Evaluated:
    """The scores that 'deixis eval' left."""
    scores, meta = load_scores(folder / "scores.json")
    try:
        classes = [
            ClassCount(str(n), int(trained), int(asked), int(right))
            for n, trained, asked, right in meta.pop("classes", ())
        ]
    except (TypeError, ValueError):
        raise BadFile(folder / "scores.json", "the classes are not a list of names with three numbers each") from None
    about = {str(name): str(value) for name, value in meta.items()}
    return Evaluated(folder.name.removeprefix("eval-"), about, list(scores.values()), classes)


def choose(evaluated: Sequence[Evaluated], split: str, run: Path) -> Evaluated | None:
    """The evaluation whose captions are shown: the one that was asked for, else the first."""
    if not split:
        return evaluated[0] if evaluated else None
    found = next((each for each in evaluated if each.split == split), None)
    if found is None:
        there = ", ".join(each.split for each in evaluated) or "none"
        raise DeixisError(f"{run} has no evaluation of the split '{split}' (there is {there}); 'deixis eval' makes it.")
    return found


def _json_object(path: Path) -> Json:
    found = read_json(path) if path.exists() else {}
    if not isinstance(found, dict):
        raise BadFile(path, "not a JSON object")
    return found


def _records(path: Path) -> Iterator[Json]:
    """The objects of a file of JSON lines, which may be absent."""
    if path.exists():
        skipped: list[Skipped] = []
        yield from (record for _, record in read_json_lines(path, skipped))
        if skipped:
            raise DeixisError(f"{skipped[0]}; mend the line or leave it out.")


# What was said ------------------------------------------------------------------------------------------------------


def read_captions(folder: Path, find: Find) -> dict[str, GroundedCaption]:
    """Image -> what is shown of it: the caption that was made, or the one whose phrases were looked for."""
    made = folder / "captions.jsonl"
    if made.exists():
        try:
            return {caption.image: caption for caption in map(GroundedCaption.from_json, _records(made))}
        except DeixisError as error:
            raise DeixisError(f"{made}: {error}") from None
    return _found_phrases(folder / "phrases.jsonl", find)


def read_kinds(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Image -> the words of its caption that were judged, each with its kind of error or "correct"."""
    return {
        str(record.get("image")): [
            (str(g["word"]), str(g["kind"])) for g in record.get("groundings", ()) if "kind" in g
        ]
        for record in _records(folder / "captions.jsonl")
    }


def _found_phrases(file: Path, find: Find) -> dict[str, GroundedCaption]:
    """Image -> that caption of it in which most phrases were looked for."""
    answers: dict[str, dict[int, list[tuple[int, Grounding]]]] = defaultdict(lambda: defaultdict(list))
    model = ""
    try:
        for record in _records(file):
            record.pop("heat", None)
            place = int(record["caption"]), int(record["start"])
            answers[str(record["image"])][place[0]].append((place[1], Grounding.from_phrase_json(record)))
            model = str(record.get("model", ""))
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(file, f"a record is not one of 'deixis eval' ({error!r})") from None
    found = {}
    for image, captions in answers.items():
        number, phrases = max(captions.items(), key=lambda pair: len(pair[1]))  # the caption that names most
        sample = find(image)
        true = sample.captions[number] if sample and number < len(sample.captions) else None
        width, height = _size(sample, phrases)
        found[image] = replace(_sentence(phrases, true), image=image, model=model, width=width, height=height)
    return found


def _sentence(phrases: Sequence[tuple[int, Grounding]], caption: Caption | None) -> GroundedCaption:
    """The phrases in their caption; without it one after the other."""
    spans = {p.start: p.end for p in caption.phrases} if caption else {}
    if caption and all(start in spans for start, _ in phrases):
        inside = tuple(replace(found, start=start, end=spans[start]) for start, found in phrases)
        return GroundedCaption(caption.tokens, inside)
    words: list[str] = []
    groundings = []
    for _, found in sorted(phrases, key=lambda pair: pair[0]):
        said = found.text.split()
        words += ["·", *said] if words else said
        groundings.append(replace(found, start=len(words) - len(said), end=len(words)))
    return GroundedCaption(tuple(words), tuple(groundings))


def _size(sample: Sample | None, phrases: Sequence[tuple[int, Grounding]]) -> tuple[int, int]:
    """Width and height of the image; where it is not there, what its boxes need."""
    try:
        if sample is not None:
            return sample.image_size()
    except (DeixisError, FileNotFoundError):
        pass
    corners = np.array([found.box[2:] for _, found in phrases])
    return int(np.ceil(corners[:, 0].max())), int(np.ceil(corners[:, 1].max()))


def rank(
    captions: Mapping[str, GroundedCaption], scores: Sequence[Score], kinds: Mapping[str, Sequence[tuple[str, str]]]
) -> tuple[dict[str, str], dict[str, list[int]]]:
    """A note on each image, and the lists of the gallery as numbers of images: worst first, best first, by error."""
    number = {image: at for at, image in enumerate(captions)}
    of_captions = any(score.name in ORDER for score in scores)
    order = rank_images(Evaluation(tuple(scores)), captions) if of_captions else _by_overlap(scores)
    ranked = [number[image] for image, _ in order if image in number]
    many = min(LISTED, -(-len(ranked) // 10))
    lists = {"worst": ranked[:many], "best": ranked[::-1][:many]}
    for kind in SAID_KINDS:
        lists[kind] = [at for image, at in number.items() if any(kind == of for _, of in kinds.get(image, ()))]
    told = {image: ", ".join(f"{word} {kind}" for word, kind in words) for image, words in kinds.items()}
    worth = dict(order)
    return {image: " · ".join(filter(None, [worth.get(image), told.get(image)])) for image in captions}, lists


def _by_overlap(scores: Sequence[Score]) -> list[tuple[str, str]]:
    """Images with a note, by the mean IoU of their phrases, worst first."""
    means = mean_overlaps(scores)
    return [(image, f"mean IoU {means[image]:.2f}") for image in sorted(means, key=lambda image: means[image])]


def mean_overlaps(scores: Sequence[Score]) -> dict[str, float]:
    """Image -> mean IoU of its phrases, where phrases were scored."""
    overlaps: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        if score.name == "mean_iou":
            for phrase, value in zip(score.ids, score.items, strict=True):
                overlaps[re.sub(r"#\d+\.\d+-\d+ .*", "", phrase)].append(float(value))
    return {image: float(np.mean(values)) for image, values in overlaps.items()}


# Photographs --------------------------------------------------------------------------------------------------------


Find = Callable[[str], Sample | None]
"""The sample of an image's name, with its file and perhaps its captions."""


def find_samples(images: Path | None, about: Mapping[str, str]) -> Find:
    """The images of the split by their names: of the data set that was evaluated, or of another or a plain folder."""
    if images is None and not about.get("reference"):
        return lambda _: None
    root = images or Path(about["reference"])
    try:
        return {sample.image_id: sample for sample in data.load(root, about.get("split", ""))}.get
    except DeixisError:
        if images is None:  # the data set has moved: a page without photographs is still a page
            return lambda _: None
    folder = Photographs(images)

    def find(name: str) -> Sample | None:
        path = folder.find(name)
        return None if path is None else Sample(name, (), path)

    return find


def address(sample: Sample | None, page: Path | None) -> str:
    """Where a page finds the photograph: a small copy of it as text, or the way to its file from ``page``."""
    if sample is None:
        return ""
    if page is not None:
        return "" if sample.path is None else quote(os.path.relpath(sample.path.resolve(), page.resolve().parent))
    try:
        photo = sample.open()
    except (DeixisError, OSError):
        return ""  # annotations without photographs can be scored, not shown
    photo.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS, reducing_gap=3.0)
    return data_url(photo, quality=QUALITY)
