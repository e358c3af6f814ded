"""Query scope: the subject of a query (everything, some steps, or a window; a key or all), and window bounds."""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, NamedTuple, TypedDict

from quantide.errors import InvalidArgumentError, SpanError
from quantide.history.history_reader import HistoryReader
from quantide.history.key_columns import read_key
from quantide.live.recent_snapshot import RecentSnapshot, RowSelection, TimeInterval
from quantide.summary.ranks import check_size
from quantide.windows.time_clock import read_span, show_span


class ScopeArguments(TypedDict, total=False):
    """Arguments of a query beside its key; None is the default of each."""

    last: int | None
    within: Any
    filter: str | None
    last_steps: int | None
    now: Any


@dataclass(frozen=True)
class QueryScope:
    """Scope of a query: recent values with last, within or filter; otherwise history."""

    key: Any = None
    last: int | None = None
    within: Any = None
    filter: str | None = None
    last_steps: int | None = None
    now: Any = None

    def __post_init__(self) -> None:
        if self.recent and self.last_steps is not None:
            raise InvalidArgumentError(
                "last_steps= is about history, last=, within= and filter= about recent values; ask for one of the two"
            )
        if self.now is not None and not self.timed:
            raise InvalidArgumentError("now= is of use only together with within= or filter=")

    @classmethod
    def of(cls, arguments: Any) -> "QueryScope":
        """Return the scope of a dict of arguments."""
        if not isinstance(arguments, dict):
            raise InvalidArgumentError(
                f"an object of type {type(arguments).__name__} is not a window; give a dict, such as "
                '{"last_steps": 7}'
            )
        if unknown := [f"{name}=" for name in arguments if name not in NAMES]:
            raise InvalidArgumentError(
                f"{', '.join(unknown)[:200]} is not an argument of a window; use {', '.join(NAMES)}"
            )
        return cls(**arguments)

    @property
    def recent(self) -> bool:
        """True if it is about recent values."""
        return self.last is not None or self.within is not None or self.filter is not None

    @property
    def timed(self) -> bool:
        """True if it is about a span of time: the given one, or all recent values."""
        return self.within is not None or (self.filter is not None and self.last is None)

    @property
    def cache_key(self) -> Hashable:
        """Cache key; includes types because 1 == True. None if unhashable."""
        parts = self.key if isinstance(self.key, tuple) else (self.key,)
        types = tuple(map(type, (*parts, self.last, self.within, self.last_steps, self.now)))
        try:
            hash(self)
        except TypeError:  # such as of a list
            return None
        return self, types


NAMES = {field.name: field for field in fields(QueryScope)}


class WindowBounds(NamedTuple):
    """Rows of a window; `since` and `until` are its start and end in time, None without times."""

    selection: RowSelection
    since: Any
    until: Any


def resolve_window(
    scope: QueryScope, recent: RecentSnapshot, reader: HistoryReader, max_span: Fraction | None
) -> WindowBounds:
    """Return the window of a scope; raise if it is unknown or starts more than `max_span` seconds ago."""
    settings = reader.settings
    if max_span is None:
        raise SpanError("this store keeps no recent values; make it with History(path, window='24 hours')")
    if scope.filter is not None and scope.filter not in settings.filters:
        declared = f"declared are {', '.join(settings.filters)}" if settings.filters else "none is declared"
        raise InvalidArgumentError(f"the filter {scope.filter!r} is not known; {declared}")
    key = None if scope.key is None else read_key(scope.key, settings.keys, reader.snapshot.key_types)
    last = None if scope.last is None else check_size("last", scope.last, 1)
    interval, since, until = _resolve_times(scope, recent, max_span)
    return WindowBounds(RowSelection(key, last, interval, scope.filter), since, until)


def _resolve_times(
    scope: QueryScope, recent: RecentSnapshot, max_span: Fraction
) -> tuple[TimeInterval | None, Any, Any]:
    """Return the times of a window as numbers, and its start and end as users write them."""
    if not scope.timed or recent.clock is None:
        return None, None, None
    span = max_span if scope.within is None else read_span(scope.within)
    clock, newest = recent.clock, recent.manifest.newest
    moment = newest if scope.now is None else clock.moment(scope.now)
    above = clock.back(moment, span)
    if span > max_span or above < clock.back(newest, max_span):
        raise SpanError(
            f"a window of {show_span(span)} reaches back beyond the {show_span(max_span)} that are kept; ask for a "
            "shorter or later one, or make the store with a longer window"
        )
    return TimeInterval(above, moment if moment < newest else None), clock.show(above), clock.show(moment)
