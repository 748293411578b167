"""What the pages for readers tell people to type works as written: commands, Python, requests and links.

Commands of every page are read by their verb's own options. On the pages in ``RUN`` they are carried out too, in order,
in a folder that has the files they speak of, with models that were trained there in seconds.
"""

from __future__ import annotations

import csv
import importlib
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image

from deixis import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src" / "deixis" / "methods").glob("*/README.md"),
    )
)
RUN = ("README.md", "docs/quick-start.md", "docs/own-data.md", "docs/api.md")
READ_ONLY = {"train", "serve", "study", "table", "proposals"}
"""Verbs that take long, wait for people, or want data or a kind of model that the folder does not have."""

CHEAPER = {"features": "--backbone tiny --proposals grid --boxes 20 --processes 1"}
"""What is added to a command so that seconds are enough for it."""

SMALL = "--model.words 16 --min-count 1 --threads 1 --quiet"
MODELS = {
    "runs/mine": "distributed-attention-small --phases.0.epochs 1 --phases.1.epochs 1 --model.hidden 24"
    " --model.attention 12",
    "runs/finder": "pos-scan-small --phases.0.epochs 1 --phases.1.epochs 1 --model.embed 24",
}


# What a page tells people to type -----------------------------------------------------------------------------------


def fenced(page: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page, each with its language ("" is none)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def python_of(page: str) -> list[str]:
    """The Python of a page."""
    return [block for language, block in fenced(page) if language == "python"]


def commands(page: str, program: str) -> list[list[str]]:
    """The arguments of every command of a page that calls the program."""
    return [words for language, block in fenced(page) if language in ("", "sh") for words in lines_of(block, program)]


def lines_of(block: str, program: str) -> list[list[str]]:
    """The arguments of every line that begins with the program; what follows a # is told to people only."""
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith(f"{program} ")]


def links(page: str) -> Iterator[str]:
    """Where the links and pictures of a page lead, but for other sites."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not urlsplit(target).scheme:
            yield target


def test_pages_have_what_is_tested() -> None:
    assert set(RUN) <= set(PAGES)
    for page in RUN:
        assert commands(page, "deixis")
        assert python_of(page)
    told = {found[0] for page in PAGES for words in commands(page, "deixis") if (found := cli.find_verb(words))}
    assert set(cli.VERBS) - told == set()


@pytest.mark.parametrize("page", PAGES)
def test_verbs_take_the_options(page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands(page, "deixis"):
        found = cli.find_verb(words)
        if found is None:
            assert words[0].startswith("--"), words
            assert cli.run(words) == 0
            continue
        module, name, _ = cli.VERBS[found[0]]
        verbs = importlib.import_module(f"deixis.commands.{module}")
        called = []

        @wraps(getattr(verbs, name))
        def instead(*args: Any, called: list[str] = called, verb: str = found[0], **options: Any) -> int:
            called.append(verb)
            return 0

        with monkeypatch.context() as patch:
            patch.setattr(verbs, name, instead)
            try:
                code = cli.run(words)
            except SystemExit as stop:
                pytest.fail(f"{page}: deixis {shlex.join(words)}: {stop.code}\n{capsys.readouterr().err}")
        assert (code, called) == (0, [found[0]]), f"{page}: deixis {shlex.join(words)}\n{capsys.readouterr().err}"


@pytest.mark.parametrize("page", PAGES)
def test_python_is_python(page: str) -> None:
    for text in python_of(page):
        compile(text, page, "exec")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in links(page):
        path, _, heading = target.partition("#")
        place = (ROOT / page).parent / path if path else ROOT / page
        assert place.exists(), f"{page} links to {target}"
        assert place.resolve().is_relative_to(ROOT), f"{page} links to {target}, which is not in the project"
        if heading:
            titles = re.findall(r"^#+ (.+)$", place.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles], target


def test_every_page_can_be_reached_from_the_first() -> None:
    seen: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in seen:
            seen.add(page)
            targets = (page.parent / target.partition("#")[0] for target in links(page.relative_to(ROOT).as_posix()))
            left += [target.resolve() for target in targets if target.suffix == ".md"]
    assert {ROOT / page for page in PAGES} <= seen


@pytest.mark.parametrize("page", PAGES)
def test_set_up_is_there(page: str) -> None:
    """Targets of make and extras of pip."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for words in commands(page, "make"):
        assert re.search(rf"^{re.escape(words[0])}:", makefile, re.MULTILINE), words
    text = (ROOT / page).read_text(encoding="utf-8")
    for named in re.findall(r"(?:deixis|\"\.)\[([\w,-]+)\]", text):
        assert set(named.split(",")) <= set(extras), f"{page}: [{named}]"


