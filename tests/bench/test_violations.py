"""The search for violations: its exact results are right, and it reports a bound that is narrowed by one step."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import bound_violations, comparison_claims, exact_data, histogram_claims, ranking_claims
from bench.__main__ import main
from bench.exact_data import ExactData, ExactPair
from bench.random_data import draw_pair
from bench.report import Report, Row
from bench.subjects import RESULTS
from bench.violation_search import Claim, contains, search
from quantide import Summary
from quantide.histograms import IntervalSummary
from quantide.summary import confidence_ranks
from quantide.summary.comparison import Comparison
from quantide.summary.key_ranking import RankingRequest
from tests import comparison_oracle as oracle
from tests.sampling import one_in

CASES = 300
DATA: list[Callable[[Any, int], Any]] = [
    lambda rng, n: rng.normal(size=n),
    lambda rng, n: rng.integers(-3, 3, n) / 2.0,
    lambda rng, n: rng.choice([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf], n),
    lambda rng, n: rng.choice([5e-324, 1e308, -1.7e308, 3.0], n),
    lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
]


def raised(end: Any) -> Any:
    """Return an end one step higher: the next float or whole number, or True instead of not proved."""
    return next_float(end, np.inf) if isinstance(end, (float, np.floating)) else end + 1


def lowered(end: Any) -> Any:
    return next_float(end, -np.inf) if isinstance(end, (float, np.floating)) else end - 1


def next_float(end: Any, direction: float) -> Any:
    with np.errstate(over="ignore"):
        return np.nextafter(end, type(end)(direction))


def narrow_low(interval: Any, step: float = 0.0) -> Any:
    """Raise the lower end by one step, or by a share of itself."""
    low, high = interval
    if low is None:
        return interval
    return (low * (1 + step) if step else raised(low)), high


def narrow_high(interval: Any, step: float = 0.0) -> Any:
    low, high = interval
    if high is None:
        return interval
    return low, (high * (1 - step) if step else lowered(high))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("violations")
    main(["violations", "--quick", "--output", str(folder)])
    return folder


def all_bounds(report: Report) -> list[Row]:
    rows: list[Row] = bound_violations.context(report)["bounds"]
    return rows


def test_no_bound_is_violated_in_the_results(quick: Path) -> None:
    for folder in (quick, RESULTS.folder):
        report = Report.read(folder / "violations.json")
        rows = all_bounds(report)
        assert len(rows) == 51
        for row in rows:
            assert (row["cases"], row["violations"]) == (report.settings["cases"], 0), row
            assert row["tight"] > 0, row  # a bound that is never tight would hide a wrong step


def test_the_bars_are_met_in_the_stored_run() -> None:
    report = Report.read(RESULTS.folder / "violations.json")
    [ks] = [row for row in report.rows["speed"] if row["measure"] == "ks"]
    assert report.settings["cases"] >= 20_000
    assert (ks["n"], ks["median"] < 1e-3) == (10**8, True)


@pytest.mark.parametrize("seed", range(3))
def test_exact_results_are_those_of_naive_code(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        kinds = DATA[:4] if rng.random() < 0.8 else DATA[4:]
        a, b = (kinds[rng.integers(len(kinds))](rng, int(rng.integers(1, 20))) for _ in range(2))
        own, pair, (x, y) = ExactData(a), ExactPair(ExactData(a), ExactData(b)), (a.tolist(), b.tolist())
        cut, phi = Fraction(float(rng.random() / 2)), Fraction(float(rng.random()))
        splits = sorted({*x[:3], *y[:2]})
        results = [
            (pair.ks, oracle.ks_distance(x, y)),
            (pair.wasserstein, oracle.wasserstein_distance(x, y)),
            (own.mean_between(cut, 1 - cut), oracle.mean_between(x, cut, 1 - cut)),
            (own.mean_between(phi, Fraction(1)), oracle.mean_between(x, phi, Fraction(1))),
            (own.winsorised_mean(cut), oracle.winsorised_mean(x, cut)),
            (own.sum_above(x[0]), oracle.sum_above(x, x[0])),
            (own.count(x[0], False), sum(value < x[0] for value in x)),
            (own.at(own.target(0.5)), sorted(x)[math.ceil(len(x) / 2) - 1]),
        ]
        for found, naive in results:
            assert found == naive or (math.isnan(found) and math.isnan(naive))
        assert float(pair.psi(splits, 0.01)) == pytest.approx(float(oracle.stability_index(x, y, splits, 0.01)))


def test_weights_count_as_equal_values() -> None:
    weighted, plain = (
        ExactData(np.array([3.0, 1.0, 3.0]), np.array([2, 5, 1])),
        ExactData(np.array([1.0] * 5 + [3.0] * 3)),
    )
    assert (weighted.n, weighted.ends, weighted.numbers) == (plain.n, plain.ends, plain.numbers)
    assert weighted.mean_between(Fraction(1, 3), Fraction(1)) == plain.mean_between(Fraction(1, 3), Fraction(1))


def test_ranks_of_a_sample_are_the_narrowest_ones() -> None:
    for n, phi, level in [(1, 0.5, 0.9), (30, 0.5, 0.95), (200, 0.99, 0.8), (57, 0.07, 0.999), (9, 0.0, 0.9)]:
        low, high = exact_data.sample_ranks(n, phi, level)
        share, half = Fraction(phi), (1 - Fraction(level)) / 2
        chances = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
        assert sum(chances[:low]) <= half < sum(chances[: low + 1])
        assert sum(chances[high:]) <= half < sum(chances[high - 1 :])


def test_intervals_are_compared_without_rounding() -> None:
    third, near = Fraction(1, 3), 1 / 3
    assert float(third) == near
    assert not contains(near, near, third)
    assert not contains(near, near, Fraction(Decimal("0.3333333333333333333")))
    assert contains(-math.inf, near + 1e-16, third)
    assert contains(2**60, 2**60, 2**60)
    assert not contains(2**60 + 1, math.inf, 2**60)
    assert not contains(math.inf, math.inf, third)


def narrowed_property(monkeypatch: pytest.MonkeyPatch, name: str, narrow: Callable[[Any], Any]) -> None:
    original: cached_property[Any] = Comparison.__dict__[name]
    monkeypatch.setattr(Comparison, name, property(lambda self: narrow(original.func(self))))


def narrowed_method(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, narrow: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda self, *args, **more: narrow(original(self, *args, **more)))


METHODS: dict[str, tuple[Any, str]] = {
    "shift": (Comparison, "shift"),
    "confidence_interval of a shift": (Comparison, "confidence_interval"),
    "mean": (Summary, "mean"),
    "sum": (Summary, "sum"),
    "trimmed_mean": (Summary, "trimmed_mean"),
    "winsorised_mean": (Summary, "winsorised_mean"),
    "expected_shortfall": (Summary, "expected_shortfall"),
    "sum_above": (Summary, "sum_above"),
    "confidence_interval": (Summary, "confidence_interval"),
    "bounds of a quantile": (Summary, "bounds"),
    "rank": (Summary, "rank"),
    "pmf_bounds": (Summary, "pmf_bounds"),
}
DISTANCES = {"ks": 0.0, "wasserstein": 2.0**-44, "psi": 2.0**-44, "psi, given splits": 2.0**-44}  # others are widened
ENDS = [narrow_low, narrow_high]


def violations(draw: Callable[[Any], Any], checks: dict[str, Any], bound: str, cases: int = CASES) -> int:
    [row] = search(draw, {bound: checks[bound]}, cases, [3])
    assert len(row["examples"]) == min(3, row["violations"])
    return int(row["violations"])


@pytest.mark.parametrize(("bound", "narrow"), one_in(3, product(METHODS, ENDS)))
def test_an_end_that_is_one_step_off_is_reported(monkeypatch: pytest.MonkeyPatch, bound: str, narrow: Any) -> None:
    assert violations(draw_pair, comparison_claims.CHECKS, bound) == 0
    narrowed_method(monkeypatch, *METHODS[bound], narrow)
    assert violations(draw_pair, comparison_claims.CHECKS, bound) > 0


@pytest.mark.parametrize(("bound", "narrow"), one_in(3, product(DISTANCES, ENDS)))
def test_a_distance_that_is_one_step_off_is_reported(monkeypatch: pytest.MonkeyPatch, bound: str, narrow: Any) -> None:
    assert violations(draw_pair, comparison_claims.CHECKS, bound) == 0
    narrowed_property(monkeypatch, bound.partition(",")[0], lambda found: narrow(found, DISTANCES[bound]))
    assert violations(draw_pair, comparison_claims.CHECKS, bound) > 0


@pytest.mark.parametrize(("bound", "name"), [("is_above", "is_above"), ("proves_above", "proves_above")])
@pytest.mark.parametrize("guess", [True, False])
def test_a_guess_is_reported(monkeypatch: pytest.MonkeyPatch, bound: str, name: str, guess: bool) -> None:
    narrowed_method(monkeypatch, Comparison, name, lambda found: guess if found is None else found)
    assert violations(draw_pair, comparison_claims.CHECKS, bound) > 0


def test_a_tail_of_chances_that_ends_too_soon_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The level is then too high by 1e-7, where hardly any value is expected beyond the quantile."""
    assert violations(draw_pair, comparison_claims.CHECKS, "confidence_interval", 5_000) == 0
    monkeypatch.setattr(confidence_ranks, "MORE", 1)
    assert violations(draw_pair, comparison_claims.CHECKS, "confidence_interval", 5_000) > 0


