"""Open images: regular files of allowed formats, bounded in bytes and pixels before decoding."""

from __future__ import annotations

import difflib
import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from deixis.errors import DeixisError, display_name
from deixis.files import open_regular

FORMATS = (
    *("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM"),
    *("JPEG2000", "HEIF"),  # where Pillow or a plug-in of it reads them
)
"""Formats that are read, by Pillow's names and by content. Pillow would run Ghostscript for EPS, under any name."""

MAX_BYTES = 2**30
MAX_PIXELS = 100_000_000
"""Images with more pixels than this are refused before decoding (a 100-megapixel photograph still passes)."""


class ImageTooLargeError(DeixisError):
    """An image has more pixels than it may; none of them was decoded."""


def load_image(
    source: str | Path | bytes, max_pixels: int = MAX_PIXELS, formats: tuple[str, ...] = FORMATS
) -> Image.Image:
    """Return an RGB image, upright (EXIF rotation applied), from a path or from the bytes of a file.

    Greyscale, palette, CMYK and 16-bit images are converted; transparency is laid over white. Raises
    :class:`DeixisError` that names the file when it is missing, unreadable, truncated, empty, not a regular file or
    too large (:class:`ImageTooLargeError`). ``formats`` are those that may be read, by Pillow's names.
    """
    with _opened(source, formats, max_pixels) as image:
        # JPEG can decode at a fraction of its size, but boxes must stay in original pixels: decode in full.
        image.load()
        ImageOps.exif_transpose(image, in_place=True)  # otherwise every image is copied, turned or not
        return _to_rgb(image)


def image_size(path: str | Path) -> tuple[int, int]:
    """Return (width, height) of the upright image, from its header alone."""
    with _opened(path) as image:
        width, height = image.size
        turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    return (height, width) if turned else (width, height)


def image_format(path: str | Path) -> str:
    """Return Pillow's name of the format of a file, by its content."""
    with _opened(path) as image:
        return image.format or ""


@contextmanager
def _opened(
    source: str | Path | bytes, formats: tuple[str, ...] = FORMATS, max_pixels: int | None = None
) -> Iterator[Image.Image]:
    """Yield an image whose header was read; every error, also of the block, becomes one that names the file."""
    name = "the uploaded image" if isinstance(source, bytes) else display_name(source)
    try:
        # Pillow warns at a fixed size of its own; the bound here is ours and comes before decoding.
        stream = io.BytesIO(source) if isinstance(source, bytes) else open_regular(source, MAX_BYTES)
        with warnings.catch_warnings(), stream as file:
            warnings.simplefilter("ignore")  # of odd metadata too: the image is either read or refused
            image = Image.open(file, formats=_known(formats))
            width, height = image.size
            if width < 1 or height < 1:
                raise DeixisError(f"{name} has no pixels ({width} x {height}); leave it out or replace it.")
            if max_pixels is not None and width * height > max_pixels:
                raise ImageTooLargeError(
                    f"{name} has {width} x {height} pixels, over the limit of {max_pixels:,}; make it smaller first."
                )
            yield image
    except DeixisError:
        raise
    except FileNotFoundError:
        raise DeixisError(f"{name} does not exist; {_near(Path(str(source)))}") from None
    except IsADirectoryError:
        raise DeixisError(f"{name} is a folder, not an image; name one file in it.") from None
    except Image.DecompressionBombError:  # Pillow's own bound, for sizes far over ours
        raise ImageTooLargeError(f"{name} has far more than {MAX_PIXELS:,} pixels; make it smaller first.") from None
    except UnidentifiedImageError:
        raise DeixisError(f"{name} cannot be read as an image (unknown format). Use JPEG, PNG or WebP.") from None
    except Exception as error:  # Pillow's decoders raise nearly anything on a damaged file
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        raise DeixisError(f"{name} cannot be read as an image ({reason}); is it complete?") from None


@cache
def _known(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formats that this installation of Pillow has."""
    Image.init()
    return tuple(name for name in formats if name in Image.OPEN)


def _near(path: Path) -> str:
    """What to do about a file that is not there: take the one beside it with nearly its name."""
    try:
        names = [entry.name for entry in islice(os.scandir(path.parent), 10_000)]
    except OSError:
        return f"the folder {display_name(path.parent)} is not there either; check the path."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean {display_name(path.parent / near[0])}?" if near else "check the path."


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I") or image.mode == "F":  # 16 and 32 bit greyscale
        values = np.nan_to_num(np.asarray(image, dtype=np.float32))
        top = 65535.0 if values.max(initial=0) > 255 else 255.0
        return Image.fromarray((np.clip(values / top, 0, 1) * 255).round().astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
