"""Records that the reader decodes, beside Spark on the same records: equal values, and no bad record among them."""

import json
import math
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from quantide import History
from quantide.config import StreamConfig, read_config
from quantide.spark.stream import batch_task, read_plan
from quantide.spark.stream.column_selection import READ_ERROR, ColumnSelection
from quantide.spark.stream.kafka_reader import choose_reader, select_raw
from quantide.spark.stream.kafka_records import decode_records
from quantide.spark.stream.micro_batch import BatchWriter, MicroBatch
from quantide.spark.stream.row_origin import LINE, RAW_RECORD
from quantide.spark.stream.running_stream import open_history
from quantide.store.file_names import QUARANTINE
from quantide.store.ingest_log import IngestLog

SCHEMA = "v DOUBLE, n BIGINT, i INT, s STRING, b BOOLEAN, t TIMESTAMP"
CONFIG = """store = "data"
[streams.s]
source = {{ format = "kafka", servers = "127.0.0.1:1", topic = "x", decode = {{ format = "json", {decode} }} }}
value = "v"
{settings}
"""
EVERY_COLUMN = 'time = "t"\nkeys = ["s", "i", "n", "b", "kafka_key", "kafka_partition"]'
RAW_TYPES = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
PLAIN = [
    b'{"v": 1.5, "n": 7, "i": -3, "s": "/pay", "b": true, "t": "2026-11-18T07:30:23.5+01:00"}',
    b' { "v" : -2e3 , "s" : "" , "b" : false }\r\n',
    b'{"v":0.1,"other":"x}","t":"2026-11-18 07:30:23","more":12,"rest":null}',
    b'{"v":null,"n":null,"s":null,"b":null,"t":null,"i":null}',
    b"{}",
    b"\t{ }\n",
    '{"v": 1, "s": "\u00fc\u4e2d\U0001f600"}'.encode(),
    b'{"v":123456789012345678,"n":-123456789012345678,"i":123456789}',
    b'{"v":-0.0,"t":"1900-02-28T23:59:59.999999-14:00"}',
    b'{"v":9007199254740993,"t":"2000-02-29T00:00:00Z"}',
    b'{"v":0.30000000000000004,"t":"2199-12-31T23:59:59.000001"}',
    b'{"v":1.7976931348623157e99,"s":" a "}',
    b'{"v":4.9E-99,"V":3,"s":"NaN"}',
    b'{"v":123456789.123456789012345678901234567,"n":0}',
]
OTHERS = [
    *(b"", b"\n", b"[]", b"[1]", b"1", b'"x"', b"null", b"nope", b"{", b"}", b"{{}}", b'{"v"}', b'{"v":}', b'{"v":1,}'),
    *(b'{"v":1}x', b'{"v":1}{"v":2}', b'{"v":1},{"v":2}', b'{"v":1}\n{"v":2}', b'{,"v":1}', b'{"v":1 "n":2}'),
    *(b'{"v":"1"}', b'{"v":"NaN"}', b'{"v":NaN}', b'{"v":-Infinity}', b'{"v":1e400}', b'{"v":-0}', b'{"n":-0}'),
    *(b'{"v":01}', b'{"v":1.}', b'{"v":.5}', b'{"v":+1}', b'{"v":1e}', b'{"v":1e+}', b'{"v":-}', b'{"v":1d}'),
    *(b'{"n":1.0}', b'{"n":9223372036854775807}', b'{"n":9223372036854775808}', b'{"i":2147483648}', b'{"n":"1"}'),
    *(b'{"b":"true"}', b'{"b":1}', b'{"b":True}', b'{"b":truex}', b'{"s":1.50}', b'{"s":{"a":1}}', b'{"s":[1,2]}'),
    *(b'{"s":"a\\nb"}', b'{"s":"a\\ud83d"}', b'{"s":"a\nb"}', b'{"\\u0076":1}', b'{"v":1,"v":2}', b'{"o":{"v":1}}'),
    *(
        b'{"s":"\xff"}',
        b'\xef\xbb\xbf{"v":1}',
        b'{"v":1}\x00',
        b'{"s":"\xed\xa0\x80"}',
        b"{'v':1}",
        b"{v:1}",
        b'{"v":1}//',
    ),
    *(b'{"t":"2026-02-29T00:00:00"}', b'{"t":"2026-11-18"}', b'{"t":"2026-11-18T24:00:00"}', b'{"t":1700000000}'),
    *(b'{"t":"2026-11-18T07:30:23.1234567"}', b'{"t":"2026-11-18T07:30:23+25:00"}', b'{"t":"2026-11-18T07:30:60Z"}'),
    *(b'{"t":"2026-11-18T07:30:23 UTC"}', b'{"t":"0001-01-01T00:00:00"}', b'{"t":""}', b'{"t":"now"}', b'{"t":"x"}'),
    *(b'{"t":"2026-11-18T07:30:23+0100"}', b'{"t":"2026-11-18T07:30:23-18:00"}', b'{"t":"2026-11-18T07:30:23."}'),
    b'{"s":"' + b"x" * 40_000 + b'"}',
]


