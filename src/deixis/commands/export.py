"""``deixis export``: convert predictions to and from the formats of other tools."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from deixis.commands.console import AsJson, Quiet, print_json, print_some, stderr_console
from deixis.data import Skipped, load
from deixis.errors import DeixisError, UsageError
from deixis.exports import FILES, Format, add_files, add_to_captions, read, require_writable, write
from deixis.photographs import Photographs

LISTED = 10  # skipped records that are printed; --json has all


def export(
    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="IN")],
    *,
    to: Format | Literal["gvd", "npz", "parquet"],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    images: Path | None = None,
    data: Path | None = None,
    split: str = "",
    image: str = "",
    reference: Path | None = None,
    split_file: Path | None = None,
    classes: Path | None = None,
    prefix: str = "/data/local-files/?d=",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Convert predictions to the format of another tool, or back.

    The input format is recognised: Deixis JSON lines (captions or phrases), Florence-2 and Kosmos-2 output, COCO
    results, and every format that this command writes. To correct boxes of your own captions, ground their phrases and
    give the folder of the captions as --data.

    For example: deixis export captions.jsonl --to label-studio --out tasks --images photos

    Args:
        source: predictions, an export, or a feature store.
        to: output format. coco, label-studio, flickr30k-entities and pascal-voc are folders; csv and jsonl are files.
            gvd (a file) is a submission to GVD's evaluators: of captions as generated, of phrases as ground-truth
            sentences. npz (a folder) and parquet (a file) have the regions of a feature store, see docs/features.md.
        out: output file or folder.
        images: folder of the photographs, for sizes and file names that the predictions do not have.
        data: data set whose captions contain the phrases; the output then has grounded captions.
        split: split of --data (test if not given), and name of the split in the output.
        image: image of the records that name none.
        reference: for gvd, the reference of the submission: flickr30k_cleaned_class.json or ActivityNet's file.
        split_file: split file of --reference; --split selects the split.
        classes: for gvd, the list of object classes, such as dic_flickr30k.json.
        prefix: prefix that turns an image name into its address in Label Studio.
        as_json: write a summary to stdout as JSON.
    """
    if to == "gvd":
        return _export_submission(source, reference, split, split_file, classes, out, stderr_console(quiet))
    if to == "npz" or to == "parquet":
        return _export_store(source, to, out, stderr_console(quiet))
    if out.is_dir() if to in FILES else out.is_file():
        expected = f"a file such as predictions{FILES[to]}" if to in FILES else "a folder"
        raise DeixisError(f"{out} exists already and is not {expected}, which {to} needs. Choose another --out.")
    if split and Path(split).name != split:
        raise UsageError(f"--split is '{split}'; it must be a plain name such as test.")
    console = stderr_console(quiet)
    skipped: list[Skipped] = []
    with console.status(f"reading {source}") as status:
        pictures = read(source, skipped, image)
        if data is not None:
            status.update(f"reading {data}")
            pictures = add_to_captions(pictures, load(data, split or "test"))
        if images is not None:
            pictures = add_files(pictures, Photographs(images), skipped)
        if not pictures:
            first = f" ({len(skipped):,} bad records; the first: {skipped[0]})" if skipped else ""
            raise DeixisError(f"{source} has nothing to export{first}.")
        require_writable(pictures, to, source)
        status.update(f"writing {out}")
        skipped += write(pictures, to, out, split=split, prefix=prefix)
    captions = sum(len(picture.captions) for picture in pictures)
    boxes = sum(len(picture.places()) for picture in pictures)
    if as_json:
        counts = {"images": len(pictures), "captions": captions, "boxes": boxes}
        print_json({"out": str(out), "format": to, **counts, "skipped": [asdict(note) for note in skipped]})
    if skipped:
        console.print(f"{len(skipped):,} records skipped:")
        print_some(console, skipped, LISTED, "; --json lists them all")
    console.print(f"{out}: {len(pictures):,} images, {captions:,} captions, {boxes:,} boxes as {to}", markup=False)
    return 0


def _export_store(store: Path, layout: Literal["npz", "parquet"], out: Path, console: Console) -> int:
    """Write the regions of a feature store in the plain layout."""
    from deixis.vision.layouts.plain import write_plain
    from deixis.vision.store import FeatureStore

    if out.exists():
        raise DeixisError(f"{out} exists already. Choose another --out.")
    with console.status(f"writing {out}"):
        images = write_plain(FeatureStore(store), layout, out)
    console.print(f"{out}: {images:,} images as {layout}", markup=False)
    return 0


def _export_submission(
    source: Path,
    reference: Path | None,
    split: str,
    split_file: Path | None,
    classes: Path | None,
    out: Path,
    console: Console,
) -> int:
    """Write a submission to GVD's evaluators."""
    from deixis.data.dictionary import read_classes
    from deixis.exports.gvd import write_submission
    from deixis.metrics.evaluate import Options
    from deixis.metrics.formats import read_predictions
    from deixis.metrics.references import read_reference

    if reference is None:
        raise UsageError("--to gvd needs --reference: GVD's reference file of the data set.")
    with console.status(f"reading {reference}"):
        truth = read_reference(reference, split or "test", split_file)
        options = Options(quiet=True, classes=None if classes is None else read_classes(classes))
        mode, images = write_submission(read_predictions(source, truth.images), truth, options, out)
    console.print(f"{out}: {images:,} images or segments, eval_mode {mode}", markup=False)
    return 0
