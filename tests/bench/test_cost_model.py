"""The cost model's arithmetic, its formulas beside true runs, and the pages that are made of them."""

import math
from pathlib import Path

import numpy as np
import pytest

from bench import cost_model, cost_pages, documents, tables
from bench.__main__ import main
from bench.collection import DOCS
from bench.cost_measure import RUNS, open_step
from bench.cost_model import COSTS, RATES, Cost, Limit, Target, Use, depth, fit, rewritten, stored_files, summary_tuples
from bench.report import Report
from bench.subjects import CHARACTERIZATION
from quantide import History, Summaries
from quantide.history.compaction_plan import FANOUT, LARGE_CHUNK
from quantide.store.file_names import RunId

LINE = Cost("a line", "rows", "y", "s", {"one": lambda row: 1.0, "x": lambda row: row["x"]}, "")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a quick run left everything."""
    folder = tmp_path_factory.mktemp("scale")
    main(["characterize", "scale", "--quick", "--output", str(folder)])
    return folder


def test_quick_run_writes_everything(quick: Path) -> None:
    made = CHARACTERIZATION.render(quick)
    assert {"index.md", "scale.md"} == set(made)
    assert {path.name: path.read_text() for path in quick.glob("*.*") if path.suffix != ".json"} == made


def test_the_page_is_made_of_any_report(quick: Path) -> None:
    text = documents.scale(Report.read(quick / "scale.json"))
    assert "10^12" in text
    assert "{" not in text


def test_committed_page_comes_from_committed_json() -> None:
    made = documents.scale(Report.read(CHARACTERIZATION.folder / "scale.json"))
    assert documents.SCALE.read_text(encoding="utf-8") == made, "run: python -m bench characterize results"


def test_a_fit_finds_the_line_that_was_there() -> None:
    found = fit(LINE, [{"x": x, "y": 3 + 2 * x} for x in (1, 10, 100)])
    assert found.coefficients == pytest.approx({"one": 3, "x": 2})
    assert found.predict(x=1_000) == pytest.approx(2_003)
    assert found.off({"x": 1, "y": 4}) == pytest.approx(0.25)


def test_coefficients_are_never_negative() -> None:
    found = fit(LINE, [{"x": x, "y": 2 * x - 1} for x in (1, 10, 100)])
    assert found.coefficients["one"] == 0
    assert found.coefficients["x"] > 0


def test_formulas_that_are_off_are_marked(quick: Path) -> None:
    report = Report.read(quick / "scale.json")
    rows = [dict(row) for row in report.rows["commit"]]
    rows[-1]["seconds"] *= 100
    changed = Report(report.part, report.settings, report.rows | {"commit": rows}, report.about)
    title = COSTS["commit"].title
    assert title in cost_model.costs_off(changed)
    page = CHARACTERIZATION.page(changed)[1]
    assert any(title in line and "% off " in line for line in page.splitlines())
    assert any(title in line and ", off**" in line for line in page.splitlines())


@pytest.mark.parametrize(("each", "eps"), [(10, 0.01), (100, 0.01), (1_000, 0.01), (1_001, 0.001), (7, 0.2)])
def test_kept_tuples_are_those_of_true_summaries(each: int, eps: float, rng: np.random.Generator) -> None:
    keys = np.repeat(np.arange(5), each)
    found = Summaries.of(keys, rng.random(len(keys)), eps, tail=None)
    assert abs(len(found.values) / 5 - summary_tuples(each, eps)) <= 1


@pytest.mark.parametrize("kappa", [1, 2, 3, 10])
def test_formulas_of_levels_are_those_of_a_true_history(kappa: int, tmp_path: Path) -> None:
    """The history has steps of one row each: every new run of a higher level has rewritten its rows."""
    known, written = set[RunId](), 0
    with History(tmp_path, eps=0.1, kappa=kappa, window=0) as history:
        for step in range(1, 31):
            history.append([1.0])
            history.end_step()
            runs = {run.id: run.rows for run in history.snapshot.runs}
            written += sum(rows for name, rows in runs.items() if name.level and name not in known)
            known |= set(runs)
            assert max(name.level for name in runs) + 1 == depth(step, kappa)
            assert written / step == pytest.approx(rewritten(step, kappa))
            assert len(runs) <= kappa * depth(step, kappa)
            assert len(history.snapshot.files) == stored_files(1, step, kappa)


def test_an_open_step_is_compacted_by_size() -> None:
    assert open_step(FANOUT - 1, 10)["chunks"] == FANOUT - 1
    assert open_step(FANOUT - 1, 10)["rewritten"] == 1  # when it ends
    assert open_step(FANOUT, 10)["chunks"] == 1
    assert open_step(FANOUT, 10)["rewritten"] == 1  # one chunk is a run already
    assert open_step(100, LARGE_CHUNK)["chunks"] == 100


def test_a_size_by_hand(quick: Path) -> None:
    use = Use(Report.read(quick / "scale.json"), Target(values=86_400 * 2**22 / 3_600 * 10))
    assert use.steps == 8_760
    assert use.files == 10 * 10 + 5 * 64 + 7 * 64 + 8 * 625  # runs of levels 0 to 3
    assert use.runs == 40
    assert use.largest_merge == pytest.approx(10 * 2**22 * 1110)
    assert use.written_again_by_levels == pytest.approx(rewritten(8_760, 10))
    assert use.cores == pytest.approx(use.ingest_cores + use.merge_cores + use.log_cores)


def test_limits_are_ranked_and_decide_how_many_there_are(quick: Path) -> None:
    use = Use(Report.read(quick / "scale.json"), Target(values=1e12))
    times = [limit.times for limit in use.limits()]
    assert times == sorted(times, reverse=True)
    assert use.tables >= max(limit.times for limit in use.table_limits())
    assert Limit("", "", one=2, needed=5, remedy="").times == 2.5


def test_more_values_take_more(quick: Path) -> None:
    report = Report.read(quick / "scale.json")
    few, many = (Use(report, Target(values)) for values in (1e9, 1e12))
    assert many.data_bytes == pytest.approx(1_000 * few.data_bytes, rel=0.01)
    assert many.merge_cores_at_worst == pytest.approx(1_000 * few.merge_cores_at_worst)


def test_three_runs_are_merged(quick: Path) -> None:
    assert {row["runs"] for row in Report.read(quick / "scale.json").rows["merge"]} == {RUNS}


def test_another_processor_replaces_the_rates_only(quick: Path) -> None:
    report, others = Report.read(quick / "scale.json"), cost_pages.other_processors()
    [xeon] = [other for other in others if "Xeon" in other.about["machine"]["cpu"]]
    ours, theirs = (Use(report, Target(1e10), processor) for processor in (None, xeon))
    for name, cost in COSTS.items():
        expected = fit(cost, xeon.rows[cost.rows]) if name in RATES else ours.fits[name]
        assert theirs.fits[name].coefficients == expected.coefficients
    assert "Xeon" in theirs.processor
    assert theirs.data_bytes == ours.data_bytes


def test_processors_are_side_by_side_with_the_slowest_first(quick: Path) -> None:
    others = cost_pages.other_processors()
    lines = cost_pages.limits_context(Report.read(quick / "scale.json"), others)["by_processor"]
    count = 1 + len(others)
    assert count > 1
    assert len(lines) == count * len(cost_pages.SIZES)
    for begin in range(0, len(lines), count):
        cores = [line["cores"] for line in lines[begin : begin + count]]
        assert cores == sorted(cores, reverse=True)


def test_no_measurement_is_shown_for_two_processors() -> None:
    reports = [Report.read(DOCS / "characterization" / "scale.json"), *cost_pages.other_processors()]
    assert len({str(report.rows) for report in reports}) == len(reports)


def test_amounts_are_written_with_units() -> None:
    assert [tables.short(x) for x in (11.6e6, 950, 2.46e15, math.inf)] == ["11.6 M", "950", "2.46 P", "no end"]
    assert [tables.amount(x, "s") for x in (2.5, 0.0025, 2.5e-6, 2.5e-9)] == [
        "2.5 s",
        "2.5 ms",
        "2.5 us",
        "2.5 ns",
    ]
    assert [tables.amount(x, "bytes") for x in (12, 1.5e9)] == ["12 B", "1.5 GB"]
