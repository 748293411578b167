"""A study from predictions to results: what is paired, who is asked what, what is kept, and what it comes to."""

import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby

import pytest

from deixis.errors import DeixisError
from deixis.exports.picture import Answer, Picture
from deixis.study.database import Plan, StudyDatabase
from deixis.study.pairs import Pair, match_pairs
from deixis.study.results import Rating, agreement, fleiss_kappa, summarise
from deixis.types import GroundedCaption, Grounding


def caption(sentence, *nouns, box=0.0):
    """A caption whose words at the places ``nouns`` have boxes that begin at ``box``, one pixel further each."""
    words = tuple(sentence.split())
    found = tuple(Grounding(words[at], (box + i, 0.0, 50.0, 40.0), 0.5, at, at + 1) for i, at in enumerate(nouns))
    return GroundedCaption(words, found, image="1", width=60, height=40)


def picture(*captions, answers=()):
    return Picture("1", (60, 40), captions, tuple(answers), file="1.jpg")


# Pairs --------------------------------------------------------------------------------------------------------------


def test_words_are_matched_by_their_lemmas_in_order():
    a = picture(caption("two dogs and a man near a dog", 1, 4, 7))
    b = picture(caption("a dog with a ball and men", 1, 4, 6, box=10.0))
    assert match_pairs([a], [b]) == [
        Pair("1.jpg", "dog", 60, 40, (0.0, 0.0, 50.0, 40.0), (10.0, 0.0, 50.0, 40.0)),  # "dogs" and "dog"
        Pair("1.jpg", "man", 60, 40, (1.0, 0.0, 50.0, 40.0), (12.0, 0.0, 50.0, 40.0)),
    ]


def test_captions_of_the_same_words_are_matched_by_place():
    sentence = "a dog and a dog"
    [pair] = match_pairs([picture(caption(sentence, 1, 4))], [picture(caption(sentence, 4, box=10.0))])
    assert (pair.word, pair.a[0], pair.b[0]) == ("dog", 1.0, 10.0)  # the second dog of both


def test_phrases_are_matched_by_their_mention():
    def answer(phrase, x, number=None, start=None):
        return Answer(Grounding(phrase, (x, 0.0, 50.0, 40.0), 0.5), "", number, start)

    a = picture(answers=[answer("A red  hat", 0.0, 0, 2), answer("a red hat", 1.0, 1, 0), answer("a tree", 2.0)])
    b = picture(answers=[answer("a red hat", 10.0, 1, 0), answer("a red hat", 11.0, 0, 2)])
    assert [(pair.word, pair.a[0], pair.b[0]) for pair in match_pairs([a], [b])] == [
        ("A red  hat", 0.0, 11.0),
        ("a red hat", 1.0, 10.0),
    ]


def test_only_photographs_that_both_speak_of_and_that_are_there():
    said = caption("a dog", 1)
    other = replace(picture(said), file="2.jpg")
    lost = replace(picture(said), file="")
    assert match_pairs([picture(said)], [other]) == []
    assert match_pairs([lost], [lost]) == []
    assert match_pairs([replace(picture(said), size=None)], [picture(said)]) == []


# The database ---------------------------------------------------------------------------------------------------------


def pairs(images=10, words=3):
    return [
        Pair(f"{image}.jpg", f"word{word}", 60, 40, (0.0, 0.0, float(word + 1), 9.0), (20.0, 0.0, 30.0 + word, 9.0))
        for image in range(images)
        for word in range(words)
    ]


@pytest.fixture
def database(tmp_path):
    return StudyDatabase.create_or_open(tmp_path / "study.sqlite", Plan("da", "updown", images_each=4), pairs())


def sides(database, name):
    """Image -> whether A is on the left, in the order in which a rater sees the images."""
    rater = database.enter(name)
    found = {}
    seen = []
    while (turn := database.status(rater).turn) is not None:
        found[turn.image] = turn.left[0] == 0.0
        seen.append(turn.image)
        database.rate(rater, turn.item, "equal")
    assert [image for image, _ in groupby(seen)] == list(found)  # the words of an image come together
    return found


