"""Characterization runs, its pages are what its JSON says, and what is stated holds. Nothing is timed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import Report
from characterization import growth, memory, pages, spark, spark_lakes
from characterization.__main__ import main
from characterization.spark_bound import stated
from characterization.spark_task import Task
from characterization.subjects import SUBJECTS
from quantide.spark.partials import ROWS

ROOT = Path(__file__).parent.parent
COMMITTED = sorted(pages.FOLDER.glob("*.json"))


@pytest.mark.slow
def test_quick_run_writes_everything(tmp_path: Path) -> None:
    """In a process of its own: other tests share a Spark session in this one."""
    command = [sys.executable, "-m", "characterization", "--quick", "--output", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert {path.name for path in tmp_path.glob("*.json")} == {f"{name}.json" for name in SUBJECTS}
    assert {path.name: path.read_text() for path in tmp_path.glob("*.*") if path.suffix != ".json"} == pages.render(
        tmp_path
    )


def test_committed_pages_come_from_committed_json() -> None:
    made = pages.render(pages.FOLDER)
    kept = {path.name: path.read_text(encoding="utf-8") for path in pages.FOLDER.glob("*.*") if path.suffix != ".json"}
    assert kept == made, "run: python -m characterization results"


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_results_tell_no_paths(path: Path) -> None:
    assert not re.search(r"(/home|/root|/work|/tmp)\b", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_report_survives_json(path: Path, tmp_path: Path) -> None:
    assert Report.read(path).write(tmp_path).read_text() == path.read_text()


def test_stated_memory_holds_in_the_results() -> None:
    rows = Report.read(pages.FOLDER / "spark.json").rows
    for row in (*rows["rows"], *rows["keys"], *rows["tasks"]):
        assert row["peak"] <= row["stated"], row
    for row in rows["keys"]:
        assert row["merge_peak"] <= row["merge_stated"], row


def test_unknown_subject_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "unknown subject 'speed'" in capsys.readouterr().err


def test_results_alone_measures_nothing(tmp_path: Path) -> None:
    main(["results", "--output", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_tasks_of_every_kind_run_without_spark(tmp_path: Path) -> None:
    lab = spark.Lab(tmp_path, spark.QUICK)
    rows = list(lab.tasks())
    assert [(row["kind"], row["rows"]) for row in rows] == [
        (kind.name, n) for kind in lab.kinds() for n in spark.QUICK.tasks
    ]
    assert all(row["left"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_task_and_its_merge_in_fresh_processes(tmp_path: Path) -> None:
    paths = spark_lakes.write(tmp_path / "lake", rows=20_000, files=2, keys=100, values=0, group=1_000)
    parts = str(tmp_path / "parts")
    found = Task(tuple(paths), 100, 0.01, cores=2, parts=parts).measure()
    merged = Task(tuple(paths), 100, 0.01, cores=2, parts=parts, merge=True).measure()
    assert found["tasks"] == merged["tasks"] == 1
    assert 0 < found["left"] <= merged["came"]


def test_lakes_are_the_same_every_time(tmp_path: Path) -> None:
    for values in (0, 16):
        one, other = (
            spark_lakes.write(tmp_path / f"{values}-{i}", rows=1_001, files=2, keys=3, values=values, group=100)
            for i in range(2)
        )
        assert [Path(path).read_bytes() for path in one] == [Path(path).read_bytes() for path in other]


def test_peak_sees_what_was_held_and_given_back() -> None:
    held = 64 << 20
    peak = memory.peak_of(lambda: len(b"x" * held))
    assert peak.result == held
    assert held * 0.9 <= peak.more <= held * 1.5


def test_stated_memory_grows_with_what_is_read_at_once(tmp_path: Path) -> None:
    paths = spark_lakes.write(tmp_path / "lake", rows=3_000, files=1, keys=10, values=0, group=1_000)
    one, three = (list(Task(tuple(paths), 10, 0.01, cores=2, groups=groups).tables()) for groups in (1, 3))
    assert [len(table) for table in (*one, *three)] == [1_000, 3_000]
    assert stated(one, 10, 0.01) < stated(three, 10, 0.01)
    assert stated(one, 0, 0.01) < stated(three, 0, 0.01)
    enough = three * (ROWS // 3_000 + 1)
    eight = stated(enough * 8, 1_000_000, 0.01)
    assert eight > 3 * stated(enough * 7, 1_000_000, 0.01)  # the eighth makes them be merged


def test_exponents_of_powers() -> None:
    points = [(x, 3.0 * x**1.5) for x in (1.0, 10.0, 1e6)]
    assert growth.exponent(points) == pytest.approx(1.5)
    assert growth.last_exponent([*points, (1e7, 3.0 * 1e9)]) == pytest.approx(0)
    assert growth.last_step([(1.0, 5.0), (4.0, 10.0), (8.0, 12.0)]) == 0.5
    with pytest.raises(ValueError, match="two different places"):
        growth.exponent(points[:1])
