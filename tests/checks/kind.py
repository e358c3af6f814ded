"""Classes under test: what each promises, and the checks it must pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from quantide import Answer, Summary
from tests.orders import Floats

Rng = np.random.Generator


class Sketch(Protocol):
    """Methods of every sketch."""

    @property
    def n(self) -> int: ...
    @property
    def eps(self) -> float: ...
    @property
    def error(self) -> float: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def nulls(self) -> int: ...
    @property
    def nans(self) -> int: ...
    @property
    def min(self) -> Any: ...
    @property
    def max(self) -> Any: ...
    def update(self, values: Any, nan: Any = None, *, weights: Any = None) -> Any: ...
    def update_summary(self, summary: Summary) -> Any: ...
    def merge(self, other: Self) -> Any: ...
    def quantile(self, phi: float) -> Any: ...
    def quantiles(self, phis: Any) -> Any: ...
    def answer(self, phi: float) -> Answer: ...
    def rank(self, value: Any, *, inclusive: bool = True) -> tuple[Any, Any]: ...
    def cdf(self, values: Any, *, inclusive: bool = True) -> Any: ...
    def pmf(self, splits: Any, *, inclusive: bool = True) -> Any: ...
    def summary(self) -> Summary: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...


@dataclass(frozen=True)
class Kind:
    """A class under test: how to make one, and what it promises beyond what all promise.

    promises: "merge", "any number of merges" (in bounded memory), "update_summary",
    "same bytes whatever the blocks", "the ends are exact".
    covers: the part of everything fed that its answers speak of (a window: the last of it).
    max_nbytes: the documented limit, of (eps, n, itemsize, whether it was merged).
    more_orders: number of orders that `make test` tries with each check beside those of every kind.
    """

    name: str
    make: Callable[..., Any]
    promises: frozenset[str] = frozenset()
    covers: Callable[[Floats], Floats] = field(default=lambda fed: fed)
    max_nbytes: Callable[[float, int, int, bool], int] | None = None
    more_orders: int = 0


Check = TypeVar("Check", bound=Callable[..., None])


def needs(promise: str) -> Callable[[Check], Check]:
    """Run a check only on kinds that promise this."""

    def mark(check: Check) -> Check:
        check.needs = promise  # type: ignore[attr-defined]
        return check

    return mark


def applies(check: Callable[..., None], kind: Kind) -> bool:
    """Return True if a kind must pass a check."""
    promise = getattr(check, "needs", None)
    return promise is None or promise in kind.promises


def takes_order(check: Callable[..., None]) -> bool:
    """Return True if a check runs on every order."""
    return "order" in inspect.signature(check).parameters
