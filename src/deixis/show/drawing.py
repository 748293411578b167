"""Drawings that can be written as pixels and as SVG.

A :class:`Drawing` is a list of photographs, rectangles, lines and texts with their positions. The layout is computed
once, and :func:`save_drawing` writes it in the format of the file's suffix.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from deixis.errors import DeixisError
from deixis.files import atomic_path, encode_text
from deixis.types import Box, Point

INK, PAPER, FAINT = "#1b1b1f", "#ffffff", "#6b6b76"
DASH = 8  # pixels of a dash, and of the gap after it
FAMILY = "Aileron, Helvetica, Arial, sans-serif"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, eq=False)
class Photo:
    """An image, stretched to its box."""

    image: Image.Image
    box: Box

    def moved(self, x: float, y: float) -> Photo:
        return replace(self, box=_moved(self.box, x, y))


@dataclass(frozen=True)
class Rect:
    """A rectangle; its line lies inside the box."""

    box: Box
    stroke: str | None = None
    width: float = 0
    fill: str | None = None
    dashed: bool = False
    radius: float = 0

    def moved(self, x: float, y: float) -> Rect:
        return replace(self, box=_moved(self.box, x, y))


@dataclass(frozen=True)
class Line:
    """A straight line."""

    start: Point
    end: Point
    stroke: str
    width: float

    def moved(self, x: float, y: float) -> Line:
        (x1, y1), (x2, y2) = self.start, self.end
        return replace(self, start=(x1 + x, y1 + y), end=(x2 + x, y2 + y))


@dataclass(frozen=True)
class Words:
    """Text on one line; the position is the left end of its baseline."""

    at: Point
    text: str
    size: int
    ink: str = INK

    def moved(self, x: float, y: float) -> Words:
        return replace(self, at=(self.at[0] + x, self.at[1] + y))


Item = Photo | Rect | Line | Words


@dataclass(frozen=True, eq=False)
class Drawing:
    """Items on a white background; later ones are drawn over earlier ones."""

    width: int
    height: int
    items: tuple[Item, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()  # labels without space, and their colours

    def moved(self, x: float, y: float) -> Iterator[Item]:
        """Yield the items at another position."""
        return (item.moved(x, y) for item in self.items)

    def to_image(self) -> Image.Image:
        """Render the drawing as pixels."""
        page = Image.new("RGB", (self.width, self.height), PAPER)
        for item in self.items:
            _paint(page, item)
        return page

    def to_svg(self) -> str:
        """Render the drawing as a self-contained SVG document, with photographs as embedded JPEG."""
        photos = [item for item in self.items if isinstance(item, Photo)]
        names = {name: f"photo{number}" for number, name in enumerate(dict.fromkeys(id(p.image) for p in photos))}
        uses = {name: [photo for photo in photos if id(photo.image) == name] for name in names}
        sizes = {name: _embedded_size(same) for name, same in uses.items()}
        defined = "".join(
            f'<image id="{names[name]}" width="{size[0]}" height="{size[1]}" preserveAspectRatio="none" '
            f'href="{data_url(uses[name][0].image, size)}"/>\n'
            for name, size in sizes.items()
        )
        shapes = []
        for item in self.items:
            if isinstance(item, Photo):
                x1, y1, x2, y2 = item.box
                across, down = sizes[id(item.image)]
                place = f"translate({x1:g} {y1:g}) scale({(x2 - x1) / across:g} {(y2 - y1) / down:g})"
                shapes.append(f'<use href="#{names[id(item.image)]}" transform="{place}"/>')
            else:
                shapes.append(_element(item))
        lines = "\n".join(shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="{FAMILY}">\n'
            f'<defs>\n{defined}</defs>\n<rect width="100%" height="100%" fill="{PAPER}"/>\n{lines}\n</svg>\n'
        )


def save_drawing(drawing: Drawing, path: Path) -> None:
    """Write a drawing in the format of the file's suffix: .svg, or pixels (.png, .jpg, .webp, ...)."""
    try:
        with atomic_path(path) as tmp_path:
            if path.suffix.lower() == ".svg":
                tmp_path.write_bytes(encode_text(drawing.to_svg()))
            else:
                drawing.to_image().save(tmp_path)
    except ValueError as error:
        raise DeixisError(f"{path} cannot be written ({error}). Choose a .png, .jpg or .svg file.") from None


def stack(drawings: Sequence[Drawing], gap: int = 0) -> Drawing:
    """Stack drawings vertically, left-aligned."""
    items: list[Item] = []
    y = 0
    for drawing in drawings:
        items += drawing.moved(0, y)
        y += drawing.height + gap
    left_out = tuple(label for drawing in drawings for label in drawing.left_out)
    return Drawing(max(d.width for d in drawings), y - gap, tuple(items), left_out)


