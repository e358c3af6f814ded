"""Characterization runs, its pages match its JSON, and stated bounds hold. Nothing is timed."""

import mmap
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import history_growth, processes, spark_growth, window_accuracy
from bench.__main__ import main
from bench.history_growth import PARTS_OF_STEP, PEERS, Peer, trial
from bench.inputs import Floats, Truth
from bench.report import Report, settings_at
from bench.spark_speed import write_lake
from bench.spark_task import Task, kinds, run, stated_bytes, tasks
from bench.subjects import CHARACTERIZATION
from quantide import RecentWindow
from quantide.history import compaction_tasks
from quantide.spark.partial_summaries import GROUP_ROWS
from quantide.store.data_file import BLOCK, write_data
from quantide.windows.window_buckets import MIN_OPEN_VALUES

ROOT = processes.ROOT
FOLDER = CHARACTERIZATION.folder
COMMITTED = sorted(FOLDER.glob("*.json"))


@pytest.fixture(scope="module")
def quick_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a quick run about history left everything."""
    folder = tmp_path_factory.mktemp("history")
    main(["characterize", "history", "--quick", "--output", str(folder)])
    return folder


def test_standing_queries_stay_within_their_bound(tmp_path: Path) -> None:
    main(["characterize", "queries", "--quick", "--output", str(tmp_path)])
    report = Report.read(tmp_path / "queries.json")
    assert all(row["evaluations"] <= row["bound"] for row in report.rows["growth"])
    for row in report.rows["rows"]:
        assert row["clusters"] <= row["queries"]


@pytest.mark.slow
def test_quick_run_writes_everything(tmp_path: Path) -> None:
    """Run the command in a process of its own: other tests share a Spark session in this one."""
    command = [sys.executable, "-m", "bench", "characterize", "--quick", "--output", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert {path.name for path in tmp_path.glob("*.json")} == {f"{name}.json" for name in CHARACTERIZATION.subjects}
    assert {
        path.name: path.read_text() for path in tmp_path.glob("*.*") if path.suffix != ".json"
    } == CHARACTERIZATION.render(tmp_path)


def test_committed_pages_come_from_committed_json() -> None:
    made = CHARACTERIZATION.render(FOLDER)
    kept = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.*") if path.suffix != ".json"}
    assert kept == made, "run: python -m bench characterize results"


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_results_contain_no_paths(path: Path) -> None:
    assert not re.search(r"(/home|/root|/work|/tmp)\b", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_report_survives_json(path: Path, tmp_path: Path) -> None:
    assert Report.read(path).write(tmp_path).read_text() == path.read_text()


def test_stated_memory_holds_in_the_results() -> None:
    rows = Report.read(FOLDER / "spark.json").rows
    for row in (*rows["keys"], *rows["tasks"]):
        assert row["peak"] <= row["stated"], row
    for row in rows["keys"]:
        assert row["merge_peak"] <= row["merge_stated"], row


def test_unknown_subject_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["characterize", "speed"])
    assert "unknown subject 'speed'" in capsys.readouterr().err


def test_results_alone_measures_nothing(tmp_path: Path) -> None:
    main(["characterize", "results", "--output", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_tasks_of_every_kind_run_without_spark(tmp_path: Path) -> None:
    s = settings_at(spark_growth.Settings, "quick")
    rows = list(tasks(tmp_path, s))
    assert [(row["kind"], row["rows"]) for row in rows] == [(kind, n) for kind in kinds(s) for n in s.tasks]
    assert all(row["left"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_task_and_its_merge_in_fresh_processes(tmp_path: Path) -> None:
    paths = write_lake(tmp_path / "lake", 20_000, 2, 100, group=1_000)
    task = Task(paths, 100, 0.01, cores=2, parts=str(tmp_path / "parts"))
    found, merged = run(task, fresh=True), run(task, fresh=True, merge=True)
    assert found["tasks"] == merged["tasks"] == 1
    assert 0 < found["left"] <= merged["came"]


def test_lakes_are_the_same_every_time(tmp_path: Path) -> None:
    for values in (0, 16):
        one, other = (write_lake(tmp_path / f"{values}-{i}", 1_001, 2, 3, group=100, values=values) for i in range(2))
        assert [Path(path).read_bytes() for path in one] == [Path(path).read_bytes() for path in other]


def test_peak_includes_memory_that_was_freed() -> None:
    size = 64 << 20

    def allocate() -> int:
        """Write to new pages of the system: a heap may reuse freed pages, which are resident already."""
        with mmap.mmap(-1, size) as room:
            for page in range(0, size, mmap.PAGESIZE):
                room[page] = 1
            return len(room)

    peak = processes.peak_of(allocate)
    assert peak.result == size
    assert size * 0.9 <= peak.more <= size * 1.5


def test_stated_memory_grows_with_what_is_read_at_once(tmp_path: Path) -> None:
    lakes = [write_lake(tmp_path / str(rows), rows, 1, 10, group=1_000) for rows in (1_000, 3_000)]
    one, three = (list(Task(paths, 10, 0.01, cores=2, whole=True).tables()) for paths in lakes)
    assert [len(table) for table in (*one, *three)] == [1_000, 3_000]
    assert stated_bytes(one, 10, 0.01) < stated_bytes(three, 10, 0.01)
    assert stated_bytes(one, 0, 0.01) < stated_bytes(three, 0, 0.01)
    enough = three * (GROUP_ROWS // 3_000 + 1)
    eight = stated_bytes(enough * 8, 1_000_000, 0.01)
    assert eight > 3 * stated_bytes(enough * 7, 1_000_000, 0.01)  # the eighth makes them be merged


def test_exponents_of_powers() -> None:
    points = [(x, 3.0 * x**1.5) for x in (1.0, 10.0, 1e6)]
    assert history_growth.exponent(points) == pytest.approx(1.5)
    rows = [{"x": x, "y": y} for x, y in [*points, (1e7, 3.0 * 1e9)]]
    assert history_growth.growth(rows, "x", {"name": "y"})[0]["last"] == pytest.approx(0)
    with pytest.raises(ValueError, match="two different places"):
        history_growth.exponent(points[:1])


def test_quick_run_about_history_writes_everything(quick_history: Path) -> None:
    made = CHARACTERIZATION.render(quick_history)
    assert set(made) == {"index.md", "history.md"}
    kept = {path.name: path.read_text() for path in quick_history.glob("*.*") if path.suffix != ".json"}
    assert kept == made
    assert not any("nan" in text for text in made.values())


def test_certified_errors_hold_in_a_quick_run_about_history(quick_history: Path) -> None:
    check_history(Report.read(quick_history / "history.json"))


@pytest.mark.parametrize(
    "path", [path for path in COMMITTED if path.name == "history.json"], ids=lambda path: path.name
)
def test_certified_errors_hold_in_the_results_about_history(path: Path) -> None:
    check_history(Report.read(path))


def check_history(report: Report) -> None:
    """Observed errors within those certified, those within eps of the open step; one block of a run at most."""
    rows = report.rows
    for row in (*rows["memory"], *rows["data_kappas"]):
        assert row["mean_error"] <= row["worst_error"] <= row["certified"] + 1e-3, row
    for row in (*rows["kappas"], *rows["history"], *rows["stream"]):
        for mode in ("accurate", "quick"):
            assert row[f"{mode}_worst_error"] <= row[f"{mode}_certified"] + 1e-3, row
        assert row["accurate_most_reads"] <= row["runs"], row
        assert row["quick_most_reads"] == 0, row
    for row in (*rows["history"], *rows["stream"]):
        assert row["accurate_certified"] <= row["allowed"], row
    accurate = [row for row in rows["data_kappas"] if row["mode"] == "accurate"]
    assert all(row["certified"] <= row["eps"] * report.settings["small_values"] for row in accurate)


@pytest.fixture(scope="module")
def quick_windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a quick run about windows left everything."""
    folder = tmp_path_factory.mktemp("windows")
    main(["characterize", "windows", "--quick", "--output", str(folder)])
    return folder


