"""Database of a study: items, raters, assignments and ratings in one SQLite file.

Each change is written immediately, so a study can be stopped and resumed at any time.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from deixis.errors import DeixisError
from deixis.files import atomic_path
from deixis.study.pairs import Pair
from deixis.study.results import Rating

FORMAT = "deixis-study-1"
LONGEST_NAME = 60

Choice = Literal["left", "right", "equal"]

_SCHEMA = """
CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE items (item INTEGER PRIMARY KEY, image TEXT NOT NULL, word TEXT NOT NULL, width INTEGER NOT NULL,
                    height INTEGER NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL);
CREATE TABLE raters (rater INTEGER PRIMARY KEY, name TEXT NOT NULL, known TEXT NOT NULL UNIQUE);
CREATE TABLE turns (rater INTEGER NOT NULL REFERENCES raters, turn INTEGER NOT NULL,
                    item INTEGER NOT NULL REFERENCES items, a_left INTEGER NOT NULL,
                    PRIMARY KEY (rater, turn), UNIQUE (rater, item));
CREATE TABLE ratings (place INTEGER PRIMARY KEY AUTOINCREMENT, rater INTEGER NOT NULL, item INTEGER NOT NULL,
                      verdict TEXT NOT NULL CHECK (verdict IN ('a', 'b', 'equal')),
                      at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
                      UNIQUE (rater, item), FOREIGN KEY (rater, item) REFERENCES turns (rater, item));
