"""Query parameters: models for routes about one stream, parsers of windows, keys, values and series addresses.

Unknown and duplicated parameters are rejected. Fast routes parse one model.
"""

import json
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_type_hints
from urllib.parse import parse_qsl

import numpy as np
import pyarrow as pa
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quantide.errors import InvalidArgumentError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.live.value_parsing import TIMESTAMP
from quantide.summary.key_ranking import MOST
from quantide.summary.ranks import MAX_N, describe_invalid_phi
from quantide.windows.time_clock import read_span

ALL = "all"
WINDOW = re.compile(r"all|steps:([0-9]{1,15})|last:([0-9]{1,15})(?:,within:(.{1,60}))?|within:(.{1,60})", re.ASCII)
SERIES_ADDRESS = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})(?::(.*?))?"
    r"(?:@(all|steps:[0-9]+|last:[0-9]+(?:,within:[^@]+)?|within:[^@]+))?",
    re.S,
)
MAX_KEY = 1_000  # characters
Phi = Annotated[float, Field(ge=0, le=1)]
NO_PHI = ("less_than_equal", "greater_than_equal", "float_parsing", "float_type")  # errors of pydantic
MAX_PHI_TEXT = 40  # characters of an invalid phi in a message
KEY_TEXT = "The key; repeat it for each column where keys have several."
WINDOW_TEXT = "`all`, `last:10000`, `within:5m`, `last:10000,within:5m`, or `steps:7`."
FILTER_TEXT = "A filter that the stream declares: only values that satisfy it."
MODE_TEXT = "`quick` reads no data, `accurate` is within eps of the open step or of the window, `exact` is exact."
BAND_TEXT = (
    "Each answer also has `low` and `high`, values of the stream between which the true quantile is proved to lie."
)
INCLUSIVE_TEXT = "`false` counts values that are below a value, instead of those that are at most that."
WORST_WINDOW_TEXT = WINDOW_TEXT + " `last` counts the values of all keys together."
WORST_MODE_TEXT = "In a window: `exact` reads all rows. Over history, keys are compared by their summaries: `quick`."
NOW_TEXT = "With a time window: its end, instead of the newest time."
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class WindowParameters(BaseModel):
    """Window of a query."""

    model_config = ConfigDict(extra="forbid")

    key: list[str] | None = Field(None, description=KEY_TEXT, max_length=16)
    window: str = Field("all", description=WINDOW_TEXT, examples=["within:5m"], max_length=100)
    filter: str | None = Field(None, description=FILTER_TEXT, max_length=100)
    now: str | None = Field(None, description=NOW_TEXT, max_length=40)

    def scope_arguments(self, live: LiveStream) -> dict[str, Any]:
        """Return the keyword arguments of LiveStream.answer(), without the mode."""
        now = read_time(self.now, live.zoned)
        return {"key": read_key(self.key), "filter": self.filter, "now": now} | read_window(self.window)


class ModeParameters(WindowParameters):
    """Window of a query, and the mode to answer it in."""

    mode: Literal["quick", "accurate", "exact"] | None = Field(None, description=MODE_TEXT)


class QuantileQuery(ModeParameters):
    phi: list[Phi] = Field(description="Which quantiles: 0.5 is the median.", examples=[[0.5, 0.99]], min_length=1)
    band: bool = Field(False, description=BAND_TEXT)


class RankQuery(ModeParameters):
    value: list[Annotated[str, Field(max_length=40)]] = Field(
        description="Values of the stream's type.", examples=[["250"]], min_length=1
    )
    inclusive: bool = Field(True, description=INCLUSIVE_TEXT)


class CurveQuery(ModeParameters):
    value: list[Annotated[str, Field(max_length=40)]] | None = Field(
        None, description="Values of the stream's type; without them, `points` values evenly spread over the ranks."
    )
    points: int | None = Field(None, description="Number of values, if none are given (100).", ge=2)
    inclusive: bool = Field(True, description=INCLUSIVE_TEXT)


