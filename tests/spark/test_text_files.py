"""Text files without Spark: headers, names in JSON, the lines of records, listings of a folder, the log of a source."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, StringType, StructType, TimestampType

from quantide.config import Source
from quantide.errors import StorageError
from quantide.spark.stream.column_matching import (
    HeaderProblem,
    first_rows,
    looks_like_header,
    match_header,
    missing_json_column,
)
from quantide.spark.stream.row_origin import BLOCK, ROW, LineNumbers, TextFormat, count_blocks
from quantide.spark.stream.spark_checkpoint import planned_files
from quantide.spark.stream.stream_source import changed_files, list_files, repaired_files
from quantide.store.ingest_log import IngestedFile
from quantide.store.location import StorageOptions

SCHEMA = StructType().add("ts", TimestampType()).add("ms", DoubleType()).add("host", StringType())


# Headers


@pytest.mark.parametrize(
    ("data", "options", "row"),
    [
        (b"a,b\n1,2\n", {}, ["a", "b"]),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", {}, ["a", "b"]),
        (b"\n \n# x\na;'b;c'\n", {"delimiter": ";", "quote": "'", "comment": "#"}, ["a", "b;c"]),
        (b'a\t"b\\"c"\n', {"sep": "\\t"}, ["a", 'b"c']),
        (b"a||b\n", {"sep": "||"}, ["a", "b"]),
        (b'"a",b\n', {"quote": ""}, ['"a"', "b"]),
        ("ä,b\n".encode("latin-1"), {"encoding": "ISO-8859-1"}, ["ä", "b"]),
        (b"", {}, None),
    ],
)
def test_the_first_row_of_a_file(data: bytes, options: dict[str, str], row: list[str] | None, tmp_path: Path) -> None:
    form = TextFormat.of("csv", options)
    (tmp_path / "a.csv").write_bytes(data)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data))
    for name in ("a.csv", "a.csv.gz"):
        assert first_rows(StorageOptions(), str(tmp_path / name), form, 1) == ([] if row is None else [row])


@pytest.mark.parametrize(
    ("header", "layout"),
    [
        (["ms", "bytes"], ("ms", "bytes")),
        (["bytes", "ms"], ("bytes", "ms")),
        ([" MS ", "x", "\ufeffBytes"], ("ms", None, "bytes")),
        (["ms", "bytes", "bytes"], ("ms", None, None)),
        (["Ms", "ms"], (None, "ms")),
        (["MS", "Ms"], "its header has the column 'ms' 2 times: MS, Ms"),
        (["bytes", "latency"], "there is no column 'ms'; there are bytes, latency"),
        (["mms", "bytes"], "Did you mean 'mms'?"),
        ([], "there is no column 'ms'"),
    ],
)
def test_columns_by_their_names(header: list[str], layout: tuple[str | None, ...] | str) -> None:
    match = match_header(header, ["ms", "bytes"], ["ms"])
    if isinstance(layout, str):
        assert isinstance(match, HeaderProblem)
        assert layout in match.text
    else:
        assert match == layout


@pytest.mark.parametrize(
    ("rows", "is_header"),
    [
        ([["ts", "ms", "host"]], True),
        ([["MS", "Host", "other"]], True),
        ([["time", "latency", "where"], ["2026-01-01", "5", "a"]], True),
        ([["2026-01-01", "5", "ms"]], False),
        ([["2026-01-01", "", "a"]], False),
        ([["2026-01-01", "N/A", "a"], ["2026-01-01", "5", "a"]], False),
        ([["2026-01-01", "nan", "a"], ["2026-01-01", "5", "a"]], False),
        ([["time", "latency", "where"], ["x", "y", "z"]], False),
        ([["time", "latency", "where"]], False),
        ([], False),
    ],
)
def test_what_looks_like_a_header(rows: list[list[str]], is_header: bool) -> None:
    assert looks_like_header(rows, SCHEMA) == is_header


def test_headers_of_text_alone() -> None:
    texts = StructType().add("city", StringType()).add("name", StringType())
    assert looks_like_header([["name", "city"]], texts)
    assert not looks_like_header([["Paris", "x"]], texts)


# JSON


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"ms": 1}\n', None),
        ('{"a": 1}\n{"ms": null}\n', None),
        ('{"MS": 1}\n{"b": 2}\n', "there is no column 'ms'; there are MS, b. Did you mean 'MS'?"),
        ('[{"a": 1}, {"ms": 2}]\n', None),
        ("{'ms': 1}\n", None),
        ("{\n", None),
        ("{\n5\n", None),
        ("", None),
    ],
)
def test_names_in_json(text: str, problem: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert missing_json_column(StorageOptions(), str(path), TextFormat.of("json", {}), ["ms"]) == problem


def test_a_document_of_many_lines(tmp_path: Path) -> None:
    form = TextFormat.of("json", {"multiLine": "true"})
    (tmp_path / "a.json").write_text('[\n{"ms": 1},\n{"a": 2}\n]')
    assert missing_json_column(StorageOptions(), str(tmp_path / "a.json"), form, ["ms"]) is None
    assert "there are ms, a" in (missing_json_column(StorageOptions(), str(tmp_path / "a.json"), form, ["host"]) or "")


# Lines


def lines_of(path: Path, form: TextFormat, blocks: list[int], rows: list[int], bad: list[int]) -> list[int | None]:
    """The lines of some rows of a file that was read in blocks."""
    table = pa.table({"path": [str(path)] * len(rows), BLOCK: blocks, ROW: rows})
    numbering = LineNumbers.of(form, StorageOptions(), count_blocks(table, "path"))
    return numbering.find_lines([str(path)] * len(bad), [blocks[i] for i in bad], [rows[i] for i in bad])


def test_lines_of_records(tmp_path: Path) -> None:
    """Blank lines and comments are no records; blocks are joined in the order of the file."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n#c\nh\r\na\r\n\r\nb\rc\n \t\nd\n")
    form = TextFormat.of("csv", {"header": "True", "comment": "#"})
    blocks, rows = [9, 9, 0, 0], [8_000_000_000, 8_000_000_001, 7, 8]
    assert lines_of(path, form, blocks, rows, [2, 3, 0, 1]) == [4, 6, 7, 9]
    path.unlink()
    assert lines_of(path, form, blocks, rows, [2]) == [None], "a file that was removed has no lines"


