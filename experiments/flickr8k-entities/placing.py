"""One captioner, its nouns placed by itself and by finders: scores of grounding, a JSON file for each.

    python experiments/flickr8k-entities/placing.py DATA STORE CAPTIONER NAME=FINDER ... --split test --out placing

CAPTIONER and FINDER are folders of trained models; all place by votes. What is there already is not done again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from deixis.pipelines.load import load_captioner, load_finder

from deixis.evaluation.evaluate import evaluate_captioner, set_place
from deixis.metrics.evaluate import Options
from deixis.metrics.references import read_reference
from deixis.metrics.score import write_json
from deixis.pipelines.place import together
from deixis.vision.store import FeatureStore

METRICS = ("CIDEr", "F1_all", "F1_loc", "F1_all_per_sent", "F1_loc_per_sent", "errors")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("captioner", type=Path)
    parser.add_argument("finders", nargs="*")
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    reference, store = read_reference(given.data, given.split), FeatureStore(given.store)
    captioner = load_captioner(given.captioner)
    set_place(captioner, "vote")
    for name, folder in [("own", ""), *(one.split("=", 1) for one in given.finders)]:
        file = given.out / f"{name}-{given.split}.json"
        if file.exists():
            continue
        finder = load_finder(folder) if folder else None
        if finder is not None:
            set_place(finder, "vote")
        options = Options(metrics=METRICS, missing="skip", quiet=True)
        _, result = evaluate_captioner(captioner, reference, store, options, finder)
        shown = [
            json.loads((Path(f) / "recipe.json").read_text())["supervision"] for f in (given.captioner, folder) if f
        ]
        about = {
            "model": captioner.name if finder is None else together(captioner.name, finder),
            "place": "vote",
            "supervision": shown,
            "extractor": store.extractor,
            "split": given.split,
        }
        scores = {s.name: {"value": s.value, "signature": s.signature, "items": len(s.ids)} for s in result.scores}
        write_json(file, {**about, "scores": scores})
        print(name, " ".join(f"{s.name} {100 * s.value:.2f}" for s in result.scores), flush=True)


if __name__ == "__main__":
    main()
