"""The feature store: what goes in comes out, whoever dies in between."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from deixis.errors import DeixisError
from deixis.files import TMP_PREFIX
from deixis.types import Labels, Regions, require_extractor
from deixis.vision.head import ClassHead
from deixis.vision.store import Contents, FeatureStore, StoreWriter

CLASSES = tuple(f"class {i}" for i in range(40))
CONTENTS = Contents(
    extractor="tiny+grid-0123abcd",
    description={"version": 1, "backbone": {"name": "tiny", "seed": 0}, "proposals": {"name": "grid"}},
)


def make_regions(seed: int, grid: bool = False, frames: bool = False, classes: tuple[str, ...] = CLASSES) -> Regions:
    """Regions that follow from the seed; their number differs from image to image."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0 if seed % 7 == 0 else 1, 9))
    return Regions(
        boxes=rng.uniform(0, 5000, (count, 4)).astype(np.float32),
        features=rng.normal(size=(count, 24)).astype(np.float16),
        size=(int(rng.integers(1, 5000)), 100 + seed),
        scores=rng.normal(size=count).astype(np.float32),
        labels=Labels(rng.integers(0, 40, (count, 5)), rng.uniform(size=(count, 5)).astype(np.float16), classes),
        frames=rng.integers(0, 3, count) if frames else None,
        grid=rng.normal(size=(*((3,) if frames else ()), 2 + seed % 3, 4, 6)).astype(np.float16) if grid else None,
        extractor=CONTENTS.extractor,
    )


def same(a: Regions, b: Regions) -> bool:
    pairs = [(a.boxes, b.boxes), (a.features, b.features), (a.scores, b.scores), (a.frames, b.frames), (a.grid, b.grid)]
    if a.labels is not None and b.labels is not None:
        pairs += [(a.labels.ids, b.labels.ids), (a.labels.probs, b.labels.probs)]
    equal = all((x is None) == (y is None) and (x is None or np.array_equal(x, y)) for x, y in pairs)
    return equal and a.size == b.size and a.extractor == b.extractor and (a.labels is None) == (b.labels is None)


def fill(path: Path, seeds: range, **options: bool) -> None:
    with StoreWriter(path, CONTENTS, images_per_shard=8) as writer:
        for seed in seeds:
            writer.add(f"image {seed}", make_regions(seed, **options))


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("frames", [False, True])
def test_everything_comes_back(tmp_path: Path, grid: bool, frames: bool) -> None:
    fill(tmp_path / "store", range(30), grid=grid, frames=frames)
    store = FeatureStore(tmp_path / "store")
    assert list(store) == [f"image {seed}" for seed in range(30)]
    assert len(list((tmp_path / "store").glob("shard-*"))) == 4
    for seed in np.random.default_rng(0).permutation(30):
        assert same(store[f"image {seed}"], make_regions(int(seed), grid=grid, frames=frames))
    assert store.contents == CONTENTS
    assert (store["image 3"].labels or pytest.fail("no labels")).names == CLASSES
    assert "image 31" not in store
    with pytest.raises(KeyError):
        store["image 31"]


def test_class_probabilities_and_image_vectors_come_back(tmp_path: Path) -> None:
    def whole(seed: int) -> Regions:
        plain, rng = make_regions(seed), np.random.default_rng(seed)
        probs, vector = rng.uniform(size=(len(plain), 3)), rng.normal(size=4)
        return replace(plain, class_probs=probs, class_names=("a", "b", "c"), image_vector=vector)

    with StoreWriter(tmp_path, CONTENTS, images_per_shard=8) as writer:
        for seed in range(20):
            writer.add(str(seed), whole(seed))
        with pytest.raises(ValueError, match="other class names"):
            writer.add("x", replace(whole(1), class_names=("a", "b", "d")))
        with pytest.raises(ValueError, match="image_vector"):
            writer.add("x", replace(whole(1), image_vector=None))
    store = FeatureStore(tmp_path)
    for seed in range(20):
        found, given = store[str(seed)], whole(seed)
        assert given.class_probs is not None
        assert given.image_vector is not None
        assert np.array_equal(found.class_probs, given.class_probs.astype(np.float16))  # type: ignore[arg-type]
        assert np.array_equal(found.image_vector, given.image_vector.astype(np.float16))  # type: ignore[arg-type]
        assert found.class_names == ("a", "b", "c")


