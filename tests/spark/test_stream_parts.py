"""Parts of a stream that run without Spark: row reader, step clock, ingest log, choice of the checkpoint."""

import io
import math
import os
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, StructField, StructType

from quantide.config import Source, Step, StreamConfig, read_config
from quantide.errors import CheckpointError, ConfigError, CorruptBytesError
from quantide.spark.sql_expressions import columns_of, plain_name, replace_casts
from quantide.spark.stream import file_layouts
from quantide.spark.stream.column_selection import READ_ERROR, VALUE, ColumnSelection
from quantide.spark.stream.file_layouts import check_schema
from quantide.spark.stream.row_origin import COLUMN, CORRUPT, LINE, REASON, SOURCE_FILE
from quantide.spark.stream.row_reader import CLOCKS, RowRules, cast_rows, read_rows, to_seconds
from quantide.spark.stream.spark_checkpoint import choose_checkpoint
from quantide.spark.stream.step_clock import StepClock
from quantide.spark.stream.stream_status import StatusBoard, StreamStatus
from quantide.store import ingest_log as ingest_logs
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import QUARANTINED, RETRY, WAITING, BatchRecord, FileRecord, IngestedFile, IngestLog
from tests.spark.streams import Feed

HOUR = 3600
TOO_FAR = "the time is outside the years 1678 to 2261, which nanoseconds cannot count"
Committed = set[tuple[str, int]]
BAD = "retry-0-0-0.parquet"  # a file of the quarantine


def stream(folder: Path, **changed: Any) -> StreamConfig:
    return replace(StreamConfig("s", str(folder), Source("parquet", "in"), "v"), **changed)


# Expressions


@pytest.mark.parametrize(
    ("text", "plain", "columns"),
    [
        ("ms", "ms", ["ms"]),
        (" `a b` ", "a b", ["a b"]),
        ("`a``b`", "a`b", ["a`b"]),
        ("true", None, []),
        ("ms / 1000", None, ["ms"]),
        ("CASE WHEN status = 200 THEN ms END", None, ["ms", "status"]),
        ("a.b + 1", None, ["a"]),
        ("nothing (", None, None),
    ],
)
def test_what_an_expression_uses(text: str, plain: str | None, columns: list[str] | None) -> None:
    assert plain_name(text) == plain
    used = columns_of(text)
    assert (None if used is None else sorted(used)) == columns


def test_casts_that_can_fail_are_listed() -> None:
    tried, failed = replace_casts("abs(cast(concat(a, 'CAST(') AS decimal(9, 2))) + CAST(CAST(b AS STRING) AS INT)")
    assert tried == "abs(TRY_CAST(concat(a, 'CAST(') AS decimal(9, 2))) + TRY_CAST(TRY_CAST(b AS STRING) AS INT)"
    assert failed[0] == ("((concat(a, 'CAST(')) IS NOT NULL AND TRY_CAST(concat(a, 'CAST(') AS decimal(9, 2)) IS NULL)")
    assert len(failed) == 3
    assert replace_casts("a + 1") == ("a + 1", [])


# Rows


def rules(**changed: Any) -> RowRules:
    selection = ColumnSelection(
        "v",
        changed.pop("time", None),
        changed.get("keys", ()),
        changed.pop("filters", ()),
        "UTC",
        changed.pop("weight", None),
    )
    usual: dict[str, Any] = {
        "keys": (),
        "key_types": (),
        "value_type": "float64",
        "nan": "refuse",
        "clock": "timestamp",
    }
    return RowRules(selection, **(usual | changed))


def test_bad_rows_are_separated_with_their_reasons() -> None:
    table = pa.table({"v": [" 1.5", "x", None, "2", "nan"], "k": ["1", "2", "3", "four", "5"], "more": range(5)})
    good, bad = read_rows(table, rules(keys=("k",), key_types=(pa.int64(),)))
    assert good.value.to_pylist() == [1.5, None]
    assert good.keys[0].to_pylist() == [1, 3]
    assert bad is not None
    assert bad["v"].to_pylist() == ["x", "2", "nan"], "as they came"
    assert bad[REASON].to_pylist() == ["the value is not float64", "the key k is not int64", "the value is nan"]
    assert bad[COLUMN].to_pylist() == ["v", "k", "v"]
    assert bad[LINE].to_pylist() == [2, 4, 5]


