"""Bodies of push requests that stand for more memory than they have bytes, and columns that a store cannot have."""

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.server.push import parquet_pages, row_formats
from quantide.server.push.parquet_pages import scan_pages
from quantide.server.push.row_formats import parse_rows
from quantide.store.parquet_footer import UNCOMPRESSED, VALUES, read_footer
from tests.contradicting_parquet import contradicting_file
from tests.server.push_landing import landed, landing_files, push_config
from tests.server.running_server import run_server

ARROW, PARQUET, JSON = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet", "application/json"
BODY = 100_000  # limit of a body; its rows may take eight times as much
ROWS = 20_000
STREAMS = '[streams.plain]\nsource = "push"\n[streams.latency]\nsource = "push"\nkeys = ["endpoint"]\n'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[httpx.Client]:
    with run_server(push_config(tmp_path, f"[server.limits]\nbody = {BODY}", STREAMS)) as client:
        yield client


def arrow_bytes(columns: dict[str, Any], **options: Any) -> bytes:
    table, sink = pa.table(columns), io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema, options=pyarrow.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet_bytes(columns: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def encoded_bytes(columns: dict[str, Any], encoding: str, dictionaries: Any = False, **options: Any) -> bytes:
    """Return a Parquet file whose column x has an encoding."""
    sink = io.BytesIO()
    encodings = {"x": encoding}
    pq.write_table(pa.table(columns), sink, use_dictionary=dictionaries, column_encoding=encodings, **options)
    return sink.getvalue()


def understated_page(length: int) -> bytes:
    """Return a file with one text of many equal bytes, of which the footer has no more than a thousand."""
    sink = io.BytesIO()
    columns = {"value": [1.0], "x": ["a" * length]}
    pq.write_table(pa.table(columns), sink, compression="zstd", use_dictionary=False, write_statistics=False)
    body = sink.getvalue()
    size = pq.read_metadata(sink).row_group(0).column(1).total_uncompressed_size
    true, false = varint(2 * size), varint(2 * 1_000)
    false = false[:-1] + bytes([false[-1] | 128]) + b"\x80" * (len(true) - len(false) - 1) + b"\0"
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    assert body[footer:].count(true) == 1
    return body[:footer] + body[footer:].replace(true, false)


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def text_dictionary(rows: int, length: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["a" * length]))


def one_view(rows: int, length: int) -> pa.Array:
    """Return views of one text."""
    text = pa.array(["a" * length], pa.string_view())
    views = np.tile(np.frombuffer(text.buffers()[1], np.int64), rows)
    return pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(views), *text.buffers()[2:]])


def bombs() -> dict[str, tuple[str, bytes]]:
    zeros, long = {"value": np.zeros(200_000)}, {"value": np.zeros(1_000)}
    sparse = [{f"c{number}": 1.5 for number in range(900)} | {"value": 1}, *[{} for _ in range(ROWS)]]
    return {
        "nulls": (ARROW, arrow_bytes({"value": pa.nulls(1 << 26)})),
        "zstd": (ARROW, arrow_bytes(zeros, compression="zstd")),
        "lz4": (ARROW, arrow_bytes(zeros, compression="lz4")),
        "Arrow dictionary": (ARROW, arrow_bytes(long | {"x": text_dictionary(1_000, 10_000)})),
        "dictionary of values": (ARROW, arrow_bytes({"value": text_dictionary(50_000, 50)})),
        "views": (ARROW, arrow_bytes(long | {"x": one_view(1_000, 10_000)})),
        "Parquet dictionary": (PARQUET, parquet_bytes(long | {"x": text_dictionary(1_000, 10_000)})),
        "Parquet prefixes": (PARQUET, encoded_bytes(long | {"x": ["a" * 10_000] * 1_000}, "DELTA_BYTE_ARRAY")),
        "Parquet page": (PARQUET, understated_page(10_000_000)),
        "Parquet runs": (PARQUET, parquet_bytes(zeros)),
        "sparse objects": (JSON, json.dumps(sparse, separators=(",", ":")).encode()),
    }


@pytest.mark.parametrize("name", bombs())
def test_small_bodies_of_many_bytes_are_refused(server: httpx.Client, tmp_path: Path, name: str) -> None:
    content_type, body = bombs()[name]
    assert len(body) < BODY
    response = server.post("/api/streams/plain/rows", content=body, headers={"content-type": content_type})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")
    assert "in memory" in response.json()["error"]["message"]
    assert not landing_files(tmp_path, "plain")


def test_a_contradicting_footer_does_not_end_the_server(server: httpx.Client, tmp_path: Path) -> None:
    headers = {"content-type": PARQUET}
    response = server.post("/api/streams/plain/rows", content=contradicting_file(), headers=headers)
    assert response.status_code == 400
    assert "contradict" in response.json()["error"]["message"]
    assert not landing_files(tmp_path, "plain")
    assert server.get("/healthz").status_code == 200


