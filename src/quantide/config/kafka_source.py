"""Kafka sources: brokers, topics and the decoding of records, as keys of a source instead of options of Spark."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quantide.config.storage_options import resolve_text
from quantide.config.toml_table import ConfigTable, format_value
from quantide.errors import ConfigError, InvalidArgumentError

KAFKA = "kafka"
SERVERS, SUBSCRIBE, PATTERN = "kafka.bootstrap.servers", "subscribe", "subscribePattern"
METADATA = ("kafka_key", "kafka_timestamp", "kafka_topic", "kafka_partition", "kafka_offset")
"""Columns of a decoded record beside its own."""
FORMATS = ("json", "avro", "protobuf", "csv", "number")
DDL_FORMATS = ("json", "csv")
TOMBSTONES = ("quarantine", "skip")
DATA_LOSS = ("fail", "continue")
EARLIEST = "earliest"
STARTS = (EARLIEST, "latest")
OFFSETS = '{"latency":{"0":17}}'  # of a topic and its partition, as an example
RESERVED = {  # options of Spark that a key of the source sets, by lower-case name
    "failondataloss": "on_data_loss",
    "startingoffsets": "start",
    "maxoffsetspertrigger": "max_rows",
}
_SECRET = re.compile(r"password|secret|jaas|token|\.key$|ssl\.keystore\.key", re.IGNORECASE)
_SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s,:/]+):[0-9]{1,5}")


@dataclass(frozen=True)
class Decode:
    """Decoding of a record's value into columns: a format, the columns, and headers that become columns."""

    format: str
    schema: str = ""
    """Columns for JSON and CSV; the schema in JSON for Avro."""
    descriptor_file: str = ""
    message: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    tombstones: str = "quarantine"


def take_former_options(options: dict[str, str]) -> dict[str, str]:
    """Remove options of Spark that were allowed before there were keys for them; return those keys."""
    former = {name: options.pop(name) for name in ("failOnDataLoss", "startingOffsets") if name in options}
    keys = {"on_data_loss": DATA_LOSS[former["failOnDataLoss"] == "false"]} if "failOnDataLoss" in former else {}
    return keys | ({"start": former["startingOffsets"]} if "startingOffsets" in former else {})


def parse_start(value: Any) -> str:
    """Return where a stream begins: "earliest", "latest", or offsets in JSON by topic and partition."""
    if value in STARTS:
        return str(value)
    try:
        offsets = json.loads(value)
        if not [int(number) for partitions in offsets.values() for number in partitions.values()]:
            raise ValueError("it has no offsets")
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f'give "earliest", "latest", or offsets in JSON by topic and partition, such as \'{OFFSETS}\' ({error})'
        ) from error
    return str(value)


