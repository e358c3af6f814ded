"""Counterexamples are the same each time, break other sketches for the stated reason, and do not break ours."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bench import counterexamples, environment
from bench.__main__ import main
from bench.counterexamples import (
    ATTACKS,
    OURS,
    Attack,
    Settings,
)
from bench.report import Report
from bench.subjects import RESULTS


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
    assert "## t-digest" in text
    for package, method in {
        "duckdb": "DuckDB approx_",
        "chdb": "ClickHouse quantile",
        "fastdigest": "fastdigest, ",
    }.items():
        assert (f"| {method}" in text) == (environment.load(package) is not None)


def test_ours_is_within_what_it_proves_in_every_row(quick: Path) -> None:
    for report in reports(quick):
        proved = [row for rows in report.rows.values() for row in rows if row.get("certified") is not None]
        assert len(proved) >= 3 * 9  # streams and checks
        for row in proved:
            bound = row["eps"] if row.get("eps") else row["bound"]
            assert row["rank_error"] <= row["certified"] + 1e-12, row
            assert row["certified"] <= bound + 1e-12, row


def test_every_row_of_ours_proves_something(quick: Path) -> None:
    for report in reports(quick):
        for name, rows in report.rows.items():
            for row in rows:
                mine = str(row.get("method", "")).startswith(OURS)
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
    """Show the reason without any library: 3 of 4 values of a level are above the next level, its mean is below."""
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
