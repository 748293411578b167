"""What people are told of a photograph: the captioner's sentence after a second look, and whether it is sure of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image

from deixis.models import second_look
from deixis.models.captioner import Captioner
from deixis.models.confidence import SURE, Confidence
from deixis.models.eyes import Eyes
from deixis.models.looks import Looks
from deixis.types import GroundedCaption, Json, Regions


@dataclass(frozen=True, eq=False)
class Told:
    """A caption as it is shown to people."""

    caption: GroundedCaption
    looks: Looks
    sure: bool
    plain: bool = False  # it names what a classifier sees, in place of a sentence of the captioner's
    doubted: str = ""  # what the captioner's sentence is about, and nobody else sees

    @property
    def note(self) -> str:
        """How far to trust the caption, where that needs a word."""
        if self.plain:
            named = "Named plainly" if self.sure else "Not sure, and named plainly"
            return f"{named}: the model's own sentence is about a {self.doubted}, and no classifier sees one."
        if self.doubted:
            return f"Not sure: it speaks of a {self.doubted}, and no classifier sees one."
        return "" if self.sure else "Not sure: it might say the same if there were nothing to see."

    def to_json(self) -> Json:
        """The caption, and how far it can be trusted."""
        return {**self.caption.to_json(), "sure": self.sure, "plain": self.plain, "note": self.note}


class Teller:
    """A captioner and its judges, who look with its eyes, or with ``eyes`` that see the same."""

    def __init__(self, captioner: Captioner, eyes: Eyes | None = None) -> None:
        self.captioner = captioner
        self.confidence = Confidence(captioner, eyes)
        self.second_look = second_look.SecondLook(eyes or captioner.eyes)

    def tell(
        self,
        regions: Sequence[Regions],
        photos: Sequence[Callable[[], Image.Image]],
        images: Sequence[str] | None = None,
    ) -> list[Told]:
        """What is said of photographs, from their regions; ``photos`` open them, ``images`` are their names."""
        said = list(self.captioner.looks(regions, images))
        gains = self.confidence.gains([caption for caption, _ in said])
        told = []
        for (caption, looks), gain, seen, photo in zip(said, gains, regions, photos, strict=True):
            again = self.second_look.at(caption, looks, seen, photo)
            sure = again.plain >= second_look.SURE if again.plain else gain >= SURE and not again.doubted
            told.append(Told(again.caption, again.looks, sure, bool(again.plain), again.doubted))
        return told
