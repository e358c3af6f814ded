"""Raw records: Kafka records that Spark does not decode, and the choice of streams whose records a RecordReader can."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from quantide.config import StreamConfig
from quantide.kernels import json_scan
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.file_layouts import parse_schema
from quantide.spark.stream.kafka_records import METADATA_TYPES, metadata_columns, without_tombstones
from quantide.spark.stream.record_reader import RAW, RAW_COLUMNS, RecordReader
from quantide.spark.stream.row_origin import CORRUPT

KINDS = {  # of fields, by the name of their type in Spark
    "double": json_scan.DOUBLE,
    "bigint": json_scan.BIGINT,
    "int": json_scan.INT,
    "string": json_scan.STRING,
    "boolean": json_scan.BOOLEAN,
    "timestamp": json_scan.TIMESTAMP,
}


def choose_reader(stream: StreamConfig, selection: ColumnSelection) -> RecordReader | None:
    """Return the reader of a stream; None if only Spark can decode its records or compute its expressions."""
    decode = stream.source.decode
    if decode is None or decode.format != "json" or decode.options or decode.headers or selection.timezone != "UTC":
        return None
    columns = _plain_columns(decode.schema)
    if columns is None:
        return None
    schema = to_arrow_schema(columns, timezone="UTC")
    every = pa.schema([*schema, *to_arrow_schema(parse_schema(METADATA_TYPES), timezone="UTC")])
    if not selection.is_plain(every):
        return None
    kinds = tuple(KINDS[column.dataType.simpleString()] for column in columns)
    return RecordReader(schema, kinds, tuple(selection.used_columns(every.names)))


def _plain_columns(ddl: str) -> StructType | None:
    """Return the fields of records; None if one has a type, or a property, that only Spark reads."""
    try:
        columns = parse_schema(ddl)
    except PySparkException:  # check_decode() raises it with its reason
        return None
    names = [name.lower() for name in columns.names]
    is_plain = all(column.dataType.simpleString() in KINDS and not column.metadata for column in columns)
    return columns if is_plain and len(set(names)) == len(names) and CORRUPT not in names else None


def select_raw(frame: DataFrame, stream: StreamConfig, reader: RecordReader) -> DataFrame:
    """Select the raw records of Spark's Kafka source, and the metadata that the reader needs."""
    decode = stream.source.decode
    if decode is not None and decode.tombstones == "skip":
        frame = without_tombstones(frame)
    metadata = [column.alias(name) for name, column in metadata_columns().items() if name in reader.used]
    return frame.select(*(F.col(name).alias(RAW + name) for name in RAW_COLUMNS), *metadata)
