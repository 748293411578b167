"""Console for texts of others: no markup, no control characters; errors name what was being done."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from deixis.errors import DeixisError, safe_text


class PlainConsole(Console):
    """Console that prints names of files and texts of users as they are.

    Text in brackets is never markup. Control characters, which could move the cursor or colour the terminal, and
    bytes that are not UTF-8 are printed as escapes.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the segments of a renderable; their text is safe for a terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(safe_text(segment.text), segment.style)

    def status(self, status: str) -> Activity:  # type: ignore[override]  # only texts, and no other options
        """Show what is being done."""
        return Activity(status, self)


class Activity(Status):
    """A line that says what is being done; unexpected errors name it too."""

    def __init__(self, text: str, console: Console) -> None:
        self.text = text
        super().__init__(Text(safe_text(text)), console=console)

    def update(self, status: str) -> None:  # type: ignore[override]  # only texts, and no other options
        """Change the text."""
        self.text = status
        super().update(Text(safe_text(status)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, Exception) and not isinstance(error, DeixisError):
            error.add_note(self.text)
