"""BLEU, ROUGE-L, METEOR and SPICE: agreement with pycocoevalcap's numbers, and what must hold for any captions."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.metrics import java
from deixis.metrics.bleu import bleu
from deixis.metrics.captions import CAPTION_METRICS, caption_scores
from deixis.metrics.ngrams import Hypotheses, References
from deixis.metrics.rouge import bit_masks, common_subsequence, rouge_l

GOLDEN = Path(__file__).parents[1] / "golden"
OUT = json.loads((GOLDEN / "captions_out.json").read_text())
REFERENCES = {image: [text.split() for text in texts] for image, texts in OUT["tokenized_gts"].items()}
HYPOTHESES = {image: texts[0].split() for image, texts in OUT["tokenized_res"].items()}

PROPERTY = settings(deadline=None, max_examples=40)
WORDS = st.sampled_from(list("abcdef"))
SENTENCES = st.lists(WORDS, max_size=9)
CORPORA = st.dictionaries(
    st.text("0123456789", min_size=1, max_size=3),
    st.tuples(SENTENCES, st.lists(SENTENCES.filter(bool), min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
)
Corpus = dict[str, tuple[list[str], list[list[str]]]]


def split(corpus: Corpus) -> tuple[Hypotheses, References]:
    return {image: pair[0] for image, pair in corpus.items()}, {image: pair[1] for image, pair in corpus.items()}


# Published numbers --------------------------------------------------------------------------------------------------


def test_bleu_agrees_with_the_published_numbers() -> None:
    scores = bleu(HYPOTHESES, REFERENCES)
    assert [score.name for score in scores] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"]
    for score, corpus, per_image in zip(scores, OUT["BLEU"]["score"], OUT["BLEU"]["per_image"], strict=True):
        assert score.value == pytest.approx(corpus, abs=1e-9)
        np.testing.assert_allclose(score.items, per_image, atol=1e-9)
        assert list(score.ids) == OUT["BLEU"]["image_order"]


def test_rouge_agrees_with_the_published_numbers() -> None:
    score = rouge_l(HYPOTHESES, REFERENCES)
    assert score.value == pytest.approx(OUT["ROUGE_L"]["score"], abs=1e-9)
    np.testing.assert_allclose(score.items, OUT["ROUGE_L"]["per_image"], atol=1e-9)


def test_plain_text_is_tokenised() -> None:
    texts = json.loads((GOLDEN / "captions_gts.json").read_text())
    mine = {image: lines[0] for image, lines in json.loads((GOLDEN / "captions_res.json").read_text()).items()}
    scores, absent = caption_scores(mine, texts)
    values = {score.name: score.value for score in scores}
    assert values["BLEU-4"] == pytest.approx(OUT["BLEU"]["score"][3], abs=1e-6)
    assert values["ROUGE-L"] == pytest.approx(OUT["ROUGE_L"]["score"], abs=1e-6)
    assert values["CIDEr"] == pytest.approx(OUT["CIDEr"]["score"], abs=1e-6)
    assert all("tok:ptb" in score.signature for score in scores)
    assert absent == {}


@PROPERTY
@given(CORPORA)
def test_bleu_and_rouge_agree_with_pycocoevalcap_on_any_captions(corpus: Corpus) -> None:
    published_bleu = pytest.importorskip("pycocoevalcap.bleu.bleu").Bleu(4)
    published_rouge = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge()
    hypotheses, references = split(corpus)
    theirs = {image: [" ".join(words) for words in captions] for image, (_, captions) in corpus.items()}
    mine = {image: [" ".join(caption)] for image, (caption, _) in corpus.items()}

    corpus_values, per_image = published_bleu.compute_score(theirs, mine, verbose=0)
    for score, value, items in zip(bleu(hypotheses, references), corpus_values, per_image, strict=True):
        assert score.value == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(score.items, items, atol=1e-9)
    value, items = published_rouge.compute_score(theirs, mine)
    score = rouge_l(hypotheses, references)
    assert score.value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(score.items, items, atol=1e-9)


# What holds for any captions ----------------------------------------------------------------------------------------


@PROPERTY
@given(st.lists(WORDS, max_size=70), st.lists(WORDS, max_size=70))
def test_common_subsequence_against_the_textbook_table(one: list[str], other: list[str]) -> None:
    table = np.zeros((len(one) + 1, len(other) + 1), dtype=int)
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            table[i + 1, j + 1] = table[i, j] + 1 if left == right else max(table[i, j + 1], table[i + 1, j])
    assert common_subsequence(bit_masks(one), len(one), other) == table[-1, -1]


@PROPERTY
@given(CORPORA, st.randoms())
def test_the_order_of_images_changes_nothing(corpus: Corpus, random: object) -> None:
    hypotheses, references = split(corpus)
    shuffled = list(references)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = {image: references[image] for image in shuffled}
    for before, after in zip(
        [*bleu(hypotheses, references), rouge_l(hypotheses, references)],
        [*bleu(hypotheses, again), rouge_l(hypotheses, again)],
        strict=True,
    ):
        assert after.value == pytest.approx(before.value, abs=1e-12)
        assert dict(zip(before.ids, before.items, strict=True)) == dict(zip(after.ids, after.items, strict=True))


@PROPERTY
@given(CORPORA, SENTENCES, SENTENCES.filter(bool))
def test_another_image_leaves_the_items_of_the_rest(corpus: Corpus, caption: list[str], reference: list[str]) -> None:
    hypotheses, references = split(corpus)
    more_hypotheses, more_references = {**hypotheses, "new": caption}, {**references, "new": [reference]}
    for before, after in zip(
        [*bleu(hypotheses, references), rouge_l(hypotheses, references)],
        [*bleu(more_hypotheses, more_references), rouge_l(more_hypotheses, more_references)],
        strict=True,
    ):
        np.testing.assert_array_equal(after.items[:-1], before.items)


@PROPERTY
@given(CORPORA)
def test_a_perfect_caption_scores_one(corpus: Corpus) -> None:
    references = {image: [[*captions[0], "x", "y", "z"]] for image, (_, captions) in corpus.items()}
    hypotheses = {image: captions[0] for image, captions in references.items()}
    for score in [*bleu(hypotheses, references), rouge_l(hypotheses, references)]:
        assert score.value == pytest.approx(1, abs=1e-7)
        np.testing.assert_allclose(score.items, 1, atol=1e-7)


@PROPERTY
@given(CORPORA)
def test_word_ids_score_like_words(corpus: Corpus) -> None:
    hypotheses, references = split(corpus)
    numbers = {word: number for number, word in enumerate("fedcba", start=7)}
    ids = {image: [numbers[word] for word in caption] for image, caption in hypotheses.items()}
    reference_ids = {
        image: [[numbers[word] for word in caption] for caption in captions] for image, captions in references.items()
    }
    for words, integers in zip(
        [*bleu(hypotheses, references), rouge_l(hypotheses, references)],
        [*bleu(ids, reference_ids), rouge_l(ids, reference_ids)],
        strict=True,
    ):
        np.testing.assert_array_equal(integers.items, words.items)


def test_a_short_caption_pays_for_its_brevity() -> None:
    references = {"1": [["a", "b", "c", "d", "e", "f"]]}
    score = bleu({"1": ["a", "b", "c"]}, references)[0]
    assert score.value == pytest.approx(math.exp(1 - 6 / 3), abs=1e-8)
    longer = bleu({"1": ["a", "b", "c", "d", "e", "f", "g"]}, references)[0]
    assert longer.value == pytest.approx(6 / 7, abs=1e-8)


def test_the_closest_length_counts_and_the_shorter_of_two() -> None:
    references = {"1": [["a"] * 9, ["b"] * 5, ["c"] * 3]}
    assert bleu({"1": list("wxyz")}, references)[0].stats[0, :2].tolist() == [4, 3]


def test_an_empty_caption_scores_zero() -> None:
    references = {"1": [["a", "dog"]], "2": [["a", "cat", "sits"]]}
    for hypotheses in ({"1": [], "2": ["a", "cat", "sits"]}, {"1": [], "2": []}):
        for score in [*bleu(hypotheses, references), rouge_l(hypotheses, references)]:
            assert score.items[0] == 0
            assert math.isfinite(score.value)


def test_a_reference_without_words_beside_others_is_let_through() -> None:
    score = rouge_l({"1": ["a", "dog"]}, {"1": [["a", "dog"], []]})
    assert score.value == pytest.approx(1)


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ({"7": ["a"]}, {"7": []}, "Image 7 has only empty reference captions"),
        ({"7": ["a"]}, {"7": [[]]}, "Image 7 has only empty reference captions"),
        ({}, {"7": [["a"]]}, "Image 7 has no caption"),
        ({"7": ["a"], "8": ["a"]}, {"7": [["a"]]}, "Image 8 has no reference"),
        ({}, {str(n): [["a"]] for n in range(5)}, "Images 0, 1, 2 and 2 more have no caption"),
        ({}, {}, "no image"),
    ],
)
def test_what_cannot_be_scored_is_named(hypotheses: Hypotheses, references: References, message: str) -> None:
    for metric in (bleu, rouge_l):
        with pytest.raises(DeixisError, match=message):
            metric(hypotheses, references)


def test_a_string_is_no_sequence_of_tokens() -> None:
    with pytest.raises(TypeError, match="tokens"):
        bleu({"1": "a dog"}, {"1": [["a", "dog"]]})
    with pytest.raises(TypeError, match="tokens"):
        bleu({"1": ["a", "dog"]}, {"1": ["a dog"]})


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(DeixisError, match="'CIDER'"):
        caption_scores({"1": "a"}, {"1": ["a"]}, ["CIDER"])


# Java ---------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("java") is None, reason="METEOR needs Java")
def test_meteor_agrees_with_the_published_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap.meteor.meteor")
    monkeypatch.setenv("LC_ALL", "C")  # accents must survive it
    extra = {
        "empty": ([], [["a", "dog"]]),
        "accents": (["un", "café", "noël"], [["un", "café", "noël"]]),
        "separator": (["a", "|||", "dog"], [["a", "|||", "cat"], ["the", "dog\nruns"]]),
        "blank": (["a", "dog"], [[], ["a", "dog"]]),
    }
    score = java.meteor(
        {**HYPOTHESES, **{image: pair[0] for image, pair in extra.items()}},
        {**REFERENCES, **{image: pair[1] for image, pair in extra.items()}},
    )
    published = OUT["METEOR"]
    np.testing.assert_allclose(score.items[:200], published["per_image"], atol=1e-6)
    assert java.meteor_of_sums(score.stats[:200].sum(0)[None])[0] == pytest.approx(published["score"], abs=1e-6)
    assert list(score.ids[:200]) == published["image_order"]
    items = dict(zip(score.ids, score.items, strict=True))
    assert items["empty"] == 0
    assert items["accents"] == pytest.approx(1)
    assert score.stats[score.ids.index("accents"), :2].tolist() == [3, 3]  # letters turned to signs would be words
    assert items["blank"] == pytest.approx(1)
    assert 0 < items["separator"] < 1


def fake_java(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program named java alone on the PATH."""
    program = folder / "java"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_without_java_the_others_still_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "_package", lambda: tmp_path)
    scores, absent = caption_scores({"1": "a dog"}, {"1": ["a dog"]}, CAPTION_METRICS)
    assert [score.name for score in scores] == [
        *("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr", "CIDEr-D", "CIDEr-plain")
    ]
    assert "'java' is not on the PATH" in absent["METEOR"]
    assert "stanford-corenlp-3.6.0.jar" in absent["SPICE"]
    assert "--spice-jars" in absent["SPICE"]


