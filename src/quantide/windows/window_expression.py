"""Window expressions: last(n), within(T), where(filter), joined by & and |, filters also by ~.

`last` and `within` expire by age: a value that has left them never returns, so any & and | of them is again
everything from some arrival on. A filter is evaluated when a value arrives. So an expression is normalized to clauses,
one of which must be true, each a filter part and an age part: after CONSTRAINED, section 4.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import pyarrow.compute as pc

from quantide.errors import InvalidArgumentError
from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.copying import Immutable
from quantide.summary.ranks import MAX_N, check_size
from quantide.windows.filter_expressions import TRUE, filter_name, filter_text, pack_filter, unpack_filter
from quantide.windows.time_clock import read_span, show_span

MAX_CLAUSES, MAX_FILTERS = 256, 32


@dataclass(frozen=True)
class WindowClause:
    """Values among the last `items` arrivals and within the last `span` that meet all filter `conditions`.

    A condition is a pair of a filter's name and TRUE or FALSE. None stands for no limit.
    """

    items: int | None
    span: Fraction | None
    conditions: frozenset[tuple[str, int]]

    def __and__(self, other: "WindowClause") -> "WindowClause | None":
        """Return the conjunction; None if the filters contradict each other."""
        conditions = self.conditions | other.conditions
        if len({name for name, _ in conditions}) < len(conditions):
            return None
        return WindowClause(_shorter(self.items, other.items), _shorter(self.span, other.span), conditions)

    def includes(self, other: "WindowClause") -> bool:
        """Return True if every value of the other clause meets this one, too."""
        return (
            self.conditions <= other.conditions
            and _is_as_long(self.items, other.items)
            and _is_as_long(self.span, other.span)
        )


class WindowExpression(Immutable):
    """An expression of last(n), within(T) and where(filter), with &, | and, between filters only, ~.

    >>> (within("5 min") & where(pc.field("src") == "A")) | last(1000)
    last(1000) | within('5 min') & where((src == "A"))
    """

    __slots__ = ("clauses", "filters")

    def __init__(self, clauses: Iterable[WindowClause], filters: dict[str, Any]) -> None:
        """Create an expression; internal. Use last, within and where."""
        self.clauses = _simplify(clauses)
        self.filters = dict(sorted(filters.items()))
        if len(self.clauses) > MAX_CLAUSES or len(self.filters) > MAX_FILTERS:
            raise InvalidArgumentError(
                f"the window has {len(self.clauses)} clauses and {len(self.filters)} filters; at most {MAX_CLAUSES} "
                f"and {MAX_FILTERS} are allowed"
            )

    def __and__(self, other: "WindowExpression") -> "WindowExpression":
        if not isinstance(other, WindowExpression):
            return NotImplemented
        pairs = (a & b for a, b in product(self.clauses, other.clauses))
        return WindowExpression((clause for clause in pairs if clause is not None), self.filters | other.filters)

    def __or__(self, other: "WindowExpression") -> "WindowExpression":
        if not isinstance(other, WindowExpression):
            return NotImplemented
        return WindowExpression((*self.clauses, *other.clauses), self.filters | other.filters)

    def __invert__(self) -> "WindowExpression":
        if any(clause.items is not None or clause.span is not None for clause in self.clauses):
            raise InvalidArgumentError(
                "~ works on filters only: values outside last() or within() are not kept; write ~where(...)"
            )
        opposite = WindowExpression([WindowClause(None, None, frozenset())], {})
        for clause in self.clauses:
            some = [WindowClause(None, None, frozenset([(name, 1 - result)])) for name, result in clause.conditions]
            opposite = opposite & WindowExpression(some, self.filters)
        return opposite

    def __reduce__(self) -> tuple[type["WindowExpression"], tuple[tuple[WindowClause, ...], dict[str, Any]]]:
        return WindowExpression, (self.clauses, self.filters)

    def __bool__(self) -> bool:
        raise InvalidArgumentError("a window has no truth value; join windows with & and |, not with `and` and `or`")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WindowExpression) and self.clauses == other.clauses

    def __hash__(self) -> int:
        return hash(self.clauses)

    def __repr__(self) -> str:
        return " | ".join(_clause_text(clause) for clause in self.clauses) or "nothing"

    @property
    def needs_times(self) -> bool:
        return any(clause.span is not None for clause in self.clauses)

    def matching_clauses(self, results: dict[str, int]) -> list[WindowClause]:
        """Return the clauses whose conditions these filter results meet, whatever the age of the value."""
        return [c for c in self.clauses if all(results[name] == result for name, result in c.conditions)]

    def write(self, frame: FrameWriter) -> None:
        frame.number(len(self.filters))
        for name, filter in self.filters.items():
            frame.text(filter_text(name))
            frame.blob(pack_filter(filter))
        names = list(self.filters)
        frame.number(len(self.clauses))
        for clause in self.clauses:
            frame.number(clause.items or 0)
            frame.fraction(clause.span)
            frame.number(len(clause.conditions))
            for name, result in sorted(clause.conditions):
                frame.number(names.index(name))
                frame.number(result)

    @staticmethod
    def read(frame: FrameReader) -> "WindowExpression":
        """Read an expression as write() writes it."""
        filters = {}
        for _ in range(frame.number(MAX_FILTERS)):
            text = frame.text()
            name, filter = unpack_filter(frame.blob(), text)
            filters[name] = filter
        names, clauses = list(filters), []
        for _ in range(frame.number(MAX_CLAUSES)):
            items, span = frame.number(MAX_N), frame.fraction()
            pairs = [(frame.number(len(names) - 1), frame.number(TRUE)) for _ in range(frame.number(len(names)))]
            clauses.append(WindowClause(items or None, span, frozenset((names[i], result) for i, result in pairs)))
        expression = WindowExpression(clauses, filters)
        frame.require(expression.clauses == tuple(clauses) and list(expression.filters) == names)
        return expression


def last(n: int) -> WindowExpression:
    """Select the last n arrivals, whatever their filter results."""
    return WindowExpression([WindowClause(min(check_size("n", n, 1), MAX_N), None, frozenset())], {})


def within(span: Any) -> WindowExpression:
    """Select the arrivals of the last span of time: seconds, a timedelta, or text such as "5 min"."""
    return WindowExpression([WindowClause(None, read_span(span), frozenset())], {})


def where(filter: Any) -> WindowExpression:
    """Select arrivals for which a pyarrow.compute expression over their columns is true."""
    if not isinstance(filter, pc.Expression):
        raise InvalidArgumentError(
            f'{filter!r} is not a filter; give an expression such as pyarrow.compute.field("src") == "A"'
        )
    name = filter_name(filter)
    return WindowExpression([WindowClause(None, None, frozenset([(name, TRUE)]))], {name: filter})


def _shorter(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _is_as_long(a: Any, b: Any) -> bool:
    """Return True if one limit is not shorter than another."""
    return a is None or (b is not None and b <= a)


def _simplify(clauses: Iterable[WindowClause]) -> tuple[WindowClause, ...]:
    """Sort clauses, and remove those that another includes."""
    minimal: list[WindowClause] = []
    for clause in dict.fromkeys(clauses):
        if not any(other.includes(clause) for other in minimal):
            minimal = [other for other in minimal if not clause.includes(other)] + [clause]
    return tuple(sorted(minimal, key=_sort_key))


def _sort_key(clause: WindowClause) -> Any:
    return (sorted(clause.conditions), clause.items is None, clause.items or 0, clause.span is None, clause.span or 0)


def _clause_text(clause: WindowClause) -> str:
    parts = [] if clause.items is None else [f"last({clause.items})"]
    if clause.span is not None:
        parts.append(f"within({show_span(clause.span)!r})")
    parts += [
        f"{'' if result == TRUE else '~'}where({filter_text(name)})" for name, result in sorted(clause.conditions)
    ]
    return " & ".join(parts) or "everything"
