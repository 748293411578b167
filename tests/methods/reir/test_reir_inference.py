"""The ReIR network on NumPy arrays finds what the network of torch finds, for all variants."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from deixis import Regions
from deixis.language.descriptions import Description
from deixis.language.relations import Relation
from deixis.language.vocabulary import Vocabulary
from deixis.layers.text_vectors import WIDTH
from deixis.methods.reir import inference, names, phrases
from deixis.methods.reir.config import ReirConfig
from deixis.methods.reir.inference import ArrayReir, Options, TorchReir, weight_shapes
from deixis.methods.reir.network import ReirNet
from deixis.types import Labels

WORDS = ("a", "man", "in", "red", "hat", "rides", "brown", "horse")
VOCABULARY = Vocabulary.build([WORDS], minimum=1)
CONFIG = ReirConfig(
    vocabulary=len(VOCABULARY), features=6, words=5, width=8, hidden=7, regress_hidden=4, keep=3, names="none"
)
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"names": "multiply"},
    "no names": {},
    "added names, all classes": {"names": "add", "top_names": 0},
    "prior of names": {"names": "prior", "min_similarity": 0.2},
    "votes of a detector": {"place": "vote", "detector": True},
    "stages apart, uniform graph": {"share_stages": False, "graph": "uniform", "regress": "region"},
    "no graph, no regression": {"graph": "none", "regress": "none", "similarity": "product"},
    "linear": {"similarity": "linear", "names": "multiply"},
    "one stage": {"two_stages": False, "graph": "none"},
    "phrases alone, whitened": {"context": False, "whiten": 4},
    "pooled from the grid": {"repool": True},
}


@pytest.fixture(autouse=True)
def vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text vectors without the text encoder, by a hash of the text; most similarities are positive."""

    def made(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = [np.random.default_rng(zlib.crc32(text.encode())).normal(0.06, 0.05, WIDTH) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, WIDTH)

    for module in (inference, names, phrases):
        if hasattr(module, "text_vectors"):
            monkeypatch.setattr(module, "text_vectors", made)
    names._table.cache_clear()


def photo(seed: int, count: int, grid: bool = False) -> Regions:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.5, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.1, 0.5, (count, 2))], 1) * [120, 80, 120, 80]
    labels = Labels(
        rng.integers(0, 4, (count, 2)), np.sort(rng.uniform(0, 1, (count, 2)))[:, ::-1].astype(np.float16), WORDS[1:5]
    )
    return Regions(
        boxes.astype(np.float32),
        rng.normal(size=(count, 6)).astype(np.float16),
        (120, 80),
        scores=rng.uniform(0, 1, count).astype(np.float32),
        labels=labels,
        grid=rng.normal(size=(4, 5, 6)).astype(np.float16) if grid else None,
    )


SENTENCE = Description(WORDS, ((0, 2), (3, 5), (6, 8)), (Relation(0, "in", 1), Relation(0, "ride", 2)))
ALONE = Description(("a", "horse"), ((0, 2),))


def both(**changes: Any) -> tuple[ArrayReir, TorchReir]:
    torch.manual_seed(1)
    network = ReirNet(replace(CONFIG, **changes)).eval()
    for name, value in network.named_parameters():
        if "offset" in name:  # zero before training
            torch.nn.init.normal_(value, std=0.5)
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    assert {name: tuple(value.shape) for name, value in weights.items()} == weight_shapes(network.config)
    return ArrayReir(network.config, weights), TorchReir(network)


@pytest.mark.parametrize("name", VARIANTS)
def test_boxes_and_evidence_are_those_of_torch(name: str) -> None:
    arrays, tensors = both(**VARIANTS[name])
    grid = name == "pooled from the grid"
    options = Options(VOCABULARY, {"version": 1}, repool=grid)
    asked = [photo(0, 7, grid), photo(1, 5, grid)], [[SENTENCE, ALONE], [ALONE]], options
    found, expected = arrays.find(*asked), tensors.find(*asked)
    assert [len(one) for one in found] == [len(one) for one in expected] == [4, 1]
    moved = 0
    for one, other in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        assert one.box == pytest.approx(other.box, abs=1e-3)
        assert one.proposal == pytest.approx(other.proposal, abs=1e-4)
        assert one.evidence == pytest.approx(other.evidence, rel=1e-4, abs=1e-6)
        np.testing.assert_allclose(one.attention, other.attention, rtol=1e-4, atol=1e-6)
        moved += one.box != one.proposal
    assert (moved > 0) == (arrays.config.regress != "none")


def test_the_place_of_a_call_has_precedence() -> None:
    arrays, tensors = both()
    asked = [photo(3, 9)], [[SENTENCE]]
    attended = arrays.find(*asked, Options(VOCABULARY, {"version": 1}))[0]
    voted = arrays.find(*asked, Options(VOCABULARY, {"version": 1}, place="vote"))[0]
    expected = tensors.find(*asked, Options(VOCABULARY, {"version": 1}, place="vote"))[0]
    assert [one.box for one in voted] != [one.box for one in attended]
    for one, other in zip(voted, expected, strict=True):
        assert one.box == pytest.approx(other.box, abs=1e-3)


def test_without_phrases_nothing_is_found() -> None:
    arrays, _ = both()
    assert arrays.find([photo(0, 3)], [[Description(("a",), ())]], Options(VOCABULARY, {"version": 1})) == [[]]