def beside(drawings: Sequence[Drawing], gap: int = 0) -> Drawing:
    """Put drawings side by side, aligned at the top."""
    items: list[Item] = []
    x = 0
    for drawing in drawings:
        items += drawing.moved(x, 0)
        x += drawing.width + gap
    left_out = tuple(label for drawing in drawings for label in drawing.left_out)
    return Drawing(x - gap, max(d.height for d in drawings), tuple(items), left_out)


def framed(drawing: Drawing, margin: int) -> Drawing:
    """Add a white margin to a drawing."""
    size = drawing.width + 2 * margin, drawing.height + 2 * margin
    return Drawing(*size, tuple(drawing.moved(margin, margin)), drawing.left_out)


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's default font, so that pictures are the same on every machine."""
    return ImageFont.load_default(size)


def text_width(text: str, size: int) -> float:
    """Width of a line of text in pixels."""
    return font(size).getlength(text)


def data_url(image: Image.Image, size: tuple[int, int] | None = None, quality: int = 88) -> str:
    """Encode an image as a JPEG data URL, in the given size."""
    picture = image.convert("RGB")
    if size is not None and size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


# Pixels -------------------------------------------------------------------------------------------------------------


def _paint(page: Image.Image, item: Item) -> None:
    pen = ImageDraw.Draw(page)
    match item:
        case Photo(image, (x1, y1, x2, y2)):
            size = max(1, round(x2) - round(x1)), max(1, round(y2) - round(y1))
            picture = image.convert("RGB")
            if size != picture.size:
                picture = picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
            page.paste(picture, (round(x1), round(y1)))
        case Rect(box, stroke, width, _, True, _):
            _dashed(pen, box, stroke or INK, max(1, round(width)))
        case Rect((x1, y1, x2, y2), stroke, width, fill, _, radius):
            corners = (x1, y1, max(x1, x2 - 1), max(y1, y2 - 1))  # in Pillow the last pixels are part of the rectangle
            pen.rounded_rectangle(corners, radius, fill=fill, outline=stroke, width=max(1, round(width)))
        case Line(start, end, stroke, width):
            pen.line((start, end), fill=stroke, width=round(width))
        case Words(at, text, size, ink):
            pen.text(at, text, font=font(size), fill=ink, anchor="ls")


def _dashed(pen: ImageDraw.ImageDraw, box: Box, stroke: str, width: int) -> None:
    x1, y1, x2, y2 = box[0], box[1], box[2] - 1, box[3] - 1
    for start in range(round(x1), round(x2), 2 * DASH):
        for y in (y1, y2):
            pen.line((start, y, min(start + DASH, x2), y), fill=stroke, width=width)
    for start in range(round(y1), round(y2), 2 * DASH):
        for x in (x1, x2):
            pen.line((x, start, x, min(start + DASH, y2)), fill=stroke, width=width)


# SVG ----------------------------------------------------------------------------------------------------------------


def _element(item: Rect | Line | Words) -> str:
    match item:
        case Rect((x1, y1, x2, y2), stroke, width, fill, dashed, radius):
            inset = width / 2 if stroke else 0  # SVG draws half of the line outside
            size = max(x2 - x1 - 2 * inset, 0), max(y2 - y1 - 2 * inset, 0)
            look = f'fill="{fill or "none"}"' + (f' stroke="{stroke}" stroke-width="{width:g}"' if stroke else "")
            look += f' stroke-dasharray="{DASH}"' if dashed else ""
            look += f' rx="{radius:g}"' if radius else ""
            return f'<rect x="{x1 + inset:g}" y="{y1 + inset:g}" width="{size[0]:g}" height="{size[1]:g}" {look}/>'
        case Line((x1, y1), (x2, y2), stroke, width):
            look = f'stroke="{stroke}" stroke-width="{width:g}"'
            return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {look}/>'
        case Words((x, y), text, size, ink):
            # with any font, the text keeps its measured width
            fit = f'textLength="{text_width(text, size):g}" lengthAdjust="spacingAndGlyphs"'
            clean = escape(_NOT_XML.sub("\ufffd", text))
            return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{ink}" {fit}>{clean}</text>'


def _embedded_size(uses: Sequence[Photo]) -> tuple[int, int]:
    """Return the largest size at which an image is shown, at most its own size."""
    image = uses[0].image
    shown = max(photo.box[2] - photo.box[0] for photo in uses)
    scale = min(1.0, shown / image.width)
    return max(1, round(image.width * scale)), max(1, round(image.height * scale))


def _moved(box: Box, x: float, y: float) -> Box:
    return box[0] + x, box[1] + y, box[2] + x, box[3] + y
