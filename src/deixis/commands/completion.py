"""Shell completion scripts for verbs and options (``deixis --completion bash``)."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Collection, Sequence

from deixis.runs.recipes import RECIPES

SHELLS = ("bash", "zsh", "fish")

BASH = """\
# In ~/.bashrc: eval "$(deixis --completion bash)"
_deixis() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    case "$COMP_CWORD ${{COMP_WORDS[1]}}" in
        "1 "*) words="{first}" ;;
{seconds}
    esac
    case "$word" in -*)
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{options}
        esac ;;
    esac
    COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _deixis deixis
"""

ZSH = """\
# In ~/.zshrc: eval "$(deixis --completion zsh)"
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""


Run = Callable[[Sequence[str]], int]
"""Runner of a command line."""


def completion_script(shell: str, verbs: Collection[str], run: Run) -> str:
    """Return the completion script of one of :data:`SHELLS`; ``run`` prints the help of a verb."""
    options = {verb: verb_options(verb, run) for verb in verbs}
    if shell == "fish":
        return _fish(options)
    script = BASH.format(
        first=" ".join(dict.fromkeys(verb.split()[0] for verb in verbs)),
        seconds=_cases(8, {f"2 {verb}": words for verb, words in second_words(verbs).items()}),
        options=_cases(12, {verb if " " in verb else f"{verb} ": words for verb, words in options.items()}),
    )
    return script if shell == "bash" else ZSH + script.split("\n", 1)[1]


def _cases(indent: int, words: dict[str, list[str]]) -> str:
    return "\n".join(f'{" " * indent}"{start}"*) words="{" ".join(each)}" ;;' for start, each in words.items())


def verb_options(verb: str, run: Run) -> list[str]:
    """List the options in a verb's help."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        run([*verb.split(), "--help"])
    return list(dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", told.getvalue())))


def second_words(verbs: Collection[str]) -> dict[str, list[str]]:
    """Map first words to second words: of verbs with two words, and the recipes of ``train``."""
    found = {"train": list(RECIPES)}
    for verb in verbs:
        first, *second = verb.split()
        if second:
            found.setdefault(first, []).extend(second)
    return found


def _fish(options: dict[str, list[str]]) -> str:
    lines = ["# In ~/.config/fish/completions/deixis.fish: deixis --completion fish | source"]
    for verb, found in options.items():
        first = verb.split()[0]
        lines.append(f"complete -c deixis -n __fish_use_subcommand -a {first}")
        seen = f"complete -c deixis -n '__fish_seen_subcommand_from {first}'"
        lines += [f"{seen} -a '{word}'" for word in second_words(options).get(first, ())]
        lines += [f"{seen} -l {option.removeprefix('--')}" for option in found]
    return "\n".join(dict.fromkeys(lines)) + "\n"
