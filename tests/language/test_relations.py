"""Relations of captions, worked out by hand."""

from __future__ import annotations

import pytest

from deixis.language.relations import relation_categories, relations
from deixis.language.spacy_parse import spacy_parse
from deixis.types import Phrase

WORKED: dict[str, set[tuple[str, str, str]]] = {
    # prepositions
    "A man in a blue shirt stands in front of a building next to a tree.": {
        ("a man", "in", "a blue shirt"),
        ("a man", "stand in front of", "a building"),
        ("a building", "next to", "a tree"),
    },
    "A dog with a stick in its mouth.": {("a dog", "with", "a stick"), ("a stick", "in", "its mouth")},
    "A boy is on a swing.": {("a boy", "on", "a swing")},
    "There is a dog on a couch.": {("a dog", "on", "a couch")},
    "A man with his arms around a woman.": {("a man", "with", "his arms"), ("his arms", "around", "a woman")},
    "A glass full of water is on the table.": {("a glass", "full of", "water"), ("a glass", "on", "the table")},
    # verbs with an object, a preposition, a particle
    "A boy jumps over a fence.": {("a boy", "jump over", "a fence")},
    "A man picks up a box.": {("a man", "pick up", "a box")},
    "A woman gives a child a toy.": {("a woman", "give to", "a child"), ("a woman", "give", "a toy")},
    "A boy jumps off of a rock.": {("a boy", "jump off of", "a rock")},
    "A couple of people sit outside of a house.": {("a couple of people", "sit outside of", "a house")},
    "A boy tries to climb a tree.": {("a boy", "climb", "a tree")},
    "A man watches a dog run through the grass.": {("a man", "watch", "a dog"), ("a dog", "run through", "the grass")},
    "A black dog jumps into the water to get a ball.": {
        ("a black dog", "jump into", "the water"),
        ("a black dog", "get", "a ball"),
    },
    # participles
    "A man riding a horse on top of a hill.": {("a man", "ride", "a horse"), ("a man", "ride on top of", "a hill")},
    "A boy kicking a soccer ball down a field.": {
        ("a boy", "kick", "a soccer ball"),
        ("a boy", "kick down", "a field"),
    },
    "A person dressed as a clown.": {("a person", "dressed as", "a clown")},
    "A dog covered in mud runs out of the water.": {
        ("a dog", "covered in", "mud"),
        ("a dog", "run out of", "the water"),
    },
    "A man is sitting on a bench reading a newspaper.": {
        ("a man", "sit on", "a bench"),
        ("a man", "read", "a newspaper"),
    },
    "A hairy dog with a pink shirt running through a field.": {  # the dog runs, not the shirt
        ("a hairy dog", "with", "a pink shirt"),
        ("a hairy dog", "run through", "a field"),
    },
    "A woman, wearing a red dress, stands between two men.": {
        ("a woman", "wear", "a red dress"),
        ("a woman", "stand between", "two men"),
    },
    # passives
    "A dog is being walked by a woman.": {("a woman", "walk", "a dog")},
    "A child is picked up by his father.": {("his father", "pick up", "a child")},
    "A dog catches a frisbee thrown by its owner.": {
        ("a dog", "catch", "a frisbee"),
        ("its owner", "throw", "a frisbee"),
    },
    "A child surrounded by balloons.": {("balloons", "surround", "a child")},
    # "and"
    "Two men and a woman are playing guitars.": {("two men", "play", "guitars"), ("a woman", "play", "guitars")},
    "A girl holding a cup and a spoon sits on a chair.": {  # she alone sits: the spoon is held
        ("a girl", "hold", "a cup"),
        ("a girl", "hold", "a spoon"),
        ("a girl", "sit on", "a chair"),
    },
    "A man is carrying a backpack and looking over some fields.": {
        ("a man", "carry", "a backpack"),
        ("a man", "look over", "some fields"),
    },
    # relative clauses
    "A man who is wearing a hat throws a ball to a dog.": {
        ("a man", "wear", "a hat"),
        ("a man", "throw", "a ball"),
        ("a man", "throw to", "a dog"),
    },
    "The dog which the girl holds is brown.": {("the girl", "hold", "the dog")},
    "A black dog is looking at the cat that is sitting by the window.": {
        ("a black dog", "look at", "the cat"),
        ("the cat", "sit by", "the window"),
    },
    # nothing
    "A man is not wearing a shirt.": set(),
    "A bridge where a man runs is long.": set(),
    "A man is smiling.": set(),
    "": set(),
}


@pytest.mark.parametrize("caption", WORKED, ids=lambda caption: caption[:40])
def test_worked_captions(caption: str) -> None:
    (parsed,) = spacy_parse([caption], cache=False)
    phrases = parsed.phrases
    found = [(phrases[r.subject].text, r.name, phrases[r.object].text) for r in relations(parsed)]
    assert set(found) == WORKED[caption]
    assert len(found) == len(set(found))


def test_a_caption_of_a_machine_is_read_too() -> None:
    (parsed,) = spacy_parse(["a girl in a pink dress is climbing up the stairs"], cache=False)
    phrases = parsed.phrases
    assert {(phrases[r.subject].head, r.name, phrases[r.object].head) for r in relations(parsed)} == {
        ("girl", "in", "dress"),
        ("girl", "climb up", "stairs"),
    }


def test_phrases_of_a_data_set_take_the_place_of_chunks() -> None:
    (parsed,) = spacy_parse(["The man's dog lies in the middle of the road near a field."], cache=False)
    given = [Phrase("The man 's", 0, 3), Phrase("dog", 3, 4), Phrase("the road", 9, 11)]
    assert {(r.subject, r.name, r.object) for r in relations(parsed, given)} == {
        (0, "have", 1),
        (1, "lie in the middle of", 2),  # "the middle" is no phrase here, so it belongs to the preposition
    }


def test_a_token_of_two_phrases_belongs_to_the_shorter() -> None:
    (parsed,) = spacy_parse(["A man holds the leash of a dog."], cache=False)
    whole, leash, dog, man = Phrase("", 3, 8), Phrase("", 3, 5), Phrase("", 6, 8), Phrase("", 0, 2)
    names = {(r.subject, r.name, r.object) for r in relations(parsed, [whole, leash, dog, man])}
    assert {(3, "hold", 1), (1, "of", 2)} <= names


def test_categories_are_the_frequent_relations() -> None:
    names = ["in"] * 5 + ["wear"] * 5 + ["on"] * 7 + ["jump over"] * 2
    assert relation_categories(names, minimum=5) == ("on", "in", "wear")
    assert relation_categories(["in"] * 100 + ["on"] * 101) == ("on",)  # "greater than 100"