def test_sides_are_balanced_and_one_for_each_image(database):
    for name in ("Ann", "Bob", "Cy"):
        assert sorted(sides(database, name).values()) == [False, False, True, True]


def test_an_image_goes_to_two_raters_before_another_is_begun(database):
    ann, bob, cy, dee, eve, fay = (set(sides(database, name)) for name in ("Ann", "Bob", "Cy", "Dee", "Eve", "Fay"))
    assert ann == bob
    assert cy == dee
    assert not ann & cy
    assert len(eve) == 4  # the last two, and two more that have enough
    assert (eve & fay) >= set(database.images()) - ann - cy


def test_the_same_seed_and_name_give_the_same_order(tmp_path):
    plan = Plan("a", "b", images_each=0, seed=3)
    first, second = (StudyDatabase.create_or_open(tmp_path / name, plan, pairs()) for name in ("1.sqlite", "2.sqlite"))
    assert list(sides(first, "Ann").items()) == list(sides(second, " ann ").items())
    third = StudyDatabase.create_or_open(tmp_path / "3.sqlite", replace(plan, seed=4), pairs())
    assert list(sides(third, "Ann")) != list(sides(first, "Bob"))


def test_choices_mean_the_system_on_that_side(database):
    rater = database.enter("Ann")
    expected = []
    for choice in ("left", "right", "equal", "left"):
        turn = database.status(rater).turn
        assert database.rate(rater, turn.item, choice)
        a_left = turn.left[0] == 0.0
        better = {"equal": "equal", "left": "a" if a_left else "b", "right": "b" if a_left else "a"}[choice]
        expected.append(Rating("Ann", turn.item, turn.image, better, a_left))
    assert database.ratings() == expected


def test_a_study_is_gone_on_with(tmp_path, database):
    rater = database.enter("Ann")
    database.rate(rater, database.status(rater).turn.item, "left")
    before = database.status(rater)
    again = StudyDatabase.create_or_open(database.path, database.plan, pairs())
    assert again.enter("ann") == rater
    assert again.status(rater) == before
    assert (before.done, before.total) == (1, 12)
    for plan, other in ((replace(database.plan, seed=1), pairs()), (database.plan, pairs(words=2))):
        with pytest.raises(DeixisError, match="Choose another --out"):
            StudyDatabase.create_or_open(database.path, plan, other)
    assert again.status(rater) == before


def test_undo_asks_the_last_word_again(database):
    rater = database.enter("Ann")
    first = database.status(rater).turn
    database.rate(rater, first.item, "left")
    second = database.status(rater).turn
    database.rate(rater, second.item, "right")
    database.undo(rater)
    assert database.status(rater).turn == second
    database.undo(rater)
    database.undo(rater)  # nothing left to undo
    assert database.status(rater).turn == first
    assert database.ratings() == []


def test_a_second_choice_replaces_the_first(database):
    rater = database.enter("Ann")
    item = database.status(rater).turn.item
    database.rate(rater, item, "left")
    database.rate(rater, item, "equal")
    assert [rating.verdict for rating in database.ratings()] == ["equal"]


def test_more_gives_other_images_until_none_is_left(database):
    rater = database.enter("Ann")
    for total, more in ((12, True), (24, True), (30, False), (30, False)):
        status = database.status(rater)
        assert (status.total, status.more) == (total, more)
        database.more(rater)


def test_nobody_rates_what_is_not_theirs(database):
    rater = database.enter("Ann")
    with sqlite3.connect(database.path) as table:
        [foreign] = table.execute("SELECT MIN(item) FROM items WHERE item NOT IN (SELECT item FROM turns)").fetchone()
    assert not database.rate(rater, foreign, "left")
    assert not database.rate(rater + 1, database.status(rater).turn.item, "left")
    assert database.status(rater + 1) is None
    assert database.ratings() == []


