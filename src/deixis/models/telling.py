"""What people are told of a photograph: the captioner's sentence after a second look, and whether it is sure of it.

Where there is a finder, the nouns have the places that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from deixis.language.names import with_article
from deixis.models import second_look
from deixis.models.captioner import Captioner
from deixis.models.confidence import SURE, Confidence
from deixis.models.eyes import Eyes
from deixis.models.looks import Looks
from deixis.models.pretrained import CAPTIONER, FINDER, FindsPhrases, load_captioner, load_finder
from deixis.models.regrounding import reground, together, understands
from deixis.types import GroundedCaption, Json, Regions

DIRECTIONS = ("back", "bottom", "edge", "front", "middle", "side", "top")


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
            return (
                f"{named}: the model's own sentence is about {with_article(self.doubted)}, and no classifier sees one."
            )
        if self.doubted:
            return f"Not sure: it speaks of {with_article(self.doubted)}, and no classifier sees one."
        return "" if self.sure else "Not sure: it might say the same if there were nothing to see."

    def trust(self) -> Json:
        """How far the caption can be trusted."""
        return {"sure": self.sure, "plain": self.plain, "note": self.note}

    def to_json(self) -> Json:
        """The caption, and how far it can be trusted."""
        return {**self.caption.to_json(), **self.trust()}


class Teller:
    """A captioner and those who help it: its judges, and a ``finder`` that places the nouns of its sentences.

    The judges look with the captioner's eyes, or with ``eyes`` that see the same. A finder that was trained on the same
    features shares its eyes with the captioner: a photograph is then looked at once.
    """

    def __init__(self, captioner: Captioner, eyes: Eyes | None = None, finder: FindsPhrases | None = None) -> None:
        share_eyes(captioner, finder)
        self.captioner, self.finder = captioner, finder
        self.confidence = Confidence(captioner, eyes)
        self.second_look = second_look.SecondLook(eyes or captioner.eyes)

    @property
    def name(self) -> str:
        """What its captions are signed with."""
        return self.captioner.name if self.finder is None else together(self.captioner.name, self.finder)

    def tell(
        self,
        regions: Sequence[Regions],
        photos: Sequence[Callable[[], Image.Image]],
        images: Sequence[str] | None = None,
        heats: bool = False,
    ) -> list[Told]:
        """What is said of photographs, from their regions; ``photos`` open them, ``images`` are their names.

        With ``heats`` a noun that the finder placed has its heat map too.
        """
        said = list(self.captioner.looks(regions, images))
        gains = self.confidence.gains([caption for caption, _ in said])
        told = []
        for (caption, looks), gain, seen, photo in zip(said, gains, regions, photos, strict=True):
            again = self.second_look.at(caption, looks, seen, photo)
            sure = again.plain >= second_look.SURE if again.plain else gain >= SURE and not again.doubted
            placed = again.caption if again.plain else self._placed(again.caption, seen, photo, heats)
            told.append(Told(replace(placed, model=self.name), again.looks, sure, bool(again.plain), again.doubted))
        return told

    def _placed(
        self, caption: GroundedCaption, regions: Regions, photo: Callable[[], Image.Image], heats: bool
    ) -> GroundedCaption:
        things = tuple(one for one in caption.groundings if not is_direction(caption.words, one.start))
        caption = replace(caption, groundings=things)
        if self.finder is None:
            return caption
        return reground(self.finder, regions if understands(self.finder, regions) else photo(), caption, heats)


def share_eyes(captioner: Captioner, finder: FindsPhrases | None) -> None:
    """Let a captioner see with the eyes of a finder that sees the same, and a feature grid perhaps."""
    if finder is not None and finder.eyes is not None and finder.eyes.name == captioner.eyes.name:
        captioner.eyes = finder.eyes


def is_direction(words: Sequence[str], at: int) -> bool:
    """Whether a noun only says where: "front" of "in front of a house", which is no thing with a place of its own."""
    before = [word for word in words[max(0, at - 2) : at] if word not in ("the", "a")]
    return (
        words[at] in DIRECTIONS and before[-1:] in (["in"], ["on"], ["at"]) and list(words[at + 1 : at + 2]) == ["of"]
    )


def load_teller(model: str = CAPTIONER, finder: str | None = None, device: str = "auto") -> Teller:
    """A captioner by name or folder, with its finder.

    If none is given, the captioner of the package has that of the package, and others have none; "none" is none.
    """
    if finder is None and model == CAPTIONER:
        finder = FINDER
    captioner = load_captioner(model, device)
    return Teller(captioner, finder=None if finder in (None, "none") else load_finder(finder, device))
