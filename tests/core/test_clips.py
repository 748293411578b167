"""Frames of clips: times, rotation, variable frame rate, folders of frames, broken and endless files, bounds."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from deixis import clips
from deixis.clips import ClipLimits, frame_files, is_clip, sample_clip, sample_times
from deixis.errors import DeixisError
from small_clips import grey, turned, write_clip

pytest.importorskip("av")

LEVELS = [20 * k for k in range(10)]


def levels(found) -> list[int]:
    return [round(float(np.asarray(image).mean())) for image in found.images]


def near(found, wanted, tolerance=3) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(levels(found), wanted, strict=True))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Ten seconds; second k has the grey level 20 k."""
    return write_clip(tmp_path_factory.mktemp("clip") / "a.mp4", (grey(level) for level in LEVELS), rate=1)


def test_frame_k_is_the_middle_of_the_k_th_tenth():
    # t = s + (e - s)(k + .5)/10, by hand for s = 2, e = 12
    assert sample_times(2, 12) == pytest.approx([2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5])


def test_the_whole_clip_and_a_segment(clip):
    whole = sample_clip(clip)
    assert whole.times == pytest.approx(sample_times(0, 10))
    assert near(whole, LEVELS)
    part = sample_clip(clip, 2, 4)
    assert near(part, [40] * 5 + [60] * 5)  # 2.1, 2.3 ... 2.9, 3.1 ... 3.9
    assert near(sample_clip(clip.read_bytes(), 2, 4), [40] * 5 + [60] * 5)


def test_variable_frame_rate(tmp_path):
    times = [0, 0.1, 0.2, 0.3, 0.4, 5, 6, 7, 8, 9]
    path = write_clip(tmp_path / "v.mp4", (grey(level) for level in LEVELS), rate=1, times=times)
    assert near(sample_clip(path), [80] * 5 + [100, 120, 140, 160, 180])  # frame 4 is shown from .4 to 5 s


@pytest.mark.parametrize(("degrees", "white"), [(90, "top"), (180, "right"), (270, "bottom")])
def test_rotation(tmp_path, degrees, white):
    half = np.zeros((48, 64, 3), np.uint8)
    half[:, :32] = 255  # the left half is white
    image = sample_clip(
        turned(write_clip(tmp_path / "a.mp4", [half] * 4), tmp_path / "b.mp4", degrees), count=1
    ).images[0]
    assert image.size == ((64, 48) if degrees == 180 else (48, 64))
    pixels = np.asarray(image).mean(-1)
    sides = {"top": pixels[:8], "bottom": pixels[-8:], "left": pixels[:, :8], "right": pixels[:, -8:]}
    assert max(sides, key=lambda side: sides[side].mean()) == white


def test_few_key_frames_and_no_duration(tmp_path):
    frames = [grey(level) for level in np.linspace(0, 250, 100).astype(int)]
    options = {"crf": "8", "preset": "ultrafast", "g": "1000"}
    one_key = write_clip(tmp_path / "a.mkv", frames, rate=5, options=options)
    wanted = levels(sample_clip(one_key))
    assert wanted == sorted(wanted)
    assert abs(wanted[0] - 10) < 6
    assert abs(wanted[-1] - 240) < 6
    # a live stream is written without a duration and without an index
    live = write_clip(tmp_path / "live.mkv", frames, rate=5, options={**options, "g": "5"})
    data = live.read_bytes()
    at = data.index(b"\x44\x89\x88")  # the duration, eight bytes
    live.write_bytes(data[:at] + b"\xec\x89" + data[at + 2 : at + 2] + b"\x00" * 9 + data[at + 11 :])
    assert levels(sample_clip(live)) == pytest.approx(wanted, abs=6)


def test_folder_of_frames(tmp_path):
    for k in range(1, 11):
        Image.fromarray(grey(20 * k)).save(tmp_path / f"{k:02d}.png")
    assert is_clip(tmp_path)
    assert [path.name for path in frame_files(tmp_path)][:2] == ["01.png", "02.png"]
    assert near(sample_clip(tmp_path), [20 * k for k in range(1, 11)])
    Image.fromarray(grey(0, (32, 32))).save(tmp_path / "10.png")
    with pytest.raises(DeixisError, match="different sizes"):
        sample_clip(tmp_path)
    (tmp_path / "holiday.png").write_bytes(b"")
    assert not is_clip(tmp_path)  # an album of photographs


