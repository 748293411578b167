"""Models of a pipeline: what a phrase grounder offers, models by name or folder, and which models work together."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deixis.errors import DeixisError
from deixis.model_folder import read_config, require_torch
from deixis.types import Grounding, Phrase, RerankWeights

if TYPE_CHECKING:
    from deixis.language.parse import Parse
    from deixis.language.queries import Query
    from deixis.methods.updown.model import Captioner
    from deixis.vision.blank import BlankRegions
    from deixis.vision.extractor import RegionExtractor

DEFAULT_CAPTIONER, DEFAULT_GROUNDER = "deixis-8k", "deixis-8k-grounder"
"""The models that verbs use where none is named."""

PACKAGE = Path(__file__).parents[1] / "pretrained"
"""The models that come with the package, each in a folder with its name."""


class PhraseGrounder(Protocol):
    """What every phrase grounder offers; ``Any`` is its own encoding of one photograph."""

    name: str
    hash: str
    calls: Any  # what runs its network; ``calls.backend`` names it

    @property
    def extractor(self) -> RegionExtractor | None:
        """The extractor of its regions; None: it reads pixels."""

    @property
    def box_rules(self) -> tuple[str, ...]:
        """Names of its box rules."""

    @property
    def rerank_weights(self) -> RerankWeights | None:
        """Weights of its evidence for reranking captions; None: it cannot rerank."""

    def encode(self, photos: Sequence[Any]) -> list[Any]:
        """Encode several photographs in one pass: regions, or images where there is no extractor."""

    def ground(self, photo: Any, queries: Sequence[Query], place: Any = None) -> list[Grounding]:
        """Return a grounding for every phrase of the queries; ``place`` overrides the box rule."""

    def evidence(self, photo: Any, phrases: Sequence[Phrase], parses: Sequence[Parse] | None = None) -> list[float]:
        """Return a match score of each text with the photograph; ``parses`` are those of the texts, if known."""

    def phrase_probability(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""

    def caption_probability(self, evidence: float) -> float | None:
        """Return the probability that a caption is of the photograph; None where that is not calibrated."""


@dataclass(frozen=True, eq=False)
class Models:
    """A captioner and, where there is one, the grounder that reranks its sentences and grounds their phrases."""

    captioner: Captioner
    grounder: PhraseGrounder | None = None

    @property
    def name(self) -> str:
        """The name in results."""
        if self.grounder is None:
            return self.captioner.name
        return f"{self.captioner.name}, placed by {self.grounder.name}"

    @property
    def hash(self) -> str:
        """The hash in results: those of both models."""
        return self.captioner.hash if self.grounder is None else f"{self.captioner.hash}+{self.grounder.hash}"

    @property
    def backends(self) -> dict[str, str]:
        """What runs each network, by the name of its model."""
        found = {one.name: backend_of(one) for one in (self.captioner, self.grounder) if one is not None}
        return {**found, "the extractor": self.extractor.backend}

    @cached_property
    def extractor(self) -> RegionExtractor:
        """The captioner's extractor; the grounder's where it makes the same regions, so that both share them."""
        own, other = self.captioner.extractor, None if self.grounder is None else self.grounder.extractor
        return other if other is not None and other.name == own.name else own

    @cached_property
    def blank(self) -> BlankRegions | None:
        """Regions of blank images, for the information gain: kept with the captioner, or extracted once.

        None for imported features, which cannot be computed of a blank image.
        """
        from deixis.vision.blank import BlankRegions

        if self.captioner.blank is None and self.extractor.is_imported:
            return None
        return self.captioner.blank or BlankRegions.extract(self.extractor)

    @property
    def shares_regions(self) -> bool:
        """Whether the grounder reads the captioner's regions."""
        return self.grounder is not None and self.extractor is self.grounder.extractor


# Models by name -----------------------------------------------------------------------------------------------------

GROUNDERS = {
    "matcher": ("deixis.methods.scan.model", "ScanGrounder"),
    "grounder": ("deixis.methods.reir.model", "ReirGrounder"),
    "fusion": ("deixis.methods.albef.model", "AlbefGrounder"),
}
"""Kind in ``config.json`` -> module and class, which is imported when a model is loaded."""

