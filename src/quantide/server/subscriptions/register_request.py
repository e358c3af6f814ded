"""Register requests: continuous queries parsed from a request's body and checked; errors name the query's index."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, NotRequired

import numpy as np
import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema
from typing_extensions import TypedDict

from quantide.config.server_config import Limits
from quantide.errors import EmptyError, InvalidArgumentError, QuantideError
from quantide.server.http.query_parameters import ALL, FILTER_TEXT, MAX_KEY, WINDOW_TEXT, Phi, phi_problem
from quantide.server.served_streams import ServedStreams
from quantide.server.subscriptions.query_table import WindowKey
from quantide.summary.ranks import MIN_EPS
from quantide.windows.time_clock import read_span

MAX_KEY_COLUMNS = 16
SLICE = 1_000  # queries that are checked at a time: other threads run between two slices
KEY_TEXT = "A key, as a list where keys have several columns; left out, the query is about all of them."
KEY_RULE = f"a key is text of at most {MAX_KEY:,} characters, a number, true, false, or a list of some of these"
EPS_TEXT = (
    "The largest rank error, as a fraction of n; left out, or finer than possible: the finest precision possible."
)
LABEL_TEXT = "A name to find these queries by, to subscribe to them and to drop them together."
IDLE_TEXT = "A length of time: the query is dropped after so long without a subscriber. Left out: it never expires."

KEY_PART = {"type": ["string", "number", "boolean"]}
Key = Annotated[Any, WithJsonSchema({"oneOf": [KEY_PART, {"type": "array", "items": KEY_PART}, {"type": "null"}]})]


class QueryRequest(TypedDict):
    """One continuous query."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    stream: Annotated[str, Field(max_length=100, examples=["latency"])]
    phi: Annotated[Phi, Field(description="Which quantile: 0.5 is the median.", examples=[0.99])]
    eps: NotRequired[
        Annotated[Annotated[float, Field(gt=0, lt=1)] | None, Field(description=EPS_TEXT, examples=[0.01])]
    ]
    key: NotRequired[Annotated[Key, Field(description=KEY_TEXT, examples=["/pay"])]]
    window: NotRequired[Annotated[str, Field(description=WINDOW_TEXT, max_length=80, examples=["within:5m"])]]
    filter: NotRequired[Annotated[Annotated[str, Field(max_length=100)] | None, Field(description=FILTER_TEXT)]]
    label: NotRequired[
        Annotated[Annotated[str, Field(min_length=1, max_length=100)] | None, Field(description=LABEL_TEXT)]
    ]
    idle: NotRequired[
        Annotated[
            Annotated[str, Field(min_length=1, max_length=40)] | None, Field(description=IDLE_TEXT, examples=["2 min"])
        ]
    ]


QUERY_LIST: TypeAdapter[list[QueryRequest]] = TypeAdapter(list[QueryRequest])


class RegisterRequest:
    """Queries to register, as columns: window, phi, precision in force, label and idle time of each."""

    def __init__(
        self, data: bytes, streams: ServedStreams, limits: Limits, check_stream: Callable[[str], None]
    ) -> None:
        self._streams, self._check_stream = streams, check_stream
        self._windows: dict[Any, tuple[WindowKey, float, float | None]] = {}  # checked, with eps and tail
        self._tried: set[tuple[str, str, str | None]] = set()  # stream, window and filter, whatever the key
        self.windows: list[WindowKey] = []
        self.phis: list[float] = []
        self.epss: list[float] = []
        self.labels: list[str | None] = []
        self.idles: list[float | None] = []
        body = read_json(data)
        queries = body if isinstance(body, list) else [body]
        if not 0 < len(queries) <= limits.batch:
            raise InvalidArgumentError(
                f"queries: the list has {len(queries):,} of them; give 1 to {limits.batch:,} at a time"
            )
        for start in range(0, len(queries), SLICE):
            for index, query in enumerate(_validate(queries[start : start + SLICE], start), start):
                self._add(query, index)

    def _add(self, query: QueryRequest, index: int) -> None:
        key, window, filter = query.get("key"), query.get("window", ALL), query.get("filter")
        given = (query["stream"], key if key is None or isinstance(key, str) else orjson.dumps(key), window, filter)
        if given not in self._windows:
            if not is_key(key):
                raise InvalidArgumentError(f"queries[{index}].key: {KEY_RULE}")
            window_key = WindowKey.of(query["stream"], key, window, filter)
            self._windows[given] = window_key, *self._check(window_key, index)
        window_key, eps, tail = self._windows[given]
        self.windows.append(window_key)
        self.phis.append(query["phi"])
        phi = query["phi"]
        finest = eps if tail is None else max(MIN_EPS, min(eps, tail * phi, tail * (1 - phi)))
        self.epss.append(max(query.get("eps") or 0.0, finest))
        self.labels.append(query.get("label"))
        self.idles.append(read_idle(query.get("idle"), index))

    def _check(self, key: WindowKey, index: int) -> tuple[float, float | None]:
        """Return the finest precision of queries over a window, and its tail; raise if it cannot be queried.

        One trial query per window covers all its keys.
        """
        try:
            self._check_stream(key.stream)
            live = self._streams.live(key.stream)
            scope = key.check(live)
            window = (key.stream, key.window, key.filter)
            if window not in self._tried:
                with suppress(EmptyError):
                    live.summary(**vars(replace(scope, key=None)))
                self._tried.add(window)
            return live.finest_eps(scope), live.finest_tail(scope)
        except QuantideError as error:
            raise type(error)(f"queries[{index}]: {error}") from error


def read_idle(text: str | None, index: int) -> float | None:
    """Parse the idle time of a query, in seconds."""
    try:
        return None if text is None else float(read_span(text))
    except QuantideError as error:
        raise InvalidArgumentError(f"queries[{index}].idle: {error}") from error


def is_key(value: Any) -> bool:
    """Return True if a JSON value is a valid key; None, which means all keys, is valid."""
    if isinstance(value, list):
        return 0 < len(value) <= MAX_KEY_COLUMNS and all(part is not None and is_key_part(part) for part in value)
    return is_key_part(value)


def is_key_part(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_KEY
    return value is None or isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63)


def read_json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidArgumentError(f"the body cannot be read as JSON: {error}") from error


def read_ids(data: bytes, limits: Limits) -> Any:
    """Parse a JSON list of query ids, without duplicates."""
    given = read_json(data)
    if not isinstance(given, list) or not 0 < len(given) <= limits.batch:
        raise InvalidArgumentError(f"give a list of 1 to {limits.batch:,} ids, such as [17, 18]")
    for index, id in enumerate(given):
        if isinstance(id, bool) or not isinstance(id, int) or not 0 < id < 2**63:
            raise InvalidArgumentError(f"ids[{index}]: {str(id)[:40]!r} is not the id of a query")
    ids = np.unique(np.array(given, dtype=np.int64))
    if len(ids) < len(given):
        raise InvalidArgumentError("an id is in the list twice; give each once")
    return ids


def _validate(queries: list[Any], start: int) -> list[QueryRequest]:
    try:
        return QUERY_LIST.validate_python(queries)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        index, *path = first["loc"]
        name = "".join(f".{part}" for part in path[:1])[:80]
        reason = "a query has no such field" if first["type"] == "extra_forbidden" else first["msg"]
        if path[:1] == ["phi"]:
            reason = phi_problem(first["type"], queries[int(index)].get("phi")) or reason
        raise InvalidArgumentError(f"queries[{start + int(index)}]{name}: {reason}") from error
