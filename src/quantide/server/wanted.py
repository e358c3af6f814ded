"""Standing queries that a request asks for: read out of its body, checked, wrong ones named by their place."""

from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, NotRequired

import numpy as np
import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema
from typing_extensions import TypedDict

from quantide.config.server import Limits
from quantide.errors import EmptyError, InvalidArgumentError, QuantideError
from quantide.server.about import Name
from quantide.server.asking import FILTER, WINDOW, Phi
from quantide.server.streams import Streams
from quantide.server.words import ALL, LONGEST_KEY
from quantide.windows.clock import read_span

MOST_PARTS = 16  # columns of a key
SLICE = 1_000  # queries that are checked at a time: others get their turn between two slices
KEY = "A key, as a list where keys have several columns; left out, the query is about all of them."
KEYS = f"a key is text of at most {LONGEST_KEY:,} characters, a number, true, false, or a list of some of these"
EPS = "How far the value's rank may be off, as a fraction of n; left out, or finer than can be: the finest there is."
LABEL = "A name, by which these queries are found, listened to and dropped together."
IDLE = "A length of time: the query is dropped when nobody has listened to it for so long. Left out: it is kept."

PART = {"type": ["string", "number", "boolean"]}
Key = Annotated[Any, WithJsonSchema({"oneOf": [PART, {"type": "array", "items": PART}, {"type": "null"}]})]


class WantedQuery(TypedDict):
    """One standing query."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    stream: Annotated[str, Field(max_length=100, examples=["latency"])]
    phi: Annotated[Phi, Field(description="Which quantile: 0.5 is the median.", examples=[0.99])]
    eps: NotRequired[Annotated[Annotated[float, Field(gt=0, lt=1)] | None, Field(description=EPS, examples=[0.01])]]
    key: NotRequired[Annotated[Key, Field(description=KEY, examples=["/pay"])]]
    window: NotRequired[Annotated[str, Field(description=WINDOW, max_length=80, examples=["within:5m"])]]
    filter: NotRequired[Annotated[Annotated[str, Field(max_length=100)] | None, Field(description=FILTER)]]
    label: NotRequired[Annotated[Annotated[str, Field(min_length=1, max_length=100)] | None, Field(description=LABEL)]]
    idle: NotRequired[
        Annotated[
            Annotated[str, Field(min_length=1, max_length=40)] | None, Field(description=IDLE, examples=["2 min"])
        ]
    ]


MANY: TypeAdapter[list[WantedQuery]] = TypeAdapter(list[WantedQuery])


class Wanted:
    """Queries to be registered: what each is about, phi, the precision it will have, its label, how long it is kept."""

    def __init__(self, data: bytes, streams: Streams, limits: Limits) -> None:
        self._streams = streams
        self._about: dict[Any, tuple[Name, float]] = {}
        self._asked: set[tuple[str, str, str | None]] = set()
        self.names: list[Name] = []
        self.phis: list[float] = []
        self.epss: list[float] = []
        self.labels: list[str | None] = []
        self.idles: list[float | None] = []
        given = read_json(data)
        if not isinstance(given, list):
            given = [given]
        if not 0 < len(given) <= limits.batch:
            raise InvalidArgumentError(
                f"queries: the list has {len(given):,} of them; give 1 to {limits.batch:,} at a time"
            )
        for start in range(0, len(given), SLICE):
            for place, query in enumerate(_checked(given[start : start + SLICE], start), start):
                self._take(query, place)

    def _take(self, query: WantedQuery, place: int) -> None:
        key, window, filter = query.get("key"), query.get("window", ALL), query.get("filter")
        said = (query["stream"], key if key is None or isinstance(key, str) else orjson.dumps(key), window, filter)
        if said not in self._about:
            if not is_key(key):
                raise InvalidArgumentError(f"queries[{place}].key: {KEYS}")
            name = Name.of(query["stream"], key, window, filter)
            self._about[said] = name, self._check(name, place)
        name, finest = self._about[said]
        self.names.append(name)
        self.phis.append(query["phi"])
        self.epss.append(max(query.get("eps") or 0.0, finest))
        self.labels.append(query.get("label"))
        self.idles.append(read_idle(query.get("idle"), place))

    def _check(self, name: Name, place: int) -> float:
        """The finest precision of queries about this, if there can be any. A window is tried once, for all its keys."""
        try:
            live = self._streams.live(name.stream)
            asked = name.check(live)
            window = (name.stream, name.window, name.filter)
            if window not in self._asked:
                with suppress(EmptyError):
                    live.summary(**vars(replace(asked, key=None)))
                self._asked.add(window)
            return live.finest(asked)
        except QuantideError as error:
            raise type(error)(f"queries[{place}]: {error}") from error


def read_idle(said: str | None, place: int) -> float | None:
    """For how many seconds a query is kept while nobody listens to it."""
    try:
        return None if said is None else float(read_span(said))
    except QuantideError as error:
        raise InvalidArgumentError(f"queries[{place}].idle: {error}") from error


def is_key(said: Any) -> bool:
    """Whether it can be the key of something."""
    if isinstance(said, list):
        return 0 < len(said) <= MOST_PARTS and all(part is not None and is_part(part) for part in said)
    return is_part(said)


def is_part(said: Any) -> bool:
    if isinstance(said, str):
        return len(said) <= LONGEST_KEY
    return said is None or isinstance(said, float) or (isinstance(said, int) and -(2**63) <= said < 2**63)


def read_json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidArgumentError(f"the body cannot be read as JSON: {error}") from error


def read_ids(data: bytes, limits: Limits) -> Any:
    """Ids of queries, each once."""
    given = read_json(data)
    if not isinstance(given, list) or not 0 < len(given) <= limits.batch:
        raise InvalidArgumentError(f"give a list of 1 to {limits.batch:,} ids, such as [17, 18]")
    for place, one in enumerate(given):
        if isinstance(one, bool) or not isinstance(one, int) or not 0 < one < 2**63:
            raise InvalidArgumentError(f"ids[{place}]: {str(one)[:40]!r} is not the id of a query")
    ids = np.unique(np.array(given, dtype=np.int64))
    if len(ids) < len(given):
        raise InvalidArgumentError("an id is in the list twice; give each once")
    return ids


def _checked(given: list[Any], start: int) -> list[WantedQuery]:
    try:
        return MANY.validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place, *where = first["loc"]
        name = "".join(f".{part}" for part in where[:1])[:80]
        said = "a query has no such word" if first["type"] == "extra_forbidden" else first["msg"]
        raise InvalidArgumentError(f"queries[{start + int(place)}]{name}: {said}") from error
