"""Scores with their protocol and per-item statistics.

Each metric is a function of the *sum over items of per-item statistics*: total and count for a mean, clipped matches
and lengths for BLEU, hits and counts per class for a class-averaged F1. With these statistics a paired bootstrap is
one matrix product, exact for each metric.
"""

from __future__ import annotations

import gzip
import importlib
import json
import lzma
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import __version__
from deixis.data.reading import MAX_JSON, BadFile, read_json, read_packed_json
from deixis.errors import DeixisError
from deixis.files import encode_text, write_atomic

Values = npt.NDArray[np.float64]
Rule = Callable[[Values], Values]  # sums of statistics [B, S] -> metric values [B]


@dataclass(frozen=True, eq=False)
class Score:
    """One metric of one system: ``value == rule(stats.sum(0))``."""

    name: str
    value: float
    signature: str  # protocol and version; only scores with equal signatures are comparable
    ids: tuple[str, ...]  # [n] scored items: image ids, or image id and phrase
    items: Values  # [n] metric of each single item; NaN if undefined
    stats: Values  # [n, S] per-item statistics
    rule: str  # key of RULES: function of the sums

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.4f} | {self.signature}"


def signature(**fields: object) -> str:
    """``"split:test|iou:>.5|v0.1.0"``: the fields in the given order, then the version."""
    return "|".join([*(f"{name}:{value}" for name, value in fields.items()), f"v{__version__}"])


SYSTEM_FIELDS = (
    *("place", "words", "rerank", "checks"),
    *("beam", "branches", "sentence", "repeats", "length_power", "unknown"),  # rules of generation
)
"""Fields of a signature that describe the scored system, not the evaluation protocol."""


def protocol(text: str) -> str:
    """Return a signature without the fields of the system; scores with equal protocols can be compared."""
    return "|".join(field for field in text.split("|") if field.partition(":")[0] not in SYSTEM_FIELDS)


