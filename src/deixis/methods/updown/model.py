"""The grounded captioner: regions in, sentences with an attention trace out; save and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

import torch

from deixis.device import CPU, device_of, to_device
from deixis.errors import DeixisError
from deixis.fields import from_dict
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_ragged, pad_regions
from deixis.methods.updown.decode import GenerationConfig, Sentences, beam_search, force_decode, greedy
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.model_folder import folder_hash, load_network, load_vocabulary, open_model, write_model
from deixis.types import AttentionTrace, Candidate, Json, Regions
from deixis.vision.blank import BlankRegions
from deixis.vision.extractor import RegionExtractor
from deixis.vision.ood import OodDetector

BOUNDS = {"branches": (1, 64), "heads": (0, 256), "dropout": (0, 1)}
"""Bounds of a stored configuration; the other sizes are compared with the stored weights."""


class Captioner:
    """A decoder with its vocabulary, and the extractor whose regions it was trained on.

    ``ood`` and ``blank`` are statistics of the training photographs and of blank images, for the checks of a caption.
    """

    def __init__(
        self,
        network: Decoder,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        generation: GenerationConfig | None = None,
        ood: OodDetector | None = None,
        blank: BlankRegions | None = None,
    ) -> None:
        self.network, self.vocabulary, self.name, self.hash = network.eval(), vocabulary, name, ""
        side = network.config.grid_side
        self.extractor = RegionExtractor(extractor["description"], side, name=extractor["name"])
        self.generation = generation or GenerationConfig()
        self.ood, self.blank = ood, blank

    def to(self, device: torch.device) -> Self:
        """Move the weights and the extractor; results are returned on the CPU."""
        self.network.to(device)
        self.extractor.to(device)
        return self

    @property
    def describes_clips(self) -> bool:
        """Whether it was trained on the frames of clips, and not on photographs."""
        return self.network.config.frames > 0

    def _require(self, regions: Sequence[Regions]) -> None:
        """Raise an error if regions are of another extractor, or of a photograph where clips are expected."""
        for one in regions:
            self.extractor.require(one)
            if self.describes_clips != (one.frames is not None):
                given, wanted = ("a photograph", "clips") if self.describes_clips else ("a clip", "photographs")
                raise DeixisError(f"{self.name} describes {wanted}, but {given} was given. Choose another --model.")

    @torch.no_grad()
    def decode(self, regions: Sequence[Regions], width: int | None = None) -> list[list[Candidate]]:
        """Return the candidates of each image, best score first; ``width`` overrides the beam of the configuration."""
        self._require(regions)
        generation = replace(self.generation, beam=width or self.generation.beam)
        encoded = self.network.encode_regions(to_device(pad_regions(regions), device_of(self.network)))
        decode = greedy if generation.beam == 1 else beam_search
        found = decode(self.network, encoded, generation)
        return self._candidates(to_device(found, CPU), regions)

    @torch.no_grad()
    def force_decode(
        self, regions: Sequence[Regions], sentences: Sequence[Sequence[Sequence[str]]]
    ) -> list[list[Candidate]]:
        """Return given sentences of each image as candidates: their log-probability and attention trace."""
        self._require(regions)
        device = device_of(self.network)
        rows = [[self._encode(words) for words in each] for each in sentences]
        ids = pad_ragged(rows, Vocabulary.pad).to(device)
        encoded = self.network.encode_regions(to_device(pad_regions(regions), device))
        found = to_device(force_decode(self.network, encoded, ids, self.generation), CPU)
        return self._candidates(found, regions, sentences)

    def _encode(self, words: Sequence[str]) -> Sequence[int]:
        """Return word ids with bos and eos; a sentence of the greatest length is cut before its end token."""
        ids = self.vocabulary.encode(words)
        return ids[:-1] if len(words) >= self.generation.max_words else ids

    def _candidates(
        self,
        found: Sentences,
        regions: Sequence[Regions],
        given: Sequence[Sequence[Sequence[str]]] | None = None,
    ) -> list[list[Candidate]]:
        lengths = (found.words != Vocabulary.pad).sum(-1).clamp_min(1)
        scores = found.scores / lengths**self.generation.length_power  # [I, S]
        candidates = []
        for i, one in enumerate(regions):
            each = []
            for s in range(found.words.shape[1] if given is None else len(given[i])):
                ids = found.words[i, s].tolist()
                words = tuple(given[i][s]) if given is not None else self.vocabulary.decode(ids)
                trace = AttentionTrace(
                    found.attention[i, s, : len(words), :, : len(one)].numpy(),
                    found.branch_mask[i, s, : len(words)].numpy(),
                    one.boxes,
                    one.size,
                    one.frames,
                )
                each.append(Candidate(words, float(found.scores[i, s]), float(scores[i, s]), trace))
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
    def from_pretrained(cls, folder: str | Path) -> Captioner:
        """Read what :meth:`save_pretrained` wrote."""
        with open_model(folder, "captioner") as config:
            sizes = from_dict(DecoderConfig, config["decoder"], BOUNDS)
            captioner = cls(
                load_network(Decoder, sizes, folder),
                load_vocabulary(folder, sizes.vocabulary),
                config["extractor"],
                str(config["name"]),
                GenerationConfig.from_json(config.get("generation") or config["style"]),
            )
            captioner.hash = folder_hash(folder)
        captioner.ood = OodDetector.load(Path(folder), sizes.features)
        captioner.blank = BlankRegions.load(Path(folder), captioner.extractor.name, sizes.features)
        return captioner
