"""The book of a study: items, raters, whose turn is what, and the ratings, in one SQLite file.

Everything is written as soon as it is known, so a study can be stopped and gone on with at any time.
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
    """How a study is laid out; as in Cyclical's, a rater sees 25 images and an image is seen by two raters."""

    a: str = "A"  # what the systems are called
    b: str = "B"
    images_each: int = 25  # for a rater at a time; 0: all of them
    raters_each: int = 2  # for an image
    seed: int = 0


@dataclass(frozen=True)
class Turn:
    """What a rater is asked: which of two boxes fits the word better. It does not say whose box is whose."""

    item: int
    image: str
    word: str
    width: int
    height: int
    left: tuple[float, ...]
    right: tuple[float, ...]


@dataclass(frozen=True)
class Desk:
    """Where a rater stands."""

    done: int
    total: int
    turn: Turn | None  # None: all is rated
    ahead: int | None  # the item after it
    more: bool  # whether there are images that this rater has not been given


class Book:
    """A study's file. Every method opens it for itself, so that threads and processes can share it."""

    def __init__(self, path: Path) -> None:
        """Open a study that exists."""
        self.path = path
        if not path.is_file():
            raise DeixisError(f"{path} does not exist; 'deixis study A B --images DIR --out {path}' begins a study.")
        try:
            with self._open() as table:
                told = dict(table.execute("SELECT name, value FROM study"))
        except sqlite3.DatabaseError as error:
            raise DeixisError(f"{path} is not a study ({error}); name the file that 'deixis study' made.") from None
        if told.get("format") != FORMAT:
            raise DeixisError(f"{path} is a study of another version ({told.get('format')}); this one makes {FORMAT}.")
        self.plan = Plan(**json.loads(told["plan"]))
        self._fingerprint = told["fingerprint"]

    @classmethod
    def begin(cls, path: Path, plan: Plan, pairs: Sequence[Pair]) -> Book:
        """Begin a study, or go on with it where the file is of the same plan and pairs; another one is refused."""
        mark = _fingerprint(plan, pairs)
        if path.exists():
            book = cls(path)
            if book._fingerprint != mark:
                raise DeixisError(f"{path} is a study of other predictions or another plan; choose another --out.")
            return book
        if not pairs:
            raise DeixisError("there is no word that both have a box for; are they predictions for the same images?")
        told = {"format": FORMAT, "plan": json.dumps(asdict(plan)), "fingerprint": mark}
        rows = [(p.image, p.word, p.width, p.height, json.dumps(p.a), json.dumps(p.b)) for p in pairs]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as tmp_path, closing(sqlite3.connect(tmp_path)) as table, table:
                table.executescript(_SCHEMA)
                table.executemany("INSERT INTO study VALUES (?, ?)", told.items())
                table.executemany(
                    "INSERT INTO items (image, word, width, height, a, b) VALUES (?, ?, ?, ?, ?, ?)", rows
                )
        except (OSError, sqlite3.Error) as error:
            raise DeixisError(f"{path} cannot be written ({error}). Choose another --out.") from None
        return cls(path)

    def images(self) -> list[str]:
        """The photographs of the study."""
        with self._open() as table:
            return [image for (image,) in table.execute("SELECT image FROM items GROUP BY image ORDER BY MIN(item)")]

    def image_of(self, item: int) -> str | None:
        """The photograph of an item; None where there is no such item."""
        with self._open() as table:
            found = table.execute("SELECT image FROM items WHERE item = ?", [item]).fetchone()
        return None if found is None else str(found[0])

    def enter(self, name: str) -> int:
        """The number of a rater, by name; who comes for the first time gets images to rate."""
        shown = " ".join(unicodedata.normalize("NFC", name).split())[:LONGEST_NAME]
        if not shown.isprintable() or not shown:
            raise DeixisError("a name has at least one letter; enter the one you go by.")
        known = shown.casefold()
        with self._open(write=True) as table:
            table.execute("INSERT INTO raters (name, known) VALUES (?, ?) ON CONFLICT DO NOTHING", [shown, known])
            [rater] = table.execute("SELECT rater FROM raters WHERE known = ?", [known]).fetchone()
            if not table.execute("SELECT 1 FROM turns WHERE rater = ?", [rater]).fetchone():
                self._assign(table, rater)
        return int(rater)

    def more(self, rater: int) -> None:
        """Give a rater another share of the images."""
        with self._open(write=True) as table:
            if table.execute("SELECT 1 FROM raters WHERE rater = ?", [rater]).fetchone():
                self._assign(table, rater)

    def desk(self, rater: int) -> Desk | None:
        """Where a rater stands; None where nobody has that number."""
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
            [every] = table.execute("SELECT COUNT(*) FROM items").fetchone()
        turn = _turn(*rows[0]) if rows else None
        return Desk(done, total, turn, int(rows[1][0]) if len(rows) > 1 else None, total < every)

    def rate(self, rater: int, item: int, choice: Choice) -> bool:
        """Note a choice, in place of an earlier one; False where the item is not among the rater's."""
        with self._open(write=True) as table:
            found = table.execute("SELECT a_left FROM turns WHERE rater = ? AND item = ?", [rater, item]).fetchone()
            if found is None:
                return False
            verdict = "equal" if choice == "equal" else "a" if (choice == "left") == bool(found[0]) else "b"
            table.execute("REPLACE INTO ratings (rater, item, verdict) VALUES (?, ?, ?)", [rater, item, verdict])
        return True

    def undo(self, rater: int) -> None:
        """Forget the rater's last choice; its item is asked again."""
        with self._open(write=True) as table:
            table.execute("DELETE FROM ratings WHERE place = (SELECT MAX(place) FROM ratings WHERE rater = ?)", [rater])

    def ratings(self) -> list[Rating]:
        """All ratings, in the order in which they were given."""
        with self._open() as table:
            rows = table.execute(
                "SELECT name, item, image, verdict, a_left FROM ratings JOIN turns USING (rater, item) "
                "JOIN raters USING (rater) JOIN items USING (item) ORDER BY place"
            ).fetchall()
        return [Rating(name, item, image, verdict, bool(left)) for name, item, image, verdict, left in rows]

    def assigned(self) -> dict[str, int]:
        """Name of each rater -> how many words they were given."""
        with self._open() as table:
            return dict(table.execute("SELECT name, COUNT(*) FROM turns JOIN raters USING (rater) GROUP BY rater"))

    def words(self) -> int:
        """How many words there are to rate."""
        with self._open() as table:
            return int(table.execute("SELECT COUNT(*) FROM items").fetchone()[0])

    def _assign(self, table: sqlite3.Connection, rater: int) -> None:
        """Give images to a rater: first those that another rater has and too few have, then untouched ones, then any.

        The order of the images and, for half of them, which system is on the left come from the seed and the name.
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
        dice = random.Random(f"{self.plan.seed} {len(own)} {known}")
        free = [image for image in items if image not in own]
        dice.shuffle(free)

        def need(image: str) -> tuple[bool, int]:
            enough = seen[image] >= self.plan.raters_each
            return enough, seen[image] if enough else -seen[image]

        chosen = sorted(free, key=need)[: self.plan.images_each or None]
        dice.shuffle(chosen)
        sides = [index % 2 == 0 for index in range(len(chosen) + 1)]
        sides = sides[dice.randrange(2) :][: len(chosen)]  # of an odd number, either side may be the one more
        dice.shuffle(sides)
        [last] = table.execute("SELECT COALESCE(MAX(turn), 0) FROM turns WHERE rater = ?", [rater]).fetchone()
        asked = [(item, left) for image, left in zip(chosen, sides, strict=True) for item in items[image]]
        rows = [(rater, last + place, item, left) for place, (item, left) in enumerate(asked, start=1)]
        table.executemany("INSERT INTO turns VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are kept when the block ends well, and whose readings are of one moment."""
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
