"""The matcher on NumPy arrays gives what the network of torch gives, for all variants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.language.parse import parse
from deixis.language.queries import phrase_queries
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padded import RegionArrays
from deixis.methods.scan import inference
from deixis.methods.scan.config import ScanConfig
from deixis.methods.scan.inference import ArrayScan, Sentences, TorchScan, weight_shapes
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanNet
from deixis.model_folder import pack_model
from deixis.pipelines.photo import Photo
from small_models import noise, small_matcher

CONFIG = ScanConfig(vocabulary=20, features=6, words=5, embed=7, sharpness=3.0)
VARIANTS = [
    {},
    {"leak": 0.1, "rivals": "counted", "count": "nouns"},
    {"aggregation": "logsumexp"},
    {"aggregation": "max"},
    {"aggregation": "sum"},
    {"direction": "image-to-text", "temperature": 4.0},
    {"direction": "image-to-text", "aggregation": "logsumexp", "leak": 0.1},
    {"direction": "image-to-text", "aggregation": "max"},
]


def regions() -> RegionArrays:
    """Return the regions of two images; one has fewer, and one of its regions is not in use."""
    random = np.random.default_rng(0)
    mask = np.ones((2, 4), bool)
    mask[1, 3] = mask[1, 1] = False
    features = random.normal(size=(2, 4, 6)).astype(np.float32)
    return RegionArrays(features, mask, np.zeros((2, 4, 4), np.float32), None)


def sentences() -> Sentences:
    """Return sentences of different lengths, two of them equal, and one without counted words."""
    random = np.random.default_rng(1)
    ids = [(1, *random.integers(4, 20, length).tolist(), 2) for length in (3, 6, 1, 3)]
    ids.append(ids[1])
    counts = [tuple(bool(number % 3) for number in range(len(one))) for one in ids]
    counts[2] = (False,) * len(ids[2])
    return Sentences(ids, counts)


def both(**changes: object) -> tuple[ArrayScan, TorchScan]:
    torch.manual_seed(0)
    network = ScanNet(replace(CONFIG, **changes)).eval()  # type: ignore[arg-type]
    torch.nn.init.normal_(network.embed.weight)
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    assert {name: value.shape for name, value in weights.items()} == weight_shapes(network.config)
    return ArrayScan(network.config, weights), TorchScan(network)


@pytest.mark.parametrize("changes", VARIANTS)
def test_scores_attention_and_relevance_are_those_of_torch(changes: dict[str, object]) -> None:
    arrays, tensors = both(**changes)
    sizes = [4, 3]
    ours, theirs = (calls.encode(regions(), sizes) for calls in (arrays, tensors))
    words, padded = (calls.read(sentences()) for calls in (arrays, tensors))
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(arrays.scores(own, words), tensors.scores(other, padded), rtol=1e-5, atol=1e-6)
        for found, expected in zip(arrays.align(own, words), tensors.align(other, padded), strict=True):
            assert [each.shape for each in found] == [each.shape for each in expected]
            for one, two in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("changes", VARIANTS)
def test_blocks_of_sentences_change_no_score(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, _ = both(**changes)
    image, words = arrays.encode(regions(), [4, 3])[0], arrays.read(sentences())
    whole = arrays.scores(image, words)
    assert len(words.blocks(4)) == 1
    monkeypatch.setattr(inference, "BLOCK", 1)
    assert len(words.blocks(4)) == 5
    np.testing.assert_allclose(arrays.scores(image, words), whole, rtol=1e-5)


def test_sentences_are_kept_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, _ = both()
    first = arrays.read(sentences())
    calls = []
    states = arrays._states
    monkeypatch.setattr(arrays, "_states", lambda ids: calls.append(ids) or states(ids))
    np.testing.assert_array_equal(arrays.read(sentences()).vectors, first.vectors)
    assert calls == []
    monkeypatch.setattr(inference, "KEPT", 50)
    arrays.read(Sentences([(1, 5, 2)], [(True,) * 3]))
    assert [len(each) for each in calls] == [1]
    assert arrays._size == sum(vectors.size for vectors in arrays._kept.values()) <= 50
    np.testing.assert_allclose(arrays.read(sentences()).vectors, first.vectors, rtol=1e-5, atol=1e-6)


def test_a_sentence_that_is_forgotten_for_another_of_the_same_call_is_still_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays, _ = both()
    first, second = (1, 5, 6, 2), (1, 7, 8, 9, 2)
    expected = arrays.read(Sentences([second, first], [(True,) * 5, (True,) * 4])).vectors
    monkeypatch.setattr(inference, "KEPT", 40)  # one of the two
    arrays, _ = both()  # the same weights, and nothing kept
    arrays.read(Sentences([first], [(True,) * 4]))
    found = arrays.read(Sentences([second, first], [(True,) * 5, (True,) * 4])).vectors
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_is_read_without_torch(packed: bool, tmp_path: Path) -> None:
    """The same grounder from one file of weights, also from a packed one."""
    small_matcher().save_pretrained(tmp_path / "m", {"recipe.json": "{}"})
    folder = tmp_path / "m"
    if packed:
        pack_model(folder, tmp_path / "p", "p", {}, "int8")
        folder = tmp_path / "p"
    ours, theirs = (ScanGrounder.from_pretrained(folder, backend) for backend in ("numpy", "torch"))  # type: ignore[arg-type]
    assert (ours.calls.backend, theirs.calls.backend) == ("numpy", "torch")
    found, expected = (
        one.ground(Photo(noise()).encoded(one), phrase_queries(["a red ball", "the dog"])) for one in (ours, theirs)
    )
    for one, two in zip(found, expected, strict=True):
        assert one.box == two.box
        assert one.score == pytest.approx(two.score, rel=1e-5)
    photo = Photo(noise())
    texts = ["a dog runs", "and a red ball"]
    own, other = (one.scores([photo.regions(one.extractor)], texts) for one in (ours, theirs))
    np.testing.assert_allclose(own, other, rtol=1e-5)
    assert ours.sentences(parse(texts)).ids[0][0] == Vocabulary.bos