def test_broken_files_are_named(tmp_path, clip):
    data = clip.read_bytes()
    other = {
        "missing.mp4": None,
        "empty.mp4": b"",
        "text.mp4": b"not a video" * 100,
        "cut.mp4": data[: len(data) // 3],
        "playlist.mp4": f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{clip}\n#EXT-X-ENDLIST\n".encode(),
        "concat.mp4": f"ffconcat version 1.0\nfile {clip}\n".encode(),
    }
    for name, content in other.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DeixisError, match=name):
            sample_clip(tmp_path / name)
    with pytest.raises(DeixisError, match=r"no video stream|not a readable video"):
        sample_clip(_sound(tmp_path / "sound.mp4"))


def _sound(path):
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        for packet in [*stream.encode(frame), *stream.encode()]:
            container.mux(packet)
    return path


def test_segments_beyond_the_clip(clip):
    with pytest.raises(DeixisError, match=r"no frame at 61.7 s; its last one is at 9.0 s"):
        sample_clip(clip, 2, 400)
    with pytest.raises(DeixisError, match="empty"):
        sample_clip(clip, 5, 5)
    with pytest.raises(DeixisError, match="empty"):
        sample_clip(clip, 11)


def test_bounds(clip, monkeypatch):
    for limits, reason in [
        (ClipLimits(pixels=1000), "at most 1,000 pixels"),
        (ClipLimits(bytes=100), "over the limit"),
        (ClipLimits(frames=4), "more than 4 frames"),
        (ClipLimits(seconds=-1), "took longer"),
    ]:
        with pytest.raises(DeixisError, match=reason):
            sample_clip(clip, limits=limits)
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(DeixisError, match=r"deixis\[video\]"):
        sample_clip(clip)


def test_a_clip_of_one_second_at_a_wrong_clock(tmp_path):
    path = write_clip(tmp_path / "b.mp4", [grey(90)] * 3, rate=3)
    assert near(sample_clip(path), [90] * 10)
    assert clips.clip_rate(path) == pytest.approx(3, rel=0.01)


MEASURE = """
import resource, sys
from deixis.clips import DRAWING, decode_all, sample_clip
from deixis.show.clip import write_video
from deixis.types import FrameBox, GroundedCaption, Grounding
from pathlib import Path

def work(path):
    clip = sample_clip(path)
    track = tuple(FrameBox(k, at, (1.0, 1.0, 30.0, 30.0), 0.9) for k, at in enumerate(clip.times))
    dog = Grounding("dog", track[0].box, 0.9, 1, 2, frame=0, track=track)
    width, height = clip.images[0].size
    said = GroundedCaption(("a", "dog"), (dog,), -1.0, str(path), width, height, times=clip.times)
    write_video(decode_all(path, DRAWING), said, Path(path).with_suffix(".drawn.mp4"), 2.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

short, long = (work(path) for path in sys.argv[1:])
print(short, long)
"""


@pytest.mark.slow
def test_memory_is_flat_over_ten_minutes(tmp_path):
    """Sampling and drawing a clip of 10 minutes take as much memory as one of 15 s; its frames would fill 415 MB."""

    def frames(count):
        random = np.random.default_rng(0)
        picture = random.integers(0, 255, (6, 8, 3), dtype=np.uint8).repeat(60, 0).repeat(60, 1)  # 480 x 360
        for number in range(count):
            yield np.roll(picture, 4 * number, axis=1)

    paths = [
        str(write_clip(tmp_path / name, frames(count), rate=2, options={"crf": "35", "preset": "ultrafast"}))
        for name, count in (("short.mp4", 30), ("long.mp4", 1200))
    ]
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    short, long = map(float, done.stdout.split())
    assert clips.clip_rate(paths[1]) * 600 == pytest.approx(1200, rel=0.02)
    assert long - short < 60  # megabytes