def test_very_many_columns_of_a_parquet_file_are_not_read(server: httpx.Client, tmp_path: Path) -> None:
    columns, sink = [str(number) for number in range(1_001)], io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema([(name, pa.int32()) for name in columns]), store_schema=False):
        pass  # no row groups
    body = sink.getvalue()
    assert len(body) < BODY
    response = server.post("/api/streams/plain/rows", content=body, headers={"content-type": PARQUET})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")
    assert "1,001 columns" in response.json()["error"]["message"]


def test_very_many_columns_of_csv_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow would take 4 GB for two million commas."""
    monkeypatch.delattr(pyarrow.csv, "read_csv")
    quoted = b",".join(b'"a,""%d\r"' % number for number in range(1_001))
    for header in (b"," * 1_000, b"\xef\xbb\xbf\n\r\n" + b"," * 1_000, quoted, b'"\n",' * 1_000, b'a"b,' * 1_000):
        with pytest.raises(InvalidArgumentError, match="more than 1,000 columns"):
            parse_rows("text/csv", header + b"\n1\n", BODY)


def test_commas_in_quotes_of_a_csv_header_are_not_counted() -> None:
    names = ['"a,,b""' + str(number) + '"' for number in range(999)]
    table = parse_rows("text/csv", ("value," + ",".join(names) + "\n" + ",".join("1" * 1_000)).encode(), BODY)
    assert table.column_names[:2] == ["value", 'a,,b"0']
    assert table.num_columns == 1_000


@pytest.mark.parametrize("name", [JSON, "application/x-ndjson", ARROW])
def test_very_many_columns_are_counted_before_their_names_are_compared(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delattr(row_formats, "_check_names")
    row = {f"c{number}": 1 for number in range(1_001)}
    body = arrow_bytes({name: [1] for name in row}) if name == ARROW else json.dumps(row).encode()
    with pytest.raises(InvalidArgumentError, match="1,001 columns"):
        parse_rows(name, body, 10 * BODY)


def test_objects_and_lists_in_json_are_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow would take a kilobyte for each name in an object."""
    monkeypatch.delattr(pa, "array")
    for value in ({"a": 1}, [1]):
        with pytest.raises(TypeMismatchError, match="the column 'x' has objects or lists"):
            parse_rows(JSON, json.dumps([{"x": 1.5}, {"x": value}]).encode(), BODY)


def test_names_of_columns_that_are_not_utf8_are_refused(server: httpx.Client, tmp_path: Path) -> None:
    headers = {"content-type": "text/csv"}
    response = server.post("/api/streams/plain/rows", content=b"value,\xff\n1,/pay\n", headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")
    assert "utf-8" in response.json()["error"]["message"]
    assert not landing_files(tmp_path, "plain")


@pytest.mark.parametrize("dictionaries", [False, ["y"]])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_every_encoding_of_text_in_parquet_is_accepted(encoding: str, version: str, dictionaries: Any) -> None:
    texts = [None if number % 7 == 0 else f"/some/path/{number}" for number in range(1_000)]
    columns = {"value": np.arange(1_000.0), "x": texts, "y": ["a", "b"] * 500}
    options: dict[str, Any] = {"data_page_version": version, "row_group_size": 300}
    table = parse_rows(PARQUET, encoded_bytes(columns, encoding, dictionaries, **options), 10 * BODY)
    assert {name: table[name].to_pylist() for name in columns} == pa.table(columns).to_pydict()
    only = parse_rows(PARQUET, encoded_bytes({"x": texts}, encoding, **options), 10 * BODY)
    assert only["x"].to_pylist() == texts


def test_texts_that_may_expand_are_read_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    body = encoded_bytes({"value": np.zeros(50), "x": [f"{number:1000}" for number in range(50)]}, "DELTA_BYTE_ARRAY")
    monkeypatch.setattr(row_formats, "MAX_READS", 1)
    with pytest.raises(InvalidArgumentError, match="the columns x have an encoding that may expand"):
        parse_rows(PARQUET, body, 8_000)
    monkeypatch.setattr(row_formats, "MAX_READS", 50)
    assert len(parse_rows(PARQUET, body, 8_000)) == 50


def test_page_headers_agree_with_a_valid_footer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    columns = {"value": rng.random(5_000), "x": [None, "a", "b", f"{rng.random()}"] * 1_250, "y": ["a"] * 5_000}
    for version in ("1.0", "2.0"):
        body = encoded_bytes(
            columns, "PLAIN", ["y"], data_page_version=version, row_group_size=2_000, data_page_size=500
        )  # fmt: skip
        metadata, chunks = read_footer(io.BytesIO(body))
        pages = scan_pages(body, metadata, chunks)
        assert (pages.values == chunks[VALUES]).all()
        assert (pages.sizes < chunks[UNCOMPRESSED]).all()  # which has the headers, too
        assert (pages.sizes > chunks[UNCOMPRESSED] - 100 * np.array([50, 50, 2])).all()
        for index, encodings in enumerate(pages.encodings):
            named = {"PLAIN": 0, "PLAIN_DICTIONARY": 2, "RLE": 3, "RLE_DICTIONARY": 8}
            assert encodings <= {named[name] for name in metadata.row_group(0).column(index).encodings}
        monkeypatch.setattr(parquet_pages, "MAX_PAGES", 10)
        with pytest.raises(InvalidArgumentError, match="more than 10 pages; write larger ones"):
            parse_rows(PARQUET, body, 10 * BODY)
        monkeypatch.undo()


def test_damaged_page_headers_are_refused() -> None:
    """A flipped byte anywhere is refused by name, or changes rows; it ends in no other error."""
    body = encoded_bytes({"value": [1.0, 2.0], "x": ["a", "b"]}, "DELTA_BYTE_ARRAY", write_statistics=False)
    parsed = 0
    for position in range(len(body)):
        for flip in (1, 128, 255):
            damaged = body[:position] + bytes([body[position] ^ flip]) + body[position + 1 :]
            with suppress(InvalidArgumentError, TypeMismatchError):
                parse_rows(PARQUET, damaged, BODY)
                parsed += 1
    assert parsed < len(body), "most flips are refused, although Parquet has no checksum"


def test_lists_of_a_parquet_file_are_not_read(server: httpx.Client, tmp_path: Path) -> None:
    body = parquet_bytes({"value": [1.0], "x": [[1] * 1_000_000]})
    response = server.post("/api/streams/plain/rows", content=body, headers={"content-type": PARQUET})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "type_mismatch")
    assert not landing_files(tmp_path, "plain")


