"""Two systems side by side on the photographs where their scores differ most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deixis.errors import DeixisError
from deixis.show.draw import Span, draw_text
from deixis.show.drawing import FAINT, Drawing, stack
from deixis.show.panels import draw_comparison
from deixis.show.run_folder import read_captions
from deixis.show.run_gallery import find_samples


def draw_differences(
    folders: tuple[Path, Path],
    order: Sequence[tuple[str, str]],
    count: int,
    images: Path | None,
    about: Mapping[str, str],
) -> Drawing:
    """Draw the first ``count`` images of ``order`` (image, note) that both evaluations have and that can be opened.

    ``about`` is the meta data of a score file; it names the data set if ``images`` is not given.
    """
    find = find_samples(images, about)
    both = [read_captions(folder, find) for folder in folders]
    rows: list[Drawing] = []
    for image, note in order:
        sample = find(image)
        captions = [each[image] for each in both if image in each]
        if sample is not None and len(captions) == len(both) and len(rows) < 2 * count:
            drawn = draw_comparison(sample.open(), captions)
            rows += [drawn, draw_text([Span(f"{image}: {note}")], drawn.width, 16, padding=16, ink=FAINT)]
    if not rows:
        raise DeixisError(
            f"No photograph can be drawn. {folders[0]} and {folders[1]} need captions.jsonl or phrases.jsonl of "
            "'deixis eval', and --images must be the folder of the photographs."
        )
    return stack(rows)