def test_rows_of_the_quarantine_keep_their_reasons() -> None:
    """A line that only the first reading could explain, one that was never explained, and one that is good now."""
    rows = {"v": [None, None, 2.0], CORRUPT: ["a,b", "?", None], SOURCE_FILE: ["/in/a.csv"] * 3, LINE: [7, 8, 9]}
    reasons = {REASON: ["the line has fewer columns", None, "the value is nan"], COLUMN: ["v", None, "v"]}
    good, bad = read_rows(pa.table(rows | reasons), rules())
    assert good.value.to_pylist() == [2.0]
    assert bad is not None
    assert bad[REASON].to_pylist() == ["the line has fewer columns", "Spark cannot read this line"]
    assert bad[COLUMN].to_pylist() == ["v", None]
    assert (bad[LINE].to_pylist(), bad[SOURCE_FILE].to_pylist()) == ([7, 8], ["/in/a.csv"] * 2)


@pytest.mark.parametrize(
    ("weights", "expected", "wrong"),
    [
        (pa.array([2, 0, 3, -1, None]), [2, 0, 3], 1),
        (pa.array([2.0, 0.5, math.nan, math.inf, 1e300]), [2], 4),
        (pa.array(["2", " 7 ", "x", "1.5", None]), [2, 7], 2),
        (pa.array([2**20, 2**20 + 1, 2**63, 1, 1], pa.uint64()), [2**20, 1, 1], 2),
        (pa.array([True, False, None, True, True]), [], 4),
        (pa.array([1, 2, 3, 4, 5], pa.duration("s")), [], 5),
        (pa.array([[1], [2], [3], [4], [5]]), [], 5),
        (pa.array([Decimal("1"), Decimal("2.5"), None, Decimal("3"), Decimal("0")]), [1, 3, 0], 1),
    ],
)
def test_bad_weights_are_bad_rows(weights: Any, expected: list[int], wrong: int) -> None:
    table = pa.table({"v": np.arange(5.0), "w": weights, "t": range(5)})
    good, bad = read_rows(table, rules(weight="w", time="t", clock="seconds"))
    assert good.weights is not None
    assert (good.weights.to_pylist(), good.stored) == (expected, sum(expected))
    assert bad is not None
    reasons = bad[REASON].to_pylist()
    assert reasons.count("the weight is no whole number from 0 to 1,048,576") == wrong
    assert reasons.count("the row has no weight") == weights.null_count == 5 - len(expected) - wrong
    assert set(bad[COLUMN].to_pylist()) == {"w"}
    if good.stored < 100:
        parts = list(good.repeated(3))
        values = [value for part in parts for value in part.value.to_pylist()]
        assert values == np.repeat(good.value.to_numpy(), expected).tolist()
        for part in parts:
            assert part.time is not None
            assert (part.weights, part.time.to_pylist()) == (None, part.value.to_pylist())
            assert len(part) <= 3


