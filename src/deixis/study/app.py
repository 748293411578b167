"""HTTP server of a study. Raters and photographs are numbers in requests; no path is ever part of a request."""

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
from deixis.images import image_format, load_image
from deixis.serve.guard import Guard, Hosts
from deixis.serve.problems import add_error_handlers
from deixis.serve.upload import UploadLimits
from deixis.show.document import HOUSE_STYLE
from deixis.study.book import LONGEST_NAME, Book, Choice
from deixis.types import Json

PAGE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
SHOWN_BY_BROWSERS = ("JPEG", "PNG", "WEBP", "GIF")
LIMITS = UploadLimits(bytes=64_000, seconds=10.0)
PHOTOGRAPH_KEPT = "private, max-age=86400"

Name = Annotated[str, Body(embed=True, min_length=1, max_length=LONGEST_NAME)]
Number = Annotated[int, Body(ge=1, le=2**62)]


class StrictRequest(Request):
    """Request whose JSON has no NaN, no half characters and no deep nesting."""

    async def json(self) -> Any:
        """Return the parsed body."""
        try:
            text = (await self.body()).decode()
            value = json.loads(text, parse_constant=_not_json)
            json.dumps(value, ensure_ascii=False).encode()  # half a character cannot be encoded
            return value
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"the body is not valid JSON ({type(error).__name__}).") from None


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


def create_app(book: Book, photographs: Mapping[str, Path], hosts: Hosts | None = None) -> FastAPI:
    """Return the application; ``photographs`` are the files of the images of the study.

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
    try:
        kind = image_format(path)
        if kind in SHOWN_BY_BROWSERS:
            content = path.read_bytes()
        else:
            made = io.BytesIO()
            load_image(path).save(made, "JPEG", quality=92)
            kind, content = "JPEG", made.getvalue()
    except (OSError, DeixisError):
        raise HTTPException(404, "the photograph cannot be read any more; tell who runs this study.") from None
    return Response(content, media_type=f"image/{kind.lower()}", headers={"Cache-Control": PHOTOGRAPH_KEPT})
