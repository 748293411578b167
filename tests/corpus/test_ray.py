"""Actors of Ray give the rows of the plain run; dead actors and dead drivers lose and repeat nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_works import DieOnce, SizeWork, drive
from deixis.corpus.options import CorpusOptions, EngineOptions
from deixis.corpus.parts import Parts
from deixis.corpus.run import run_corpus
from deixis.corpus.store import fill_store
from deixis.errors import DeixisError
from deixis.vision.fill import build_extractor
from deixis.vision.store import FeatureStore
from small_models import save_noise

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'deixis[ray]'")
pytestmark = pytest.mark.slow

IMAGES = 40
ACTORS: dict[str, Any] = {"engine": "ray", "actors": 2, "batch": 2, "part_rows": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a Ray on this machine with two cores."""
    from deixis.corpus.ray_engine import start

    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # actors import corpus_works
    for attempt in range(3):
        try:
            start(EngineOptions(engine="ray", actors=2))
            break
        except DeixisError as error:  # Ray gives its own processes 15 seconds to start, whatever the load
            ray.shutdown()
            if attempt == 2:
                pytest.skip(f"Ray did not start in three attempts: {error}")
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()
    os.environ["PYTHONPATH"] = os.pathsep.join(paths[1:])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty pictures and a file that is none."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(IMAGES):
        save_noise(folder / f"{number:02}.png", number, (20 + number, 10))
    (folder / "bad.png").write_bytes(b"no picture")
    return folder


def sorted_rows(folder: Path) -> list[dict[str, Any]]:
    return sorted(Parts(folder, SizeWork().about()).rows(), key=lambda row: str(row["image"]))


def run(work: Any, pictures: Path, parts: Path, **options: Any) -> list[dict[str, Any]]:
    for _ in run_corpus(work, [str(pictures)], CorpusOptions(parts=parts, **options)):
        pass
    return sorted_rows(parts)


def test_rows_equal_those_of_the_plain_run_although_an_actor_dies(cluster: str, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "loads").mkdir()
    plain = run(SizeWork(), pictures, tmp_path / "plain")
    rows = run(DieOnce(f"{pictures}/20.png", tmp_path / "loads"), pictures, tmp_path / "ray", **ACTORS)
    assert rows == plain
    assert [Path(row["image"]).name for row in rows if "error" in row] == ["bad.png"]
    loads = {path.name for path in (tmp_path / "loads").iterdir()}
    assert "died" in loads
    assert 2 <= len(loads - {"died"}) <= 3  # of two actors, one was replaced


def test_a_driver_killed_at_ten_points_gives_the_same_rows(cluster: str, pictures: Path, tmp_path: Path) -> None:
    plain = run(SizeWork(), pictures, tmp_path / "plain")
    options = CorpusOptions(parts=tmp_path / "killed", address=cluster, **{**ACTORS, "actors": 1})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["corpus_works", "ray.data"])  # imported once for ten drivers
    random = np.random.default_rng(0)
    for _ in range(10):
        done = {row["image"] for row in sorted_rows(tmp_path / "killed")} if (tmp_path / "killed").exists() else set()
        left = [row["image"] for row in plain if row["image"] not in done and "error" not in row]
        driver = context.Process(target=drive, args=(str(random.choice(left)), str(pictures), options))
        driver.start()
        driver.join(300)  # it cannot finish: the image at which it is killed has no row before and gets none
        driver.kill()  # one that hangs
        driver.join()
        assert driver.exitcode == -signal.SIGKILL
    rows = run(SizeWork(), pictures, tmp_path / "killed", **ACTORS)
    assert rows == plain
    assert max(Counter(row["image"] for row in rows).values()) == 1


def test_features_equal_those_of_the_plain_run(cluster: str, pictures: Path, tmp_path: Path) -> None:
    make = partial(build_extractor, "tiny", "grid", 10, 0, "cpu")
    for engine in ("local", "ray"):
        options = EngineOptions(engine=engine, actors=2 if engine == "ray" else 1)  # type: ignore[arg-type]
        *_, last = fill_store(make, tmp_path / engine, options, [str(pictures)])
        assert last == (IMAGES, 1)
    plain, ours = FeatureStore(tmp_path / "local"), FeatureStore(tmp_path / "ray")
    assert sorted(plain) == sorted(ours)
    assert plain.skipped() == ours.skipped()
    for image_id, regions in plain.items():
        np.testing.assert_array_equal(ours[image_id].boxes, regions.boxes)
        np.testing.assert_allclose(ours[image_id].features, regions.features, atol=2e-3)


def test_errors_of_the_work_reach_the_user(cluster: str, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DeixisError, match="no photographs"):
        run(SizeWork(), tmp_path / "empty", tmp_path / "out", **ACTORS)
    assert json.loads((tmp_path / "out" / "corpus.json").read_text())["verb"] == "size"
