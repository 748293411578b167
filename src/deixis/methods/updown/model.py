"""The captioner: regions in, a sentence out in which every noun has its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Self, overload

import torch
from torch import Tensor

from deixis.device import CPU, device_of, to_device
from deixis.language.parse import parse_words
from deixis.language.sentence import echoes, sentence
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_ragged, pad_regions
from deixis.localize.branches import ground_word
from deixis.methods.updown.decode import GenerationConfig, Sentences, beam_search, force_decode, greedy
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.model_folder import FAMILIAR, read_model, write_model
from deixis.pipelines.looks import Looks
from deixis.pipelines.second_look import SecondLook
from deixis.types import GroundedCaption, Grounding, Json, Regions
from deixis.vision.eyes import Eyes, Photo, open_photo
from deixis.vision.ood import Familiar

Judge = Callable[[Regions, Sequence[str]], Sequence[float]]
"""What speaks for each of several sentences about an image, in nats."""

WORST = 1e4
"""Nats that no sentence can make up for."""


class Captioner:
    """A decoder with its vocabulary, and the extractor whose regions it understands."""

    def __init__(
        self,
        decoder: Decoder,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        generation: GenerationConfig | None = None,
    ) -> None:
        self.decoder, self.vocabulary = decoder.eval(), vocabulary
        self.eyes, self.name, self.generation = Eyes(extractor), name, generation or GenerationConfig()
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
                attention, mask = sentences.attention[i, 0, said, :, : len(one)], sentences.branch_mask[i, 0, said]
                yield caption, Looks(attention.numpy(), mask.numpy())

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
            spoken = to_device(force_decode(self.decoder, encoded, ids, self.generation), CPU)
            for i, one in enumerate(some):
                yield [
                    tuple(self._ground(spoken, i, t, word, one, c) for t, word in enumerate(words))
                    for c, words in enumerate(given[i])
                ]

    def _ground(
        self, sentences: Sentences, image: int, step: int, word: str, regions: Regions, sentence: int = 0
    ) -> Grounding:
        attention = sentences.attention[image, sentence, step].numpy()
        branch_mask = sentences.branch_mask[image, sentence, step].numpy()
        return ground_word(word, step, attention, branch_mask, regions, self.generation.place, self.eyes.detector)

    @torch.no_grad()
    def _sentences(self, regions: Sequence[Regions]) -> Sentences:
        encoded = self.decoder.encode_regions(to_device(pad_regions(regions), device_of(self.decoder)))
        generation = self.generation
        if self.judge is not None and generation.rerank_beam:
            generation = replace(generation, beam=generation.rerank_beam)
        if generation.beam == 1:
            return to_device(greedy(self.decoder, encoded, generation), CPU)
        said = to_device(beam_search(self.decoder, encoded, generation), CPU)
        return said.reordered(self._order(said, regions))

    def _order(self, said: Sentences, regions: Sequence[Regions]) -> Tensor:
        """Which sentence of a beam comes first for each image, which next ``[I, S]``.

        Those that say a word twice come last where that is wanted, and the judge's nats count.
        """
        length = (said.words != Vocabulary.pad).sum(-1).clamp_min(1)
        worth = said.scores / length**self.generation.length_power
        words = [[self.vocabulary.decode(one) for one in each] for each in said.words.tolist()]
        if self.judge is not None:
            texts = [[" ".join(one) for one in each] for each in words]
            worth = worth + torch.tensor([self.judge(*pair) for pair in zip(regions, texts, strict=True)])
        if not self.generation.allow_repeated_words:
            worth = worth - WORST * torch.tensor([[echoes(one) for one in each] for each in words]).float()
        return worth.argsort(dim=1, descending=True, stable=True)

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and vocabulary; ``extras`` are further files of text (recipe, card, metrics)."""
        config = {
            "kind": "captioner",
            "name": self.name,
            "decoder": asdict(self.decoder.config),
            "generation": asdict(self.generation),
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
            # version 0.1 wrote "style"
            generation = GenerationConfig.from_json(config["generation"] if "generation" in config else config["style"])
            return decoder, cls(decoder, vocabulary, config["extractor"], str(config["name"]), generation)

        captioner = read_model(folder, "captioner", build)
        captioner.familiar = Familiar.load(Path(folder), captioner.decoder.config.features)
        return captioner
