"""Print the functions of the package that a verb calls, in order of first call, with file and number of calls.

    python tools/walk.py caption photo.jpg
    python tools/walk.py --depth 4 ground photo.jpg "a dog"

The functions come from a real run of ``deixis VERB ...`` (``sys.setprofile``), in this process and in all its threads.
Comprehensions and generator expressions count to the function that contains them. ``--depth N`` prints the calls as a
tree of N levels below ``cli.main``, so that the steps of a verb can be read from top to bottom.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "deixis"

INNER = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")
"""Code that belongs to the function around it, or to an import."""


@dataclass
class Walk:
    """The functions that were called: code -> number of calls, in order of first call."""

    calls: dict[CodeType, int] = field(default_factory=dict)
    first: list[tuple[int, CodeType]] = field(default_factory=list)  # depth among our functions, at the first call

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call; the profiler of ``sys.setprofile``."""
        code = frame.f_code
        if event != "call" or not is_ours(code):
            return
        if code not in self.calls:
            self.first.append((depth_of(frame), code))
        self.calls[code] = self.calls.get(code, 0) + 1

    def files(self) -> list[str]:
        """Return the files that have at least one called function."""
        return sorted({file_of(code) for code in self.calls})


def is_ours(code: CodeType) -> bool:
    """Return whether code is a function or method of the package."""
    if code.co_name in INNER or not code.co_filename.startswith(str(PACKAGE)):
        return False
    return not is_class_body(code)


def is_class_body(code: CodeType) -> bool:
    """Return whether code is the body of a class statement: it has no fast locals and is run by an import."""
    return not code.co_flags & 0x2  # CO_NEWLOCALS and CO_OPTIMIZED are unset: 0x2 is CO_NEWLOCALS


def depth_of(frame: FrameType | None) -> int:
    """Return how many functions of the package are above a frame."""
    depth = -1
    while frame is not None:
        depth += is_ours(frame.f_code)
        frame = frame.f_back
    return depth


def file_of(code: CodeType) -> str:
    """Return the path of a function's file inside the package."""
    return str(Path(code.co_filename).relative_to(PACKAGE))


def walk(args: Sequence[str]) -> Walk:
    """Run a verb with the profiler on and return the functions that it called."""
    from deixis.cli import main

    found = Walk()
    threading.setprofile(found.profile)
    sys.setprofile(found.profile)
    try:
        main(list(args))
    except SystemExit as stop:
        if stop.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # typeshed: None removes the profiler
    return found


def report(found: Walk, depth: int | None = None) -> str:
    """Write a line for each function, or the first ``depth`` levels as a tree, and the totals."""
    lines = []
    for level, code in found.first:
        if depth is not None:
            if level <= depth:
                lines.append(f"{'  ' * level}{code.co_qualname}  ({file_of(code)}:{code.co_firstlineno})")
        else:
            lines.append(f"{found.calls[code]:>7,}  {file_of(code)}:{code.co_firstlineno}  {code.co_qualname}")
    lines.append(f"{len(found.calls)} functions in {len(found.files())} files")
    return "\n".join(lines)


def run(args: Sequence[str]) -> int:
    """Walk the verb that the arguments name."""
    depth = None
    if args[:1] == ["--depth"]:
        depth, args = int(args[1]), args[2:]
    if not args:
        print(__doc__, file=sys.stderr)
        return 2
    print(report(walk(args), depth))
    return 0


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
