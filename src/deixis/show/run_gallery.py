"""The captions of one evaluation with their photographs, notes and lists, for the gallery of a report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from PIL import Image

from deixis import data
from deixis.data import Sample
from deixis.errors import DeixisError
from deixis.metrics.error_analysis import PREDICTED_KINDS
from deixis.metrics.ranking import ORDER, rank_by_overlap, rank_images
from deixis.photographs import Photographs
from deixis.show.drawing import data_url
from deixis.show.page import Shown
from deixis.show.run_folder import Evaluated, FindSample, read_captions, read_error_kinds
from deixis.types import GroundedCaption

THUMBNAIL = 320  # pixels of the longer side of a photograph inside the page
QUALITY = 72
LISTED = 100  # images in the lists "worst" and "best", at most a tenth of all

ErrorKinds = Mapping[str, Sequence[tuple[str, str]]]


@dataclass(frozen=True)
class RunGallery:
    """Captions of one evaluation with notes and lists."""

    split: str
    captions: Mapping[str, GroundedCaption]  # by image
    notes: Mapping[str, str]  # a line below each image
    lists: Mapping[str, Sequence[int]]  # "worst", "best" and kinds of error -> indices of the images, in order
    find: FindSample

    def items(self, page: Path | None = None) -> Iterator[Shown]:
        """Cards of the gallery. With ``page`` photographs are linked from there, else small copies are embedded."""
        for image, caption in self.captions.items():
            src = photo_address(self.find(image), page)
            yield Shown(None, replace(caption, model=""), self.notes[image], src=src)


def read_gallery(folder: Path, evaluated: Evaluated, images: Path | None = None) -> RunGallery:
    """Read the predictions of an evaluation; ``images`` is where the photographs are, if they have moved."""
    find = find_samples(images, evaluated.about)
    captions = read_captions(folder, find)
    kinds = read_error_kinds(folder)
    of_captions = any(score.name in ORDER for score in evaluated.scores)
    order = rank_images(evaluated.scores, captions) if of_captions else rank_by_overlap(evaluated.scores)
    return RunGallery(evaluated.split, captions, _notes(captions, order, kinds), _lists(captions, order, kinds), find)


def _notes(
    captions: Mapping[str, GroundedCaption], order: Sequence[tuple[str, str]], kinds: ErrorKinds
) -> dict[str, str]:
    """Image -> its scores and the kinds of error of its words."""
    scores = dict(order)
    errors = {image: ", ".join(f"{word} {kind}" for word, kind in words) for image, words in kinds.items()}
    return {image: " · ".join(filter(None, [scores.get(image), errors.get(image)])) for image in captions}


def _lists(
    captions: Mapping[str, GroundedCaption], order: Sequence[tuple[str, str]], kinds: ErrorKinds
) -> dict[str, list[int]]:
    number = {image: at for at, image in enumerate(captions)}
    ranked = [number[image] for image, _ in order if image in number]
    many = min(LISTED, -(-len(ranked) // 10))
    lists = {"worst": ranked[:many], "best": ranked[::-1][:many]}
    for kind in PREDICTED_KINDS:
        lists[kind] = [at for image, at in number.items() if any(kind == of for _, of in kinds.get(image, ()))]
    return lists


def find_samples(images: Path | None, about: Mapping[str, str]) -> FindSample:
    """Find images by name in the evaluated data set, or in ``images``: a data set or a plain folder."""
    if images is None and not about.get("reference"):
        return lambda _: None
    root = images or Path(about["reference"])
    try:
        return {sample.image_id: sample for sample in data.load(root, about.get("split", ""))}.get
    except DeixisError:
        if images is None:  # the data set has moved; the page is made without photographs
            return lambda _: None
    folder = Photographs(images)

    def find(name: str) -> Sample | None:
        path = folder.find(name)
        return None if path is None else Sample(name, (), path)

    return find


def photo_address(sample: Sample | None, page: Path | None) -> str:
    """Address of a photograph in a page: the relative path of its file from ``page``, or a small copy as data URL."""
    if sample is None:
        return ""
    if page is not None:
        return "" if sample.path is None else quote(os.path.relpath(sample.path.resolve(), page.resolve().parent))
    try:
        photo = sample.open()
    except (DeixisError, OSError):
        return ""  # annotations can be scored without photographs
    photo.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS, reducing_gap=3.0)
    return data_url(photo, quality=QUALITY)
