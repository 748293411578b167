"""Arrays of HDF5 files: bounded, and stored in the file itself.

An HDF5 file of a few kilobytes can describe arrays of terabytes, and can take numbers from any other file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from deixis.data.reading import BadFile, BadRecord
from deixis.errors import requires_extra
from deixis.files import require_regular

MAX_ARRAY = 2**30
"""Maximum bytes that are read or decompressed at once; a video segment of GVD has 8 million."""


def open_hdf5(path: Path) -> Any:
    """Open a file to read."""
    with requires_extra("formats"):
        import h5py
    try:
        return h5py.File(require_regular(path), "r")
    except OSError as error:
        raise BadFile(path, f"not an HDF5 file ({error})") from None


def find_array(file: Any, path: Path, name: str) -> Any:
    """Return an array of a file without reading it; None if there is none with this name."""
    import h5py

    link = None if "/" in name else file.get(name, getlink=True)
    if link is None:
        return None
    found = file[name] if isinstance(link, h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise BadFile(path, f"'{name}' is not an array in this file")
    if found.chunks is not None and math.prod(found.chunks) * found.dtype.itemsize > MAX_ARRAY:
        raise BadFile(path, f"'{name}' has chunks of {list(found.chunks)} {found.dtype}, over {MAX_ARRAY:,} bytes")
    return found


def read_array(found: Any, row: int | None = None) -> Any:
    """Read one row of an array, or all of it."""
    shape = found.shape if row is None else found.shape[1:]
    if math.prod(shape) * found.dtype.itemsize > MAX_ARRAY:
        raise BadRecord(f"{list(shape)} numbers of {found.dtype} are over {MAX_ARRAY:,} bytes")
    try:
        return found[()] if row is None else found[row]
    except (OSError, ValueError) as error:
        raise BadRecord(f"it cannot be read ({error})") from None
