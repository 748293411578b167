"""The command line as a whole: the map, examples, unknown verbs, exit codes."""

import importlib
import re
import shlex
import subprocess
import sys
from collections import Counter
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from deixis import DeixisError, __version__, cli


def test_alone_it_shows_the_map(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for verb in cli.VERBS:
        assert sum(line.startswith(f"  {verb} ") for line in lines) == 1
    assert Counter(verb for group in cli.GROUPS.values() for verb in group).most_common(1)[0][1] == 1


def test_the_map_fits_a_narrow_terminal() -> None:
    narrow = cli.usage(46)
    assert all(len(line) <= 47 for line in narrow.split("for example")[0].splitlines())
    assert " ".join(cli.VERBS["caption"][2].split()) in " ".join(narrow.split())


def test_the_map_waits_for_nothing() -> None:
    """Neither for what verbs need, nor for what reads their options."""
    code = (
        "import sys, deixis.cli as c; c.run(['--help']); print({'torch', 'numpy', 'tyro', 'rich'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "set()"


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = "import deixis.cli as c; c.main(['--help'])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def examples() -> dict[str, list[str]]:
    """Verb -> the example of its help."""
    found = {}
    for verb, (module, _, _) in cli.VERBS.items():
        source = Path(cli.__file__).parent / "commands" / f"{module}.py"
        told = re.findall(rf"For example: (deixis {verb}\b.*)", source.read_text(encoding="utf-8"))
        found[verb] = told
    return found


@pytest.mark.parametrize("verb", sorted(cli.VERBS))
def test_every_verb_has_an_example_that_its_options_take(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = examples()[verb]
    taken: list[str] = taken_by(monkeypatch, shlex.split(example)[1:])
    assert taken == [verb]


@pytest.mark.parametrize("example", cli.EXAMPLES.splitlines())
def test_the_examples_of_the_map_are_taken(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(example)[1:]
    assert taken_by(monkeypatch, words) == [words[0]]


def taken_by(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> list[str]:
    """The verb whose function is called with these words, its options read but nothing done."""
    called = []
    found = cli.find_verb(words)
    assert found is not None
    module, name, _ = cli.VERBS[found[0]]
    commands = importlib.import_module(f"deixis.commands.{module}")

    @wraps(getattr(commands, name))
    def instead(*args: Any, **options: Any) -> int:
        called.append(found[0])
        return 0

    monkeypatch.setattr(commands, name, instead)
    assert cli.run(words) == 0
    return called


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["featurs"], "deixis features"),
        (["data", "chek"], "deixis data check"),
        (["data"], "data check, data show"),
        (["zzzz"], "deixis --help"),
        (["--vresion"], "deixis --version"),
    ],
)
def test_an_unknown_verb_suggests_the_near_one(args: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(args) == 2
    said = capsys.readouterr()
    assert hint in said.err
    assert said.out == ""


@pytest.mark.parametrize("verb", sorted(cli.VERBS))
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = cli.run([*verb.split(), "--help"])
    except SystemExit as stop:
        code = stop.code
    assert code == 0
    out = capsys.readouterr().out
    assert "deixis " + verb in out.replace("\n", " ")
    assert "{None}" not in out


def test_a_failure_is_a_sentence_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import deixis.commands.data

    def fail() -> None:
        raise DeixisError("x.jpg is broken; replace it.")

    monkeypatch.setattr(deixis.commands.data, "check", fail)
    assert cli.run(["data", "check"]) == 1
    said = capsys.readouterr()
    assert said.err == "deixis data check: x.jpg is broken; replace it.\n"
    assert said.out == ""


def test_wrong_use_is_exit_code_2_and_suggests_the_near_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.run(["caption", "photo.jpg", "--modle", "deixis-base"])
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert "--model" in said.err
    assert said.out == ""


@pytest.mark.parametrize("verb", ["caption", "data check", "train"])
def test_help_with_a_verb_shows_the_help_of_that_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for args in (["help", *verb.split()], [*verb.split(), "--help"]):
        try:
            code: object = cli.run(args)
        except SystemExit as stop:
            code = stop.code
        assert code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != cli.usage() + "\n"


def test_help_with_an_unknown_verb_suggests_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help", "capton"]) == 2
    assert "Did you mean 'deixis caption'?" in capsys.readouterr().err
