"""The captioner: candidates with their attention, model folders, and regions of another extractor."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import DeixisError, Regions
from deixis import boxes as geometry
from deixis.files import TMP_PREFIX
from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.pipelines.caption import CaptionOptions, caption
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.types import Candidate, GroundedCaption
from deixis.vision.extractor import named_extractor

VOCABULARY = Vocabulary.build([["a", "dog", "runs", "ball", "and", "red"]], minimum=1)
UNCHECKED = CaptionOptions(checks=())


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    torch.manual_seed(0)
    extractor = named_extractor("tiny", "grid")
    width = extractor.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    config = DecoderConfig(len(VOCABULARY), width, words=8, hidden=12, attention=6, branches=2)
    generation = GenerationConfig(max_words=6, min_words=3)
    return Captioner(Decoder(config), VOCABULARY, extractor.to_json(), "test", generation)


def image(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8))


def extracted(captioner: Captioner, *seeds: int) -> list[Regions]:
    return [captioner.extractor.extract(image(seed)) for seed in seeds]


def with_generation(captioner: Captioner, generation: GenerationConfig) -> Captioner:
    return Captioner(captioner.network, VOCABULARY, captioner.extractor.to_json(), "test", generation)


def captions(captioner: Captioner, *photos: Photo) -> list[GroundedCaption]:
    return [result.caption for result in caption(photos, Models(captioner), UNCHECKED)]


def assert_same(a: Candidate, b: Candidate) -> None:
    assert a.words == b.words
    assert a.logprob == pytest.approx(b.logprob, abs=1e-5)
    assert a.score == pytest.approx(b.score, abs=1e-5)
    np.testing.assert_allclose(a.trace.attention, b.trace.attention, atol=1e-6)
    np.testing.assert_array_equal(a.trace.branch_mask, b.trace.branch_mask)


# Captions -------------------------------------------------------------------------------------------------------------


def test_nouns_are_grounded_and_function_words_are_not(captioner: Captioner) -> None:
    found = captions(captioner, *(Photo(image(seed)) for seed in range(6)))
    assert any(one.groundings for one in found)
    assert any(one.nouns() for one in found)
    for one in found:
        assert all(one.words[g.start : g.end] == tuple(g.text.split()) for g in one.groundings)
        assert all(one.words[g.start] == g.text for g in one.word_groundings)
        assert {g.pos for g in one.word_groundings} <= {"NOUN", "VERB"}
        assert not {"a", "and"} & {g.text for g in (*one.groundings, *one.word_groundings)}
        assert (one.width, one.height, one.model) == (60, 40, "test")
        assert one.logprob is not None
        assert one.logprob < 0


def test_image_path_and_regions_give_the_same_caption(captioner: Captioner, tmp_path: Path) -> None:
    image().save(tmp_path / "x.png")
    (regions,) = extracted(captioner, 0)
    photos = [Photo(image()), Photo("", regions=regions), Photo(str(tmp_path / "x.png"))]
    found = captions(captioner, *photos)
    assert len({(one.words, one.groundings, one.word_groundings) for one in found}) == 1
    assert found[2].image.endswith("x.png")


# Candidates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3])
def test_a_batch_gives_the_candidates_of_each_image_alone(captioner: Captioner, width: int) -> None:
    regions = extracted(captioner, *range(5))
    regions[1] = regions[1].select(np.arange(9))  # padded in the batch
    for one, together in zip(regions, captioner.decode(regions, width), strict=True):
        (alone,) = captioner.decode([one], width)
        assert len(together) == len(alone) == width
        for a, b in zip(together, alone, strict=True):
            assert_same(a, b)


def test_the_trace_has_the_attention_of_every_branch_at_every_word(captioner: Captioner) -> None:
    (whole,) = extracted(captioner, 0)
    given = [whole, whole.select(np.arange(9))]  # padded to the same number, and cut again
    for regions, (candidate,) in zip(given, captioner.decode(given), strict=True):
        trace = candidate.trace
        assert trace.attention.shape == (len(candidate.words), 2, len(regions))
        assert trace.branch_mask.shape == (len(candidate.words), 2)
        assert np.allclose(trace.attention.sum(-1), 1, atol=1e-5)
        assert trace.branch_mask.any(1).all()
        assert trace.boxes is regions.boxes
        assert trace.size == regions.size
        (grounded,) = captions(captioner, Photo("", regions=regions))
        assert grounded.words == candidate.words
        for found in grounded.word_groundings:
            best = trace.attention[found.start][trace.branch_mask[found.start]].argmax(-1)
            assert found.box == tuple(geometry.union(regions.boxes[best]))


@pytest.mark.parametrize("width", [1, 4])
def test_forced_decoding_gives_what_generation_gave(captioner: Captioner, width: int) -> None:
    """Also for sentences of the greatest length, which have no end token."""
    regions = extracted(captioner, 0, 1, 2)
    for limit in (6, 3):
        some = with_generation(captioner, replace(captioner.generation, max_words=limit, length_power=0.7))
        generated = some.decode(regions, width)
        forced = some.force_decode(regions, [[one.words for one in each] for each in generated])
        for each, again in zip(generated, forced, strict=True):
            assert len(each) == len(again) == width
            for a, b in zip(each, again, strict=True):
                assert_same(a, b)


def test_forced_decoding_takes_different_numbers_of_sentences(captioner: Captioner) -> None:
    regions = extracted(captioner, 0, 1)
    sentences = [[["a", "dog", "runs"], ["a", "red", "ball"]], [["a", "frisbee", "and", "a", "dog"]]]
    found = captioner.force_decode(regions, sentences)
    assert [[one.words for one in each] for each in found] == [[tuple(s) for s in each] for each in sentences]
    for each, of_image, one in zip(found, sentences, regions, strict=True):
        for words, candidate in zip(of_image, each, strict=True):
            assert candidate.trace.attention.shape == (len(words), 2, len(one))
            assert_same(candidate, captioner.force_decode([one], [[words]])[0][0])


# Generation -----------------------------------------------------------------------------------------------------------


def test_beam_search_finds_sentences_at_least_as_likely(captioner: Captioner) -> None:
    regions = extracted(captioner, 0)
    wide = with_generation(captioner, replace(captioner.generation, beam=4))
    (greedy,) = captioner.decode(regions)
    (beam,) = wide.decode(regions)
    assert (len(greedy), len(beam)) == (1, 4)
    assert [one.score for one in beam] == sorted((one.score for one in beam), reverse=True)
    assert beam[0].logprob is not None
    assert greedy[0].logprob is not None
    assert beam[0].logprob >= greedy[0].logprob - 1e-6
    assert [one.words for one in captioner.decode(regions, width=4)[0]] == [one.words for one in beam]


def test_the_best_candidate_that_repeats_no_word_is_taken(
    captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (regions,) = extracted(captioner, 0)
    wide = with_generation(captioner, replace(captioner.generation, beam=4))
    first, second, *_ = wide.decode([regions])[0]
    assert first.words != second.words
    monkeypatch.setattr("deixis.pipelines.rerank.repeats_word", lambda words: words == first.words)
    assert captions(wide, Photo("", regions=regions))[0].words == first.words
    strict = with_generation(captioner, replace(wide.generation, allow_repeated_words=False))
    (chosen,) = captions(strict, Photo("", regions=regions))
    assert chosen.words == second.words
    assert chosen.logprob == pytest.approx(second.logprob)


# Folders --------------------------------------------------------------------------------------------------------------


def test_a_folder_gives_the_same_captioner(captioner: Captioner, tmp_path: Path) -> None:
    captioner.save_pretrained(tmp_path, {"README.md": "a card"})
    again = Captioner.from_pretrained(tmp_path, backend="torch")
    (regions,) = extracted(captioner, 0)
    assert_same(again.decode([regions])[0][0], captioner.decode([regions])[0][0])
    (one,), (other,) = captions(again, Photo(image())), captions(captioner, Photo(image()))
    assert replace(one, model_hash="") == other  # a model that was never saved has no hash
    assert one.model_hash == again.hash != ""
    assert again.generation == captioner.generation
    assert (again.ood, again.blank) == (None, None)
    assert (tmp_path / "README.md").read_text() == "a card"
    assert not list(tmp_path.glob(f"{TMP_PREFIX}*"))


def test_a_folder_of_version_0_1_is_read(captioner: Captioner, tmp_path: Path) -> None:
    captioner.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    style = {"beam": 3, "judged": 5, "length_power": 0.5, "echoes": False, "max_words": 9, "min_words": 2}
    config["style"] = {**style, "repeats": True, "branches": 1, "place": "best"}
    del config["generation"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert Captioner.from_pretrained(tmp_path).generation == GenerationConfig(
        beam=3,
        rerank_beam=5,
        length_power=0.5,
        allow_repeated_words=False,
        max_words=9,
        min_words=2,
        allow_adjacent_repeats=True,
        branches=1,
        place="attention",
    )


def test_regions_of_another_extractor_are_refused(captioner: Captioner) -> None:
    other = Regions(np.zeros((1, 4)), np.zeros((1, 16)), (9, 9), extractor="another")
    said = "another.*" + captioner.extractor.name.replace("+", r"\+")
    with pytest.raises(DeixisError, match=said):
        captioner.decode([other])
    with pytest.raises(DeixisError, match=said):
        captioner.force_decode([other], [[["a", "dog"]]])


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", None, "is not a model folder: it has no config.json"),
        ("config.json", "{", "cannot be read"),
        ("config.json", '{"kind": "grounder", "format": 1}', "of kind grounder, format 1; expected: captioner"),
        ("weights.safetensors", None, "weights.safetensors"),
        ("weights.safetensors", "torn", "not a captioner"),
        ("vocabulary.json", None, "vocabulary.json"),
        ("vocabulary.json", "[]", "vocabulary"),
    ],
)
def test_a_broken_folder_is_named(
    captioner: Captioner, tmp_path: Path, file: str, content: str | None, said: str
) -> None:
    captioner.save_pretrained(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(DeixisError, match=said):
        Captioner.from_pretrained(tmp_path)


def test_weights_of_another_size_are_named(captioner: Captioner, tmp_path: Path) -> None:
    captioner.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["decoder"]["hidden"] = 20
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(DeixisError, match="not a captioner that this version can read"):
        Captioner.from_pretrained(tmp_path)


def test_a_configuration_of_the_wrong_type_is_named(captioner: Captioner, tmp_path: Path) -> None:
    captioner.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for name in ("generation", "decoder", "extractor"):
        for wrong in (5, [], "text", {"unknown": 1}):
            (tmp_path / "config.json").write_text(json.dumps({**config, name: wrong}))
            with pytest.raises(DeixisError, match="not a captioner that this version can read"):
                Captioner.from_pretrained(tmp_path)


# Networks with more inputs --------------------------------------------------------------------------------------------


def test_a_model_with_grid_attention_captions_a_photograph_from_pixels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    extractor = named_extractor("tiny", "grid", grid=4)
    like = extractor.extract(np.zeros((40, 60, 3), dtype=np.uint8))
    assert like.grid is not None
    width, cells = like.features.shape[1], like.grid.shape[-1]
    config = DecoderConfig(
        len(VOCABULARY), width, words=8, hidden=12, attention=6, fc7=5, classes=3, location=4, interact=1,
        grid=cells, grid_attention="own", image="grid", grid_side=4,
    )  # fmt: skip
    model = Captioner(Decoder(config), VOCABULARY, extractor.to_json(), "test", GenerationConfig(max_words=6))
    model.save_pretrained(tmp_path)
    restored = Captioner.from_pretrained(tmp_path)
    found = captions(restored, Photo(image(0)), Photo(image(1).resize((40, 60))))  # grids of different shapes
    alone = [*captions(restored, Photo(image(0))), *captions(restored, Photo(image(1).resize((40, 60))))]
    assert [one.words for one in found] == [one.words for one in alone]
    assert [one.logprob for one in found] == pytest.approx([one.logprob for one in alone], abs=1e-5)


def test_a_folder_with_heads_of_an_earlier_version_loads(captioner: Captioner, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    sizes = {"words": 8, "hidden": 12, "attention": 6, "heads": 3}
    decoder = Decoder(DecoderConfig(len(VOCABULARY), captioner.network.config.features, **sizes))
    model = Captioner(decoder, VOCABULARY, captioner.extractor.to_json(), "test")
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "weights.safetensors")
    save_file({**weights, "energy": torch.ones(1, 6), "key.bias": torch.ones(6)}, tmp_path / "weights.safetensors")
    assert_same(
        Captioner.from_pretrained(tmp_path).decode(extracted(captioner, 0))[0][0],
        model.decode(extracted(captioner, 0))[0][0],
    )
