"""Devices: their names, and inputs that are moved to the device of the weights, tested without a second device."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from deixis import cli, device
from deixis.calibration import Calibration, Presence
from deixis.errors import UsageError
from deixis.language.vocabulary import Vocabulary
from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.network import AlbefConfig, AlbefNet
from deixis.methods.reir import names, phrases
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.network import ReirConfig, ReirNet
from deixis.methods.scan.model import Placing, ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.scan.train import Pair, recalls
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.pipelines.caption import CaptionOptions, caption
from deixis.pipelines.check import check
from deixis.pipelines.ground import ground
from deixis.pipelines.information_gain import information_gains
from deixis.pipelines.models import Models, load_captioner, load_grounder, load_model
from deixis.pipelines.photo import Photo
from deixis.types import Json, Phrase, Regions
from deixis.vision.backbone import EfficientNetLite
from deixis.vision.extractor import RegionExtractor, named_extractor
from deixis.vision.proposals import by_name as proposer_by_name

WORDS = ["a", "brown", "dog", "runs", "after", "big", "ball"]
VOCABULARY = Vocabulary.build([WORDS], minimum=1)
SENTENCE = "a brown dog runs after a big ball"
ELSEWHERE = torch.device("meta")
"""What the other device of :class:`OtherDevice` is called; without that, tensors there have no numbers."""


class Elsewhere(Tensor):
    """A tensor of the other device, whose numbers are held here."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "Elsewhere":
        with torch.inference_mode(False):  # a view of a weight would not be allowed to be made for inference only
            wrapped: Elsewhere = Tensor._make_wrapper_subclass(
                cls, held.size(), held.stride(), held.storage_offset(), dtype=held.dtype, device=ELSEWHERE
            )
        wrapped.held = held
        return wrapped

    def tolist(self) -> Any:
        return self.held.tolist()  # which every device can do; torch leaves it to subclasses

    def new_tensor(self, data: Any) -> Tensor:  # type: ignore[override]
        return torch.tensor(data, dtype=self.dtype).to(ELSEWHERE)  # torch would make one without numbers

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("tensors of the other device are of use only while there is one")


