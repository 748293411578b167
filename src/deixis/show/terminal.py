"""Pictures in terminals with the protocols of kitty, iTerm2 or sixel."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from itertools import groupby
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image

Protocol = Literal["kitty", "iterm2", "sixel"]

WIDEST, HIGHEST = 800, 600  # pixels
CHUNK = 4096  # bytes of base64 per escape code of kitty
SIXELS = 255  # colours


def find_protocol(environment: Mapping[str, str]) -> Protocol | None:
    """Return the picture protocol of the terminal from its variables; ``DEIXIS_IMAGES`` (or "none") overrides it."""
    chosen = environment.get("DEIXIS_IMAGES", "")
    if chosen:
        return next((known for known in get_args(Protocol) if known == chosen), None)
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith("screen"):  # they remove pictures
        return None
    if "KITTY_WINDOW_ID" in environment or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    if "sixel" in term or term.split("-")[0] in ("foot", "mlterm", "contour", "yaft"):
        return "sixel"
    return None


def encode_picture(image: Image.Image, protocol: Protocol) -> bytes:
    """Encode an image for the terminal, at most 800 x 600 pixels."""
    small = image.convert("RGB")
    small.thumbnail((WIDEST, HIGHEST), Image.Resampling.LANCZOS)
    if protocol == "sixel":
        return _sixel(small)
    file = io.BytesIO()
    small.save(file, "PNG")
    data = base64.b64encode(file.getvalue())
    return _kitty(data) if protocol == "kitty" else _iterm2(data, len(file.getvalue()))


def _kitty(data: bytes) -> bytes:
    """Encode with one escape code per chunk: a=T transmits and shows, f=100 is PNG, m=1 means that more follows."""
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    codes = []
    for number, chunk in enumerate(chunks):
        keys = [*(("a=T", "f=100") if number == 0 else ()), f"m={int(number < len(chunks) - 1)}"]
        codes.append(b"\x1b_G" + ",".join(keys).encode() + b";" + chunk + b"\x1b\\")
    return b"".join(codes) + b"\n"


def _iterm2(data: bytes, size: int) -> bytes:
    return f"\x1b]1337;File=inline=1;size={size}:".encode() + data + b"\x07\n"


def _sixel(image: Image.Image) -> bytes:
    """Encode bands of six rows; each colour of a band has one line, with a character of six bits per column."""
    reduced = image.quantize(SIXELS)
    pixels: npt.NDArray[np.uint8] = np.asarray(reduced)
    palette = np.asarray(reduced.getpalette(), dtype=np.float64).reshape(-1, 3)
    height, width = pixels.shape
    parts = [f'\x1bP0;1q"1;1;{width};{height}']
    for index in np.unique(pixels):
        red, green, blue = (round(level * 100 / 255) for level in palette[index])  # sixel counts in per cent
        parts.append(f"#{index};2;{red};{green};{blue}")
    for top in range(0, height, 6):
        band = pixels[top : top + 6]
        weights = 1 << np.arange(len(band))[:, None]
        lines = []
        for index in np.unique(band):
            bits = ((band == index) * weights).sum(0)  # [width]
            lines.append(f"#{index}" + "".join(_run(int(value), len(list(run))) for value, run in groupby(bits)))
        parts.append("$".join(lines) + "-")  # $ returns to the left edge, - starts the next band
    return "".join(parts).encode("ascii") + b"\x1b\\\n"


def _run(bits: int, length: int) -> str:
    character = chr(63 + bits)
    return f"!{length}{character}" if length > 3 else character * length
