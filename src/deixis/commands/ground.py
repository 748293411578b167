"""``deixis ground``: ground phrases in a photograph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.table import Column, Table

from deixis.commands.console import AsJson, Device, Quiet, print_json, stderr_console, stdout_console
from deixis.commands.corpus import write_parts
from deixis.corpus.options import CorpusOptions
from deixis.errors import UsageError
from deixis.pipelines.models import DEFAULT_GROUNDER
from deixis.types import SCHEMA, Grounding, HeatPlace, Place

if TYPE_CHECKING:
    from deixis.pipelines.photo import Photo


def ground(
    photo: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO")],
    phrases: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHRASE ...")] = (),
    *,
    model: str = DEFAULT_GROUNDER,
    caption: str = "",
    place: Literal[Place, HeatPlace] | None = None,
    draw: Path | None = None,
    heat: Path | None = None,
    against: tuple[str, ...] = (),
    words: Path | None = None,
    min_score: float = 0.0,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
    corpus: tyro.conf.OmitArgPrefixes[CorpusOptions] = CorpusOptions(),  # noqa: B008
) -> int:
    """Ground phrases in a photograph: a box for each, and the probability that it is present.

    For example: deixis ground photo.jpg "a man in a blue shirt" "a dog" --draw found.png

    Args:
        photo: the photograph or clip; with --parts a source of many (see docs/scale.md), whose captions are grounded
            where no phrase is given.
        phrases: what to find; each phrase is grounded by itself.
        model: phrase grounder, a name of the package or a folder (see deixis models).
        caption: a sentence instead of phrases; its noun phrases are grounded together.
        place: box rule: attention or vote for models that attend to regions; heat, alpha or threshold for heat maps.
        draw: write the photograph with the boxes (.png, .svg, .jpg).
        heat: write a sheet with the heat map of each phrase.
        against: other models whose heat maps, or boxes, the sheet of --heat shows beside those of the model; for
            --words, captioners and matchers.
        words: write the attention of the nouns of --caption to the regions, a row for each model of --against, or for
            the model.
        min_score: leave out phrases with a smaller score; below .5 a phrase is probably absent.
        as_json: write a line of JSON for each phrase to stdout.
    """
    if corpus != CorpusOptions():
        from deixis.corpus.work import GroundWork

        if caption or draw or heat or words:
            raise UsageError(
                "--caption, --draw, --heat and --words are for one photograph. Remove them, or remove --parts."
            )
        return write_parts(GroundWork(model, phrases, place, device), [photo], corpus, stderr_console(quiet))
    if bool(phrases) == bool(caption.strip()):
        raise UsageError("no phrase is given. Give phrases after the photograph, or a sentence with --caption.")
    if any(not phrase.strip() for phrase in phrases):
        raise UsageError('a phrase is empty. Write what to find, for example "a dog".')
    if against and heat is None and words is None:
        raise UsageError("--against adds models to a picture. Name its file with --heat or --words.")
    if words is not None and not caption:
        raise UsageError("--words shows the attention of the words of a sentence. Give it with --caption.")
    console = stderr_console(quiet)
    with console.status("loading the model"):
        from deixis.pipelines.clip import open_source
        from deixis.pipelines.ground import ground as ground_photo
        from deixis.pipelines.models import load_grounder
        from deixis.pipelines.results import GroundResult

        opened = open_source(photo)
        _ = opened.image  # an unreadable file is an error before the model is loaded
        grounder = load_grounder(model, device)
    with console.status(f"grounding in {photo}"):
        found = ground_photo(opened, caption or list(phrases), grounder, place)
    kept = [one for one in found if one.score >= min_score]
    result = GroundResult(
        opened.source if kept and kept[0].track else opened.image, tuple(kept), grounder.name, grounder.hash
    )
    if draw is not None:
        result.save(draw)
    if heat is not None:
        from deixis.show.drawing import save_drawing
        from deixis.show.heat import heat_comparison, heat_sheet

        sheets = [(grounder.name, found)]
        for other in against:
            with console.status(f"grounding with {other}"):
                loaded = load_grounder(other, device)
                sheets.append((loaded.name, ground_photo(opened, caption or list(phrases), loaded)))
        drawn = heat_comparison(opened.image, sheets) if against else heat_sheet(opened.image, kept)
        save_drawing(drawn, heat)
    if words is not None:
        with console.status("reading the attention of words"):
            _draw_words(opened, caption, against or (model,), device, words)
    if as_json:
        about = {"model_hash": grounder.hash, "schema": SCHEMA}
        for one in kept:
            print_json({"image": str(photo), **one.to_phrase_json(grounder.name), **about}, indent=None)
    elif kept:
        stdout_console().print(_table(kept))
    if len(kept) < len(found):
        low = ", ".join(f"{one.text} ({one.score:.2f})" for one in found if one.score < min_score)
        console.print(f"left out, with a score below {min_score:g}: {low}", markup=False)
    for file in (draw, heat, words):
        if file is not None:
            console.print(f"drawn: {file}", markup=False)
    return 0


def _draw_words(photo: Photo, caption: str, models: Sequence[str], device: str, out: Path) -> None:
    """Draw the attention of the nouns of a caption in several models."""
    from deixis.pipelines.models import load_model
    from deixis.pipelines.word_attention import attend_words
    from deixis.show.drawing import save_drawing
    from deixis.show.panels import draw_word_attention

    found = [attend_words(photo, caption, load_model(model, device)) for model in models]
    rows = [(one.model, one.words, one.weights, one.boxes) for one in found]
    save_drawing(draw_word_attention(photo.image, caption, rows), out)


def _table(found: Sequence[Grounding]) -> Table:
    from deixis.pipelines.results import MIN_PRESENCE

    numbers = (Column(name, justify="right", no_wrap=True) for name in ("score", "x1", "y1", "x2", "y2"))
    table = Table(Column("phrase", min_width=8), *numbers, "", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for one in found:
        note = "" if one.score >= MIN_PRESENCE else "probably absent"
        note = f"unknown word: {one.unknown_word}" if one.unknown_word else note
        table.add_row(one.text, f"{one.score:.2f}", *(f"{x:.0f}" for x in one.box), note)
    return table
