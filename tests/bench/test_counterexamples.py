"""What breaks others is made anew the same each time, breaks them for the reason given, and does not break ours."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bench import counterexamples, environment, inputs
from bench.__main__ import main
from bench.counterexamples import (
    ATTACKS,
    OURS,
    PHIS,
    Attack,
    Settings,
    Tuples,
    compress,
    exact,
    judge,
    judge_own,
    merge_wrongly,
    rank_error,
)
from bench.report import Report, Row
from bench.subjects import RESULTS
from quantide import StreamSketch, Summary


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("breaks")
    main(["breaks", "--quick", "--output", str(folder)])
    return folder


def reports(quick: Path) -> Iterator[Report]:
    for folder in (quick, RESULTS.folder):
        yield Report.read(folder / "breaks.json")


def test_a_quick_run_writes_a_page_of_all_that_is_installed(quick: Path) -> None:
    names = {path.name for path in quick.iterdir()}
    assert names == {"index.md", "breaks.json", "breaks.md", "breaks.svg"}
    text = (quick / "breaks.md").read_text()
    for heading in ("t-digest", "SPARK-29336", "Integers and infinities"):
        assert heading in text
    for package, method in {
        "duckdb": "DuckDB approx_",
        "chdb": "ClickHouse quantile",
        "fastdigest": "fastdigest, ",
    }.items():
        assert (f"| {method}" in text) == (environment.load(package) is not None)
    assert ("## REQ" in text) == (environment.load("datasketches") is not None)


def test_ours_is_within_what_it_proves_in_every_row(quick: Path) -> None:
    for report in reports(quick):
        proved = [row for rows in report.rows.values() for row in rows if row.get("certified") is not None]
        assert len(proved) >= 3 * 9 + 2 + 2  # streams and checks, merges, cases
        for row in proved:
            bound = row["eps"] if row.get("eps") else row["bound"]
            assert row["rank_error"] <= row["certified"] + 1e-12, row
            assert row["certified"] <= bound + 1e-12, row


def test_every_row_of_ours_proves_something(quick: Path) -> None:
    for report in reports(quick):
        for name, rows in report.rows.items():
            for row in rows:
                mine = str(row.get("method", "")).startswith((OURS, "Summary"))
                assert mine == (row.get("certified") is not None), (name, row)


def test_missing_packages_are_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "load", lambda package: None)
    subject = replace(counterexamples.SUBJECT, parts={"tdigest": counterexamples.tdigest})
    report = subject.measure("breaks", Settings(levels=3), "test")
    assert report.about["not_installed"] == list(counterexamples.PACKAGES)
    assert {row["method"].partition(",")[0] for row in report.rows["tdigest"]} == {OURS}
    text = RESULTS.page(report)[1]
    assert "## t-digest" in text
    assert "| DuckDB" not in text


# --- the attack on t-digest -----------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_is_the_same_each_time_and_finite(attack: Attack) -> None:
    once, again = (np.concatenate(list(attack.levels(400))) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert np.isfinite(once).all()
    if attack.name == "narrow":
        np.testing.assert_array_equal(once, once.astype(np.float32).astype(np.float64))


def test_levels_are_nested() -> None:
    """Every level lies between the mean of the one before and the smallest value above 0."""
    levels = list(ATTACKS[0].levels(50))[1:]
    near = [level[np.abs(level) < 2.0**901] for level in levels]
    for before, after in pairwise(near):
        assert before.mean() < after.min() < 0 < after.max() < before.max()


def test_a_cluster_that_straddles_the_gap_deceives_a_mean() -> None:
    """The reason, without any library: of a level, 3 of 4 values are above the next, its mean is below."""
    level, following = list(ATTACKS[0].levels(400))[200:202]
    near = level[np.abs(level) < 2.0**901]
    assert near.mean() < following.min()
    assert (near > following.max(where=following < 2.0**901, initial=-np.inf)).mean() >= 0.7


def test_t_digests_are_far_off_where_ours_is_not() -> None:
    pytest.importorskip("datasketches")
    levels = list(ATTACKS[0].levels(200))
    errors = {}
    for name, method in counterexamples.methods(ATTACKS[0]).items():
        [row] = counterexamples.errors(method, levels, {len(levels)}, query=True)
        errors[name] = row["rank_error"]
        assert row["n"] == sum(map(len, levels))
    assert errors["DataSketches t-digest, k = 200"] > 0.3
    assert errors[f"{OURS}, eps = 0.01"] <= 0.01


# --- the merge ------------------------------------------------------------------------------


def by_hand() -> tuple[Summary, Summary]:
    """0 to 100, of which the ends are kept, and 50 a hundred times with one 51, of which one of each is."""
    return Summary.of(np.arange(101.0)).compress(1), Summary.of(np.repeat([50.0, 51.0], [100, 1])).compress(1)


def test_the_faulty_merge_is_faulty_and_the_right_one_is_not() -> None:
    one, other = by_hand()
    values = np.sort(np.concatenate([np.arange(101.0), np.repeat([50.0, 51.0], [100, 1])]))
    wrong = merge_wrongly(Tuples.of(one), Tuples.of(other))
    assert wrong.values.tolist() == [0, 50, 51, 100]
    at = wrong.values.tolist().index(51.0)
    rank = int(np.searchsorted(values, 51.0)) + 1  # of the first 51; there are two
    claimed = int(np.cumsum(wrong.g)[at])
    assert (claimed, int(wrong.delta[at]), rank) == (102, 0, 152)
    right = Summary.merge(one, other)
    at = right.values.tolist().index(51.0)
    assert right.rmin[at] <= rank <= right.rmax[at]


def test_compression_keeps_the_ends_and_the_count(rng: np.random.Generator) -> None:
    tuples = Tuples.of(Summary.of(rng.random(1_000)))
    small = compress(tuples, 20)
    assert small.g.sum() == 1_000
    assert len(small.values) < 200
    assert (small.values[0], small.values[-1]) == (tuples.values[0], tuples.values[-1])
    assert (small.g + small.delta).max() < 20
    assert inputs.rank_error(tuples.values, PHIS, small.quantiles(PHIS)) <= 10 / 1_000


def test_partitions_are_the_same_numbers_in_random_order() -> None:
    parts = counterexamples.partitions(7, 30)
    assert [len(part) for part in parts] == [30] * 7
    assert np.sort(np.concatenate(parts)).tolist() == list(range(210))
    assert np.concatenate(parts).tolist() != list(range(210))


def test_the_fault_adds_up_with_the_partitions() -> None:
    rows = counterexamples.merges(Settings(partitions=(2, 30), part_rows=500))
    few, many = (row for row in rows if row["method"] == "faulty merge")
    assert few["rank_error"] <= 0.001
    assert many["rank_error"] > 0.003
    assert many["claimed"] <= 0.001
    assert all(row["rank_error"] <= 0.001 for row in rows if row["method"] == "Summary.merge")


# --- judging --------------------------------------------------------------------------------


def test_one_answer_is_judged_as_many_are(rng: np.random.Generator) -> None:
    ordered = np.sort(rng.integers(0, 50, 200)).astype(np.float64)
    for phi in (0.001, 0.25, 0.5, 1.0):
        for answer in (-1.0, 0.0, 10.0, 10.5, 49.0, 60.0):
            expected = inputs.rank_error(ordered, np.array([phi]), np.array([answer]))
            assert rank_error(ordered.tolist(), phi, answer) == pytest.approx(expected)


def test_integers_are_judged_without_rounding() -> None:
    ordered = list(range(2**62, 2**62 + 1_001))
    assert exact(ordered, 0.5) == 2**62 + 500
    assert rank_error(ordered, 0.5, 2**62 + 400) == pytest.approx(100 / 1_001)
    assert rank_error(ordered, 0.5, float(2**62)) == pytest.approx(500 / 1_001)


def test_a_broken_promise_is_told() -> None:
    ordered = list(range(100))
    told = [judge("a", "b", ordered, 0.5, answer, "c", 0.1)["held"] for answer in (49, 59, 60, 61)]
    assert told == [True, True, True, False]
    assert judge("a", "b", ordered, 0.5, 90, "nothing")["held"] is None
    assert judge("a", "b", [1.0, np.inf], 1.0, np.inf, "c")["value"] == "inf"


def test_ours_is_judged_by_what_it_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(100_000.0)
    row: Row = judge_own("a", values, values.tolist(), 0.5, 0.01)
    assert row["held"]
    assert 0 < row["certified"] <= 0.01
    answer = StreamSketch.answer
    monkeypatch.setattr(StreamSketch, "answer", lambda self, phi: answer(self, phi + 0.02))
    assert not judge_own("a", values, values.tolist(), 0.5, 0.01)["held"]
