"""How fast scenes are made on one core, and how much they weigh: ``python benchmarks/scenes.py [n]``."""

from __future__ import annotations

import sys
import time

import cv2

from deixis.data import scenes


def main(n: int) -> None:
    """Print CPU time per picture and per video, and bytes per picture."""
    cv2.setNumThreads(1)
    scenes.make_scene(1, 0)  # imports and tables
    start = time.process_time()
    made = scenes.make_scenes(n)
    still = (time.process_time() - start) / n
    start = time.process_time()
    scenes.make_videos(max(n // 20, 1))
    moving = (time.process_time() - start) / max(n // 20, 1)
    weight = sum(sample.pixels.nbytes for sample in made if sample.pixels is not None) / n
    print(f"pictures  {1 / still:6.1f} per CPU second, {1000 * still:.1f} s for 1,000")
    print(f"videos    {1 / moving:6.1f} per CPU second, {scenes.FRAMES} frames each")
    print(f"memory    {weight / 1e3:6.1f} kB of pixels per picture")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