class OtherDevice(TorchDispatchMode):
    """A machine with a second device, which computes as the first does, and with its own tensors only.

    As with a graphics processor a number alone may come from the CPU, and numpy sees the CPU's tensors only.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = any(isinstance(one, Elsewhere) for one in given)
        copies = func._schema.name in ("aten::_to_copy", "aten::copy_", "aten::_local_scalar_dense")
        if there and not copies:
            astray = [tuple(one.shape) for one in given if not isinstance(one, Elsewhere) and one.ndim]
            assert not astray, f"{func} takes tensors of two devices; those of the CPU are {astray}"
        if kwargs.get("device") is not None:
            there, kwargs["device"] = torch.device(kwargs["device"]) == ELSEWHERE, device.CPU
        owner = {id(one.held): one for one in given if isinstance(one, Elsewhere)}
        bare = tree_map_only(Elsewhere, lambda one: one.held, (args, kwargs))
        found = func(*bare[0], **bare[1])
        if not there:
            return found
        # what was changed in place stays the same tensor
        return tree_map_only(Tensor, lambda one: owner[id(one)] if id(one) in owner else Elsewhere(one), found)


def image(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8))


def extractor() -> Json:
    return named_extractor("tiny", "grid", 20).to_json()


def make_captioner() -> Captioner:
    config = DecoderConfig(len(VOCABULARY), 16, words=8, hidden=12, attention=6, branches=2)
    generation = GenerationConfig(max_words=6, min_words=3)
    return Captioner(Decoder(config), VOCABULARY, extractor(), "captioner", generation)


def make_scan() -> ScanGrounder:
    network = ScanNet(ScanConfig(len(VOCABULARY), 16, words=8, embed=12, count="nouns"))
    return ScanGrounder(network, VOCABULARY, extractor(), "scan", placing=Placing("vote"))


def make_reir() -> ReirGrounder:
    config = ReirConfig(len(VOCABULARY), 16, words=6, width=8, hidden=8, names="add", place="vote")
    return ReirGrounder(ReirNet(config), VOCABULARY, extractor(), "reir")


def make_albef(patch: int, presence: Presence | None = None) -> AlbefGrounder:
    pieces = WordPieces.build([SENTENCE], 1)
    config = AlbefConfig(
        vocabulary=len(pieces),
        hidden=12,
        heads=2,
        feed=16,
        positions=16,
        text_layers=1,
        fusion_layers=2,
        patch=patch,
        features=0 if patch else 16,
        side=4,
        image_hidden=12,
        image_heads=2,
        image_feed=16,
        image_layers=1,
        shared=8,
        map_layer=0,
    )
    return AlbefGrounder(AlbefNet(config), pieces, None if patch else extractor(), "albef", presence=presence)


def caption_all(captioner: Captioner) -> list[Json]:
    """Return captions, candidates of forced decoding and information gains, as JSON."""
    models = Models(captioner)
    found = []
    for generation in (captioner.generation, replace(captioner.generation, beam=3, place="vote")):
        captioner.generation = generation
        results = caption([Photo(image(0)), Photo(image(1))], models, CaptionOptions(checks=()))
        found += [{**one.to_dict(), "trace": one.trace.attention.tolist()} for one in results]
    regions = [captioner.extractor.extract(image(0))]
    (generated,) = captioner.decode(regions)
    found += [{"gain": gain} for gain in information_gains(generated, captioner, models.blank)]
    (forced,) = captioner.force_decode(regions, [[SENTENCE.split(), ["a", "dog"]]])
    return found + [{"logprob": one.logprob, "trace": one.trace.attention.tolist()} for one in forced]


def ground_all(grounder: ScanGrounder | ReirGrounder | AlbefGrounder) -> list[Json]:
    """Return groundings, a checked caption and the evidence of a text, as JSON."""
    photo = Photo(image())
    found = [*ground(photo, SENTENCE, grounder), *ground(photo, ["a dog", "the big ball"], grounder)]
    places = ("threshold",) if grounder.extractor is None else ("heat", "alpha", "threshold")
    for place in places if isinstance(grounder, AlbefGrounder) else ("attention", "vote"):
        found += ground(photo, ["a dog"], grounder, place)
    evidence = grounder.evidence(photo.encoded(grounder), [Phrase(SENTENCE, 0, 8)])
    return [*(one.to_json() for one in found), check(photo, SENTENCE, grounder).to_dict(), {"evidence": evidence}]


CURVES = Presence(Calibration(2.0), Calibration(3.0))
KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], list[Json]]]] = {
    "captioner": (make_captioner, caption_all),
    "scan": (make_scan, ground_all),
    "reir": (make_reir, ground_all),
    "albef of cells": (lambda: make_albef(0), ground_all),
    "albef of cells, calibrated": (lambda: make_albef(0, CURVES), ground_all),
    "albef of pixels": (lambda: make_albef(8), ground_all),
}


@pytest.fixture(autouse=True)
def meanings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Vectors of texts without the network that makes them."""

    def vectors(texts: Sequence[str]) -> np.ndarray:
        rows = [np.random.default_rng(list(text.encode())).standard_normal(phrases.WIDTH) for text in texts]
        return np.array(rows, dtype=np.float32)

    names._table.cache_clear()
    for module in (names, phrases):
        monkeypatch.setattr(module, "text_vectors", vectors)
    yield
    names._table.cache_clear()


# Models elsewhere ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_go_where_the_weights_are_and_answers_come_back(kind: str) -> None:
    make, ask = KINDS[kind]
    torch.manual_seed(0)
    expected = ask(make())
    torch.manual_seed(0)
    model = make()
    with OtherDevice():
        assert model.to(ELSEWHERE) is model
        assert model.extractor is None or model.extractor.backbone.classifier.device == ELSEWHERE
        found = ask(model)
    # torch may take another way to the same sums there
    assert tree_leaves(found) == [
        pytest.approx(leaf, rel=1e-4, abs=1e-6) if isinstance(leaf, float) else leaf for leaf in tree_leaves(expected)
    ]


def test_an_extractor_that_was_used_before_moves_too() -> None:
    captioner = make_captioner()
    before = captioner.extractor.extract(image())
    with OtherDevice():
        captioner.to(ELSEWHERE)
        assert captioner.extractor.backbone.kernels[0].device == ELSEWHERE  # type: ignore[attr-defined]
        after = captioner.extractor.extract(image())
    np.testing.assert_array_equal(after.features, before.features)


def test_the_default_backbone_moves_its_weights_and_its_pixels() -> None:
    made = RegionExtractor.of(EfficientNetLite(64), proposer_by_name("grid", 5), grid=2)
    before = made.extract(image())
    with OtherDevice():
        after = made.to(ELSEWHERE).extract(image())
    assert made.backbone.classifier[0].device == ELSEWHERE  # type: ignore[attr-defined]
    assert before.labels is not None
    assert after.labels is not None
    assert before.grid is not None
    assert after.grid is not None
    np.testing.assert_array_equal(after.features, before.features)
    np.testing.assert_array_equal(after.labels.probs, before.labels.probs)
    np.testing.assert_array_equal(after.grid, before.grid)


