"""CIDEr and CIDEr-D: agreement with the published numbers, for corpora, cached frequencies and batches of word ids."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.metrics.cider import (
    CiderD,
    cider,
    document_frequencies,
    document_frequencies_from,
    load_document_frequencies,
    save_document_frequencies,
)
from deixis.metrics.ngrams import References, Sentence

GOLDEN = Path(__file__).parents[1] / "golden"
OUT = json.loads((GOLDEN / "captions_out.json").read_text())
REFERENCES = {image: [text.split() for text in texts] for image, texts in OUT["tokenized_gts"].items()}
HYPOTHESES = {image: texts[0].split() for image, texts in OUT["tokenized_res"].items()}
CACHED = OUT["CIDEr-D_cached_df_ids_with_eos0"]
VOCABULARY = CACHED["vocab"]
REFERENCE_IDS = {
    image: [[*(VOCABULARY[word] for word in words), 0] for words in sentences]
    for image, sentences in REFERENCES.items()
}

PROPERTY = settings(deadline=None, max_examples=40)
SENTENCES = st.lists(st.sampled_from(list("abcdef")), max_size=9)
CORPORA = st.lists(
    st.tuples(SENTENCES, st.lists(SENTENCES.filter(bool), min_size=1, max_size=3)), min_size=1, max_size=6
)
Corpus = list[tuple[list[str], list[list[str]]]]


def grams(sentence: Sentence) -> Counter[tuple[object, ...]]:
    return Counter(tuple(sentence[i : i + n]) for n in range(1, 5) for i in range(len(sentence) - n + 1))


def textbook(caption: Sentence, references: References, image: str, plain: bool = False) -> float:
    """The formula with dictionaries, one n-gram at a time; clipped and with a length penalty, unless plain."""
    with_gram = Counter(gram for many in references.values() for gram in {g for one in many for g in grams(one)})
    idf = {gram: math.log(len(references) / max(1, number)) for gram, number in with_gram.items()}

    def vector(sentence: Sentence, n: int) -> dict[tuple[object, ...], float]:
        unseen = math.log(len(references))
        return {g: count * idf.get(g, unseen) for g, count in grams(sentence).items() if len(g) == n}

    total = 0.0
    for reference in references[image]:
        apart = max(0, len(caption) - 1) - max(0, len(reference) - 1)
        for n in range(1, 5):
            mine, theirs = vector(caption, n), vector(reference, n)
            norms = math.hypot(*mine.values()) * math.hypot(*theirs.values())
            if norms:
                shared = (
                    (value if plain else min(value, theirs[g])) * theirs[g] for g, value in mine.items() if g in theirs
                )
                total += sum(shared) / norms * (1 if plain else math.exp(-(apart**2) / 72))
    return 10 * total / 4 / len(references[image])


def test_cider_agrees_with_the_published_numbers() -> None:
    score = cider(HYPOTHESES, REFERENCES)
    for key in ("CIDEr", "CIDEr-D_corpus"):
        assert score.value == pytest.approx(OUT[key]["score"], abs=1e-9)
        np.testing.assert_allclose(score.items, OUT[key]["per_image"], atol=1e-9)
        assert list(score.ids) == OUT[key]["image_order"]
    assert "variant:d|df:corpus" in score.signature


def test_word_ids_with_cached_frequencies_agree_with_the_published_numbers() -> None:
    frequencies = load_document_frequencies(GOLDEN / "captions_cached_df.json", ids=True)
    longest = max(map(len, HYPOTHESES.values()))
    ids = np.full((len(HYPOTHESES), longest + 3), 5)  # whatever stands after the end does not count
    for row, words in zip(ids, HYPOTHESES.values(), strict=True):
        row[: len(words) + 1] = [*(VOCABULARY[word] for word in words), 0]
    scorer = CiderD(REFERENCE_IDS, frequencies)
    np.testing.assert_allclose(scorer.score_ids(ids, list(HYPOTHESES)), CACHED["per_image"], atol=1e-9)

    sentences = {image: row[: row.index(0) + 1] for image, row in zip(HYPOTHESES, ids.tolist(), strict=True)}
    score = cider(sentences, REFERENCE_IDS, frequencies, name="CIDEr-D")
    assert score.value == pytest.approx(CACHED["score"], abs=1e-9)
    assert "df:cached-200-8143" in score.signature


def test_a_caption_without_an_end_counts_whole() -> None:
    scorer = CiderD({"1": [[4, 5, 6, 7]], "2": [[8, 9]]})
    assert scorer.score_ids([[4, 5, 6, 7]], ["1"]) == pytest.approx(10)


def test_a_batch_scores_as_its_captions_do_alone() -> None:
    scorer = CiderD(REFERENCES)
    images = list(REFERENCES)[:40]
    captions = [HYPOTHESES[images[number // 5]] for number in range(200)]
    asked = [images[number % 40] for number in range(200)]
    together = scorer.score(captions, asked)
    alone = [scorer.score([caption], [image])[0] for caption, image in zip(captions, asked, strict=True)]
    np.testing.assert_allclose(together, alone, atol=1e-12)
    assert scorer.score([], []).shape == (0,)


@PROPERTY
@given(CORPORA, st.booleans())
def test_any_corpus_agrees_with_the_textbook_formula(corpus: Corpus, plain: bool) -> None:
    references = {str(number): captions for number, (_, captions) in enumerate(corpus)}
    hypotheses = {str(number): caption for number, (caption, _) in enumerate(corpus)}
    score = cider(hypotheses, references, plain=plain)
    expected = [textbook(hypotheses[image], references, image, plain) for image in references]
    np.testing.assert_allclose(score.items, expected, atol=1e-9)
    assert ("variant:plain" in score.signature) == plain


@PROPERTY
@given(CORPORA)
def test_any_corpus_agrees_with_pycocoevalcap(corpus: Corpus) -> None:
    published = pytest.importorskip("pycocoevalcap.cider.cider").Cider()
    theirs = {str(n): [" ".join(words) for words in captions] for n, (_, captions) in enumerate(corpus)}
    mine = {str(n): [" ".join(caption)] for n, (caption, _) in enumerate(corpus)}
    value, items = published.compute_score(theirs, mine)
    score = cider(
        {str(n): caption for n, (caption, _) in enumerate(corpus)},
        {str(n): captions for n, (_, captions) in enumerate(corpus)},
    )
    assert score.value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(score.items, items, atol=1e-9)


@PROPERTY
@given(CORPORA, st.randoms())
def test_the_order_of_images_changes_nothing(corpus: Corpus, random: object) -> None:
    references = {str(number): captions for number, (_, captions) in enumerate(corpus)}
    hypotheses = {str(number): caption for number, (caption, _) in enumerate(corpus)}
    shuffled = list(references)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    before, after = cider(hypotheses, references), cider(hypotheses, {image: references[image] for image in shuffled})
    assert after.value == pytest.approx(before.value, abs=1e-9)
    for image, item in zip(after.ids, after.items, strict=True):
        assert item == pytest.approx(before.items[before.ids.index(image)], abs=1e-9)


@PROPERTY
@given(CORPORA, SENTENCES, SENTENCES.filter(bool))
def test_another_image_counts_only_through_document_frequency(
    corpus: Corpus, caption: list[str], reference: list[str]
) -> None:
    references = {str(number): captions for number, (_, captions) in enumerate(corpus)}
    hypotheses = {str(number): own for number, (own, _) in enumerate(corpus)}
    frequencies = document_frequencies({**references, "more": [["a", "b"]]})
    before = cider(hypotheses, references, frequencies)
    after = cider({**hypotheses, "new": caption}, {**references, "new": [reference]}, frequencies)
    np.testing.assert_allclose(after.items[:-1], before.items, atol=1e-12)


@PROPERTY
@given(st.lists(st.integers(4, 12), min_size=2, max_size=6))
def test_a_perfect_caption_of_words_of_its_own_scores_ten(lengths: list[int]) -> None:
    references = {str(image): [[f"{image}-{word}" for word in range(n)]] for image, n in enumerate(lengths)}
    for plain in (False, True):
        score = cider({image: captions[0] for image, captions in references.items()}, references, plain=plain)
        np.testing.assert_allclose(score.items, 10, atol=1e-9)


def test_word_ids_score_like_words() -> None:
    ids = {image: [VOCABULARY[word] for word in words] for image, words in HYPOTHESES.items()}
    without_end = {image: [words[:-1] for words in sentences] for image, sentences in REFERENCE_IDS.items()}
    np.testing.assert_allclose(cider(ids, without_end).items, cider(HYPOTHESES, REFERENCES).items, atol=1e-12)


def test_an_empty_caption_and_unknown_words_score_zero() -> None:
    references = {"1": [["a", "dog"]], "2": [["a", "cat"]]}
    score = cider({"1": [], "2": ["zebra", "zebra"]}, references)
    assert score.items.tolist() == [0, 0]
    assert cider({"1": ["a", "dog"]}, {"1": [["a", "dog"]]}).value == 0  # every n-gram is in every image


def test_frequencies_go_to_a_file_and_back(tmp_path: Path) -> None:
    path = tmp_path / "df.json"
    save_document_frequencies(path, document_frequencies(REFERENCES))
    again = load_document_frequencies(path)
    np.testing.assert_allclose(
        cider(HYPOTHESES, REFERENCES, again).items, cider(HYPOTHESES, REFERENCES).items, atol=1e-12
    )
    assert again.images == 200


def test_frequencies_without_the_prefix_of_an_ngram_are_taken() -> None:
    frequencies = document_frequencies_from({("b", "c"): 2.0, ("a",): 1.0}, 4)
    idf = frequencies.idf(document_frequencies({"1": [["b", "c"]]}).table)
    np.testing.assert_allclose(idf, [math.log(4), math.log(4), math.log(2)])


@pytest.mark.parametrize(
    ("counts", "images"),
    [
        ({("a",): 5.0}, 4),
        ({("a",): -1.0}, 4),
        ({("a",): math.nan}, 4),
        ({("a",): 1.0}, 0),
        ({(): 1.0}, 4),
        ({("a",) * 5: 1.0}, 4),
    ],
)
def test_frequencies_that_cannot_be_are_refused(counts: dict[tuple[str, ...], float], images: float) -> None:
    with pytest.raises(DeixisError, match=r"Invalid document frequencies"):
        document_frequencies_from(counts, images)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "nonsense",
        '{"ref_len": 3, "document_frequency": [["a"]]}',
        '{"ref_len": 3, "document_frequency": [[["a"], 4]]}',
        None,
    ],
)
def test_a_bad_file_of_frequencies_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "df.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DeixisError, match=r"df\.json"):
        load_document_frequencies(path)


def test_what_cannot_be_scored_is_named() -> None:
    scorer = CiderD({"1": [["a", "dog"]]})
    with pytest.raises(DeixisError, match="Image 9 has no reference"):
        scorer.score([["a"]], ["9"])
    with pytest.raises(ValueError, match="1 captions, but 2"):
        scorer.score([["a"]], ["1", "1"])
    for empty in ([], [[]]):
        with pytest.raises(DeixisError, match="Image 3 has only empty reference captions"):
            CiderD({"1": [["a"]], "3": empty})