# What they do -------------------------------------------------------------------------------------------------------


def test_what_the_pages_tell_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test for all pages, because what they need takes longest to make."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Java: METEOR would take most of the time
    make_pictures()
    make_models(monkeypatch)
    done: list[list[str]] = []
    for page in RUN:
        names: dict[str, Any] = {"__name__": "page"}
        for language, block in fenced(page):
            if language == "python":
                exec(compile(block, page, "exec"), names)
            for words in lines_of(block, "deixis") if language in ("", "sh") else ():
                if words not in done:
                    carry_out(words, capsys)
                    done.append(words)
    answer_requests()


def make_pictures() -> None:
    """A photograph, a folder of photographs, and photographs with captions."""
    skimage = pytest.importorskip("skimage.data")
    pictures = {name: Image.fromarray(getattr(skimage, name)()) for name in ("astronaut", "chelsea", "coffee")}
    things = dict(zip(pictures, ("a woman in a suit", "a cat on a beach", "a cup and a spoon"), strict=True))
    Path("photos").mkdir()
    Path("my-photos").mkdir()
    pictures["astronaut"].resize((160, 160)).save("photo.jpg")
    for name in ("chelsea", "coffee"):
        pictures[name].resize((150, 100)).save(f"photos/{name}.jpg")
    rows = [["image", "caption", "split"]]
    for number in range(12):
        name, file = list(pictures)[number % 3], f"{number}.png"
        pictures[name].crop((4 * number, 0, 4 * number + 240, 240)).resize((80, 80)).save(f"my-photos/{file}")
        split = ("train", "train", "val", "test")[number // 3]
        rows += [[file, f"{things[name]} with a dog", split], [file, f"there is {things[name]}", split]]
    with Path("my-photos/captions.csv").open("w", encoding="utf-8", newline="") as file_of_captions:
        csv.writer(file_of_captions).writerows(rows)


def make_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A captioner and a finder, which are also those of the package, and predictions of a model."""
    from deixis.pipelines import models as pretrained

    do(f"features my-photos -o my.store {CHEAPER['features']} --quiet")
    for name, (run, recipe) in zip(
        (pretrained.DEFAULT_CAPTIONER, pretrained.DEFAULT_GROUNDER), MODELS.items(), strict=True
    ):
        do(f"train {recipe} --data my-photos --features my.store --out {run} {SMALL}")
        shutil.copytree(run, Path("package") / name)
    do("eval runs/mine --data my-photos --features my.store --out eval --quiet")
    shutil.copy("eval/captions.jsonl", "answers.jsonl")
    do("score answers.jsonl --reference my-photos --out theirs.json --quiet")
    monkeypatch.setattr(pretrained, "PACKAGE", Path("package").resolve())


def do(order: str) -> None:
    assert cli.run(shlex.split(order)) == 0, order


def carry_out(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command, unless it is only read; it must succeed and write the files that it names."""
    found = cli.find_verb(words)
    if found is None or found[0] in READ_ONLY:
        return
    code = cli.run([*words, *shlex.split(CHEAPER.get(found[0], ""))])
    assert code == 0, f"deixis {shlex.join(words)}: {capsys.readouterr().err}"
    for option, value in pairwise(words):
        if option in ("--draw", "--heat", "--out", "-o", "--branches"):
            assert Path(value).exists(), f"deixis {shlex.join(words)} wrote no {value}"


def answer_requests() -> None:
    """Every request of the page is answered, and the page names every route."""
    from starlette.testclient import TestClient

    from deixis.pipelines.models import load_captioner, load_grounder
    from deixis.serve.app import create_app
    from deixis.serve.engine import Engine

    page, photo = "docs/api.md", Path("photo.jpg").read_bytes()
    with TestClient(create_app(Engine([load_captioner(), load_grounder()]))) as client:
        asked = commands(page, "curl")
        assert asked
        for words in asked:
            address = urlsplit(words[-1])
            assert address.netloc == "127.0.0.1:8421"
            place = f"{address.path}?{address.query}"
            if "-F" in words:
                assert words[words.index("-F") + 1] == "image=@photo.jpg"
                answer = client.post(place, files={"image": ("photo.jpg", photo, "image/jpeg")})
            elif "--data-binary" in words:
                name, _, value = words[words.index("-H") + 1].partition(": ")
                answer = client.post(place, content=photo, headers={name: value})
            else:
                answer = client.get(place)
            assert answer.status_code == 200, f"{words}: {answer.text}"
        routes = set(client.get("/openapi.json").json()["paths"])
    told = re.findall(r"`(?:GET|POST) (/\S*)`", (ROOT / page).read_text(encoding="utf-8"))
    assert set(told) == {*routes, "/", "/openapi.json"}
