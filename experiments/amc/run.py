"""Run all of this experiment: features, table, human boxes, verdict.

    python experiments/amc/run.py --data DATA --coco COCO --work WORK [--more DATA] [--threads 1]

--more adds photographs with human boxes to the row of human boxes: those of coco-more, which its build.py makes.
Finished parts are not run again. About 15 core-hours.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tyro

HERE = Path(__file__).parent


def main(data: Path, coco: Path, work: Path, more: Path | None = None, threads: int = 1) -> None:
    """Run the parts in order.

    Args:
        data: the part of Flickr30k Entities.
        coco: COCO photographs in Karpathy's layout, with instances.
        work: folder of the features and models.
        more: further photographs with human boxes, in the layout of ``coco``.
        threads: threads of torch.
    """
    stores = {"flickr": (data, work / "flickr.store"), "coco": (coco, work / "coco.store")}
    if more is not None:
        stores["more"] = (more, work / "more.store")
    for folder, store in stores.values():
        run("deixis", "features", folder, "-o", store, "--proposals", "coco-ssd", "--grid", "12")
    features = ["--features", f"coco-ssd={stores['flickr'][1]}"]
    run("deixis", "table", HERE, "--data", data, "--work", work, *features, "--threads", threads)
    human: list[object] = [coco, stores["coco"][1], work / "albef-0", work]
    human += [] if more is None else ["--more", *stores["more"]]
    keep("human-boxes.txt", "human_boxes.py", *human)
    keep("verdict.txt", "verdict.py")


def run(*command: object) -> None:
    """Run a command; raise an error if it fails."""
    subprocess.run(list(map(str, command)), check=True)


def keep(output: str, script: str, *arguments: object) -> None:
    """Run a script of this folder and keep what it prints."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    (HERE / output).write_text(done.stdout, encoding="utf-8")
    print(done.stdout, end="")


if __name__ == "__main__":
    tyro.cli(main)
