"""Files that one process at a time may hold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO


def lock(path: Path) -> IO[bytes] | None:
    """The open lock file, or None while somebody else holds it.

    Close it to let go; the system does when this process ends, however it ends.
    """
    file = path.open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
