"""Output of a corpus: a folder of parts, each with the rows of some images.

A part is written as a whole or not at all, and its name is a hash of the names of its images. An image is done when a
part has its row, so a run that was killed at any moment continues with the other images, and no image has two rows.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from deixis.corpus.names import Names
from deixis.differences import differences
from deixis.errors import DeixisError, display_name
from deixis.files import (
    TMP_PREFIX,
    encode_text,
    json_text,
    make_folder,
    open_regular,
    read_settings,
    remove_partial,
    require_regular,
    write_atomic,
)
from deixis.types import Json

Format = Literal["jsonl", "parquet"]
ABOUT = "corpus.json"


class Output(Protocol):
    """Where rows of images are kept."""

    def done(self) -> Names:
        """Names of the images that have a row."""
        ...

    def write(self, rows: Sequence[Json]) -> None:
        """Write rows that have "image" and a result or an "error"."""
        ...


class Parts:
    """Folder of parts. ``about`` (verb, model, options) must be that of the run that began it."""

    def __init__(self, folder: Path, about: Json, format: Format = "jsonl") -> None:
        self.folder, self.format = folder, format
        make_folder(folder)
        about = json.loads(json.dumps({**about, "format": format}))
        if (folder / ABOUT).exists():
            kept = read_settings(folder / ABOUT)
            if differing := differences(kept, about):
                raise DeixisError(
                    f"{display_name(folder)} has results with other settings: {', '.join(differing)}. "
                    "Use the same options, or choose another folder."
                )
        elif any(not path.name.startswith((TMP_PREFIX, "shard-")) for path in folder.iterdir()):
            raise DeixisError(f"{display_name(folder)} has other files. Choose an empty folder for the parts.")
        else:
            write_atomic(folder / ABOUT, json.dumps(about, indent=1) + "\n")

    def done(self) -> Names:
        """Names of the images that have a row."""
        return Names(image for path in self.files() for image in _images(path))

    def files(self) -> list[Path]:
        """Complete parts, by name."""
        return sorted(path for path in self.folder.glob(f"part-*.{self.format}"))

    def rows(self, files: Sequence[Path] | None = None) -> Iterator[Json]:
        """Yield the rows of all parts or of these, part by part; parts have no order."""
        for path in self.files() if files is None else files:
            yield from _rows(path)

    def write(self, rows: Sequence[Json]) -> None:
        """Write a part with rows that have "image" and a result or an "error"."""
        if not rows:
            return
        digest = hashlib.sha256("\n".join(str(row["image"]) for row in rows).encode(errors="replace")).hexdigest()[:16]
        path = self.folder / f"part-{digest}.{self.format}"
        if self.format == "jsonl":
            write_atomic(path, b"".join(encode_text(json_text(row)) + b"\n" for row in rows))
        else:
            write_atomic(path, _parquet(rows))

    def clean(self) -> None:
        """Remove temporary files of a killed run; call it while no other run writes."""
        remove_partial(self.folder)


def _rows(path: Path) -> Iterator[Json]:
    if path.suffix == ".jsonl":
        with open_regular(path) as file:
            yield from (json.loads(line) for line in file)
    else:
        yield from (json.loads(text) for text in _read(path, "result"))


def _images(path: Path) -> Iterator[str]:
    if path.suffix == ".parquet":
        names = _read(path, "image")
        escaped = any("\\udc" in name for name in names)  # a name that is not UTF-8 is whole in the result only
        yield from (str(row["image"]) for row in _rows(path)) if escaped else names
    else:
        yield from (str(row["image"]) for row in _rows(path))


def _read(path: Path, column: str) -> list[str]:
    import pyarrow.parquet

    values: list[str] = pyarrow.parquet.read_table(require_regular(path), columns=[column])[column].to_pylist()
    return values


def _utf8(value: Any) -> str | None:
    """Text for a column of strings; bytes of a name that are not UTF-8 become escapes."""
    return None if value is None else encode_text(str(value)).decode()


def _parquet(rows: Sequence[Json]) -> bytes:
    """Parquet with the columns image, caption, error and result (the row as JSON)."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        raise DeixisError("parquet parts need pyarrow: pip install 'deixis[formats]', or use --format jsonl.") from None
    columns: dict[str, list[Any]] = {
        **{name: [_utf8(row.get(name)) for row in rows] for name in ("image", "caption", "error")},
        "result": [json_text(row) for row in rows],
    }
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    return file.getvalue()
