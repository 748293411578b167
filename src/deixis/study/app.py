"""The page of a study over HTTP. A rater is a number, a photograph is the number of an item: no path comes in."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from fastapi import Body, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response

from deixis import __version__
from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.show.document import CAREFUL, HOUSE_STYLE
from deixis.study.book import LONGEST_NAME, Book, Choice
from deixis.types import Json

PAGE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
SHOWN_BY_BROWSERS = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".webp": "webp", ".gif": "gif"}
PHOTOGRAPH_KEPT = "private, max-age=86400"

Name = Annotated[str, Body(embed=True, min_length=1, max_length=LONGEST_NAME)]
Number = Annotated[int, Body(ge=1, le=2**62)]


def create_app(book: Book, photographs: Mapping[str, Path]) -> FastAPI:
    """The application; ``photographs`` are the files of the images of the study."""
    app = FastAPI(title="Deixis study", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def careful(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        for name, value in CAREFUL.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(DeixisError)
    async def refused(request: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    for name, kind in PAGE.items():
        text = files("deixis.study").joinpath(name).read_text(encoding="utf-8")
        app.get("/" if name == "page.html" else f"/{name}")(_constant(text, kind))
    app.get("/house.css")(_constant(HOUSE_STYLE, "text/css"))
    _add_study(app, book, photographs)
    return app


def _constant(text: str, kind: str) -> Callable[[], Response]:
    return lambda: Response(text, media_type=f"{kind}; charset=utf-8")


def _add_study(app: FastAPI, book: Book, photographs: Mapping[str, Path]) -> None:
    def desk(rater: int) -> Json:
        found = book.desk(rater)
        if found is None:
            raise HTTPException(404, f"there is no rater {rater}; enter your name again.")
        told = asdict(found)
        if found.turn is not None:
            del told["turn"]["image"]  # its name may tell what it shows, or where it lies
        return {"rater": rater, **told}

    @app.post("/v1/raters")
    def enter(name: Name) -> Json:
        """Come as a rater, or come back."""
        return desk(book.enter(name))

    @app.get("/v1/raters/{rater}")
    def stand(rater: int) -> Json:
        """What is next."""
        return desk(_small(rater))

    @app.post("/v1/raters/{rater}/ratings")
    def rate(rater: int, item: Number, choice: Annotated[Choice, Body()]) -> Json:
        """Choose."""
        if not book.rate(_small(rater), item, choice):
            raise HTTPException(404, f"item {item} is none of rater {rater}.")
        return desk(rater)

    @app.post("/v1/raters/{rater}/undo")
    def undo(rater: int) -> Json:
        """Take the last choice back."""
        book.undo(_small(rater))
        return desk(rater)

    @app.post("/v1/raters/{rater}/more")
    def more(rater: int) -> Json:
        """Ask for more photographs."""
        book.more(_small(rater))
        return desk(rater)

    @app.get("/v1/photographs/{item}")
    def photograph(item: int) -> Response:
        """The photograph of an item."""
        image = book.image_of(_small(item))
        if image is None:
            raise HTTPException(404, f"there is no item {item}.")
        return _picture(photographs[image])


def _small(number: int) -> int:
    """A number that SQLite can look for."""
    if not 0 < number < 2**62:
        raise HTTPException(404, "there is no such number.")
    return number


def _picture(path: Path) -> Response:
    """The file as it is where browsers can show it, else as JPEG."""
    kind = SHOWN_BY_BROWSERS.get(path.suffix.lower())
    try:
        if kind is not None:
            content = path.read_bytes()
        else:
            made = io.BytesIO()
            load_image(path).save(made, "JPEG", quality=92)
            kind, content = "jpeg", made.getvalue()
    except (OSError, DeixisError):
        raise HTTPException(404, "the photograph cannot be read any more; tell who runs this study.") from None
    return Response(content, media_type=f"image/{kind}", headers={"Cache-Control": PHOTOGRAPH_KEPT})
