"""A page of grounded captions in one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from PIL import Image

from deixis.show.draw import colour
from deixis.types import Box, GroundedCaption

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #ffffff; --faint: #6b6b76; --line: #dedee4; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf1; --paper: #16161a; --faint: #9c9ca8; --line: #33333b; } }
body { font: 17px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 1rem; } h1 + p { color: var(--faint); }
.all { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 2rem; }
figure { margin: 0; } figure > div { position: relative; border-radius: 8px; overflow: hidden; }
img { display: block; width: 100%; height: auto; } svg { position: absolute; inset: 0; width: 100%; height: 100%; }
rect { fill: transparent; stroke: var(--c); stroke-width: 3; vector-effect: non-scaling-stroke; }
rect, .word { transition: opacity .15s; }
rect.part { stroke-width: 1.5; stroke-dasharray: 6 5; pointer-events: none; }
figcaption { margin-top: .6rem; font-size: 1.15rem; }
.word { border-bottom: 3px solid var(--c); cursor: pointer; border-radius: 2px; }
figure.lit [data-g] { opacity: .18; } figure.lit [data-g].on { opacity: 1; }
.word:focus-visible, .word.on { outline: 2px solid var(--c); outline-offset: 2px; }
small { display: block; color: var(--faint); font-size: .85rem; }
"""

SCRIPT = """
for (const figure of document.querySelectorAll('figure')) {
  const parts = figure.querySelectorAll('[data-g]');
  const light = g => { figure.classList.toggle('lit', g !== null);
    parts.forEach(p => p.classList.toggle('on', p.dataset.g === g)); };
  parts.forEach(p => { for (const e of ['mouseenter', 'focus']) p.addEventListener(e, () => light(p.dataset.g));
    for (const e of ['mouseleave', 'blur']) p.addEventListener(e, () => light(null)); });
}
"""


@dataclass(frozen=True)
class Shown:
    """A caption on a page, with its picture and a line below."""

    image: Image.Image
    caption: GroundedCaption
    note: str = ""


def caption_page(title: str, sections: Mapping[str, Sequence[Shown]], note: str = "", links: str = "") -> str:
    """HTML of images with their captions: hover or tab to a word and its box lights up, and the other way round.

    Sections have a heading each, where it is not empty. ``links`` is HTML that stands below the note.
    """
    parts = []
    for heading, items in sections.items():
        figures = "\n".join(map(_figure, items))
        parts.append((f"<h2>{escape(heading)}</h2>" if heading else "") + f'<div class="all">\n{figures}\n</div>')
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{escape(title)}</h1><p>{escape(note)}</p>{links}
<main>
{"".join(parts)}
</main><script>{SCRIPT}</script></body></html>
"""


def _figure(shown: Shown) -> str:
    image, caption = shown.image, shown.caption
    width, height = image.size
    # large boxes first: what is drawn later lies on top, and a small box must stay reachable by the mouse
    order = sorted(range(len(caption.groundings)), key=lambda i: -_area(caption.groundings[i].box))
    shapes = []
    for i in order:
        grounding = caption.groundings[i]
        style = f'style="--c: {colour(i)}" data-g="{i}"'
        shapes += [f'<rect class="part" {style} {_rect(part)}/>' for part in grounding.parts]
        shapes.append(f"<rect {style} {_rect(grounding.box)}><title>{escape(grounding.text)}</title></rect>")
    owner = {at: i for i, g in enumerate(caption.groundings) for at in range(g.start, g.end)}
    words = []
    for at, word in enumerate(caption.words):
        mark = ""
        if at in owner:
            mark = f' class="word" tabindex="0" data-g="{owner[at]}" style="--c: {colour(owner[at])}"'
        words.append(f"<span{mark}>{escape(word)}</span>")
    below = " · ".join(escape(text) for text in (caption.image, caption.model, shown.note) if text)
    picture = f'src="{_data_url(image)}" alt="{escape(caption.caption, quote=True)}" width="{width}" height="{height}"'
    return f"""<figure><div><img {picture}>
<svg viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(shapes)}</svg></div>
<figcaption>{" ".join(words)}<small>{below}</small></figcaption></figure>"""


def _rect(box: Box) -> str:
    return f'x="{box[0]:.1f}" y="{box[1]:.1f}" width="{box[2] - box[0]:.1f}" height="{box[3] - box[1]:.1f}"'


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _data_url(image: Image.Image) -> str:
    file = io.BytesIO()
    image.convert("RGB").save(file, "PNG" if image.width * image.height <= 256 * 256 else "JPEG", quality=90)
    kind = "png" if file.getvalue().startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