class WorstKeysParameters(BaseModel):
    """Keys to list, and their window."""

    model_config = ConfigDict(extra="forbid")

    phi: Phi = Field(description="Which quantile of each key: 0.99 is p99.", examples=[0.99])
    window: str = Field("all", description=WORST_WINDOW_TEXT, examples=["within:5m"], max_length=100)
    most: int = Field(MOST, description="Number of keys, at most.", ge=1)
    smallest: bool = Field(False, description="`true` lists the keys with the smallest quantile.")
    min_n: int = Field(1, description="Leave out keys with fewer values in the window.", ge=1, le=MAX_N)
    filter: str | None = Field(None, description=FILTER_TEXT, max_length=100)
    now: str | None = Field(None, description=NOW_TEXT, max_length=40)
    mode: Literal["quick", "accurate", "exact"] | None = Field(None, description=WORST_MODE_TEXT)

    def arguments(self, live: LiveStream) -> dict[str, Any]:
        """Return the keyword arguments of LiveStream.worst_keys()."""
        names = ("phi", "most", "smallest", "min_n", "filter", "mode")
        given = {name: getattr(self, name) for name in names}
        return given | {"now": read_time(self.now, live.zoned)} | read_window(self.window)


def check_count(name: str, count: int, limit: int) -> None:
    if count > limit:
        raise InvalidArgumentError(f"the request has {count:,} {name}; it may have at most {limit:,}")


def phi_problem(error_type: str, given: Any) -> str | None:
    """Return the message for an invalid phi, as the library has it; None for another error of pydantic.

    >>> phi_problem("less_than_equal", "99")
    'phi must be in [0, 1], not 99.0; for p99 write 0.99'
    """
    if error_type not in NO_PHI or isinstance(given, bool) or not isinstance(given, (str, int, float)):
        return None
    try:
        return describe_invalid_phi(float(given) if error_type != "float_type" else str(given)[:MAX_PHI_TEXT])
    except (ValueError, OverflowError):
        return describe_invalid_phi(str(given)[:MAX_PHI_TEXT])


def key_field(key: list[str] | None) -> str | list[str] | None:
    """Return a key parameter as responses show it: text, or a list where keys have several columns."""
    return key[0] if key is not None and len(key) == 1 else key


def read_window(text: str) -> dict[str, Any]:
    """Parse a window into keyword arguments of LiveStream.answer().

    >>> read_window("last:1000"), read_window("within:5m"), read_window("steps:7"), read_window("all")
    ({'last': 1000}, {'within': '5m'}, {'last_steps': 7}, {})
    >>> read_window("last:1000,within:5m")
    {'last': 1000, 'within': '5m'}
    """
    match = WINDOW.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(
            f"{text[:80]!r} is not a window; write last:10000, within:5m, last:10000,within:5m, steps:7 or all, "
            "for instance"
        )
    steps, last, also, alone = match.groups()
    span = also or alone
    if span is not None:
        read_span(span)
    arguments = {"last_steps": steps and int(steps), "last": last and int(last), "within": span}
    return {name: value for name, value in arguments.items() if value is not None}


def query_scope(key: Any, window: str, filter: str | None) -> QueryScope:
    """Return the scope of a query over a window, parsed by read_window()."""
    return QueryScope(key=key, filter=filter, **read_window(window))


def read_key(parts: list[str] | None) -> Any:
    """Return the key made of one text, or of several where keys have several columns."""
    if not parts:
        return None
    if sum(map(len, parts)) > MAX_KEY:
        raise InvalidArgumentError(f"a key of more than {MAX_KEY} characters; no key is that long")
    return parts[0] if len(parts) == 1 else tuple(parts)