"""


@dataclass(frozen=True)
class Plan:
    """Design of a study; the defaults are those of Cyclical: 25 images per rater, two raters per image."""

    a: str = "A"  # names of the systems
    b: str = "B"
    images_each: int = 25  # images per rater and assignment; 0: all
    raters_each: int = 2  # raters per image
    seed: int = 0


@dataclass(frozen=True)
class Turn:
    """One question to a rater: which of two boxes fits the word better. The systems are not named."""

    item: int
    image: str
    word: str
    width: int
    height: int
    left: tuple[float, ...]
    right: tuple[float, ...]


@dataclass(frozen=True)
class RaterStatus:
    """Progress of a rater."""

    done: int
    total: int
    turn: Turn | None  # None: all items are rated
    ahead: int | None  # the following item
    more: bool  # whether some images are not yet assigned to this rater


class StudyDatabase:
    """SQLite file of a study. Each method opens its own connection, so that threads and processes can share it."""

    def __init__(self, path: Path) -> None:
        """Open an existing study."""
        self.path = path
        if not path.is_file():
            raise DeixisError(
                f"{path} does not exist. Start a study with 'deixis study A B --images DIR --out {path}'."
            )
        try:
            with self._open() as table:
                stored = dict(table.execute("SELECT name, value FROM study"))
        except sqlite3.DatabaseError as error:
            raise DeixisError(f"{path} is not a study ({error}). Expected a file written by 'deixis study'.") from None
        if stored.get("format") != FORMAT:
            raise DeixisError(f"{path} has the format {stored.get('format')}. Expected {FORMAT}; start a new study.")
        self.plan = Plan(**json.loads(stored["plan"]))
        self._fingerprint = stored["fingerprint"]

    @classmethod
    def create_or_open(cls, path: Path, plan: Plan, pairs: Sequence[Pair]) -> StudyDatabase:
        """Create a study, or open one with the same plan and pairs; raise an error if they differ."""
        fingerprint = _fingerprint(plan, pairs)
        if path.exists():
            database = cls(path)
            if database._fingerprint != fingerprint:
                raise DeixisError(f"{path} is a study with other predictions or options. Choose another --out.")
            return database
        if not pairs:
            raise DeixisError(
                "The two prediction files have no common word with boxes. Check that they are for the same images."
            )
        stored = {"format": FORMAT, "plan": json.dumps(asdict(plan)), "fingerprint": fingerprint}
        rows = [(p.image, p.word, p.width, p.height, json.dumps(p.a), json.dumps(p.b)) for p in pairs]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as tmp_path, closing(sqlite3.connect(tmp_path)) as table, table:
                table.executescript(_SCHEMA)
                table.executemany("INSERT INTO study VALUES (?, ?)", stored.items())
                table.executemany(
                    "INSERT INTO items (image, word, width, height, a, b) VALUES (?, ?, ?, ?, ?, ?)", rows
                )
        except (OSError, sqlite3.Error) as error:
            raise DeixisError(f"{path} cannot be written ({error}). Choose another --out.") from None
        return cls(path)

    def images(self) -> list[str]:
        """List the images of the study."""
        with self._open() as table:
            return [image for (image,) in table.execute("SELECT image FROM items GROUP BY image ORDER BY MIN(item)")]

    def image_of(self, item: int) -> str | None:
        """Image of an item; None if the item does not exist."""
        with self._open() as table:
            found = table.execute("SELECT image FROM items WHERE item = ?", [item]).fetchone()
        return None if found is None else str(found[0])

    def enter(self, name: str) -> int:
        """Return the number of a rater by name; a new rater gets images assigned."""
        shown = " ".join(unicodedata.normalize("NFC", name).split())[:LONGEST_NAME]
        if not shown.isprintable() or not shown:
            raise DeixisError("The name is empty or has invalid characters. Enter your name.")
        known = shown.casefold()
        with self._open(write=True) as table:
            table.execute("INSERT INTO raters (name, known) VALUES (?, ?) ON CONFLICT DO NOTHING", [shown, known])
            [rater] = table.execute("SELECT rater FROM raters WHERE known = ?", [known]).fetchone()
            if not table.execute("SELECT 1 FROM turns WHERE rater = ?", [rater]).fetchone():
                self._assign(table, rater)
        return int(rater)

    def more(self, rater: int) -> None:
        """Assign more images to a rater."""
        with self._open(write=True) as table:
            if table.execute("SELECT 1 FROM raters WHERE rater = ?", [rater]).fetchone():
                self._assign(table, rater)

    def status(self, rater: int) -> RaterStatus | None:
        """Progress of a rater; None if the rater does not exist."""
        with self._open() as table:
            if not table.execute("SELECT 1 FROM raters WHERE rater = ?", [rater]).fetchone():
                return None
            [total] = table.execute("SELECT COUNT(*) FROM turns WHERE rater = ?", [rater]).fetchone()
            [done] = table.execute("SELECT COUNT(*) FROM ratings WHERE rater = ?", [rater]).fetchone()
            rows = table.execute(
                "SELECT item, image, word, width, height, a, b, a_left FROM turns JOIN items USING (item) "
                "WHERE rater = ? AND item NOT IN (SELECT item FROM ratings WHERE rater = ?) ORDER BY turn LIMIT 2",
                [rater, rater],
            ).fetchall()
            [all_items] = table.execute("SELECT COUNT(*) FROM items").fetchone()
        turn = _turn(*rows[0]) if rows else None
        return RaterStatus(done, total, turn, int(rows[1][0]) if len(rows) > 1 else None, total < all_items)

    def rate(self, rater: int, item: int, choice: Choice) -> bool:
        """Store a choice, replacing an earlier one; return False if the item is not assigned to the rater."""
        with self._open(write=True) as table:
            found = table.execute("SELECT a_left FROM turns WHERE rater = ? AND item = ?", [rater, item]).fetchone()
            if found is None:
                return False
            verdict = "equal" if choice == "equal" else "a" if (choice == "left") == bool(found[0]) else "b"
            table.execute("REPLACE INTO ratings (rater, item, verdict) VALUES (?, ?, ?)", [rater, item, verdict])
        return True

    def undo(self, rater: int) -> None:
        """Delete the rater's last choice; its item is shown again."""
        with self._open(write=True) as table:
            table.execute("DELETE FROM ratings WHERE place = (SELECT MAX(place) FROM ratings WHERE rater = ?)", [rater])

    def ratings(self) -> list[Rating]:
        """List all ratings, in chronological order."""
        with self._open() as table:
            rows = table.execute(
                "SELECT name, item, image, verdict, a_left FROM ratings JOIN turns USING (rater, item) "
                "JOIN raters USING (rater) JOIN items USING (item) ORDER BY place"
            ).fetchall()
        return [Rating(name, item, image, verdict, bool(left)) for name, item, image, verdict, left in rows]

    def assigned(self) -> dict[str, int]:
        """Rater name -> number of assigned words."""
        with self._open() as table:
            return dict(table.execute("SELECT name, COUNT(*) FROM turns JOIN raters USING (rater) GROUP BY rater"))

    def words(self) -> int:
        """Number of words in the study."""
        with self._open() as table:
            return int(table.execute("SELECT COUNT(*) FROM items").fetchone()[0])

    def _assign(self, table: sqlite3.Connection, rater: int) -> None:
        """Assign images to a rater: first those with some but too few raters, then those without raters, then others.

        The seed and the name determine the order of the images. System A is on the left for half of them.
        """
        items: dict[str, list[int]] = {}
        for item, image in table.execute("SELECT item, image FROM items ORDER BY item"):
            items.setdefault(image, []).append(item)
        seen = Counter(
            image for (image,) in table.execute("SELECT image FROM turns JOIN items USING (item) GROUP BY rater, image")
        )
        own = {
            image
            for (image,) in table.execute("SELECT image FROM turns JOIN items USING (item) WHERE rater = ?", [rater])
        }
        [known] = table.execute("SELECT known FROM raters WHERE rater = ?", [rater]).fetchone()
        rng = random.Random(f"{self.plan.seed} {len(own)} {known}")
        free = [image for image in items if image not in own]
        rng.shuffle(free)

        def priority(image: str) -> tuple[bool, int]:
            enough = seen[image] >= self.plan.raters_each
            return enough, seen[image] if enough else -seen[image]

        chosen = sorted(free, key=priority)[: self.plan.images_each or None]
        rng.shuffle(chosen)
        sides = [index % 2 == 0 for index in range(len(chosen) + 1)]
        sides = sides[rng.randrange(2) :][: len(chosen)]  # for an odd number, the extra image may have either side
        rng.shuffle(sides)
        [last] = table.execute("SELECT COALESCE(MAX(turn), 0) FROM turns WHERE rater = ?", [rater]).fetchone()
        assigned_items = [(item, left) for image, left in zip(chosen, sides, strict=True) for item in items[image]]
        rows = [(rater, last + place, item, left) for place, (item, left) in enumerate(assigned_items, start=1)]
        table.executemany("INSERT INTO turns VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a transaction: committed if the block succeeds, with a consistent snapshot for reading."""
        with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as table:
            table.execute("PRAGMA foreign_keys = ON")
            table.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            with table:
                yield table


def _turn(item: int, image: str, word: str, width: int, height: int, a: str, b: str, a_left: int) -> Turn:
    left, right = (a, b) if a_left else (b, a)
    return Turn(item, image, word, width, height, tuple(json.loads(left)), tuple(json.loads(right)))


def _fingerprint(plan: Plan, pairs: Sequence[Pair]) -> str:
    text = json.dumps([asdict(plan), [asdict(pair) for pair in pairs]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
