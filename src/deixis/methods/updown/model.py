"""The captioner: regions in, a sentence out in which every noun has its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Self, overload

import numpy as np
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.device import CPU, device_of, to_device
from deixis.language.parse import parse_words
from deixis.language.sentence import echoes, sentence
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_ragged, pad_regions
from deixis.localize.votes import chosen
from deixis.methods.updown.decode import Rules, Sentences, beam, forbid, greedy, mean_logprobs, reordered, voters
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.model_folder import FAMILIAR, read_model, write_model
from deixis.pipelines.looks import Looks
from deixis.pipelines.second_look import SecondLook
from deixis.types import GroundedCaption, Grounding, Json, Place, Regions
from deixis.vision.eyes import Eyes, Photo, open_photo
from deixis.vision.ood import Familiar

Judge = Callable[[Regions, Sequence[str]], Sequence[float]]
"""What speaks for each of several sentences about an image, in nats."""

WORST = 1e4
"""Nats that no sentence can make up for."""


@dataclass(frozen=True)
class Style:
    """How sentences are made."""

    beam: int = 1
    judged: int = 0  # the beam where a judge reads its sentences; 0: the same
    length_power: float = 0.0  # of a sentence's length, that its log-probability is divided by when a beam ends
    echoes: bool = True  # a beam's best sentence is taken even if it says a word twice and another does not
    max_words: int = 20
    min_words: int = 0
    repeats: bool = False  # whether a word may follow itself at once
    branches: int | None = None  # how many of the decoder's branches speak; None: all
    place: Place = "best"  # the box of a word: the branches' best regions merged, or the one that all regions vote for

    def rules(self) -> Rules:
        """The same as the decoder's rules; the unknown word is never said."""
        v = Vocabulary
        return Rules(v.bos, v.eos, v.pad, (v.pad, v.bos, v.unk), self.max_words, self.min_words, self.repeats)


