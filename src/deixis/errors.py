"""The exceptions that are meant for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
