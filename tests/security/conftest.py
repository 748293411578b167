"""A data set, its features and two small models, in folders whose names are hostile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hostile import HOSTILE, SENTENCES, World, picture, small_models

from deixis import cli


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of a small captioner and a small matcher."""
    root = tmp_path_factory.mktemp("models")
    small_models(root / "captioner", root / "grounder")
    return root / "captioner", root / "grounder"


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world") / HOSTILE
    try:
        root.mkdir(parents=True)  # the slash of "[/nope]" makes two folders
    except OSError:
        pytest.skip("this file system takes only names that are UTF-8")
    photos, data = root / "photos", root / "data"
    photos.mkdir()
    data.mkdir()
    photo = photos / f"{HOSTILE.replace('/', ':')}.png"
    picture().save(photo)
    picture(1).save(photos / "plain.png")
    lines = []
    for number in range(8):
        name, split = f"[b]{number}.png", ("train", "train", "val", "test")[number % 4]
        picture(number).save(data / name)
        lines += [json.dumps({"image": name, "caption": each, "split": split}) for each in SENTENCES]
    (data / "captions.jsonl").write_text("\n".join(lines) + "\n")
    made = World(root, photo, photos, data, root / "store", root / "captioner", root / "grounder")
    small_models(made.captioner, made.grounder)
    tiny = ["--backbone", "tiny", "--proposals", "grid", "--processes", "1", "--quiet"]
    assert cli.run(["features", str(data), "-o", str(made.store), *tiny]) == 0
    return made


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parses are kept for the tests of this folder only."""
    monkeypatch.setenv("DEIXIS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
