"""Names of version 0.1: an error says what takes their place."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from contextlib import suppress

import pytest

import deixis
from deixis import cli
from deixis.methods.updown.model import Captioner


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load_teller", "load_captioner"),
        ("Teller", "CaptionPipeline"),
        ("Told", "CaptionResult"),
        ("load_finder", "load_grounder"),
        ("Captioner", "deixis.methods.updown.model.Captioner"),
    ],
)
def test_old_names_of_the_package(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=rf"deixis\.{old} was renamed .*: use {new}\."):
        getattr(deixis, old)
    assert old not in dir(deixis)
    if "." not in new:
        assert getattr(deixis, new)
        assert new in dir(deixis)


def test_the_named_replacement_of_the_captioner_exists() -> None:
    assert Captioner.__module__ == "deixis.methods.updown.model"


def test_other_names_are_ordinary_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        _ = deixis.nothing_of_the_kind


def test_public_names_are_listed_and_exist() -> None:
    assert {"load_captioner", "load_grounder", "check", "CaptionOptions"} <= set(dir(deixis))
    assert set(deixis.__all__) <= set(dir(deixis))
    for name in deixis.__all__:
        assert getattr(deixis, name).__doc__, name


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, deixis; dir(deixis); assert not {'torch', 'numpy', 'PIL'} & set(sys.modules), 'imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("load_captioner", ["captioner by name or folder", "grounder", "device"]),
        ("load_grounder", ["phrase grounder by name or folder"]),
        ("check", ["probability that each noun phrase"]),
        ("CaptionPipeline", ['caption("photo.jpg")', "iterator of results"]),
        ("GroundPipeline", ['ground("photo.jpg"', "noun phrases of a sentence"]),
        ("CaptionResult", ["groundings", "to_dict", "save", "confident"]),
        ("CaptionOptions", ["rerank", "place", "checks"]),
    ],
)
def test_help_explains_the_interface(name: str, texts: list[str]) -> None:
    page = pydoc.plain(pydoc.render_doc(getattr(deixis, name)))
    for text in texts:
        assert text in page


def test_help_of_the_package_shows_how_to_use_it() -> None:
    page = pydoc.plain(pydoc.render_doc(deixis))
    for text in ("load_captioner()", "load_grounder()", 'deixis.check("photo.jpg"'):
        assert text in page


# Options of the command line ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["caption", "photo.jpg", "--finder", "none"], "deixis caption: --finder is now --grounder."),
        (["caption", "photo.jpg", "--finder=none"], "deixis caption: --finder is now --grounder."),
        (["eval", "deixis-base", "--data", "x", "--finder", "y"], "deixis eval: --finder is now --grounder."),
        (["ground", "photo.jpg", "a dog", "--least", ".5"], "deixis ground: --least is now --min-score."),
        (["train", "updown", "--start", "x"], "deixis train: --start is now --init-from."),
    ],
)
def test_old_options_are_errors_that_name_the_new_ones(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(args) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert out == ""


@pytest.mark.parametrize("verb", sorted(cli.VERBS))
def test_no_verb_has_an_option_with_an_old_name(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the option of that verb could not be used."""
    with suppress(SystemExit):
        cli.run([*verb.split(), "--help"])
    page = capsys.readouterr().out
    assert page
    assert not [old for old in cli.RENAMED if f"{old} " in page]


def test_the_new_names_are_options_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    pages = ""
    for verb in ("caption", "eval", "ground"):
        with pytest.raises(SystemExit):
            cli.run([verb, "--help"])
        pages += capsys.readouterr().out
    assert all(new in pages for new in cli.RENAMED.values())
