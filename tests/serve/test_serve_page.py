"""The page in a real browser: uploads, phrases and their boxes, downloads, errors; nothing is loaded from elsewhere."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from serving import BYTES, Client, Models, png

from deixis import GroundedCaption
from deixis.show.draw import colour
from small_clips import write_clip

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, [os.environ.get("DEIXIS_BROWSER"), *map(shutil.which, NAMES)]), None)

expect.set_options(timeout=60_000)  # a busy machine is no failure
LIT = re.compile(r"\bon\b")

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium was found, so the page was not tried: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # no sandbox: the tests may run as root, and open nothing but our own page
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, server: Client) -> Iterator[Page]:
    yield from opened(browser, server, width=1280, height=860)


@pytest.fixture
def phone(browser: Browser, server: Client) -> Iterator[Page]:
    yield from opened(browser, server, width=360, height=740, touch=True)


def opened(browser: Browser, server: Client, width: int, height: int, touch: bool = False) -> Iterator[Page]:
    """A page that must neither complain nor ask anyone else for anything."""
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch)
    page = context.new_page()
    page.set_default_timeout(60_000)
    foreign, errors = list[str](), list[str]()
    page.on("request", lambda request: None if ours(request.url, server) else foreign.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
    page.goto(server.url)
    page.wait_for_selector("body.ready")
    yield page
    context.close()
    assert foreign == []
    assert errors == []


def ours(url: str, server: Client) -> bool:
    return url.startswith((server.url, "blob:" + server.url, "data:"))


def choose(page: Page, photo: bytes | None = None, name: str = "photo.png") -> None:
    page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": photo or png()})


def captioned(page: Page) -> None:
    choose(page)
    expect(page.locator(".sentence")).to_have_text("A dog runs after a red ball.")


def word(page: Page, text: str) -> str:
    """The selector of a noun phrase of the caption."""
    return f".sentence button:text-is('{text}')"


def box(page: Page, text: str) -> str:
    key = page.locator(word(page, text)).get_attribute("data-key")
    return f".boxes g[data-key={key}]"


# A photograph comes in ----------------------------------------------------------------------------------------------


def test_an_upload_gives_a_sentence_whose_phrases_have_the_colours_of_their_boxes(page: Page) -> None:
    captioned(page)
    expect(page.locator(".stage img")).to_have_attribute("alt", "A dog runs after a red ball.")
    expect(page.locator("#status")).to_have_text(
        "A dog runs after a red ball. Low confidence: the sentence would be about as likely for a blank image."
    )  # for screen readers
    phrases = page.locator(".sentence button")
    assert phrases.all_inner_texts() == ["dog", "red ball"]
    for index in range(phrases.count()):
        key = phrases.nth(index).get_attribute("data-key")
        assert key == f"w{index}"
        expect(page.locator(f".boxes g[data-key={key}] .edge")).to_have_attribute("stroke", colour(index))
        assert phrases.nth(index).evaluate("e => e.style.getPropertyValue('--c')") == colour(index)


def test_a_phrase_of_several_words_is_one_button_with_one_box(page: Page) -> None:
    captioned(page)
    ball = page.locator(word(page, "red ball"))
    expect(ball).to_have_count(1)
    expect(page.locator(".boxes g")).to_have_count(2)
    expect(page.locator(".boxes .edge")).to_have_count(2)
    ball.hover()
    expect(page.locator(".boxes g.on")).to_have_count(1)
    expect(page.locator(box(page, "red ball"))).to_have_class(LIT)
    expect(page.locator(".tag")).to_have_text("red ball")
    slider = page.locator(".attention input")
    for at in ("5", "6"):  # both words belong to the phrase
        slider.fill(at)
        expect(ball).to_have_class(re.compile(r"\bnow\b"))
        expect(page.locator(".sentence .now")).to_have_count(1)


def test_the_sentence_is_shown_as_the_server_writes_it(page: Page) -> None:
    """Capitals of names, brackets, apostrophes and dots; phrases are found in the sentence by their words."""
    place = {"box": [1, 1, 30, 30], "score": 0.9, "parts": []}
    answer = {
        "image": "", "width": 60, "height": 40, "logprob": None, "model": "m", "model_hash": "", "schema": 3,
        "caption": "A man's TV (old) in the…",
        "words": ["a", "man", "'s", "tv", "-lrb-", "old", "-rrb-", "in", "the"],
        "groundings": [{"word": "man", "start": 1, "end": 2} | place, {"word": "'s tv", "start": 2, "end": 4} | place],
        "word_groundings": [], "sure": True, "plain": False, "note": "", "warnings": [],
    }  # fmt: skip
    page.route("**/v1/caption*", lambda route: route.fulfill(json=answer))
    choose(page)
    expect(page.locator(".sentence")).to_have_text(str(answer["caption"]))
    assert page.locator(".sentence button").all_inner_texts() == ["man", "'s TV"]


def test_low_confidence_is_marked(page: Page) -> None:
    captioned(page)  # the captioner of the tests generates the same sentence for every photograph
    expect(page.locator(".note")).to_have_text(
        "Low confidence: the sentence would be about as likely for a blank image."
    )

    def without_warnings(route):  # type: ignore[no-untyped-def]
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "sure": True, "note": "", "warnings": []})

    page.route("**/v1/caption*", without_warnings)
    choose(page, png(1))
    expect(page.locator("#status")).to_have_text("A dog runs after a red ball.")
    expect(page.locator(".note")).to_be_hidden()


def test_an_example_is_one_click_away(page: Page) -> None:
    pytest.importorskip("skimage", reason="scikit-image, whose photographs are the examples, is not installed")
    expect(page.locator("#examples button")).to_have_count(3)
    page.route("**/v1/caption*", lambda route: route.fulfill(status=503, headers={"Retry-After": "60"}, json={}))
    page.locator("#examples button").nth(1).click()
    expect(page.locator("#status")).to_have_text(re.compile("trying again in 60 s"))
    assert page.locator(".stage img").evaluate("e => e.decode().then(() => e.naturalWidth)") == 451  # chelsea


def test_a_photograph_is_pasted_and_another_dropped(page: Page) -> None:
    send = """([kind, bytes]) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], kind + ".png", {type: "image/png"}));
      document.dispatchEvent(kind === "paste" ? new ClipboardEvent("paste", {clipboardData: data, bubbles: true})
        : new DragEvent("drop", {dataTransfer: data, bubbles: true}));
    }"""
    page.evaluate(send, ["paste", list(png())])
    expect(page.locator(".sentence")).to_have_text("A dog runs after a red ball.")
    page.evaluate(send, ["drop", list(png(1, (40, 80)))])
    expect(page.locator(".boxes")).to_have_attribute("viewBox", "0 0 40 80")
    expect(page.locator(".sentence")).to_have_text("A dog runs after a red ball.")


# Highlights ---------------------------------------------------------------------------------------------------------


def test_a_word_lights_its_box_and_heat_and_a_box_its_word(page: Page) -> None:
    captioned(page)
    dog, ball = box(page, "dog"), box(page, "red ball")
    page.hover(word(page, "dog"))
    expect(page.locator(dog)).to_have_class(LIT)
    expect(page.locator(dog)).to_have_css("opacity", "1")
    expect(page.locator(ball)).to_have_css("opacity", "0.16")
    expect(page.locator(".stage")).to_have_class("stage hot")
    expect(page.locator(".tag")).to_have_text("dog")
    warm = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0)"
    assert page.locator(".stage canvas").evaluate(warm)
    page.mouse.move(2, 2)
    expect(page.locator(ball)).to_have_css("opacity", "1")
    expect(page.locator(".stage")).to_have_class("stage")
    page.locator(ball).dispatch_event("mouseenter")  # in noise the boxes of both may lie upon each other
    expect(page.locator(word(page, "red ball"))).to_have_class(LIT)
    expect(page.locator(word(page, "dog"))).not_to_have_class(LIT)


def test_everything_is_done_with_the_keyboard(page: Page) -> None:
    captioned(page)
    page.locator("#phrase").focus()
    page.keyboard.press("Tab")  # the button
    page.keyboard.press("Tab")  # the first phrase
    dog = page.locator(word(page, "dog"))
    expect(dog).to_be_focused()
    expect(dog).to_have_class(LIT)
    page.keyboard.press("Enter")
    expect(dog).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Shift+Tab")
    expect(dog).to_have_class(LIT)  # it is held
    page.keyboard.press("Escape")
    expect(dog).not_to_have_class(LIT)
    expect(dog).to_have_attribute("aria-pressed", "false")
    slider = page.locator(".attention input")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "a, word 1 of 7")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "dog, word 2 of 7")


def test_a_slider_shows_each_branch_at_each_word(page: Page) -> None:
    captioned(page)
    looks = page.locator(".branches figure")
    expect(looks).to_have_count(2)
    pixels = "all => all.map(f => f.querySelector('canvas').toDataURL())"
    slider = page.locator(".attention input")
    slider.fill("1")
    first = looks.evaluate_all(pixels)
    slider.fill("6")
    expect(page.locator(".word-now b")).to_have_text("ball")
    assert looks.evaluate_all(pixels) != first
    assert len(set(first)) == 2  # the branches looked at different places


# Phrases ------------------------------------------------------------------------------------------------------------


def test_a_phrase_is_found_or_told_to_be_absent(page: Page, models: Models) -> None:
    captioned(page)
    page.fill("#phrase", models.present)
    page.keyboard.press("Enter")
    chip = page.locator(".phrases button")
    expect(chip).to_have_text(re.compile(rf"{models.present}\s*88%"))
    expect(chip).to_have_class(LIT)
    expect(page.locator(".boxes .phrase-box.on")).to_be_visible()
    expect(page.locator(".stage")).to_have_class("stage hot")
    expect(page.locator("#status")).to_have_text(f"“{models.present}”: found, 88%")
    page.fill("#phrase", models.absent)
    page.click("#ask button")
    expect(page.locator(".phrases .missing")).to_have_text(f"{models.absent}: not found (12%, under 50%)")
    expect(page.locator(".boxes .phrase-box.on")).to_have_count(0)
    expect(page.locator("#status")).to_have_text(f"“{models.absent}”: not found, 12%")


def test_a_phrase_without_a_word_is_a_problem_and_the_picture_stays(page: Page) -> None:
    captioned(page)
    page.fill("#phrase", "...")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_have_text("Type English words, such as: a red hat.")
    expect(page.locator(".sentence")).to_have_text("A dog runs after a red ball.")


# Two models ---------------------------------------------------------------------------------------------------------


def test_two_models_stand_side_by_side(page: Page, models: Models) -> None:
    captioned(page)
    page.select_option("#second", "single")
    expect(page.locator("#columns article")).to_have_count(2)
    expect(page.locator("#columns .sentence")).to_have_text(["A dog runs after a red ball."] * 2)
    left, right = (page.locator("#columns article").nth(i).bounding_box() for i in (0, 1))
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    expect(page.locator("#columns article").nth(1).locator(".branches figure")).to_have_count(1)
    page.hover("#columns article:nth-child(1) .sentence button")
    expect(page.locator("#columns article").nth(1)).not_to_have_class(re.compile(r"\blit\b"))
    page.select_option("#second", "grounder")
    expect(page.locator("#columns .sentence").nth(1)).to_contain_text("grounds phrases")
    page.fill("#phrase", models.present)
    page.keyboard.press("Enter")
    expect(page.locator(".phrases button")).to_have_count(2)


# Downloads ----------------------------------------------------------------------------------------------------------


def downloaded(page: Page, kind: str, folder: Path) -> Path:
    with page.expect_download() as waiting:
        page.click(f".downloads [data-kind={kind}]")
    assert waiting.value.suggested_filename == f"photo.deixis.{kind}"
    waiting.value.save_as(folder / f"x.{kind}")
    return folder / f"x.{kind}"


@pytest.mark.slow
def test_picture_drawing_and_data_can_be_downloaded(page: Page, tmp_path: Path) -> None:
    captioned(page)
    told = json.loads(downloaded(page, "json", tmp_path).read_text())
    caption = GroundedCaption.from_json(told)
    assert caption.caption.lower().rstrip(".") == "a dog runs after a red ball"
    assert caption.image == "photo.png"
    assert {"word_groundings", "model_hash", "schema", "warnings"} <= set(told)
    drawing = downloaded(page, "svg", tmp_path).read_text()
    assert drawing.count("<image ") == 1
    assert all(colour(i) in drawing for i in range(len(caption.groundings)))
    assert ">dog<" in drawing
    assert ">red ball" in drawing
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")
    with Image.open(downloaded(page, "png", tmp_path)) as picture:
        assert picture.width == 1440
        assert picture.height > 960  # the photograph, and the sentence below it
        colours = {picture.convert("RGB").getpixel((x, 940)) for x in range(1440)}
        assert len(colours) > 100  # the photograph is really in it


# Errors -------------------------------------------------------------------------------------------------------------


def test_errors_are_sentences(page: Page) -> None:
    problem = page.locator("#problem")
    choose(page, b"nothing")
    expect(problem).to_have_text(
        "The uploaded image cannot be read as an image (unknown format). Use JPEG, PNG or WebP."
    )
    expect(page.locator(".drop .big")).to_have_text("Drop, paste or choose a photograph or clip")
    choose(page, b"x" * (BYTES + 1), "big.png")
    expect(problem).to_contain_text("big.png has 0.4 MB")
    page.set_input_files("#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"})
    expect(problem).to_contain_text("notes.txt is neither an image nor a video")
    captioned(page)
    expect(problem).to_be_hidden()
    page.route("**/v1/caption*", lambda route: route.abort())
    choose(page)
    expect(problem).to_have_text("The server does not respond. Check that it is running.")


def test_a_busy_server_is_asked_again(page: Page) -> None:
    refused: list[str] = []

    def refuse_once(route):  # type: ignore[no-untyped-def]
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=503, headers={"Retry-After": "1"}, json={"detail": "busy"})

    page.route("**/v1/caption*", refuse_once)
    captioned(page)
    assert len(refused) == 1


# Every screen -------------------------------------------------------------------------------------------------------


def test_on_a_phone_nothing_is_cut_off_and_a_tap_lights_a_word(phone: Page, models: Models) -> None:
    narrow = "document.documentElement.scrollWidth <= window.innerWidth"
    assert phone.evaluate(narrow)
    captioned(phone)
    assert phone.evaluate(narrow)
    phone.tap(word(phone, "dog"))
    expect(phone.locator(word(phone, "dog"))).to_have_class(LIT)
    phone.fill("#phrase", models.present)
    phone.tap("#ask button")
    expect(phone.locator(".phrases button")).to_be_visible()
    phone.select_option("#second", "single")
    expect(phone.locator("#columns .sentence")).to_have_text(["A dog runs after a red ball."] * 2)
    upper, lower = (phone.locator("#columns article").nth(i).bounding_box() for i in (0, 1))
    assert upper is not None
    assert lower is not None
    assert upper["y"] + upper["height"] <= lower["y"]
    assert phone.evaluate(narrow)
    sizes = phone.locator("button:visible, select:visible").evaluate_all(
        "all => all.filter(e => !e.closest('.sentence')).map(e => e.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 24  # a finger finds it


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_the_light_and_in_the_dark(page: Page, scheme: str) -> None:
    """Contrast of at least 4.5 (WCAG AA) of everything that is text, on the ground that it stands on."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    captioned(page)
    contrast = """() => {
      const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
      const over = (colour, ground) => { pen.fillStyle = `rgb(${ground})`; pen.fillRect(0, 0, 1, 1);
        pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)]; };
      const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b; };
      const ground = e => e ? over(getComputedStyle(e).backgroundColor, ground(e.parentElement)) : [255, 255, 255];
      return [...document.querySelectorAll("h1, h2, header p, .big, .by, .sentence, .sentence button, .word-now, "
        + ".note, figcaption, .downloads button, #ask label, #ask button, footer p, footer a")]
        .filter(e => e.checkVisibility()).map(e => {
          const below = ground(e), a = light(below), b = light(over(getComputedStyle(e).color, below));
          return [e.textContent.trim().slice(0, 20), (Math.max(a, b) + .05) / (Math.min(a, b) + .05)]; });
    }"""
    found = page.evaluate(contrast)
    assert len(found) > 12
    assert [(text, ratio) for text, ratio in found if ratio < 4.5] == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor").startswith("rgb(20,")
    assert dark == (scheme == "dark")


def test_light_and_dark_are_a_choice_that_is_remembered(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.click("#theme")
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 20, 23)")
    page.reload()
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 20, 23)")
    page.click("#theme")
    expect(page.locator("body")).to_have_css("background-color", "rgb(247, 246, 243)")