NVIDIA_DRIVERS = ("/dev/nvidiactl", "C:/Windows/System32/nvcuda.dll")
"""Files of an installed NVIDIA driver: torch is imported only where there is one."""

KINDS = {"captioner": ("deixis.methods.updown.model", "Captioner"), **GROUNDERS}


def model_names() -> list[str]:
    """Return the names of the models that come with the package."""
    return sorted(file.parent.name for file in PACKAGE.glob("*/weights.safetensors"))


def model_folder(given: str | Path) -> Path:
    """Return the folder of a model, given by its name in the package or by its folder.

    A name of the package has precedence; a folder with the same name is given as ``./NAME``.
    """
    name = str(given)
    if Path(name).name == name and (PACKAGE / name / "weights.safetensors").is_file():
        return PACKAGE / name
    if Path(given).is_dir():
        return Path(given)
    names = model_names()
    if str(given) in (DEFAULT_CAPTIONER, DEFAULT_GROUNDER):
        raise DeixisError(
            f"the model {given} does not come with this version. Give --model the folder of a trained model "
            "(see deixis train)."
        )
    near = difflib.get_close_matches(str(given), names, n=1)
    suggestion = f" Did you mean {near[0]}?" if near else ""
    known = f"the package has {', '.join(names)}" if names else "the package has none"
    raise DeixisError(f"there is no model {given}: it is not a folder, and {known}.{suggestion}")


def is_captioner(folder: Path) -> bool:
    """Return whether a folder has a captioner, and not a phrase grounder."""
    return read_config(folder, *KINDS)["kind"] == "captioner"


def load_model(given: str | Path, device: str = "auto") -> Captioner | PhraseGrounder:
    """Load a model of any kind, by name or folder."""
    return _load(given, KINDS, device)


def load_captioner(given: str | Path = DEFAULT_CAPTIONER, device: str = "auto") -> Captioner:
    """Load a captioner, by name or folder."""
    return _load(given, {"captioner": KINDS["captioner"]}, device)


def load_grounder(given: str | Path = DEFAULT_GROUNDER, device: str = "auto") -> PhraseGrounder:
    """Load a phrase grounder, by name or folder."""
    return _load(given, GROUNDERS, device)


def load_models(
    captioner: str | Path = DEFAULT_CAPTIONER, grounder: str | Path | None = None, device: str = "auto"
) -> Models:
    """Load a captioner with its grounder.

    Without ``grounder``, the default captioner has the default grounder and other captioners have none; "none": none.
    """
    if grounder is None and str(captioner) == DEFAULT_CAPTIONER:
        grounder = DEFAULT_GROUNDER
    loaded = _load(captioner, {"captioner": KINDS["captioner"]}, device)
    return Models(loaded, None if grounder in (None, "none") else _load(grounder, GROUNDERS, device))


def _expected(kinds: dict[str, tuple[str, str]]) -> str:
    return "captioner" if "captioner" in kinds else "phrase grounder"


def _load(given: str | Path, kinds: dict[str, tuple[str, str]], device: str) -> Any:
    folder = model_folder(given)
    kind = read_config(folder, *KINDS)["kind"]
    if kind not in kinds:
        task, verb = ("writes captions", "caption") if kind == "captioner" else ("grounds phrases", "ground")
        raise DeixisError(f"{given} {task}; use deixis {verb}. Expected here: a {_expected(kinds)}.")
    module, name = kinds[kind]
    if on_cpu(device):
        return getattr(import_module(module), name).from_pretrained(folder)
    require_torch(f"--device {device}")
    from deixis.device import choose

    place = choose(device)  # an unknown device is an error before anything is loaded
    return getattr(import_module(module), name).from_pretrained(folder, backend="torch").to(place)


def on_cpu(device: str) -> bool:
    """Return whether models run on the CPU, without torch: "cpu", or "auto" without torch or an NVIDIA driver."""
    if device == "auto":
        return not any(Path(path).exists() for path in NVIDIA_DRIVERS) or find_spec("torch") is None
    return device == "cpu"


def backend_of(model: Captioner | PhraseGrounder) -> str:
    """Return what runs the network of a model: "numpy" or "torch"; "none" for a grounder without a network."""
    calls = getattr(model, "calls", None)
    return "none" if calls is None else str(calls.backend)
