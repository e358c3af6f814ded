"""Subjects run, their pages match their JSON, and the q-digest keeps its bound. Nothing is timed."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bench import (
    competitors,
    documents,
    environment,
    evidence,
    inputs,
    plots,
    processes,
    processors,
    rendering,
    tables,
    window_speed,
)
from bench.__main__ import main
from bench.collection import Collection, Subject
from bench.history_load import PureStreaming, pure_ratios
from bench.qdigest import FIRST_LEAF, QDigest, ordinals, values_of
from bench.report import Report, Row
from bench.subjects import RESULTS

FOLDER = RESULTS.folder
PHIS = np.arange(1, 201) / 200
MADE = ("stream", "fast", "keys", "queries", "windows", "rolling")  # those that take a few seconds


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    main([*MADE, "--quick", "--output", str(folder)])
    return folder


def test_quick_run_writes_everything(quick: Path) -> None:
    names = {path.name for path in quick.iterdir()}
    parts = {f"{part}.{end}" for part in MADE for end in ("json", "md")}
    assert names == parts | {"index.md", "fast.svg"}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["history", "live"])
def test_parts_on_disk_are_measured_and_right(part: str, tmp_path: Path) -> None:
    main([part, "--quick", "--output", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"index.md", f"{part}.json", f"{part}.md"}
    rows = Report.read(tmp_path / f"{part}.json").rows
    assert all(row["holds"] for name in ("checked", "questions") for row in rows.get(name, []))


def test_quick_run_covers_the_grid(quick: Path) -> None:
    rows = Report.read(quick / "stream.json").rows["rows"]
    ours = [row for row in rows if row["method"] == "StreamSketch"]
    assert len(ours) == 2 * 3  # eps, orders with constant
    for row in ours:
        assert row["observed_error"] <= row["certified_error"] + 1e-12 <= row["eps"] + 1e-12


def test_guarantees_hold_in_the_results(quick: Path) -> None:
    for folder in (quick, FOLDER):
        for path in folder.glob("stream.json"):
            for row in Report.read(path).rows["rows"]:
                if row["guarantee"] == "certified":
                    assert row["observed_error"] <= row["guaranteed_error"] + 1e-12, row


def test_answers_of_a_history_hold_in_the_results(quick: Path) -> None:
    for folder in (quick, FOLDER):
        for path in folder.glob("history.json"):
            report = Report.read(path)
            assert all(row["holds"] for row in report.rows["checked"])
            assert report.rows["asked"][0]["accurate_most_reads"] <= report.rows["asked"][0]["runs"]


def test_answers_of_live_readers_hold_in_the_results(quick: Path) -> None:
    for folder in (quick, FOLDER):
        for path in folder.glob("live.json"):
            for part, rows in Report.read(path).rows.items():
                assert all(row["holds"] for row in rows), part


@pytest.mark.slow
def test_ingestion_is_measured_and_right(tmp_path: Path) -> None:
    """Measure ingestion with Spark, in processes of its own."""
    main(["ingest", "--quick", "--output", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"index.md", "ingest.json", "ingest.md"}
    for folder in (tmp_path, FOLDER):
        for path in folder.glob("ingest.json"):
            report = Report.read(path)
            for part in ("rate", "latency", "steady"):
                assert all(row["holds"] in (True, None) for row in report.rows[part]), part


@pytest.mark.slow
def test_the_server_is_measured_and_right(tmp_path: Path) -> None:
    """Measure a server beside Spark, in processes of their own."""
    main(["serve", "--quick", "--output", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"index.md", "serve.json", "serve.md"}
    for folder in (tmp_path, FOLDER):
        for path in folder.glob("serve.json"):
            report = Report.read(path)
            assert all(row["holds"] and not row["failures"] for row in report.rows["questions"])
            assert all(row["holds"] and row["kept"] for row in report.rows["events"])


@pytest.mark.slow
def test_the_page_is_measured_in_a_browser(tmp_path: Path) -> None:
    main(["dashboard", "--quick", "--output", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"index.md", "dashboard.json", "dashboard.md"}
    report = Report.read(tmp_path / "dashboard.json")
    [updates] = report.rows["updates"]
    assert updates["seen"] > 0
    assert len(report.rows["memory"]) == 4


def test_rolling_quantiles_are_those_of_polars_in_the_results(quick: Path) -> None:
    for folder in (quick, FOLDER):
        for path in folder.glob("rolling.json"):
            rows = [row for row in Report.read(path).rows["rows"] if row["method"] == "rolling_quantile"]
            assert len(rows) >= 4
            assert all(row["equal"] for row in rows)


def test_windows_keep_their_promise_in_the_results(quick: Path) -> None:
    for folder in (quick, FOLDER):
        for path in folder.glob("windows.json"):
            report = Report.read(path)
            for row in report.rows.get("space", []):
                assert row["error"] <= row["eps"], row
                assert row["tuples"] < row["paper_tuples"], row
                assert row["bytes"] < 1.2 * row["paper_bytes"], row  # ours have a tail and a summary for answers
            for row in report.rows.get("peers", []):
                exact = not row["method"].endswith("Window")
                assert row["error"] <= (1 / row["size"] if exact else report.settings["peer_eps"]), row


def test_windows_are_written_part_by_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for part in ("rates", "space"):
        monkeypatch.delitem(window_speed.PARTS, part)
    monkeypatch.setitem(window_speed.PARTS, "peers", lambda settings: sys.exit("killed"))
    with pytest.raises(SystemExit, match="killed"):
        main(["windows", "--quick", "--output", str(tmp_path)])
    main(["results", "--output", str(tmp_path)])
    text = (tmp_path / "windows.md").read_text()
    assert "## Queries" in text
    assert "## Peers" not in text


def test_the_readme_describes_windows_once_they_were_measured(quick: Path) -> None:
    paths = {name: FOLDER / f"{name}.json" for name in processors.SUBJECTS if name != "windows"}
    reports = {f"results/{name}": Report.read(path) for name, path in paths.items()}
    windows = Report.read(quick / "windows.json")
    text = documents.readme(reports | {"results/windows": windows})
    assert "any of the last 200,000" in text
    assert "a query over HTTP" in text
    short = Report(windows.part, windows.settings, {}, windows.about)
    assert "any of the last" not in documents.readme(reports | {"results/windows": short})


def test_the_readme_has_the_slowest_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "FOLDER", tmp_path / "results" / "processors")
    stored = {f"results/{name}": Report.read(FOLDER / f"{name}.json") for name in processors.SUBJECTS}
    for cpu, factor, note in (("B", 0.5, {}), ("A", 1.0, {}), ("old", 0.1, {"note": "an earlier version"})):
        folder = tmp_path / "results" / "processors" / cpu
        for report in stored.values():
            machine = report.about["machine"] | {"cpu": cpu, "numpy_disabled": None}
            rows = {name: [dict(row) for row in rows] for name, rows in report.rows.items()}
            for row in rows.get("rows", []) if report.part == "stream" else []:
                row["values_per_s"] *= factor
            Report(report.part, report.settings, rows, report.about | {"machine": machine} | note).write(folder)
    measured, names = processors.slowest(stored)
    assert (names, measured["results/spark"].about["machine"]["cpu"]) == (["B", "A"], "B")
    assert "on B with 2 cores" in documents.processor(stored)
    (tmp_path / "results" / "processors" / "B" / "serve.json").unlink()
    assert processors.slowest(stored)[1] == ["A"]
    (tmp_path / "results" / "processors" / "A" / "serve.json").unlink()
    assert processors.slowest(stored) == (stored, [])


def test_notes_name_their_column_and_subjects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "FOLDER", tmp_path)
    stored = [Report.read(FOLDER / f"{name}.json") for name in ("stream", "windows")]
    for disabled, noted in ((None, ["windows"]), ("X86_V4", ["stream", "windows"])):
        for report in stored:
            about = report.about | {"machine": report.about["machine"] | {"cpu": "A", "numpy_disabled": disabled}}
            note = {"note": "earlier"} if report.part in noted else {}
            Report(report.part, report.settings, report.rows, about | note).write(tmp_path / f"A{disabled}")
    date = stored[0].about["date"]
    found = [line for line in processors.page().splitlines() if line.startswith("- ")]
    assert found == [f"- A, {date} (windows): earlier", f"- A, np.sort without AVX-512, {date}: earlier"]


def test_results_of_this_processor_are_stored_in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "FOLDER", tmp_path / "processors")
    machine = environment.describe()
    for number, name in enumerate(processors.SUBJECTS):
        other = machine if number else machine | {"cpu": "another"}
        Report(name, {}, {}, {"machine": other}).write(tmp_path)
    processors.store()
    [folder] = (tmp_path / "processors").iterdir()
    assert sorted(path.stem for path in folder.iterdir()) == sorted(processors.SUBJECTS[1:])


def test_a_ring_holds_the_last_values(rng: np.random.Generator) -> None:
    ring, values = window_speed.Ring(100), rng.random(1_000)
    at = 0
    for size in (1, 99, 30, 250, 70, 100):
        ring.many(values[at : at + size])
        at += size
        assert sorted(ring.room) == sorted([*np.zeros(max(0, 100 - at)), *values[max(0, at - 100) : at]])
    ring.one(5.0)
    ring.one(4.0)
    assert ring.query() == 4.0


def test_bounds_of_the_papers() -> None:
    assert window_speed.gk_bound(0.01, 10) == 10
    assert window_speed.gk_bound(0.01, 10**6) == pytest.approx(550 * np.log2(20_000))
    assert window_speed.sliding_bound(0.1, 10**6) == 20 * 22 + np.ceil(220 * np.log2(2500))
    assert window_speed.recent_bound(0.1, 21) == sum(range(1, 22))  # 21 buckets of one value, each from its start on
    assert window_speed.recent_bound(0.1, 25) == sum(range(1, 22)) + 23 + 25
    assert window_speed.recent_bound(0.01, 10**8) < window_speed.recent_bound(0.001, 10**8)


def test_answers_of_standing_queries_hold_in_the_results(quick: Path) -> None:
    for folder in (quick, FOLDER):
        for path in folder.glob("queries.json"):
            assert all(row["holds"] for row in Report.read(path).rows["checked"])


def test_report_survives_json(quick: Path, tmp_path: Path) -> None:
    report = Report.read(quick / "fast.json")
    assert report.write(tmp_path).read_text() == (quick / "fast.json").read_text()


def test_results_contain_no_paths_or_hosts() -> None:
    text = json.dumps(environment.describe())
    assert str(Path.home()) not in text
    assert not re.search(r"(/home|/root|/work|/tmp)\b", text)


def test_committed_pages_come_from_committed_json() -> None:
    beside = {path.name: text for path, text in documents.render_all().items() if path.parent == FOLDER}
    made = RESULTS.render(FOLDER) | beside
    kept = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.*") if path.suffix != ".json"}
    assert kept == made, "run: python -m bench results"


def test_the_soak_and_the_violation_search_are_measured_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(Subject, "measure", lambda subject, name, *_: measured.append(name))
    monkeypatch.setattr(Collection, "page", lambda collection, report: ([], ""))
    main(["--quick"])
    assert "stream" in measured
    assert (
        measured
        == RESULTS.default_subjects
        == [name for name in RESULTS.subjects if name not in ("violations", "soak")]
    )
    main(["soak", "--quick"])
    assert measured[-1] == "soak"


def test_nothing_is_lost_or_doubled_in_the_results() -> None:
    for path in FOLDER.glob("soak.json"):
        report = Report.read(path)
        assert all(row["lost"] == row["doubled"] == 0 < row["stored"] for row in report.rows["sources"])
        assert all(row["stored"] == row["acknowledged"] for row in report.rows["sources"])
        assert sum(row["count"] for row in report.rows["events"]) > 10


def test_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "unknown subject 'speed'" in capsys.readouterr().err


def test_missing_peers_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "load", lambda package: None)
    main(["stream", "--quick", "--output", str(tmp_path)])
    assert "stream: datasketches is not installed, skipped" in capsys.readouterr().out
    assert "datasketches" in Report.read(tmp_path / "stream.json").about["not_installed"]
    assert "not installed, so not measured: datasketches" in (tmp_path / "stream.md").read_text()


@pytest.mark.parametrize("order", [*inputs.ORDERS, "constant"])
@pytest.mark.parametrize("eps", [0.2, 0.01, 0.001])
@pytest.mark.parametrize("batch", [1_000, None])
def test_qdigest_keeps_its_bound(order: str, eps: float, batch: int | None) -> None:
    values = inputs.make(order, "float32", 100_000)
    values[::3] *= -1
    digest = QDigest(eps, batch)
    for start in range(0, len(values), 7_777):
        digest.update(values[start : start + 7_777])
    assert inputs.rank_error(np.sort(values), PHIS, digest.quantiles(PHIS)) <= eps
    assert digest.n == len(values) == digest._counts.sum()
    assert digest.nodes <= 3 * digest.k
    assert digest._counts[digest._ids < FIRST_LEAF].max(initial=0) <= digest.n // digest.k


def test_qdigest_is_exact_while_small() -> None:
    digest = QDigest(0.01)
    digest.update(np.array([5, 1, 4, 2, 3], dtype=np.float32))
    assert digest.quantiles([0.2, 0.4, 0.6, 0.8, 1.0]).tolist() == [1, 2, 3, 4, 5]


def test_qdigest_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="empty"):
        QDigest(0.1).quantile(0.5)
    with pytest.raises(TypeError, match="float64"):
        QDigest(0.1).update(np.array([1.0]))
    with pytest.raises(ValueError, match="eps"):
        QDigest(0.0)


def test_ordinals_keep_the_order_and_come_back() -> None:
    floats = np.array([-np.inf, -2.5, -1e-40, -0.0, 0.0, 1e-40, 3.0, np.inf], dtype=np.float32)
    numbers = ordinals(floats)
    assert (np.diff(numbers.astype(np.int64)) >= 0).all()
    assert numbers[3] == numbers[4]
    np.testing.assert_array_equal(values_of(numbers), floats + np.float32(0))


@pytest.mark.parametrize("order", [*inputs.ORDERS, "constant"])
def test_exact_answers_have_no_error(order: str) -> None:
    ordered = np.sort(inputs.make(order, "float64", 999))
    ranks = inputs.targets(PHIS, 999).astype(int)
    assert inputs.rank_error(ordered, PHIS, ordered[ranks - 1]) == 0
    assert inputs.rank_error(ordered, np.array([0.5]), np.array([ordered[-1] + 1])) == pytest.approx(499 / 999)


def test_tables_are_rectangular_and_refuse_others() -> None:
    text = tables.markdown(["a", "number"], [["x", "1.5"], ["longer", "-"]])
    assert len({len(line) for line in text.splitlines()}) == 1
    assert text.splitlines()[1] == "| ------ | -----: |"
    assert tables.markdown(["number"], [["-1"], ["20"]]).splitlines()[1] == "| -----: |"
    with pytest.raises(ValueError, match="2 cells"):
        tables.markdown(["a", "b"], [["x"]])


def test_numbers_read_well() -> None:
    assert [tables.ratio(x) for x in (None, 0.853, 8.31, 120.4)] == ["-", "0.85", "8.3", "120"]
    assert [tables.size(x) for x in (None, 12, 20_500, 1_500_000)] == ["-", "12 B", "20.5 KB", "1.5 MB"]
    assert tables.size(4_900_000_000) == "4.9 GB"
    assert [tables.millions(x) for x in (250_000, 20_400_000, 158_000_000)] == ["0.25", "20.4", "158"]
    assert [tables.power(x) for x in (10**9, 2_000_000, 100)] == ["10^9", "2,000,000", "100"]


def curve(*points: tuple[float, float], panel: str = "t", name: str = "one", linear: bool = False) -> plots.Curve:
    return plots.Curve(panel, "x", "y", name, 0, points, linear=linear)


def test_plot_is_a_picture() -> None:
    text = plots.figure([curve((1e6, 0.01), (1e7, 0.1), name="ours & theirs")], "a < b")
    assert text.startswith("<svg")
    assert "a &lt; b" in text
    assert "ours &amp; theirs" in text
    assert "nan" not in text


def test_a_linear_axis_begins_at_zero() -> None:
    text = plots.figure([curve((3, 0.0), (40, 12.0), (100, 50.0), linear=True)], "linear")
    for label in (3, 40, 100):
        assert f'text-anchor="middle">{label}<' in text
    for label in (0, 10, 50):
        assert f'text-anchor="end">{label}<' in text


def test_labels_of_an_axis_do_not_overlap() -> None:
    text = plots.figure([curve(*((x, 1.0) for x in (10_000, 10_001, 20_000)))], "close")
    assert ">10k<" in text
    assert ">20k<" in text
    assert ">10.001k<" not in text


def test_panels_fill_rows_and_then_begin_another() -> None:
    text = plots.figure([curve((1_000, 1.0), (20_000, 2.0), panel=panel) for panel in "abc"], "three", columns=2)
    moved = re.findall(r"<g transform=\"translate\((\d+),(\d+)\)", text)
    assert [(int(x), int(y)) for x, y in moved] == [(0, 0), (plots.WIDTH, 0), (0, plots.HEIGHT)]
    assert ">20k<" in text


def test_evidence_runs_everything_and_names_failures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run two parts in processes of their own; one part names an unknown subject."""
    subjects = {"keys": RESULTS.subjects["keys"], "speed": RESULTS.subjects["keys"]}
    monkeypatch.setattr(evidence, "FOLDER", tmp_path)
    monkeypatch.setattr(evidence, "COLLECTIONS", (replace(RESULTS, subjects=subjects),))
    monkeypatch.setattr(evidence, "LOGS", processes.ROOT / "build" / "evidence-of-a-test")
    monkeypatch.setattr(evidence, "FLAGS", {False: ["--quick"]})
    assert evidence.main([]) == 1
    rows = Report.read(tmp_path / "evidence.json").rows["parts"]
    assert [(row["part"], row["done"]) for row in rows] == [("keys", True), ("speed", False)]
    assert "FAILED" in (tmp_path / "evidence.md").read_text()
    assert "FAILED after" in capsys.readouterr().out
    assert "unknown subject 'speed'" in (evidence.LOGS / "benchmarks-speed.log").read_text()
    shutil.rmtree(evidence.LOGS)


