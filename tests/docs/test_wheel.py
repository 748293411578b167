"""The wheel: build it, install it into an empty environment, caption a photograph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


def run(command: list[str | Path], folder: Path) -> str:
    """Run a program without the variables that would let it find the sources; its stdout."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    hatchling = find_spec("hatchling")
    if hatchling is None or hatchling.origin is None:
        pytest.skip("hatchling is not installed (pip install hatchling)")
    folder = tmp_path_factory.mktemp("wheel")
    # without isolation: the build must not need a network
    code = "import sys; sys.path.append(sys.argv[1]); from hatchling import build; build.build_wheel(sys.argv[2])"
    run([sys.executable, "-c", code, Path(hatchling.origin).parents[1], folder], ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_has_models_and_licences(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    for model in ("deixis-base", "deixis-base-grounder", "deixis-8k-pairs", "deixis-8k-pairs-grounder"):
        assert f"deixis/pretrained/{model}/weights.safetensors" in names
    for licence in ("LICENSE", "WEIGHTS-LICENSE.md"):
        assert any(name.endswith(f"licenses/{licence}") for name in names)
        assert f"License-File: {licence}" in metadata
    assert "License-Expression: Apache-2.0 AND LicenseRef-Deixis-Weights-NonCommercial" in metadata
    assert not [name for name in names if name.startswith(("tests/", "experiments/"))]


@pytest.mark.slow
def test_the_wheel_captions_a_photograph_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    skimage = pytest.importorskip("skimage")
    photo = Path(skimage.__file__).parent / "data" / "coffee.png"
    run([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    (site,) = {
        Path(line) for line in run([python, "-c", "import site; print(site.getsitepackages()[-1])"], tmp_path).split()
    }
    run([python, "-m", "pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check", wheel], tmp_path)
    # the dependencies of this interpreter, without its editable install of the project: its .pth files are not read
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")

    where = run([python, "-c", "import deixis; print(deixis.__file__)"], tmp_path).strip()
    assert Path(where).is_relative_to(site)
    program = python.with_name("deixis")
    answer = json.loads(run([program, "caption", photo, "--json", "--draw", "out.png", "--quiet"], tmp_path))
    assert answer["caption"].endswith(".")
    assert answer["groundings"]
    assert (tmp_path / "out.png").stat().st_size > 0
    code = f"import deixis; r = deixis.load_captioner()({str(photo)!r}); print(r.text)"
    assert run([python, "-c", code], tmp_path).strip() == answer["caption"]
