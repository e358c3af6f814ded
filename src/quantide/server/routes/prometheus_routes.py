"""Routes of the Prometheus HTTP API, for Grafana and promtool. Unknown parameters are ignored, as in Prometheus."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response

from quantide import __version__
from quantide.errors import InvalidArgumentError, QuantideError
from quantide.server.http.request_limits import QUERY_PATHS
from quantide.server.http.response_cache import set_versions
from quantide.server.http.tokens import identity_of
from quantide.server.prometheus.label_listing import (
    Selectors,
    list_label_names,
    list_label_values,
    list_metadata,
    list_series,
)
from quantide.server.prometheus.metric_catalog import StreamMetric
from quantide.server.prometheus.prometheus_json import (
    failure,
    instant_result,
    list_times,
    range_result,
    read_step,
    read_time_ms,
    success,
)
from quantide.server.prometheus.promql_evaluation import QueryEvaluation
from quantide.server.prometheus.promql_parser import parse_query, parse_selectors
from quantide.server.service import Service
from quantide.windows.wall_clock import wall_clock_ns

LOG = logging.getLogger("quantide.server")
T = TypeVar("T")
API_VERSION = "2.42.0"  # of the Prometheus whose API these routes follow; Grafana chooses its requests by it
MAX_VALUES = 10_000  # of a label, and names, in one response
MAX_SELECTORS = 100
MAX_FORM = 256 * 1024  # bytes, parsed on the event loop; the longest query fits, with every byte in percent signs
QUERY_TEXT = "PromQL: a stream with matchers, rate() or increase() of its rows, numbers, arithmetic with a number."
TEXTS = {
    "query": QUERY_TEXT,
    "time": "Seconds since 1970, or a time of RFC 3339; default: now.",
    "start": "The first time of evaluation; for lists it is ignored.",
    "end": "The last time of evaluation; for lists it is ignored.",
    "step": "Seconds, or a duration such as `15s`.",
    "match[]": "A selector of series; repeatable.",
    "limit": "Number of results, at most.",
    "metric": "Only this metric.",
    "name": "Name of the label.",
}
LISTING = ("match[]", "start", "end", "limit")
ERROR_BODIES: dict[int | str, dict[str, Any]] = {  # with the fields status, errorType and error
    400: {"description": "The query or a parameter is invalid or not supported"},
    404: {"description": "There is no such route"},
    429: {"description": "Too many queries, or one that takes too long"},
    503: {"description": "A stream cannot be read now"},
}


class QueryForm:
    """Parameters of the URL and, with POST, of the form in the body."""

    def __init__(self, request: Request, body: bytes) -> None:
        if len(body) > MAX_FORM:
            raise InvalidArgumentError(f"the form has {len(body):,} bytes; it may have at most {MAX_FORM:,}")
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise InvalidArgumentError("the form is not UTF-8; encode its parameters in percent signs") from error
        pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), True) + parse_qsl(text, True)
        self._values = dict[str, list[str]]()
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def get(self, name: str) -> str | None:
        """Return a parameter that may be given once; None if it is missing or empty."""
        values = self._values.get(name, [])
        if len(values) > 1:
            raise InvalidArgumentError(f"{name} is given {len(values)} times; give it once")
        return values[0] or None if values else None

    def need(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise InvalidArgumentError(f"{name} is missing; docs/api.md lists the parameters")
        return value

    @property
    def has_selectors(self) -> bool:
        return "match[]" in self._values

    def selectors(self) -> Selectors:
        """Parse the parameters match[]; patterns take time to compile, so call it off the event loop."""
        texts = self._values.get("match[]", [])
        if len(texts) > MAX_SELECTORS:
            raise InvalidArgumentError(f"there are {len(texts)} match[]; there may be at most {MAX_SELECTORS}")
        return parse_selectors(texts)

    def limit(self) -> int:
        """Return the parameter `limit`; 0 and none are the largest."""
        text = self.get("limit") or "0"
        if not text.isascii() or not text.isdigit():
            raise InvalidArgumentError(f"limit is {text[:40]!r}; write a whole number")
        return min(int(text[:100]) or MAX_VALUES, MAX_VALUES)  # Python refuses to parse thousands of digits


Handler = Callable[[Request, QueryForm], Awaitable[Response]]


class PrometheusHandlers:
    """Handlers of the routes, for the streams that a client may use."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def query(self, request: Request, form: QueryForm) -> Response:
        text, moment = form.get("time"), wall_clock_ns() // 10**6
        given, time = form.need("query"), moment if text is None else read_time_ms("time", text)
        return await self._evaluate(
            request, given, [time], text is not None, lambda result: instant_result(result, time)
        )

    async def query_range(self, request: Request, form: QueryForm) -> Response:
        text = form.need("query")
        start, end = (read_time_ms(name, form.need(name)) for name in ("start", "end"))
        times = list_times(start, end, read_step(form.need("step")))
        return await self._evaluate(request, text, times, True, lambda result: range_result(result, times))

    async def labels(self, request: Request, form: QueryForm) -> Response:
        return await self._list(request, form, list_label_names)

    async def label_values(self, request: Request, form: QueryForm) -> Response:
        name = request.path_params["name"]
        return await self._list(request, form, lambda metrics, chosen: list_label_values(metrics, name, chosen))

    async def series(self, request: Request, form: QueryForm) -> Response:
        metrics, warnings = self._visible(request)
        if not form.has_selectors:
            raise InvalidArgumentError("match[] is missing; write match[]=latency, for instance")
        most = self._service.limits.series
        found = await self._service.compute(lambda: list_series(metrics, form.selectors(), most))
        return success(*cut_list(found, form.limit(), warnings))

    async def metadata(self, request: Request, form: QueryForm) -> Response:
        metrics, warnings = self._visible(request)
        described = list_metadata(metrics, form.get("metric"))
        items, warnings = cut_list([*described.items()], form.limit(), warnings)
        return success(dict(items), warnings)

    async def buildinfo(self, request: Request, form: QueryForm) -> Response:
        named = {"version": API_VERSION, "revision": f"quantide-{__version__}"}
        return success(named | dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), ""))

    def _visible(self, request: Request) -> tuple[list[StreamMetric], list[str]]:
        """Return the metrics of open streams that the client may use, and warnings about the others."""
        streams = self._service.streams
        names = [name for name in streams.names if identity_of(request).may_use(name)]
        closed = {name: reason for name, reason in streams.open_errors.items() if name in names}
        opened = [name for name in names if name not in closed]
        metrics = [StreamMetric(name, streams.live(name), streams.metrics(name), streams.unit(name)) for name in opened]
        return metrics, [f"the stream {name} cannot be read yet: {reason}" for name, reason in closed.items()]

    async def _evaluate(self, request: Request, text: str, times: list[int], cached: bool, encode: Any) -> Response:
        metrics, warnings = self._visible(request)
        versions = [(metric.stream, metric.live.version) for metric in metrics]
        evaluation = QueryEvaluation(metrics, times, self._service.limits.series)
        data = await self._service.compute(lambda: encode(evaluation.evaluate(parse_query(text))))
        if cached and not warnings:
            set_versions(request, *versions)
        return success(data, warnings)

    async def _list(self, request: Request, form: QueryForm, read: Callable[..., list[str]]) -> Response:
        metrics, warnings = self._visible(request)
        found = await self._service.compute(lambda: read(metrics, form.selectors()))
        return success(*cut_list(found, form.limit(), warnings))


