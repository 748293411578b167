"""Pictures in the terminal: which protocol it speaks, and whether the bytes give the picture back."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from deixis.show.terminal import encode_picture, find_protocol


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty", "TERM": "xterm-256color"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app", "TERM": "xterm-256color"}, "iterm2"),
        ({"LC_TERMINAL": "iTerm2", "TERM": "xterm-256color"}, "iterm2"),
        ({"TERM_PROGRAM": "WezTerm", "TERM": "xterm-256color"}, "iterm2"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-sixel"}, "sixel"),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
        ({"TERM": "screen-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, None),
        ({"TERM": "xterm", "DEIXIS_IMAGES": "sixel"}, "sixel"),
        ({"TERM": "xterm-kitty", "DEIXIS_IMAGES": "none"}, None),
    ],
)
def test_the_terminal_is_known_by_its_variables(environment: dict[str, str], protocol: str | None) -> None:
    assert find_protocol(environment) == protocol


def picture(width: int = 90, height: int = 44) -> Image.Image:
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[: height // 2, :, 0] = 255
    pixels[:, width // 3 :, 2] = 51
    pixels[height // 3 :, :, 1] = 204
    return Image.fromarray(pixels)


def test_kitty_gives_the_picture_back_in_chunks() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 70, 3), dtype=np.uint8))
    codes = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", encode_picture(noise, "kitty"))
    assert len(codes) > 1
    assert codes[0][0] == b"a=T,f=100,m=1"
    assert [keys for keys, _ in codes[1:]] == [b"m=1"] * (len(codes) - 2) + [b"m=0"]
    assert all(len(data) <= 4096 for _, data in codes)
    back = Image.open(io.BytesIO(base64.b64decode(b"".join(data for _, data in codes))))
    assert np.array_equal(np.asarray(back), np.asarray(noise))


def test_iterm2_gives_the_picture_back() -> None:
    found = re.fullmatch(rb"\x1b\]1337;File=inline=1;size=(\d+):([^\x07]*)\x07\n", encode_picture(picture(), "iterm2"))
    assert found is not None
    data = base64.b64decode(found[2])
    assert len(data) == int(found[1])
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), np.asarray(picture()))


def test_sixel_gives_the_picture_back() -> None:
    assert np.array_equal(read_sixel(encode_picture(picture(), "sixel")), np.asarray(picture()))


@pytest.mark.parametrize("protocol", ["kitty", "iterm2", "sixel"])
def test_large_pictures_are_made_smaller(protocol: str) -> None:
    large = Image.new("RGB", (3000, 1500), "#336699")
    written = encode_picture(large, protocol)  # type: ignore[arg-type]
    if protocol == "sixel":
        assert read_sixel(written).shape == (400, 800, 3)
    assert len(written) < 100_000


def read_sixel(data: bytes) -> np.ndarray:
    """A small reader of what a sixel terminal draws."""
    found = re.fullmatch(rb'\x1bP0;1q"1;1;(\d+);(\d+)(.*)\x1b\\\n', data, re.DOTALL)
    assert found is not None
    width, height = int(found[1]), int(found[2])
    pixels = np.full((height + 6, width, 3), 255, dtype=np.uint8)
    palette: dict[int, tuple[int, ...]] = {}
    x = top = 0
    chosen = -1
    for token in re.findall(rb"#\d+(?:;2;\d+;\d+;\d+)?|!\d+[?-~]|[?-~]|[$-]", found[3]):
        if token[:1] == b"#":
            number, *levels = map(int, token[1:].split(b";"))
            chosen = number
            if levels:
                palette[number] = tuple(round(level * 255 / 100) for level in levels[1:])
        elif token == b"$":
            x = 0
        elif token == b"-":
            x, top = 0, top + 6
        else:
            length = int(token[1:-1]) if token[:1] == b"!" else 1
            for row in range(6):
                if (token[-1] - 63) >> row & 1:
                    pixels[top + row, x : x + length] = palette[chosen]
            x += length
    return pixels[:height]