@pytest.mark.parametrize(
    ("column", "clock", "reasons"),
    [
        (pa.array([1, None, 3]), "seconds", [None, "the row has no time", None]),
        (pa.array([1.5, math.nan]), "seconds", [None, "the time is not finite"]),
        (pa.array(["2026-01-01"]), "seconds", ["the time is no seconds"]),
        (pa.array([5]), "timestamp", ["the time is no timestamp, but int64"]),
        (pa.array([0], pa.date32()), "timestamp", [None]),
        (pa.array([0, 2**62], pa.timestamp("ms")), "timestamp", [None, TOO_FAR]),
        (pa.array(["0001-01-01T00:00:00Z", "2026-01-01T00:00:00"]), "timestamp", [TOO_FAR, None]),
        (pa.array([0], pa.timestamp("us", "Europe/Paris")), "timestamp", [None]),
    ],
)
def test_times_of_every_kind(column: Any, clock: str, reasons: list[str | None]) -> None:
    good, bad = read_rows(pa.table({"v": np.ones(len(column)), "t": column}), rules(time="t", clock=clock))
    bad_reasons = [] if bad is None else bad[REASON].to_pylist()
    assert bad_reasons == [reason for reason in reasons if reason is not None]
    assert good.time is not None
    assert good.time.type == CLOCKS[clock]
    assert len(good.time) == reasons.count(None)


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        (pa.array([1_700_000_000_500, None]), "ms"),
        (pa.array([1_700_000_000.5e3, None]), "ms"),
        (pa.array([1_700_000_000_500_000, None]), "us"),
        (pa.array([1_700_000_000_500_000_000, None]), "ns"),
    ],
)
def test_units_of_times(column: Any, unit: str) -> None:
    """Times in another unit than seconds are refused with the name of that unit, and read once it is set."""
    assert to_seconds(column, unit).to_pylist() == [1_700_000_000.5, None]
    table = pa.table({"v": [1.0, 2.0, 3.0], "t": pa.concat_arrays([column, pa.array([5], column.type)])})
    good, bad = read_rows(table, rules(time="t", clock="seconds"))
    assert good.value.to_pylist() == [3.0]
    assert bad is not None
    assert f'since 1970, read as seconds; set time_unit = "{unit}"' in bad[REASON].to_pylist()[0]
    assert bad[COLUMN].to_pylist() == ["t", "t"]
    good, bad = read_rows(table, rules(time="t", clock="seconds", time_unit=unit))
    assert good.time is not None
    assert good.time.to_pylist()[0] == 1_700_000_000.5
    assert bad is not None
    assert bad[REASON].to_pylist() == ["the row has no time"]
    good, _ = read_rows(table, rules(time="t", clock="seconds", time_unit="s"))
    assert len(good) == (1 if unit == "ns" else 2), "seconds that are set are seconds, where float64 has them"


def test_numbers_that_spark_reads_as_seconds() -> None:
    """JSON with `ts TIMESTAMP` and milliseconds: Spark makes timestamps of the year 55,841."""
    stamps = pa.array([1_700_000_000_000 * 10**6, 1_700_000_000 * 10**6], pa.timestamp("us", "UTC"))
    good, bad = read_rows(pa.table({"v": [1.0, 2.0], "t": stamps}), rules(time="t"))
    assert good.value.to_pylist() == [2.0]
    assert bad is not None
    assert (
        bad[REASON]
        .to_pylist()[0]
        .endswith('declare the column as BIGINT and set time_unit = "ms", then run `quantide quarantine retry`')
    )


def test_what_spark_computed_and_could_not() -> None:
    table = pa.table({"v": ["1", "x"], VALUE: [1.0, None], READ_ERROR: pa.array([None, "a CAST failed"])})
    good, bad = read_rows(table, rules())
    assert good.value.to_pylist() == [1.0]
    assert bad is not None
    assert bad.select(["v", REASON]).to_pylist() == [{"v": "x", REASON: "a CAST failed"}]


def test_times_and_filters_go_with_their_rows() -> None:
    times = ["2026-01-01T00:00:00", "soon", None, "2026-01-01T02:00:00+01:00"]
    table = pa.table({"V": [1, 2, 3, 4], "t": times, "status": [200, 500, 500, 501]})
    row_rules = rules(time="t", filters=(("errors", "status >= 500"), ("none", "other = 1")), track_newest=True)
    good, bad = read_rows(table, row_rules)
    assert good.value.to_pylist() == [1.0, 4.0]
    assert [column.to_pylist() for column in good.filters] == [[False, True], [False, False]]
    assert good.time is not None
    assert len(good.time) == 2
    assert good.newest == np.datetime64("2026-01-01T01:00:00").astype(int)
    assert bad is not None
    assert bad[REASON].to_pylist() == ["the time cannot be read", "the row has no time"]
    late, _ = read_rows(table, replace(row_rules, late_before=np.datetime64("2026-01-01T00:59:00").astype(int)))
    assert late.value.to_pylist() == [4.0]