def test_quick_run_about_windows_writes_everything(quick_windows: Path) -> None:
    made = CHARACTERIZATION.render(quick_windows)
    assert {"index.md", "windows.md", "windows-epsilons.svg", "windows-sizes.svg"} == set(made)
    kept = {path.name: path.read_text() for path in quick_windows.glob("*.*") if path.suffix != ".json"}
    assert kept == made
    assert not any("nan" in text for name, text in made.items() if name.endswith(".svg"))


def test_windows_keep_their_promise_in_the_results(quick_windows: Path) -> None:
    for folder in (quick_windows, FOLDER):
        for path in folder.glob("windows.json"):
            for row in window_accuracy.checked_rows(Report.read(path)):
                assert row["mean"] <= row["worst"] <= 1, row
                assert row["exact"] <= (row["worst"] == 0), row
                if row.get("window") != "SlidingWindow":
                    assert row["tuples"] < row["paper_tuples"], row
                elif row["exact"]:
                    assert row["tuples"] <= row["size"], row
                else:
                    assert row["tuples"] < row["paper_tuples"] + MIN_OPEN_VALUES, row


def test_a_shrunk_layout_is_put_back() -> None:
    def count_tuples() -> int:
        window = RecentWindow(0.05, max_items=10_000)
        window.update(np.arange(10_000.0))
        return window.tuples

    with window_accuracy.layout(window_accuracy.SHRUNK):
        assert count_tuples() < 9_000
    with pytest.raises(ZeroDivisionError), window_accuracy.layout(window_accuracy.SHRUNK):
        raise ZeroDivisionError
    assert count_tuples() == 10_000


