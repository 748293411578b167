"""Document and style of all HTML pages, for files and for servers, in light and dark mode."""

from __future__ import annotations

from html import escape
from importlib.resources import files

HOUSE_STYLE = files("deixis.show").joinpath("house.css").read_text(encoding="utf-8")
"""Colours, fonts and buttons of all pages; each page adds its own layout."""

STYLE = """
body { max-width: 76rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .8rem; }
.about { color: var(--faint); margin: 0 0 1.6rem; overflow-wrap: anywhere; }
"""


def html_page(title: str, about: str, body: str, style: str = "", script: str = "", after: str = "") -> str:
    """Return an HTML document; ``body`` and ``after`` (placed after the script) are HTML, title and about are text."""
    code = f"<script>{script}</script>" if script else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{HOUSE_STYLE}{STYLE}{style}</style></head>
<body><h1>{escape(title)}</h1><p class="about">{escape(about)}</p>
{body}
{code}{after}
</body></html>
"""