def test_lines_of_json_and_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text('{"a": 1}\n\n[{"a": 2}, {"a": 3}]\n{"a": 4}\n')
    four = ([0] * 4, list(range(4)), [0, 1, 3])
    assert lines_of(path, TextFormat.of("json", {}), *four) == [1, None, None], "lines behind an array are not guessed"
    assert lines_of(path, TextFormat.of("text", {}), *four) == [1, 2, 4]


@pytest.mark.parametrize("option", [{"multiLine": "true"}, {"lineSep": ";"}])
def test_records_that_are_no_lines(option: dict[str, str]) -> None:
    assert not TextFormat.of("csv", option).is_lines
    assert not TextFormat.of("orc", {}).is_lines


# Folders


def test_files_that_changed_after_they_were_taken(tmp_path: Path) -> None:
    for name in ("a.csv", "day=1/b.csv", "c.csv.tmp", ".hidden/d.csv", "_e.csv", "f.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    source = Source("csv", str(tmp_path), options={"pathGlobFilter": "*.csv"})
    ingested = list_files(source, StorageOptions())
    a, b = str(tmp_path / "a.csv"), str(tmp_path / "day=1/b.csv")
    assert sorted(ingested) == [a, b]
    assert ingested[a].size == 1
    assert changed_files(ingested, list_files(source, StorageOptions())) == {}
    with open(a, "a") as file:
        file.write("yz")
    os.utime(a, ns=(0, ingested[a].modified * 10**6))  # within the same millisecond
    os.unlink(b)
    listed = list_files(source, StorageOptions())
    changed = changed_files(ingested, listed)
    assert list(changed) == [a]
    assert "it changed after it was ingested: 1 bytes then, 3 now" in changed[a]
    assert repaired_files(ingested, listed) == [a]
    patterns = Source("csv", str(tmp_path / "{a,day=*}*"))
    assert list(list_files(patterns, StorageOptions())) == [a]
    assert list_files(Source("csv", str(tmp_path / "no*")), StorageOptions()) == {}


# Spark's log


def write_log(folder: Path, entries: dict[str, list[tuple[str, int]]], offsets: dict[int, int]) -> None:
    (folder / "sources/0").mkdir(parents=True)
    (folder / "offsets").mkdir()
    for name, paths in entries.items():
        lines = [json.dumps({"path": path, "timestamp": 5, "batchId": number}) for path, number in paths]
        (folder / "sources/0" / name).write_text("\n".join(["v1", *lines]))
    for batch, offset in offsets.items():
        (folder / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps({"logOffset": offset}))


def test_the_files_that_spark_planned(tmp_path: Path) -> None:
    first: list[tuple[str, int]] = [("file:///in/b%20c.csv", 0), ("s3a://bucket/a%25.csv", 0), ("file:///in/d.tmp", 0)]
    write_log(
        tmp_path, {"0": first, "2.compact": [*first, ("file:///in/f", 1), ("file:///in/e", 2)]}, {0: 0, 1: 2, 2: 3}
    )
    assert planned_files(str(tmp_path), 0) == ["/in/b c.csv", "s3a://bucket/a%.csv"]
    assert planned_files(str(tmp_path), 1) == ["/in/e", "/in/f"], "an entry may be in a later one alone"
    with pytest.raises(StorageError, match="does not list the files of batch 2"):
        planned_files(str(tmp_path), 2)


def test_a_file_is_what_it_was() -> None:
    quarantined: dict[str, Any] = {"/a": IngestedFile("/a", 5, 1), "/b": IngestedFile("/b", 5, 1)}
    now = {"/a": IngestedFile("/a", 5, 1), "/b": IngestedFile("/b", 5, 2)}
    assert repaired_files(quarantined, now) == ["/b"]