def test_a_matcher_is_validated_where_it_is_trained() -> None:
    torch.manual_seed(0)
    grounder, made = make_scan(), named_extractor("tiny", "grid", 20)
    matcher = grounder.network
    regions: dict[str, Regions] = {str(seed): made.extract(image(seed)) for seed in range(3)}
    ids = [VOCABULARY.encode(text.split()) for text in ("a brown dog", "a big ball runs", "after a ball")]
    pairs = [Pair(str(i), tuple(row), (True,) * len(row)) for i, row in enumerate(ids)]
    phrases = [Phrase("a brown dog", 0, 3), Phrase("a ball", 0, 2)]

    def evidence() -> list[float]:
        """What the calibration after an epoch reads."""
        return grounder.evidence(grounder.encode([regions["0"]])[0], phrases)

    expected = recalls(matcher, pairs, regions), evidence()
    with OtherDevice():
        matcher.to(ELSEWHERE)
        assert (recalls(matcher, pairs, regions), evidence()) == expected


def test_the_other_device_finds_an_input_that_was_left_behind() -> None:
    """The tests above see what a graphics processor would refuse."""
    layer = torch.nn.Linear(2, 2)
    with OtherDevice():
        layer.to(ELSEWHERE)
        with pytest.raises(AssertionError, match="two devices"):
            layer(torch.ones(1, 2))
        answer = layer(torch.ones(1, 2).to(ELSEWHERE)).detach()
        with pytest.raises((TypeError, RuntimeError)):
            answer.numpy()
        assert answer.cpu().numpy().shape == (1, 2)


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "mps", "best"), [(2, True, "cuda:0"), (0, True, "mps"), (0, False, "cpu"), (1, False, "cuda:0")]
)
def test_auto_takes_cuda_then_mps_then_the_cpu(
    cuda: int, mps: bool, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert device.choose("auto") == torch.device(best)
    assert device.present() == [f"cuda:{i}" for i in range(cuda)] + ["mps"] * mps + ["cpu"]


@pytest.mark.parametrize("name", ["cuda:99", "xpu:99", "meta", "banana", ""])
def test_a_device_that_is_not_there_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(UsageError, match=f"--device {name} is not available.*cpu"):
        device.choose(name)
    assert device.choose("cpu") == device.CPU


def test_models_are_loaded_to_the_device_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_captioner().save_pretrained(tmp_path / "captioner")
    make_scan().save_pretrained(tmp_path / "scan")
    asked: list[str] = []
    monkeypatch.setattr(device, "choose", lambda name="auto": asked.append(name) or ELSEWHERE)
    with OtherDevice():
        captioner = load_captioner(tmp_path / "captioner", "cuda:1")
        grounder = load_grounder(tmp_path / "scan", "cuda:2")
        assert isinstance(load_model(tmp_path / "scan", "mps"), ScanGrounder)
        assert device.device_of(captioner.network) == captioner.extractor.device == ELSEWHERE
        assert isinstance(grounder, ScanGrounder)
        assert device.device_of(grounder.network) == grounder.extractor.device == ELSEWHERE
    assert asked == ["cuda:1", "cuda:2", "mps"]


def test_training_computes_on_the_device_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_training", "auto")
    device.train_on("auto")
    assert str(device.training_device()) == device.present()[0]
    monkeypatch.setattr(device, "choose", lambda name: ELSEWHERE)
    device.train_on("cuda:1")
    assert device.training_device() == ELSEWHERE
    monkeypatch.setattr(device, "_training", "auto")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "1")  # the second process of torchrun has the second GPU
    assert device.training_device() == torch.device("cuda:1")


# Verbs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["caption", "ground", "check", "regions"])
def test_verbs_refuse_a_device_that_is_not_there(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image().save(tmp_path / "photo.png")
    (make_captioner() if verb == "caption" else make_scan()).save_pretrained(tmp_path / "model")
    words = {"ground": ["a dog"], "check": [SENTENCE]}.get(verb, [])
    model = ["--proposals", "grid", "--backbone", "tiny"] if verb == "regions" else ["--model", str(tmp_path / "model")]
    args = [verb, str(tmp_path / "photo.png"), *words, *model, "--json", "--quiet"]
    assert cli.run([*args, "--device", "cuda:99"]) == 2
    assert "--device cuda:99 is not available" in capsys.readouterr().err
    assert cli.run([*args, "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])


@pytest.mark.parametrize(
    "verb", ["caption", "ground", "check", "search", "eval", "demo", "serve", "features", "regions", "table"]
)
def test_the_help_is_the_same_everywhere(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "compute device: auto (CUDA if available, then MPS, then CPU), cpu, cuda, cuda:1 or mps." in printed
