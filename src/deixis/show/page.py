"""Gallery of grounded captions in one self-contained HTML file.

The file can have thousands of photographs: it embeds small copies, and the browser creates a card when the reader
scrolls near it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from PIL import Image

from deixis.show.document import html_page
from deixis.show.draw import PALETTE, text_on, written_words
from deixis.show.drawing import data_url
from deixis.types import GroundedCaption

STYLE = """
.tools { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: 0 0 1.2rem; }
.tools input { flex: 1 1 14rem; min-width: 0; }
.tools button[aria-pressed=true] { background: var(--ink); color: var(--paper); }
.tools output { color: var(--faint); }
.all { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 2rem 1.5rem; }
.all figure { margin: 0; content-visibility: auto; contain-intrinsic-size: auto 24rem; }
.all figure > div { position: relative; border-radius: 8px; overflow: hidden; background: var(--card); }
.all img { display: block; width: 100%; height: 100%; }
.all svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.all rect { fill: transparent; stroke: var(--c); stroke-width: 3; vector-effect: non-scaling-stroke; }
.all rect, .word { transition: opacity .15s; }
.all rect.part { stroke-width: 1.5; stroke-dasharray: 6 5; pointer-events: none; }
.all figcaption { margin-top: .6rem; font-size: 1.1rem; line-height: 1.65; overflow-wrap: anywhere; }
.word { background: var(--c); color: var(--t); cursor: pointer; border-radius: 4px; padding: .05em .3em;
  -webkit-box-decoration-break: clone; box-decoration-break: clone; }
figure.lit [data-g] { opacity: .15; } figure.lit [data-g].on { opacity: 1; }
.word:focus-visible { outline: 2px solid var(--ink); outline-offset: -2px; }
.all small { display: block; color: var(--faint); font-size: .85rem; line-height: 1.45; }
"""

SCRIPT = """
addEventListener('DOMContentLoaded', () => {
  const {items, lists, colours} = JSON.parse(document.getElementById('items').textContent);
  const root = document.querySelector('.all'), end = document.getElementById('end');
  const count = document.querySelector('.tools output'), search = document.querySelector('.tools input');
  const make = (name, attributes, ...inside) => {
    const space = name === 'svg' || name === 'rect' || name === 'title' ? 'http://www.w3.org/2000/svg' : null;
    const node = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    node.append(...inside);
    return node;
  };
  const area = box => (box[2] - box[0]) * (box[3] - box[1]);
  const rect = (box, attributes, ...inside) => make('rect', {...attributes,
    x: box[0], y: box[1], width: box[2] - box[0], height: box[3] - box[1]}, ...inside);
  const look = g => { const [fill, ink] = colours[g % colours.length];
    return {'data-g': g, style: `--c: ${fill}; --t: ${ink}`}; };
  const card = number => {
    const item = items[number], [width, height] = item.size, frame = make('div', {});
    frame.style.aspectRatio = `${width} / ${height}`;
    const small = document.getElementById('photo' + number);
    const src = item.src || (small && small.textContent);
    if (src) frame.append(make('img', {src, alt: item.words.join(''), loading: 'lazy', decoding: 'async'}));
    const shapes = make('svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'});
    // large boxes first, so that small boxes are on top and can be hovered
    const order = item.found.map((_, g) => g).sort((a, b) => area(item.found[b].box) - area(item.found[a].box));
    for (const g of order) {
      for (const part of item.found[g].parts) shapes.append(rect(part, {...look(g), class: 'part'}));
      shapes.append(rect(item.found[g].box, look(g), make('title', {}, item.found[g].text)));
    }
    frame.append(shapes);
    const owner = {}, text = make('figcaption', {});
    item.found.forEach((one, g) => { for (let at = one.start; at < one.end; at++) owner[at] = g; });
    for (let at = 0; at < item.words.length; at++) {
      const g = owner[at], from = at;
      while (at + 1 < item.words.length && owner[at + 1] === g) at++;
      const words = item.words.slice(from, at + 1).join('');
      if (g === undefined) text.append(words);
      else {
        const span = make('span', {...look(g), class: 'word', tabindex: 0}, words.trim());
        text.append(words.startsWith(' ') ? ' ' : '', span);
      }
    }
    text.append(make('small', {}, item.note));
    return make('figure', {}, frame, text);
  };
  let list = [], shown = 0;
  const batch = () => {
    for (const stop = Math.min(shown + 12, list.length); shown < stop; shown++) root.append(card(list[shown]));
  };
  const more = () => {
    while (shown < list.length && end.getBoundingClientRect().top < innerHeight + 1500) batch();
  };
  const pick = () => {
    const pressed = document.querySelector('.tools button[aria-pressed=true]');
    const wanted = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
    const all = pressed && pressed.value ? lists[pressed.value] : items.map((_, number) => number);
    list = all.filter(number => wanted.every(word => items[number].text.includes(word)));
    count.textContent = `${list.length.toLocaleString()} of ${items.length.toLocaleString()}`;
    shown = 0; root.replaceChildren(); batch(); more();
  };
  const light = (node, on) => {
    const part = node.closest('[data-g]'), figure = node.closest('figure');
    if (!figure) return;
    figure.classList.toggle('lit', on && !!part);
    for (const each of figure.querySelectorAll('[data-g]'))
      each.classList.toggle('on', on && !!part && each.dataset.g === part.dataset.g);
  };
  for (const event of ['mouseover', 'focusin']) root.addEventListener(event, e => light(e.target, true));
  for (const event of ['mouseout', 'focusout']) root.addEventListener(event, e => light(e.target, false));
  const buttons = document.querySelectorAll('.tools button');
  for (const button of buttons) button.addEventListener('click', () => {
    for (const other of buttons) other.setAttribute('aria-pressed', other === button);
    pick();
  });
  search.addEventListener('input', pick);
  new IntersectionObserver(more, {rootMargin: '1500px'}).observe(end);
  addEventListener('scroll', more, {passive: true});
  pick();
});
"""


@dataclass(frozen=True)
class Shown:
    """A caption of a gallery, with a note and its picture: an image, an address, or neither.

    The address may be a data URL (:func:`deixis.show.drawing.data_url`).
    """

    image: Image.Image | None
    caption: GroundedCaption
    note: str = ""
    src: str = ""


@dataclass(frozen=True)
class Gallery:
    """Parts of a page with captions: the HTML of its body, and the data after its script."""

    body: str
    data: str


def gallery(items: Sequence[Shown], lists: Mapping[str, Sequence[int]]) -> Gallery:
    """Create cards with a search field, and a button for each list, which shows its cards in its order."""
    records = [_record(item) for item in items]
    known = {name: list(numbers) for name, numbers in lists.items() if numbers}
    document = {"items": records, "lists": known, "colours": [[fill, text_on(fill)] for fill in PALETTE]}
    names = {"": f"all {len(items):,}", **{name: f"{name} {len(numbers):,}" for name, numbers in known.items()}}
    buttons = "".join(
        f'<button value="{escape(name)}" aria-pressed="{"false" if name else "true"}">{escape(text)}</button>'
        for name, text in names.items()
    )
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # a caption must not end the script element
    # one element for each picture, so that the browser shows the page before all are read
    kept = [item.src if item.image is None else data_url(item.image) for item in items]
    photos = "".join(
        f'<script type="text/plain" id="photo{number}">{text}</script>\n'
        for number, text in enumerate(kept)
        if text.startswith("data:")
    )
    body = f"""<div class="tools" role="search"{" hidden" if len(items) < 2 else ""}>
