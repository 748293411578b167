"""HTTP API of an engine, and the files of the web page; all files are read at start-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import StringConstraints
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deixis import __version__
from deixis.serve.engine import FORMATS, STOPPING, Ask, CaptionAsk, CheckAsk, Engine, GroundAsk, describe
from deixis.serve.guard import Guard, Hosts
from deixis.serve.meter import Meter
from deixis.serve.problems import BusyError, ProblemError, add_error_handlers
from deixis.serve.schemas import PHOTO, Captioned, CheckedCaption, Grounded, Health, Models, Problem, problems
from deixis.serve.upload import UploadLimits, read_photo
from deixis.show.document import HOUSE_STYLE
from deixis.show.draw import PALETTE, text_on
from deixis.show.heat import GLOW, HEAT
from deixis.types import Json

PAGE = {
    "page.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "picture.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""Files of the page and their media types."""

EXAMPLES = {
    "astronaut": "A woman in an orange space suit (NASA)",
    "chelsea": "A cat looking at the camera (Stéfan van der Walt)",
    "coffee": "A cup of coffee on a wooden table (Rachel Michetti)",
}
"""Example photographs of scikit-image (free to use) and their titles."""

# a phrase or caption has at least one letter or digit
Words = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"[A-Za-z0-9]")]
Phrases = Annotated[list[Words], Query(min_length=1, max_length=16, description="what to find, each phrase by itself")]
Caption = Annotated[Words, Query(description="a sentence about the photograph")]
ModelName = Annotated[str, Query(max_length=200, description="a name of /v1/models; if not given, the first that fits")]
Steps = Annotated[bool, Query(description="also return the attention of each branch at every word")]


def create_app(engine: Engine, upload: UploadLimits | None = None, hosts: Hosts | None = None) -> FastAPI:
    """Return the application; it closes the engine when it ends."""
    upload = upload or UploadLimits()
    meter = Meter()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(engine.close)

    # the documentation pages of FastAPI would load scripts from other servers, so only the OpenAPI file is served
    app = FastAPI(title="Deixis", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(Guard, hosts=hosts or Hosts.of("127.0.0.1"), limits=upload)
    app.add_middleware(RequestCounter, meter=meter)
    add_error_handlers(app)
    _add_api(app, engine, meter)
    _add_page(app, engine, upload)
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]  # documented by FastAPI
    return app


def _add_api(app: FastAPI, engine: Engine, meter: Meter) -> None:
    wrong = problems(400, 403, 404, 408, 413, 415, 421, 422, 503)

    async def photo_of(request: Request) -> bytes:
        engine.require_place()  # refuse before the body is read
        return await read_photo(request)

    async def answer(ask: Ask) -> Response:
        with engine.place():
            return JSONResponse(await asyncio.wrap_future(engine.ask(ask)))

    @app.post("/v1/caption", response_model=Captioned, responses=wrong, openapi_extra=PHOTO)
    async def caption(request: Request, model: ModelName = "", steps: Steps = False) -> Response:
        """Caption the photograph; each noun phrase has a box."""
        name = _known(engine.captioner(model), model, "writes captions")
        return await answer(CaptionAsk(await photo_of(request), name, steps))

    @app.post("/v1/ground", response_model=Grounded, responses=wrong, openapi_extra=PHOTO)
    async def ground(request: Request, phrase: Phrases, model: ModelName = "") -> Response:
        """Find phrases in the photograph: a box for each, and the probability that it is present."""
        name = _known(engine.grounder(model), model, "finds phrases")
        return await answer(GroundAsk(await photo_of(request), name, tuple(phrase)))

    @app.post("/v1/check", response_model=CheckedCaption, responses=wrong, openapi_extra=PHOTO)
    async def check(request: Request, caption: Caption, model: ModelName = "") -> Response:
        """Check a caption against the photograph: the probability of each noun phrase, and of the whole."""
        name = _known(engine.grounder(model), model, "finds phrases")
        return await answer(CheckAsk(await photo_of(request), name, caption))

    @app.get("/v1/models", response_model=Models)
    async def models() -> Response:
        """List the loaded models."""
        return JSONResponse({"models": [describe(name, model) for name, model in engine.models.items()]})

    @app.get("/healthz", response_model=Health, responses=problems(503))
    async def healthz() -> Response:
        """Report whether requests are accepted."""
        if not engine.open:
            raise BusyError(STOPPING, 5)
        return JSONResponse({"status": "ok", "under_way": engine.under_way})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return counts and times in the text format of Prometheus."""
        return PlainTextResponse(meter.text(engine), media_type="text/plain; version=0.0.4")


def _known(found: str | None, asked: str, does: str) -> str:
    if found is not None:
        return found
    if asked:
        raise ProblemError(404, f"no model '{asked}' that {does} is loaded; /v1/models lists the loaded models.")
    raise ProblemError(404, f"no model that {does} is loaded. Start the server with one (--model).")


def _add_page(app: FastAPI, engine: Engine, upload: UploadLimits) -> None:
    for name, kind in PAGE.items():
        address = "/" if name == "page.html" else f"/{name}"
        content = files("deixis.serve").joinpath(name).read_bytes()
        app.get(address, include_in_schema=False)(_constant(content, f"{kind}; charset=utf-8"))
    app.get("/house.css", include_in_schema=False)(_constant(HOUSE_STYLE.encode(), "text/css; charset=utf-8"))
    examples = example_photographs()
    for name, content in examples.items():
        app.get(f"/examples/{name}.png", include_in_schema=False)(_constant(content, "image/png"))
    settings: Json = {
        "colours": [{"fill": fill, "ink": text_on(fill)} for fill in PALETTE],
        "glow": [[heat, *colour] for heat, colour in zip(HEAT, GLOW, strict=True)],
        "examples": [{"url": f"/examples/{name}.png", "title": EXAMPLES[name]} for name in examples],
        "formats": [f"image/{name.lower()}" for name in FORMATS],
        "bytes": upload.bytes,
        "pixels": engine.limits.pixels,
    }

    @app.get("/settings.json", include_in_schema=False)
    async def page_settings() -> Response:
        return JSONResponse(settings)


def _constant(content: bytes, kind: str) -> Any:
    async def route() -> Response:
        return Response(content, media_type=kind)

    return route


def example_photographs() -> dict[str, bytes]:
    """Return the files of the examples; empty if scikit-image is not installed."""
    spec = find_spec("skimage")
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).parent / "data"
    return {name: file.read_bytes() for name in EXAMPLES if (file := folder / f"{name}.png").is_file()}


def _description(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title,
            version=app.version,
            description="Captions with a box for each noun phrase, and phrases found in photographs.",
            routes=app.routes,
        )
        found["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        app.openapi_schema = found
    return app.openapi_schema


class RequestCounter:
    """ASGI middleware: count requests and their times by route and status."""

    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self.app, self.meter = app, meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_on)
        finally:
            route = getattr(
                scope.get("route"), "path", "other"
            )  # a route of the application, never a path of a request
            self.meter.count(route, status, time.perf_counter() - started)
