"""``deixis cache clear``: delete what is kept for later runs."""

from __future__ import annotations

from dataclasses import asdict

from deixis.cache import clear_cache
from deixis.commands.console import AsJson, print_json, stderr_console


def clear(as_json: AsJson = False) -> int:
    """Delete the cache: parses of captions, text vectors, and the picture of the last caption.

    Everything in it is computed again when it is needed. DEIXIS_CACHE names another folder for it.

    For example: deixis cache clear

    Args:
        as_json: write the folder and what was deleted to stdout as JSON.
    """
    cleared = clear_cache()
    if as_json:
        print_json(asdict(cleared))
    stderr_console().print(f"{cleared.folder}: {cleared.files:,} files deleted, {cleared.bytes / 1e6:.1f} MB.")
    return 0