def test_a_template_formats_missing_values_as_dashes() -> None:
    rows: list[Row] = [{"a": 1_000, "b": None}, {"a": 2.0}]
    text = rendering.table(rows, "first: a|n; second: b|ratio; first again: a|f('.1f')")
    assert [line.split("|")[2].strip() for line in text.splitlines()[2:]] == ["-", "-"]
    assert "1,000" in text
    assert "2.0" in text


def test_methods_of_every_installed_peer_promise_what_they_state() -> None:
    assert competitors.stream(0.01).promise() == {"guarantee": "certified", "guaranteed_error": 0.01}


def test_pure_streaming_puts_files_together_as_runs_are_merged(tmp_path: Path) -> None:
    plain = PureStreaming(tmp_path, 0.01)
    for step in range(4):
        plain.write(step, np.arange(3.0) + 10 * step)
    plain.put_together({0, 2, 3})
    files = {path.name: pq.read_table(path)["value"].to_pylist() for path in tmp_path.iterdir()}
    assert files.pop("plain-0.parquet") == [0, 1, 2, 10, 11, 12]
    assert files == {"plain-2.parquet": [20, 21, 22], "plain-3.parquet": [30, 31, 32]}
    plain.put_together({0, 3})
    assert pq.read_table(tmp_path / "plain-0.parquet")["value"].to_pylist() == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert {path.name for path in tmp_path.iterdir()} == {"plain-0.parquet", "plain-3.parquet"}


def test_loading_is_divided_by_pure_streaming() -> None:
    row = {"plain": 1.0, "concatenation": 2.0, "digest": 3.0, "sketch": 1.0, "append": 4.0, "end": 8.0}
    assert pure_ratios([row, row]) == {"digest": 2.0, "sketch": 3.0}
    assert pure_ratios([]) == {}