@pytest.mark.parametrize("content_type", [ARROW, PARQUET])
def test_dictionaries_views_and_compression_are_accepted(
    server: httpx.Client, tmp_path: Path, content_type: str
) -> None:
    texts = pa.array(["long enough for a view", None, "short"])
    columns = {"value": [1.0, 2.0, 3.0], "x": texts.dictionary_encode()}
    if content_type == ARROW:
        columns["y"] = texts.cast(pa.string_view())
    body = arrow_bytes(columns, compression="zstd") if content_type == ARROW else parquet_bytes(columns)
    assert server.post(
        "/api/streams/plain/rows", content=body, headers={"content-type": content_type}
    ).status_code == 201  # fmt: skip
    rows = landed(tmp_path, "plain")
    assert [row["value"] for row in rows] == [1, 2, 3]
    for name in columns.keys() - {"value"}:
        assert [row[name] for row in rows] == texts.to_pylist()


UNSUITABLE = {
    "time of day": pa.array([1], pa.time32("s")),
    "decimal256": pa.array([1]).cast(pa.decimal256(60)),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
    "duration": pa.array([1], pa.duration("s")),
    "unsigned": pa.array([2**64 - 1], pa.uint64()),
}


@pytest.mark.parametrize("name", UNSUITABLE)
def test_first_keys_have_a_type_that_a_store_can_have(server: httpx.Client, tmp_path: Path, name: str) -> None:
    """The server rejects first keys at which ingestion would stop."""
    body = arrow_bytes({"value": [1.0], "endpoint": UNSUITABLE[name]})
    response = server.post("/api/streams/latency/rows", content=body, headers={"content-type": ARROW})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "type_mismatch")
    assert not landing_files(tmp_path, "latency")


@pytest.mark.parametrize("name", ["_corrupt_record", "_quantide_line"])
def test_columns_of_ingestion_are_refused(server: httpx.Client, tmp_path: Path, name: str) -> None:
    response = server.post("/api/streams/plain/rows", json={"value": 1, name: "x"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")
    assert not landing_files(tmp_path, "plain")


TIMES = {
    "2026-01-02": pa.array(["2026-01-02"]),
    "2026-01-02T00:00:00.123456": pa.array(["2026-01-02T00:00:00.123456789Z"]),
    "2026-01-02T03:04:05": pa.array([1767323045], pa.uint64()),
}


@pytest.mark.parametrize("expected", TIMES)
def test_times(server: httpx.Client, tmp_path: Path, expected: str) -> None:
    body = arrow_bytes({"value": [1.0], "time": TIMES[expected]})
    assert server.post(
        "/api/streams/plain/rows", content=body, headers={"content-type": ARROW}
    ).status_code == 201  # fmt: skip
    (row,) = landed(tmp_path, "plain")
    assert row["time"].isoformat().startswith(expected)


@pytest.mark.parametrize("times", [pa.array([-(2**63)]), pa.array([2**62], pa.timestamp("s"))], ids=["number", "time"])
def test_times_out_of_range_are_refused(server: httpx.Client, tmp_path: Path, times: pa.Array) -> None:
    body = arrow_bytes({"value": [1.0], "time": times})
    response = server.post("/api/streams/plain/rows", content=body, headers={"content-type": ARROW})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "type_mismatch")
    assert not landing_files(tmp_path, "plain")


def test_a_folder_that_was_removed_is_made_again(server: httpx.Client, tmp_path: Path) -> None:
    path = "/api/streams/plain/rows"
    assert server.post(path, json={"value": 1}).status_code == 201
    shutil.rmtree(tmp_path / "data" / "plain")
    assert server.post(path, json={"value": 2}).status_code == 503
    assert server.post(path, json={"value": 2}).status_code == 201
    assert [row["value"] for row in landed(tmp_path, "plain")] == [2]
