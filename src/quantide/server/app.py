"""The application: all routes over one service, and what is the same for each of them."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from quantide import __version__
from quantide.config import Config
from quantide.errors import InvalidArgumentError, QuantideError
from quantide.server import (
    alerting,
    course,
    events,
    health,
    manual,
    monitors,
    pages,
    qq,
    queries,
    reading,
    sessions,
    shown,
    streamed,
)
from quantide.server.again import Again
from quantide.server.gate import Gate
from quantide.server.metrics import Measured
from quantide.server.problems import Problem, body_of, problem, status_of
from quantide.server.said import check_said
from quantide.server.schemas import FAILURES
from quantide.server.service import Service

LOG = logging.getLogger("quantide.server")
QUICK = (reading, course, qq)  # routes that are asked most: found first, without the way through a router of their own
ROOMS = (streamed, queries, monitors, alerting, events, sessions, health, manual, pages)


class Application(FastAPI):
    """Behind the gate lies everything, also what makes responses of errors."""

    def build_middleware_stack(self) -> ASGIApp:
        service: Service = self.state.service
        return Gate(super().build_middleware_stack(), service.config.server, service.reads)

    def openapi(self) -> dict[str, Any]:
        """The manual, without FastAPI's own answer to bad input: what is wrong is told with 400, as everything is."""
        if self.openapi_schema is None:
            for route in (one for methods in super().openapi()["paths"].values() for one in methods.values()):
                route["responses"].pop("422", None)
        return super().openapi()


def make_app(config: Config) -> FastAPI:
    """A server for the streams of a configuration, as any ASGI server can run it."""
    service = Service(config)

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        pages.prepare()
        yield
        service.close()

    app = Application(
        title="Quantide",
        version=__version__,
        description="Quantiles of data that keeps arriving, with an error bound proved for every answer.",
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=FAILURES,
        dependencies=[Depends(check_said)],
        redirect_slashes=False,
    )
    app.state.service = service
    for room in QUICK:
        app.router.routes.extend(room.routes(service).routes)
    for room in ROOMS:
        app.include_router(room.routes(service))
    for kind in (QuantideError, Problem, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _tell)
    app.add_middleware(Again, streams=service.streams)
    app.add_middleware(Measured, metrics=service.metrics)
    return app


async def _tell(_request: Request, error: Exception) -> Response:
    """An error as a response."""
    if isinstance(error, RequestValidationError):
        error = _invalid(error)
    elif isinstance(error, HTTPException) and error.status_code == 400:
        error = InvalidArgumentError("the body cannot be read; send JSON, as UTF-8, not nested deeply")
    elif isinstance(error, HTTPException):
        error = _nothing(error)
    if status_of(error) == 500:
        LOG.error("a request failed", exc_info=error)
    return shown.json(body_of(error), status_of(error))


def _nothing(error: HTTPException) -> Problem:
    """That there is no such route."""
    if error.status_code == 404:
        return problem("not_found", "there is nothing here; /docs lists what there is")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        return problem("method_not_allowed", f"this is not possible here, but {allowed} is; /docs lists what there is")
    return problem("internal", error.detail)


def _invalid(error: RequestValidationError) -> InvalidArgumentError:
    """The first complaint about a request, with the name of what it is about."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"] if part not in ("query", "body", "path") and not isinstance(part, int)]
    name = ".".join(where) or "the body"
    if first["type"] == "extra_forbidden":
        return InvalidArgumentError(f"{name[:80]} is not a parameter here; /docs lists those there are")
    if first["type"] == "missing":
        return InvalidArgumentError(f"{name[:80]} is missing; /docs tells what is needed")
    given = first.get("input")
    about = (
        f" is {given[:80]!r}" if isinstance(given, str) else f" is {given!r}" if isinstance(given, (int, float)) else ""
    )
    return InvalidArgumentError(f"{name[:80]}{about}: {first['msg']}")
