"""The gallery: what its data say, and in a browser that cards come as they are needed and answer to people."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from deixis import GroundedCaption, Grounding
from deixis.show.draw import PALETTE, text_on
from deixis.show.drawing import data_url
from deixis.show.page import Shown, caption_page

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


def caption(image: str = "a photo.jpg", noun: str = "dog") -> GroundedCaption:
    grounding = Grounding(f"big {noun}", (10, 10, 200.04, 200), 0.9, 1, 3, parts=((10, 10, 90, 90),))
    return GroundedCaption(("a", "big", noun, "&", "<b>", "</script>"), (grounding,), image=image, model="m")


def grey(width: int = 600, height: int = 500) -> Image.Image:
    return Image.new("RGB", (width, height), "#808080")


def data(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="items">(.*?)</script>', page)
    return json.loads(found)


def test_the_page_carries_everything_inside() -> None:
    page = caption_page("Demo <i>", {"": [Shown(grey(), caption(), "a note")]}, "about <i>")
    assert "<i>" not in page
    assert "<b>" not in page
    assert re.findall(r'(?:src|href)="', page) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) == []
    (item,) = data(page)["items"]
    assert item["words"] == ["a", " big", " dog", " &", " <b>", " </script>"]
    assert item["size"] == [600, 500]
    assert item["note"] == "a photo.jpg · m · a note"
    assert item["found"] == [
        {"text": "big dog", "start": 1, "end": 3, "box": [10, 10, 200, 200], "parts": [[10, 10, 90, 90]]}
    ]
    assert data(page)["colours"] == [[fill, text_on(fill)] for fill in PALETTE]
    assert page.count('id="photo0">data:image/jpeg;base64,') == 1


def test_sections_are_lists_that_can_be_chosen() -> None:
    shown = [Shown(None, caption(str(i))) for i in range(5)]
    page = caption_page("Demo", {"Worst": shown[:2], "Best": shown[2:], "None": []})
    assert data(page)["lists"] == {"Worst": [0, 1], "Best": [2, 3, 4]}
    assert re.findall(r"<button[^>]*>([^<]*)<", page) == ["all 5", "Worst 2", "Best 3"]


def test_pictures_may_be_elsewhere_or_nowhere() -> None:
    kept = "data:image/jpeg;base64,AAAA"
    shown = [Shown(None, caption(), src="photos/a%20b.jpg"), Shown(None, caption(), src=kept), Shown(None, caption())]
    page = caption_page("Demo", {"": shown})
    assert [item["src"] for item in data(page)["items"]] == ["photos/a%20b.jpg", "", ""]
    assert [item["size"] for item in data(page)["items"]] == [[4, 3]] * 3  # nobody knows
    assert page.count('id="photo') == 1
    assert f'id="photo1">{kept}</script>' in page


@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
def test_a_thousand_cards_come_as_they_are_needed(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    small = data_url(grey(240, 220))
    captions = [caption(f"picture-{i}", "cat" if i % 100 == 7 else "dog") for i in range(1000)]
    shown = [Shown(None, replace(each, width=240, height=220), src=small) for each in captions]
    file = tmp_path / "page.html"
    file.write_text(caption_page("Demo", {"first": shown[:30], "others": shown[30:]}))
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 700})
        trouble: list[str] = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: trouble.append(request.url) if request.url.startswith("http") else None)
        page.goto(file.as_uri())
        cards, count = page.locator(".all figure"), page.locator(".tools output")
        playwright.expect(count).to_have_text("1,000 of 1,000")
        assert 0 < cards.count() < 100
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        before = cards.count()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_function(f"document.querySelectorAll('.all figure').length > {before}")
        assert cards.count() < 200
        page.fill(".tools input", "CAT picture-1")  # of the hundreds with a cat: 107 and, from 1000 on, none
        playwright.expect(count).to_have_text("1 of 1,000")
        playwright.expect(cards).to_contain_text(["a big cat & <b> </script>"])
        page.fill(".tools input", "")
        page.click("text=first 30")
        playwright.expect(count).to_have_text("30 of 1,000")
        first = cards.nth(0)
        assert first.locator("img").get_attribute("alt") == "a big dog & <b> </script>"
        assert first.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 240
        first.locator(".word").focus()
        lit = first.locator("[data-g].on")
        assert [lit.nth(i).evaluate("node => node.tagName") for i in range(lit.count())] == ["rect", "rect", "SPAN"]
        page.keyboard.press("Tab")
        assert lit.count() == 0
        first.locator("rect").last.hover()
        assert "on" in (first.locator(".word").get_attribute("class") or "")
        browser.close()
    assert trouble == []
