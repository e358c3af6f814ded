"""ASGI application: all routes over one service, the middleware, and the handling of errors."""

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
from quantide.errors import BacklogError, InvalidArgumentError, QuantideError
from quantide.server.http.query_parameters import phi_problem, reject_unknown_parameters
from quantide.server.http.response_cache import ResponseCache
from quantide.server.http.response_json import Problem, error_body, error_status, json_response
from quantide.server.http.security import SecurityMiddleware
from quantide.server.metrics import MetricsMiddleware
from quantide.server.routes import (
    alarm_routes,
    chart_routes,
    comparison_routes,
    event_routes,
    health_routes,
    page_routes,
    prometheus_routes,
    push_routes,
    quantile_routes,
    query_routes,
    session_routes,
    stream_routes,
    worst_key_routes,
)
from quantide.server.routes.response_schemas import ERROR_RESPONSES
from quantide.server.service import Service

LOG = logging.getLogger("quantide.server")
NOT_AN_OBJECT = ("model_type", "model_attributes_type", "dict_type")  # errors of pydantic
# Most requested: matched first, without a router of their own.
FAST_ROUTES = (quantile_routes, chart_routes, comparison_routes, worst_key_routes)
ROUTES = (
    push_routes,
    stream_routes,
    query_routes,
    alarm_routes,
    event_routes,
    session_routes,
    health_routes,
    page_routes,
)


class Application(FastAPI):
    """FastAPI application whose outermost middleware, also around error responses, is the security middleware."""

    def build_middleware_stack(self) -> ASGIApp:
        service: Service = self.state.service
        return SecurityMiddleware(super().build_middleware_stack(), service.config.server, service.loop_registry)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, without FastAPI's own 422: invalid input is answered with 400."""
        if self.openapi_schema is None:
            for operation in (one for methods in super().openapi()["paths"].values() for one in methods.values()):
                operation["responses"].pop("422", None)
        return super().openapi()


def make_app(config: Config) -> FastAPI:
    """Return an ASGI application that serves the streams of a configuration."""
    service = Service(config)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        page_routes.compress_early()
        yield
        service.close()

    app = Application(
        title="Quantide",
        version=__version__,
        description="Quantiles of data that keeps arriving, with an error bound proved for every answer.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=ERROR_RESPONSES,
        dependencies=[Depends(reject_unknown_parameters)],
        redirect_slashes=False,
    )
    app.state.service = service
    for module in FAST_ROUTES:
        app.router.routes.extend(module.routes(service).routes)
    for module in ROUTES:
        app.include_router(module.routes(service))
    app.router.routes.extend(prometheus_routes.routes(service).routes)  # which ignore unknown parameters
    for kind in (QuantideError, Problem, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _respond_to_error)
    app.add_middleware(ResponseCache, streams=service.streams)
    app.add_middleware(MetricsMiddleware, metrics=service.metrics)
    return app


async def _respond_to_error(_request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = _validation_error(error)
    elif isinstance(error, HTTPException) and error.status_code == 400:
        error = InvalidArgumentError("the body cannot be read; send JSON, as UTF-8, not nested deeply")
    elif isinstance(error, HTTPException):
        error = _routing_problem(error)
    if error_status(error) == 500:
        LOG.error("a request failed", exc_info=error)
    response = json_response(error_body(error), error_status(error))
    if isinstance(error, BacklogError):
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _routing_problem(error: HTTPException) -> Problem:
    if error.status_code == 404:
        return Problem("not_found", "there is no such route; /docs lists the routes")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        return Problem("method_not_allowed", f"this route accepts {allowed} only; /docs lists the routes")
    return Problem("internal", error.detail)


def _validation_error(error: RequestValidationError) -> InvalidArgumentError:
    """Return an error that describes the first invalid parameter or field."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if part not in ("query", "body", "path") and not isinstance(part, int)]
    name = ".".join(path) or "the body"
    if first["type"] == "extra_forbidden":
        return InvalidArgumentError(f"{name[:80]} is not a parameter here; /docs lists the parameters")
    if first["type"] == "missing":
        return InvalidArgumentError(f"{name[:80]} is missing; /docs lists the parameters that are needed")
    given = first.get("input")
    if path and path[-1] == "phi" and (reason := phi_problem(first["type"], given)):
        return InvalidArgumentError(reason)
    message = "write a JSON object" if first["type"] in NOT_AN_OBJECT else first["msg"]
    value = ""
    if isinstance(given, str):
        value = f" is {given[:80]!r}"
    elif isinstance(given, (int, float)):
        value = f" is {given!r}"
    return InvalidArgumentError(f"{name[:80]}{value}: {message}")
