"""Protobuf messages: decoded in Python by a descriptor file, so that Spark needs no further package.

`protoc --include_imports --descriptor_set_out=FILE` writes the file. Fields become columns of the same names: numbers,
text, bytes and booleans as they are, enums as text, Timestamp as a timestamp, messages as structs. Repeated fields and
maps are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from quantide.errors import ConfigError

NANOSECONDS, MICROSECONDS = 1_000, 1_000_000  # in a microsecond; in a second
TIMESTAMP = "google.protobuf.Timestamp"
TYPES = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}


@dataclass(frozen=True)
class MessageReader:
    """Reader of messages of a type; it is sent to the tasks as the bytes of its descriptor file."""

    descriptors: bytes
    message: str

    @classmethod
    def of(cls, path: str, message: str) -> "MessageReader":
        """Read a descriptor file; raise ConfigError if it has no such message."""
        try:
            with open(path, "rb") as file:
                reader = cls(file.read(), message)
            reader._descriptor  # noqa: B018 - it is read once, for its errors
        except (OSError, DecodeError, TypeError) as error:
            raise ConfigError(
                f"{path} is not a Protobuf descriptor file: {error}; write it with protoc --include_imports "
                f"--descriptor_set_out={path}"
            ) from error
        except KeyError as error:
            raise ConfigError(
                f"{path} has no message {message!r}; write its full name, with its package, as source.decode.message"
            ) from error
        return reader

    @property
    def _descriptor(self) -> Descriptor:
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(self.descriptors).file:
            pool.Add(file)
        return pool.FindMessageTypeByName(self.message)

    @property
    def names(self) -> list[str]:
        return [field.name for field in _columns(self._descriptor)]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, _type_of(field)) for field in _columns(self._descriptor)])

    def decoder(self) -> "MessageDecoder":
        return MessageDecoder(self._descriptor)


class MessageDecoder:
    """Decodes values of a batch into columns."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._columns = _columns(descriptor)
        self._class: Any = message_factory.GetMessageClass(descriptor)

    def decode(self, values: list[bytes | None]) -> tuple[list[pa.Array], pa.Array]:
        """Return the columns of messages, null where a value is no message, and a mask of those that are."""
        messages = [self._parse(value) for value in values]
        columns = [
            pa.array([None if m is None else _read(m, field) for m in messages], _type_of(field))
            for field in self._columns
        ]
        return columns, pa.array([None if message is None else True for message in messages], pa.bool_())

    @cached_property
    def _parse(self) -> Any:
        def parse(value: bytes | None) -> Any:
            try:
                return None if value is None else self._class.FromString(value)
            except DecodeError:
                return None

        return parse


def decode_messages(frame: DataFrame, record: str, reader: MessageReader, mark: str) -> DataFrame:
    """Add the columns of the messages in the column `record`, and a column `mark`: True for a decoded one."""
    added = pa.schema([*reader.schema, pa.field(mark, pa.bool_())])

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = reader.decoder()
        for batch in batches:
            columns, is_decoded = decoder.decode(batch.column(record).to_pylist())
            names = [*batch.schema.names, *added.names]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns, is_decoded], names=names)

    schema = StructType([*frame.schema.fields, *from_arrow_schema(added).fields])
    return frame.mapInArrow(decode, schema)


def _columns(descriptor: Descriptor) -> list[FieldDescriptor]:
    """Return the fields that become columns; of a message within itself only the outer ones do."""
    return [field for field in descriptor.fields if not field.is_repeated and not _is_nested(field)]


def _is_nested(field: FieldDescriptor) -> bool:
    message = field.message_type
    seen = field.containing_type
    return message is not None and message.full_name != TIMESTAMP and _contains(message, seen, set())


def _contains(message: Descriptor, other: Descriptor, seen: set[str]) -> bool:
    """Return True if a message has a field of type `other` at some depth, or contains itself."""
    if message.full_name == other.full_name or message.full_name in seen:
        return True
    inner = [field.message_type for field in message.fields if field.message_type is not None and not field.is_repeated]
    return any(_contains(child, other, seen | {message.full_name}) for child in inner if child.full_name != TIMESTAMP)


def _type_of(field: FieldDescriptor) -> pa.DataType:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return pa.timestamp("us", "UTC")
        return pa.struct([pa.field(inner.name, _type_of(inner)) for inner in _columns(field.message_type)])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary()
    return TYPES[field.cpp_type]


def _read(message: Any, field: FieldDescriptor) -> Any:
    """Return the value of a field; None for one that tells whether it is set, and is not."""
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return value.seconds * MICROSECONDS + value.nanos // NANOSECONDS
        return {inner.name: _read(value, inner) for inner in _columns(field.message_type)}
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
