"""A finder as the judge of a beam: what it says for each sentence, and which sentence is then taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from deixis.pipelines.load import load_finder
from PIL import Image

from deixis.calibration import Calibration
from deixis.language.vocabulary import Vocabulary
from deixis.methods.albef.model import AlbefGrounder, Presence
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.pipelines.rerank import COSINE, DIM, LEAST, PAIR, assist, by_phrases, judge_of, read
from deixis.types import Regions
from deixis.vision.extractor import named_extractor

VOCABULARY = Vocabulary.build([["a", "man", "dog", "red", "bike", "in", "front", "of", "the", "house", "runs"]] * 5, 1)
EYES = named_extractor("tiny", "grid")
EXTRACTOR = EYES.to_json()
REGIONS = Regions(np.array([[0.0, 0, 9, 9]]), np.zeros((1, 16)), (9, 9), extractor=EYES.name)


class Fake:
    """Finds as much of a text as is written down, and remembers what it was asked."""

    def __init__(self, evidence: dict[str, float]) -> None:
        self.found, self.asked = evidence, [""]

    def evidence(self, _: Regions, texts: Sequence[str]) -> list[float]:
        self.asked = list(texts)
        return [self.found[text] for text in texts]


def test_a_sentence_is_worth_its_whole_and_its_most_doubtful_phrase() -> None:
    sentences = ["a man in front of a house", "a dog runs"]
    finder = Fake({sentences[0]: 0.7, sentences[1]: 0.5, "a man": 2.0, "a house": -1.0, "a dog": 1.0})
    presence = Presence(Calibration(1.0, 0.0), Calibration(9.0, 9.0))  # the curve of phrases is the logistic function
    worth = by_phrases(finder, presence, REGIONS, sentences)  # type: ignore[arg-type]
    house, dog = -math.log(1 + math.e), -math.log(1 + math.exp(-1))
    assert worth == pytest.approx([PAIR * 0.7 + LEAST * house, PAIR * 0.5 + LEAST * dog])
    assert finder.asked == [*sentences, "a man", "a house", "a dog"]  # "front" is no thing, and all in one go


def test_a_sentence_that_names_nothing_finds_nothing() -> None:
    finder = Fake({"in front of": 0.5})
    presence = Presence(Calibration(1.0, 0.0), Calibration(1.0, 0.0))
    ((whole, least),) = read(finder, presence, REGIONS, ["in front of"])  # type: ignore[arg-type]
    assert (whole, least) == (0.5, pytest.approx(math.log(DIM)))


def captioner() -> Captioner:
    torch.manual_seed(0)
    decoder = Decoder(DecoderConfig(len(VOCABULARY), 16, words=8, hidden=12, attention=8))
    return Captioner(
        decoder, VOCABULARY, EXTRACTOR, "test", GenerationConfig(beam=3, rerank_beam=5, max_words=6, length_power=0.7)
    )


def photo() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8))


def test_the_judge_reads_the_wider_beam_and_its_nats_count() -> None:
    speaker = captioner()
    regions = [speaker.eyes.look(photo())]
    speaker.generation = replace(speaker.generation, beam=5)
    offered = speaker._sentences(regions)
    texts = [" ".join(VOCABULARY.decode(row)) for row in offered.words[0].tolist()]
    speaker.generation = replace(speaker.generation, beam=3)
    asked: list[tuple[Regions, list[str]]] = []

    def judge(seen: Regions, sentences: Sequence[str]) -> list[float]:
        asked.append((seen, list(sentences)))
        return [5.0 if text == texts[3] else 0.0 for text in sentences]

    assert " ".join(next(speaker.captions(regions)).words) in texts[:3]
    speaker.judge = judge
    taken = next(speaker.captions(regions))
    assert len(asked) == 1
    assert asked[0][0] is regions[0]
    assert sorted(asked[0][1]) == sorted(texts)
    assert " ".join(taken.words) == texts[3]
    assert taken.logprob == pytest.approx(float(offered.scores[0, 3]))
    speaker.judge = lambda _, sentences: [0.0] * len(sentences)
    assert " ".join(next(speaker.captions(regions)).words) == texts[0]


def test_a_judge_is_asked_only_where_there_is_a_choice() -> None:
    speaker = captioner()
    speaker.generation = replace(speaker.generation, beam=1, rerank_beam=0)
    speaker.judge = lambda *_: pytest.fail("there is one sentence")
    next(speaker.captions([speaker.eyes.look(photo())]))


@pytest.mark.parametrize("aggregation", ["mean", "logsumexp"])
def test_a_matcher_judges_by_its_cosines(aggregation: str) -> None:
    torch.manual_seed(0)
    config = ScanConfig(len(VOCABULARY), 16, words=8, embed=12, aggregation=aggregation)  # type: ignore[arg-type]
    finder, speaker = ScanGrounder(ScanNet(config), VOCABULARY, EXTRACTOR, "matcher"), captioner()
    assist(speaker, finder)
    assert speaker.eyes is finder.eyes
    if aggregation != "mean":
        assert speaker.judge is None
        return
    assert speaker.judge is not None
    regions, sentences = speaker.eyes.look(photo()), ["a man runs", "a red bike"]
    expected = [COSINE * finder.score(regions, one) for one in sentences]
    assert speaker.judge(regions, sentences) == pytest.approx(expected, abs=1e-6)


def test_a_finder_with_other_eyes_helps_nobody() -> None:
    speaker, finder = captioner(), load_finder(device="cpu")
    before = speaker.eyes
    assist(speaker, finder)
    assist(speaker, None)
    assert (speaker.eyes, speaker.judge) == (before, None)


def test_a_fusion_model_judges_if_it_was_calibrated() -> None:
    finder = load_finder(device="cpu")
    assert isinstance(finder, AlbefGrounder)
    judge = judge_of(finder)
    assert judge is not None
    assert finder.eyes is not None
    regions, sentences = finder.eyes.look(photo()), ["a man runs", "a red bike"]
    assert finder.presence is not None
    assert judge(regions, sentences) == pytest.approx(by_phrases(finder, finder.presence, regions, sentences))
    finder.presence = None
    assert judge_of(finder) is None
