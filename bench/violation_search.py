"""Search for violations: random cases of every bound, until each has as many as wanted; what was found, by bound."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from bench.exact_data import Exact
from bench.report import Row

Claim = tuple[Any, Any, Exact]  # an interval (low, high), and the exact result that it must contain
T = TypeVar("T")
Checks = Mapping[str, Callable[[T], Iterable[Claim]]]
EXAMPLES = 3


@dataclass
class Tally:
    """Claims about one bound. The exact result decides, without rounding; `widths` are relative, for the report."""

    bound: str
    draws: int = 0
    cases: int = 0
    violations: int = 0
    tight: int = 0
    seconds: float = 0.0
    widths: list[float] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)

    def add(self, claim: Claim) -> None:
        low, high, result = claim
        if isinstance(result, float) and math.isnan(result):
            return  # undefined, such as the sum of both infinities
        low, high = plain_end(low, -math.inf), plain_end(high, math.inf)
        self.cases += 1
        self.tight += low == high
        self.widths.append(relative_width(low, high))
        if not contains(low, high, result):
            self.violations += 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(f"{result} is not in ({low!r}, {high!r})")

    def row(self) -> Row:
        width = float(np.median(self.widths)) if self.widths else 0.0
        return {
            "bound": self.bound,
            "draws": self.draws,
            "cases": self.cases,
            "violations": self.violations,
            "tight": round(self.tight / max(1, self.cases), 4),
            "width": float(f"{width:.3g}") if math.isfinite(width) else None,
            "seconds": round(self.seconds, 2),
            "examples": self.examples,
        }


def plain_end(end: Any, missing: float) -> Any:
    """Return an end as a Python number; None, where there is no bound, as an infinity."""
    return missing if end is None else end.item() if isinstance(end, np.generic) else end


def contains(low: Any, high: Any, result: Exact) -> bool:
    """Return True if low <= result <= high: Python compares whole numbers, floats and fractions exactly.

    A fraction is compared with a fraction, since beside a float it would be rounded.
    """
    if isinstance(result, Fraction):
        low, high = (end if math.isinf(end) else Fraction(end) for end in (low, high))
        is_at_least = low <= result if isinstance(low, Fraction) else low < 0
        return bool(is_at_least and (result <= high if isinstance(high, Fraction) else high > 0))
    return bool(low <= result <= high)


def relative_width(low: Any, high: Any) -> float:
    """Return the width of an interval as a share of its larger end; infinite if there is no such share."""
    if low == high:
        return 0.0
    if math.isinf(low) or math.isinf(high):
        return math.inf
    return float((high / 2 - low / 2) / max(abs(low), abs(high)) * 2)


def search(draw: Callable[[np.random.Generator], T], checks: Checks[T], cases: int, seed: Sequence[int]) -> list[Row]:
    """Draw random items and check every bound on each, until all bounds have `cases` claims; return a row for each."""
    rng, tallies = np.random.default_rng(seed), [Tally(bound) for bound in checks]
    rounds = 0
    while any(tally.cases < cases for tally in tallies):
        item, rounds = draw(rng), rounds + 1
        if rounds > 20 * cases + 100:
            raise RuntimeError(f"{min(tallies, key=lambda tally: tally.cases).bound} has too few claims; draw others")
        for tally, check in zip(tallies, checks.values(), strict=True):
            if tally.cases < cases:
                begun = time.thread_time()
                claims = list(check(item))
                tally.seconds += time.thread_time() - begun
                tally.draws += bool(claims)
                for claim in claims[: cases - tally.cases]:
                    tally.add(claim)
    return [tally.row() for tally in tallies]