def configure(folder: Path, settings: str = EVERY_COLUMN, decode: str = f'schema = "{SCHEMA}"') -> StreamConfig:
    (folder / "quantide.toml").write_text(CONFIG.format(decode=decode, settings=settings))
    return read_config(folder / "quantide.toml").streams["s"]


def make_frame(spark: SparkSession, records: Sequence[bytes | None]) -> DataFrame:
    """Return records as Spark's Kafka source does."""
    n = len(records)
    stamps = pa.array([-1000 if i % 7 == 3 else 10**15 + i for i in range(n)], pa.timestamp("us", "UTC"))
    columns = {
        "key": pa.array([None if i % 2 else b"k%d" % (i % 5) for i in range(n)], pa.binary()),
        "value": pa.array(records, pa.binary()),
        "topic": pa.array(["x"] * n, pa.string()),
        "partition": pa.array([0] * n, pa.int32()),
        "offset": pa.array(range(n), pa.int64()),
        "timestamp": stamps,
    }
    return spark.createDataFrame(pa.table(columns), RAW_TYPES)


def mutate(rng: random.Random, record: bytes) -> bytes:
    """Return a record with a few characters changed, inserted, removed or taken from another record."""
    data = bytearray(record)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(data))
        cut = rng.choice(PLAIN)
        piece = rng.choice(
            [bytes([rng.choice(b'{}[]":,.-+eE019 \\\tnulltrfasZT\xc3\xbc')]), cut[rng.randint(0, len(cut)) :]]
        )
        data[at : at + rng.randint(0, 2)] = piece if rng.random() < 0.7 else b""
    return bytes(data)


def comparable(value: Any) -> Any:
    """Return a value by which -0.0 and 0.0 differ, and nan equals itself."""
    return struct.pack("d", value) if isinstance(value, float) else value


def decode_both(spark: SparkSession, stream: StreamConfig, records: Sequence[bytes | None]) -> tuple[Any, Any]:
    """Return the rows of the reader and those of Spark, by offset."""
    selection = ColumnSelection.of(stream, "UTC")
    reader = choose_reader(stream, selection)
    assert reader is not None
    frame = make_frame(spark, records)
    rows, refused = reader.read(select_raw(frame, stream, reader).toArrow())
    assert len(rows) + len(refused) == len(records)
    decoded = selection.compute(*decode_records(frame, stream)).toArrow()
    assert [rows.schema.field(name) for name in reader.used] == [decoded.schema.field(name) for name in reader.used]
    ours, theirs = ({row[LINE]: row for row in with_micros(table).to_pylist()} for table in (rows, decoded))
    return ours, theirs


def with_micros(table: pa.Table) -> pa.Table:
    """Return a table with its times as numbers: Spark's may lie beyond those of Python."""
    index = table.column_names.index("t")
    return table.set_column(index, "t", table["t"].cast(pa.int64()))


def check_equal(spark: SparkSession, stream: StreamConfig, records: Sequence[bytes | None]) -> set[int]:
    """Check that Spark decodes each accepted record to the same row; return the offsets of accepted records."""
    ours, theirs = decode_both(spark, stream, records)
    for offset, row in ours.items():
        expected = theirs[offset]
        assert expected[READ_ERROR] is None, (records[offset], expected)
        assert expected[RAW_RECORD] is None
        for name, value in row.items():
            assert comparable(value) == comparable(expected[name]), (records[offset], name, value, expected[name])
    return set(ours)


def test_plain_records(spark: SparkSession, tmp_path: Path) -> None:
    assert check_equal(spark, configure(tmp_path), PLAIN) == set(range(len(PLAIN)))


