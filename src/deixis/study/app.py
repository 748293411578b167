"""HTTP server of a study. Requests contain numbers of raters and items only, no file paths."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NoReturn

from fastapi import Body, FastAPI, HTTPException, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from deixis import __version__
from deixis.errors import DeixisError
from deixis.files import read_bytes
from deixis.images import MAX_BYTES, image_format, load_image
from deixis.serve.guard import Guard, Hosts
from deixis.serve.problems import add_error_handlers
from deixis.serve.upload import UploadLimits
from deixis.show.document import HOUSE_STYLE
from deixis.study.database import LONGEST_NAME, Choice, StudyDatabase
from deixis.types import Json

PAGE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
BROWSER_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
LIMITS = UploadLimits(bytes=64_000, seconds=10.0)
PHOTOGRAPH_CACHE = "private, max-age=86400"

Name = Annotated[str, Body(embed=True, min_length=1, max_length=LONGEST_NAME)]
Number = Annotated[int, Body(ge=1, le=2**62)]


class StrictRequest(Request):
    """Request that rejects JSON with NaN, lone surrogates or deep nesting."""

    async def json(self) -> Any:
        """Return the parsed body."""
        try:
            text = (await self.body()).decode()
            value = json.loads(text, parse_constant=_not_json)
            json.dumps(value, ensure_ascii=False).encode()  # lone surrogates cannot be encoded
            return value
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"The body is not valid JSON ({type(error).__name__}).") from None


class StrictRoute(APIRoute):
    """Route that reads its body as :class:`StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI around the strict request."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strict


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def create_app(database: StudyDatabase, photographs: Mapping[str, Path], hosts: Hosts | None = None) -> FastAPI:
    """Build the application; ``photographs`` maps the images of the study to files.

    The page has a random token in a meta tag. Requests that change the study must send it as a header.
    """
    token = secrets.token_urlsafe(32)
    app = FastAPI(title="Deixis study", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.router.route_class = StrictRoute
    app.add_middleware(Guard, hosts=hosts or Hosts.of("127.0.0.1"), limits=LIMITS, token=token)
    add_error_handlers(app)
    for name, kind in PAGE.items():
        text = files("deixis.study").joinpath(name).read_text(encoding="utf-8").replace("{{token}}", token)
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
    def rater_status(rater: int) -> Json:
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
    try:
        kind = image_format(path)
        if kind in BROWSER_FORMATS:
            content = read_bytes(path, MAX_BYTES)
        else:
            buffer = io.BytesIO()
            load_image(path).save(buffer, "JPEG", quality=92)
            kind, content = "JPEG", buffer.getvalue()
    except (OSError, DeixisError):
        raise HTTPException(404, "The photograph cannot be read. Contact the organiser of the study.") from None
    return Response(content, media_type=f"image/{kind.lower()}", headers={"Cache-Control": PHOTOGRAPH_CACHE})