def test_shards_without_class_names_are_read(tmp_path: Path) -> None:
    fill(tmp_path, range(1, 4))  # no class probabilities: the metadata is that of version 0.1
    with safe_open(next(tmp_path.glob("shard-*")), framework="numpy") as file:
        assert set(file.metadata()) == {"image_ids", "classes"}
    found = FeatureStore(tmp_path)["image 1"]
    assert found.class_probs is None
    assert found.class_names == ()
    assert found.image_vector is None


def test_the_class_head_of_a_store(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = ((5, 4), (5,), (3, 5), (3,))
    head = ClassHead(*(rng.normal(size=shape).astype(np.float32) for shape in shapes), names=("background", "a", "b"))
    fill(tmp_path, range(1, 4))
    assert FeatureStore(tmp_path).head() is None
    head.save(tmp_path)
    read = FeatureStore(tmp_path).head()
    assert read is not None
    assert read.digest() == head.digest()
    x = rng.normal(size=(2, 4))
    expected = []
    for row in x:  # softmax(ReLU(W_c) . ReLU(fc7) + b), written out
        hidden = [max(0.0, float(w @ row + b)) for w, b in zip(head.fc7_weight, head.fc7_bias, strict=True)]
        logits = [sum(max(0.0, float(w)) * h for w, h in zip(ws, hidden, strict=True)) for ws in head.class_weight]
        shares = np.exp(np.array(logits) + head.class_bias)
        expected.append(shares / shares.sum())
    assert np.allclose(read.class_probs(x), expected, atol=1e-6)
    assert read.class_probs(np.zeros((0, 4))).shape == (0, 3)
    with pytest.raises(ValueError, match="class head"):
        replace(head, names=("a",))
    (tmp_path / "head.safetensors").write_bytes(b"damaged")
    with pytest.raises(DeixisError, match="damaged"):
        FeatureStore(tmp_path).head()


def test_arrays_lie_in_the_file_and_writing_to_them_does_not_change_it(tmp_path: Path) -> None:
    fill(tmp_path, range(1, 9))
    store = FeatureStore(tmp_path)
    features = store["image 1"].features
    assert features.dtype == np.float16
    assert not features.flags.owndata
    features[:] = 0
    assert same(FeatureStore(tmp_path)["image 1"], make_regions(1))
    assert all(sound for _, sound in FeatureStore(tmp_path).verify())


def test_a_second_writer_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    fill(tmp_path, range(10))
    with StoreWriter(tmp_path, CONTENTS, images_per_shard=8) as writer:
        assert writer.image_ids == {f"image {seed}" for seed in range(10)}
        with pytest.raises(ValueError, match="image 3 is already in the store"):
            writer.add("image 3", make_regions(3))
        for seed in range(10, 20):
            writer.add(f"image {seed}", make_regions(seed))
    store = FeatureStore(tmp_path)
    assert len(store) == 20
    assert all(same(store[f"image {seed}"], make_regions(seed)) for seed in range(20))


def test_an_exception_in_the_middle_keeps_what_was_added(tmp_path: Path) -> None:
    def interrupted() -> None:
        with StoreWriter(tmp_path, CONTENTS) as writer:
            writer.add("a", make_regions(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert same(FeatureStore(tmp_path)["a"], make_regions(1))


def test_reading_and_commanding_do_not_wait_for_torch() -> None:
    check = "import sys, deixis.vision.store, deixis.commands.features, deixis.commands.regions; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", check], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    assert "deixis.vision.store" in modules
    assert not {"torch", "cv2", "spacy", "matplotlib"} & set(modules)


# Who may write, who may read --------------------------------------------------------------------------------------


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, CONTENTS) as first:
        with pytest.raises(DeixisError, match="another process is writing to"):
            StoreWriter(tmp_path, CONTENTS)
        first.add("a", make_regions(1))
    with StoreWriter(tmp_path, CONTENTS) as again:
        assert again.image_ids == {"a"}


def test_writers_of_different_parts_share_a_store(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, CONTENTS, part=(1, 2)) as one, StoreWriter(tmp_path, CONTENTS, part=(2, 2)) as two:
        one.add("a", make_regions(1))
        two.add("b", make_regions(2))
        one.skip("bad", "no picture")
        two.skip("worse", "no file")
        for part in ((1, 1), (2, 2)):  # the whole store, and a part that is being written
            with pytest.raises(DeixisError, match="another process is writing"):
                StoreWriter(tmp_path, CONTENTS, part=part)
    store = FeatureStore(tmp_path)
    assert sorted(store) == ["a", "b"]
    assert {image_id: entry["reason"] for image_id, entry in store.skipped().items()} == {
        "bad": "no picture",
        "worse": "no file",
    }
    with StoreWriter(tmp_path, CONTENTS) as whole:
        assert whole.image_ids == {"a", "b"}
        whole.add("bad", make_regions(3))
        with pytest.raises(DeixisError, match="another process is writing"):
            StoreWriter(tmp_path, CONTENTS, part=(1, 2))
    assert set(FeatureStore(tmp_path).skipped()) == {"worse"}


def test_another_extractor_may_not_add(tmp_path: Path) -> None:
    fill(tmp_path, range(2))
    other = Contents("tiny+grid-99999999", {**CONTENTS.description, "backbone": {"name": "tiny", "seed": 1}})
    with pytest.raises(DeixisError, match=r"not of tiny\+grid-99999999 \(different: backbone\.seed \(kept"):
        StoreWriter(tmp_path, other)
    with pytest.raises(DeixisError, match=r"other settings \(grid"):
        StoreWriter(tmp_path, Contents(CONTENTS.extractor, CONTENTS.description, {"grid": 7}))
    StoreWriter(tmp_path, CONTENTS).close()  # the refusals let go of the lock


def test_a_model_refuses_another_extractor_and_says_which_it_wants(tmp_path: Path) -> None:
    fill(tmp_path, range(1, 3))
    store = FeatureStore(tmp_path)
    store.require(CONTENTS.extractor)
    with pytest.raises(DeixisError, match=r"extractor tiny\+grid-0123abcd, but the model expects big\+boxes-1"):
        store.require("big+boxes-1")
    require_extractor(store["image 1"].extractor, CONTENTS.extractor)
    with pytest.raises(DeixisError, match=r"these regions are from the extractor \(unknown\)"):
        require_extractor("", "big+boxes-1")


def test_what_does_not_belong_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(DeixisError, match="has other files and is not a feature store"):
        StoreWriter(tmp_path, CONTENTS)
    (tmp_path / "a file").write_bytes(b"")
    with pytest.raises(DeixisError, match=r"cannot be written \(.*Choose another folder"):
        StoreWriter(tmp_path / "a file", CONTENTS)
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "a file"):
        with pytest.raises(DeixisError, match=r"is not a feature store\. Create one with 'deixis features"):
            FeatureStore(place)
    with StoreWriter(tmp_path / "new", CONTENTS) as writer:
        writer.add("a", make_regions(1))
        with pytest.raises(ValueError, match="the images before it"):
            writer.add("b", make_regions(2, grid=True))
        huge = make_regions(3)
        with pytest.raises(DeixisError, match="c has features beyond the range of half precision"):
            writer.add("c", Regions(huge.boxes, huge.features.astype(np.float32) * 1e6, huge.size, huge.scores,
                                    huge.labels, extractor=huge.extractor))  # fmt: skip
        other = make_regions(3, classes=("cat",) * 40)
        with pytest.raises(ValueError, match="c has other classes"):
            writer.add("c", other)
        with pytest.raises(ValueError, match="but the store is of"):
            writer.add("d", Regions(huge.boxes, huge.features, huge.size, extractor="other"))
    assert list(FeatureStore(tmp_path / "new")) == ["a"]


