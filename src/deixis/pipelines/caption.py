"""What people are told of a photograph: the captioner's sentence after a second look, and whether it is sure of it.

Where there is a finder, the nouns have the places that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PIL import Image

from deixis.language.names import with_article
from deixis.language.sentence import is_out_of_sight
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.updown.model import Captioner
from deixis.pipelines import second_look
from deixis.pipelines.checked import DOUBT
from deixis.pipelines.information_gain import SURE, Confidence
from deixis.pipelines.load import CAPTIONER, FINDER, PhraseGrounder, load_captioner, load_finder
from deixis.pipelines.looks import Looks
from deixis.pipelines.place import reground, together, understands
from deixis.pipelines.rerank import assist
from deixis.types import GroundedCaption, Json, Regions
from deixis.vision.eyes import Eyes, open_photo


@dataclass(frozen=True, eq=False)
class Told:
    """A caption as it is shown to people."""

    caption: GroundedCaption
    looks: Looks
    sure: bool
    plain: bool = False  # it names what a classifier sees, in place of a sentence of the captioner's
    doubted: str = ""  # what the captioner's sentence is about, and nobody else sees
    fits: bool = True  # the finder does not take it for the caption of another photograph
    strange: bool = False  # the picture is unlike the photographs that the captioner learnt from

    @property
    def note(self) -> str:
        """How far to trust the caption, where that needs a word."""
        if self.strange:
            return "Not sure: the picture is unlike the photographs that the model learnt from."
        if self.plain:
            named = "Named plainly" if self.sure else "Not sure, and named plainly"
            return (
                f"{named}: the model's own sentence is about {with_article(self.doubted)}, and no classifier sees one."
            )
        if self.doubted:
            return f"Not sure: it speaks of {with_article(self.doubted)}, and no classifier sees one."
        if not self.fits:
            return "Not sure: the finder takes it for the caption of another photograph."
        return "" if self.sure else "Not sure: it might say the same if there were nothing to see."

    def trust(self) -> Json:
        """How far the caption can be trusted."""
        return {"sure": self.sure, "plain": self.plain, "note": self.note}

    def to_json(self) -> Json:
        """The caption, and how far it can be trusted."""
        return {**self.caption.to_json(), **self.trust()}


class Teller:
    """A captioner and those who help it: two who doubt, and a ``finder`` that places the nouns of its sentences.

    Those who doubt look with the captioner's eyes, or with ``eyes`` that see the same. A finder that was trained on the
    same features shares its eyes with the captioner, so that a photograph is looked at once, and has a say in which
    sentence is taken (:mod:`deixis.pipelines.rerank`). If it takes even that for the caption of another photograph, the
    sentence is not sure. Nor is any sentence about a picture that is strange to the captioner
    (:mod:`deixis.vision.ood`).
    """

    def __init__(self, captioner: Captioner, eyes: Eyes | None = None, finder: PhraseGrounder | None = None) -> None:
        assist(captioner, finder)
        self.captioner, self.finder = captioner, finder
        self.confidence = Confidence(captioner, eyes)
        self.second_look = second_look.SecondLook(eyes or captioner.eyes)

    @property
    def name(self) -> str:
        """What its captions are signed with."""
        return self.captioner.name if self.finder is None else together(self.captioner.name, self.finder)

    def caption(self, photo: str | Path | Image.Image) -> Told:
        """What is said of one photograph, a file or an image."""
        name = "" if isinstance(photo, Image.Image) else str(photo)
        return self.tell([self.captioner.eyes.look(photo)], [partial(open_photo, photo)], [name])[0]

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
            strange = self.captioner.familiar is not None and self.captioner.familiar.is_strange(seen)
            if again.plain:
                caption, sure, fits = again.caption, again.plain >= second_look.SURE, True
            else:
                caption, fits = self._placed(caption, seen, photo, heats), self._fits(caption, seen)
                sure = gain >= SURE and not again.doubted and fits
            caption, sure = replace(caption, model=self.name), sure and not strange
            told.append(Told(caption, again.looks, sure, bool(again.plain), again.doubted, fits, strange))
        return told

    def _fits(self, caption: GroundedCaption, regions: Regions) -> bool:
        """Whether a finder that can tell takes the sentence for one of this photograph."""
        finder = self.finder
        if not isinstance(finder, AlbefGrounder) or finder.presence is None or not understands(finder, regions):
            return True
        return finder.match(regions, " ".join(caption.words)) >= DOUBT

    def _placed(
        self, caption: GroundedCaption, regions: Regions, photo: Callable[[], Image.Image], heats: bool
    ) -> GroundedCaption:
        things = tuple(one for one in caption.groundings if not is_out_of_sight(caption.words, one.start))
        caption = replace(caption, groundings=things)
        if self.finder is None:
            return caption
        return reground(self.finder, regions if understands(self.finder, regions) else photo(), caption, heats)


def load_teller(model: str = CAPTIONER, finder: str | None = None, device: str = "auto") -> Teller:
    """A captioner by name or folder, with its finder.

    If none is given, the captioner of the package has that of the package, and others have none; "none" is none.
    """
    if finder is None and model == CAPTIONER:
        finder = FINDER
    captioner = load_captioner(model, device)
    return Teller(captioner, finder=None if finder in (None, "none") else load_finder(finder, device))
