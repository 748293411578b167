"""What packing a model's weights costs: the run and its packed copies on the validation split.

    python experiments/flickr8k-entities/packing.py DATA STORE RUN [RUN ...]

Each RUN, a captioner or a fusion model, is packed as ``ship.py`` does it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from ship import shorten

from deixis.data import load
from deixis.evaluation.evaluate import caption_images, find_phrases
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.updown.model import Captioner
from deixis.metrics.evaluate import Options, evaluate
from deixis.metrics.formats import Predictions
from deixis.metrics.references import Reference, read_reference
from deixis.model_folder import Precision, pack_model
from deixis.pipelines.load import load_model
from deixis.vision.store import FeatureStore

SHOWN = ("CIDEr", "accuracy", "mean_iou", "pointing")


def answers(model: Captioner | AlbefGrounder, reference: Reference, store: FeatureStore) -> Predictions:
    """The captions, or the places of phrases, of the validation photographs."""
    if isinstance(model, Captioner):
        return Predictions(Path("x"), "deixis", caption_images(model, reference.samples, store))
    return Predictions(Path("x"), "deixis", phrases=find_phrases(model, reference.samples, store))


def tell(name: str, folder: Path, reference: Reference, store: FeatureStore, before: Predictions | None) -> Predictions:
    """Print one line; the answers."""
    model = load_model(folder)
    assert isinstance(model, Captioner | AlbefGrounder)
    found = answers(model, reference, store)
    metrics = ("captions",) if isinstance(model, Captioner) else ("phrases",)
    scores = evaluate(found, reference, Options(metrics=metrics, missing="skip")).scores
    line = ", ".join(f"{score.name} {100 * score.value:.2f}" for score in scores if score.name in SHOWN)
    size = (folder / "weights.safetensors").stat().st_size
    print(f"{name:28} {size:>11,} bytes: {line}{'' if before is None else '; ' + same(before, found)}", flush=True)
    return found


def same(before: Predictions, after: Predictions) -> str:
    """How much of the answers has changed."""
    if before.captions:
        kept = [after.captions[image].words == one.words for image, one in before.captions.items()]
        return f"{np.mean(kept):.1%} of the captions the same"
    pairs = [(one, after.phrases[mention][0]) for mention, (one, *_) in before.phrases.items()]
    boxes = np.mean([one.box == other.box for one, other in pairs])
    moved = np.abs([one.score - other.score for one, other in pairs])
    return (
        f"{boxes:.1%} of the boxes the same, score moved by {moved.mean():.4f} in the mean, {moved.max():.3f} at most"
    )


def main(data: Path, store: FeatureStore, runs: list[Path]) -> None:
    """The run, packed in half precision, in bytes, and in bytes with fewer word pieces."""
    torch.set_num_threads(1)
    reference = read_reference(data, "val")
    precisions: tuple[Precision, ...] = ("half", "int8")
    for run in runs:
        before = tell(run.name, run, reference, store, None)
        with TemporaryDirectory() as place:
            for precision in precisions:
                packed = Path(place) / precision
                pack_model(run, packed, precision, {}, precision)
                tell(f"{run.name}, {precision}", packed, reference, store, before)
            if before.phrases:
                few, packed = Path(place) / "few", Path(place) / "packed"
                shorten(run, load(data, "train"), few)
                pack_model(few, packed, "few", {}, "int8")
                tell(f"{run.name}, int8, fewer pieces", packed, reference, store, before)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), FeatureStore(Path(sys.argv[2])), [Path(run) for run in sys.argv[3:]])
