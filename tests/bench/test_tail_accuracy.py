"""Tails beside peers: ours keeps its promise in every order, and the peers are what they are called."""

from pathlib import Path

import numpy as np
import pytest

from bench import tail_accuracy
from bench.__main__ import main
from bench.competitors import Method
from bench.report import Report
from bench.subjects import RESULTS
from bench.tail_accuracy import CLASSIC, PHIS, orders


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tails")
    main(["tails", "--quick", "--output", str(folder)])
    return folder


@pytest.fixture(scope="module")
def reports(quick: Path) -> list[Report]:
    return [Report.read(folder / "tails.json") for folder in (quick, RESULTS.folder)]


def peer(name: str) -> Method:
    return next(one for one in tail_accuracy.methods(np.arange(1.0, 5_000)) if one.name == name)


def latencies(rng: np.random.Generator, n: int = 50_000) -> np.ndarray:
    return np.sort(rng.lognormal(np.log(0.001), 2.5, n))


def test_a_quick_run_writes_a_page_with_its_picture(quick: Path) -> None:
    assert {path.name for path in quick.iterdir()} == {"index.md", "tails.json", "tails.md", "tails.svg"}
    assert "promise of StreamSketch" in (quick / "tails.svg").read_text()


def test_ours_is_within_its_promise_in_twelve_orders(reports: list[Report]) -> None:
    for report in reports:
        n, rows = report.settings["n"], report.rows["accuracy"]
        ours = [row for row in rows if row["method"] == "StreamSketch"]
        assert len(ours) == 12 * len(PHIS)
        for row in ours:
            assert row["promised"] == min(0.001 * n, 0.01 * row["above"]) + 0.5
            assert row["ranks"] <= row["certified"] <= row["promised"], row
            assert row["above"] == n - np.ceil(row["phi"] * n - 1e-9)


def test_the_bars_are_met_in_the_stored_run(reports: list[Report]) -> None:
    rows = {row["tail"]: row for row in reports[1].rows["cost"]}
    assert reports[1].settings["n"] == 20_000_000
    assert rows["0.01"]["values_per_s"] >= 0.75 * rows["none"]["values_per_s"]
    assert rows["0.01"]["bytes"] <= 1_500_000
    assert (rows["0.01"]["stored_n"], rows["0.01"]["summary_bytes"] <= 64_000) == (10**8, True)
    ours = [row for row in reports[1].rows["accuracy"] if row["method"] == "StreamSketch"]
    assert max(row["value_error"] for row in ours if row["phi"] == 0.9999) <= 0.02


def test_peers_that_can_be_sized_have_our_bytes(reports: list[Report]) -> None:
    sizes = {row["method"]: row["bytes"] for row in reports[1].rows["accuracy"] if row["order"] == "random"}
    for method in {"REQ", "t-digest"} & set(sizes):
        assert sizes[method] == pytest.approx(sizes["StreamSketch"], rel=0.15)


def test_orders_arrange_the_same_values(rng: np.random.Generator) -> None:
    values = latencies(rng)
    made = {name: arrange() for name, arrange in orders(values, rng).items()}
    rounded = np.sort(made.pop("two digits"))
    assert np.abs(rounded / values - 1).max() <= 0.05
    assert len(np.unique(rounded)) < 1_500
    for name, arranged in made.items():
        np.testing.assert_array_equal(np.sort(arranged), values, err_msg=name)
    assert len({arranged.tobytes() for arranged in made.values()}) == 11


def test_ddsketch_answers_as_the_package_does(rng: np.random.Generator) -> None:
    ddsketch = pytest.importorskip("ddsketch")
    values, sketch = latencies(rng, 200_000), ddsketch.DDSketch(relative_accuracy=0.01)
    for value in values.tolist():
        sketch.add(value)
    found = peer("DDSketch").answers(values, PHIS)
    assert found == pytest.approx([sketch.get_quantile_value(phi) for phi in PHIS.tolist()], rel=1e-9)


def test_a_classic_histogram_interpolates_and_ends_at_its_last_bound() -> None:
    values = np.sort(np.concatenate([np.full(50, 0.004), np.full(40, 0.3), np.full(10, 99.0)]))
    found = peer("Prometheus, classic").answers(values, np.array([0.25, 0.5, 0.7, 0.9, 0.95, 1.0]))
    assert found == pytest.approx([0.0025, 0.005, 0.375, 0.5, 10, 10])
    assert CLASSIC[-1] == 10


def test_a_native_histogram_is_within_its_factor(rng: np.random.Generator) -> None:
    values = latencies(rng)
    exact = values[np.ceil(PHIS * len(values) - 1e-9).astype(int) - 1]
    found = peer("Prometheus, native").answers(values, PHIS)
    assert (np.abs(np.log2(found / exact)) <= 1 / 8 + 1e-9).all()
