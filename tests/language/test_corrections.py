"""Verbs that the model takes for nouns, on captions; each of these is read wrongly without mending."""

from __future__ import annotations

import pytest

from deixis.language import spacy_parse as module
from deixis.language.animate import is_animate
from deixis.language.spacy_parse import spacy_parse


@pytest.mark.parametrize(
    ("caption", "word", "lemma", "subject", "phrases"),
    [
        ("A black dog leaps over a log.", "leaps", "leap", "dog", ["a black dog", "a log"]),
        ("A paraglider soars near a cliff.", "soars", "soar", "paraglider", ["a paraglider", "a cliff"]),
        ("Two dogs wrestle in a field.", "wrestle", "wrestle", "dogs", ["two dogs", "a field"]),
        (
            "A girl in a snowsuit peeks out of a snow cave.",
            "peeks",
            "peek",
            "girl",
            ["a girl", "a snowsuit", "a snow cave"],
        ),
        ("A dog covered in mud runs out of the water.", "runs", "run", "dog", ["a dog", "mud", "the water"]),
        ("A person skis down a snowy hill.", "skis", "ski", "person", ["a person", "a snowy hill"]),
    ],
)
def test_a_statement_has_its_verb(caption: str, word: str, lemma: str, subject: str, phrases: list[str]) -> None:
    (parsed,) = spacy_parse([caption], cache=False)
    verb = parsed.tokens.index(word)
    assert (parsed.pos[verb], parsed.lemmas[verb]) == ("VERB", lemma)
    assert not parsed.nouns[verb]
    noun = parsed.tokens.index(subject)
    assert parsed.heads[verb] == noun or (parsed.heads[noun] == verb and parsed.labels[noun] == "nsubj")
    assert [phrase.text for phrase in parsed.phrases] == phrases


def test_a_participle_behind_a_being_depends_on_it() -> None:
    (parsed,) = spacy_parse(["A black and white dog swimming in clear water."], cache=False)
    dog, swimming = parsed.tokens.index("dog"), parsed.tokens.index("swimming")
    assert parsed.nouns[dog]
    assert not parsed.nouns[swimming]
    assert parsed.heads[swimming] == dog


def test_two_who_do_something_together() -> None:
    (parsed,) = spacy_parse(["A black dog and a brown-and-white dog play in a field."], cache=False)
    assert not parsed.nouns[parsed.tokens.index("play")]


@pytest.mark.parametrize(
    "caption", ["A girl in jean shorts.", "A rock climbing wall.", "A pair of tennis shoes.", "A dog house."]
)
def test_real_nouns_stay(caption: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mended = spacy_parse([caption], cache=False)
    monkeypatch.setattr(module, "correct", lambda parsed, verbs: None)
    assert spacy_parse([caption], cache=False) == mended


@pytest.mark.parametrize(
    ("caption", "lemma"),
    [("A man riding a horse.", "ride"), ("A boy is staring at a dog.", "stare"), ("Men sitting on a bench.", "sit")],
)
def test_lemmas_of_participles(caption: str, lemma: str) -> None:
    (parsed,) = spacy_parse([caption], cache=False)
    assert lemma in parsed.lemmas


def test_a_bare_boy_is_a_noun() -> None:
    (parsed,) = spacy_parse(["Boy with toy gun in a yard."], cache=False)
    assert parsed.nouns[0]


def test_animate_nouns() -> None:
    assert all(map(is_animate, ["man", "fireman", "dog", "sheepdog", "greyhound", "snowboarder", "people"]))
    assert not any(map(is_animate, ["car", "water", "hat", "skateboard"]))