def test_skipped_images_are_kept_until_they_are_added(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, CONTENTS) as writer:
        writer.skip("bad", "truncated", {"size": 12})
        writer.skip("late", "locked")
    with StoreWriter(tmp_path, CONTENTS) as writer:
        assert writer.skipped == {"bad": {"reason": "truncated", "size": 12}, "late": {"reason": "locked"}}
        writer.add("late", make_regions(1))
    store = FeatureStore(tmp_path)
    assert store.skipped() == {"bad": {"reason": "truncated", "size": 12}}
    assert list(store) == ["late"]


# Damage -----------------------------------------------------------------------------------------------------------


def test_verify_finds_a_single_changed_byte(tmp_path: Path) -> None:
    fill(tmp_path, range(20))
    assert [sound for _, sound in FeatureStore(tmp_path).verify()] == [True, True, True]
    shard = sorted(tmp_path.glob("shard-*"))[1]
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(data)
    assert dict(FeatureStore(tmp_path).verify())[shard.name] is False


def test_a_cut_shard_is_named(tmp_path: Path) -> None:
    fill(tmp_path, range(4))
    shard = next(tmp_path.glob("shard-*"))
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(DeixisError, match=rf"{shard.name} is damaged .* Delete it and run 'deixis features' again"):
        FeatureStore(tmp_path)


