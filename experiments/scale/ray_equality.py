"""Rows of one process and of two actors of Ray for the same photographs: equal sentences, boxes and scores.

    python experiments/scale/ray_equality.py PHOTOS --limit 24 --folder /tmp/equal > experiments/scale/ray-equality.txt

The second run has one file more, which is not an image, and an actor is killed with SIGKILL while it works.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from pathlib import Path

from deixis.corpus.options import CorpusOptions
from deixis.corpus.parts import Parts
from deixis.corpus.run import run_corpus
from deixis.corpus.sources import Item
from deixis.corpus.work import CaptionWork
from deixis.photographs import images_in
from deixis.types import Json

WORK = CaptionWork("deixis-base", "deixis-base-grounder", device="cpu")


def rows(items: list[Item], folder: Path, **options: object) -> dict[str, Json]:
    """Run the captioner and return the rows by image."""
    for _ in run_corpus(WORK, items, CorpusOptions(parts=folder, part_rows=4, batch=4, **options)):  # type: ignore[arg-type]
        pass
    found = list(Parts(folder, WORK.about()).rows())
    assert len({row["image"] for row in found}) == len(found), "an image has two rows"
    return {str(row["image"]): row for row in found}


def parent(process: int) -> int:
    """Process that started a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def actors() -> list[int]:
    """Processes of Ray that run an actor and that were started by this process, through Ray's own processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            process = above = int(path.name)
            if (path / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                while above > 1 and above != os.getpid():
                    above = parent(above)
                found += [process] if above == os.getpid() else []
        except OSError:
            continue
    return found


def kill_one(folder: Path, killed: list[int]) -> None:
    """Kill an actor of this run as soon as the first part is written."""
    while not list(folder.glob("part-*")):
        time.sleep(0.05)
    for process in actors()[:1]:
        os.kill(process, signal.SIGKILL)
        killed.append(process)


def numbers(value: object) -> list[float]:
    """All numbers of a row, in order."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [float(value)] if isinstance(value, int | float) else []


def main() -> None:
    """Compare and print the differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", type=Path)
    parser.add_argument("--limit", type=int, default=24)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    items = [Item(path.name, str(path)) for path in sorted(images_in(given.photos))[: given.limit]]
    plain = rows(items, given.folder / "plain")
    broken = given.folder / "broken.jpg"
    broken.write_bytes(b"no image")
    killed: list[int] = []
    killer = threading.Thread(target=kill_one, args=(given.folder / "ray", killed), daemon=True)
    killer.start()
    ray = rows([*items, Item("broken.jpg", str(broken))], given.folder / "ray", engine="ray", actors=2)
    print(f"photographs: {len(plain)}; rows of Ray: {len(ray)}; actors killed: {len(killed)}")
    print(f"rows with an error: {[row['error'] for row in ray.values() if 'error' in row]}")
    same = sum(row["caption"] == ray[name]["caption"] for name, row in plain.items())
    print(f"equal sentences: {same} of {len(plain)}")
    pairs = [(numbers(row), numbers(ray[name])) for name, row in plain.items()]
    assert all(len(one) == len(other) for one, other in pairs)
    apart = max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))
    print(f"numbers compared: {sum(len(one) for one, _ in pairs)}; largest difference: {apart:.2g}")


if __name__ == "__main__":
    main()
