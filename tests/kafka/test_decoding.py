"""Every format of records: Avro, Protobuf, CSV, numbers; good records and bad ones, all streams in one driver."""

import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from quantide import History
from quantide.config import read_config
from quantide.spark.stream.quarantine import show
from tests.kafka.broker import Broker
from tests.kafka.kafka_stage import KafkaStage

AVRO = {"type": "record", "name": "r", "fields": [{"name": "ms", "type": "double"}, {"name": "at", "type": "string"}]}
HUGE = b"\xb8\xfe\xff\xff\x0fx"  # the length of a text of 2 GB, and one character of it
FIELD = descriptor_pb2.FieldDescriptorProto
STREAMS = {
    "json": ('format = "json", schema = "ms DOUBLE, inner STRUCT<n: INT>, path STRING"', 'value = "ms"'),
    "double": ('format = "number"', 'value = "value"'),
    "avro": (f"format = \"avro\", schema = '{json.dumps(AVRO)}'", 'value = "ms"\nkeys = ["at"]'),
    "proto": (
        'format = "protobuf", descriptor_file = "events.desc", message = "shop.Latency"',
        'value = "inner.ms"\nkeys = ["kind"]\ntime = "ts"',
    ),
    "csv": ('format = "csv", schema = "ms DOUBLE, n BIGINT", options = { sep = ";" }', 'value = "ms * 2"'),
    "number": ('format = "number", tombstones = "skip"', 'value = "value"\nvalue_type = "int64"'),
}


def avro_record(ms: float, at: str) -> bytes:
    """Encode a record by hand: a double, then text with its length in zigzag."""
    return struct.pack("<d", ms) + bytes([2 * len(at)]) + at.encode()


