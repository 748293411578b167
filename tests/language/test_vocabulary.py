from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.language.vocabulary import SPECIAL, Vocabulary

CAPTIONS = [("a", "man", "rides"), ("a", "man"), ("a", "dog"), ("a", "dog")]


def test_frequent_words_come_first_and_rare_ones_not_at_all() -> None:
    vocabulary = Vocabulary.build(CAPTIONS, minimum=2)
    assert vocabulary.words == (*SPECIAL, "a", "dog", "man")  # a tie is settled by the alphabet
    assert len(vocabulary) == 7
    assert "man" in vocabulary
    assert "rides" not in vocabulary


def test_captions_survive_the_way_there_and_back() -> None:
    vocabulary = Vocabulary.build(CAPTIONS, minimum=2)
    ids = vocabulary.encode(("a", "man", "rides"))
    assert ids == [vocabulary.bos, 4, 6, vocabulary.unk, vocabulary.eos]
    assert vocabulary.decode(ids) == ("a", "man", "<unk>")
    assert vocabulary.decode([vocabulary.bos, 4, vocabulary.eos, 5, vocabulary.pad]) == ("a",)
    assert vocabulary.encode(("a",), ends=False) == [vocabulary.id("a")] == [4]


def test_a_corpus_cannot_smuggle_in_a_special_word() -> None:
    assert Vocabulary.build([("<eos>", "a")], minimum=1).words == (*SPECIAL, "a")


def test_it_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build([("a", "naïve", "1\xa01/2", '"')], minimum=1)
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{", "Expecting"),
        ("[]", '"format"'),
        ('{"format": "other"}', '"format"'),
        (json.dumps({"format": "deixis-vocabulary-1", "minimum": 1, "words": ["a", 3]}), '"words"'),
        (json.dumps({"format": "deixis-vocabulary-1", "minimum": "1", "words": []}), '"minimum"'),
        (
            json.dumps({"format": "deixis-vocabulary-1", "minimum": 1, "words": ["a", "a"]}),
            "'a' is in the vocabulary twice",
        ),
        (json.dumps({"format": "deixis-vocabulary-1", "minimum": 1, "words": ["<eos>"]}), "'<eos>' is in the vocab"),
        (json.dumps({"format": "deixis-vocabulary-1", "minimum": 1, "words": ["a b"]}), "space"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(tmp_path: Path, broken: str, said: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(broken)
    with pytest.raises(DeixisError, match=r"vocabulary\.json") as error:
        Vocabulary.load(path)
    assert said in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"none\.json does not exist"):
        Vocabulary.load(tmp_path / "none.json")