def read_time(text: str | None, zoned: bool) -> Any:
    """Parse seconds or a timestamp; the timestamp is UTC if the stream's times have a zone."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        if not TIMESTAMP.fullmatch(text) or (text.endswith("Z") and not zoned):  # numpy would accept "now", too
            raise ValueError
        given = np.datetime64(text.removesuffix("Z"))
        time = given.astype("M8[ns]")
        if time.astype(given.dtype) != given:  # numpy wraps around outside the range
            raise ValueError
    except ValueError as error:
        raise InvalidArgumentError(
            f"{text!r} is no time; write seconds, or 2026-01-31T12:00:00 where times are timestamps"
            + (", with Z or without" if zoned else ", without a zone: these have none")
        ) from error
    return pa.scalar(int(time.astype(np.int64)), pa.timestamp("ns", "UTC")) if zoned else time


@dataclass(frozen=True)
class Selector:
    """Address of a stream, of a key of it, or of a window of either: stream[:key][@window]."""

    stream: str
    key: Any
    window: str

    @classmethod
    def read(cls, text: str) -> "Selector":
        """Parse an address. A key of several columns is a JSON list; a key that ends like a window needs @all.

        >>> Selector.read("latency:/pay@within:5m")
        Selector(stream='latency', key='/pay', window='within:5m')
        >>> Selector.read('trades:["eu","AAPL"]').key
        ('eu', 'AAPL')
        """
        match = SERIES_ADDRESS.fullmatch(text) if len(text) <= 2 * MAX_KEY else None
        if match is None:
            raise InvalidArgumentError(f"{text[:80]!r} does not name a stream; write stream[:key][@window]")
        stream, key, window = match.groups()
        return cls(stream, _read_json_key(key), window or ALL)


def _read_json_key(text: str | None) -> Any:
    if text is None or not text.startswith("["):
        return text
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return tuple(parts) if all(isinstance(part, (str, int, float, bool)) for part in parts) else text


async def reject_unknown_parameters(request: Request) -> None:
    """Reject unknown parameters, and duplicates of those that take one value."""
    if not request.scope["query_string"]:
        return
    parameters = route_parameters(request.app.openapi(), request.scope["route"].path, request.method.lower())
    if parameters is not None:
        check_parameters(_count_names(request), parameters)


def check_parameters(counts: dict[str, int], parameters: dict[str, bool]) -> None:
    """Check how often each parameter is given; `parameters` maps the allowed names to True for lists."""
    for name, count in counts.items():
        if name not in parameters:
            choices = f"there are {', '.join(parameters)}" if parameters else "there is none"
            raise InvalidArgumentError(f"{name[:80]!r} is not a parameter here; {choices}")
        if count > 1 and not parameters[name]:
            raise InvalidArgumentError(f"{name} is given {count} times; give it once")


def route_parameters(openapi: dict[str, Any], path: str, method: str) -> dict[str, bool] | None:
    """Return the query parameters of a route, True for lists; None if OpenAPI does not describe the route."""
    operation = openapi["paths"].get(path, {}).get(method)
    if operation is None:
        return None
    parameters = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    return {parameter["name"]: is_list(parameter["schema"]) for parameter in parameters}


def is_list(schema: dict[str, Any]) -> bool:
    return any(choice.get("type") == "array" for choice in (schema, *schema.get("anyOf", ())))


class FastRoute(APIRoute):
    """GET route whose function takes `request`, the path parameters, and one model `query` of the query string.

    FastAPI's general parameter resolution takes longer than most answers. Routes of this class appear in OpenAPI like
    any other, and their parameters mean the same.
    """

    def get_route_handler(self) -> Handler:
        endpoint = self.endpoint
        parse = model_parser(get_args(get_type_hints(endpoint, include_extras=True)["query"])[0])

        async def handle(request: Request) -> Response:
            query = parse(request.scope["query_string"])
            response: Response = await endpoint(request=request, query=query, **request.path_params)
            return response

        return handle


def model_parser(model: type[BaseModel]) -> Callable[[bytes], BaseModel]:
    """Return a function that parses a query string into the model."""
    lists = {name: is_list(schema) for name, schema in model.model_json_schema()["properties"].items()}

    def parse(query_string: bytes) -> BaseModel:
        values: dict[str, list[str]] = {}
        for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
            values.setdefault(name, []).append(value)
        check_parameters({name: len(given) for name, given in values.items()}, lists)
        try:
            return model.model_validate({name: given if lists[name] else given[0] for name, given in values.items()})
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from error

    return parse


def _count_names(request: Request) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, _ in request.query_params.multi_items():
        counts[name] = counts.get(name, 0) + 1
    return counts
