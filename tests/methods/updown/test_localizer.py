"""Accuracy of the localizer against the decoder: the same formula as in training, kept in the model folder, scored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis import cli
from deixis.data.scenes import make_scenes
from deixis.errors import DeixisError
from deixis.methods.updown.localizer import FILE, LocalizedCaptioner, save_localizer
from deixis.methods.updown.losses.cycle import CycleConfig, Localizer
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.methods.updown.recipes import UPDOWN_RECIPES
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, StoreWriter
from small_models import FEATURES, VOCABULARY, noise, small_captioner

SIZES = {"model.words": 8, "model.hidden": 12, "model.attention": 6, "model.location": 4, "model.fc7": 6}
SIZES |= {"min-count": 1, "phases.0.epochs": 1, "phases.1.epochs": 1, "batch-images": 5, "max-words": 8}
SMALL = ["--device", "cpu", *(part for name, value in SIZES.items() for part in (f"--{name}", str(value)))]


@pytest.mark.parametrize("kind", ["linear", "mlp", "state", "word+state"])
def test_the_attention_is_that_of_the_formula(tmp_path: Path, kind: str) -> None:
    """beta = softmax(W_l W_e y . W_va v'), with the words of the sentence; computed again in NumPy."""
    torch.manual_seed(0)
    config = DecoderConfig(len(VOCABULARY), FEATURES, words=5, hidden=7, attention=4, dropout=0.0)
    captioner = Captioner(Decoder(config), VOCABULARY, small_captioner().extractor.to_json(), "small")
    captioner.save_pretrained(tmp_path)
    assert LocalizedCaptioner.from_pretrained(tmp_path) is None
    localizer = Localizer(captioner.network, CycleConfig(localizer=kind))
    save_localizer(localizer, tmp_path)
    localized = LocalizedCaptioner.from_pretrained(tmp_path)
    assert localized is not None
    regions, words = captioner.extractor.extract(noise()), ("a", "dog", "runs")
    ((found,),) = localized.force_decode([regions], [[words]])
    assert found.trace.attention.shape == (3, 1, len(regions))
    np.testing.assert_allclose(found.trace.attention.sum(-1), 1, rtol=1e-5)
    if kind == "linear":
        w = {name: part.numpy() for name, part in captioner.network.state_dict().items()}
        features = np.asarray(regions.features, np.float32)
        v = np.maximum(features @ w["embed_regions.weight"].T + w["embed_regions.bias"], 0)
        keys = v @ w["key.weight"].T + w["key.bias"]
        query = localizer.query.weight.detach().numpy(), localizer.query.bias.detach().numpy()
        e = np.maximum(w["embed.weight"][[VOCABULARY.id(word) for word in words]], 0)
        energy = (e @ query[0].T + query[1]) @ keys.T
        beta = np.exp(energy - energy.max(1, keepdims=True))
        np.testing.assert_allclose(found.trace.attention[:, 0], beta / beta.sum(1, keepdims=True), rtol=1e-4)
    (tmp_path / FILE).write_bytes(b"damaged")
    with pytest.raises(DeixisError, match="is damaged"):
        LocalizedCaptioner.from_pretrained(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("without_java")
def test_eval_prints_both_accuracies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extractor = named_extractor("tiny", "grid", 12)
    store = tmp_path / "store"
    with StoreWriter(store, Contents(extractor.name, extractor.description)) as writer:
        for split, n in (("train", 10), ("val", 2), ("test", 2)):
            for sample in make_scenes(n, 0, split):
                writer.add(sample.image_id, extractor.extract(sample.open()))
    common = ["--data", "scenes:10", "--features", str(store), "--quiet"]
    assert cli.run(["train", "cyclical-small", *common, "--out", str(tmp_path / "run"), *SMALL]) == 0
    assert (tmp_path / "run" / FILE).exists()
    alone = ["--grounder", "none", "--shown", "0", "--json"]
    capsys.readouterr()
    values = {}
    for split in ("val", "test"):
        args = ["eval", str(tmp_path / "run"), *common, *alone, "--split", split, "--out", str(tmp_path / split)]
        assert cli.run(args) == 0
        scores = json.loads(capsys.readouterr().out)["scores"]
        values[split] = scores["attention_accuracy_localizer"]["value"]
        assert scores["attention_accuracy_localizer"]["signature"].endswith("|attention:localizer")
        assert "attention_accuracy" in scores
        assert 0 <= values[split] <= 1
    # a localizer that attends to one region only: the accuracy is that of this region
    localized = LocalizedCaptioner.from_pretrained(tmp_path / "run")
    assert localized is not None
    with torch.no_grad():
        for part in localized.localizer.parameters():
            part.zero_()  # even attention: the first region of all
    save_localizer(localized.localizer, tmp_path / "run")
    assert cli.run([*args, "--out", str(tmp_path / "again")]) == 0
    again = json.loads(capsys.readouterr().out)["scores"]
    assert again["attention_accuracy"]["value"] == scores["attention_accuracy"]["value"]
    assert localized.localizer.config == UPDOWN_RECIPES["cyclical-small"].cycle
