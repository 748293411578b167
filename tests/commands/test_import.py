"""``deixis import``: files with the published key names give models with the published numbers."""

from __future__ import annotations

import argparse
import json
import pickle
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.cli import run
from deixis.layers.padding import PaddedRegions
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.sample import greedy
from deixis.model_folder import read_supervision
from deixis.types import Regions
from deixis.vision.store import Contents, StoreWriter

GOLDEN = Path(__file__).parents[1] / "golden"
WIDTH = 20  # of the golden features


def golden(name: str) -> dict[str, Tensor]:
    with np.load(GOLDEN / name, allow_pickle=False) as file:
        return {key: torch.from_numpy(np.asarray(file[key])) for key in file.files}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "f.store"
    about = {
        "version": 1,
        "backbone": {"name": "bottom-up"},
        "proposals": {"name": "bottom-up", "supervision": "boxes"},
    }
    with StoreWriter(path, Contents("bottom-up-0123abcd", about)) as writer:
        features = np.ones((3, WIDTH), dtype=np.float16)
        writer.add("1", Regions(np.ones((3, 4), np.float32), features, (10, 10), extractor="bottom-up-0123abcd"))
    return path


def padded(features: Tensor) -> PaddedRegions:
    mask = torch.ones(features.shape[:2], dtype=torch.bool)
    return PaddedRegions(features, mask, torch.zeros(*mask.shape, 4), None)


# SCAN ---------------------------------------------------------------------------------------------------------------

SCAN_OPTIONS: dict[str, Any] = {  # those of the training script that matter, and some that do not
    "data_name": "f30k_precomp", "margin": 0.2, "word_dim": 12, "embed_size": 16, "num_layers": 1,
    "max_violation": True, "img_dim": WIDTH, "no_imgnorm": False, "no_txtnorm": False,
    "raw_feature_norm": "clipped_l2norm", "agg_func": "Mean", "cross_attn": "t2i", "precomp_enc_type": "basic",
    "bi_gru": True, "lambda_lse": 6.0, "lambda_softmax": 9.0, "vocab_size": 40,
}  # fmt: skip


def write_scan(folder: Path, legacy: bool = False, weight_norm: bool = False, **options: Any) -> tuple[Path, Path]:
    """Write ``model_best.pth.tar`` and the vocabulary as the published training script does."""
    values = golden("scan.npz")
    image, text = (
        OrderedDict((key.removeprefix(prefix), value) for key, value in values.items() if key.startswith(prefix))
        for prefix in ("w_img/", "w_txt/")
    )
    if weight_norm:
        weight = image.pop("fc.weight")
        image["fc.weight_g"], image["fc.weight_v"] = weight.norm(), 3 * weight
    state = {
        "epoch": 3,
        "model": [image, text],
        "best_rsum": np.float64(412.5),
        "opt": argparse.Namespace(**{**SCAN_OPTIONS, **options}),
        "Eiters": 100,
    }
    weights = folder / "model_best.pth.tar"
    torch.save(state, weights, _use_new_zipfile_serialization=not legacy)
    words = ["<pad>", "<start>", "<end>", "<unk>", *(f"w{i}" for i in range(4, 40))]
    vocabulary = folder / "f30k_precomp_vocab.json"
    ids = {word: i for i, word in enumerate(words)}
    content = {"word2idx": ids, "idx2word": {str(i): word for word, i in ids.items()}, "idx": 40}
    vocabulary.write_text(json.dumps(content))
    return weights, vocabulary


def import_scan(tmp_path: Path, store: Path, weights: Path, vocabulary: Path) -> ScanGrounder:
    out = tmp_path / "model"
    args = ["import", "scan", str(weights), "--vocabulary", str(vocabulary), "--features", str(store)]
    assert run([*args, "-o", str(out)]) == 0
    return ScanGrounder.from_pretrained(out, backend="torch")


@pytest.mark.parametrize("choices", [{}, {"legacy": True}, {"weight_norm": True}, {"agg_func": "LogSumExp"}])
def test_scan_has_the_published_scores(tmp_path: Path, store: Path, choices: dict[str, Any]) -> None:
    grounder = import_scan(tmp_path, store, *write_scan(tmp_path, **choices))
    values, network = golden("scan.npz"), grounder.network
    regions, words = network.encode_regions(padded(values["img"])), network.encode_words(values["cap"])
    torch.testing.assert_close(regions.vectors, values["img_emb"], atol=1e-5, rtol=0)
    torch.testing.assert_close(words.vectors, values["cap_emb"], atol=1e-5, rtol=0)
    expected = values[f"sim_t2i_{choices.get('agg_func', 'Mean')}"]
    torch.testing.assert_close(network.scores(regions, words), expected, atol=1e-5, rtol=0)
    assert grounder.extractor.name == "bottom-up-0123abcd"
    assert grounder.vocabulary.id("w7") == 7
    assert read_supervision(tmp_path / "model") == "photographs with captions, no boxes; proposals: boxes"


