"""Sample frames of video clips: files (PyAV), or folders of frames ``01.jpg`` .. ``10.jpg``.

Decoding is bounded in bytes, pixels, frames and seconds. Frame k of N shows the middle of the k-th of N equal parts of
a segment, t_k = s + (e - s) (k + .5) / N, as Grounded Video Description samples.
"""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from PIL import Image

from deixis.errors import DeixisError, display_name
from deixis.files import open_regular
from deixis.images import load_image

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

FRAMES = 10
"""Frames that are sampled in a segment."""

SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ogv", ".3gp")
"""Suffixes of video files."""

FRAME_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
"""Suffixes of the files in a folder of frames."""

DEMUXERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,ogg"
"""Containers that are opened. Playlists are not among them: they would open other files."""

SEEK_SECONDS = 2.0
"""A frame at least this far ahead is sought; a nearer one is reached by decoding."""

_NUMBER = re.compile(r"0*([1-9][0-9]*)")


@dataclass(frozen=True)
class ClipLimits:
    """Bounds of decoding."""

    bytes: int = 2**34  # of a file
    pixels: int = 36_000_000  # of a frame; all sampled frames are in memory, and 8K has 33 million
    frames: int = 200_000  # decoded for one segment; 10 minutes at 60 frames a second are 36,000
    seconds: float = 300.0  # of decoding one segment


LIMITS = ClipLimits()
DRAWING = ClipLimits(seconds=7200.0)
"""Bounds of drawing on every frame of a clip."""


@dataclass(frozen=True, eq=False)
class ClipFrames:
    """Sampled frames of a segment, upright and of one size."""

    images: tuple[Image.Image, ...]
    times: tuple[float, ...]  # seconds from the start of the file; of a folder of frames: 0, 1, 2, ...
    start: float
    end: float

    @property
    def middle(self) -> int:
        """Index of the frame in the middle."""
        return len(self.images) // 2

    def resized(self, width: int) -> ClipFrames:
        """Return frames of this width, aspect kept; 0: as they are."""
        if not width or self.images[0].width == width:
            return self
        size = width, max(1, round(self.images[0].height * width / self.images[0].width))
        images = tuple(image.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0) for image in self.images)
        return ClipFrames(images, self.times, self.start, self.end)


def is_clip(path: Path) -> bool:
    """Return whether a path is a video file by its suffix, or a folder of frames."""
    return path.suffix.lower() in SUFFIXES if not path.is_dir() else bool(frame_files(path))


def is_clip_content(data: bytes) -> bool:
    """Return whether the first bytes of a file are those of a video container."""
    return (
        data[4:8] in (b"ftyp", b"moov", b"mdat", b"wide")
        or data[:4] in (b"\x1a\x45\xdf\xa3", b"OggS", b"\x00\x00\x01\xba")
        or (data[:4] == b"RIFF" and data[8:12] == b"AVI ")
    ) and data[8:12] not in (b"avif", b"avis", b"heic", b"heix", b"mif1", b"msf1")  # still images in an mp4 container


def frame_files(folder: Path, count: int = FRAMES) -> tuple[Path, ...]:
    """Return the files of a folder of frames in order; empty if its files are not exactly 01 .. ``count``.

    Hidden files and files that are no images do not count.
    """
    if not folder.is_dir():
        return ()
    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if len(files) > 2 * count or any(path.is_dir() for path in files):
        return ()
    numbered: dict[int, Path] = {}
    for path in files:
        if path.suffix.lower() in FRAME_SUFFIXES:
            found = _NUMBER.fullmatch(path.stem)
            if found is None or len(path.stem) < 2:
                return ()
            numbered[int(found[1])] = path
    return tuple(numbered[k] for k in range(1, count + 1)) if set(numbered) == set(range(1, count + 1)) else ()


def sample_times(start: float, end: float, count: int = FRAMES) -> tuple[float, ...]:
    """Middles of ``count`` equal parts of a segment: t_k = start + (end - start) (k + .5) / count."""
    return tuple(start + (end - start) * (k + 0.5) / count for k in range(count))


def load_frames(files: Sequence[Path]) -> ClipFrames:
    """Open the files of a folder of frames; all have one size."""
    images = tuple(load_image(file, LIMITS.pixels) for file in files)
    _require_one_size(images, files[0].parent)
    return ClipFrames(images, tuple(float(k) for k in range(len(images))), 0.0, float(len(images)))