def ratio(sums: Values) -> Values:
    """total / count, from sums ``[B, 2]``; 0 if the count is 0."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] > 0)


RULES: dict[str, Rule] = {"mean": ratio}
"""Functions from summed statistics to metric values; the module of each metric adds its own."""

MODULES_WITH_RULES = ("bleu", "grounded_captions", "java", "retrieval")
"""Modules of this package that add to RULES; :func:`load_scores` imports them."""

FORMAT = "deixis-scores-1"
MAX_CELLS = 2**27
"""Maximum number of statistics of one score in a file (1 GiB)."""


def make_score(
    name: str, ids: Sequence[str], items: npt.ArrayLike, stats: npt.ArrayLike, rule: str, signature: str
) -> Score:
    """Build a score; its value is the rule applied to the summed statistics."""
    table = np.asarray(stats, dtype=np.float64)
    value = float(RULES[rule](table.sum(0, keepdims=True))[0])
    return Score(name, value, signature, tuple(ids), np.asarray(items, dtype=np.float64), table, rule)


def mean_score(name: str, ids: Sequence[str], items: npt.ArrayLike, signature: str) -> Score:
    """Build a score that is the mean of the items ``[n]``; NaN items are ignored."""
    values = np.asarray(items, dtype=np.float64)
    counted = ~np.isnan(values)
    stats = np.stack([np.where(counted, values, 0.0), counted.astype(np.float64)], axis=1)
    return make_score(name, ids, values, stats, "mean", signature)


def save_scores(path: Path, scores: Sequence[Score], meta: Mapping[str, Any]) -> None:
    """Write scores with their per-item statistics, for ``deixis compare``. A path ending in ``.gz`` is compressed."""
    write_json(path, _document(scores, meta))


def pack_scores(scores: Sequence[Score]) -> str:
    """Compress scores with their per-item statistics into text (a score file, xz, base64)."""
    return b64encode(lzma.compress(encode_text(compact_json(_document(scores, {}))))).decode()


def unpack_scores(text: str, path: Path) -> dict[str, Score]:
    """Read the text of :func:`pack_scores`; ``path`` is its file, for error messages."""
    try:
        document = json.loads(lzma.decompress(b64decode(text)))
    except (ValueError, lzma.LZMAError) as error:
        raise BadFile(path, f"invalid compressed scores ({error})") from None
    return _scores(document, path)[0]


def compact_json(document: Any) -> str:
    """Write JSON in one line without spaces."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _document(scores: Sequence[Score], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Content of a score file.

    The file is JSON: ``{"format", "meta", "ids": [[...], ...], "tables": [...], "scores": [...]}``. Scores over the
    same items share one list of ids, and scores with the same statistics share one table. Table rows are sparse,
    because a class-averaged metric has hundreds of columns and few nonzero values per row: row ``i`` has
    ``values[starts[i]:starts[i+1]]`` in the columns ``places[...]``. ``meta`` has information of the writer (files,
    options) and must be JSON.
    """
    id_lists: dict[tuple[str, ...], int] = {}
    numbers: dict[int, int] = {}
    tables: list[dict[str, Any]] = []
    records = []
    for score in scores:
        if id(score.stats) not in numbers:
            numbers[id(score.stats)] = len(tables)
            rows, places = np.nonzero(score.stats)
            tables.append(
                {
                    "columns": score.stats.shape[1],
                    "starts": np.searchsorted(rows, np.arange(len(score.ids) + 1)).tolist(),
                    "places": places.tolist(),
                    "values": [_short(value) for value in score.stats[rows, places].tolist()],
                }
            )
        records.append(
            {
                "name": score.name,
                "value": score.value,
                "signature": score.signature,
                "rule": score.rule,
                "ids": id_lists.setdefault(score.ids, len(id_lists)),
                "table": numbers[id(score.stats)],
                "items": [None if np.isnan(item) else _short(item) for item in score.items.tolist()],
            }
        )
    lists = [list(ids) for ids in id_lists]
    return {"format": FORMAT, "meta": dict(meta), "ids": lists, "tables": tables, "scores": records}


def write_json(path: Path, document: Any) -> None:
    """Write a JSON file atomically, compressed if its name ends in ``.gz``."""
    data = encode_text(f"{compact_json(document)}\n")
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # equal content gives an identical file
    write_atomic(path, data)


def load_scores(path: Path) -> tuple[dict[str, Score], dict[str, Any]]:
    """Read the scores of a file by name, and its ``meta``; check each value against its items."""
    if not path.is_file():
        raise DeixisError(
            f"{path} does not exist. Write it with 'deixis score PREDICTIONS --reference REF --out {path}'."
        )
    return _scores(read_packed_json(path, MAX_JSON) if path.suffix == ".gz" else read_json(path), path)


def _scores(document: Any, path: Path) -> tuple[dict[str, Score], dict[str, Any]]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DeixisError(f"{path} is not a score file of this version. Write it again with 'deixis score --out'.")
    for module in MODULES_WITH_RULES:
        importlib.import_module(f"deixis.metrics.{module}")
    scores: dict[str, Score] = {}
    try:
        id_lists = [tuple(ids) for ids in document["ids"]]
        for ids in id_lists:
            _require(all(isinstance(item, str) for item in ids), "an id is not a string")
            _require(len(set(ids)) == len(ids), "an id occurs twice")
        tables = [_read_table(record) for record in document["tables"]]
        for record in document["scores"]:
            score = _read_score(record, id_lists, tables)
            _require(score.name not in scores, f"{score.name} occurs twice")
            scores[score.name] = score
        meta = dict(document["meta"])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise BadFile(path, f"invalid score file ({reason})") from None
    return scores, meta


def _read_table(record: Mapping[str, Any]) -> Values:
    starts = np.asarray(record["starts"], dtype=np.int64)
    places = np.asarray(record["places"], dtype=np.int64)
    values = np.asarray(record["values"], dtype=np.float64)
    columns, rows, lengths = record["columns"], len(starts) - 1, np.diff(starts)
    _require(isinstance(columns, int) and columns > 0 and columns * rows <= MAX_CELLS, "a table is too large")
    valid = (
        starts.ndim == 1
        and values.shape == places.shape == (starts[-1],)
        and starts[0] == 0
        and bool((lengths >= 0).all() and (places >= 0).all() and (places < columns).all())
        and bool(np.isfinite(values).all())
    )
    _require(valid, "a table is inconsistent")
    stats = np.zeros((rows, columns))
    stats[np.repeat(np.arange(rows), lengths), places] = values
    return stats


def _read_score(record: Mapping[str, Any], id_lists: Sequence[tuple[str, ...]], tables: Sequence[Values]) -> Score:
    name, rule, text = record["name"], record["rule"], record["signature"]
    _require(all(isinstance(field, str) for field in (name, rule, text)), "a name, rule or signature is not a string")
    _require(rule in RULES, f"{name} has the rule {rule!r}, which does not exist in this version")
    _require(record["ids"] >= 0 and record["table"] >= 0, f"{name} has an invalid index of ids or table")
    ids, stats = id_lists[record["ids"]], tables[record["table"]]
    items = np.asarray([np.nan if item is None else item for item in record["items"]], dtype=np.float64)
    _require(items.shape == (len(ids),) == (len(stats),), f"the statistics of {name} do not match its items")
    score = make_score(name, ids, items, stats, rule, text)
    _require(abs(score.value - float(record["value"])) <= 1e-9, f"the value of {name} does not match its items")
    return score


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def _short(number: float) -> float | int:
    """Convert whole numbers to int, for shorter files."""
    return int(number) if number.is_integer() else number
