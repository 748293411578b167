"""The page of a study: over HTTP, and in a browser where there is one."""

import http.client
import json
import re
import shutil
import threading
import time

import pytest

from deixis.study.database import Plan, StudyDatabase
from deixis.study.pairs import Pair

uvicorn = pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")

from PIL import Image  # noqa: E402

from deixis.study.app import create_app  # noqa: E402

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


class Site:
    """A study of two photographs with two words each, on the loopback."""

    def __init__(self, folder):
        files = {}
        for name, colour in (("1.jpg", "olive"), ("2.bmp", "navy")):
            files[name] = folder / name
            Image.new("RGB", (60, 40), colour).save(files[name])
        pairs = [
            Pair(image, word, 60, 40, (1.0, 2.0, 30.0, 20.0), (40.0, 2.0, 59.0, 38.0))
            for image in files
            for word in ("dog", "<b>hat</b>")
        ]
        self.database = StudyDatabase.create_or_open(
            folder / "study.sqlite", Plan("da", "updown", images_each=1), pairs
        )
        self.server = uvicorn.Server(uvicorn.Config(create_app(self.database, files), port=0, log_level="warning"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        page = self.ask("/")[1].decode()
        self.token = re.search(r'name="deixis-token" content="([^"]+)"', page)[1]

    def ask(self, path, body=None):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json", "X-Deixis-Token": self.token}
        line.request("GET" if body is None else "POST", path, content, headers)
        answer = line.getresponse()
        told = answer.read()
        line.close()
        return answer, told

    def json(self, path, body=None):
        answer, told = self.ask(path, body)
        return answer.status, json.loads(told)


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.server.should_exit = True
    site.thread.join(timeout=30)
    assert not site.thread.is_alive()


def test_a_rater_goes_through_a_study(site):
    code, status = site.json("/v1/raters", {"name": "Ann"})
    assert code == 200
    assert (status["done"], status["total"], status["more"]) == (0, 2, True)
    assert set(status["turn"]) == {"item", "word", "width", "height", "left", "right"}  # not whose box is whose
    rater, item = status["rater"], status["turn"]["item"]
    assert status["ahead"] == item + 1
    _, status = site.json(f"/v1/raters/{rater}/ratings", {"item": item, "choice": "equal"})
    assert (status["done"], status["turn"]["item"]) == (1, item + 1)
    _, status = site.json(f"/v1/raters/{rater}/undo", {})
    assert status["done"] == 0
    for _ in range(2):
        _, status = site.json(f"/v1/raters/{rater}/ratings", {"item": status["turn"]["item"], "choice": "left"})
    assert status["turn"] is None
    _, status = site.json(f"/v1/raters/{rater}/more", {})
    assert (status["done"], status["total"], status["more"]) == (2, 4, False)
    assert site.json(f"/v1/raters/{rater}")[1] == status
    assert [rating.rater for rating in site.database.ratings()] == ["Ann", "Ann"]


@pytest.mark.parametrize("item", [1, 3])
def test_photographs_are_pictures_that_browsers_show(site, item):
    answer, content = site.ask(f"/v1/photographs/{item}")
    assert answer.status == 200
    assert answer.headers["content-type"] == "image/jpeg"  # the bitmap too
    assert content.startswith(b"\xff\xd8")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/photographs/5", None, 404),
        ("/v1/photographs/0", None, 404),
        ("/v1/photographs/99999999999999999999", None, 404),
        ("/v1/photographs/..%2fstudy.sqlite", None, 404),
        ("/v1/photographs/1.jpg", None, 422),
        ("/../study.sqlite", None, 404),
        ("/v1/raters/7", None, 404),
        ("/v1/raters/7/undo", {}, 404),
        ("/v1/raters/7/more", {}, 404),
        ("/v1/raters/1/ratings", {"item": 1, "choice": "left"}, 404),
        ("/v1/raters/1/ratings", {"item": 1, "choice": "a"}, 422),
        ("/v1/raters", {"name": ""}, 422),
        ("/v1/raters", {"name": "\x00"}, 422),
        ("/v1/raters", {"name": "x" * 61}, 422),
        ("/v1/raters", {}, 422),
        ("/docs", None, 404),
    ],
)
def test_what_cannot_be_answered(site, path, body, status):
    answer, _ = site.ask(path, body)
    assert answer.status == status
    assert site.database.ratings() == []


def test_a_photograph_that_has_gone_is_told(site):
    (site.database.path.parent / "1.jpg").unlink()
    status, told = site.json("/v1/photographs/1")
    assert status == 404
    assert "The photograph cannot be read" in told["detail"]


def test_the_page_loads_nothing_from_elsewhere(site):
    for path in ("/", "/page.css", "/page.js"):
        answer, content = site.ask(path)
        assert answer.status == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        named = set(re.findall(rb"""[a-z]+://[^'"\s)]+""", content)) | set(re.findall(rb"@import|url\(", content))
        assert named <= {b"http://www.w3.org/2000/svg"}


@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
def test_a_rater_at_the_keyboard(site):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 700})
        trouble = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(site.url)
        page.fill("#name", "Ann")
        page.keyboard.press("Enter")
        expect = playwright.expect
        expect.set_options(timeout=60_000)  # a busy machine is no failure
        expect(page.locator("#count")).to_have_text("1 of 2")
        expect(page.locator("#word")).to_have_text("dog")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#word")).to_have_text("<b>hat</b>")  # text, never markup
        page.keyboard.press("Backspace")
        expect(page.locator("#word")).to_have_text("dog")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#count")).to_have_text("2 of 2")
        page.reload()
        expect(page.locator("#count")).to_have_text("2 of 2")
        page.keyboard.press("Space")
        expect(page.locator("#summary")).to_contain_text("rated 2 words")
        page.click("#more")
        expect(page.locator("#count")).to_have_text("3 of 4")
        page.click('figure[data-side="left"]')
        expect(page.locator("#count")).to_have_text("4 of 4")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#summary")).to_contain_text("All photographs are rated")
        expect(page.locator("#more")).to_be_hidden()
        browser.close()
    assert trouble == []
    verdicts = [(rating.verdict, rating.a_left) for rating in site.database.ratings()]
    right = "b" if verdicts[0][1] else "a"
    left = "a" if verdicts[2][1] else "b"
    assert [verdict for verdict, _ in verdicts] == [right, "equal", left, "equal"]
