"""Memory of image names, and CPU time of listing and of reading the output of a run before.

python experiments/scale/names.py > experiments/scale/names.txt
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import time
from pathlib import Path

from PIL import Image

from deixis.corpus.names import Names
from deixis.corpus.parts import Parts
from deixis.corpus.sources import list_items

COUNT, FEW = 1_000_000, 20_000
RESULT = {"caption": "a man in a red shirt and a black hat rides a bicycle down the street", "groundings": ["x" * 1400]}


def memory() -> float:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Print a line for each figure."""
    start, began = memory(), time.process_time()
    names = Names(f"shards/{number % 1000:05}.tar/{number:012}.jpg" for number in range(COUNT))
    seconds = time.process_time() - began
    print(f"names of images that are done: {(memory() - start) / COUNT:.1f} bytes, {1e6 * seconds / COUNT:.1f} us each")
    assert len(names) == COUNT
    start = memory()
    places = {f"{number:012}.jpg": (number // 128, number % 128) for number in range(COUNT)}
    print(f"index of an open feature store: {(memory() - start) / len(places):.0f} bytes an image")
    with tempfile.TemporaryDirectory() as folder:
        file = io.BytesIO()
        Image.new("RGB", (16, 16)).save(file, "PNG")
        with tarfile.open(Path(folder, "images.tar"), "w") as tar:
            for number in range(FEW):
                entry = tarfile.TarInfo(f"{number:012}.png")
                entry.size = file.tell()
                file.seek(0)
                tar.addfile(entry, file)
        began = time.process_time()
        assert sum(1 for _ in list_items([f"{folder}/images.tar"], (1, 2))) > FEW / 3
        print(f"listing a tar shard: {1e6 * (time.process_time() - began) / FEW:.0f} us an image")
        for format in ("jsonl", "parquet"):
            parts = Parts(Path(folder, format), {"verb": "caption"}, format)
            for first in range(0, FEW, 5_000):
                parts.write([{"image": f"{row:012}.jpg", **RESULT} for row in range(first, first + 5_000)])
            began = time.process_time()
            assert len(parts.done()) == FEW
            print(f"reading the names of {format} parts: {1e6 * (time.process_time() - began) / FEW:.1f} us a row")


if __name__ == "__main__":
    main()
