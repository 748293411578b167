"""File of captions that an interrupted run continues."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from deixis.errors import DeixisError, display_name
from deixis.files import encode_text, exclusive, json_text, write_error
from deixis.types import Json

START = b'{"image": "'
"""Start of each line; a last line that starts otherwise was not written by this class and is never cut."""


class CaptionsFile:
    """JSON lines that are appended to, by one process at a time. An incomplete last line is removed."""

    def __init__(self, path: Path, model: str) -> None:
        self.path, self.model = path, model
        self.done: set[str] = set()  # photographs that have a line
        self._open = ExitStack()
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DeixisError(f"{display_name(path)} is a pipe or a device, and --out is read again. Name a file.")
        try:
            self._open.enter_context(exclusive(path, "--out"))
            self._file: BinaryIO = self._open.enter_context(path.open("ab+"))
            self._read()
        except OSError as error:
            self._open.close()
            raise write_error(path, error) from None
        except DeixisError:
            self._open.close()
            raise

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0  # bytes of the lines that are sound
        for number, line in enumerate(self._file, 1):
            try:
                record = json.loads(line)
                image, model = str(record["image"]), record["model"]
            except (ValueError, KeyError, TypeError, RecursionError):
                if line.endswith(b"\n") or not line.startswith(START[: len(line)]):
                    raise DeixisError(
                        f"{display_name(self.path)}, line {number}: not a caption of this verb; choose another --out."
                    ) from None
                self._file.truncate(whole)
                return
            if model != self.model:
                raise DeixisError(
                    f"{display_name(self.path)} has captions of the model {model}, not {self.model}. "
                    "Choose another --out."
                )
            self.done.add(image)
            whole += len(line)
            if not line.endswith(b"\n"):
                self._file.write(b"\n")

    def write(self, record: Json) -> None:
        """Append a line and flush it."""
        try:
            self._file.write(encode_text(json_text(record)) + b"\n")
            self._file.flush()
        except OSError as error:
            raise write_error(self.path, error) from None

    def __enter__(self) -> CaptionsFile:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._open.close()
        except OSError as error:  # what was left in the buffer
            raise write_error(self.path, error) from None
