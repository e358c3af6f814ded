"""Kafka records: decoding of their values, keys and headers into columns, and the origin of each row.

Spark decodes JSON, CSV, Avro and numbers; Python decodes Protobuf. A record that cannot be decoded becomes a bad row
with its content as text, or as base64 if it is no text, and with the whole record, which can be decoded again. The
origin of a row is its partition, written as Kafka does ("latency-0"), and its offset.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from quantide.config import Decode, StreamConfig
from quantide.config.kafka_source import METADATA
from quantide.errors import ConfigError
from quantide.spark.row_source import quote_name
from quantide.spark.stream.column_matching import as_sentence, column_missing
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.file_layouts import parse_schema
from quantide.spark.stream.row_origin import CORRUPT, LINE, RAW_RECORD, SOURCE_FILE, RowOrigin, find_error_columns

RECORD, DECODED, EMPTY = "=record", "=decoded", "=empty"  # the value, the decoded value, True for an empty value
KEY, HEADERS = "=key", "=headers"  # of the record, as bytes
FAILURE, FAULTY_COLUMN = "=failure", "=faulty"  # the reason why a record cannot be decoded, and the column at fault
MARK = "_quantide_decoded"  # field of an Avro record that was decoded
TOMBSTONE = "the record has no value (a tombstone)"
NO_CONTENT = "the record is empty"
NOT_TEXT = "the record is not UTF-8"
NOT_NUMBER = "the record is not a number"
NOT_AVRO = "the record does not match the Avro schema"
NOT_PROTOBUF = "the record is not a message of the Protobuf type"
PERMISSIVE = {"mode": "PERMISSIVE"}
NO_TIMESTAMP = -1  # milliseconds, of a record that was produced without any
MISMATCH = "the record does not match the schema"
SEVERAL_VALUES = "there is something after the JSON value"
END = "=end"  # an element after the record, to see that the record is one JSON value
BLANKS = " \t\r\n"
JAVA_SUFFIX = "[0-9.][dDfF]$"  # of numbers in the source code of Java, which Spark accepts
RAW_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp BIGINT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
METADATA_TYPES = (
    "kafka_key STRING, kafka_timestamp TIMESTAMP, kafka_topic STRING, kafka_partition INT, kafka_offset BIGINT"
)
NUMBER_TYPES = {"int64": "BIGINT", "int32": "BIGINT", "int16": "BIGINT", "int8": "BIGINT"}  # by value_type


def decode_records(frame: DataFrame, stream: StreamConfig) -> tuple[DataFrame, RowOrigin]:
    """Return the columns of records, and their origin with the reason why a record cannot be decoded."""
    decode = stream.source.decode
    assert decode is not None
    if decode.tombstones == "skip":
        frame = without_tombstones(frame)
    frame = frame.select(*_record_columns(decode.headers))
    rows, reason, column = DECODERS[decode.format](frame, decode, stream)
    rows = rows.withColumns(
        {FAILURE: F.when(F.col(RECORD).isNull(), F.lit(TOMBSTONE)).otherwise(reason), FAULTY_COLUMN: column}
    )
    failed = F.col(FAILURE).isNotNull()
    rows = rows.withColumn(CORRUPT, F.when(failed, F.coalesce(_as_text(F.col(RECORD)), F.lit(""))))
    faulty = F.when(failed, F.col(FAULTY_COLUMN))
    raw = F.when(failed, _pack_record(bool(decode.headers))).alias(RAW_RECORD)
    return rows, RowOrigin((*record_origin("kafka_").columns, raw), (F.col(FAILURE),), (faulty,))


def without_tombstones(frame: DataFrame) -> DataFrame:
    return frame.where(F.col("value").isNotNull())


def _pack_record(has_headers: bool) -> Column:
    """Return a record as JSON, with its bytes in base64."""
    fields = [F.col(KEY).alias("key"), F.col(RECORD).alias("value")]
    fields += [F.col(f"kafka_{name}").alias(name) for name in ("topic", "partition", "offset")]
    fields.append(F.unix_micros("kafka_timestamp").alias("timestamp"))
    return F.to_json(F.struct(*fields, *([F.col(HEADERS).alias("headers")] if has_headers else [])))


def unpack_records(frame: DataFrame) -> DataFrame:
    """Return records of the quarantine in the columns of Spark's Kafka source."""
    record = F.from_json(RAW_RECORD, RAW_SCHEMA, {"maxStringLen": str(2**31 - 1)})
    names = ("key", "value", "topic", "partition", "offset", "headers")
    time = F.timestamp_micros(F.col(DECODED)["timestamp"]).alias("timestamp")
    return frame.select(record.alias(DECODED)).select(*(F.col(DECODED)[name].alias(name) for name in names), time)


