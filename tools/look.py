"""Caption random validation photographs, and write one page and sheets to look at.

    python tools/look.py DATA [DATA ...] [--each 25] [--seed 0] [--model MODEL] [--grounder MODEL] --out FOLDER

FOLDER/index.html has all photographs with boxes, FOLDER/sheet-N.png twelve of them, FOLDER/captions.jsonl the results.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import tyro
from PIL import Image

from deixis.data import load
from deixis.pipelines.caption import caption_stream
from deixis.pipelines.models import DEFAULT_CAPTIONER, load_models
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CaptionResult
from deixis.show.page import Shown, caption_page

PER_SHEET, COLUMNS, WIDTH = 12, 4, 480


def main(
    data: tyro.conf.Positional[tuple[Path, ...]],
    out: Path,
    each: int = 25,
    seed: int = 0,
    split: str = "val",
    model: str = DEFAULT_CAPTIONER,
    grounder: str | None = None,
) -> None:
    """Write the page, the sheets and the captions.

    Args:
        data: data sets.
        out: folder of the results.
        each: photographs of each data set.
        seed: of the draw.
        split: split of the data sets.
        model: captioner, by name or folder.
        grounder: phrase grounder, by name or folder.
    """
    draw = random.Random(seed)
    samples = [sample for root in data for sample in draw.sample(load(root, split).samples, each)]
    photos = [Photo(Path(one.image_id), one.image_id, open_image=one.open) for one in samples]
    results = list(caption_stream(photos, load_models(model, grounder, "cpu")))
    out.mkdir(parents=True, exist_ok=True)
    shown = [Shown(photo.image, one.caption, one.note) for photo, one in zip(photos, results, strict=True)]
    (out / "index.html").write_text(caption_page(f"{len(shown)} photographs", {"": shown}), encoding="utf-8")
    lines = [json.dumps(result.to_dict(), ensure_ascii=False) for result in results]
    (out / "captions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for number, start in enumerate(range(0, len(results), PER_SHEET), 1):
        sheet(photos[start : start + PER_SHEET], results[start : start + PER_SHEET]).save(out / f"sheet-{number}.png")


def sheet(photos: list[Photo], results: list[CaptionResult]) -> Image.Image:
    """Return the drawings of some results on one picture."""
    drawings = []
    for photo, result in zip(photos, results, strict=True):
        drawn = CaptionResult(photo.image, result.caption, result.warnings, result.trace).image()
        drawings.append(drawn.resize((WIDTH, round(drawn.height * WIDTH / drawn.width))))
    rows = [drawings[start : start + COLUMNS] for start in range(0, len(drawings), COLUMNS)]
    heights = [max(one.height for one in row) for row in rows]
    whole = Image.new("RGB", (COLUMNS * WIDTH, sum(heights)), "white")
    for r, row in enumerate(rows):
        for c, one in enumerate(row):
            whole.paste(one, (c * WIDTH, sum(heights[:r])))
    return whole


if __name__ == "__main__":
    tyro.cli(main)
