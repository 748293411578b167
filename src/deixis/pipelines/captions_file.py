"""A file of captions that a stopped run goes on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

from deixis.errors import DeixisError
from deixis.types import Json

START = b'{"image": "'
"""How each line begins; what begins otherwise is somebody else's, and not ours to mend."""


class CaptionsFile:
    """A file of JSON lines that is appended to. A half-written last line, of a run that was cut short, is mended."""

    def __init__(self, path: Path, model: str) -> None:
        self.path, self.model = path, model
        self.done: set[str] = set()  # photographs that have a line
        try:
            self._file: BinaryIO = path.open("ab+")
            self._read()
        except OSError as error:
            raise DeixisError(f"{path} cannot be written ({error.strerror}); choose another --out.") from None

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0  # bytes of the lines that are sound
        for number, line in enumerate(self._file, 1):
            try:
                record = json.loads(line)
                image, model = str(record["image"]), record["model"]
            except (ValueError, KeyError, TypeError):
                if line.endswith(b"\n") or not line.startswith(START[: len(line)]):
                    raise DeixisError(
                        f"{self.path}, line {number}: not a caption of this verb; choose another --out."
                    ) from None
                self._file.truncate(whole)
                return
            if model != self.model:
                raise DeixisError(
                    f"{self.path} has captions of the model {model}, not {self.model}; choose another --out."
                )
            self.done.add(image)
            whole += len(line)
            if not line.endswith(b"\n"):
                self._file.write(b"\n")

    def write(self, record: Json) -> None:
        """Append a line, at once."""
        self._file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> CaptionsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
