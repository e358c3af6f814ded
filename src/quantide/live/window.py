"""What words about recent values mean: which rows, from which time to which."""

from fractions import Fraction
from typing import Any, NamedTuple

from quantide.errors import InvalidArgumentError, SpanError
from quantide.history.keys import read_key
from quantide.history.reader import HistoryReader
from quantide.live.asked import Asked
from quantide.live.lane import Between
from quantide.live.recent import Recent, Wanted
from quantide.summary.ranks import check_size
from quantide.windows.clock import read_span, show_span


class Window(NamedTuple):
    """The rows that are wanted; `since` and `until` when, where they are asked for by time."""

    wanted: Wanted
    since: Any
    until: Any


def window_of(asked: Asked, recent: Recent, reader: HistoryReader, reach: Fraction | None) -> Window:
    """The window that is asked for, if it can be: `reach` is how far back that may be, in seconds."""
    settings = reader.settings
    if reach is None:
        raise SpanError("this store keeps no recent values; make it with History(path, window='24 hours')")
    if asked.filter is not None and asked.filter not in settings.filters:
        known = f"declared are {', '.join(settings.filters)}" if settings.filters else "none is declared"
        raise InvalidArgumentError(f"the filter {asked.filter!r} is not known; {known}")
    key = None if asked.key is None else read_key(asked.key, settings.keys, reader.snapshot.key_types)
    last = None if asked.last is None else check_size("last", asked.last, 1)
    span, since, until = _times(asked, recent, reach)
    return Window(Wanted(key, last, span, asked.filter), since, until)


def _times(asked: Asked, recent: Recent, reach: Fraction) -> tuple[Between | None, Any, Any]:
    """The times of a window as numbers, and as users know them."""
    if not asked.timed or recent.clock is None:
        return None, None, None
    span = reach if asked.within is None else read_span(asked.within)
    clock, newest = recent.clock, recent.manifest.newest
    moment = newest if asked.now is None else clock.moment(asked.now)
    above = clock.back(moment, span)
    if span > reach or above < clock.back(newest, reach):
        raise SpanError(
            f"a window of {show_span(span)} reaches back beyond the {show_span(reach)} that are kept; ask for a "
            "shorter or later one, or make the store with a longer window"
        )
    return Between(above, moment if moment < newest else None), clock.show(above), clock.show(moment)
