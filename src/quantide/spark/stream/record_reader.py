"""Record reader: decodes JSON records of Kafka in Python tasks, so that only bytes cross from the JVM.

It decodes flat objects of a plain form (kernels/json_scan.py) exactly as Spark does, and refuses all other records:
Spark decodes those, and finds the reason if one is bad.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.kernels import json_scan
from quantide.kernels.jit import freeze
from quantide.spark.stream.row_origin import CORRUPT, LINE, SOURCE_FILE
from quantide.typing import Bools, Bytes, Ints

RAW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")  # of Spark's Kafka source
RAW_TYPES = (pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"))
RAW = "="  # prefix of raw columns


@dataclass(frozen=True)
class RecordReader:
    """Reads tables of raw records; `schema` has the fields of a record, `used` the columns that a stream needs."""

    schema: pa.Schema
    kinds: tuple[int, ...]
    used: tuple[str, ...]

    def row_schema(self, raw: pa.Schema) -> pa.Schema:
        """Return the types of decoded rows, given those of raw records."""
        columns = [(self.schema if name in self.schema.names else raw).field(name) for name in self.used]
        return pa.schema([*columns, (CORRUPT, pa.string()), (SOURCE_FILE, pa.string()), (LINE, pa.int64())])

    def read(self, table: pa.Table) -> tuple[pa.Table, list[str]]:
        """Return decoded rows, and the records that are refused, as JSON."""
        batches, refused = [], list[str]()
        for batch in table.to_batches():
            rows, accepted = self._decode(batch)
            if not accepted.all():
                rows = rows.filter(pa.array(accepted))
                refused += _pack_records(batch.filter(pa.array(~accepted)))
            batches.append(rows)
        return pa.Table.from_batches(batches, self.row_schema(table.schema)), refused

    def _decode(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Bools]:
        """Return a row for each record, and a mask of those that are decoded."""
        values = batch.column(RAW + "value").cast(pa.binary())
        data, offsets = _binary_buffers(values)
        accepted, shape = values.is_valid().to_numpy(zero_copy_only=False), (len(self.schema), len(values))
        starts, ends, scanned = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(len(values), np.bool_)
        names = [name.encode() for name in self.schema.names]
        name_ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        all_names, kinds = freeze(np.frombuffer(b"".join(names), np.uint8)), np.array(self.kinds, np.int64)
        json_scan.scan_objects(data, offsets, all_names, name_ends, kinds, not _is_text(values), starts, ends, scanned)
        accepted = accepted & scanned
        fields = {}
        for name, kind, first, last in zip(self.schema.names, self.kinds, starts, ends, strict=True):
            if kind == json_scan.TIMESTAMP:  # also of a column that is not used: its record may be bad
                fields[name] = _read_times(data, first, last, accepted)
            elif name in self.used:
                fields[name] = _read_field(data, first, last, self.schema.field(name).type)
        return self._make_rows(batch, fields), accepted

    def _make_rows(self, batch: pa.RecordBatch, fields: dict[str, pa.Array]) -> pa.RecordBatch:
        """Return rows with the used columns and their origin."""
        columns = [fields[name] if name in fields else batch.column(name) for name in self.used]
        topic, partition = batch.column(RAW + "topic"), batch.column(RAW + "partition").cast(pa.string())
        origin = pc.binary_join_element_wise(topic.cast(pa.string()), partition, "-")
        corrupt = pa.nulls(len(batch), pa.string())
        arrays = [*columns, corrupt, origin, batch.column(RAW + "offset")]
        return pa.RecordBatch.from_arrays(arrays, schema=self.row_schema(batch.schema))


def _is_text(values: pa.Array) -> bool:
    """Return True if all values are UTF-8."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _binary_buffers(values: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of an array, and the offsets of its values in them."""
    _, offsets, data = values.buffers()
    numbers = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1] if offsets else [0]
    return freeze(np.frombuffer(data or b"", np.uint8)), np.array(numbers, dtype=np.int64)


def _read_field(data: Bytes, starts: Ints, ends: Ints, kind: pa.DataType) -> pa.Array:
    """Return a field as an array of a type; Arrow converts the text of numbers."""
    present = starts != json_scan.NO_FIELD
    out = np.empty(int((ends - starts)[present].sum()), np.uint8)
    offsets = np.empty(len(starts) + 1, np.int64)
    json_scan.gather_fields(data, starts, ends, out, offsets)
    buffers = [pa.array(present).buffers()[1], pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(starts), buffers).cast(kind)


def _read_times(data: Bytes, starts: Ints, ends: Ints, accepted: Bools) -> pa.Array:
    """Return times; records whose time has another form are not accepted any more."""
    micros = np.empty(len(starts), np.int64)
    json_scan.parse_times(data, starts, ends, micros, accepted)
    return pa.array(micros, pa.timestamp("us", "UTC"), mask=starts == json_scan.NO_FIELD)


def _pack_records(batch: pa.RecordBatch) -> list[str]:
    """Return raw records as JSON, as kafka_records.unpack_records() reads it."""
    columns: dict[str, list[Any]] = {}
    for name in RAW_COLUMNS:
        column = batch.column(RAW + name)
        columns[name] = (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [json.dumps({name: _as_json(value) for name, value in record.items()}) for record in records]


def _as_json(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def load_reader() -> None:
    """Load the machine code of readers."""
    columns = [[None], [b'{"v":1,"t":"2026-01-01T00:00:00Z"}'], ["x"], [0], [0], [0]]
    raw = pa.table([pa.array(*pair) for pair in zip(columns, RAW_TYPES, strict=True)], [RAW + n for n in RAW_COLUMNS])
    schema = pa.schema([("v", pa.float64()), ("t", pa.timestamp("us", "UTC"))])
    RecordReader(schema, (json_scan.DOUBLE, json_scan.TIMESTAMP), ("v", "t")).read(raw)
