"""Prices of an object store, which are parameters: prices.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PRICES = Path(__file__).parent / "prices.toml"


class RequestCounts(NamedTuple):
    """Requests by kind, as object stores price them: `put` has COPY and POST, `get` has HEAD."""

    put: float = 0
    get: float = 0
    list: float = 0
    delete: float = 0

    def times(self, factor: float) -> "RequestCounts":
        return RequestCounts(*(count * factor for count in self))

    def plus(self, other: "RequestCounts") -> "RequestCounts":
        return RequestCounts(*map(sum, zip(self, other, strict=True)))


@dataclass(frozen=True)
class RequestPrices:
    """USD per 1,000 requests of each kind, and per GB and month of storage."""

    name: str
    date: str
    put: float
    get: float
    list: float
    delete: float
    storage: float

    @classmethod
    def read(cls, path: Path = PRICES) -> "RequestPrices":
        return cls(**tomllib.loads(path.read_text(encoding="utf-8")))

    def of(self, counts: RequestCounts) -> float:
        """Return the price of requests.

        >>> round(RequestPrices.read().of(RequestCounts(put=2_000, get=10_000)), 4)
        0.014
        """
        return (counts.put * self.put + counts.get * self.get + counts.list * self.list) / 1000

    def of_month(self, size: float) -> float:
        return size / 1e9 * self.storage
