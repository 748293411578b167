"""Shell completion: the scripts know every verb and its options, and bash itself completes with the first."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from deixis import cli
from deixis.commands.completion import completion_script, verb_options


@pytest.fixture(scope="module")
def script() -> str:
    return completion_script("bash", cli.VERBS, cli.run)


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in ("deixis", *words))
    code = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _deixis; printf "%s\\n" "${{COMPREPLY[@]}}"'
    told = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, check=True)
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["cap"], ["caption"]),
        (["data", "s"], ["show"]),
        (["caption", "photo.jpg", "--dr"], ["--draw"]),
        (["caption", "--prof"], ["--profile"]),
        (["data", "show", "--se"], ["--seed"]),
        (["train", "supervised-s"], ["supervised-small"]),
        (["train", "updown-small", "--feat"], ["--features"]),
        (["caption", "pho"], []),  # nothing: bash then offers files
        (["no-such-verb", "--"], []),
    ],
)
def test_bash_completes(script: str, words: list[str], offered: list[str]) -> None:
    assert completed(script, *words) == offered


def test_every_shell_is_told_of_every_verb(script: str) -> None:
    fish, zsh = (completion_script(shell, cli.VERBS, cli.run) for shell in ("fish", "zsh"))
    assert "bashcompinit" in zsh
    assert zsh.endswith(script.split("\n", 1)[1])
    for verb in cli.VERBS:
        first = verb.split()[0]
        assert f"-n __fish_use_subcommand -a {first}" in fish
        assert f'"{verb}' in script
    assert "complete -c deixis -n '__fish_seen_subcommand_from caption' -l draw" in fish


@pytest.mark.parametrize("verb", sorted(cli.VERBS))
def test_a_verb_has_the_options_that_its_help_lists(verb: str) -> None:
    assert "--help" in verb_options(verb, cli.run) or verb == "train"


def test_the_option_wants_a_shell_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
    assert cli.run(["--completion", "bash"]) == 0
    assert "complete -o default -F _deixis deixis" in capsys.readouterr().out
