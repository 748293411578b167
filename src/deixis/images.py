"""Opening images: any mode a photograph may come in, bounded before a single pixel is decoded."""

from __future__ import annotations

import difflib
import io
import os
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from deixis.errors import DeixisError

MAX_PIXELS = 100_000_000
"""Largest number of pixels; larger images are refused before decoding."""


class ImageTooLargeError(DeixisError):
    """Image with too many pixels; it was not decoded."""


def load_image(
    source: str | Path | bytes, max_pixels: int = MAX_PIXELS, formats: tuple[str, ...] | None = None
) -> Image.Image:
    """An RGB image, upright (EXIF rotation applied), from a path or from the bytes of a file.

    Greyscale, palette, CMYK and 16-bit images are converted; transparency is laid over white. Raises
    :class:`DeixisError` that names the file when it is missing, unreadable, truncated, empty or too large
    (:class:`ImageTooLargeError`). ``formats`` are those that may be read, by Pillow's names; None: all it knows.
    """
    name = "the uploaded image" if isinstance(source, bytes) else str(source)
    try:
        # Pillow warns at a fixed size of its own; the bound here is ours and comes before decoding.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unusual metadata is no error
            image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats)
            width, height = image.size
            if width < 1 or height < 1:
                raise DeixisError(f"{name} has no pixels ({width} x {height}); leave it out or replace it.")
            if width * height > max_pixels:
                raise ImageTooLargeError(
                    f"{name} has {width} x {height} pixels, over the limit of {max_pixels:,}; make it smaller first."
                )
            # JPEG can decode at a fraction of its size, but boxes must stay in original pixels: decode in full.
            image.load()
            ImageOps.exif_transpose(image, in_place=True)  # otherwise every image is copied, turned or not
            return _to_rgb(image)
    except DeixisError:
        raise
    except FileNotFoundError:
        raise DeixisError(f"{name} does not exist; {_near(Path(name))}") from None
    except IsADirectoryError:
        raise DeixisError(f"{name} is a folder, not an image; name one file in it.") from None
    except Image.DecompressionBombError:  # the limit of Pillow, which is far higher
        raise ImageTooLargeError(f"{name} has far more than {max_pixels:,} pixels; make it smaller first.") from None
    except UnidentifiedImageError:
        raise DeixisError(
            f"{name} cannot be read as an image (unknown format). Use JPEG, PNG, WebP or another image format."
        ) from None
    except Exception as error:  # decoders of Pillow raise many types of errors for damaged files
        reason = str(error) or type(error).__name__
        raise DeixisError(f"{name} cannot be read as an image ({reason}); is it complete?") from None


def image_size(path: str | Path) -> tuple[int, int]:
    """(width, height) of the upright image, from its header alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                width, height = image.size
                turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    except FileNotFoundError:
        raise DeixisError(f"{path} does not exist; check the path.") from None
    except Exception as error:
        raise DeixisError(f"{path} cannot be read as an image ({error}); is it complete?") from None
    return (height, width) if turned else (width, height)


def _near(path: Path) -> str:
    """Suggest a file with a similar name in the same folder."""
    try:
        names = [entry.name for entry in islice(os.scandir(path.parent), 10_000)]
    except OSError:
        return f"the folder {path.parent} is not there either; check the path."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean {path.parent / near[0]}?" if near else "check the path."


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
