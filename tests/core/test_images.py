"""Opening images of every kind, and refusing what cannot be one."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis import DeixisError
from deixis.images import ImageTooLargeError, image_size, load_image


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("x.tif" if mode in ("CMYK", "YCbCr", "I;16", "I", "F") else "x.png")
    if mode == "I;16":
        Image.fromarray(np.full((4, 6), 65535, dtype=np.uint16)).save(path)
    else:
        Image.new("L", (6, 4), 255).convert(mode).save(path)
    image = load_image(path)
    assert (image.mode, image.size) == ("RGB", (6, 4))
    assert np.asarray(image).min() >= 250  # white stays white, whatever the depth


def test_sixteen_bits_keep_their_greys(tmp_path: Path) -> None:
    ramp = np.array([[0, 32768, 65535]], dtype=np.uint16)
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    assert np.asarray(load_image(tmp_path / "ramp.png"))[0, :, 0].tolist() == [0, 128, 255]


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert np.asarray(load_image(tmp_path / "clear.png")).min() == 255


def test_a_rotated_photograph_stands_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 4)).save(tmp_path / "turned.jpg", exif=exif)
    assert load_image(tmp_path / "turned.jpg").size == (4, 8)
    assert image_size(tmp_path / "turned.jpg") == (4, 8)


def test_bytes_are_taken_too() -> None:
    file = io.BytesIO()
    Image.new("RGB", (3, 2)).save(file, "PNG")
    assert load_image(file.getvalue()).size == (3, 2)


def test_only_the_formats_that_are_wanted_are_read() -> None:
    file = io.BytesIO()
    Image.new("RGB", (3, 2)).save(file, "EPS")
    with pytest.raises(DeixisError, match="cannot be read as an image"):
        load_image(file.getvalue(), formats=("PNG", "JPEG"))


def png_that_claims(width: int, height: int) -> bytes:
    """The header of a PNG of any size, with nearly no pixels behind it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(20_000, 20_000), (100_000, 100_000)])
def test_a_bomb_is_refused_before_decoding(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("decoded"))
    with pytest.raises(ImageTooLargeError, match="the uploaded image"):
        load_image(png_that_claims(*size))


def test_what_is_not_an_image_is_named(tmp_path: Path) -> None:
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(whole, "JPEG")
    files = {"empty.jpg": b"", "text.png": b"hello", "cut.jpg": whole.getvalue()[: len(whole.getvalue()) // 2]}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DeixisError, match=name):
            load_image(tmp_path / name)
    Image.new("RGB", (4, 4)).save(tmp_path / "photo.png")
    with pytest.raises(DeixisError, match=r"phto.png does not exist; did you mean \S*/photo.png\?"):
        load_image(tmp_path / "phto.png")
    with pytest.raises(DeixisError, match="is not there either; check the path"):
        load_image(tmp_path / "nowhere" / "x.png")
    with pytest.raises(DeixisError, match="does not exist; check the path"):
        load_image(tmp_path / "nowhere.jpg")
    with pytest.raises(DeixisError, match="folder"):
        load_image(tmp_path)