<input type="search" placeholder="words or image names" aria-label="search captions">{buttons}
<output aria-live="polite"></output></div>
<main class="all"></main><div id="end"></div><noscript>The pictures need JavaScript.</noscript>"""
    return Gallery(body, f'<script type="application/json" id="items">{text}</script>\n{photos}')


def caption_page(title: str, sections: Mapping[str, Sequence[Shown]], note: str = "", links: str = "") -> str:
    """Return an HTML page of images with captions; a phrase highlights its box, and a box its phrase.

    A section with a heading can be selected. ``links`` is HTML above the pictures.
    """
    items = [item for section in sections.values() for item in section]
    lists: dict[str, range] = {}
    start = 0
    for heading, section in sections.items():
        if heading:
            lists[heading] = range(start, start + len(section))
        start += len(section)
    made = gallery(items, lists)
    return html_page(title, note, links + made.body, STYLE, SCRIPT, made.data)


def _record(shown: Shown) -> dict[str, Any]:
    """Return the data of a caption for the page's script, with rounded numbers."""
    caption = shown.caption
    size = (caption.width, caption.height) if shown.image is None else shown.image.size
    found = [
        {
            "text": grounding.text,
            "start": grounding.start,
            "end": grounding.end,
            "box": [round(value, 1) for value in grounding.box],
            "parts": [[round(value, 1) for value in part] for part in grounding.parts],
        }
        for grounding in caption.groundings
    ]
    below = " · ".join(text for text in (caption.image, caption.model, shown.note) if text)
    searched = f"{caption.caption} {' '.join(caption.words)} {below}".lower()
    return {
        "size": size if all(size) else (4, 3),
        "words": written_words(caption),
        "found": found,
        "note": below,
        "text": searched,
        "src": "" if shown.src.startswith("data:") else shown.src,
    }
