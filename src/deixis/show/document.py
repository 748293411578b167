"""The frame of every page: one HTML file that needs nothing from elsewhere, light and dark, wide and narrow."""

from __future__ import annotations

from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --faint: #63636e; --line: #dcdce3; --card: #f6f6f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf1; --paper: #16161a; --faint: #a2a2ae; --line: #35353e; --card: #1f1f25; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 76rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .8rem; }
a { color: inherit; }
.about { color: var(--faint); margin: 0 0 1.6rem; overflow-wrap: anywhere; }
"""


def html_page(title: str, about: str, body: str, style: str = "", script: str = "", after: str = "") -> str:
    """A whole document; ``body``, and ``after`` which stands behind the script, are HTML, title and about are text."""
    code = f"<script>{script}</script>" if script else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}{style}</style></head>
<body><h1>{escape(title)}</h1><p class="about">{escape(about)}</p>
{body}
{code}{after}
</body></html>
"""