@pytest.mark.parametrize(
    ("column", "kind", "cast", "failed"),
    [
        (pa.array([1, 2], pa.int32()), pa.float64(), [1.0, 2.0], None),
        (pa.array([2**60 + 1, 2]), pa.float64(), [None, 2.0], [True, False]),
        (pa.array([1.5, 2.0, None]), pa.int64(), [None, 2, None], [True, False, False]),
        (pa.array([[1], None]), pa.float64(), [None, None], [True, False]),
        (pa.array(["1", "?", "?", "4"] * 100), pa.int64(), [1, None, None, 4] * 100, [False, True, True, False] * 100),
        (pa.array(["inf", "-0"]), pa.float64(), [math.inf, 0.0], None),
    ],
)
def test_casts_row_by_row(column: Any, kind: Any, cast: list[Any], failed: list[bool] | None) -> None:
    out, where = cast_rows(pa.chunked_array([column]), kind)
    assert out.to_pylist() == cast
    assert (None if where is None else where.tolist()) == failed


# Steps


def test_steps_end_with_the_hour() -> None:
    clock = StepClock(Step(Fraction(HOUR)), None, 7, 10 * HOUR + 5)
    assert clock.due(7, 100, 11 * HOUR - 1, 0) == 0
    assert clock.due(7, 0, 11 * HOUR, 0) == 1
    assert clock.due(8, 0, 11 * HOUR + 5, 0) == 0
    assert clock.due(8, 0, 9 * HOUR, 0) == 0, "a clock that was set back ends nothing"
    again = StepClock(Step(Fraction(HOUR)), clock.origin, 8, 20 * HOUR)
    assert again.due(8, 0, 20 * HOUR, 0) == 9, "hours in which nothing ran are steps too"
    other = StepClock(Step(Fraction(60)), clock.origin, 8, 20 * HOUR)
    assert other.due(8, 0, 20 * HOUR + 61, 0) == 1, "another length begins anew"


