"""Copy a trained model into the package, under a name for ``--model``.

    python tools/ship.py RUN NAME [half|int8] [EVALUATION ...]

The run must have been evaluated (deixis eval RUN --data DIR --split test --out EVALUATION); without EVALUATION the
folder RUN/eval-test is read. The model card shows the test scores of each evaluation, and ``metrics.json`` keeps them
with their signatures. By default, weights are stored as bytes with a scale for each row (int8).
``experiments/flickr8k-entities/packing.txt`` shows the cost. A fusion model gets a shorter list of word pieces: those
of the training captions and of ImageNet's class names, letters, and the most frequent ones of BERT.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from deixis.data import Dataset, load
from deixis.errors import DeixisError
from deixis.methods.albef.model import AlbefGrounder
from deixis.metrics.score import Score, load_scores
from deixis.model_folder import Precision, pack_model, read_config
from deixis.pipelines.models import KINDS, PACKAGE
from deixis.training.log import best_epoch
from deixis.training.seen import SEEN
from deixis.types import Json
from deixis.vision.backbone import imagenet_classes

DATA = "- Data: "
"""Start of the line of a run's card that names its training data."""

LARGEST = 20_000_000  # bytes of one file
PIECES = 16_000  # word pieces of a fusion model

PRECISIONS: dict[Precision, str] = {
    "half": "in half precision",
    "int8": "large matrices in bytes with a scale for each row, the rest in half precision",
}

PURPOSE = {
    "captioner": "Captioner: writes a sentence about a photograph, with a box for each noun phrase.",
    "matcher": "Phrase grounder: finds phrases in a photograph. It can also rank photographs for a sentence.",
    "grounder": "Phrase grounder: finds phrases in a photograph.",
    "fusion": "Phrase grounder: gives a heat map, a box and the probability of presence of each phrase.",
}

ALONE = """\
These are the scores of the captioner alone. A grounder (`--grounder`) reranks its sentences and grounds their noun
phrases; `docs/results.md` has the scores of both together."""

HEADLINE = {
    "CIDEr": "CIDEr-D of the captions, against five references",
    "BLEU-4": "BLEU-4",
    "METEOR": "METEOR 1.5",
    "F1_all": "F1 of object words with a correct class and a correct box, mean over classes",
    "F1_loc": "F1 of the boxes of object words with a correct class, mean over classes",
    "F1_all_per_sent": "the same as F1_all, mean over sentences",
    "F1_loc_per_sent": "the same as F1_loc, mean over sentences",
    "attention_accuracy": "object words of the true captions with a correct box, mean over classes",
    "accuracy": "phrases of the true captions with a correct box (IoU of at least .5)",
    "mean_iou": "mean IoU of those boxes",
    "pointing": "phrases whose point is inside a true box",
    "baseline_whole_image": "baseline: accuracy of the whole image as box",
    "baseline_image_centre": "baseline: pointing at the image centre",
    "i2t_R@1": "images whose first retrieved caption is correct",
    "t2i_R@1": "captions whose first retrieved image is correct",
}


@dataclass(frozen=True)
class Test:
    """Scores of a model on the test split of a data set."""

    data: str
    shown: dict[str, Score]  # on the card
    all: dict[str, Score]


