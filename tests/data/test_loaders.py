"""Loaders of data sets: their names, and which of them a folder belongs to."""

import os
from pathlib import Path

import pytest

from deixis import data
from deixis.errors import DeixisError

PACK = Path(
    os.environ.get("DEIXIS_FLICKR30K_ENTITIES")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "flickr30k-entities-8k"
)
needs_pack = pytest.mark.skipif(
    not PACK.is_dir(), reason="no Flickr30k Entities here; DEIXIS_FLICKR30K_ENTITIES names its folder"
)


@pytest.mark.parametrize("name", data.LOADERS)
def test_every_loader_has_the_agreed_names(name, tmp_path):
    loader = data.loader(name)
    assert name == loader.NAME
    assert not loader.recognise(tmp_path)
    assert loader.expected(tmp_path)
    for entry in loader.expected(tmp_path):
        assert entry.purpose
        assert entry.publisher
        assert "://" not in entry.publisher  # in words


def test_load_finds_the_data_set_by_itself(tmp_path):
    for split, image in (("train", "1"), ("val", "4"), ("test", "6")):
        (tmp_path / f"{split}.txt").write_text(image)
        (tmp_path / "Sentences").mkdir(exist_ok=True)
        (tmp_path / "Sentences" / f"{image}.txt").write_text("[/EN#1/people A man] walks .\n")
    (tmp_path / "Annotations").mkdir()
    assert [sample.image_id for sample in data.load(tmp_path, "val")] == ["4"]
    with pytest.raises(DeixisError, match="Available: train, val, test"):
        data.load(str(tmp_path), "dev")


@needs_pack
def test_the_spans_of_the_pack_give_back_its_phrases():
    for sample in data.load(PACK, "test"):
        for caption in sample.captions:
            for phrase in caption.phrases:
                words = "".join(caption.tokens[phrase.start : phrase.end])
                letters = [letter for letter in phrase.text.lower() if letter.isalnum()]
                assert [letter for letter in words if letter.isalnum()] == letters
