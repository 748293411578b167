"""Measure the cost of packing weights: scores of a model and its packed copies on the validation split.

    python tools/packing.py DATA STORE RUN [RUN ...]

Each RUN is the folder of a captioner or a fusion model, and is packed as by ``ship.py``. The output is kept in
experiments/flickr8k-entities/packing.txt.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import tyro
from ship import shorten

from deixis.data import load
from deixis.evaluation.evaluate import evaluate_captions, evaluate_grounder
from deixis.evaluation.split import SplitPhotos
from deixis.metrics.evaluate import Evaluation
from deixis.metrics.formats import Predictions
from deixis.metrics.references import Reference, read_reference
from deixis.model_folder import Precision, pack_model
from deixis.pipelines.caption import CaptionOptions
from deixis.pipelines.models import Models, is_captioner, load_captioner, load_grounder
from deixis.vision.store import FeatureStore

SHOWN = ("CIDEr", "accuracy", "mean_iou", "pointing")


def answers(folder: Path, reference: Reference, photos: SplitPhotos) -> tuple[Predictions, Evaluation]:
    """Caption the validation photographs, or ground their phrases."""
    if not is_captioner(folder):
        return evaluate_grounder(load_grounder(folder), reference, photos)
    found = evaluate_captions(Models(load_captioner(folder)), reference, photos, CaptionOptions(checks=()))
    return found.predictions, found.evaluation


def print_line(
    name: str, folder: Path, reference: Reference, photos: SplitPhotos, before: Predictions | None
) -> Predictions:
    """Print scores, size and differences of one model; return its predictions."""
    found, evaluation = answers(folder, reference, photos)
    line = ", ".join(f"{score.name} {100 * score.value:.2f}" for score in evaluation.scores if score.name in SHOWN)
    size = (folder / "weights.safetensors").stat().st_size
    print(f"{name:28} {size:>11,} bytes: {line}{'' if before is None else '; ' + same(before, found)}", flush=True)
    return found


def same(before: Predictions, after: Predictions) -> str:
    """Describe how many predictions are the same."""
    if before.captions:
        kept = [after.captions[image].words == one.words for image, one in before.captions.items()]
        return f"{np.mean(kept):.1%} of the captions the same"
    pairs = [(one, after.phrases[mention][0]) for mention, (one, *_) in before.phrases.items()]
    boxes = np.mean([one.box == other.box for one, other in pairs])
    moved = np.abs([one.score - other.score for one, other in pairs])
    return (
        f"{boxes:.1%} of the boxes the same, score moved by {moved.mean():.4f} in the mean, {moved.max():.3f} at most"
    )


def main(
    data: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    runs: tyro.conf.Positional[tuple[Path, ...]],
    limit: int | None = None,
) -> None:
    """Print lines for the model, and packed in half precision, as bytes, and as bytes with fewer word pieces.

    Args:
        data: the data set.
        store: features of its validation split; with grids for a fusion model.
        runs: folders of trained models.
        limit: use only this many photographs.
    """
    torch.set_num_threads(1)
    reference = read_reference(data, "val")
    photos = SplitPhotos(reference.samples[:limit], FeatureStore(store))
    precisions: tuple[Precision, ...] = ("half", "int8")
    for run in runs:
        before = print_line(run.name, run, reference, photos, None)
        with TemporaryDirectory() as place:
            for precision in precisions:
                packed = Path(place) / precision
                pack_model(run, packed, precision, {}, precision)
                print_line(f"{run.name}, {precision}", packed, reference, photos, before)
            if not before.captions:
                few, packed = Path(place) / "few", Path(place) / "packed"
                shorten(run, load(data, "train"), few)
                pack_model(few, packed, "few", {}, "int8")
                print_line(f"{run.name}, int8, fewer pieces", packed, reference, photos, before)


if __name__ == "__main__":
    tyro.cli(main)