def test_a_copied_shard_is_named(tmp_path: Path) -> None:
    fill(tmp_path, range(4))
    shard = next(tmp_path.glob("shard-*"))
    (tmp_path / shard.name.replace("000000", "000001")).write_bytes(shard.read_bytes())
    with pytest.raises(DeixisError, match=r"image 0 is in .* and in .* Delete one of these files"):
        FeatureStore(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 1}', '{"format": 99}'])
def test_a_broken_description_is_named(tmp_path: Path, content: str) -> None:
    fill(tmp_path, range(4))
    (tmp_path / "store.json").write_text(content)
    with pytest.raises(DeixisError, match=r"Run deixis features again"):
        FeatureStore(tmp_path)


# Several processes ------------------------------------------------------------------------------------------------


def read_some(store: FeatureStore, seeds: list[int]) -> list[bool]:
    return [same(store[f"image {seed}"], make_regions(seed)) for seed in seeds]


def test_readers_in_other_processes(tmp_path: Path) -> None:
    fill(tmp_path, range(30))
    store = FeatureStore(tmp_path)
    assert same(pickle.loads(pickle.dumps(store))["image 5"], make_regions(5))
    assert same(store["image 5"], make_regions(5))  # mapped before the fork
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.starmap(read_some, [(store, list(range(i, 30, 3))) for i in range(3)])
    assert sum(map(len, answers)) == 30
    assert all(map(all, answers))


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_store import CONTENTS, make_regions
from deixis.vision.store import StoreWriter
print("ready", flush=True)
with StoreWriter(Path(sys.argv[2]), CONTENTS, images_per_shard=5) as writer:
    for seed in range(400):
        if f"image {seed}" not in writer.image_ids:
            writer.add(f"image {seed}", make_regions(seed))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
def test_a_writer_killed_at_any_moment_leaves_nothing_torn(tmp_path: Path) -> None:
    path, rng = tmp_path / "store", np.random.default_rng(0)
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(path)]
    killed, seen = 0, 0
    for _ in range(8):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(rng.uniform(0.005, 0.05))
            writer.send_signal(signal.SIGKILL)
            killed += writer.wait() == -signal.SIGKILL
        if not (path / "store.json").exists():
            continue
        store = FeatureStore(path)
        assert all(sound for _, sound in store.verify())
        assert list(store) == [f"image {seed}" for seed in range(len(store))]
        assert len(store) >= seen  # what was once there stays
        seen = len(store)
        assert all(same(store[image_id], make_regions(int(image_id.split()[1]))) for image_id in store)
    assert killed > 0
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    store = FeatureStore(path)
    assert list(store) == [f"image {seed}" for seed in range(400)]
    assert all(same(store[f"image {seed}"], make_regions(seed)) for seed in range(400))
    assert not list(path.glob(f"{TMP_PREFIX}*"))
    assert json.loads((path / "store.json").read_text())["extractor"] == CONTENTS.extractor
