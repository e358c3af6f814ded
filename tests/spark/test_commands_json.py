"""The commands that need Spark, for programs: lines and documents of JSON."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quantide.cli import main
from quantide.spark.stream.stream_status import StatusBoard, StreamStatus
from tests.spark.streams import Feed

Out = pytest.CaptureFixture[str]


def lines(argv: list[str], capsys: Out) -> list[Any]:
    assert main([*argv, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
def test_ingest_and_quarantine(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    feed = Feed(tmp_path, 'value = "text"')
    pq.write_table(pa.table({"text": ["1", "two", "3"]}), feed.incoming / "a.parquet")
    (feed.incoming / "b.parquet").write_bytes(b"PAR1 and then nothing")
    config = str(feed.config)
    last = lines(["ingest", config, "--once"], capsys)[-1]
    assert (last["stream"], last["rows"], last["bad"], last["problem"]) == ("s", 2, 1, None)
    assert (last["quarantined_files"], last["waiting_files"]) == (1, 0)
    [quarantine] = lines(["quarantine", "list", config], capsys)[0]["streams"]
    assert quarantine["begun"]
    assert [Path(file["path"]).name for file in quarantine["files"]] == ["b.parquet"]
    assert [(Path(row["path"]).name, row["count"]) for row in quarantine["rows"]] == [("a.parquet", 1)]
    [document] = lines(["quarantine", "retry", config], capsys)
    assert document == {"streams": [{"stream": "s", "rows": 0, "held_files": 1, "held_rows": 1}]}


def test_a_line_of_a_stream() -> None:
    status, out = StreamStatus("s", 5, 1), io.StringIO()
    board = StatusBoard(out, json=True)
    board.show([status])
    assert out.getvalue() == "", "not every time that something happens"
    board.show([status, status], last=True)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["stream"], first["rows"], first["bad"], first["problem"]) == ("s", 5, 1, None)
    assert set(first) == set(second)


def test_build(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    pq.write_table(pa.table({"ms": [1.0, 2.0], "host": ["a", "b"]}), tmp_path / "lake.parquet")
    argv = ["history", "build", str(tmp_path / "lake.parquet"), str(tmp_path / "s"), "--by", "host"]
    [document] = lines(argv, capsys)
    assert (document["path"], document["values"], document["steps"]) == (str(tmp_path / "s"), 2, 1)
    assert main([*argv, "--json"]) == 2
    assert "new folder" in json.loads(capsys.readouterr().err.splitlines()[-1])["error"]["message"]
