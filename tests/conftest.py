"""Settings and fixtures that all tests share."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from deixis.pipelines.models import Models

settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")


@pytest.fixture(scope="session")
def shipped() -> Models:
    """The default captioner and grounder, loaded once per test process; a test changes them only by monkeypatch."""
    from deixis.pipelines.models import load_models

    return load_models(device="cpu")


@pytest.fixture
def loaded_once(shipped: Models, monkeypatch: pytest.MonkeyPatch) -> Models:
    """The shipped models; the commands and functions that a test calls use them instead of loading them again."""
    from deixis.pipelines import models

    ready = {models.DEFAULT_CAPTIONER: shipped.captioner, models.DEFAULT_GROUNDER: shipped.grounder}
    load = models._load

    def load_once(given: Any, kinds: dict[str, tuple[str, str]], device: str) -> Any:
        found = ready.get(str(given))
        classes = [name for _, name in kinds.values()]
        return found if type(found).__name__ in classes else load(given, kinds, device)

    monkeypatch.setattr(models, "_load", load_once)
    return shipped


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java runtime: METEOR and SPICE, which take seconds and have tests of their own, are left out."""
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *args, **kwargs: None if name == "java" else which(name))
