"""Claims of comparisons, sums over ranks, quantiles and ranks of summaries, with the exact results beside them."""

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from bench.exact_data import ExactData, binomial_chances, difference, sample_ranks
from bench.random_data import Rng, Sample, SamplePair
from bench.violation_search import Claim
from quantide.summary.comparison import Comparison

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999999)
MOST = 2_000  # values of a sample whose binomial chances are computed
FLOORS = (0.0, 0.0001, 0.05)
Check = Callable[[SamplePair], Iterable[Claim]]
ANSWERS = {True: (1, 1), False: (0, 0), None: (0, 1)}  # of a proof, as an interval of the truth


def draw_phi(rng: Rng) -> float:
    choice = rng.random()
    return float(rng.choice([0.0, 0.07, 0.5, 0.9, 0.99, 1.0])) if choice < 0.3 else float(rng.random())


def draw_share(rng: Rng, most: float = 1.0) -> float:
    """Return a share of all ranks above 0 and below `most`."""
    return float(rng.choice([0.01, 0.05, 0.25, 0.49])) if rng.random() < 0.3 else most * float(rng.uniform(1e-6, 1))


def draw_confidence(rng: Rng, n: int, sides: int = 1) -> tuple[float, float]:
    """Return phi and a level, often one that is slightly too high for a rank; a shift has two sides, each at half."""
    phi = draw_phi(rng)
    if rng.random() < 0.3:  # few values are expected beyond the quantile
        beyond = 10.0 ** rng.uniform(-3, 1) / n
        phi = float(np.clip(beyond if rng.random() < 0.5 else 1 - beyond, 0, 1))
    chances = binomial_chances(n, phi)
    tails = np.cumsum(chances[:: rng.choice([-1, 1])])
    tails = tails[(tails > 1e-6) & (tails < 0.2)]
    if not len(tails) or rng.random() < 0.5:
        return phi, float(rng.choice(LEVELS))
    return phi, 1 - 2 * sides * float(rng.choice(tails)) * (1 - 10.0 ** rng.uniform(-8, -6))


def draw_value(rng: Rng, data: ExactData) -> Any:
    """Return one of the values, a neighbour of one, or a number between two."""
    value = data.numbers[rng.integers(len(data.numbers))]
    if isinstance(value, int):
        return int(np.clip(value + int(rng.integers(-1, 2)), -(2**63), 2**63 - 1))
    other = data.numbers[rng.integers(len(data.numbers))]
    near = [value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf), value / 2 + other / 2]
    chosen = float(near[rng.integers(4)])
    return value if math.isnan(chosen) else chosen


def draw_splits(rng: Rng, *data: ExactData) -> list[Any]:
    """Return up to eight increasing values."""
    return sorted({draw_value(rng, data[rng.integers(len(data))]) for _ in range(rng.integers(1, 9))})


def comparisons(pair: SamplePair, **more: Any) -> Iterator[Comparison]:
    """Yield a comparison of each summary of one sample with each of the other."""
    for left, right in product(pair.a.summaries, pair.b.summaries):
        yield left.compare(right, **more)


def ks(pair: SamplePair) -> Iterator[Claim]:
    return ((*each.ks, pair.exact.ks) for each in comparisons(pair))


def wasserstein(pair: SamplePair) -> Iterator[Claim]:
    return ((*each.wasserstein, pair.exact.wasserstein) for each in comparisons(pair))


def psi(pair: SamplePair) -> Iterator[Claim]:
    for left, right in product(pair.a.summaries, pair.b.summaries):
        floor = float(pair.rng.choice(FLOORS))
        found = left.compare(right, bins=int(pair.rng.integers(2, 12)), floor=floor)
        yield (*found.psi, pair.exact.psi(found.splits.tolist(), floor))


def psi_of_splits(pair: SamplePair) -> Iterator[Claim]:
    splits, floor = draw_splits(pair.rng, pair.a.data, pair.b.data), float(pair.rng.choice(FLOORS))
    if isinstance(splits[0], float) or isinstance(splits[-1], float):
        splits = sorted({float(split) for split in splits})
    exact = pair.exact.psi(splits, floor)
    return ((*each.psi, exact) for each in comparisons(pair, bins=splits, floor=floor))


def shift(pair: SamplePair) -> Iterator[Claim]:
    for each in comparisons(pair):
        phi = draw_phi(pair.rng)
        yield (*each.shift(phi), pair.exact.shift(phi))


def above(pair: SamplePair) -> Iterator[Claim]:
    for each in comparisons(pair):
        phi = draw_phi(pair.rng)
        x, y = pair.exact.quantiles(phi)
        yield (*ANSWERS[each.is_above(phi)], int(x > y))


def proofs(pair: SamplePair) -> Iterator[Claim]:
    """Yield whether a distance is above a limit that is an end, the result, or a neighbour of one."""
    floor = float(pair.rng.choice(FLOORS))
    for each in comparisons(pair, floor=floor):
        measure = ("ks", "wasserstein", "psi")[pair.rng.integers(3)]
        is_psi = measure == "psi"
        exact = pair.exact.psi(each.splits.tolist(), floor) if is_psi else getattr(pair.exact, measure)
        limit = float((*getattr(each, measure), _rounded(exact))[pair.rng.integers(3)])
        limit = (limit, math.nextafter(limit, -math.inf), math.nextafter(limit, math.inf))[pair.rng.integers(3)]
        is_above = exact > limit if math.inf in (exact, abs(limit)) else exact > Fraction(limit)
        yield (*ANSWERS[each.proves_above(measure, limit)], int(is_above))


