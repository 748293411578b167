"""The command line as a whole: the map, unknown verbs, exit codes."""

import pytest

from deixis import DeixisError, __version__, cli


def test_alone_it_shows_the_map(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in cli.VERBS)


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


def test_wrong_use_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.run(["data", "check", "--no-such-option"])
    assert stop.value.code == 2