def record_origin(prefix: str = "") -> RowOrigin:
    """Return the origin of records whose metadata are in columns with a prefix."""
    partition = F.concat_ws("-", prefix + "topic", prefix + "partition")
    return RowOrigin((partition.alias(SOURCE_FILE), F.col(prefix + "offset").alias(LINE)))


def _record_columns(headers: Sequence[str]) -> list[Column]:
    """Return the metadata of a record, its headers as text, and its value."""
    columns = [column.alias(name) for name, column in metadata_columns().items()]
    for name in headers:  # the last one of that name counts
        same = F.filter("headers", _has_name(name))
        columns.append(_as_text(F.try_element_at(same, F.lit(-1))["value"]).alias(name))
    raw = [F.col("value").alias(RECORD), F.col("key").alias(KEY)]
    return [*columns, *raw, *([F.col("headers").alias(HEADERS)] if headers else [])]


def metadata_columns() -> dict[str, Column]:
    """Return the metadata of a record, by the names of their columns."""
    return {
        "kafka_key": _as_text(F.col("key")),
        "kafka_timestamp": F.when(F.unix_millis("timestamp") != NO_TIMESTAMP, F.col("timestamp")),
        "kafka_topic": F.col("topic"),
        "kafka_partition": F.col("partition"),
        "kafka_offset": F.col("offset"),
    }


def _has_name(name: str) -> Any:
    return lambda header: header["key"] == F.lit(name)


def _as_text(value: Column) -> Column:
    """Return bytes as text, or as base64 if they are not UTF-8."""
    return F.when(F.is_valid_utf8(value.cast("string")), value.cast("string")).otherwise(F.base64(value))


def _decode_lines(frame: DataFrame, decode: Decode, stream: StreamConfig) -> tuple[DataFrame, Column, Column]:
    """Decode JSON or CSV; Spark puts a record that it cannot parse into the corrupt column."""
    schema = parse_schema(decode.schema)
    function = F.from_json if decode.format == "json" else F.from_csv
    options = {**decode.options, **PERMISSIVE, "columnNameOfCorruptRecord": CORRUPT}
    is_text = F.is_valid_utf8(F.col(RECORD).cast("string"))
    text = F.rtrim(F.when(is_text, F.col(RECORD).cast("string")), F.lit("\r\n"))
    parsed = function(text, f"{decode.schema}, {quote_name(CORRUPT)} STRING", options)
    rows = frame.select("*", parsed.alias(DECODED)).select(
        *(quote_name(name) for name in frame.columns),
        *(F.col(DECODED)[name].alias(name) for name in schema.names),
        F.col(DECODED)[CORRUPT].alias(CORRUPT),
        (F.col(DECODED).isNull() | (F.length(F.trim(text, F.lit(BLANKS))) == 0)).alias(EMPTY),
    )
    (reason,), (column,) = find_error_columns(decode.format, schema, decode.options, "record")
    reason = F.when(F.col(CORRUPT).isNotNull(), F.coalesce(reason, F.lit(MISMATCH)))
    if decode.format == "json":
        reason = reason.when(_has_more(text, decode.options), F.lit(SEVERAL_VALUES))
    return rows, F.when(~is_text, F.lit(NOT_TEXT)).when(F.col(EMPTY), F.lit(NO_CONTENT)).otherwise(reason), column


def _has_more(text: Column, options: Mapping[str, str]) -> Column:
    """Return True for a JSON value that is followed by something, which Spark ignores.

    A flat object ends at its first brace. Any other record becomes an element of an array, with one more after it.
    """
    trimmed = F.rtrim(text, F.lit(BLANKS))
    array = F.from_json(F.concat(F.lit("["), text, F.lit(f'\n,"{END}"]')), "ARRAY<STRING>", {**options, **PERMISSIVE})
    is_single = (F.size(array) == 2) & (F.try_element_at(array, F.lit(2)) == F.lit(END))
    return F.when(F.locate("}", trimmed) == F.length(trimmed), F.lit(False)).otherwise(
        ~F.coalesce(is_single, F.lit(False))
    )


