"""The grounded captioner: regions in, sentences with an attention trace out; save and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from deixis.errors import DeixisError
from deixis.fields import from_dict
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padded import pad_arrays, pad_ids
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.decode import GenerationConfig, Sentences, beam_search, force_decode
from deixis.methods.updown.inference import ArrayDecoder, TorchDecoder, weight_shapes
from deixis.model_folder import (
    Backend,
    folder_hash,
    load_arrays,
    load_network,
    load_vocabulary,
    open_model,
    require_torch,
    torch_network,
    write_model,
)
from deixis.types import AttentionTrace, Candidate, Json, Regions
from deixis.vision.blank import BlankRegions
from deixis.vision.extractor import RegionExtractor
from deixis.vision.ood import OodDetector

if TYPE_CHECKING:
    import torch

    from deixis.methods.updown.network import Decoder

BOUNDS = {
    **{"branches": (1, 64), "heads": (0, 256), "dropout": (0, 1)},
    **{"interact": (0, 64), "interact_heads": (1, 256), "frames": (0, 1000), "steps": (1, 100_000)},
}
"""Bounds of a stored configuration; the other sizes are compared with the stored weights."""


class Captioner:
    """A decoder with its vocabulary, and the extractor whose regions it was trained on.

    ``ood`` and ``blank`` are statistics of the training photographs and of blank images, for the checks of a caption.
    """

    def __init__(
        self,
        network: Decoder | ArrayDecoder,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        generation: GenerationConfig | None = None,
        ood: OodDetector | None = None,
        blank: BlankRegions | None = None,
    ) -> None:
        self.network, self.vocabulary, self.name, self.hash = network, vocabulary, name, ""
        self.calls = network if isinstance(network, ArrayDecoder) else TorchDecoder(network.eval())
        side = network.config.grid_side
        self.extractor = RegionExtractor(extractor["description"], side, name=extractor["name"])
        self.generation = generation or GenerationConfig()
        self.ood, self.blank = ood, blank

    def to(self, device: torch.device) -> Self:
        """Move the weights and the extractor; results are returned on the CPU."""
        torch_network(self.network).to(device)
        self.extractor.to(device)
        return self

    def with_generation(self, generation: GenerationConfig) -> Self:
        """Return a captioner with the same network that generates by other rules."""
        other = copy(self)
        other.generation = generation
        return other

    @property
    def describes_clips(self) -> bool:
        """Whether it was trained on the frames of clips, and not on photographs."""
        return self.network.config.frames > 0

    def _require(self, regions: Sequence[Regions]) -> None:
        """Raise an error if regions are of another extractor, of a clip or photograph, or lack a part."""
        config = self.network.config
        for one in regions:
            self.extractor.require(one, config.features)
            if self.describes_clips != (one.frames is not None):
                given, wanted = ("a photograph", "clips") if self.describes_clips else ("a clip", "photographs")
                raise DeixisError(f"{self.name} describes {wanted}, but {given} was given. Choose another --model.")
            for part, width in (("grid", config.grid), ("image_vector", config.image_features)):
                if width and getattr(one, part) is None:
                    what = part.replace("_", " ")
                    raise DeixisError(f"{self.name} needs regions with {what}. Use features that have it.")

    def decode(self, regions: Sequence[Regions], width: int | None = None) -> list[list[Candidate]]:
        """Return the candidates of each image, best score first; ``width`` overrides the beam of the configuration."""
        self._require(regions)
        generation = replace(self.generation, beam=width or self.generation.beam)
        found = beam_search(self.calls, self.calls.encode(pad_arrays(regions)), generation)
        return self._candidates(found, regions)

    def force_decode(
        self, regions: Sequence[Regions], sentences: Sequence[Sequence[Sequence[str]]]
    ) -> list[list[Candidate]]:
        """Return given sentences of each image as candidates: their log-probability and attention trace."""
        self._require(regions)
        rows = [[self.vocabulary.encode(words) for words in each] for each in sentences]
        longest = self.generation.max_words  # a sentence of this length has no end token
        rows = [[ids[:-1] if len(ids) - 2 >= longest else ids for ids in each] for each in rows]
        encoded = self.calls.encode(pad_arrays(regions))
        found = force_decode(self.calls, encoded, pad_ids(rows, Vocabulary.pad), self.generation)
        return self._candidates(found, regions, sentences)

    def _candidates(
        self,
        found: Sentences,
        regions: Sequence[Regions],
        given: Sequence[Sequence[Sequence[str]]] | None = None,
    ) -> list[list[Candidate]]:
        lengths = np.maximum((found.words != Vocabulary.pad).sum(-1), 1)
        sums = found.scores
        scores = sums / lengths**self.generation.length_power  # [I, S]
        candidates = []
        for i, one in enumerate(regions):
            each = []
            # a beam can be wider than the number of sentences that the rules allow
            existing = max(1, int((sums[i] > -np.inf).sum()))
            for s in range(existing if given is None else len(given[i])):
                ids = found.words[i, s].tolist()
                words = tuple(given[i][s]) if given is not None else self.vocabulary.decode(ids)
                trace = AttentionTrace(
                    found.attention[i, s, : len(words), :, : len(one)],
                    found.branch_mask[i, s, : len(words)],
                    one.boxes,
                    one.size,
                    one.frames,
                )
                each.append(Candidate(words, float(sums[i, s]), float(scores[i, s]), trace))
            candidates.append(each)
        return candidates

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and vocabulary; ``extras`` are further files of text (recipe, card, metrics)."""
        config = {
            "kind": "captioner",
            "name": self.name,
            "decoder": asdict(self.network.config),
            "generation": asdict(self.generation),
            "extractor": self.extractor.to_json(),
        }
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        OodDetector.save_or_remove(self.ood, path)
        BlankRegions.save_or_remove(self.blank, path)
        write_model(path, config, self.network, self.vocabulary, extras)

    @classmethod
    def from_pretrained(cls, folder: str | Path, backend: Backend = "numpy") -> Captioner:
        """Read what :meth:`save_pretrained` wrote; decoders with temporal features always run in torch."""
        with open_model(folder, "captioner") as config:
            sizes = from_dict(DecoderConfig, config["decoder"], BOUNDS)
            captioner = cls(
                _load(sizes, folder, backend),
                load_vocabulary(folder, sizes.vocabulary),
                config["extractor"],
                str(config["name"]),
                GenerationConfig.from_json(config.get("generation") or config["style"]),
            )
            captioner.hash = folder_hash(folder)
        captioner.ood = OodDetector.load(Path(folder), sizes.features)
        captioner.blank = BlankRegions.load(Path(folder), captioner.extractor.name, sizes.features)
        return captioner


def _load(sizes: DecoderConfig, folder: str | Path, backend: Backend) -> Decoder | ArrayDecoder:
    if backend == "numpy" and not sizes.temporal:  # temporal features are read in torch only
        ignored = ("energy", "key.bias") if sizes.heads else ()  # version 0.1 had them, without effect
        return ArrayDecoder(sizes, load_arrays(folder, weight_shapes(sizes), ignored=ignored))
    require_torch(f"{folder} (a decoder with temporal features)" if backend == "numpy" else "--device")
    from deixis.methods.updown.network import Decoder

    return load_network(Decoder, sizes, folder)
