"""Video files that tests write with PyAV; nothing here uses the code under test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


def write_clip(
    path: Path,
    frames: Iterable[Pixels],
    rate: int = 10,
    times: Sequence[float] | None = None,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    container_format: str | None = None,
) -> Path:
    """Write frames ``[H, W, 3]`` at a fixed rate, or at given ``times`` in seconds."""
    import av

    with av.open(str(path), "w", format=container_format) as container:
        stream: Any = None
        for number, pixels in enumerate(frames):
            if stream is None:
                stream = container.add_stream(codec, rate=rate)
                stream.height, stream.width = pixels.shape[:2]
                stream.pix_fmt = "yuv420p"
                stream.options = options or {"crf": "8", "preset": "ultrafast"}
                stream.codec_context.time_base = Fraction(1, 1000)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.time_base = Fraction(1, 1000)
            frame.pts = round(1000 * (number / rate if times is None else times[number]))
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def grey(level: int, size: tuple[int, int] = (64, 48)) -> Pixels:
    """A frame of one grey level; ``size`` is width, height."""
    return np.full((size[1], size[0], 3), level, dtype=np.uint8)


def turned(path: Path, out: Path, degrees: int) -> Path:
    """Copy an mp4 and put a rotation (clockwise when shown) into the matrix of its track header."""
    data, one, zero = bytearray(path.read_bytes()), (1 << 16).to_bytes(4), b"\0" * 4
    minus = (2**32 - (1 << 16)).to_bytes(4)
    a, b, c, d = {90: (zero, one, minus, zero), 180: (minus, zero, zero, minus), 270: (zero, minus, one, zero)}[degrees]
    start = data.index(one + zero * 3 + one, data.index(b"tkhd"))  # nine numbers: a b u c d v x y w
    data[start : start + 20] = a + b + zero + c + d
    out.write_bytes(bytes(data))
    return out