def test_an_answer_that_is_one_rank_off_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    narrowed_method(monkeypatch, Summary, "_rank_bounds", narrow_low)
    assert violations(draw_pair, comparison_claims.CHECKS, "rank of an answer") > 0


def test_an_error_that_is_one_rank_off_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Summary, "rank_error", property(lambda self: max(0, self.gap // 2 - 1)))
    assert violations(draw_pair, comparison_claims.CHECKS, "error", 5_000) > 0


FORMS = [*histogram_claims.PRODUCERS, "exported, imported"]


@pytest.mark.parametrize(("form", "method", "narrow"), one_in(3, product(FORMS, ["bounds", "rank"], ENDS)))
def test_a_histogram_that_is_one_step_off_is_reported(
    monkeypatch: pytest.MonkeyPatch, form: str, method: str, narrow: Any
) -> None:
    bound = "bounds of a quantile" if method == "bounds" else method
    draw = histogram_claims.draw_round_trips if form == "exported, imported" else histogram_claims.draw_histograms(form)
    assert violations(draw, histogram_claims.IMPORT_CHECKS, bound) == 0
    narrowed_method(monkeypatch, IntervalSummary, method, narrow)
    assert violations(draw, histogram_claims.IMPORT_CHECKS, bound, 3_000) > 0


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("bound", histogram_claims.EXPORT_CHECKS)
def test_a_count_that_is_one_off_is_reported(monkeypatch: pytest.MonkeyPatch, bound: str, end: str) -> None:
    narrow = narrow_low if end == "low" else narrow_high

    def narrowed(source: Any) -> Iterator[Claim]:
        return ((*narrow(claim[:2]), claim[2]) for claim in histogram_claims.EXPORT_CHECKS[bound](source))

    assert violations(histogram_claims.draw_source, histogram_claims.EXPORT_CHECKS, bound) == 0
    assert violations(histogram_claims.draw_source, {bound: narrowed}, bound) > 0


def test_wrong_claims_about_worst_keys_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = ranking_claims.CHECKS
    assert [violations(ranking_claims.draw_rankings, checks, bound) for bound in checks] == [0] * len(checks)
    original = RankingRequest.positions
    with monkeypatch.context() as patch:
        patch.setattr(RankingRequest, "positions", lambda self, x: [np.maximum(1, p - 1) for p in original(self, x)])
        for bound in ("position", "proved"):
            assert violations(ranking_claims.draw_rankings, checks, bound) > 0, bound
    with monkeypatch.context() as patch:
        patch.setattr(RankingRequest, "positions", lambda self, x: [p + 1 for p in original(self, x)])
        for bound in ("position", "contenders"):
            assert violations(ranking_claims.draw_rankings, checks, bound) > 0, bound
    monkeypatch.setattr(RankingRequest, "_above_rest", lambda self, x, order: np.ones(len(order), dtype=bool))
    assert violations(ranking_claims.draw_rankings, checks, "above_rest") > 0


def test_bounds_that_no_draw_gives_claims_about_are_refused() -> None:
    with pytest.raises(RuntimeError, match="nothing has too few claims"):
        search(draw_pair, {"nothing": lambda pair: []}, 1, [0])