def test_steps_end_with_enough_rows() -> None:
    clock = StepClock(Step(None, 100), None, 1, 0.0)
    assert [clock.due(1, rows, 1e9, 1e9) for rows in (0, 99, 100, 1000)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("column", "advice"), [("m", "Did you mean 'ms'? Correct"), ("latency", "there are ts, ms. Correct")]
)
def test_advice_follows_a_reason(column: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason that ends with a question has no other mark after it."""
    names = StructType([StructField(name, DoubleType()) for name in ("ts", "ms")])
    monkeypatch.setattr(file_layouts, "parse_schema", lambda ddl: names)
    feed = Feed(tmp_path, f'value = "{column}"', 'format = "csv", schema = "ts DOUBLE, ms DOUBLE"')
    stream = read_config(feed.config).streams["s"]
    with pytest.raises(ConfigError) as raised:
        check_schema(stream, ColumnSelection.of(stream, "UTC"))
    assert advice in str(raised.value)
    assert "?;" not in str(raised.value)


# The ingest log


def opened(folder: Path, committed: Committed) -> IngestLog:
    return IngestLog(
        FolderStorage(str(folder)), lambda batch: any(s == batch[0] and n >= batch[1] for s, n in committed)
    )


def test_records_count_when_their_batch_does(tmp_path: Path) -> None:
    committed: Committed = set()
    ingest_log = opened(tmp_path, committed)
    one, two, three = (IngestedFile(f"/in/{i}", i, 1000 + i) for i in range(3))
    first = ingest_log.write(
        BatchRecord("c0", 0, rows=5, types={"v": "double"}, entries=(FileRecord(one), FileRecord(two, WAITING, "?")))
    )
    assert opened(tmp_path, committed).last == {}, "not committed: garbage"
    committed.add(("c0", 0))
    ingest_log.mark_committed(first)
    retried = ingest_log.write(
        BatchRecord(RETRY, 0, rows=2, bad=1, held=(BAD,), entries=(FileRecord(replace(two, size=9)),))
    )
    committed.add((RETRY, 0))
    ingest_log.mark_committed(retried)
    quarantined = ingest_log.write(
        BatchRecord("c0", 1, entries=(FileRecord(three, QUARANTINED, "no"),), newest=3.0, offsets="{}")
    )
    committed.add(("c0", 1))
    ingest_log.mark_committed(quarantined)
    ingest_log.write(BatchRecord("c0", 2, rows=1000))
    for reopened in (ingest_log, opened(tmp_path, committed)):
        assert (reopened.rows, reopened.bad, reopened.last) == (7, 1, {"c0": 1, RETRY: 0})
        assert (reopened.waiting, list(reopened.quarantined_files), list(reopened.quarantined_rows)) == (
            {},
            ["/in/2"],
            [BAD],
        )
        assert (reopened.types, reopened.newest, reopened.offsets) == ({"v": "double"}, 3.0, "{}")
        assert reopened.has_file(replace(two, size=9), "c0")
        assert not reopened.has_file(two, "c0")
    reopened = opened(tmp_path, committed)
    assert reopened.has_file(one, "c1")
    assert not reopened.has_file(one, "c0"), "Spark itself remembers the files of its checkpoint"
    assert ingest_log.ingested == {"/in/0": one, "/in/1": replace(two, size=9)}
    assert reopened.quarantine_settings == {"/in/2": ""}
    reopened.clean()
    assert sorted(os.listdir(tmp_path / "_quantide/sources")) == ["c0-0.jsonl", "c0-1.jsonl", "retry-0.jsonl"]


def test_rows_that_are_tried_again_are_counted_once(tmp_path: Path) -> None:
    """Only rows that failed again are bad, once a retry settled all files of the quarantine."""
    names = [f"c0-{number}-0-0.parquet" for number in range(3)]
    committed = {("c0", 0), ("c0", 1), (RETRY, 0)}
    ledger = opened(tmp_path, committed)
    for number in range(2):
        ledger.mark_committed(ledger.write(BatchRecord("c0", number, rows=9, bad=4, ahead=2, held=(names[number],))))
    assert (ledger.bad, ledger.ahead) == (8, 4)
    retried = BatchRecord(RETRY, 0, rows=5, bad=3, ahead=1, held=(names[2],), settled=tuple(names[:2]))
    ledger.mark_committed(ledger.write(retried))
    for found in (ledger, opened(tmp_path, committed)):
        assert (found.rows, found.bad, found.ahead, list(found.quarantined_rows)) == (23, 3, 1, [names[2]])


def test_many_records_become_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_logs, "FOLD", 4)
    committed: Committed = set()
    ingest_log = opened(tmp_path, committed)
    for number in range(10):
        record = ingest_log.write(
            BatchRecord("c0", number, rows=1, entries=(FileRecord(IngestedFile(f"/{number}", 1, 1)),))
        )
        committed.add(("c0", number))
        ingest_log.mark_committed(record)
    place = tmp_path / "_quantide/sources"
    assert sorted(os.listdir(place)) == ["c0-0-3.jsonl", "c0-4-7.jsonl", "c0-8.jsonl", "c0-9.jsonl"]
    (place / "c0-8-9.jsonl").write_bytes((place / "c0-8.jsonl").read_bytes() + (place / "c0-9.jsonl").read_bytes())
    reopened = opened(tmp_path, committed)
    assert (reopened.rows, reopened.last) == (10, {"c0": 9}), "an interrupted fold counts nothing twice"
    assert all(reopened.has_file(IngestedFile(f"/{number}", 1, 1), "c1") for number in range(10))
    (place / "c0-8.jsonl").write_text("{")
    with pytest.raises(CorruptBytesError, match=r"c0-8\.jsonl is damaged"):
        opened(tmp_path, committed)


# Checkpoints


def test_a_checkpoint_that_is_lost_or_old_is_refused(tmp_path: Path) -> None:
    ingest_log = opened(tmp_path, set())
    files, rate, storage = stream(tmp_path), stream(tmp_path, source=Source("rate")), FolderStorage(str(tmp_path))
    assert choose_checkpoint(files, storage, ingest_log, False, False) == "c0"
    ingest_log.last = {"c0": 3}
    with pytest.raises(CheckpointError, match=r"streams\.s: .*c0 is lost.*4 of its batches.*--reset.*are skipped"):
        choose_checkpoint(files, storage, ingest_log, False, False)
    offsets = tmp_path / "_quantide/checkpoints/c0/offsets"
    offsets.mkdir(parents=True)
    (offsets / "2").touch()
    with pytest.raises(CheckpointError, match="older than the store"):
        choose_checkpoint(files, storage, ingest_log, False, False)
    (offsets / "3").touch()
    with pytest.raises(CheckpointError, match="damaged"):  # torn, as after a power loss
        choose_checkpoint(files, storage, ingest_log, False, False)
    (offsets / "3").write_text("v1\n{}\n")
    assert choose_checkpoint(files, storage, ingest_log, False, False) == "c0"
    assert choose_checkpoint(files, storage, ingest_log, True, False) == "c1"
    with pytest.raises(CheckpointError, match="--allow-duplicates"):
        choose_checkpoint(rate, storage, ingest_log, True, False)
    assert choose_checkpoint(rate, storage, ingest_log, True, True) == "c1"
    (tmp_path / "_quantide/checkpoints/c1").mkdir()
    assert choose_checkpoint(files, storage, ingest_log, False, False) == "c1", "an interrupted reset continues"
    assert not offsets.exists()


# What is shown


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_before_the_first_batch_has_no_zeros_that_look_healthy() -> None:
    status = StreamStatus("latency", 1000, 0)
    status.stats = {"steps": 3, "runs": 1, "chunks": 2}
    status.waiting_files = 4
    assert (
        squeezed_line(status) == "latency waiting for the first batch 4 files waiting 1,000 rows 3 steps 1 run 2 chunks"
    )
    status.running = False
    assert squeezed_line(status).startswith("latency no new batch 4 files waiting")
    status.add_batch(BatchRecord("c0", 3, rows=5), 0.25)
    assert "rows/s" in squeezed_line(status)
    assert "batch 250 ms" in squeezed_line(status)


def squeezed_line(status: StreamStatus) -> str:
    return " ".join(status.to_line().split())


def test_a_line_a_stream_drawn_over_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    status = StreamStatus("latency", 1000, 0)
    status.add_batch(BatchRecord("c0", 3, rows=500, bad=2, entries=(FileRecord(IngestedFile("/in/a", 1, 0)),)), 0.25)
    status.waiting_files, status.quarantined_files, status.last_error = 3, 1, "the disk is full"
    line = status.to_line()
    for part in (
        "rows/s",
        "batch    250 ms",
        "1,500 rows",
        "2 bad",
        "3 files waiting",
        "1 file in quarantine",
        "the disk",
    ):
        assert part in line
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(status, "to_line", lambda: line)  # its rate is another a moment later
    screen, paper = Screen(), io.StringIO()
    for out in (screen, paper):
        board = StatusBoard(out)
        for last in (False, True):
            board.show([status, status], last)
    assert screen.getvalue().count("\x1b[2A") == 1
    assert max(len(shown.replace("\x1b[K", "").replace("\x1b[2A", "")) for shown in screen.getvalue().split("\n")) < 40
    assert paper.getvalue() == f"{line}\n{line}\n", "where there is no terminal, now and then, and at the end"