def _decode_number(frame: DataFrame, decode: Decode, stream: StreamConfig) -> tuple[DataFrame, Column, Column]:
    kind = NUMBER_TYPES.get(stream.value_type or "", "DOUBLE")
    text = F.trim(F.col(RECORD).cast("string"), F.lit(BLANKS))
    rows = frame.withColumn("value", F.when(~text.rlike(JAVA_SUFFIX), text.try_cast(kind)))
    return rows, F.when(F.col("value").isNull(), F.lit(NOT_NUMBER)), F.lit("value")


def _decode_avro(frame: DataFrame, decode: Decode, stream: StreamConfig) -> tuple[DataFrame, Column, Column]:
    """Decode Avro. A record gets one more field, whose default value shows that it was decoded."""
    schema = json.loads(decode.schema)
    if not (isinstance(schema, dict) and schema.get("type") == "record"):
        value = from_avro(F.col(RECORD), decode.schema, PERMISSIVE)
        rows = frame.withColumn("value", value)
        return rows, F.when(F.col("value").isNull(), F.lit(NOT_AVRO)), F.lit("value")
    marked = {**schema, "fields": [*schema["fields"], {"name": MARK, "type": "boolean", "default": True}]}
    parsed = from_avro(F.col(RECORD), decode.schema, {**PERMISSIVE, "avroSchema": json.dumps(marked)})
    rows = frame.select("*", parsed.alias(DECODED)).select(
        *(quote_name(name) for name in frame.columns),
        *(F.col(DECODED)[field["name"]].alias(field["name"]) for field in schema["fields"]),
        F.col(DECODED)[MARK].alias(MARK),
    )
    return rows, F.when(F.col(MARK).isNull(), F.lit(NOT_AVRO)), F.lit("")


def _decode_protobuf(frame: DataFrame, decode: Decode, stream: StreamConfig) -> tuple[DataFrame, Column, Column]:
    from quantide.spark.stream.protobuf_messages import MessageReader, decode_messages

    reader = MessageReader.of(decode.descriptor_file, decode.message)
    rows = decode_messages(frame, RECORD, reader, MARK)
    return rows, F.when(F.col(MARK).isNull(), F.lit(NOT_PROTOBUF)), F.lit("")


DECODERS = {
    "json": _decode_lines,
    "csv": _decode_lines,
    "number": _decode_number,
    "avro": _decode_avro,
    "protobuf": _decode_protobuf,
}


def check_decode(stream: StreamConfig, selection: ColumnSelection) -> None:
    """Raise ConfigError if decoded records lack the columns of value, time or keys, or have a column twice."""
    decode = stream.source.decode
    if decode is None:
        return
    fields, extra = decoded_names(stream, decode), [*METADATA, *decode.headers]
    lower = [name.lower() for name in extra]
    taken = [name for name in fields if name.lower() in lower]
    if taken:
        raise ConfigError(
            f"{stream.key}.source.decode: the records have a field {taken[0]}, and so have the columns of metadata and "
            "headers; rename the field, or leave the header out"
        )
    missing = selection.missing_columns([*fields, *extra])
    if missing:
        reason = as_sentence(column_missing(missing[0], [*fields, *extra]))
        raise ConfigError(f"{stream.key}.source.decode: {reason} Correct the schema or the name of the column")


def decoded_names(stream: StreamConfig, decode: Decode) -> list[str]:
    """Return the columns of decoded values."""
    if decode.format == "number":
        return ["value"]
    if decode.format == "protobuf":
        from quantide.spark.stream.protobuf_messages import MessageReader

        return MessageReader.of(decode.descriptor_file, decode.message).names
    if decode.format == "avro":
        schema = json.loads(decode.schema)
        is_record = isinstance(schema, dict) and schema.get("type") == "record"
        return [field["name"] for field in schema["fields"]] if is_record else ["value"]
    try:
        return list(parse_schema(decode.schema).names)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{stream.key}.source.decode.schema is {decode.schema!r}, which is not a list of columns: {reason}. Write "
            '"latency_ms DOUBLE, ts TIMESTAMP"'
        ) from error
