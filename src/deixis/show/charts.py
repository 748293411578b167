"""Charts as inline SVG: bars, columns, rings, line and scatter plots, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from deixis.show.draw import PALETTE

BLUE, AMBER, RED, VIOLET, GREEN, SKY, *_ = PALETTE
WIDTH = 560

STYLE = """
.charts { columns: 2 28rem; column-gap: 1.2rem; margin-top: 1.6rem; }
.charts.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1.2rem; }
.charts.small figure { margin: 0; }
.charts figure { break-inside: avoid; margin: 0 0 1.2rem;
                 background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.1rem; }
.charts figcaption { font-weight: 600; margin-bottom: .5rem; overflow-wrap: anywhere; }
.charts figcaption small { display: block; font-weight: 400; color: var(--faint); }
.charts svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; }
.charts text { fill: var(--ink); } .charts .faint { fill: var(--faint); }
.charts .slice { stroke: var(--card); stroke-width: 2; }
.charts .grid { stroke: var(--line); stroke-width: 1; } .charts .track { fill: var(--line); opacity: .45; }
.charts .dot { fill-opacity: .5; } .charts .dot:hover { fill-opacity: 1; }
"""


@dataclass(frozen=True)
class Bar:
    """One value of a bar chart, 0 to 1, with the colour of its series."""

    label: str
    value: float
    colour: str
    note: str = ""


@dataclass(frozen=True)
class Point:
    """A point of a plot, with its tooltip and the radius of its dot."""

    x: float
    y: float
    hint: str
    radius: float = 4


@dataclass(frozen=True)
class Series:
    """Points of one colour, optionally joined by a line; the name is shown beside a single point."""

    points: Sequence[Point]
    colour: str
    name: str = ""
    joined: bool = False


def figure(title: str, note: str, body: str) -> str:
    """Return a figure with a title, a smaller note and a chart."""
    small = f"<small>{escape(note)}</small>" if note else ""
    return f"<figure><figcaption>{escape(title)}{small}</figcaption>{body}</figure>"


def bars(groups: Sequence[tuple[str, Sequence[Bar]]], label: str, legend: Sequence[tuple[str, str]] = ()) -> str:
    """Draw grouped horizontal bars: names on the left, values on the right, legend on top."""
    left, right, thick, gap = 150, 52, 15, 12
    parts, y = [], 8.0
    x = float(left)
    for name, ink in legend:
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="11" height="11" rx="2" fill="{ink}"/>')
        parts.append(_text(x + 17, y + 10, name, faint=True))
        x += 32 + 7.2 * len(name)
    y += 28 if legend else 0
    scale = WIDTH - left - right
    for name, group in groups:
        parts.append(_text(left - 10, y + len(group) * (thick + 2) / 2 + 4, name, "end"))
        for bar in group:
            parts.append(f'<rect class="track" x="{left}" y="{y:.1f}" width="{scale}" height="{thick}" rx="3"/>')
            hint = f"{name} {bar.label}: {bar.value:.4f}{f' ({bar.note})' if bar.note else ''}"
            parts.append(
                f'<rect x="{left}" y="{y:.1f}" width="{max(bar.value, 0) * scale:.1f}" height="{thick}" rx="3" '
                f'fill="{bar.colour}">{_hint(hint)}</rect>'
            )
            parts.append(_text(WIDTH - right + 8, y + thick - 3, f"{bar.value:.3f}"))
            y += thick + 2
        y += gap
    return _svg(WIDTH, y, label, parts)


def columns(values: Sequence[Bar], label: str, below: str) -> str:
    """Draw vertical bars; the scale ends at a round number above the highest bar."""
    plane = Plane(ceiling(max((bar.value for bar in values), default=0)))
    parts = plane.levels()
    step = (plane.right - plane.left) / max(len(values), 1)
    for i, bar in enumerate(values):
        x, top, foot = plane.left + i * step + step * 0.14, plane.y(bar.value), plane.y(0)
        hint = f"{bar.label}: {bar.value:.4f}{f' ({bar.note})' if bar.note else ''}"
        parts.append(
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{step * 0.72:.1f}" height="{foot - top:.1f}" rx="3" '
            f'fill="{bar.colour}">{_hint(hint)}</rect>'
        )
        parts.append(_text(x + step * 0.36, foot + 18, bar.label, "middle", faint=True))
    return _svg(WIDTH, plane.height, label, [*parts, plane.below(below)])


def plot(
    series: Sequence[Series],
    label: str,
    below: str,
    ticks: Sequence[float],
    top: float | None = None,
    width: int = WIDTH,
    height: int = 330,
    logarithmic: bool = False,
) -> str:
    """Draw lines and dots; the x axis spans the ticks, and ``top`` ends the y axis (default: a round number)."""
    values = [point.y for one in series for point in one.points]
    high, low = max(values, default=0), min(values, default=0)
    bottom = -ceiling(-low) if low < 0 else 0.0
    if top is None:
        top = 0.0 if low < 0 and high <= 0 else ceiling(high)
    plane = Plane(top, bottom, width, height, (ticks[0], ticks[-1]), logarithmic)
    parts = plane.levels()
    parts += [_text(plane.x(tick), plane.y(bottom) + 18, f"{tick:g}", "middle", faint=True) for tick in ticks]
    for one in series:
        if one.joined:
            line = " ".join(f"{plane.x(point.x):.1f},{plane.y(point.y):.1f}" for point in one.points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{one.colour}" stroke-width="2.5"/>')
        for point in one.points:
            x, y = plane.x(point.x), plane.y(point.y)
            kind = ' class="dot"' if len(one.points) > 1 and not one.joined else ""
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{point.radius:g}" fill="{one.colour}"{kind}>'
                f"{_hint(point.hint)}</circle>"
            )
            if len(one.points) == 1 and one.name:
                end = x > (plane.left + plane.right) / 2
                parts.append(_text(x - 10 if end else x + 10, y + 4, one.name, "end" if end else "start", faint=True))
    return _svg(width, height, label, [*parts, plane.below(below)])


def ring(slices: Sequence[Bar], label: str) -> str:
    """Draw a ring of shares that sum to 1, with its legend on the right."""
    height, radius, hole = 260, 108, 62
    cx, cy = 124, height / 2
    parts, turn = [], 0.0
    for part in slices:
        hint = _hint(f"{part.label}: {part.value:.1%}")
        if part.value >= 1 - 1e-9:
            middle = (radius + hole) / 2
            parts.append(
                f'<circle cx="{cx}" cy="{cy}" r="{middle}" fill="none" stroke="{part.colour}" '
                f'stroke-width="{radius - hole}">{hint}</circle>'
            )
        elif part.value > 0:
            shape = _slice(cx, cy, radius, hole, turn, turn + part.value)
            parts.append(f'<path class="slice" d="{shape}" fill="{part.colour}">{hint}</path>')
        turn += part.value
    y = height / 2 - 15 * len(slices) + 18
    for part in slices:
        parts.append(f'<rect x="270" y="{y - 11:.0f}" width="12" height="12" rx="2" fill="{part.colour}"/>')
        parts.append(_text(348, y, f"{part.value:.1%}", "end"))
        parts.append(_text(360, y, part.label))
        y += 30
    return _svg(WIDTH, height, label, parts)


def ceiling(value: float) -> float:
    """Return a round number at or above the value, for the end of a scale."""
    if value <= 0:
        return 1.0
    unit = 10 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 4, 6, 8, 10) if step * unit >= value * 0.999)


@dataclass(frozen=True)
class Plane:
    """Coordinates of a chart with two axes: y from ``bottom`` to ``top``, x over ``span``."""

    top: float
    bottom: float = 0.0
    width: int = WIDTH
    height: int = 300
    span: tuple[float, float] = (0.0, 1.0)
    logarithmic: bool = False
    left: float = 54

    @property
    def right(self) -> float:
        return self.width - 24

    def x(self, value: float) -> float:
        """Horizontal position of a value."""
        (low, high), place = self.span, value
        if self.logarithmic:
            low, high, place = math.log(low), math.log(high), math.log(place)
        return self.left + (self.right - self.left) * ((place - low) / (high - low) if high > low else 0.5)

    def y(self, value: float) -> float:
        """Vertical position of a value."""
        foot, head = self.height - 52, 16
        return foot - (foot - head) * (value - self.bottom) / (self.top - self.bottom)

    def levels(self) -> list[str]:
        """Draw five grid lines with their values."""
        parts = []
        for i in range(5):
            value = self.bottom + (self.top - self.bottom) * i / 4
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(self.left - 8, y + 4, f"{value:.3g}", "end", faint=True))
        return parts

    def below(self, words: str) -> str:
        """Draw the label of the horizontal axis."""
        return _text((self.left + self.right) / 2, self.height - 10, words, "middle", faint=True)


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, words: str, anchor: str = "start", faint: bool = False) -> str:
    kind = ' class="faint"' if faint else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _hint(words: str) -> str:
    return f"<title>{escape(words)}</title>"


def _slice(cx: float, cy: float, radius: float, hole: float, start: float, end: float) -> str:
    """SVG path of a ring slice between two shares of a full turn, clockwise from the top."""

    def at(r: float, turn: float) -> str:
        angle = 2 * math.pi * turn - math.pi / 2
        return f"{cx + r * math.cos(angle):.2f} {cy + r * math.sin(angle):.2f}"

    large = int(end - start > 0.5)
    return (
        f"M{at(radius, start)} A{radius} {radius} 0 {large} 1 {at(radius, end)} "
        f"L{at(hole, end)} A{hole} {hole} 0 {large} 0 {at(hole, start)} Z"
    )