def cut_list(entries: list[T], limit: int, warnings: list[str]) -> tuple[list[T], list[str]]:
    """Return the first entries, and the warnings with one more if some are left out."""
    if len(entries) <= limit:
        return entries, warnings
    return entries[:limit], [*warnings, f"there are {len(entries):,}; these are the first {limit:,}"]


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["prometheus"], responses=ERROR_BODIES)
    handlers = PrometheusHandlers(service)

    def add(path: str, handler: Handler, summary: str, *parameters: str) -> None:
        route = endpoint(handler)
        described = {"parameters": [describe(name) for name in parameters]}
        router.add_api_route(path, route, methods=["GET"], summary=summary, openapi_extra=described)
        if f"/api/v1{path}" in QUERY_PATHS:
            router.add_api_route(path, route, methods=["POST"], summary=f"{summary}; parameters in a form")

    add("/query", handlers.query, "Value of a query at one time", "query", "time")
    add("/query_range", handlers.query_range, "Values of a query at many times", "query", "start", "end", "step")
    add("/labels", handlers.labels, "Names of labels", *LISTING)
    add("/label/{name}/values", handlers.label_values, "Values of a label", "name", *LISTING)
    add("/series", handlers.series, "Labels of series", *LISTING)
    add("/metadata", handlers.metadata, "Types of metrics", "metric", "limit")
    add("/status/buildinfo", handlers.buildinfo, "Version, for Grafana's test of a connection")
    return router


def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Return the function of a route: it parses the parameters, and answers errors as Prometheus does."""

    async def respond(request: Request) -> Response:
        try:
            return await handler(request, QueryForm(request, await request.body()))
        except QuantideError as error:
            return failure(error)
        except Exception as error:
            LOG.error("a query of the Prometheus API failed", exc_info=error)
            return failure(error)

    return respond


def describe(name: str) -> dict[str, Any]:
    """Return the OpenAPI description of a parameter."""
    place = "path" if name == "name" else "query"
    kind = {"type": "array", "items": {"type": "string"}} if name == "match[]" else {"type": "string"}
    return {"name": name, "in": place, "required": place == "path", "description": TEXTS[name], "schema": kind}