def test_pos_scan_counts_nouns(tmp_path: Path, store: Path) -> None:
    network = import_scan(tmp_path, store, *write_scan(tmp_path, pos=True)).network
    values = golden("scan.npz")
    words = network.encode_words(values["cap"], values["tag_mask"])
    scores = network.scores(network.encode_regions(padded(values["img"])), words)
    torch.testing.assert_close(scores, values["sim_t2i_pos_Mean"], atol=1e-5, rtol=0)
    assert network.config.count == "nouns"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"raw_feature_norm": "softmax"}, "was trained with raw_feature_norm = 'softmax'"),
        ({"agg_func": "Median"}, "the options of the training script cannot be used (KeyError('Median'))"),
        ({"bi_gru": False}, "was trained with bi_gru = False"),
    ],
)
def test_other_variants_of_scan_are_refused(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], message: str
) -> None:
    weights, vocabulary = write_scan(tmp_path, **options)
    args = ["import", "scan", str(weights), "--vocabulary", str(vocabulary), "--features", str(store)]
    assert run([*args, "-o", str(tmp_path / "model")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


# Up-Down ------------------------------------------------------------------------------------------------------------


def write_updown(folder: Path, words: int = 30, unknown: bool = True, **changed: Tensor) -> tuple[Path, Path]:
    """Write ``model-best.pth`` and ``flickrtalk.json`` as the published scripts do: id 0 is begin, end and padding."""
    values = golden("updown.npz")
    weights = OrderedDict((key.removeprefix("w/"), value) for key, value in values.items() if key.startswith("w/"))
    torch.save(OrderedDict({**weights, **changed}), folder / "model-best.pth")
    names = [f"w{i}" for i in range(1, words)] + (["UNK"] if unknown else [f"w{words}"])
    content = {"ix_to_word": {str(i): name for i, name in enumerate(names, 1)}, "images": []}
    (folder / "flickrtalk.json").write_text(json.dumps(content))
    return folder / "model-best.pth", folder / "flickrtalk.json"


def import_updown(tmp_path: Path, store: Path, weights: Path, vocabulary: Path) -> int:
    args = ["import", "updown", str(weights), "--vocabulary", str(vocabulary), "--features", str(store)]
    return run([*args, "-o", str(tmp_path / "captioner")])


@pytest.mark.parametrize("unknown", [True, False])
def test_updown_writes_the_published_sentences(tmp_path: Path, store: Path, unknown: bool) -> None:
    assert import_updown(tmp_path, store, *write_updown(tmp_path, unknown=unknown)) == 0
    captioner = Captioner.from_pretrained(tmp_path / "captioner", backend="torch")
    values = golden("updown.npz")
    encoded = captioner.network.encode(values["att"], torch.ones(values["att"].shape[:2]).bool(), values["fc"])
    with torch.no_grad():
        said = greedy(captioner.network, encoded, replace(captioner.generation, max_words=9))
    theirs = values["greedy_seq"]
    names = {0: "", **{i: f"w{i}" for i in range(1, 31)}, **({30: "<unk>"} if unknown else {})}
    for row, words in enumerate(theirs.tolist()):
        expected = tuple(names[word] for word in words if word)
        assert captioner.vocabulary.decode(said.words[row, 0].tolist()) == expected
    torch.testing.assert_close(said.logprobs[:, 0], values["greedy_logprobs"], atol=1e-5, rtol=0)
    torch.testing.assert_close(said.attention[:, 0, :, 0], values["greedy_att"], atol=1e-5, rtol=0)
    assert captioner.extractor.name == "bottom-up-0123abcd"
    assert read_supervision(tmp_path / "captioner") == "photographs with captions, no boxes; proposals: boxes"


@pytest.mark.parametrize(
    ("words", "changed", "message"),
    [
        (29, {}, "has 29 words, and"),
        (30, {"att_embed.1.running_mean": torch.zeros(3)}, "unknown weights 'att_embed.1.running_mean'"),
        (30, {"core.lang_lstm.weight_hh": torch.zeros(3, 3)}, "of another size: language_lstm.weight_hh"),
        (30, {"fc_embed.0.weight": torch.zeros(24, 7)}, "of another size: embed_image.weight"),
    ],
)
def test_other_captioners_are_refused(
    tmp_path: Path,
    store: Path,
    capsys: pytest.CaptureFixture[str],
    words: int,
    changed: dict[str, Tensor],
    message: str,
) -> None:
    assert import_updown(tmp_path, store, *write_updown(tmp_path, words, **changed)) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "captioner").exists()


# Files that cannot be used ------------------------------------------------------------------------------------------


class Malice:
    """A value whose pickle calls a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (Path("pwned"), "1")


def test_a_file_with_code_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": [{}, {}], "opt": Malice()}, "bad.pth")
    Path("bad.pkl").write_bytes(pickle.dumps(Malice()))
    for file in ("bad.pth", "bad.pkl"):
        assert run(["import", "scan", file, "-o", "model"]) == 1
        assert f"{file} cannot be read as plain weights" in capsys.readouterr().err
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    ("drop", "message"),
    [("--features", "Give a feature store of that extractor with --features"), ("--vocabulary", "has no words")],
)
def test_missing_files_are_asked_for(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str], drop: str, message: str
) -> None:
    weights, vocabulary = write_scan(tmp_path)
    options = {"--vocabulary": str(vocabulary), "--features": str(store), "-o": str(tmp_path / "model")}
    args = [part for pair in options.items() if pair[0] != drop for part in pair]
    assert run(["import", "scan", str(weights), *args]) == 1
    assert message in capsys.readouterr().err
