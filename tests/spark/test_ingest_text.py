"""Text files end to end: columns by their names, lines that cannot be read, times without a zone."""

import gzip
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.cli import main
from quantide.errors import ConfigError
from quantide.live import LiveStream
from quantide.spark.stream import read_plan
from tests.spark.process_groups import environment, finish, running
from tests.spark.streams import Feed

Out = pytest.CaptureFixture[str]
CSV = 'format = "csv", schema = "ms DOUBLE, bytes INT, host STRING", options = { header = true }'


def list_quarantine(feed: Feed, capsys: Out) -> Any:
    capsys.readouterr()
    assert main(["quarantine", "list", str(feed.config), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["streams"][0]


def values(feed: Feed) -> list[float]:
    history = History(feed.store)
    return sorted(float(history.quantile((i + 0.5) / history.n, "exact")) for i in range(history.n))


@pytest.mark.parametrize("few", [100_000, 2])
def test_columns_go_by_the_names_of_each_header(
    few: int, spark: SparkSession, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch of files whose headers differ: in memory, and as files that Spark writes and tasks read."""
    monkeypatch.setattr(read_plan, "MAX_TABLE_ROWS", few)
    feed = Feed(tmp_path, 'value = "ms"\nkeys = ["host"]', CSV)
    files = {
        "order.csv": "bytes,host,ms\n100989,a,1\n100990,b,2\n",
        "more.csv": "\ufeffMS,other,bytes,host\r\n3,900,901,a\r\n",
        "quoted.csv": '"bytes"," ms ","host"\n\n902,4,"a,b"\n',
        "fewer.csv": "host,ms\na,5\n",
        "empty.csv": "ms,bytes,host\n",
        "bad.csv": "bytes,ms,host\n1,6,a\n\n7,x,a\n8,7\n9,8,a,b\n10,,a\ny,9,a\n",
        "lacks.csv": "bytes,latency,host\n903,904,a\n",
        "twice.csv": "ms,ms,host\n905,906,a\n",
    }
    for name, text in files.items():
        (feed.incoming / name).write_text(text, newline="")
    (feed.incoming / "zipped.csv.gz").write_bytes(gzip.compress(b"host,bytes,ms\nb,907,10\n"))
    feed.ingest()
    assert values(feed) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0]
    listing = list_quarantine(feed, capsys)
    reasons = {Path(file["path"]).name: file["reason"] for file in listing["files"]}
    assert set(reasons) == {"lacks.csv", "twice.csv"}
    assert "there is no column 'ms'; there are bytes, latency, host" in reasons["lacks.csv"]
    assert "source.schema has ms, bytes, host" in reasons["lacks.csv"]
    assert "its header has the column 'ms' 2 times" in reasons["twice.csv"]
    rows = {(row["reason"], row["count"]): row["examples"] for row in listing["rows"]}
    assert rows[("the column ms is not DOUBLE", 1)] == [{"line": 4, "column": "ms", "content": "7,x,a"}]
    assert rows[("the column bytes is not INT", 1)] == [{"line": 8, "column": "bytes", "content": "y,9,a"}]
    assert rows[("the line has fewer or more columns than there should be", 2)] == [
        {"line": 5, "column": None, "content": "8,7"},
        {"line": 6, "column": None, "content": "9,8,a,b"},
    ]


def test_a_header_where_none_is_expected(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    """The file is put on hold, and the run stops when all are; a corrected configuration ingests them."""
    source = 'format = "csv", schema = "ms DOUBLE, host STRING"'
    feed = Feed(tmp_path, 'value = "ms"', source)
    (feed.incoming / "0.csv").write_text("host,ms\na,1\n")
    assert main(["ingest", str(feed.config), "--once"]) == 2
    error = capsys.readouterr().err
    assert (
        "0.csv: its first line looks like a header: host, ms. Set streams.s.source.options = { header = true }" in error
    )
    (feed.incoming / "1.csv").write_text("2,b\nx,c\n")
    feed.ingest()
    assert values(feed) == [2.0]
    listing = list_quarantine(feed, capsys)
    assert [Path(file["path"]).name for file in listing["files"]] == ["0.csv"]
    assert [row["reason"] for row in listing["rows"]] == ["the column ms is not DOUBLE"]
    feed.configure('value = "ms"', source + ", options = { header = true }")
    feed.ingest()
    assert values(feed) == [1.0, 2.0], "a file that is held is tried again by the configuration as it is now"


def test_json_without_the_column(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    """Nulls in all of a file are no values; a file with another column is put on hold, and nothing else is lost."""
    feed = Feed(tmp_path, 'value = "ms"', 'format = "json", schema = "ms DOUBLE"')
    (feed.incoming / "0.json").write_text('{"MS": 1}\n{"MS": 2}\n')
    with pytest.raises(ConfigError, match=r"streams\.s: no file .*0\.json: there is no column 'ms'; there are MS"):
        feed.ingest()
    (feed.incoming / "1.json").write_text('{"ms": 3}\n{"ms": null}\n')
    feed.ingest()
    assert values(feed) == [3.0]
    assert [Path(file["path"]).name for file in list_quarantine(feed, capsys)["files"]] == ["0.json"]


def test_a_column_that_the_schema_does_not_have(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, 'value = "latncy"', 'format = "json", schema = "ts TIMESTAMP, latency DOUBLE"')
    with pytest.raises(ConfigError, match=r"streams\.s\.source\.schema: there is no column 'latncy'.*mean 'latency'"):
        feed.ingest()
    feed.configure('value = "v"', 'format = "json", schema = "ts NOTATYPE"')
    with pytest.raises(ConfigError, match=r"streams\.s\.source\.schema is 'ts NOTATYPE', which is not a list of col"):
        feed.ingest()


ZONES = """
store = "data"
[streams.csv]
source = { format = "csv", path = "csv", schema = "v DOUBLE, t TIMESTAMP", options.header = true, settle = "300 ms" }
value = "v"
time = "t"
[streams.zoned]
source.format = "csv"
source.path = "csv"
source.schema = "v DOUBLE, t TIMESTAMP"
source.settle = "300 ms"
source.options = { header = true, timeZone = "America/New_York" }
value = "v"
time = "t"
[streams.json]
source = { format = "json", path = "json", schema = "v DOUBLE, t TIMESTAMP", settle = "300 ms" }
value = "v"
time = "t"
[streams.text]
source = { format = "json", path = "json", schema = "v DOUBLE, t STRING", settle = "300 ms" }
value = "v"
time = "t"
[streams.expression]
source = { format = "json", path = "json", schema = "v DOUBLE, t STRING", settle = "300 ms" }
value = "v"
time = "to_timestamp(t)"
[streams.parquet]
source = { format = "parquet", path = "parquet", settle = "300 ms" }
value = "v"
time = "t"
[streams.computed]
source = { format = "parquet", path = "parquet", settle = "300 ms" }
value = "v"
time = "timestampadd(HOUR, 0, t)"
[streams.old]
source = { format = "parquet", path = "old", settle = "300 ms" }
value = "v"
time = "t"
"""


@pytest.mark.slow
def test_times_without_a_zone_are_in_utc(tmp_path: Path) -> None:
    """Times without a zone are in UTC, in every zone of machine and Java, for Spark, Arrow and expressions."""
    noon = datetime(2026, 1, 1, 7)
    for name in ("csv", "json", "parquet", "old"):
        (tmp_path / name).mkdir()
    (tmp_path / "csv/a.csv").write_text(f"v,t\n1,{noon}\n")
    (tmp_path / "json/a.json").write_text(json.dumps({"v": 1, "t": str(noon)}))
    table = pa.table({"v": [1.0], "t": pa.array([noon], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "parquet/a.parquet")
    pq.write_table(table, tmp_path / "old/a.parquet", use_deprecated_int96_timestamps=True)
    (tmp_path / "quantide.toml").write_text(ZONES)
    env = environment() | {"TZ": "America/New_York", "JAVA_TOOL_OPTIONS": "-Duser.timezone=America/New_York"}
    env["PYSPARK_SUBMIT_ARGS"] = env["PYSPARK_SUBMIT_ARGS"].replace("timeZone=UTC", "timeZone=America/New_York")
    command = [sys.executable, "-m", "quantide", "ingest", str(tmp_path / "quantide.toml"), "--once"]
    with running([*command, "--master", "local[2]"], tmp_path / "driver.log", env) as driver:
        finish(driver, tmp_path / "driver.log")
    newest = {}
    for stream in os.listdir(tmp_path / "data"):
        with LiveStream(tmp_path / "data" / stream, follow=False) as live:
            newest[stream] = str(live.answer(0.5, within="1 h").until)[:16]
    assert newest.pop("zoned") == "2026-01-01T12:00", "a zone that is set for a source"
    assert (len(newest), set(newest.values())) == (7, {"2026-01-01T07:00"}), newest