@pytest.mark.parametrize("name", ["", "  ", "\0"])
def test_a_name_is_needed(database, name):
    with pytest.raises(DeixisError, match="The name is empty or has invalid characters"):
        database.enter(name)


def test_many_at_once_lose_nothing(database):
    def work(number):
        rater = database.enter(f"rater {number % 4}")  # each comes from two places at the same time
        while (turn := database.status(rater).turn) is not None:
            database.rate(rater, turn.item, "left")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    done = Counter(rating.rater for rating in database.ratings())
    assert done == {f"rater {number}": 12 for number in range(4)}


def test_what_is_no_study(tmp_path):
    with pytest.raises(DeixisError, match="does not exist"):
        StudyDatabase(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("not a data base, but long enough to be looked at as one" * 9)
    with pytest.raises(DeixisError, match="is not a study"):
        StudyDatabase(tmp_path / "text.sqlite")
    with pytest.raises(DeixisError, match="no common word with boxes"):
        StudyDatabase.create_or_open(tmp_path / "new.sqlite", Plan(), [])
    assert not (tmp_path / "new.sqlite").exists()


# Results ------------------------------------------------------------------------------------------------------------


def rated(*verdicts_of_items):
    """Ratings by item: "ab" is a word that the first rater found better in A and the second in B."""
    meaning = {"a": "a", "b": "b", "=": "equal"}
    return [
        Rating(f"rater {rater}", item, f"{item // 2}.jpg", meaning[verdict], a_left=item % 2 == 0)
        for item, verdicts in enumerate(verdicts_of_items)
        for rater, verdict in enumerate(verdicts)
    ]


def test_shares_and_agreement_by_hand():
    found = summarise(rated("bb", "b=", "ab", "==", "a", "=="))
    assert (found.ratings, found.words, found.images) == (11, 6, 3)
    assert found.raters == {"rater 0": 6, "rater 1": 5}
    assert (found.a, found.b, found.equal) == pytest.approx((2 / 11, 4 / 11, 5 / 11))
    assert found.difference == pytest.approx(2 / 11)
    assert found.interval[0] <= found.difference <= found.interval[1]
    # of the six that prefer a side: items 0, 2, 4 show A left. 0: b, b; 1: b; 2: a, b; 4: a
    assert found.left == pytest.approx(3 / 6)
    pairs = found.agreement
    assert (pairs.pairs, pairs.same, pairs.opposite, pairs.ambiguous) == (5, 0.6, 0.2, 0.2)


def test_three_raters_are_three_pairs():
    found = agreement(rated("ab="))
    assert (found.pairs, found.same, found.opposite, found.ambiguous) == pytest.approx((3, 0, 1 / 3, 2 / 3))


def test_nothing_rated_and_nothing_shared():
    assert summarise([]) is None
    alone = summarise(rated("a", "b"))
    assert alone.agreement is None
    assert summarise(rated("=")).left is None


def test_fleiss_kappa_by_hand():
    # 4 items, 3 raters; P_i = 1, 1/3, 1/3, 1; shares a 5/12, b 3/12, equal 4/12
    items = ["aaa", "aab", "bb=", "==="]
    words = [["equal" if v == "=" else v for v in item] for item in items]
    observed, chance = (1 + 1 / 3 + 1 / 3 + 1) / 4, (25 + 9 + 16) / 144
    assert fleiss_kappa(words) == pytest.approx((observed - chance) / (1 - chance))
    assert fleiss_kappa([["a", "a"], ["b", "b"]]) == 1
    assert fleiss_kappa([["a", "b"], ["b", "a"]]) == -1
    assert fleiss_kappa([["a", "a"], ["a", "a"]]) is None


def test_the_interval_draws_images_and_not_words():
    # two images that disagree wholly: whatever is drawn, all words of an image go together
    ratings = [Rating("r", item, f"{item // 20}.jpg", "a" if item < 20 else "b", True) for item in range(40)]
    found = summarise(ratings)
    assert found.difference == 0
    assert found.interval == (-1, 1)
