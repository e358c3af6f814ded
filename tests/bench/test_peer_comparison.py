"""Today's peers: they run, ours keeps its promise beside them, and the page can be read."""

import re
from pathlib import Path

import numpy as np
import pytest

from bench import competitors, environment, group_by, inputs, peer_comparison, plots
from bench.__main__ import main
from bench.report import Report
from bench.subjects import RESULTS

BACKGROUNDS = ("#ffffff", "#0d1117", "#1e2129")  # paper, a dark page, the dark theme of the site
needs_clickhouse = pytest.mark.skipif(environment.load("chdb") is None, reason="the bench extra is not installed")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peers")
    main(["peers", "--quick", "--output", str(folder)])
    return folder


@pytest.fixture(scope="module")
def reports(quick: Path) -> list[Report]:
    """Return the report of the quick run, and the stored one."""
    paths = [folder / "peers.json" for folder in (quick, RESULTS.folder)]
    return [Report.read(path) for path in paths if path.exists()]


def test_a_quick_run_writes_the_page(quick: Path) -> None:
    assert {path.name for path in quick.iterdir()} == {"index.md", "peers.json", "peers.md"}
    assert "## Where others are better" in (quick / "peers.md").read_text()


def test_ours_keeps_its_promise_beside_them(reports: list[Report]) -> None:
    for report in reports:
        eps = report.settings["eps"]
        ours = [row for row in report.rows["column"] if row["method"] == "StreamSketch"]
        assert {row["input"] for row in ours} == set(peer_comparison.INPUTS)
        for row in ours:
            assert row["observed_error"] <= row["certified_error"] <= eps
            assert row["repeats"]
        [merged] = [row for row in report.rows["merge"] if row["guarantee"] == "certified"]
        assert merged["observed_error"] <= eps


def test_exact_peers_are_exact_to_a_rank(reports: list[Report]) -> None:
    for report in reports:
        for row in report.rows["column"]:
            if row["guarantee"] == "exact":
                assert row["observed_error"] <= 1 / row["n"], row


def test_every_peer_that_is_installed_has_its_numbers(quick: Path) -> None:
    report = Report.read(quick / "peers.json")
    begun = {"datasketches": ("KLL", "REQ", "t-digest"), "duckdb": ("DuckDB",), "polars": ("Polars",)}
    begun |= {"chdb": ("ClickHouse",), "fastdigest": ("fastdigest",)}
    found = {row["method"] for row in report.rows["column"]}
    for package, names in begun.items():
        there = all(any(method.startswith(name) for method in found) for name in names)
        assert there == (package not in report.about["not_installed"]), package


def test_the_error_of_values_is_relative_to_the_exact_value() -> None:
    ordered = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
    phis = np.array([0.2, 0.4, 1.0])
    for answers, off in (([0.0, 1.0, 8.0], 0.0), ([0.0, 1.5, 8.0], 0.5), ([3.0, 1.0, 8.0], 0.0)):
        assert competitors.errors(ordered, phis, np.array(answers))["observed_value_error"] == off


def test_the_error_of_the_tail_is_that_from_p99_on() -> None:
    found = competitors.errors(np.arange(1_000.0), np.array([0.5, 0.99]), np.array([99.0, 990.0]))
    assert found["observed_error"] == 0.4
    assert found["observed_tail_error"] == 0.001


def test_keys_are_counted_one_by_one(rng: np.random.Generator) -> None:
    numbers, values = rng.integers(0, 3, 400), rng.integers(0, 20, 400).astype(np.float64)
    answers = rng.integers(0, 20, (3, 3)) + rng.choice([0.0, 0.5], (3, 3))
    ordered = [np.sort(values[numbers == key]) for key in range(3)]
    phis = np.array(group_by.PHIS)
    expected = max(inputs.rank_error(own, phis, row) for own, row in zip(ordered, answers, strict=True))
    assert group_by.rank_error(numbers, values, answers) == pytest.approx(expected)


@needs_clickhouse
def test_clickhouse_answers_about_the_rows_it_was_given() -> None:
    values = inputs.make("random", "float64", 5_000)
    phis = np.array([0.1, 0.5, 0.999])
    for method in competitors.clickhouse(0.001):
        table = method.prepare(values)
        answers = method.answers(table, phis)
        assert inputs.rank_error(np.sort(values), phis, answers) <= 0.01, method.name
        assert (method.stored(table) or 0) > 100


@needs_clickhouse
def test_clickhouse_functions_that_keep_integers_exact() -> None:
    large = 2**53 + 1
    table = competitors.ClickHouseTable(f"SELECT toInt64({large}) AS v")
    for name in ("quantileExact(0.5)", "quantileGK(1000, 0.5)"):
        assert table.one(f"{name}(v)") == large
    assert table.one("quantileTDigest(0.5)(v)") != large


def test_every_peer_has_every_feature_and_every_note_is_referenced(quick: Path) -> None:
    text = (quick / "peers.md").read_text().partition("## Features")[2].partition("## Where others are better")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) > 10
    pointed = {int(number) for line in lines for number in re.findall(r"\[(\d+)\]", line)}
    assert pointed == {int(number) for number in re.findall(r"^(\d+)\. ", text, re.M)}


def test_better_peers_are_listed_best_first() -> None:
    def row(method: str, seconds: float) -> dict[str, object]:
        return {"method": method, "setting": "", "seconds": seconds}

    rows = [row("ours", 0.5), row("slow", 0.9), row("fast", 0.25), row("faster", 0.125)]
    report = Report("peers", {}, {"merge": rows}, {})
    assert "Merging, time, ours 500.0 ms; better: faster (125.0 ms), fast (250.0 ms)." in peer_comparison.better_peers(
        report
    )
    report = Report("peers", {}, {"merge": rows[:2]}, {})
    assert "better: none in this run." in next(peer_comparison.better_peers(report))


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("colour", [plots.INK, *plots.COLOURS])
def test_colours_stand_out_from_light_and_dark_pages(colour: str, background: str) -> None:
    low, high = sorted((luminance(colour), luminance(background)))
    assert (high + 0.05) / (low + 0.05) >= 3


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2, the guidelines for accessibility."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
