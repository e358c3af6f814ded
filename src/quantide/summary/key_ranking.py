"""Key ranking: the keys with the largest, or smallest, quantile, and the proved part of their order.

The position of a key is one more than the number of keys with a larger quantile (a smaller one, if the smallest are
wanted); equal quantiles have equal positions. Proof of all claims: docs/guarantees/live.md.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from quantide.summary.key_encoding import hashable_keys
from quantide.summary.key_quantiles import KeyQuantiles
from quantide.summary.ranks import check_size
from quantide.summary.value_json import encode_key, encode_value
from quantide.typing import Array, Ints

MOST = 20  # keys that are listed by default


@dataclass(frozen=True, slots=True)
class RankedKey:
    """Key of a ranking, and its answer with proved bounds.

    `value` has a rank between `rank_lo` and `rank_hi` of `n`; the true quantile, at rank `target`, is at least `low`
    and at most `high`. The key's position among all keys is between `position_lo` and `position_hi`. `proved`: it is
    among the worst `most` keys. `above_rest`: every key after it in the order, listed or not, is better.
    """

    key: Any
    value: Any
    low: Any
    high: Any
    target: int
    rank_lo: int
    rank_hi: int
    n: int
    error: float
    position_lo: int
    position_hi: int
    proved: bool
    above_rest: bool

    def to_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        values = {name: encode_value(fields[name]) for name in ("value", "low", "high")}
        return fields | values | {"key": encode_key(self.key)}


@dataclass(frozen=True, slots=True)
class KeyRanking:
    """Worst keys in the order of their values, equal ones in the order of keys.

    `keys` have at least `min_n` values and were compared; `too_few` have fewer. `contenders` are not listed, but may be
    among the worst `most`.
    """

    listed: list[RankedKey]
    phi: float
    most: int
    smallest: bool
    min_n: int
    keys: int
    too_few: int
    contenders: int

    def to_json(self) -> dict[str, Any]:
        """Return the worst keys, each with its bounds; the caller adds the window."""
        counts = ("phi", "most", "smallest", "min_n", "keys", "too_few", "contenders")
        return {name: getattr(self, name) for name in counts} | {"listed": [row.to_json() for row in self.listed]}


@dataclass(frozen=True, slots=True)
class KeyRankingAsOf(KeyRanking):
    """Worst keys of a growing stream as of `version`; `mode`, `last_steps`, `since` and `until` as in AnswerAsOf."""

    version: int
    mode: str
    last_steps: int | None
    since: Any
    until: Any


@dataclass(frozen=True)
class RankingRequest:
    """Request for the `most` keys with the largest or smallest quantile, of those with at least `min_n` values."""

    phi: float
    most: int = MOST
    smallest: bool = False
    min_n: int = 1

    def __post_init__(self) -> None:
        check_size("most", self.most, 1)
        check_size("min_n", self.min_n, 1)

    def rank(self, quantiles: KeyQuantiles) -> KeyRanking:
        """Return the worst of some keys."""
        compared = quantiles.take(np.flatnonzero(quantiles.n >= self.min_n))
        order, (best, worst) = self._order(compared.value), self.positions(compared)
        chosen = order[: self.most]
        above = self._above_rest(compared, order)[: self.most]
        contenders = int((best <= self.most).sum() - (best[chosen] <= self.most).sum())
        rows = _list_rows(compared.take(chosen), best[chosen], worst[chosen], above, self.most)
        counts = len(compared), len(quantiles) - len(compared), contenders
        return KeyRanking(rows, self.phi, self.most, self.smallest, self.min_n, *counts)

    def positions(self, quantiles: KeyQuantiles) -> tuple[Ints, Ints]:
        """Return the first and the last position that each key may have."""
        low, high = quantiles.low, quantiles.high
        is_open = high > low  # it would count itself
        if self.smallest:
            surely = np.searchsorted(np.sort(high), low, side="left")
            possibly = np.searchsorted(np.sort(low), high, side="left") - is_open
        else:
            surely = len(low) - np.searchsorted(np.sort(low), high, side="right")
            possibly = len(low) - np.searchsorted(np.sort(high), low, side="right") - is_open
        return 1 + surely, 1 + possibly

    def _order(self, values: Array) -> Ints:
        """Return the indexes of values, the worst first, equal ones in the order of keys."""
        if self.smallest:
            return np.argsort(values, kind="stable")
        order: Ints = len(values) - 1 - np.argsort(values[::-1], kind="stable")[::-1]
        return order

    def _above_rest(self, quantiles: KeyQuantiles, order: Ints) -> Array:
        """Return which keys are worse than every key after them in the order."""
        low, high = quantiles.low[order], quantiles.high[order]
        above = np.ones(len(order), dtype=bool)
        if self.smallest:
            above[:-1] = high[:-1] < np.minimum.accumulate(low[::-1])[::-1][1:]
        else:
            above[:-1] = low[:-1] > np.maximum.accumulate(high[::-1])[::-1][1:]
        return above


def _list_rows(rows: KeyQuantiles, best: Ints, worst: Ints, above: Array, most: int) -> list[RankedKey]:
    value, low, high = (rows.kind.restore(column) for column in (rows.value, rows.low, rows.high))
    error = np.maximum(rows.target - rows.rank_lo, rows.rank_hi - rows.target) / rows.n
    counts = (rows.target, rows.rank_lo, rows.rank_hi, rows.n, error, best, worst, worst <= most, above)
    columns = [column.tolist() for column in counts]
    return [RankedKey(*row) for row in zip(hashable_keys(rows.keys), value, low, high, *columns, strict=True)]
