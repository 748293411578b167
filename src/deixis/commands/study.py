"""``deixis study``: which of two groundings do people find better?"""

from __future__ import annotations

import json
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from deixis.commands.answers import answers
from deixis.data import Skipped
from deixis.errors import DeixisError, UsageError
from deixis.exports import look_up, read
from deixis.exports.picture import Picture
from deixis.images import image_size
from deixis.photographs import Photographs
from deixis.study.book import Book, Plan
from deixis.study.pairs import Pair, match_pairs
from deixis.study.results import Results, summarise

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

LISTED = 10
ASKEW = 0.02
"""By how much the shape of a photograph may differ from what the predictions say, as a share."""


def study(
    predictions: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="A B")] = (),
    *,
    images: Path | None = None,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("study.sqlite"),
    results: Path | None = None,
    images_each: int = 25,
    raters_each: int = 2,
    seed: int = 0,
    host: str = "127.0.0.1",
    port: int = 8422,
    browse: Switch = False,
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Ask people which of two groundings of a word is better, on a page; then count what they said.

    A and B are predictions for the same photographs. A word that both have a box for is shown with both boxes side by
    side, without telling whose is whose: A better, B better, or about equal. Choices are kept at once; the same command
    goes on with a study, and raters go on under their names.

    For example: deixis study da/captions.jsonl updown/captions.jsonl --images photos --out study.sqlite

    Then: deixis study --results study.sqlite

    Args:
        predictions: two files of predictions, or exports of them.
        images: the folder of the photographs.
        out: the file of the study, a SQLite data base; it is gone on with if it is there.
        results: the file of a study whose results are wanted; nothing is served.
        images_each: how many photographs a rater is given at a time; 0 gives all.
        raters_each: how many raters a photograph is given to before others are.
        seed: decides on orders and sides.
        host: the address to listen on; 0.0.0.0 lets others in your network take part.
        port: the port to listen on; 0 takes a free one.
        browse: open the page in a browser.
        as_json: write the results (or, when serving, the address) to stdout as JSON.
        quiet: say nothing.
    """
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    if results is not None:
        if predictions:
            raise UsageError("--results reads a study that was made; leave the predictions out.")
        return _results(Book(results), talk, as_json)
    if len(predictions) != 2 or images is None:
        raise UsageError("name two files of predictions, A and B, and the folder of the photographs with --images.")
    if images_each < 0 or raters_each < 1:
        raise UsageError("--images-each must not be negative, and --raters-each is at least 1.")
    plan = Plan(images_each=images_each, raters_each=raters_each, seed=seed)
    book, files = _begin(*predictions, images=images, out=out, plan=plan, talk=talk)
    _serve(book, files, (host, port), talk, browse, as_json)
    return 0


def _begin(a: Path, b: Path, images: Path, out: Path, plan: Plan, talk: Console) -> tuple[Book, dict[str, Path]]:
    """The study and the files of its photographs, by image."""
    skipped: list[Skipped] = []
    photographs = Photographs(images)
    with talk.status(escape(f"reading {a} and {b}")) as status:
        ours, theirs = (look_up(read(path, skipped), photographs, skipped) for path in (a, b))
        status.update("finding the words that both have a box for")
        pairs, files = _shown(match_pairs(ours, theirs, talk.quiet), images, skipped)
    for note in skipped[:LISTED]:
        talk.print(f"left out: {note}", markup=False)
    if len(skipped) > LISTED:
        talk.print(f"and {len(skipped) - LISTED:,} more left out")
    unseen = sum(not picture.file for picture in ours)
    if unseen:
        talk.print(f"{unseen:,} images of {a} are not in {images}", markup=False)
    models = _model(ours), _model(theirs)
    names = models if all(models) and models[0] != models[1] else (str(a), str(b))
    book = Book.begin(out, replace(plan, a=names[0], b=names[1]), pairs)
    about = f"{len(pairs):,} words of {len(files):,} photographs, {names[0]} against {names[1]}"
    talk.print(f"{out}: {about}", markup=False)
    return book, files


def _shown(pairs: Sequence[Pair], images: Path, skipped: list[Skipped]) -> tuple[list[Pair], dict[str, Path]]:
    """The pairs whose photographs can be opened and have the shape that the predictions say."""
    files: dict[str, Path] = {}
    bad: set[str] = set()
    for pair in pairs:
        if pair.image in files or pair.image in bad:
            continue
        path = images / pair.image
        try:
            width, height = image_size(path)
            if abs(width * pair.height / (height * pair.width) - 1) > ASKEW:
                raise DeixisError(f"{path} has {width} x {height} pixels, not {pair.width} x {pair.height}")
            files[pair.image] = path
        except DeixisError as error:
            bad.add(pair.image)
            skipped.append(Skipped(pair.image, str(error)))
    return [pair for pair in pairs if pair.image in files], files


def _model(pictures: Sequence[Picture]) -> str:
    """The model that the predictions are of; empty where they do not tell, or tell of several."""
    names = {caption.model for picture in pictures for caption in picture.captions}
    names |= {answer.model for picture in pictures for answer in picture.answers}
    return names.pop() if len(names) == 1 else ""


def _serve(
    book: Book, files: dict[str, Path], place: tuple[str, int], talk: Console, browse: bool, as_json: bool
) -> None:
    try:
        import uvicorn

        from deixis.study.app import create_app
    except ModuleNotFoundError as error:
        raise DeixisError(
            f"{error.name} is not installed; pip install 'deixis[serve]' brings what this needs."
        ) from None
    from deixis.serve.listening import LOOPBACK, address, listen, run

    host, port = place
    ear = listen(host, port)
    where = address(host, ear)
    if host not in LOOPBACK:
        talk.print("everyone who can reach this machine can take part; there is no password.", markup=False)
    talk.print(f"ready: {where}; Ctrl-C ends it, and nothing is lost.", markup=False)
    if as_json:
        print(json.dumps({"url": where, "study": str(book.path)}), flush=True)
    if browse:
        threading.Timer(0.5, webbrowser.open, [where]).start()
    app = create_app(book, files)
    run(uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)), ear)
    talk.print(f"stopped; 'deixis study --results {book.path}' counts what was said.", markup=False)


# Results ------------------------------------------------------------------------------------------------------------


def _results(book: Book, talk: Console, as_json: bool) -> int:
    found = summarise(book.ratings())
    if as_json:
        about = {"study": str(book.path), "a": book.plan.a, "b": book.plan.b, "words_in_study": book.words()}
        print(
            json.dumps({**about, "results": None if found is None else found.to_json()}, ensure_ascii=False, indent=2)
        )
    if found is None:
        talk.print(f"{book.path}: nothing is rated yet.", markup=False)
        return 0
    if not as_json:
        _tell(found, book, answers(talk.quiet))
    return 0


def _tell(found: Results, book: Book, said: Console) -> None:
    plan = book.plan
    table = Table("", Column("%", justify="right"), Column("ratings", justify="right"), box=None, pad_edge=False)
    for name, share in (
        ("about equal", found.equal),
        (f"{plan.a} is better", found.a),
        (f"{plan.b} is better", found.b),
    ):
        table.add_row(escape(name), f"{share:.1%}"[:-1], f"{round(share * found.ratings):,}")
    said.print(table)
    low, high = found.interval
    difference = f"{100 * found.difference:+.1f} points, 95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
    said.print(f"\n{plan.b} over {plan.a}: {difference}", markup=False)
    agreed = found.agreement
    if agreed is None:
        said.print("agreement: no word has two raters yet")
    else:
        shares = f"{agreed.same:.1%} the same, {agreed.opposite:.1%} opposite, {agreed.ambiguous:.1%} ambiguous"
        said.print(f"agreement of {agreed.pairs:,} pairs of ratings: {shares}")
        kappa = "not defined, all ratings are the same" if agreed.kappa is None else f"{agreed.kappa:.2f}"
        said.print(f"Fleiss' kappa: {kappa}")
    if found.left is not None:
        said.print(f"left side, where a side was preferred: {found.left:.1%}")
    asked = book.assigned()
    who = ", ".join(f"{name} ({done:,} of {asked[name]:,})" for name, done in found.raters.items())
    said.print(
        f"{found.ratings:,} ratings of {found.words:,} words in {found.images:,} photographs by {who}", markup=False
    )
