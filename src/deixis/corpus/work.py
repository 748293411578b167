"""What is done for the images of a corpus: caption, ground, check, extract. Models are loaded once per process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from PIL import Image

from deixis.corpus.sources import Item, load_item
from deixis.errors import DeixisError
from deixis.images import LARGE_PIXELS, MAX_PIXELS, ImageTooLargeError
from deixis.pipelines.caption import CaptionOptions
from deixis.pipelines.photo import Photo
from deixis.types import HeatPlace, Json, Place
from deixis.vision.fill import Make

Opened = tuple[Item, Image.Image | str | None]
"""An item with its image, with the reason why there is none, or with None where a large image is opened later."""

Answer = Callable[[Sequence[Photo], Sequence[Item]], list[Json]]


@dataclass(frozen=True)
class CaptionWork:
    """Caption images."""

    model: str
    grounder: str | None = None
    options: CaptionOptions = field(default_factory=CaptionOptions)
    device: str = "auto"

    def about(self) -> Json:
        """Settings that decide the result."""
        return {"verb": "caption", **{name: value for name, value in asdict(self).items() if name != "device"}}

    def load(self) -> Answer:
        """Load the models."""
        from deixis.pipelines.caption import caption
        from deixis.pipelines.models import load_models

        models = load_models(self.model, self.grounder, self.device)
        return lambda photos, items: [result.to_dict() for result in caption(photos, models, self.options)]


@dataclass(frozen=True)
class GroundWork:
    """Ground phrases, the same in every image, or the noun phrases of each image's caption."""

    model: str
    phrases: tuple[str, ...] = ()
    place: Place | HeatPlace | None = None
    device: str = "auto"

    def about(self) -> Json:
        """Settings that decide the result."""
        return {"verb": "ground", **{name: value for name, value in asdict(self).items() if name != "device"}}

    def load(self) -> Answer:
        """Load the grounder."""
        from deixis.pipelines.ground import ground
        from deixis.pipelines.models import load_grounder
        from deixis.pipelines.photo import encode_batch

        grounder = load_grounder(self.model, self.device)

        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            encode_batch(photos, grounder)
            rows = []
            for photo, item in zip(photos, items, strict=True):
                found = ground(photo, list(self.phrases) or item.caption, grounder, self.place)
                groundings = [one.to_phrase_json(grounder.name) for one in found]
                rows.append({"image": item.image, "model_hash": grounder.hash, "groundings": groundings})
            return rows

        return answer


@dataclass(frozen=True)
class CheckWork:
    """Check the caption of each image; with ``caption``, the same one for all."""

    model: str
    caption: str = ""
    device: str = "auto"

    def about(self) -> Json:
        """Settings that decide the result."""
        return {"verb": "check", "model": self.model, "caption": self.caption}

    def load(self) -> Answer:
        """Load the grounder."""
        from deixis.pipelines.check import check
        from deixis.pipelines.models import load_grounder
        from deixis.pipelines.photo import encode_batch

        grounder = load_grounder(self.model, self.device)

        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            encode_batch(photos, grounder)
            pairs = zip(photos, items, strict=True)
            return [check(photo, self.caption or item.caption, grounder).to_dict() for photo, item in pairs]

        return answer


@dataclass(frozen=True)
class FeaturesWork:
    """Extract the regions of images; ``make`` builds the extractor."""

    make: Make

    def about(self) -> Json:
        """Nothing; a store describes its extractor."""
        return {"verb": "features"}

    def load(self) -> Answer:
        """Build the extractor."""
        extractor = self.make()

        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            names = [item.image for item in items]
            found = extractor.extract_batch([photo.image for photo in photos], names)
            return [{"image": name, "regions": regions} for name, regions in zip(names, found, strict=True)]

        return answer


class Work(Protocol):
    """What is done for images: a frozen dataclass that can be pickled."""

    def about(self) -> Json:
        """Settings that decide the result."""
        ...

    def load(self) -> Answer:
        """Load the models; return the function that answers a batch."""
        ...


def open_item(item: Item, max_pixels: int = LARGE_PIXELS) -> Opened:
    """Open an image; an error becomes its message. An image of more pixels is left for later."""
    try:
        return item, load_item(item, max_pixels)
    except ImageTooLargeError as error:
        return item, str(error) if max_pixels == MAX_PIXELS else None
    except DeixisError as error:
        return item, str(error)
    except Exception as error:  # one image must not stop the others
        return item, f"{item.image} could not be opened ({type(error).__name__}: {error})"


def answer_all(answer: Answer, opened: Sequence[Opened]) -> list[Json]:
    """One row for each image: its result, or its error. A batch that fails is repeated image by image.

    Large images are opened and answered one at a time, so that a batch of them does not fill the memory.
    """
    rows = {item.image: {"image": item.image, "error": reason} for item, reason in opened if isinstance(reason, str)}
    good = [(item, image) for item, image in opened if isinstance(image, Image.Image)]
    for row, (item, _) in zip(_answers(answer, good), good, strict=True):
        rows[item.image] = {**row, "image": item.image}
    for item in [item for item, image in opened if image is None]:
        rows[item.image] = answer_all(answer, [open_item(item, MAX_PIXELS)])[0]
    return [rows[item.image] for item, _ in opened]


def _answers(answer: Answer, good: Sequence[tuple[Item, Image.Image]]) -> list[Json]:
    if not good:
        return []
    try:
        photos = [Photo(item.image, open_image=lambda image=image: image) for item, image in good]  # type: ignore[misc]
        return answer(photos, [item for item, _ in good])
    except Exception as error:
        if len(good) > 1:
            return [row for one in good for row in _answers(answer, [one])]
        known = isinstance(error, DeixisError)
        name = good[0][0].image
        reason = str(error) if known else f"{name} could not be processed ({type(error).__name__}: {error})"
        return [{"image": name, "error": reason}]
