"""Readers of published region features; one module per layout.

:func:`open_source` opens files of another program as a :class:`~deixis.vision.layouts.records.Source`, and
:func:`deixis.vision.layouts.fill.import_features` writes it to a feature store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from deixis.errors import DeixisError
from deixis.vision.layouts.bottom_up import open_bottom_up
from deixis.vision.layouts.gvd import open_gvd
from deixis.vision.layouts.plain import open_npz, open_parquet
from deixis.vision.layouts.records import ImportOptions, Source

Layout = Literal["gvd", "bottom-up", "npz", "parquet"]
FeatureLayout = Literal["gvd", "bottom-up", "npz", "parquet", "perfect-detector", "biased-detector"]
"""Layouts of ``deixis features``: those of files, and regions made of a store and true boxes (runs/detectors.py)."""
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


def open_source(path: Path, layout: Layout, options: ImportOptions, unpack: Path) -> Source:
    """Open files in a layout; ``unpack`` is a folder for archives that must be unpacked."""
    if not path.exists():
        raise DeixisError(f"{path} does not exist. Expected features in the layout {layout}.")
    match layout:
        case "gvd":
            return open_gvd(path, options, unpack)
        case "bottom-up":
            return open_bottom_up(path, options)
        case "npz":
            return open_npz(path, options)
        case "parquet":
            return open_parquet(path, options)