def shift_by_chance(pair: SamplePair) -> Iterator[Claim]:
    """Yield the smallest and the largest shift between the narrowest ranks of both samples, in turns."""
    for left, right in product(pair.a.complete, pair.b.complete):
        if max(left.n, right.n) > MOST:
            continue
        phi, level = draw_confidence(pair.rng, (left.n, right.n)[pair.rng.integers(2)], 2)
        each = 1 - (1 - level) / 2
        own, theirs = (sample_ranks(one.n, phi, each) for one in (left, right))
        ends = (own[0], theirs[1]) if pair.rng.random() < 0.5 else (own[1], theirs[0])
        x, y = pair.a.data.at(ends[0]), pair.b.data.at(ends[1])
        exact = math.nan if math.isinf(x) and x == y else difference(x, y)
        yield (*left.compare(right).confidence_interval(phi, level), exact)


def _rounded(exact: Any) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf


def of_samples(claims: Callable[[Rng, Sample], Iterable[Claim]]) -> Check:
    """Return the check of a bound that is about one sample."""
    return lambda pair: (claim for one in (pair.a, pair.b) for claim in claims(pair.rng, one))


def mean(rng: Rng, one: Sample) -> Iterator[Claim]:
    exact = one.data.mean_between(Fraction(0), Fraction(1))
    return ((*summary.mean(), exact) for summary in one.summaries)


def total(rng: Rng, one: Sample) -> Iterator[Claim]:
    exact = one.data.rank_sum(Fraction(0), Fraction(one.data.n))
    return ((*summary.sum(), exact) for summary in one.summaries)


def trimmed_mean(rng: Rng, one: Sample) -> Iterator[Claim]:
    for summary in one.summaries:
        cut = draw_share(rng, 0.5)
        yield (*summary.trimmed_mean(cut), one.data.mean_between(Fraction(cut), 1 - Fraction(cut)))


def winsorised_mean(rng: Rng, one: Sample) -> Iterator[Claim]:
    for summary in one.summaries:
        cut = draw_share(rng, 0.5)
        yield (*summary.winsorised_mean(cut), one.data.winsorised_mean(Fraction(cut)))


def shortfall(rng: Rng, one: Sample) -> Iterator[Claim]:
    for summary in one.summaries:
        phi, upper = draw_share(rng), bool(rng.integers(2))
        ends = (Fraction(phi), Fraction(1)) if upper else (Fraction(0), Fraction(phi))
        yield (*summary.expected_shortfall(phi, upper=upper), one.data.mean_between(*ends))


def sum_above(rng: Rng, one: Sample) -> Iterator[Claim]:
    for summary in one.summaries:
        threshold = draw_value(rng, one.data)
        yield (*summary.sum_above(threshold), one.data.sum_above(threshold))


def quantile(rng: Rng, one: Sample) -> Iterator[Claim]:
    for summary in one.summaries:
        phi = draw_phi(rng)
        yield (*summary.bounds(phi), one.data.at(one.data.target(phi)))


def rank_of_answer(rng: Rng, one: Sample) -> Iterator[Claim]:
    """Yield a rank of the answered value: the nearest one to the lower bound, of all that equal values have."""
    for summary in one.complete:
        answer = summary.answer(draw_phi(rng))
        yield answer.rank_lo, answer.rank_hi, _nearest_rank(one.data, answer.value, answer.rank_lo)


def error(rng: Rng, one: Sample) -> Iterator[Claim]:
    """Yield the distance of an answer from its target, in ranks, beside the certified error."""
    for summary in one.complete:
        answer = summary.answer(draw_phi(rng))
        yield 0, summary.rank_error, abs(_nearest_rank(one.data, answer.value, answer.target) - answer.target)


def _nearest_rank(data: ExactData, value: Any, rank: int) -> int:
    first, last = data.ranks_of(value.item())
    return min(max(rank, first), last) if first <= last else -data.n  # not one of the values


def rank(rng: Rng, one: Sample) -> Iterator[Claim]:
    for summary in one.summaries:
        value, inclusive = draw_value(rng, one.data), bool(rng.integers(2))
        yield (*summary.rank(value, inclusive=inclusive), one.data.count(value, inclusive))


def masses(rng: Rng, one: Sample) -> Iterator[Claim]:
    splits, inclusive = draw_splits(rng, one.data), bool(rng.integers(2))
    exact = one.data.masses(splits, inclusive)
    for summary in one.summaries:
        low, high = summary.pmf_bounds(splits, inclusive=inclusive)
        yield from zip(low, high, (Fraction(count, one.data.n) for count in exact), strict=True)


def quantile_by_chance(rng: Rng, one: Sample) -> Iterator[Claim]:
    """Yield the values at the narrowest ranks."""
    for summary in one.complete:
        if summary.n <= MOST:
            phi, level = draw_confidence(rng, summary.n)
            ranks = sample_ranks(summary.n, phi, level)
            low, high = summary.confidence_interval(phi, level)
            yield low, high, one.data.at(ranks[int(rng.integers(2))])


CHECKS: dict[str, Check] = {
    "ks": ks,
    "wasserstein": wasserstein,
    "psi": psi,
    "psi, given splits": psi_of_splits,
    "shift": shift,
    "is_above": above,
    "proves_above": proofs,
    "confidence_interval of a shift": shift_by_chance,
    "mean": of_samples(mean),
    "sum": of_samples(total),
    "trimmed_mean": of_samples(trimmed_mean),
    "winsorised_mean": of_samples(winsorised_mean),
    "expected_shortfall": of_samples(shortfall),
    "sum_above": of_samples(sum_above),
    "confidence_interval": of_samples(quantile_by_chance),
    "bounds of a quantile": of_samples(quantile),
    "rank of an answer": of_samples(rank_of_answer),
    "error": of_samples(error),
    "rank": of_samples(rank),
    "pmf_bounds": of_samples(masses),
}
