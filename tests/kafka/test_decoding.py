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
FIELD = descriptor_pb2.FieldDescriptorProto
STREAMS = {
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
        "avro": [avro_record(1.5, "x"), avro_record(2.5, "y"), b"\x01"],
        "proto": [
            message(inner={"ms": 4.0}, ts={"seconds": 1_700_000_000, "nanos": 5000}, kind=1, tags=["a"]),
            message(inner={"ms": 6.0}, ts={"seconds": 1_700_000_001}),
            b"\xff\xff",
        ],
        "csv": [b"1.5;7", b"2.5;8", b"oops;9", b""],
        "number": [b" 12 ", b"9007199254740993", b"1.5", None],
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
    assert History(tmp_path / "data" / "number").answer(1.0, mode="exact").value == 9007199254740993
    out = io.StringIO()
    show(read_config(stage.config), None, out, json=True)
    streams = {stream["stream"]: stream["rows"] for stream in json.loads(out.getvalue())["streams"]}
    found = {
        (name, row["path"], example["line"], row["reason"], example["content"])
        for name, rows in streams.items()
        for row in rows
        for example in row["examples"]
    }
    assert found == {
        ("avro", "formats-avro-0", 2, "the record does not match the Avro schema", "\x01"),
        ("proto", "formats-proto-0", 2, "the record is not a message of the Protobuf type", "//8="),
        ("csv", "formats-csv-0", 2, "the column ms is not DOUBLE", "oops;9"),
        ("csv", "formats-csv-0", 3, "the record is empty", '{"ms": null}'),
        ("number", "formats-number-0", 2, "the record is not a number", "1.5"),
    }
