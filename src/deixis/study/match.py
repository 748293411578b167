"""Match two prediction files with a folder of photographs, for a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deixis.data import Skipped
from deixis.errors import DeixisError
from deixis.exports import add_files, read
from deixis.exports.picture import Picture
from deixis.images import image_size
from deixis.photographs import Photographs
from deixis.study.pairs import Pair, match_pairs

MAX_SHAPE_ERROR = 0.02  # relative difference between the aspect ratio of a photograph and that of the predictions


@dataclass(frozen=True)
class Matched:
    """Words with a box of both systems, and their photographs."""

    a: str  # name of the first system
    b: str
    pairs: Sequence[Pair]
    photographs: Mapping[str, Path]  # by image
    not_found: int  # images of A that the folder does not have
    skipped: Sequence[Skipped]


def match_predictions(a: Path, b: Path, images: Path) -> Matched:
    """Match the boxes of two prediction files by word and photograph.

    The systems are named by their models, or by the files if the predictions do not name one model each.
    """
    skipped: list[Skipped] = []
    folder = Photographs(images)
    of_a, of_b = (add_files(read(path, skipped), folder, skipped) for path in (a, b))
    pairs, photographs = _with_photographs(match_pairs(of_a, of_b), images, skipped)
    models = _model(of_a), _model(of_b)
    names = models if all(models) and models[0] != models[1] else (str(a), str(b))
    return Matched(*names, pairs, photographs, sum(not picture.file for picture in of_a), skipped)


def _with_photographs(
    pairs: Sequence[Pair], images: Path, skipped: list[Skipped]
) -> tuple[list[Pair], dict[str, Path]]:
    """Return the pairs with a readable photograph of the predicted aspect ratio, and these photographs."""
    files: dict[str, Path] = {}
    bad: set[str] = set()
    for pair in pairs:
        if pair.image in files or pair.image in bad:
            continue
        path = images / pair.image
        try:
            width, height = image_size(path)
            if abs(width * pair.height / (height * pair.width) - 1) > MAX_SHAPE_ERROR:
                raise DeixisError(f"{path} has {width} x {height} pixels. Expected {pair.width} x {pair.height}")
            files[pair.image] = path
        except DeixisError as error:
            bad.add(pair.image)
            skipped.append(Skipped(pair.image, str(error)))
    return [pair for pair in pairs if pair.image in files], files


def _model(pictures: Sequence[Picture]) -> str:
    """Name of the model of the predictions; empty if they name none or several."""
    names = {caption.model for picture in pictures for caption in picture.captions}
    names |= {answer.model for picture in pictures for answer in picture.answers}
    return names.pop() if len(names) == 1 else ""
