"""Pictures in the terminal, where it can show them: the protocols of kitty, iTerm2, and sixel."""

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
CHUNK = 4096  # bytes of base64 that kitty takes at a time
SIXELS = 255  # colours; more make the picture larger and hardly better


def find_protocol(environment: Mapping[str, str]) -> Protocol | None:
    """How this terminal shows pictures, as far as its variables tell; ``DEIXIS_IMAGES`` (or "none") overrides them."""
    chosen = environment.get("DEIXIS_IMAGES", "")
    if chosen:
        return next((known for known in get_args(Protocol) if known == chosen), None)
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith("screen"):  # they swallow pictures
        return None
    if "KITTY_WINDOW_ID" in environment or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    if "sixel" in term or term.split("-")[0] in ("foot", "mlterm", "contour", "yaft"):
        return "sixel"
    return None


def encode_picture(image: Image.Image, protocol: Protocol) -> bytes:
    """What to write to the terminal so that it shows the image, at most 800 x 600 pixels large."""
    small = image.convert("RGB")
    small.thumbnail((WIDEST, HIGHEST), Image.Resampling.LANCZOS)
    if protocol == "sixel":
        return _sixel(small)
    file = io.BytesIO()
    small.save(file, "PNG")
    data = base64.b64encode(file.getvalue())
    return _kitty(data) if protocol == "kitty" else _iterm2(data, len(file.getvalue()))


def _kitty(data: bytes) -> bytes:
    """Escape codes with a chunk each: a=T transmits and shows, f=100 is PNG, m=1 says that more follows."""
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    codes = []
    for number, chunk in enumerate(chunks):
        keys = [*(("a=T", "f=100") if number == 0 else ()), f"m={int(number < len(chunks) - 1)}"]
        codes.append(b"\x1b_G" + ",".join(keys).encode() + b";" + chunk + b"\x1b\\")
    return b"".join(codes) + b"\n"


def _iterm2(data: bytes, size: int) -> bytes:
    return f"\x1b]1337;File=inline=1;size={size}:".encode() + data + b"\x07\n"


def _sixel(image: Image.Image) -> bytes:
    """Bands of six rows; in each band every colour has one line, a character for each column with its six bits."""
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
        parts.append("$".join(lines) + "-")  # $ goes back to the left edge, - on to the next band
    return "".join(parts).encode("ascii") + b"\x1b\\\n"


def _run(bits: int, length: int) -> str:
    character = chr(63 + bits)
    return f"!{length}{character}" if length > 3 else character * length