def test_other_records_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Each of these is refused, also among plain ones; a null is a tombstone."""
    records = [record for other in (*OTHERS, None) for record in (other, PLAIN[0])]
    assert check_equal(spark, configure(tmp_path), records) == set(range(1, len(records), 2))


def test_mutated_records(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(25)
    records = [mutate(rng, rng.choice(PLAIN)) for _ in range(4_000)]
    numbers = [b'{"v":%s}' % repr(rng.uniform(-1, 1) * 10 ** rng.randint(-80, 80)).encode() for _ in range(2_000)]
    bits = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(2_000)]
    numbers += [b'{"v":%s}' % repr(value).encode() for value in bits if math.isfinite(value)]
    accepted = check_equal(spark, configure(tmp_path), [*records, *numbers])
    assert 300 < sum(1 for offset in accepted if offset < len(records)) < 3_500
    assert len(accepted) > 2_000


@pytest.mark.parametrize(
    ("decode", "settings"),
    [
        ('schema = "v FLOAT"', ""),
        ('schema = "v DOUBLE, o STRUCT<a: INT>"', ""),
        ('schema = "v DOUBLE, t DATE"', ""),
        (f'schema = "{SCHEMA}", headers = ["h"]', ""),
        (f'schema = "{SCHEMA}", options = {{ allowComments = "true" }}', ""),
        (f'schema = "{SCHEMA}"', 'time = "t + INTERVAL 1 HOUR"'),
    ],
)
def test_streams_that_only_spark_decodes(tmp_path: Path, decode: str, settings: str, spark: SparkSession) -> None:
    stream = configure(tmp_path, settings, decode)
    assert choose_reader(stream, ColumnSelection.of(stream, "UTC")) is None


def test_other_time_zone(tmp_path: Path, spark: SparkSession) -> None:
    stream = configure(tmp_path)
    assert choose_reader(stream, ColumnSelection.of(stream, "Europe/Berlin")) is None


def ingest(spark: SparkSession, folder: Path, records: Sequence[bytes | None]) -> tuple[Any, ...]:
    """Ingest records in two batches; return what a user sees of the store and the quarantine, and Spark's batches."""
    folder.mkdir()
    stream = configure(folder, 'keys = ["s"]\ntime = "t"\nmax_ahead = "10000 d"')
    history = open_history(stream)
    try:
        log = IngestLog(history.table.storage, history.batch_seen, history.table.check_writer)
        writer = BatchWriter(stream, history, log, spark)
        half = len(records) // 2
        for number, part in enumerate((records[:half], records[half:])):
            frame = make_frame(spark, part).repartition(2)
            batch = MicroBatch("q", number, offsets=json.dumps({"x": {"0": number}}), rows=len(part))
            record = writer.ingest_frame(batch, frame)
            assert record is not None
            assert record.rows + record.bad == len(part)
        by_spark = writer.planner._spark_batches
    finally:
        history.close()
    tables = [pq.read_table(path) for path in sorted((Path(stream.folder) / QUARANTINE).glob("*.parquet"))]
    bad = sorted(json.dumps(row, sort_keys=True, default=str) for table in tables for row in table.to_pylist())
    reader = History(stream.folder)
    keys = (None, "k0", "k1", "k2")
    found = [reader.answer(i / 20, mode="exact", key=key).value for key in keys for i in range(1, 21)]
    return reader.n, found, bad, by_spark


@pytest.mark.parametrize("in_tasks", [False, True])
def test_store_and_quarantine_are_those_of_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_tasks: bool
) -> None:
    """Rows and bad rows are equal, whether the reader decodes records, or Spark, or Spark after the reader gave up."""
    good = [b'{"v":%d.5,"s":"k%d","t":"2026-01-01T00:00:%02d"}' % (i, i % 3, i % 60) for i in range(400)]
    bad = [b'{"v":1,"s":"k1"}', b'{"v":"x"}', b"\xff", None, b'{"v":2,"t":"2026-01-01T00:00:00","o":{}}']
    records = list[bytes | None](good)
    for i, record in enumerate(good[:200]):
        records[2 * i : 2 * i + 1] = [record, bad[i % 5]]
    if in_tasks:
        monkeypatch.setattr(read_plan, "MAX_TABLE_ROWS", 10)
    by_reader = ingest(spark, tmp_path / "reader", records)
    monkeypatch.setattr(batch_task, "MAX_REFUSED_BYTES", 100)
    gave_up = ingest(spark, tmp_path / "gave_up", records)
    monkeypatch.setattr(read_plan, "choose_reader", lambda *_: None)
    by_spark = ingest(spark, tmp_path / "spark", records)
    assert by_reader[:3] == gave_up[:3] == by_spark[:3]
    assert by_reader[0] == len(good) + 40
    assert len(by_spark[2]) == 160
    assert (by_reader[3], by_spark[3]) == (0, 0)
    assert gave_up[3] > 0
