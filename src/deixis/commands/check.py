"""``deixis check``: check a caption against a photograph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.text import Text

from deixis.commands.console import AsJson, Device, Quiet, print_json, stderr_console, stdout_console
from deixis.commands.corpus import write_parts
from deixis.corpus.options import CorpusOptions
from deixis.pipelines.models import DEFAULT_GROUNDER

if TYPE_CHECKING:
    from deixis.pipelines.results import CheckResult


def check(
    photo: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")],
    caption: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CAPTION")] = "",
    *,
    model: str = DEFAULT_GROUNDER,
    draw: Path | None = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
    corpus: tyro.conf.OmitArgPrefixes[CorpusOptions] = CorpusOptions(),  # noqa: B008
) -> int:
    """Check a caption against a photograph: print the probability of each noun phrase and mark absent ones.

    For example: deixis check photo.jpg "a man riding a red bike" --draw checked.png

    Args:
        photo: the photograph or clip; with --parts a source of many with their captions (see docs/scale.md).
        caption: a sentence about it, from a person or a model.
        model: phrase grounder, a name of the package or a folder (see deixis models).
        draw: write a sheet with the heat map of each noun phrase (.png, .svg, .jpg).
        as_json: write the result to stdout as JSON.
    """
    console = stderr_console(quiet)
    if corpus != CorpusOptions():
        from deixis.corpus.work import CheckWork

        return write_parts(CheckWork(model, caption, device), [photo], corpus, console)
    with console.status("loading the model"):
        from deixis.pipelines.check import check as check_photo
        from deixis.pipelines.clip import open_source
        from deixis.pipelines.models import load_grounder

        opened = open_source(photo)
        _ = opened.image  # an unreadable file is an error before the model is loaded
        grounder = load_grounder(model, device)
    with console.status(f"checking {photo}"):
        result = check_photo(opened, caption, grounder)
    if draw is not None:
        _draw(result, draw)
    if as_json:
        print_json(result.to_dict(), indent=None)
    else:
        stdout = stdout_console()
        stdout.print(_marked(result), soft_wrap=True)
        for grounding in result.groundings:
            note = "  probably absent" if grounding in result.absent else ""
            note = f"  unknown word: {grounding.unknown_word}" if grounding.unknown_word else note
            stdout.print(f"  {grounding.score:4.0%}  {grounding.text}{note}", markup=False)
        if result.match is not None:
            stdout.print(f"  {result.match:4.0%}  the whole caption", markup=False)
    if draw is not None:
        console.print(f"drawn: {draw}", markup=False)
    return 0


def _marked(result: CheckResult) -> Text:
    """Return the caption's words; absent ones are red and between question marks."""
    absent = {at for grounding in result.absent for at in range(grounding.start, grounding.end)}
    line = Text()
    for at, word in enumerate(result.caption.words):
        opens, closes = at in absent and at - 1 not in absent, at in absent and at + 1 not in absent
        line.append(f"{'?' if opens else ''}{word}{'?' if closes else ''}", "bold red" if at in absent else "")
        line.append(" ")
    return line


def _draw(result: CheckResult, draw: Path) -> None:
    from deixis.show.drawing import save_drawing
    from deixis.show.heat import heat_sheet

    notes = [f"{one.score:.0%}{', probably absent' if one in result.absent else ''}" for one in result.groundings]
    save_drawing(heat_sheet(result.photograph(), result.groundings, result.caption.caption, notes), draw)
