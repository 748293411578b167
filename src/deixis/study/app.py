"""HTTP server of a study. Requests contain numbers of raters and items only, no file paths."""

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
from deixis.study.database import LONGEST_NAME, Choice, StudyDatabase
from deixis.types import Json

PAGE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
BROWSER_FORMATS = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".webp": "webp", ".gif": "gif"}
PHOTOGRAPH_CACHE = "private, max-age=86400"

Name = Annotated[str, Body(embed=True, min_length=1, max_length=LONGEST_NAME)]
Number = Annotated[int, Body(ge=1, le=2**62)]


def create_app(database: StudyDatabase, photographs: Mapping[str, Path]) -> FastAPI:
    """Build the application; ``photographs`` maps the images of the study to files."""
    app = FastAPI(title="Deixis study", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def add_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        for name, value in CAREFUL.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(DeixisError)
    async def error_response(request: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    for name, kind in PAGE.items():
        text = files("deixis.study").joinpath(name).read_text(encoding="utf-8")
        app.get("/" if name == "page.html" else f"/{name}")(_constant(text, kind))
    app.get("/house.css")(_constant(HOUSE_STYLE, "text/css"))
    _add_study(app, database, photographs)
    return app


def _constant(text: str, kind: str) -> Callable[[], Response]:
    return lambda: Response(text, media_type=f"{kind}; charset=utf-8")


def _add_study(app: FastAPI, database: StudyDatabase, photographs: Mapping[str, Path]) -> None:
    def status(rater: int) -> Json:
        found = database.status(rater)
        if found is None:
            raise HTTPException(404, f"Rater {rater} does not exist. Enter your name again.")
        record = asdict(found)
        if found.turn is not None:
            del record["turn"]["image"]  # hidden: a file name may describe the image
        return {"rater": rater, **record}

    @app.post("/v1/raters")
    def enter(name: Name) -> Json:
        """Sign in as a new or returning rater."""
        return status(database.enter(name))

    @app.get("/v1/raters/{rater}")
    def stand(rater: int) -> Json:
        """Return the next item."""
        return status(_checked_number(rater))

    @app.post("/v1/raters/{rater}/ratings")
    def rate(rater: int, item: Number, choice: Annotated[Choice, Body()]) -> Json:
        """Store a choice."""
        if not database.rate(_checked_number(rater), item, choice):
            raise HTTPException(404, f"Item {item} is not assigned to rater {rater}.")
        return status(rater)

    @app.post("/v1/raters/{rater}/undo")
    def undo(rater: int) -> Json:
        """Undo the last choice."""
        database.undo(_checked_number(rater))
        return status(rater)

    @app.post("/v1/raters/{rater}/more")
    def more(rater: int) -> Json:
        """Assign more photographs."""
        database.more(_checked_number(rater))
        return status(rater)

    @app.get("/v1/photographs/{item}")
    def photograph(item: int) -> Response:
        """Return the photograph of an item."""
        image = database.image_of(_checked_number(item))
        if image is None:
            raise HTTPException(404, f"Item {item} does not exist.")
        return _picture(photographs[image])


def _checked_number(number: int) -> int:
    """Check that a number fits into an SQLite integer."""
    if not 0 < number < 2**62:
        raise HTTPException(404, "The number is out of range.")
    return number


def _picture(path: Path) -> Response:
    """Return the file unchanged if browsers support its format, else as JPEG."""
    kind = BROWSER_FORMATS.get(path.suffix.lower())
    try:
        if kind is not None:
            content = path.read_bytes()
        else:
            buffer = io.BytesIO()
            load_image(path).save(buffer, "JPEG", quality=92)
            kind, content = "jpeg", buffer.getvalue()
    except (OSError, DeixisError):
        raise HTTPException(404, "The photograph cannot be read. Contact the organiser of the study.") from None
    return Response(content, media_type=f"image/{kind}", headers={"Cache-Control": PHOTOGRAPH_CACHE})