def sample_clip(
    source: str | Path | bytes,
    start: float = 0.0,
    end: float | None = None,
    count: int = FRAMES,
    limits: ClipLimits = LIMITS,
) -> ClipFrames:
    """Return ``count`` frames of a segment of a clip: a video file, its bytes, or a folder of frames.

    Without ``end`` the segment ends with the clip. Raises :class:`DeixisError` that names the file where it is missing,
    broken, too large, or shorter than the segment.
    """
    if not isinstance(source, bytes) and Path(source).is_dir():
        files = frame_files(Path(source), count)
        if not files:
            raise DeixisError(
                f"{display_name(source)} is not a folder of frames. Expected the files 01.jpg to {count:02d}.jpg."
            )
        return load_frames(files)
    name = "the clip" if isinstance(source, bytes) else display_name(source)
    with _open(source, name, limits) as clip:
        last = clip.duration if end is None else end
        if not 0 <= start < last:
            raise DeixisError(f"{name}: the segment from {start:g} to {last:g} s is empty. Expected start < end.")
        times = sample_times(start, last, count)
        images = tuple(clip.frames_at(times))
    _require_one_size(images, name)
    return ClipFrames(images, times, start, last)


def frames_at(source: str | Path | bytes, times: Sequence[float], limits: ClipLimits = LIMITS) -> list[Image.Image]:
    """Return the frames of a clip at ascending times; of a folder of frames, all of them."""
    if not isinstance(source, bytes) and Path(source).is_dir():
        return list(load_frames(frame_files(Path(source), len(times))).images)
    name = "the clip" if isinstance(source, bytes) else display_name(source)
    with _open(source, name, limits) as clip:
        return list(clip.frames_at(times))


def decode_all(source: str | Path | bytes, limits: ClipLimits = LIMITS) -> Iterator[tuple[float, Image.Image]]:
    """Yield the time and the image of every frame of a video file, one in memory at a time."""
    name = "the clip" if isinstance(source, bytes) else display_name(source)
    with _open(source, name, limits) as clip:
        for at, frame in clip.decode():
            yield at, clip.upright(frame)


def clip_rate(source: str | Path | bytes) -> float:
    """Return the mean number of frames per second of a video file, between 1 and 60."""
    name = "the clip" if isinstance(source, bytes) else display_name(source)
    with _open(source, name, LIMITS) as clip:
        rate = clip.stream.average_rate or clip.stream.guessed_rate or Fraction(25)
        return min(max(float(rate), 1.0), 60.0)


def _require_one_size(images: Sequence[Image.Image], name: object) -> None:
    sizes = sorted({image.size for image in images})
    if len(sizes) > 1:
        (w1, h1), (w2, h2) = sizes[:2]
        raise DeixisError(
            f"the frames of {name} have different sizes ({w1} x {h1} and {w2} x {h2}). Expected one size."
        )


def _open(source: str | Path | bytes, name: str, limits: ClipLimits) -> _Clip:
    try:
        import av
    except ImportError:
        raise DeixisError(f"{name} is a clip, which needs PyAV. Install it with: pip install 'deixis[video]'") from None
    file: BinaryIO
    if isinstance(source, bytes):
        file = io.BytesIO(source)
    else:
        try:
            file = open_regular(source, limits.bytes)
        except FileNotFoundError:
            raise DeixisError(f"{name} does not exist. Check the path.") from None
        except OSError as error:
            raise DeixisError(f"{name} cannot be read ({error.strerror or error}).") from None
    try:
        # a file object and two lists of allowed names: FFmpeg opens no other file and no address
        options = {"format_whitelist": DEMUXERS, "protocol_whitelist": "none"}
        container = av.open(file, "r", options=options)
    except (av.error.FFmpegError, ValueError, EOFError) as error:
        file.close()
        raise DeixisError(
            f"{name} is not a readable video ({_reason(error)}). Expected {', '.join(SUFFIXES[:6])} or similar."
        ) from None
    try:
        return _Clip(container, file, name, limits)
    except BaseException:
        container.close()
        file.close()
        raise


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


