"""Rows dated in the future, in ingestion: they go into quarantine, and harm no other row."""

from __future__ import annotations

import io
import time
from collections import deque
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.config import read_config
from quantide.errors import ConfigError, StreamError, TypeMismatchError
from quantide.live import LiveStream
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.quarantine import retry
from quantide.spark.stream.row_origin import REASON
from quantide.spark.stream.row_reader import RowRules, read_rows
from quantide.spark.stream.step_clock import reference_time
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import BatchRecord, IngestLog
from quantide.windows.time_clock import TimeHorizon
from quantide.windows.wall_clock import VARIABLE
from tests.spark.streams import Feed

HOUR = Fraction(3600)
NOW = 1_800_000_000 * 10**9
TEXTS = ("2027-01-15T08:00", "2027-01-15T08:59", "2027-01-15T09:01", "1970-01-01T00:00", "2090-01-01T00:00")


def rules(clock: str, **more: Any) -> RowRules:
    return RowRules(ColumnSelection("v", "t", (), (), "UTC"), (), (), "float64", "refuse", clock, True, **more)


@pytest.mark.parametrize(
    ("times", "clock"),
    [
        (pa.array([1.8e9, 1.8e9 + 3599, 1.8e9 + 3601, 5.0, 1e300]), "seconds"),
        (pa.array([1_800_000_000, 1_800_003_599, 1_800_003_601, -5, 2**53]), "seconds"),
        (
            pa.array([1_800_000_000, 1_800_003_599, 1_800_003_601, -5, 9_000_000_000]).cast(pa.timestamp("s", "UTC")),
            "timestamp",
        ),
        (
            pa.array([f"{text}:00Z" for text in TEXTS]),
            "timestamp",
        ),
    ],
)
def test_rows_that_are_ahead(times: Any, clock: str) -> None:
    row_rules = rules(clock, horizon=TimeHorizon(NOW, HOUR))
    good, bad = read_rows(pa.table({"v": np.arange(5.0), "t": times}), row_rules)
    assert good.value.to_pylist() == [0.0, 1.0, 3.0]
    assert good.newest is not None
    assert 1_800_003_540 <= good.newest < 1_800_003_600  # one that is ahead does not make others late
    assert bad is not None
    assert bad["v"].to_pylist() == [2.0, 4.0]
    assert set(bad[REASON].to_pylist()) == {"the time is ahead of this machine's clock by more than max_ahead, 1 h"}
    every, none = read_rows(pa.table({"v": np.arange(5.0), "t": times}), rules(clock))
    assert (len(every), none) == (5, None)


def log_of(*times: tuple[float, float]) -> Any:
    ingest_log = IngestLog.__new__(IngestLog)
    ingest_log.newest_times = deque(times)
    return ingest_log


def test_the_time_that_late_rows_are_compared_with() -> None:
    day = 86_400.0
    good = [(i * day, i * day - 5) for i in range(1, 21)]
    assert reference_time(log_of(), HOUR, 0.0) is None
    assert reference_time(log_of(), None, 0.0) is None
    assert reference_time(log_of(*good), HOUR, 20 * day) == 20 * day - 5
    wrong = (10 * day, 1e12)  # as 0.1 has recorded it
    assert reference_time(log_of(*good, wrong), HOUR, 20 * day) == 20 * day - 5
    assert reference_time(log_of((day, day + 3000)), HOUR, day + 10) == day + 10  # not late by the clock either
    assert reference_time(log_of(wrong), HOUR, 20 * day) is None
    for at in range(0, 20, 5):  # without a clock: a few wrong batches do not move it
        some = list(good)
        for one in range(at, min(at + 4, 20)):
            some[one] = (0.0, 1e12)
        reference = reference_time(log_of(*some), None, 0.0)
        assert reference is not None
        assert 11 * day - 5 <= reference <= 20 * day


def test_an_ingest_log_remembers_the_newest_times(tmp_path: Path) -> None:
    ingest_log = IngestLog(FolderStorage(str(tmp_path)), lambda _: True)
    for number, newest in enumerate([5.0, None, 9e9, 7.0]):
        record = BatchRecord("c0", number, at=float(number), newest=newest, bad=2, ahead=1)
        ingest_log.mark_committed(ingest_log.write(record))
    reopened = IngestLog(FolderStorage(str(tmp_path)), lambda _: True)
    assert list(reopened.newest_times) == list(ingest_log.newest_times) == [(0.0, 5.0), (2.0, 9e9), (3.0, 7.0)]
    assert (reopened.ahead, reopened.bad) == (4, 8)


def test_the_key_of_a_configuration(tmp_path: Path) -> None:
    def read(line: str) -> str | None:
        path = tmp_path / "q.toml"
        text = 'store = "data"\n[streams.s]\nsource = { format = "parquet", path = "in" }\nvalue = "v"\n'
        path.write_text(text + line)
        return read_config(path).streams["s"].max_ahead

    assert [read(line) for line in ("", 'max_ahead = "2 hours"', "max_ahead = 60", 'max_ahead = "off"')] == [
        None,
        "7200",
        "60",
        "off",
    ]
    for wrong in ('"soon"', "0", "true", "[]"):
        with pytest.raises(ConfigError, match=r"streams\.s\.max_ahead is .*Write it as max_ahead = \"1 hour\", or"):
            read(f"max_ahead = {wrong}")


def write(feed: Feed, name: str, values: Any, times: Any) -> None:
    stamps = pa.array((np.asarray(times) * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"v": np.asarray(values, dtype=float), "t": stamps}), feed.incoming / f"{name}.parquet")


def test_a_row_of_2090_in_a_stream(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is quarantined with its reason; windows end now, and no good row is late or dropped."""
    now = time.time()
    feed = Feed(tmp_path, 'time = "t"\nlate = "quarantine"\nlate_after = "5 min"')
    monkeypatch.setattr("quantide.store.recent_manifest.MIN_LATER_ROWS", 100)
    values, times = np.arange(3000.0), now - 600 + np.arange(3000) / 10
    write(feed, "0", values[:2000], times[:2000])
    feed.ingest()
    write(feed, "1", [1e9], [3_786_912_000.0])
    assert "1 bad, 1 ahead of the clock" in feed.ingest()
    write(feed, "2", values[2000:], times[2000:])
    feed.ingest()
    live = LiveStream(feed.store, follow=False)
    assert (live.n, live.clock_problem) == (3000, None)
    answer = live.answer(1.0, within="3 min", mode="exact")
    assert (answer.n, float(answer.value)) == (int(np.count_nonzero(times > times.max() - 180)), 2999.0)
    assert live.answer(1.0, within="10 min").n == 3000
    live.close()
    monkeypatch.setenv(VARIABLE, str(3_786_912_000.0 - now))  # its time has come
    retry(read_config(feed.config), None, "local[2]", io.StringIO(), False)
    assert History(feed.store).n == 3001


def test_a_stream_that_fails_at_bad_records(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, 'time = "t"\nbad_records = "fail"')
    write(feed, "0", [1.0, 2.0], [time.time(), 3_786_912_000.0])
    with pytest.raises((TypeMismatchError, StreamError), match=r"1 bad records .the time is ahead"):
        feed.ingest()
    assert History(feed.store).n == 0
    feed.configure('time = "t"\nbad_records = "fail"\nmax_ahead = "off"')
    feed.ingest()
    assert History(feed.store).n == 2
    assert History(feed.store).settings.max_ahead == "off"
