"""Photo: image, regions, encodings and parses are computed once, by one photograph of every command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from deixis import DeixisError, cli
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.scan.model import ScanGrounder
from deixis.pipelines import photo as photo_module
from deixis.pipelines.api import CaptionPipeline, GroundPipeline
from deixis.pipelines.caption import caption
from deixis.pipelines.check import check
from deixis.pipelines.ground import ground
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo, encode_batch
from deixis.types import Regions
from deixis.vision.extractor import RegionExtractor
from small_models import noise, save_noise, small_captioner, small_fusion, small_matcher


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often files are opened, regions extracted, photographs encoded by a grounder and sentences parsed."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str, amount: Callable[..., int]) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[name] += amount(*args, **kwargs)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(photo_module, "load_image", lambda *_, **__: 1)
    count(Image, "open", lambda *_, **__: 1)
    count(RegionExtractor, "extract_batch", lambda self, images, image_ids: len(images))
    for grounder in (ScanGrounder, AlbefGrounder):
        count(grounder, "encode", lambda self, photos: len(photos))
    count(photo_module, "parse_words", lambda sentences, **_: len(sentences))
    return counted


# Commands -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("caption", []),
        ("caption", ["--place", "attention"]),
        ("caption", ["--place", "heat"]),
        ("ground", ["a dog", "a ball"]),
        ("ground", ["--caption", "a dog runs after a ball"]),
        ("check", ["a dog runs after a ball"]),
    ],
)
def test_a_command_computes_nothing_twice(
    loaded_once: Models, calls: Counter[str], tmp_path: Path, verb: str, args: list[str]
) -> None:
    file = save_noise(tmp_path / "photo.png", size=(64, 48))
    assert cli.run([verb, str(file), *args, "--json", "--device", "cpu"]) == 0
    assert {name: calls[name] for name in ("load_image", "open", "extract_batch", "encode")} == {
        "load_image": 1,
        "open": 1,
        "extract_batch": 1,
        "encode": 1,
    }


def test_several_photographs_are_encoded_in_one_pass(
    loaded_once: Models, calls: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    encode = ScanGrounder.encode

    def recorded(self: ScanGrounder, photos: Sequence[Any]) -> list[Any]:
        passes.append(len(photos))
        return encode(self, photos)

    monkeypatch.setattr(ScanGrounder, "encode", recorded)
    for seed in range(3):
        save_noise(tmp_path / f"{seed}.png", seed, (64, 48))
    assert cli.run(["caption", str(tmp_path), "--json", "--device", "cpu", "--quiet"]) == 0
    assert passes == [3]
    assert (calls["open"], calls["extract_batch"]) == (3, 3)


def test_python_opens_a_file_once(calls: Counter[str], tmp_path: Path) -> None:
    file = save_noise(tmp_path / "photo.png")
    CaptionPipeline(Models(small_captioner(), small_fusion(["a dog runs and a red ball"], pixels=False)))(file)
    assert (calls["open"], calls["extract_batch"], calls["encode"]) == (1, 1, 1)
    calls.clear()
    GroundPipeline(small_fusion(["a dog"]))(file, ["a dog", "the dog"])
    assert (calls["open"], calls["extract_batch"], calls["encode"]) == (1, 0, 1)


def test_models_with_equal_extractors_extract_once(calls: Counter[str]) -> None:
    caption([Photo(noise())], Models(small_captioner(), small_matcher()))
    assert calls["extract_batch"] == 1
    calls.clear()
    caption([Photo(noise())], Models(small_captioner(), small_matcher(proposals="selective-search")))
    assert calls["extract_batch"] == 2


def test_sentences_of_a_beam_are_parsed_once(calls: Counter[str], shipped: Models) -> None:
    """All candidates in one call; reranking, checks and grounding read these parses."""
    (found,) = caption([Photo(noise(0, (64, 48)))], shipped)
    generation = shipped.captioner.generation
    assert 0 < calls["parse_words"] <= (generation.rerank_beam or generation.beam) + found.template


# Photo --------------------------------------------------------------------------------------------------------------


def test_a_parse_is_computed_once(calls: Counter[str]) -> None:
    photo = Photo(noise())
    first = photo.parse(("a", "dog"))
    assert photo.parse(["a", "dog"]) is first
    assert calls["parse_words"] == 1
    assert len(photo.parse(())) == 0
    assert calls["parse_words"] == 1


def test_regions_are_extracted_once_for_each_extractor(calls: Counter[str]) -> None:
    photo, extractor = Photo(noise()), small_captioner().extractor
    assert photo.regions(extractor) is photo.regions(extractor)
    assert calls["extract_batch"] == 1
    with_grid = small_fusion(["a dog"], pixels=False).extractor
    assert with_grid is not None
    assert photo.regions(with_grid).grid is not None
    assert photo.regions(extractor) is photo.regions(with_grid)  # the regions with a grid serve both
    assert calls["extract_batch"] == 2


def test_given_regions_are_used_and_no_file_is_opened(calls: Counter[str]) -> None:
    extractor = small_captioner().extractor
    regions = extractor.extract(noise())
    calls.clear()
    photo = Photo("not-there.png", regions=regions)
    assert photo.regions(extractor) is regions
    assert photo.size == (60, 40)
    assert calls == Counter()


def test_extracted_regions_are_kept_in_a_given_dictionary() -> None:
    """Also if it is empty: the server and the evaluation share it between requests."""
    kept: dict[str, Regions] = {}
    extractor = small_captioner().extractor
    regions = Photo(noise(), regions=kept).regions(extractor)
    assert kept == {extractor.name: regions}
    assert Photo("not-there.png", regions=kept).regions(extractor) is regions


def test_an_encoding_belongs_to_one_grounder(calls: Counter[str]) -> None:
    photo, first, second = Photo(noise()), small_fusion(["a dog"]), small_fusion(["a dog"])
    assert photo.encoded(first) is photo.encoded(first)
    assert photo.encoded(second) is not photo.encoded(first)
    assert calls["encode"] == 2
    encode_batch([photo, Photo(noise(1))], first)
    assert calls["encode"] == 3  # only what is not encoded yet


def test_ground_and_check_share_what_a_photo_has(calls: Counter[str]) -> None:
    photo, fusion = Photo(noise()), small_fusion(["a dog runs"], pixels=False)
    ground(photo, ["a dog"], fusion)
    check(photo, "a dog runs", fusion)
    assert (calls["extract_batch"], calls["encode"]) == (1, 1)


def test_names_and_sources(tmp_path: Path) -> None:
    file = save_noise(tmp_path / "photo.png")
    assert Photo(file).name == str(file)
    assert Photo(str(file)).name == str(file)
    assert Photo(noise()).name == ""
    assert Photo(noise(), "x").name == "x"
    opened = Photo("x", open_image=noise).image
    for source in (file, str(file), noise(), np.array(noise())):
        assert np.array_equal(np.array(Photo(source).image), np.array(opened))


@pytest.mark.parametrize(
    ("shape", "kind"), [((4, 4), np.uint8), ((4, 4, 4), np.uint8), ((4, 4, 3), np.float32), ((0, 4, 3), np.uint8)]
)
def test_arrays_that_are_no_images_are_errors(shape: tuple[int, ...], kind: Any) -> None:
    with pytest.raises(DeixisError, match=r"\[height, width, 3\] of uint8 in RGB order"):
        _ = Photo(np.zeros(shape, kind)).image
