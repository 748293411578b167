"""Models by name or by folder, whatever their kind.

Two names come with the package: ``deixis-8k`` writes grounded captions, ``deixis-8k-grounder`` finds phrases. Names
and configurations are read without torch; a model's own module is imported when it is loaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deixis.errors import DeixisError
from deixis.model_folder import read_config

if TYPE_CHECKING:
    from deixis.methods.updown.model import Captioner
    from deixis.pipelines.checked import Checked
    from deixis.types import Grounding, Phrase
    from deixis.vision.eyes import Eyes, Photo

CAPTIONER, FINDER = "deixis-8k", "deixis-8k-grounder"
"""The models that verbs use where none is named."""

PACKAGE = Path(__file__).parents[1] / "pretrained"
"""Where the models are that come with the package, each in a folder with its name."""


class PhraseGrounder(Protocol):
    """What every model can do that grounds phrases."""

    name: str

    @property
    def eyes(self) -> Eyes | None:
        """What makes its regions; None: it reads photographs themselves."""

    def ground(
        self, photo: Photo, wanted: str | Sequence[str], phrases: Sequence[Phrase] | None = None
    ) -> list[Grounding]:
        """The places of phrases that stand alone, or of those of a caption: found in it, or given as its spans."""


FINDERS = {
    "matcher": ("deixis.methods.scan.model", "ScanGrounder"),
    "grounder": ("deixis.methods.reir.model", "ReirGrounder"),
    "fusion": ("deixis.methods.albef.model", "AlbefGrounder"),
}
"""Kind of a model -> its module and class; the class has ``from_pretrained``."""

KINDS = {"captioner": ("deixis.methods.updown.model", "Captioner"), **FINDERS}


def model_names() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(file.parent.name for file in PACKAGE.glob("*/weights.safetensors"))


def model_folder(given: str | Path) -> Path:
    """The folder of a model that is given by its name in the package, or by its folder.

    A name of the package is always meant as one; a folder that is called the same is given as ``./deixis-8k``.
    """
    names = model_names()
    if str(given) in names:
        return PACKAGE / given
    if Path(given).is_dir():
        return Path(given)
    if str(given) in (CAPTIONER, FINDER):
        raise DeixisError(
            f"the model {given} does not come with this version; give --model the folder of one that was trained "
            "(deixis train)."
        )
    near = difflib.get_close_matches(str(given), names, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    known = f"the package has {', '.join(names)}" if names else "the package has none"
    raise DeixisError(f"there is no model {given}: it is not a folder, and {known}.{meant}")


def load_model(given: str | Path, device: str = "auto") -> Captioner | PhraseGrounder:
    """The model of that name or in that folder, by the kind that its configuration names."""
    return _load(given, KINDS, device)


def load_captioner(given: str | Path = CAPTIONER, device: str = "auto") -> Captioner:
    """The model of that name or in that folder, which must be one that writes captions."""
    return _load(given, {"captioner": KINDS["captioner"]}, device)


def load_finder(given: str | Path = FINDER, device: str = "auto") -> PhraseGrounder:
    """The model of that name or in that folder, which must be one that finds phrases."""
    return _load(given, FINDERS, device)


def _load(given: str | Path, kinds: dict[str, tuple[str, str]], device: str) -> Any:
    folder = model_folder(given)
    module, name = kinds[read_config(folder, *kinds)["kind"]]
    from deixis.device import choose

    place = choose(device)  # said before anything is loaded
    return getattr(import_module(module), name).from_pretrained(folder).to(place)


def check_caption(finder: PhraseGrounder, photo: Photo, caption: str) -> Checked:
    """A caption held against a photograph by any model that finds phrases; the score of each tells if it is there."""
    from deixis.language.tokenise import tokens
    from deixis.methods.albef.model import AlbefGrounder
    from deixis.pipelines.checked import Checked
    from deixis.types import GroundedCaption

    if isinstance(finder, AlbefGrounder):
        return finder.check(photo, caption)
    assert finder.eyes is not None
    regions = finder.eyes.look(photo)
    found = tuple(finder.ground(regions, caption))
    name = str(photo) if isinstance(photo, str | Path) else ""
    return Checked(GroundedCaption(tokens(caption), found, None, name, *regions.size, finder.name, caption), None)
