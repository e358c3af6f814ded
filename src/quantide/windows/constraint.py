"""Windows as expressions: last(n), within(T), where(filter), joined by & and |, filters also by ~.

`last` and `within` expire by age: an element that has left them never comes back, so any & and | of them is again
everything from some element on. A filter is decided when an element arrives. So an expression is brought into the form
of clauses, any of which must hold, each a filter part and an age part: after CONSTRAINED, section 4.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import pyarrow.compute as pc

from quantide.errors import InvalidArgumentError
from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.copying import Immutable
from quantide.summary.ranks import MAX_N, check_size
from quantide.windows.clock import read_span, show_span
from quantide.windows.filters import name_of, pack_filter, shown, unpack_filter

MOST_CLAUSES, MOST_FILTERS = 256, 32
TRUE, FALSE, UNKNOWN = 1, 0, 2  # what a filter can say of an element; null is unknown, and so is its opposite


@dataclass(frozen=True)
class Clause:
    """Elements of the last `items` arrivals and of the last `span`, whose filters say what `says` demands.

    `says` has pairs of a filter's text and TRUE or FALSE. None stands for no limit.
    """

    items: int | None
    span: Fraction | None
    says: frozenset[tuple[str, int]]

    def __and__(self, other: "Clause") -> "Clause | None":
        """Both; None when their filters contradict each other."""
        says = self.says | other.says
        if len({text for text, _ in says}) < len(says):
            return None
        return Clause(_shorter(self.items, other.items), _shorter(self.span, other.span), says)

    def includes(self, other: "Clause") -> bool:
        """Whether everything in the other is in this one, too."""
        return self.says <= other.says and _reaches(self.items, other.items) and _reaches(self.span, other.span)


class Constraint(Immutable):
    """An expression of last(n), within(T) and where(filter), with &, | and, between filters only, ~.

    >>> (within("5 min") & where(pc.field("src") == "A")) | last(1000)
    last(1000) | within('5 min') & where((src == "A"))
    """

    __slots__ = ("clauses", "filters")

    def __init__(self, clauses: Iterable[Clause], filters: dict[str, Any]) -> None:
        """For Quantide's own use; everyone else begins with last, within and where."""
        self.clauses = _simplest(clauses)
        self.filters = dict(sorted(filters.items()))
        if len(self.clauses) > MOST_CLAUSES or len(self.filters) > MOST_FILTERS:
            raise InvalidArgumentError(
                f"the window has {len(self.clauses)} clauses and {len(self.filters)} filters; at most {MOST_CLAUSES} "
                f"and {MOST_FILTERS} are allowed"
            )

    def __and__(self, other: "Constraint") -> "Constraint":
        if not isinstance(other, Constraint):
            return NotImplemented
        pairs = (a & b for a, b in product(self.clauses, other.clauses))
        return Constraint((clause for clause in pairs if clause is not None), self.filters | other.filters)

    def __or__(self, other: "Constraint") -> "Constraint":
        if not isinstance(other, Constraint):
            return NotImplemented
        return Constraint((*self.clauses, *other.clauses), self.filters | other.filters)

    def __invert__(self) -> "Constraint":
        if any(clause.items is not None or clause.span is not None for clause in self.clauses):
            raise InvalidArgumentError(
                "~ works on filters only: what last() or within() leave out is never kept; write ~where(...)"
            )
        opposite = Constraint([Clause(None, None, frozenset())], {})
        for clause in self.clauses:
            some = [Clause(None, None, frozenset([(text, 1 - said)])) for text, said in clause.says]
            opposite = opposite & Constraint(some, self.filters)
        return opposite

    def __reduce__(self) -> tuple[type["Constraint"], tuple[tuple[Clause, ...], dict[str, Any]]]:
        return Constraint, (self.clauses, self.filters)

    def __bool__(self) -> bool:
        raise InvalidArgumentError("a window has no truth value; join windows by & and |, not by `and` and `or`")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constraint) and self.clauses == other.clauses

    def __hash__(self) -> int:
        return hash(self.clauses)

    def __repr__(self) -> str:
        return " | ".join(_shown(clause) for clause in self.clauses) or "nothing"

    @property
    def needs_times(self) -> bool:
        return any(clause.span is not None for clause in self.clauses)

    def ages(self, said: dict[str, int]) -> list[Clause]:
        """The clauses that hold for an element of which filters say this, their ages aside."""
        return [c for c in self.clauses if all(said[text] == demanded for text, demanded in c.says)]

    def write(self, frame: FrameWriter) -> None:
        frame.number(len(self.filters))
        for name, filter in self.filters.items():
            frame.text(shown(name))
            frame.blob(pack_filter(filter))
        texts = list(self.filters)
        frame.number(len(self.clauses))
        for clause in self.clauses:
            frame.number(clause.items or 0)
            frame.fraction(clause.span)
            frame.number(len(clause.says))
            for text, said in sorted(clause.says):
                frame.number(texts.index(text))
                frame.number(said)

    @staticmethod
    def read(frame: FrameReader) -> "Constraint":
        """The expression that write() left."""
        filters = {}
        for _ in range(frame.number(MOST_FILTERS)):
            text = frame.text()
            name, filter = unpack_filter(frame.blob(), text)
            filters[name] = filter
        texts, clauses = list(filters), []
        for _ in range(frame.number(MOST_CLAUSES)):
            items, span = frame.number(MAX_N), frame.fraction()
            says = [(frame.number(len(texts) - 1), frame.number(TRUE)) for _ in range(frame.number(len(texts)))]
            clauses.append(Clause(items or None, span, frozenset((texts[i], said) for i, said in says)))
        found = Constraint(clauses, filters)
        frame.require(found.clauses == tuple(clauses) and list(found.filters) == texts)
        return found


def last(n: int) -> Constraint:
    """The last n arrivals, whatever filters say of them."""
    return Constraint([Clause(min(check_size("n", n, 1), MAX_N), None, frozenset())], {})


def within(span: Any) -> Constraint:
    """Arrivals of the last span of time: seconds, a timedelta, or text such as "5 min"."""
    return Constraint([Clause(None, read_span(span), frozenset())], {})


def where(filter: Any) -> Constraint:
    """Arrivals for which an expression of pyarrow.compute over their columns is true."""
    if not isinstance(filter, pc.Expression):
        raise InvalidArgumentError(
            f'{filter!r} is not a filter; give an expression such as pyarrow.compute.field("src") == "A"'
        )
    name = name_of(filter)
    return Constraint([Clause(None, None, frozenset([(name, TRUE)]))], {name: filter})


def _shorter(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _reaches(a: Any, b: Any) -> bool:
    """Whether one limit is not shorter than another."""
    return a is None or (b is not None and b <= a)


def _simplest(clauses: Iterable[Clause]) -> tuple[Clause, ...]:
    """In a fixed order, and without those that are part of another."""
    kept: list[Clause] = []
    for clause in dict.fromkeys(clauses):
        if not any(other.includes(clause) for other in kept):
            kept = [other for other in kept if not clause.includes(other)] + [clause]
    return tuple(sorted(kept, key=_order))


def _order(clause: Clause) -> Any:
    return (sorted(clause.says), clause.items is None, clause.items or 0, clause.span is None, clause.span or 0)


def _shown(clause: Clause) -> str:
    parts = [] if clause.items is None else [f"last({clause.items})"]
    if clause.span is not None:
        parts.append(f"within({show_span(clause.span)!r})")
    parts += [f"{'' if said == TRUE else '~'}where({shown(name)})" for name, said in sorted(clause.says)]
    return " & ".join(parts) or "everything"
