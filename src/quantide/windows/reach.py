"""Reach: how far back a window can be asked about, by number and by time."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import MAX_N, check_size
from quantide.windows.clock import read_span, show_span


@dataclass(frozen=True)
class Reach:
    """The last `items` values, and those of the last `age` seconds: either is enough. None: no limit of that kind."""

    items: int | None
    age: Fraction | None

    @classmethod
    def of(cls, max_items: Any, max_age: Any) -> "Reach":
        items = None if max_items is None else min(check_size("max_items", max_items, 1), MAX_N)
        return cls(items, None if max_age is None else read_span(max_age))

    def read(self, last: Any, within: Any) -> tuple[int | None, Fraction | None]:
        """A number of values and a span of time that are asked for; refused when they are beyond this."""
        last = None if last is None else check_size("last", last, 1)
        if last is not None and self.items is not None and last > self.items:
            raise InvalidArgumentError(f"last={last} is beyond this window's max_items={self.items}; ask for fewer")
        span = None if within is None else read_span(within)
        if span is not None and self.age is not None and span > self.age:
            longest = show_span(self.age)
            raise InvalidArgumentError(f"within={within!r} is beyond this window's max_age of {longest}; ask for less")
        return last, span

    def __str__(self) -> str:
        limits = [] if self.items is None else [f"the last {self.items} values"]
        if self.age is not None:
            limits.append(f"the last {show_span(self.age)}")
        return " and ".join(limits)