def test_without_pycocoevalcap_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(java.JavaError, match=r"deixis\[java\]"):
        java.meteor({"1": ["a"]}, {"1": [["a"]]})


def test_a_java_that_hangs_is_stopped_and_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "meteor").mkdir()
    monkeypatch.setattr(java, "_package", lambda: tmp_path)
    note = tmp_path / "pid"
    fake_java(
        tmp_path, monkeypatch, f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    )
    with pytest.raises(java.JavaError, match="did not finish"):
        java.meteor({"1": ["a"]}, {"1": [["a"]]}, seconds=2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit('Error: no heap\\nat line 1')", "METEOR failed: Error: no heap"),
        ("print('1 2 3')", "METEOR output is incomplete"),
        ("print('Usage: meteor')", "METEOR output is incomplete"),
    ],
)
def test_a_java_that_fails_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, message: str
) -> None:
    (tmp_path / "meteor").mkdir()
    monkeypatch.setattr(java, "_package", lambda: tmp_path)
    fake_java(tmp_path, monkeypatch, script)
    with pytest.raises(java.JavaError, match=message):
        java.meteor({"1": ["a"]}, {"1": [["a"]]})


def test_spice_hands_over_captions_and_reads_scores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    for name in java.SPICE_PARSER:
        (jars / name).touch()
    monkeypatch.setattr(java, "_package", lambda: tmp_path)
    # Stands in for the scorer: an F-score from the number of words, null as the scorer writes for "no value".
    fake_java(
        tmp_path,
        monkeypatch,
        f"""import json, sys
line = sys.argv
assert {str(jars / "*")!r} in line[line.index('-cp') + 1].split(':')
asked = json.load(open(line[line.index('edu.anu.spice.SpiceScorer') + 1], encoding='utf-8'))
f = lambda item: len(item['test'].split()) / 10 or None
answer = [dict(image_id=item['image_id'], scores=dict(All=dict(f=f(item)))) for item in reversed(asked)]
json.dump(answer, open(line[line.index('-out') + 1], 'w'))
""",
    )
    hypotheses = {"1": ["a", "café"], "2": ["a"], "3": []}
    references = {image: [["a"]] for image in hypotheses}
    score = java.spice(hypotheses, references, jars)
    np.testing.assert_array_equal(score.items, [0.2, 0.1, np.nan])
    assert score.value == pytest.approx(0.15)
    (jars / java.SPICE_PARSER[1]).unlink()
    with pytest.raises(java.JavaError, match=r"needs stanford-corenlp-3\.6\.0-models\.jar,"):
        java.spice(hypotheses, references, jars)


def test_word_ids_cannot_go_to_java() -> None:
    pytest.importorskip("pycocoevalcap.meteor.meteor")
    with pytest.raises(TypeError, match="words"):
        java.meteor({"1": [3, 4]}, {"1": [[3, 4]]})