class _Clip:
    """An opened video file."""

    def __init__(self, container: InputContainer, file: BinaryIO, name: str, limits: ClipLimits) -> None:
        self.container, self.file, self.name, self.limits = container, file, name, limits
        if not container.streams.video:
            raise DeixisError(f"{name} has no video stream. Expected a video.")
        self.stream: VideoStream = container.streams.video[0]
        self._deadline = time.monotonic() + limits.seconds
        self._decoded = 0
        width, height = self.stream.codec_context.width, self.stream.codec_context.height
        if not width or not height:
            raise DeixisError(f"{name} has no frame size. The file is broken; convert it first.")
        if width * height > limits.pixels:
            raise DeixisError(
                f"{name} has frames of {width:,} x {height:,} pixels; at most {limits.pixels:,} pixels are decoded."
            )
        if self.stream.time_base is None:
            raise DeixisError(f"{name} has no time base. The file is broken; convert it first.")
        self.base = self.stream.time_base
        self.first = (self.stream.start_time or 0) * self.base  # time of the first frame in the file's clock

    def __enter__(self) -> _Clip:
        return self

    def __exit__(self, *args: object) -> None:
        self.container.close()
        self.file.close()

    @property
    def duration(self) -> float:
        """Seconds of the video; counted from the packets where the file does not say it."""
        if self.stream.duration:
            return float(self.stream.duration * self.base)
        if self.container.duration:
            return self.container.duration / 1e6
        last = 0.0
        for packet in self._packets():
            if packet.pts is not None:
                last = max(last, float((packet.pts + (packet.duration or 0)) * self.base - self.first))
        self._seek(0.0)
        if last <= 0:
            raise DeixisError(f"{self.name} has no frames. The file is empty or broken.")
        return last

    def frames_at(self, times: Sequence[float]) -> Iterator[Image.Image]:
        """Yield the frame that is shown at each of the ascending times."""
        ahead = self.decode()
        shown: tuple[float, VideoFrame] | None = None  # the last frame that starts at or before the time
        coming = next(ahead, None)
        if coming is None:
            raise DeixisError(f"{self.name} has no frame that can be decoded. The file is broken or cut off.")
        seeks = True
        for at in times:
            if seeks and coming is not None and at - coming[0] > SEEK_SECONDS:
                reached = coming[0]
                if self._seek(at):
                    ahead = self.decode()
                    shown, coming = None, next(ahead, None)
                seeks = coming is not None and coming[0] > reached  # else the file has no key frames in between
                if coming is None or coming[0] > at:  # the index is wrong: read from the start
                    self._seek(0.0)
                    ahead = self.decode()
                    shown, coming, seeks = None, next(ahead, None), False
            while coming is not None and (coming[0] <= at or shown is None):
                shown, coming = coming, next(ahead, None)
            assert shown is not None
            if coming is None and at - shown[0] > max(1.0, 0.1 * times[-1]):
                raise DeixisError(
                    f"{self.name} has no frame at {at:.1f} s; its last one is at {shown[0]:.1f} s. "
                    "The file is cut off, or the segment ends after the clip."
                )
            yield self.upright(shown[1])

    def decode(self) -> Iterator[tuple[float, VideoFrame]]:
        """Yield frames with their times in seconds, from the present position, in the order in which they are shown."""
        import av

        before = -math.inf
        try:
            for frame in self.container.decode(self.stream):
                self._count()
                if frame.pts is None:
                    continue
                if frame.width * frame.height > self.limits.pixels:
                    raise DeixisError(f"{self.name} has a frame of {frame.width:,} x {frame.height:,} pixels.")
                at = float(frame.pts * self.base - self.first)
                if at >= before:  # a clock that runs backwards is a broken file; its frame is left out
                    before = at
                    yield at, frame
        except (av.error.FFmpegError, EOFError, ValueError) as error:
            if before == -math.inf:
                raise DeixisError(f"{self.name} cannot be decoded ({_reason(error)}). The file is broken.") from None
            return  # the frames before the broken place are used; a segment beyond it is an error of frames_at

    def _packets(self) -> Iterator[Any]:
        import av

        try:
            for packet in self.container.demux(self.stream):
                self._count()
                yield packet
        except (av.error.FFmpegError, EOFError, ValueError):
            return

    def _count(self) -> None:
        self._decoded += 1
        if self._decoded > self.limits.frames:
            raise DeixisError(f"{self.name} has more than {self.limits.frames:,} frames before the segment ends.")
        if time.monotonic() > self._deadline:
            raise DeixisError(f"{self.name} took longer than {self.limits.seconds:g} s to decode. Cut it first.")

    def _seek(self, at: float) -> bool:
        """Go to the last key frame before a time; False where the file cannot."""
        import av

        try:
            self.container.seek(
                int((Fraction(at).limit_denominator(10**6) + self.first) / self.base), stream=self.stream
            )
        except av.error.FFmpegError:
            return False
        return True

    def upright(self, frame: VideoFrame) -> Image.Image:
        """Convert a frame to RGB; rotation and pixel shape of the file are applied."""
        image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
        shape = self.stream.sample_aspect_ratio
        if shape is not None and shape > 0 and shape != 1 and Fraction(1, 4) <= shape <= 4:
            image = image.resize((max(1, round(image.width * shape)), image.height))
        turn = round(frame.rotation) % 360  # degrees counter-clockwise, as Pillow's
        steps = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
        return image.transpose(steps[turn]) if turn in steps else image
