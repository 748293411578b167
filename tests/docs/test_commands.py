"""Commands, Python examples, HTTP requests and links of the documentation work as written.

The options of every command are parsed. On the pages in ``RUN`` every command is run, in order, in a folder with the
files that the pages name. Commands without ``--model`` use the models of the package. Other models are trained by the
pages' own commands, with small sizes and features.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from PIL import Image

from deixis import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "experiments").rglob("*.md"),
    )
)
RUN = (
    "README.md",
    "docs/quick-start.md",
    "docs/own-data.md",
    "docs/api.md",
    "docs/pipeline.md",
    "src/deixis/methods/updown/README.md",
    "src/deixis/methods/scan/README.md",
    "src/deixis/methods/reir/README.md",
    "src/deixis/methods/albef/README.md",
    "docs/exports.md",
)
SERVERS = ("serve", "study")
"""Verbs that run until a signal."""

CHEAPER = {"features": "--backbone tiny --proposals grid --boxes 20 --processes 1"}
"""Options that are added to the commands of a verb, for speed."""

SMALL = {
    "updown": "--model.words 16 --model.hidden 24 --model.attention 12",
    "distributed-attention": "--model.words 16 --model.hidden 24 --model.attention 12",
    "pos-scan": "--model.words 16 --model.embed 24",
    "reir": "",
    "albef": "",
    "amc": "",
}
"""Options that are added to ``deixis train``, by the begin of the recipe's name, for speed."""


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
    assert all(python_of(page) for page in ("README.md", "docs/quick-start.md", "docs/own-data.md", "docs/api.md"))
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


# What the commands do -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands_and_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test for all pages, because later pages use what earlier ones write."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Java: METEOR would take most of the time
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path / "cache"))
    write_photographs()
    write_predictions()
    shutil.copytree(ROOT / "experiments" / "flickr8k-entities", "experiments/flickr8k-entities")
    shutil.copytree(ROOT / "docs", "docs")
    done: list[list[str]] = []
    for page in RUN:
        names: dict[str, Any] = {"__name__": "page"}
        for language, block in fenced(page):
            if language == "python":
                exec(compile(block, page, "exec"), names)
            for words in lines_of(block, "deixis") if language in ("", "sh") else ():
                if words not in done:
                    run_command(words, capsys)
                    done.append(words)
    assert Path("docs/results.md").read_bytes() == (ROOT / "docs" / "results.md").read_bytes()  # by deixis table
    check_requests()


def write_photographs() -> None:
    """A photograph, a folder of photographs, photographs with captions, and a small Flickr30k Entities."""
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
    shutil.copytree("my-photos", "more-photos")
    for root in (Path("flickr30k"), Path("path/to/flickr30k-entities")):
        for folder in ("Sentences", "Annotations", "flickr30k-images"):
            (root / folder).mkdir(parents=True)
        pictures["coffee"].resize((100, 50)).save(root / "flickr30k-images" / "7.jpg")
        (root / "Sentences" / "7.txt").write_text("[/EN#1/other A cup] stands on [/EN#2/other a table] .\n")
        (root / "Annotations" / "7.xml").write_text(XML)
        for split in ("train", "val", "test"):
            (root / f"{split}.txt").write_text("7\n")


XML = """<annotation><filename>7.jpg</filename><size><width>100</width><height>50</height><depth>3</depth></size>
<object><name>1</name><bndbox><xmin>20</xmin><ymin>5</ymin><xmax>60</xmax><ymax>40</ymax></bndbox></object>
<object><name>2</name><bndbox><xmin>1</xmin><ymin>20</ymin><xmax>100</xmax><ymax>50</ymax></bndbox></object>
</annotation>"""


def write_predictions() -> None:
    """Captions of another model for the test split, their scores, captions of two models, and phrases of a grounder."""
    write_captions("theirs.jsonl", {f"{number}.png": "a woman on a beach" for number in (9, 10, 11)}, (80, 80))
    run("score theirs.jsonl --reference my-photos --out theirs.json --quiet")
    write_captions("answers.jsonl", {f"{number}.png": "a cat with a dog" for number in (9, 10, 11)}, (80, 80))
    for model in ("da", "updown"):
        Path(model).mkdir()
        sentences = {"chelsea.jpg": "a cat sits", "coffee.jpg": "a cup stands"}
        write_captions(f"{model}/captions.jsonl", sentences, (150, 100), 40.0 if model == "da" else 80.0)
    phrase = {"image": "7", "phrase": "A cup", "caption": 0, "start": 0, "box": [19, 4, 60, 40], "score": 0.9}
    Path("runs/reir/eval-test").mkdir(parents=True)
    Path("runs/reir/eval-test/phrases.jsonl").write_text(json.dumps(phrase) + "\n")


def write_captions(file: str, sentences: dict[str, str], size: tuple[int, int], right: float = 40.0) -> None:
    """Grounded captions with a box for the first noun."""
    from deixis.types import GroundedCaption, Grounding

    lines = []
    for image, text in sentences.items():
        words = tuple(text.split())
        noun = Grounding(" ".join(words[:2]), (5.0, 5.0, right, 60.0), 0.9, start=0, end=2, head=1)
        lines.append(json.dumps(GroundedCaption(words, (noun,), None, image, *size, file).to_json()))
    Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(command: str) -> None:
    assert cli.run(shlex.split(command)) == 0, command


def run_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command; it must succeed and write the files that it names."""
    found = cli.find_verb(words)
    verb = found[0] if found else ""
    added = shlex.split(CHEAPER.get(verb, ""))
    if verb == "train":
        (small,) = (options for name, options in SMALL.items() if words[1].startswith(name))
        added = [*shlex.split(small), "--min-count", "1", "--threads", "1", "--quiet"]
    if verb in SERVERS:
        run_server(words)
        return
    code = cli.run([*words, *added])
    assert code == 0, f"deixis {shlex.join(words)}: {capsys.readouterr().err}"
    for option, value in pairwise(words):
        if option in ("--draw", "--heat", "--out", "-o", "--branches"):
            assert Path(value).exists(), f"deixis {shlex.join(words)} wrote no {value}"


def run_server(words: list[str]) -> None:
    """Start a server, request its page and stop it with SIGTERM."""
    without_port = [word for word in words if word not in ("--port", "8421")]
    command = [sys.executable, "-m", "deixis", *without_port, "--port", "0", "--json"]
    quiet = {**os.environ, "BROWSER": "true"}  # --browse runs this program
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet) as server:
        assert server.stdout is not None
        try:
            ready = json.loads(server.stdout.readline())
            with urlopen(ready["url"], timeout=30) as page:
                assert page.status == 200
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0, words
        finally:
            server.kill()


def check_requests() -> None:
    """Every request of the page is answered, and the page names every route."""
    from starlette.testclient import TestClient

    from deixis.pipelines.models import load_captioner, load_grounder
    from deixis.serve.app import create_app
    from deixis.serve.engine import Engine

    page, photo = "docs/api.md", Path("photo.jpg").read_bytes()
    with TestClient(
        create_app(Engine([load_captioner(), load_grounder()])), base_url="http://127.0.0.1:8421"
    ) as client:
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
