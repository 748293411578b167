"""The exceptions that are meant for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class DeixisError(Exception):
    """Something the user can mend. The message is a sentence that names the file and says what to do next.

    The command line prints the message alone and exits with 1; it never shows a traceback for this class.
    """


class UsageError(DeixisError):
    """A command whose options do not fit, whatever the files hold; the command line exits with 2."""


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Turn a failed import into a DeixisError that names the optional dependencies to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise DeixisError(f"{error.name} is not installed. Install it: pip install 'deixis[{extra}]'") from None