class Captioner:
    """A decoder with its vocabulary, and the extractor whose regions it understands."""

    def __init__(
        self, decoder: Decoder, vocabulary: Vocabulary, extractor: Json, name: str, style: Style | None = None
    ) -> None:
        self.decoder, self.vocabulary = decoder.eval(), vocabulary
        self.eyes, self.name, self.style = Eyes(extractor), name, style or Style()
        self.judge: Judge | None = None  # who has a say in which sentence of a beam is taken
        self.familiar: Familiar | None = None  # what the photographs were like that it learnt from

    def to(self, device: torch.device) -> Self:
        """Move the weights, and those of its eyes; answers come back to the CPU wherever they are."""
        self.decoder.to(device)
        self.eyes.to(device)
        return self

    @overload
    def caption(self, photo: Photo) -> GroundedCaption: ...

    @overload
    def caption(self, photo: list[Photo]) -> list[GroundedCaption]: ...

    def caption(self, photo: Photo | list[Photo]) -> GroundedCaption | list[GroundedCaption]:
        """The grounded caption of a photograph (path or image) or of its regions; a list of them for a list.

        A sentence about what is plainly not in the photograph gives way to a plainer one
        (:mod:`deixis.pipelines.second_look`); regions alone leave no photograph to look at again.
        """
        if not isinstance(photo, list):
            return self.caption([photo])[0]
        regions = [self.eyes.look(one) for one in photo]
        names = [str(one) if isinstance(one, str | Path) else "" for one in photo]
        second = SecondLook(self.eyes)
        said = zip(photo, regions, self.looks(regions, names), strict=True)
        return [
            caption if isinstance(one, Regions) else second.at(caption, looks, seen, partial(open_photo, one)).caption
            for one, seen, (caption, looks) in said
        ]

    def captions(
        self, regions: Sequence[Regions], images: Sequence[str] | None = None, batch: int = 64
    ) -> Iterator[GroundedCaption]:
        """Captions of many images, in their order, ``batch`` at a time; ``images`` are their names."""
        return (caption for caption, _ in self.looks(regions, images, batch))

    def looks(
        self, regions: Sequence[Regions], images: Sequence[str] | None = None, batch: int = 64
    ) -> Iterator[tuple[GroundedCaption, Looks]]:
        """:meth:`captions`, each with where the branches looked at its words."""
        images = images or [""] * len(regions)
        for start in range(0, len(regions), batch):
            some = [self.eyes.look(one) for one in regions[start : start + batch]]
            sentences = self._sentences(some)
            words = [self.vocabulary.decode(row.tolist()) for row in sentences.words[:, 0]]
            nouns = [parse.nouns for parse in parse_words(words, quiet=True)]
            for i, one in enumerate(some):
                caption = GroundedCaption(
                    words=words[i],
                    groundings=tuple(
                        self._ground(sentences, i, t, word, one)
                        for t, (word, noun) in enumerate(zip(words[i], nouns[i], strict=True))
                        if noun
                    ),
                    logprob=float(sentences.scores[i, 0]),
                    image=images[start + i],
                    width=one.size[0],
                    height=one.size[1],
                    model=self.name,
                    caption=sentence(words[i]),
                )
                said = slice(len(words[i]))
                attention, voted = sentences.attention[i, 0, said, :, : len(one)], sentences.voted[i, 0, said]
                yield caption, Looks(attention.numpy(), voted.numpy())

    @torch.no_grad()
    def readings(
        self, regions: Sequence[Regions], sentences: Sequence[Sequence[Sequence[str]]], batch: int = 16
    ) -> Iterator[list[tuple[Grounding, ...]]]:
        """Where it looks when it is made to say given sentences of each image: for each, a grounding of every word.

        A word's place is that of the branches that would have said it, as in its own captions.
        """
        for start in range(0, len(regions), batch):
            some = [self.eyes.look(one) for one in regions[start : start + batch]]
            given = sentences[start : start + batch]
            device = device_of(self.decoder)
            rows = [[self.vocabulary.encode(words) for words in each] for each in given]
            ids = pad_ragged(rows, Vocabulary.pad).to(device)
            encoded = self.decoder.encode_regions(to_device(pad_regions(some), device))
            decoded = self.decoder(encoded, ids[..., :-1], self.style.branches)
            logprobs = self.decoder.speak(decoded.states)
            for t in range(logprobs.shape[2]):  # what it would have said is said under its rules
                forbid(logprobs[:, :, t], ids[..., t], t, self.style.rules())
            said = mean_logprobs(logprobs).gather(-1, ids[..., 1:, None]).squeeze(-1)
            spoken = Sentences(ids[..., 1:], said, decoded.attention, voters(logprobs, ids[..., 1:]))
            spoken = to_device(spoken, CPU)
            for i, one in enumerate(some):
                yield [
                    tuple(self._ground(spoken, i, t, word, one, c) for t, word in enumerate(words))
                    for c, words in enumerate(given[i])
                ]

    def _ground(
        self, sentences: Sentences, image: int, step: int, word: str, regions: Regions, sentence: int = 0
    ) -> Grounding:
        return ground_word(sentences, image, step, word, regions, sentence, self.style.place, self.eyes.detector)

    @torch.no_grad()
    def _sentences(self, regions: Sequence[Regions]) -> Sentences:
        encoded = self.decoder.encode_regions(to_device(pad_regions(regions), device_of(self.decoder)))
        width = self.style.beam if self.judge is None else self.style.judged or self.style.beam
        if width == 1:
            return to_device(greedy(self.decoder, encoded, self.style.rules(), self.style.branches), CPU)
        said = to_device(beam(self.decoder, encoded, self.style.rules(), width, self.style.length_power), CPU)
        return reordered(said, self._order(said, regions))

    def _order(self, said: Sentences, regions: Sequence[Regions]) -> Tensor:
        """Which sentence of a beam comes first for each image, which next ``[I, S]``.

        Those that say a word twice come last where that is wanted, and the judge's nats count.
        """
        length = (said.words != Vocabulary.pad).sum(-1).clamp_min(1)
        worth = said.scores / length**self.style.length_power
        words = [[self.vocabulary.decode(one) for one in each] for each in said.words.tolist()]
        if self.judge is not None:
            texts = [[" ".join(one) for one in each] for each in words]
            worth = worth + torch.tensor([self.judge(*pair) for pair in zip(regions, texts, strict=True)])
        if not self.style.echoes:
            worth = worth - WORST * torch.tensor([[echoes(one) for one in each] for each in words]).float()
        return worth.argsort(dim=1, descending=True, stable=True)

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and vocabulary; ``extras`` are further files of text (recipe, card, metrics)."""
        config = {
            "kind": "captioner",
            "name": self.name,
            "decoder": asdict(self.decoder.config),
            "style": asdict(self.style),
            "extractor": self.eyes.to_json(),
        }
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / FAMILIAR).unlink(missing_ok=True)  # of another model
        if self.familiar is not None:
            self.familiar.save(path)
        write_model(path, config, self.decoder, self.vocabulary, extras)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Captioner:
        """Read what :meth:`save_pretrained` wrote."""

        def build(config: Json) -> tuple[Decoder, Captioner]:
            decoder = Decoder(DecoderConfig(**config["decoder"]))
            vocabulary = Vocabulary.load(Path(folder) / "vocabulary.json")
            style = Style(**config["style"])
            return decoder, cls(decoder, vocabulary, config["extractor"], str(config["name"]), style)

        captioner = read_model(folder, "captioner", build)
        captioner.familiar = Familiar.load(Path(folder), captioner.decoder.config.features)
        return captioner


def ground_word(
    sentences: Sentences,
    image: int,
    step: int,
    word: str,
    regions: Regions,
    sentence: int = 0,
    place: Place = "best",
    detector: bool = False,
) -> Grounding:
    """The place of the word that was said at a step, by the branches that voted for it.

    Their best boxes are its parts, and merged into one they are its box; or its box is the region that all regions vote
    for by the attention of these branches. The score is the mean attention that they gave to their best boxes.
    """
    voted = sentences.voted[image, sentence, step]  # [K]
    attention = sentences.attention[image, sentence, step][voted]  # [voters, N]
    weight, region = attention.max(-1)
    boxes = regions.boxes[np.unique(region.numpy())]
    parts = tuple(geometry.as_box(box) for box in boxes) if len(boxes) > 1 else ()
    if place == "vote":
        whole = regions.boxes[chosen(regions, attention.mean(0)[: len(regions)].numpy(), place, detector)]
    else:
        whole = geometry.union(boxes)
    return Grounding(word, geometry.as_box(whole), float(weight.mean()), step, step + 1, parts)