def test_a_screenshot_shows_the_box_in_its_colour(page: Page) -> None:
    captioned(page)
    page.mouse.move(2, 2)
    picture = Image.open(io.BytesIO(page.locator(".stage").screenshot())).convert("RGB")
    wanted = tuple(int(colour(1)[i : i + 2], 16) for i in (1, 3, 5))  # the last box lies above the others
    near = np.abs(np.asarray(picture, dtype=int) - wanted).max(-1) <= 3
    assert near.sum() > 200


# Clips ---------------------------------------------------------------------------------------------------------------


CODECS = {"webm": ("libvpx-vp9", {}), "mp4": ("libx264", None)}


def clip_file(tmp_path: Path, kind: str = "webm") -> bytes:
    """A clip of noise, two seconds."""
    pytest.importorskip("av")
    random = np.random.default_rng(0)
    frames = [random.integers(0, 255, (40, 60, 3), dtype=np.uint8) for _ in range(4)]
    codec, options = CODECS[kind]
    return write_clip(tmp_path / f"clip.{kind}", frames, rate=2, codec=codec, options=options).read_bytes()


@pytest.mark.parametrize("kind", CODECS)
def test_a_clip_plays_and_its_nouns_point_along_the_timeline(page: Page, tmp_path: Path, kind: str) -> None:
    content = clip_file(tmp_path, kind)
    page.set_input_files("#file", {"name": f"clip.{kind}", "mimeType": f"video/{kind}", "buffer": content})
    expect(page.locator(".sentence")).to_have_text("A dog runs after a red ball.")
    expect(page.locator(".note")).to_contain_text("describes photographs")
    assert page.evaluate("document.querySelector('.stage video').readyState") >= 1
    expect(page.locator(".stage img")).to_be_hidden()
    ticks = page.locator(".timeline button")
    assert ticks.count() == 10
    assert page.locator(".timeline button.on").count() == 0
    page.locator(".sentence .word").first.hover()
    assert page.locator(".timeline button.on").count() == 10  # attention has no threshold
    # the box moves with the clip: a click on a frame seeks it
    places = []
    for at in (0, 9):
        ticks.nth(at).click()
        expect(ticks.nth(at)).to_have_class(re.compile(r"\bnow\b"))
        places.append(page.locator(".boxes g .edge").first.evaluate("n => ['x', 'y'].map(a => n.getAttribute(a))"))
    assert places[0] != places[1]
    expect(page.locator(".downloads [data-kind=json]")).to_be_visible()
    expect(page.locator(".downloads [data-kind=png]")).to_be_hidden()
    if shots := os.environ.get("DEIXIS_SCREENSHOTS"):
        page.screenshot(path=str(Path(shots) / f"clip-{kind}.png"))


def test_a_broken_clip_is_an_error_that_the_page_shows(page: Page, tmp_path: Path) -> None:
    broken = clip_file(tmp_path)[:200]
    page.set_input_files("#file", {"name": "clip.webm", "mimeType": "video/webm", "buffer": broken})
    expect(page.locator("#problem")).to_contain_text("clip")
