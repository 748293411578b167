"""Errors for users, file names for display, and notes that say what was being done when an error occurred."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

# C0 and C1 control characters, bidirectional controls, surrogates. Line feed and tab are part of messages.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class DeixisError(Exception):
    """Error that the user can correct; the message names the file or option and what to do.

    The command line prints the message without a traceback and exits with 1.
    """


class UsageError(DeixisError):
    """Invalid options or arguments of a command; the command line exits with 2."""


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Turn a failed import into a DeixisError that names the optional dependencies to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise DeixisError(f"{error.name} is not installed. Install it: pip install 'deixis[{extra}]'") from None


def safe_text(text: str) -> str:
    """Return text in which characters that could control a terminal are escapes such as ``\\x1b``."""
    return _UNSAFE.sub(_escape, text)


def display_name(path: str | os.PathLike[str]) -> str:
    """Return a file name for display: one line, without control characters and bytes that are not UTF-8."""
    return safe_text(os.fspath(path)).replace("\n", "\\n").replace("\t", "\\t")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Add what was being done, such as "reading scores.json", to an error that is not a :class:`DeixisError`."""
    try:
        yield
    except DeixisError:
        raise
    except Exception as error:
        error.add_note(what)
        raise
