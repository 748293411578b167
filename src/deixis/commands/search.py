"""``deixis search``: the photographs of a store that fit a sentence best, and where in them is what it names."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.progress import Progress

from deixis.errors import DeixisError, UsageError
from deixis.pipelines.load import FINDER, model_folder
from deixis.types import Grounding, Json
from deixis.vision.store import FeatureStore

if TYPE_CHECKING:
    from deixis.methods.scan.model import ScanGrounder
    from deixis.show.sheet import Card

BATCH = 256  # photographs at a time

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class Hit:
    """A photograph that was found."""

    image: str
    score: float
    groundings: tuple[Grounding, ...]  # of the sentence's noun phrases

    def to_json(self) -> Json:
        """Without heat maps: they are large, and the points say what they are for."""
        found = [replace(grounding, heat=None).to_json() for grounding in self.groundings]
        return {"image": self.image, "score": self.score, "groundings": found}


def search(
    store: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")],
    sentence: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE")],
    model: Annotated[str, tyro.conf.arg(aliases=["-m"])] = FINDER,
    top: int = 12,
    draw: Path | None = None,
    images: Path | None = None,
    device: str = "auto",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Find the photographs that fit a sentence, and see where each thing that it names is.

    Everything happens on this machine: photographs are only opened to be drawn on.

    For example: deixis search photos.store "two dogs in the snow" --images photos --draw dogs.png

    Args:
        store: the photographs' feature store (see deixis features).
        sentence: what to look for.
        model: a name of the package or the folder of a matcher (see deixis train pos-scan-small).
        top: how many photographs to show.
        draw: write a contact sheet of them (.png, .svg, .jpg, ...).
        images: the data set or folder that the store was made from; needed for drawing only.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        as_json: write the found photographs to stdout as JSON, a line each.
        quiet: no progress.
    """
    if top < 1:
        raise UsageError("--top must be at least 1.")
    if draw is not None and images is None:
        raise UsageError("--draw needs the photographs themselves; say with --images where they are.")
    features = FeatureStore(store)
    if not len(features):
        raise DeixisError(f"{store} has no photographs in it; fill it first (deixis features).")
    talk = Console(stderr=True, quiet=quiet, highlight=False)
    from deixis.device import choose
    from deixis.methods.scan.model import ScanGrounder

    aligner = ScanGrounder.from_pretrained(model_folder(model)).to(choose(device))
    features.require(aligner.eyes.name)
    hits = find(aligner, features, sentence, top, talk)
    if draw is not None and images is not None:
        _draw(hits, sentence, images, draw)
        talk.print(f"{draw}: {len(hits)} of {len(features):,} photographs", markup=False)
    for hit in hits:
        places = ", ".join(f"{g.text} [{', '.join(f'{side:.0f}' for side in g.box)}]" for g in hit.groundings)
        print(json.dumps(hit.to_json(), ensure_ascii=False) if as_json else f"{hit.score:.3f}  {hit.image}  {places}")
    return 0


def find(aligner: ScanGrounder, store: FeatureStore, sentence: str, top: int, talk: Console) -> list[Hit]:
    """The best photographs first; those that fit alike in the order of the store."""
    from deixis.language.tokenise import tokens

    known = [word for word in tokens(sentence) if word in aligner.vocabulary]
    if not known:
        raise DeixisError(f"the matcher {aligner.name} knows no word of '{sentence}'; say it in other words.")
    names = list(store)
    scores: list[float] = []
    with Progress(console=talk, transient=True, disable=talk.quiet or not talk.is_terminal) as progress:
        for start in progress.track(range(0, len(names), BATCH), description="searching"):
            some = [store[name] for name in names[start : start + BATCH]]
            scores += aligner.scores(some, [sentence])[:, 0].tolist()
    best = sorted(range(len(names)), key=lambda i: -scores[i])[:top]
    return [Hit(names[i], scores[i], tuple(aligner.ground(store[names[i]], sentence))) for i in best]


def _draw(hits: list[Hit], sentence: str, images: Path, out: Path) -> None:
    from deixis.commands.features import find_jobs
    from deixis.show.drawing import save_drawing
    from deixis.show.sheet import contact_sheet

    paths = {job.image_id: job.paths[0] for job in find_jobs(images)}
    missing = next((hit.image for hit in hits if hit.image not in paths), None)
    if missing is not None:
        raise DeixisError(f"{images} has no photograph {missing}; --images is what the store was made from.")
    cards = [_card(hit, paths[hit.image]) for hit in hits]
    save_drawing(contact_sheet(cards, f"“{sentence}”", columns=4), out)


def _card(hit: Hit, path: Path) -> Card:
    from deixis.images import load_image
    from deixis.show.draw import Mark, colour
    from deixis.show.sheet import Card

    marks = tuple(Mark.of(grounding, colour(i)) for i, grounding in enumerate(hit.groundings))
    return Card(load_image(path), marks, note=f"{hit.score:.3f}  {hit.image}")