def ship(run: Path, name: str, precision: Precision, evaluations: Sequence[Path]) -> Path:
    """Write the package's folder of the model; the folder."""
    config = read_config(run, *KINDS)
    recipe = json.loads((run / "recipe.json").read_text(encoding="utf-8"))
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    tests = []
    for place in evaluations:
        scores, about = load_scores(place / "scores.json")
        tests.append(Test(about["data"], {key: scores[key] for key in HEADLINE if key in scores}, scores))
    data = next(line for line in (run / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith(DATA))
    metrics |= {"data": [test.data for test in tests], "test": merged(tests)}
    folder = PACKAGE / name
    shutil.rmtree(folder, ignore_errors=True)  # nothing of the model that had the name before stays behind
    extras = {
        "metrics.json": json.dumps(metrics, indent=1) + "\n",
        "README.md": card(name, config, recipe, metrics, data.removeprefix(DATA), tests, precision),
    }
    if (run / SEEN).exists():
        extras[SEEN] = (run / SEEN).read_text(encoding="utf-8")
    with TemporaryDirectory() as place:
        source = run
        if config["kind"] == "fusion":
            source = Path(place)
            shorten(run, load(Path(about["reference"]), "train"), source)
        pack_model(source, folder, name, extras, precision)
    for file in folder.iterdir():
        if file.stat().st_size > LARGEST:
            raise DeixisError(f"{file} has {file.stat().st_size:,} bytes, over {LARGEST:,}; train a smaller model.")
    return folder


def merged(tests: Sequence[Test]) -> Json:
    """Return the scores of all evaluations; with several, names end with their data set."""
    several = len(tests) > 1
    return {
        f"{key} ({test.data})" if several else key: {"value": score.value, "signature": score.signature}
        for test in tests
        for key, score in test.shown.items()
    }


def shorten(run: Path, training: Dataset, folder: Path) -> None:
    """Write a fusion model again with fewer word pieces."""
    pointer = AlbefGrounder.from_pretrained(run, backend="torch")
    texts = [*(caption.text for sample in training.samples for caption in sample.captions), *imagenet_classes()]
    few = pointer.with_pieces(pointer.pieces.shorter(texts, min(PIECES, len(pointer.pieces))))
    few.save_pretrained(folder, {"recipe.json": (run / "recipe.json").read_text(encoding="utf-8")})


def card(
    name: str,
    config: Json,
    recipe: Json,
    metrics: Json,
    data: str,
    tests: Sequence[Test],
    precision: Precision,
) -> str:
    """Write the model card: data, supervision, licence, scores, known failures."""
    extractor = (config["extractor"] or {}).get("description", {})
    seen = {
        key: part["supervision"] for key, part in extractor.items() if isinstance(part, dict) and "supervision" in part
    }
    looks = f"`{config['extractor']['name']}`" if extractor else "the photograph itself, without regions"
    alone = f"\n{ALONE}\n" if config["kind"] == "captioner" else ""
    return f"""# {name}

{PURPOSE[config["kind"]]}

- Kind: {config["kind"]}; recipe `{recipe["name"]}` ({recipe["paper"]}), seed {recipe["seed"]}
- Data: {data}
- Supervision: {recipe["supervision"]}
- Regions: {looks}{"".join(f"; {part}: {text}" for part, text in seen.items())}
- Weights: on disk {PRECISIONS[precision]}; in single precision
  once loaded; chosen at epoch {best_epoch(metrics)} on the validation splits

## Licence

The weights are for non-commercial research and education (`WEIGHTS-LICENSE.md`). The training photographs belong to
their owners on Flickr and were published under these terms. The code has the Apache License 2.0.

## Scores

On test splits, one model, one seed:

{table(tests)}
{alone}
Protocols:

{"".join(f"- {test.data}, {key}: `{score.signature}`{chr(10)}" for test in tests for key, score in test.shown.items())}
## Known failures

{failures(config["kind"], tests)}
"""


def table(tests: Sequence[Test]) -> str:
    """Return the scores as a table with a column for each data set."""
    keys = [key for key in HEADLINE if any(key in test.shown for test in tests)]
    rows = ["| score | " + " | ".join(test.data for test in tests) + " | meaning |", "|---" * (len(tests) + 2) + "|"]
    for key in keys:
        values = [f"{test.shown[key].value:.3f}" if key in test.shown else "" for test in tests]
        rows.append(f"| {key} | {' | '.join(values)} | {HEADLINE[key]} |")
    return "\n".join(rows)


def failures(kind: str, tests: Sequence[Test]) -> str:
    """List known failures, with their frequency if the evaluation of the first data set has it."""
    scores = tests[0].all

    def percent(key: str) -> str:
        return f"{scores[key].value:.0%}"

    lines = []
    if kind == "captioner" and {"CHAIRs", "wrong_partial"} <= set(scores):
        lines += [
            f"Hallucination: {percent('CHAIRs')} of the test captions name at least one object class that no reference "
            "caption names.",
            "Counts, colours and actions are often wrong. English only; one sentence of at most 20 words.",
            f"Wrong boxes of object words: {percent('wrong_partial')} are partial, "
            f"{percent('wrong_enlarged')} enlarged, {percent('wrong_deviated')} in another place.",
        ]
    if "accuracy" in scores:
        lines.append(
            f"Boxes are less reliable than points: {percent('accuracy')} of the phrases get a correct box, "
            f"{percent('pointing')} a point inside the object."
        )
    lines += [
        "For images unlike everyday photographs (screenshots, drawings, blank images, medical or "
        "aerial images) the output is unreliable. Its confidence is usually lower, but not always low enough.",
        "Training captions contain guesses about gender, age and origin, and so does the output. Do not use the model "
        "to identify people.",
    ]
    return "\n".join(f"- {line}" for line in lines)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    run, name, *rest = sys.argv[1:]
    precision: Precision = rest.pop(0) if rest and rest[0] in PRECISIONS else "int8"  # type: ignore[assignment]
    try:
        written = ship(Path(run), name, precision, [Path(each) for each in rest] or [Path(run) / "eval-test"])
    except DeixisError as error:
        sys.exit(str(error))
    for file in sorted(written.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file}")
