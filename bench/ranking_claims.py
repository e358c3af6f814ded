"""Claims of worst keys: positions, memberships and orders that are proved of summaries by key."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bench.comparison_claims import ANSWERS, draw_phi
from bench.exact_data import ExactData
from bench.random_data import FLOATS, INTEGERS, Rng
from bench.violation_search import Claim
from quantide.summary.key_quantiles import KeyQuantiles
from quantide.summary.key_ranking import KeyRanking, RankingRequest
from quantide.summary.summaries import Summaries

RANKINGS = 8  # of the same keys


@dataclass
class RankedKeys:
    """A ranking, and the exact quantile of every key that was compared."""

    request: RankingRequest
    ranking: KeyRanking
    quantiles: dict[int, Any]

    @cached_property
    def positions(self) -> dict[int, int]:
        """One more than the number of keys with a worse quantile, by key."""
        ordered = sorted(self.quantiles.values())
        if self.request.smallest:
            return {key: 1 + bisect_left(ordered, own) for key, own in self.quantiles.items()}
        return {key: 1 + len(ordered) - bisect_right(ordered, own) for key, own in self.quantiles.items()}


def draw_summaries(rng: Rng) -> tuple[Summaries, dict[int, ExactData]]:
    """Return summaries of 1 to 40 keys, exact, sampled, merged or compressed, and the data of each key."""
    shapes, keys = [*FLOATS.values(), INTEGERS["large integers"]], int(rng.integers(1, 40))
    codes = rng.integers(0, keys, int(rng.integers(1, 50)) * keys)
    values = shapes[rng.integers(len(shapes))](rng, len(codes))
    if values.dtype.kind == "f" and rng.random() < 0.5:
        with np.errstate(over="ignore"):
            values = (values * (1 + rng.integers(0, 3, keys)[codes])).astype(values.dtype)
    half, eps = len(codes) // 2, float(rng.choice([0.3, 0.1, 0.02]))
    parts = [slice(half), slice(half, None)] if half and rng.random() < 0.5 else [slice(None)]
    summaries = Summaries.merge(*(Summaries.of(codes[part], values[part], eps) for part in parts))
    if rng.random() < 0.3:
        summaries = summaries.compress(int(rng.integers(1, 12)))
    return summaries, {int(key): ExactData(values[codes == key]) for key in np.unique(codes)}


def draw_rankings(rng: Rng) -> list[RankedKeys]:
    """Return rankings of the same keys, each by its own phi and request."""
    summaries, data = draw_summaries(rng)
    drawn = []
    for phi in {draw_phi(rng) for _ in range(RANKINGS)}:
        most, smallest, least = int(rng.integers(1, len(data) + 2)), bool(rng.integers(2)), int(rng.integers(1, 30))
        request = RankingRequest(phi, most, smallest, least)
        true = {key: one.at(one.target(phi)) for key, one in data.items() if one.n >= least}
        drawn.append(RankedKeys(request, request.rank(KeyQuantiles.of(summaries, phi)), true))
    return drawn


def quantile(ranked: RankedKeys) -> Iterator[Claim]:
    return ((row.low, row.high, ranked.quantiles[row.key]) for row in ranked.ranking.listed)


def position(ranked: RankedKeys) -> Iterator[Claim]:
    return ((row.position_lo, row.position_hi, ranked.positions[row.key]) for row in ranked.ranking.listed)


def membership(ranked: RankedKeys) -> Iterator[Claim]:
    """Yield whether a key is among the worst: it may be, if that is not proved."""
    for row in ranked.ranking.listed:
        yield (*ANSWERS[row.proved or None], int(ranked.positions[row.key] <= ranked.request.most))


def order(ranked: RankedKeys) -> Iterator[Claim]:
    """Yield whether every key after one is better: it may be, if that is not proved."""
    after = dict(ranked.quantiles)
    for row in ranked.ranking.listed:
        own, rest = after.pop(row.key), after.values()
        is_worst = not rest or (own < min(rest) if ranked.request.smallest else own > max(rest))
        yield (*ANSWERS[row.above_rest or None], int(is_worst))


def contenders(ranked: RankedKeys) -> Iterator[Claim]:
    """Yield the number of keys that are not listed and are among the worst."""
    listed = {row.key for row in ranked.ranking.listed}
    positions = [position for key, position in ranked.positions.items() if key not in listed]
    yield 0, ranked.ranking.contenders, sum(position <= ranked.request.most for position in positions)


def of_rankings(claims: Callable[[RankedKeys], Iterable[Claim]]) -> Callable[[list[RankedKeys]], Iterable[Claim]]:
    return lambda drawn: (claim for ranked in drawn for claim in claims(ranked))


CHECKS = {
    "quantile": of_rankings(quantile),
    "position": of_rankings(position),
    "proved": of_rankings(membership),
    "above_rest": of_rankings(order),
    "contenders": of_rankings(contenders),
}