def test_answers_about_windows_are_checked(rng: np.random.Generator) -> None:
    class Wrong:
        """Answers ranks that are too high by a tenth of all."""

        eps, tuples = 0.05, 7

        def __init__(self, values: Floats) -> None:
            self.values, self.end = values, 0

        def update(self, values: Floats) -> None:
            self.end += len(values)

        def quantiles(self, phis: Floats, last: int) -> Floats:
            ordered = np.sort(self.values[self.end - last : self.end])
            return np.asarray(ordered[np.ceil(phis * last).astype(int) - 1 + last // 10])

        def summary(self, last: int) -> "Wrong":
            return self

        rank_error = 1

    values, phis = rng.random(1_000), np.array([0.25, 0.5])
    window = Wrong(values)
    probe = window_accuracy.Probe({"window": "wrong"}, window, {"last": 100}, np.arange(1_000) - 99)
    window_accuracy.watch([values], [probe], 200, 5, phis, 64)
    row = probe.row()
    assert row["worst"] == row["mean"] == pytest.approx(0.1 / 0.05)
    assert not row["exact"]
    assert row["tuples"] == 7
    with pytest.raises(AssertionError, match="no value of the window"):
        probe.query(np.sort(values[:100]), phis)


@pytest.mark.parametrize("kind", window_accuracy.KINDS)
def test_streams_are_the_same_every_time(kind: str) -> None:
    one, same = (window_accuracy.stream(kind, 5_000) for _ in range(2))
    assert one.tobytes() == same.tobytes()
    assert len(one) == 5_000
    assert np.isfinite(one).all()


def test_streams_are_sorted_as_they_are_called() -> None:
    kinds = ("sorted", "reversed", "block-sorted", "semi-sorted")
    up, down, blocks, semi = (window_accuracy.stream(kind, 5_000) for kind in kinds)
    assert (np.diff(up) >= 0).all()
    assert (np.diff(down) <= 0).all()
    assert (np.diff(blocks.reshape(50, 100), axis=1) >= 0).all()
    assert (np.diff(blocks) < 0).sum() >= 40
    parts = semi.reshape(50, 100)
    assert (parts[:-1].max(axis=1) <= parts[1:].min(axis=1)).all()
    assert (np.diff(semi) < 0).mean() > 0.3
    assert (np.diff(window_accuracy.arrival_times(5_000, 400)) >= 0).all()


def test_ranks_in_pieces_are_those_in_everything(rng: np.random.Generator) -> None:
    pieces = [rng.integers(0, 50, size).astype(float) for size in (1, 40, 300, 7)]
    phis, found = rng.uniform(0.01, 1, 30), rng.integers(-2, 60, 30) / 1.25
    truth = Truth()
    for piece in pieces:
        truth.add(piece)
    for last in (None, 1, 2):
        everything = np.sort(np.concatenate(pieces if last is None else pieces[-last:])).tolist()
        assert truth.n(last) == len(everything)
        for phi, value, error in zip(phis, found, truth.rank_errors(phis, found, last), strict=True):
            below = sum(x < value for x in everything)
            ranks = range(below + 1, max(below + 1, sum(x <= value for x in everything)) + 1)
            target = max(1, int(np.ceil(phi * len(everything) - 1e-9)))
            assert error == min(abs(rank - target) for rank in ranks)


@pytest.mark.parametrize("name", history_growth.SETS)
def test_data_sets_are_the_same_every_time(name: str) -> None:
    one, same, other = (history_growth.step_values(name, step, 10_000) for step in (3, 3, 4))
    assert one.tobytes() == same.tobytes() != other.tobytes()
    assert np.isfinite(one).all()
    assert one.min() > 0


def test_data_sets_look_like_what_they_are_called() -> None:
    flows = history_growth.step_values("network", 0, 10_000)
    _, counts = np.unique(flows, return_counts=True)
    assert counts.max() > 500
    assert flows.max() > 100 * np.median(flows)
    night, day = (np.quantile(history_growth.step_values("latency", step, 10_000), 0.9) for step in (18, 6))
    assert day > 1.5 * night


def test_updates_are_watched_from_outside() -> None:
    values = history_growth.step_values("normal", 0, BLOCK + 1)
    quick = settings_at(history_growth.Settings, "quick")
    with trial(quick, quick.memory, kappa=2) as t:
        t.fill([values] * 4)
        assert [(cost["read"], cost["written"]) for cost in t.costs] == [(0, 2), (0, 2), (4, 2 + 3)]
        assert all(min(cost[part] for part in PARTS_OF_STEP) > 0 for cost in t.costs)
        assert t.cost()["written"] == pytest.approx(9 / 3, abs=1e-6)
        assert "".join(str(span.last_steps) for span in t.history.spans()) == "13"
    assert vars(compaction_tasks)["write_data"] is write_data


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_get_as_much_memory(peer: Peer) -> None:
    steps = [history_growth.step_values("normal", step, 2_000).astype(np.float32) for step in range(20)]
    _, (sketch, size) = peer.fit_memory(steps, 8_000)
    assert 6_000 <= size <= 10_000
    assert sketch.n == 40_000
