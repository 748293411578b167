"""The captioner: boxes of the winners merged, folders that come back, regions of another extractor refused."""

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
from deixis.methods.updown.decode import Sentences
from deixis.methods.updown.model import Captioner, Style, ground_word
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.vision.extractor import named_extractor

VOCABULARY = Vocabulary.build([["a", "dog", "runs", "ball", "and", "red"]], minimum=1)


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    torch.manual_seed(0)
    eyes = named_extractor("tiny", "grid")
    width = eyes.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    config = DecoderConfig(len(VOCABULARY), width, words=8, hidden=12, attention=6, branches=2)
    extractor = eyes.to_json()
    return Captioner(Decoder(config), VOCABULARY, extractor, "test", Style(max_words=6, min_words=3))


def photo(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8))


def sentences(attention: list[list[float]], voted: list[bool]) -> Sentences:
    looks = torch.tensor(attention)
    return Sentences(
        torch.tensor([[[5]]]), torch.zeros(1, 1, 1), looks.view(1, 1, 1, *looks.shape), torch.tensor([[[voted]]])
    )


def test_the_boxes_of_the_branches_that_voted_are_merged_by_hand() -> None:
    boxes = np.array([[0, 0, 10, 10], [20, 5, 30, 25], [50, 50, 60, 60]], dtype=np.float32)
    regions = Regions(boxes, np.zeros((3, 1)), (60, 60))
    looks = [[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.0, 0.1, 0.9]]
    found = ground_word(sentences(looks, [True, True, False]), 0, 0, "dog", regions)
    assert found.box == (0, 0, 30, 25)
    assert found.parts == ((0, 0, 10, 10), (20, 5, 30, 25))
    assert found.score == pytest.approx(0.6)
    assert (found.start, found.end, found.text) == (0, 1, "dog")


def test_a_box_that_two_branches_share_is_one_box() -> None:
    boxes = np.array([[0, 0, 10, 10], [20, 5, 30, 25]], dtype=np.float32)
    found = ground_word(
        sentences([[0.7, 0.3], [0.6, 0.4]], [True, True]), 0, 0, "dog", Regions(boxes, np.zeros((2, 1)), (60, 60))
    )
    assert found.box == (0, 0, 10, 10)
    assert found.parts == ()


def test_regions_vote_by_the_attention_of_the_branches_that_spoke() -> None:
    """Both branches that spoke prefer an end of the thing; the third, which did not, looks elsewhere."""
    boxes = np.array([[0, 0, 20, 10], [20, 0, 40, 10], [0, 0, 40, 10], [50, 50, 60, 60]], dtype=np.float32)
    regions = Regions(boxes, np.zeros((4, 1)), (60, 60))
    looks = [[0.7, 0.0, 0.3, 0.0, 0.0], [0.0, 0.8, 0.2, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]]  # the last is padding
    found = ground_word(sentences(looks, [True, True, False]), 0, 0, "dog", regions, place="vote")
    assert found.box == (0, 0, 40, 10)
    assert found.parts == ((0, 0, 20, 10), (20, 0, 40, 10))
    assert found.score == pytest.approx(0.75)


def test_nouns_are_grounded_and_other_words_are_not(captioner: Captioner) -> None:
    captions = captioner.caption([photo(seed) for seed in range(6)])
    assert any(caption.groundings for caption in captions)
    for caption in captions:
        assert all(caption.words[g.start] == g.text for g in caption.groundings)
        assert not {"a", "and"} & {g.text for g in caption.groundings}
        assert (caption.width, caption.height, caption.model) == (60, 40, "test")
        assert caption.logprob is not None
        assert caption.logprob < 0


def test_photographs_paths_and_regions_give_the_same_caption(captioner: Captioner, tmp_path: Path) -> None:
    photo().save(tmp_path / "x.png")
    regions = captioner.eyes.extractor.extract(photo())
    said = [captioner.caption(photo()), captioner.caption(regions), captioner.caption(str(tmp_path / "x.png"))]
    assert len({(c.words, c.groundings) for c in said}) == 1
    assert said[2].image.endswith("x.png")


def test_a_batch_gives_what_each_gives_alone(captioner: Captioner) -> None:
    regions = [captioner.eyes.extractor.extract(photo(seed)) for seed in range(5)]
    few = list(captioner.captions(regions, batch=2))
    assert [c.words for c in few] == [captioner.caption(r).words for r in regions]


def test_looks_tell_where_every_branch_looked_at_every_word(captioner: Captioner) -> None:
    whole = captioner.eyes.extractor.extract(photo())
    given = [whole, whole.select(np.arange(9))]  # padded to the same number, and cut again
    for regions, (caption, looks) in zip(given, captioner.looks(given), strict=True):
        assert looks.attention.shape == (len(caption.words), 2, len(regions))
        assert looks.voted.shape == (len(caption.words), 2)
        assert np.allclose(looks.attention.sum(-1), 1, atol=1e-5)
        assert looks.voted.any(1).all()
        for found in caption.groundings:
            best = looks.attention[found.start][looks.voted[found.start]].argmax(-1)
            assert found.box == tuple(geometry.union(regions.boxes[best]))


def test_a_folder_comes_back(captioner: Captioner, tmp_path: Path) -> None:
    captioner.save_pretrained(tmp_path, {"README.md": "a card"})
    again = Captioner.from_pretrained(tmp_path)
    assert again.caption(photo()) == captioner.caption(photo())
    assert again.style == captioner.style
    assert (tmp_path / "README.md").read_text() == "a card"
    assert not list(tmp_path.glob(f"{TMP_PREFIX}*"))


def test_beam_search_is_a_matter_of_style(captioner: Captioner) -> None:
    wide = Captioner(
        captioner.decoder,
        VOCABULARY,
        captioner.eyes.to_json(),
        "test",
        replace(captioner.style, beam=4),
    )
    greedy_score, beam_score = captioner.caption(photo()).logprob, wide.caption(photo()).logprob
    assert greedy_score is not None
    assert beam_score is not None
    assert beam_score >= greedy_score - 1e-6


def test_of_a_beam_the_best_sentence_without_an_echo_is_taken(
    captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = [captioner.eyes.look(photo())]
    wide = Captioner(
        captioner.decoder, captioner.vocabulary, captioner.eyes.to_json(), "wide", replace(captioner.style, beam=4)
    )
    offered = wide._sentences(regions)
    first, second = (wide.vocabulary.decode(row) for row in offered.words[0, :2].tolist())
    assert first != second
    monkeypatch.setattr("deixis.methods.updown.model.echoes", lambda words: tuple(words) == tuple(first))
    assert next(wide.captions(regions)).words == tuple(first)
    wide.style = replace(wide.style, echoes=False)
    chosen = next(wide.captions(regions))
    assert chosen.words == tuple(second)
    assert chosen.logprob == pytest.approx(float(offered.scores[0, 1]))


def test_regions_of_another_extractor_are_refused(captioner: Captioner) -> None:
    other = Regions(np.zeros((1, 4)), np.zeros((1, 16)), (9, 9), extractor="another")
    with pytest.raises(DeixisError, match="another.*" + captioner.eyes.name.replace("+", r"\+")):
        captioner.caption(other)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", None, "config.json is not there"),
        ("config.json", "{", "cannot be read"),
        ("config.json", '{"kind": "grounder", "format": 1}', "another kind"),
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