def parse_kafka_options(table: ConfigTable, options: dict[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source, with servers and topics, and with secrets from the environment."""
    for name in options:
        if name.lower() in RESERVED:
            raise ConfigError(
                f"{table.key('options')}.{name} is set by {table.key(RESERVED[name.lower()])}; write it there"
            )
    resolved = {
        name: resolve_text(f"{table.key('options')}.{name}", name, v, is_kafka_secret(name))
        for name, v in options.items()
    }
    servers = table.text("servers", '"broker:9092"', needed=SERVERS not in options)
    if servers is not None:
        _reject_twice(table, options, "servers", SERVERS)
        if not all(_SERVER.fullmatch(server.strip()) for server in servers.split(",")):
            raise ConfigError(
                f"{table.key('servers')} is {format_value(servers)}; write host:port, and a comma between several"
            )
        resolved[SERVERS] = servers
    return resolved | _parse_topics(table, options)


def _parse_topics(table: ConfigTable, options: Mapping[str, str]) -> dict[str, str]:
    """Return the option that selects topics: `topic`, a name or a list of names, or `topic_pattern`."""
    topic, pattern = table.get("topic"), table.text("topic_pattern", '"latency-.*"')
    by_option = [name for name in (SUBSCRIBE, PATTERN, "assign") if name in options]
    given = [name for name, value in (("topic", topic), ("topic_pattern", pattern)) if value is not None]
    if len(given) + len(by_option) > 1:
        names = [table.key(name) for name in given] + [f"{table.key('options')}.{name}" for name in by_option]
        raise ConfigError(f"{' and '.join(names)} both select topics; leave one out")
    if not given and not by_option:
        raise table.missing("topic", '"latency"')
    if pattern is not None:
        return {PATTERN: pattern}
    if topic is None:
        return {}
    names = [topic] if isinstance(topic, str) else topic
    is_list = isinstance(names, list) and bool(names)
    if not is_list or not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigError(f'{table.key("topic")} is {format_value(topic)}; write "latency", or ["latency", "orders"]')
    if any("," in name for name in names):
        raise ConfigError(f'{table.key("topic")} has a comma; write a list: ["latency", "orders"]')
    return {SUBSCRIBE: ",".join(names)}


def _reject_twice(table: ConfigTable, options: Mapping[str, str], name: str, option: str) -> None:
    if option in options:
        raise ConfigError(f"{table.key(name)} and {table.key('options')}.{option} are the same setting; leave one out")


def is_kafka_secret(name: str) -> bool:
    """Return True if an option of this name has a value that must not be shown.

    >>> [is_kafka_secret(f"kafka.{name}") for name in ("sasl.jaas.config", "ssl.key.password", "sasl.mechanism")]
    [True, True, False]
    """
    return _SECRET.search(name) is not None


def parse_decode(
    table: ConfigTable | None, base: str, parse_options: Callable[[ConfigTable | None], dict[str, str]]
) -> Decode | None:
    """Return the decoding of records; None if rows are those of Spark's Kafka source. Paths begin at `base`."""
    if table is None:
        return None
    form = table.choice("format", FORMATS)
    if table.get("format") is None:
        raise table.missing("format", '"json"')
    schema = _parse_schema(table, form, base)
    descriptor = table.text("descriptor_file", '"events.desc"', needed=form == "protobuf")
    message = table.text("message", '"shop.Latency"', needed=form == "protobuf")
    options = parse_options(table.table("options", 'write options of the format, such as { sep = ";" }'))
    headers = _parse_headers(table)
    tombstones = table.choice("tombstones", TOMBSTONES)
    table.reject_unknown_keys()
    for name, forms in (("descriptor_file", ("protobuf",)), ("message", ("protobuf",)), ("options", DDL_FORMATS)):
        if table.get(name) is not None and form not in forms:
            raise ConfigError(f'{table.key(name)} is of no use with format = "{form}"; leave it out')
    path = _find_file(table, "descriptor_file", descriptor, base) if descriptor else ""
    return Decode(form, schema, path, message or "", options, headers, tombstones)


def _parse_schema(table: ConfigTable, form: str, base: str) -> str:
    """Return the columns of JSON or CSV, or the JSON of an Avro schema, which may be in a file."""
    schema = table.text("schema", '"latency_ms DOUBLE, ts TIMESTAMP"', needed=form in DDL_FORMATS)
    file = table.text("schema_file", '"latency.avsc"')
    if form not in (*DDL_FORMATS, "avro") and schema is not None:
        raise ConfigError(f'{table.key("schema")} is of no use with format = "{form}"; leave it out')
    if form != "avro":
        if file is not None:
            raise ConfigError(f'{table.key("schema_file")} is of no use with format = "{form}"; leave it out')
        return schema or ""
    if (schema is None) == (file is None):
        raise ConfigError(
            f"{table.name} needs the Avro schema: write either schema = '{{...}}' or schema_file = \"...\""
        )
    key = table.key("schema" if file is None else "schema_file")
    if file is not None:
        with open(_find_file(table, "schema_file", file, base), encoding="utf-8") as opened:
            schema = opened.read()
    return _check_avro(key, schema or "")


def _check_avro(key: str, schema: str) -> str:
    try:
        json.loads(schema)
    except ValueError as error:
        raise ConfigError(f"{key} is not JSON: {error}; write an Avro schema") from error
    return schema


def _find_file(table: ConfigTable, name: str, path: str, base: str) -> str:
    full = os.path.normpath(os.path.join(base, path))
    if not os.path.isfile(full):
        raise ConfigError(f"{table.key(name)}: there is no file {full}; correct the path")
    return full


def _parse_headers(table: ConfigTable) -> tuple[str, ...]:
    value: Any = table.get("headers")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
        raise ConfigError(
            f'{table.key("headers")} is {format_value(value)}; write a list, such as headers = ["region"]'
        )
    taken = [name for name in value if name in METADATA or value.count(name) > 1]
    if taken:
        raise ConfigError(f"{table.key('headers')}: the column {taken[0]} is there already; leave it out")
    return tuple(value)