def write_descriptors(path: Path) -> Any:
    """Write the descriptor file of a message with a nested message, an enum and a timestamp; return its class."""
    files = descriptor_pb2.FileDescriptorSet()
    stamp = files.file.add(name="google/protobuf/timestamp.proto", package="google.protobuf", syntax="proto3")
    times = stamp.message_type.add(name="Timestamp")
    times.field.add(name="seconds", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    times.field.add(name="nanos", number=2, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    shop = files.file.add(name="shop.proto", package="shop", syntax="proto3", dependency=[stamp.name])
    kind = shop.enum_type.add(name="Kind")
    kind.value.add(name="READ", number=0)
    kind.value.add(name="WRITE", number=1)
    inner = shop.message_type.add(name="Inner")
    inner.field.add(name="ms", number=1, type=FIELD.TYPE_DOUBLE, label=FIELD.LABEL_OPTIONAL)
    outer = shop.message_type.add(name="Latency")
    types = {"inner": ".shop.Inner", "ts": ".google.protobuf.Timestamp", "parent": ".shop.Latency"}
    for number, (name, kind_name) in enumerate(types.items(), 1):
        outer.field.add(
            name=name, number=number, type=FIELD.TYPE_MESSAGE, type_name=kind_name, label=FIELD.LABEL_OPTIONAL
        )
    outer.field.add(name="kind", number=4, type=FIELD.TYPE_ENUM, type_name=".shop.Kind", label=FIELD.LABEL_OPTIONAL)
    outer.field.add(name="tags", number=5, type=FIELD.TYPE_STRING, label=FIELD.LABEL_REPEATED)
    path.write_bytes(files.SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Latency"))


@pytest.mark.slow
def test_all_formats(broker: Broker, tmp_path: Path) -> None:
    message = write_descriptors(tmp_path / "events.desc")
    records = {
        "json": [
            *(b'{"ms": 1, "inner": {"n": 1}}', b' {"ms": 2}\r\n', b'{"ms": 3, "path": "}"}'),
            *(b'{"ms": 4} and more', b'{"ms": 5}\n{"ms": 6}', b'{"ms": 7},{"ms": 8}', b'{"ms": 9}] x'),
            *(b'{"ms": 10, "inner": {"n": "x"}}', b"\n", b"[" * 5000),
        ],
        "avro": [avro_record(1.5, "x"), avro_record(2.5, "y"), b"\x01", struct.pack("<d", 3.5) + HUGE],
        "proto": [
            message(inner={"ms": 4.0}, ts={"seconds": 1_700_000_000, "nanos": 5000}, kind=1, tags=["a"]),
            message(inner={"ms": 6.0}, ts={"seconds": 1_700_000_001}),
            b"\xff\xff",
        ],
        "csv": [b"1.5;7", b"2.5;8\r\n", b"oops;9", b"", b"\n", b"1;2\n3;4"],
        "number": [b" 12 ", b"9007199254740993", b"1.5", None],
        "double": [b"12\n", b"inf", b"3d", b"4.F", b"\xff"],
    }
    text = 'store = "data"\n'
    for name, (decode, settings) in STREAMS.items():
        topic = f"formats-{name}"
        broker.create(topic)
        values = [r if r is None or isinstance(r, bytes) else r.SerializeToString() for r in records[name]]
        broker.produce(topic, values)
        text += f'[streams.{name}]\nsource = {{ format = "kafka", servers = "{broker.servers}", topic = "{topic}", '
        text += f"decode = {{ {decode} }} }}\n{settings}\n"
    stage = KafkaStage(broker, tmp_path, "formats")
    stage.config.write_text(text)
    stage.ingest()

    def middle(name: str, key: str | None = None) -> float:
        return float(History(tmp_path / "data" / name).answer(0.5, mode="exact", key=key).value)

    assert (middle("avro", "x"), middle("avro", "y")) == (1.5, 2.5)
    assert (middle("proto", "WRITE"), middle("proto", "READ")) == (4.0, 6.0)
    assert middle("csv") == 3.0
    assert (History(tmp_path / "data" / "csv").n, History(tmp_path / "data" / "double").n) == (2, 2)
    decoded = History(tmp_path / "data" / "json")
    assert [decoded.quantile(i / 3, mode="exact") for i in (1, 2, 3)] == [1.0, 2.0, 3.0]
    assert History(tmp_path / "data" / "number").answer(1.0, mode="exact").value == 9007199254740993
    out = io.StringIO()
    show(read_config(stage.config), None, out, json=True, rows=10)
    streams = {stream["stream"]: stream["rows"] for stream in json.loads(out.getvalue())["streams"]}
    found = {
        (name, row["path"], example["line"], row["reason"], example["content"])
        for name, rows in streams.items()
        for row in rows
        for example in row["examples"]
    }
    assert found == {
        ("avro", "formats-avro-0", 2, "the record does not match the Avro schema", "\x01"),
        ("avro", "formats-avro-0", 3, "the record does not match the Avro schema", "AAAAAAAADEC4/v//D3g="),
        ("proto", "formats-proto-0", 2, "the record is not a message of the Protobuf type", "//8="),
        ("csv", "formats-csv-0", 2, "the column ms is not DOUBLE", "oops;9"),
        ("csv", "formats-csv-0", 3, "the record is empty", '{"ms": null}'),
        ("csv", "formats-csv-0", 4, "the record is empty", "\n"),
        ("csv", "formats-csv-0", 5, "the record has fewer or more columns than there should be", "1;2\n3;4"),
        ("double", "formats-double-0", 2, "the record is not a number", "3d"),
        ("double", "formats-double-0", 3, "the record is not a number", "4.F"),
        ("double", "formats-double-0", 4, "the record is not a number", "/w=="),
        ("json", "formats-json-0", 3, "there is something after the JSON value", '{"ms": 4} and more'),
        ("json", "formats-json-0", 4, "there is something after the JSON value", '{"ms": 5}\n{"ms": 6}'),
        ("json", "formats-json-0", 5, "there is something after the JSON value", '{"ms": 7},{"ms": 8}'),
        ("json", "formats-json-0", 6, "there is something after the JSON value", '{"ms": 9}] x'),
        ("json", "formats-json-0", 7, "the record does not match the schema", '{"ms": 10, "inner": {"n": "x"}}'),
        ("json", "formats-json-0", 8, "the record is empty", "\n"),
        ("json", "formats-json-0", 9, "the record is not JSON", "[" * 497 + "..."),
        ("number", "formats-number-0", 2, "the record is not a number", "1.5"),
    }


@pytest.mark.slow
def test_records_are_decoded_again(stage: KafkaStage) -> None:
    """After a change of `decode`, a retry decodes records of the quarantine as if they had just arrived."""
    json_decode = 'format = "json", schema = "ms DOUBLE", headers = ["region"]'
    stage.configure(f"decode = {{ {json_decode} }}", 'value = "ms"\nkeys = ["region"]')
    stage.broker.create(stage.topic, 1)
    records = [{"ms": 1.0}, b"2;eu", b"\xff\x00", None, b"3;us"]
    stage.broker.produce(stage.topic, records, key="k", headers={"region": "de"})
    stage.ingest()
    assert History(stage.store).n == 1
    assert stage.retry() == "s: 0 rows taken in; 0 files and 4 rows are still held\n"
    csv_decode = 'format = "csv", schema = "ms DOUBLE, zone STRING", options = { sep = ";" }, headers = ["region"]'
    stage.configure(f'decode = {{ {csv_decode}, tombstones = "skip" }}', 'value = "ms"\nkeys = ["region"]')
    assert stage.retry() == "s: 2 rows taken in; 0 files and 1 row are still held\n"
    history = History(stage.store)
    assert [history.quantile(i / 3, mode="exact", key="de") for i in (1, 2, 3)] == [1.0, 2.0, 3.0]
    ((path, line, content),) = [
        (group["path"], row["line"], row["content"]) for group in stage.quarantine() for row in group["examples"]
    ]
    assert (path, line, content) == (f"{stage.topic}-0", 2, "/wA=")
    stage.broker.produce(stage.topic, [b"4;eu"], headers={"region": "de"})
    stage.ingest()
    assert History(stage.store).n == 4
