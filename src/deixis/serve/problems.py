"""Errors of both servers as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from deixis.errors import DeixisError
from deixis.images import ImageTooLargeError

UNFORESEEN = "internal error. The output of the server has the details."


class BusyError(Exception):
    """Too many requests are under way, or the engine stops; ``retry`` is the number of seconds to wait."""

    def __init__(self, reason: str, retry: int) -> None:
        super().__init__(f"{reason}; try again in {retry} s.")
        self.retry = retry


class ProblemError(Exception):
    """Request error with an HTTP status and a reason."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def add_error_handlers(app: FastAPI) -> None:
    """Return every error of the application as a problem response."""
    app.add_exception_handler(ProblemError, _of_ours)
    app.add_exception_handler(BusyError, _busy)
    app.add_exception_handler(DeixisError, _of_ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_starlette)
    app.add_exception_handler(Exception, _unforeseen)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Create the response of an error."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body, status, dict(headers or {}), "application/problem+json")


async def _of_ours(request: Request, error: Exception) -> Response:
    if isinstance(error, ProblemError):
        return problem(error.status, error.detail)
    return problem(413 if isinstance(error, ImageTooLargeError) else 422, str(error))


async def _busy(request: Request, error: Exception) -> Response:
    assert isinstance(error, BusyError)
    return problem(503, str(error), {"Retry-After": str(error.retry)})


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()]
    return problem(422, "; ".join(wrong))


async def _of_starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}", error.headers)


async def _unforeseen(request: Request, error: Exception) -> Response:
    return problem(500, UNFORESEEN)
