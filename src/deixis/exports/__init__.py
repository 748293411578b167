"""Convert predictions to and from the formats of other tools; one module per format.

:func:`read` detects the format of a path, :func:`write` writes pictures in a format. ``docs/exports.md`` lists the
fields that each format keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from deixis.data.reading import BadFile, read_json, read_json_lines, read_text
from deixis.data.sample import Dataset, Sample, Skipped
from deixis.errors import DeixisError
from deixis.exports import coco, flickr30k_entities, json_lines, label_studio, pascal_voc, table
from deixis.exports.picture import Answer, Picture, PictureBuilder, find_words, with_size
from deixis.images import image_size
from deixis.language.tokenise import tokens
from deixis.photographs import Photographs
from deixis.types import GroundedCaption

Format = Literal["coco", "label-studio", "flickr30k-entities", "csv", "pascal-voc", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
SIZED: tuple[Format, ...] = ("coco", "label-studio", "pascal-voc")
"""The formats that need the sizes of images."""
FILES = {"csv": ".csv", "jsonl": ".jsonl"}
"""Formats that are one file, with their file extension; the others are folders."""


def read(path: Path, skipped: list[Skipped], image: str = "") -> list[Picture]:
    """Read a file or folder in any format of this package, grouped by image.

    Outputs of other models that ``deixis score`` supports are read too: Florence-2, Kosmos-2, COCO results. Invalid
    records are added to ``skipped``. ``image`` is the image of records without an image name.
    """
    if path.is_dir():
        return _read_folder(path, skipped)
    if not path.exists():
        raise DeixisError(f"{path} does not exist. Expected a prediction file or an export.")
    if path.suffix.lower() == ".csv":
        return table.read(path, skipped)
    if path.suffix.lower() == ".xml":
        return pascal_voc.read([path], skipped)
    document = _document(path)
    if coco.is_document(document):
        return coco.read([path], skipped)
    if label_studio.is_document(document):
        return label_studio.read(document, path, skipped)
    records: list[tuple[int | None, Any]]
    if document is None:
        records = list(read_json_lines(path, skipped))
    else:
        records = [(None, record) for record in (document if isinstance(document, list) else [document])]
    if records and not any(json_lines.is_deixis_record(record) for _, record in records):
        return _read_foreign(path)
    return json_lines.read_records(records, path, skipped, image)


def require_writable(pictures: Sequence[Picture], format: Format, source: Path) -> None:
    """Raise an error if none of the pictures can be written in a format."""
    if format in SIZED and all(picture.size is None for picture in pictures):
        raise DeixisError(
            f"{source} has no image sizes, which {format} needs; nothing was written. Give the folder of the "
            "photographs with --images."
        )
    if format == "flickr30k-entities" and not any(
        tokens(text)
        for picture in pictures
        for text in (
            *(" ".join(caption.words) for caption in picture.captions),
            *(answer.grounding.text for answer in picture.answers),
        )
    ):
        raise DeixisError(f"{source} has no words, which {format} needs; nothing was written. Use another --to.")


def write(
    pictures: Sequence[Picture],
    format: Format,
    out: Path,
    *,
    split: str = "",
    prefix: str = "",
) -> list[Skipped]:
    """Write pictures to a file or folder; return the records that the format cannot represent.

    ``split`` is the name of the split, for formats with splits. ``prefix`` is added before image names in Label Studio.
    """
    skipped: list[Skipped] = []
    try:
        (out.parent if format in FILES else out).mkdir(parents=True, exist_ok=True)
        match format:
            case "coco":
                coco.write(pictures, out, split or coco.SPLIT, skipped)
            case "label-studio":
                label_studio.write(pictures, out, prefix, skipped)
            case "flickr30k-entities":
                flickr30k_entities.write(pictures, out, split or flickr30k_entities.SPLIT, skipped)
            case "pascal-voc":
                pascal_voc.write(pictures, out, split or pascal_voc.SPLIT, skipped)
            case "csv":
                table.write(pictures, out)
            case "jsonl":
                json_lines.write(pictures, out)
    except OSError as error:
        raise DeixisError(f"{out} cannot be written ({error.strerror}). Choose another --out.") from None
    return skipped


def _read_folder(path: Path, skipped: list[Skipped]) -> list[Picture]:
    if (path / "Sentences").is_dir():
        return flickr30k_entities.read(path, skipped)
    if (path / label_studio.TASKS).is_file():
        return read(path / label_studio.TASKS, skipped)
    if files := coco.files_in(path):
        return coco.read(files, skipped)
    if files := pascal_voc.files_in(path):
        return pascal_voc.read(files, skipped)
    raise DeixisError(
        f"{path} is not a known export. Expected Sentences (Flickr30k Entities), {label_studio.TASKS} (Label Studio), "
        "instances_*.json (COCO) or *.xml (Pascal VOC). Choose a prediction file or such a folder."
    )


def _document(path: Path) -> Any:
    """Read a JSON document; None for JSON lines."""
    if path.suffix.lower() == ".jsonl":
        return None
    try:
        return read_json(path)
    except BadFile:
        # JSON lines if the first line is a JSON object; otherwise the error is in one long document
        first = next((line for line in read_text(path).split("\n") if line.strip()), "")
        if not first.strip().endswith("}"):
            raise
        return None


def _read_foreign(path: Path) -> list[Picture]:
    """Read outputs of other models with the readers of ``deixis score``."""
    from deixis.metrics.formats import Images, named_images, read_predictions

    found = read_predictions(path, Images(named_images(path)))
    if found.sentences:
        raise DeixisError(f"{path} is a GVD submission, which has classes instead of words and cannot be exported.")
    builder = PictureBuilder()
    for caption in found.captions.values():
        builder.add_caption(caption)
    for mention, (best, *_) in found.phrases.items():
        builder.add_answer(mention.image, Answer(best, "", mention.caption, mention.start))
    return builder.pictures()


# Images and captions of a data set ------------------------------------------------------------------------------------


def add_files(pictures: Sequence[Picture], photographs: Photographs, skipped: list[Skipped]) -> list[Picture]:
    """Add the file and the size of each image that is found in a folder."""
    found = []
    for picture in pictures:
        path = photographs.find(picture.image)
        try:
            if path is not None:
                size = picture.size or image_size(path)
                picture = replace(with_size(picture, size), file=path.relative_to(photographs.folder).as_posix())
        except DeixisError as error:
            skipped.append(Skipped(picture.image, str(error)))
        found.append(picture)
    return found


def add_to_captions(pictures: Sequence[Picture], dataset: Dataset) -> list[Picture]:
    """Add phrase predictions to the captions of a data set that contain the words of the phrase.

    A prediction with a caption number is added to that caption, any other to each caption with its words. Predictions
    whose words are in no caption are unchanged, as are images that the data set does not have.
    """
    samples = {sample.image_id: sample for sample in dataset}
    by_file = {sample.path.name: sample for sample in dataset if sample.path is not None}
    return [
        picture if sample is None else _add_to_captions_of(picture, sample)
        for picture in pictures
        for sample in [samples.get(picture.image) or by_file.get(Path(picture.image).name)]
    ]


def _add_to_captions_of(picture: Picture, sample: Sample) -> Picture:
    with suppress(DeixisError, FileNotFoundError):  # without image files the sizes may be unknown
        picture = with_size(picture, picture.size or sample.image_size())
    file = picture.file or ("" if sample.path is None else sample.path.name)
    if not picture.answers:
        return replace(picture, file=file)
    width, height = picture.size or (0, 0)
    captions, placed = [], set()
    for number, caption in enumerate(sample.captions):
        groundings = []
        for index, answer in enumerate(picture.answers):
            if answer.caption not in (None, number):
                continue
            span = find_words(caption.tokens, answer.grounding.text, answer.start)
            if span is not None:
                placed.add(index)
                groundings.append(replace(answer.grounding, start=span[0], end=span[1]))
        model = picture.answers[0].model
        captions.append(
            GroundedCaption(
                caption.tokens, tuple(groundings), None, picture.image, width, height, model, caption=caption.text
            )
        )
    left = tuple(answer for index, answer in enumerate(picture.answers) if index not in placed)
    return replace(picture, captions=(*picture.captions, *captions), answers=left, file=file)
