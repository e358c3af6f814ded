"""Configuration file: reading and checking all of it; errors name the key and say what to write instead."""

import math
import os
import re
import tomllib
from fractions import Fraction
from functools import partial
from typing import Any

from quantide.config.server_config import parse_server
from quantide.config.stream_config import BUILT_IN, FILES, Config, Source, Step, StreamConfig
from quantide.config.toml_table import ConfigTable, find_similar, format_value
from quantide.errors import ConfigError, InvalidArgumentError
from quantide.store.store_settings import StoreSettings, format_max_ahead, parse_size
from quantide.summary.ranks import DEFAULT, check_eps, check_tail
from quantide.summary.value_types import type_named
from quantide.windows.time_clock import read_span, show_span

SCHEMA_NEEDED = set(FILES) - {"parquet", "orc", "avro", "text"}  # formats whose files do not contain their columns
STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
FILTER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
LATE_CHOICES = ("keep", "quarantine")
TIME_UNITS = ("s", "ms", "us", "ns")
RESERVED_OPTIONS = {"path": "path", "maxFilesPerTrigger": "max_files", "maxBytesPerTrigger": "max_bytes"}
QUARANTINE_OPTIONS = {  # options of Spark that would hide bad records from the quarantine
    "mode": "lines that Spark cannot read go to the quarantine; streams.NAME.bad_records decides about them",
    "columnnameofcorruptrecord": "the quarantine needs that column",
    "ignorecorruptfiles": "files that Spark cannot read go to the quarantine",
}
TIME_ZONE = "spark.sql.session.timeZone"
STREAM_HINT = "write its settings below a line [streams.latency]"


def read_config(path: str | os.PathLike[str]) -> Config:
    """Read and check a configuration file; relative paths in it start at its folder."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}; name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} is not TOML: {error}") from error
    try:
        return _parse_config(ConfigTable(values, "", "write a TOML file"), os.path.abspath(name))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _parse_config(top: ConfigTable, path: str) -> Config:
    base = os.path.dirname(path)
    store = os.path.normpath(os.path.join(base, top.text("store", '"data"', needed=True) or ""))
    tables = top.table("streams", STREAM_HINT)
    spark = _parse_spark(top.table("spark", 'write settings of Spark, such as "spark.jars.packages" = "..."'))
    server = top.table("server", "write its settings below a line [server]")
    top.reject_unknown_keys()
    named_tables = tables.items() if tables else []
    if tables is None or not named_tables:
        raise ConfigError(f"streams is missing: there is nothing to do; {STREAM_HINT}")
    streams = {
        name: _parse_stream(name, ConfigTable(values, f"streams.{name}", STREAM_HINT), store, base)
        for name, values in named_tables
    }
    for stream in streams.values():
        _check_format(stream, spark)
    lower_names = [name.lower() for name in streams]
    for name in streams:
        if lower_names.count(name.lower()) > 1:
            raise ConfigError(f"streams.{name} differs from another stream only in upper and lower case; rename it")

    def resolve(*parts: str) -> str:
        return os.path.normpath(os.path.join(base, *parts))

    return Config(path, store, streams, parse_server(server, store, resolve), spark)


def _parse_stream(name: str, table: ConfigTable, store: str, base: str) -> StreamConfig:
    if not STREAM_NAME.fullmatch(name):
        raise ConfigError(f"{table.name}: a stream's name is that of a folder: letters, digits, _ . and -; rename it")
    source = table.table("source", 'write source = { format = "parquet", path = "incoming" }')
    if source is None:
        raise table.missing("source", '{ format = "parquet", path = "incoming" }')
    step = _parse_step(table)
    stream = StreamConfig(
        name=name,
        folder=os.path.join(store, name),
        source=_parse_source(source, base),
        value=table.text("value", '"latency_ms"', needed=True) or "",
        time=table.text("time", '"ts"'),
        time_unit=None if table.get("time_unit") is None else table.choice("time_unit", TIME_UNITS),
        keys=_parse_keys(table),
        filters=_parse_filters(table),
        value_type=table.parse("value_type", lambda x: type_named(x).name, '"float64"'),
        eps=table.parse("eps", check_eps, "0.001"),
        memory=table.parse("memory", parse_size, '"250 MB"'),
        kappa=table.count("kappa", "kappa = 10"),
        step=step,
        window=table.parse("window", read_span, '"24 hours"') or StreamConfig.window,
        max_ahead=table.parse("max_ahead", format_max_ahead, '"1 hour", or "off"'),
        retention=_parse_retention(table, step),
        nan=table.choice("nan", ("refuse", "skip")),
        bad_records=table.choice("bad_records", ("quarantine", "fail")),
        schema_change=table.choice("schema_change", ("adapt", "quarantine", "fail")),
        late=table.choice("late", LATE_CHOICES),
        late_after=table.parse("late_after", read_span, '"1 hour"'),
        durable=table.flag("durable"),
        tail=DEFAULT if table.get("tail") is None else table.parse("tail", _parse_tail, '0.01, or "none"'),
    )
    table.reject_unknown_keys()
    _check_combinations(stream)
    return stream


def _parse_tail(value: Any) -> float | None:
    """Return a number in (0, 1), or None for "none"."""
    return None if value == "none" else check_tail(value, 1.0)


def _check_combinations(stream: StreamConfig) -> None:
    """Reject keys that contradict each other."""
    if stream.eps is not None and stream.memory is not None:
        raise ConfigError(f"{stream.key}.memory and {stream.key}.eps both say how accurate answers are; leave one out")
    if stream.memory is not None and stream.tail is not DEFAULT and stream.tail is not None:
        raise ConfigError(
            f"{stream.key}.memory chooses eps without a tail; give eps and tail instead, or leave out tail"
        )
    if stream.late != "keep" and stream.time is None:
        raise ConfigError(f'{stream.key}.late is "{stream.late}" and no times are known; add time = "ts"')
    if stream.time_unit is not None and stream.time is None:
        raise ConfigError(f'{stream.key}.time_unit is "{stream.time_unit}" and no times are known; add time = "ts"')
    if stream.late_after is not None and stream.late == "keep":
        raise ConfigError(f'{stream.key}.late_after is of no use with late = "keep"; add late = "quarantine"')
    try:
        StoreSettings.of(keys=stream.keys or None, memory=stream.memory)
    except InvalidArgumentError as error:
        key = "memory" if stream.memory and "memory" in str(error) else "keys"
        raise ConfigError(f"{stream.key}.{key}: {error}") from error


def _parse_source(table: ConfigTable, base: str) -> Source:
    name = table.text("format", '"parquet"', needed=True) or ""
    source_format = name if "." in name else name.lower()  # class names are case-sensitive
    path = table.text("path", '"incoming/latency"', needed=source_format in FILES)
    schema = table.text("schema", '"ts TIMESTAMP, latency_ms DOUBLE"', needed=source_format in SCHEMA_NEEDED)
    options = table.table("options", "write Spark's options of that source, such as { subscribe = 'latency' }")
    source = Source(
        format=source_format,
        path=path if path is None or "://" in path else os.path.normpath(os.path.join(base, path)),
        schema=schema,
        options=_parse_options(options),
        max_files=table.count("max_files", "max_files = 100"),
        max_bytes=table.parse("max_bytes", partial(parse_size, name="max_bytes"), '"1 GB"'),
        max_rows=table.count("max_rows", "max_rows = 1_000_000"),
        settle=table.parse("settle", read_span, '"5 s"') or Source.settle,
    )
    table.reject_unknown_keys("; options of Spark's own go into options = { ... }")
    _check_limits(source, table)
    return source


def _parse_spark(table: ConfigTable | None) -> dict[str, str]:
    """Return Spark's settings; reject those that would change the meaning of data."""
    spark = _parse_options(table)
    for name, value in spark.items():
        if name.lower() == TIME_ZONE.lower() and value.upper() not in ("UTC", "Z", "ETC/UTC"):
            raise ConfigError(
                f"spark.{TIME_ZONE} is {format_value(value)}; times without a zone are in UTC in every stream. Write "
                f"the zone where it is needed: time = \"to_utc_timestamp(ts, '{value}')\""
            )
    return spark


def _check_format(stream: StreamConfig, spark: dict[str, str]) -> None:
    """Reject a format that is neither built in, nor a class (dots in its name), nor in a package under [spark]."""
    source_format, built_in = stream.source.format, (*FILES, *BUILT_IN)
    if source_format in built_in or "." in source_format or any(name.startswith("spark.jars") for name in spark):
        return
    similar = find_similar(source_format, built_in, 0.6)
    fix = f"did you mean {format_value(similar)}?" if similar else f"Spark itself has {', '.join(built_in)}."
    raise ConfigError(
        f"{stream.key}.source.format is {format_value(source_format)}, which Spark does not have; {fix} A format "
        'of another package needs [spark] "spark.jars.packages" = "group:artifact:version", or the full class name'
    )


def _check_limits(source: Source, table: ConfigTable) -> None:
    for option in source.options:
        if source.is_files and option.lower() in QUARANTINE_OPTIONS:
            raise ConfigError(f"{table.key('options')}.{option}: {QUARANTINE_OPTIONS[option.lower()]}; leave it out")
    for option, key in RESERVED_OPTIONS.items():
        if option in source.options:
            raise ConfigError(f"{table.key('options')}.{option} is set by {table.key(key)}; write it there")
    if "cleanSource" in source.options:
        raise ConfigError(
            f"{table.key('options')}.cleanSource would take away files that will be retried; remove files "
            "yourself once the store has them"
        )
    if source.max_files and source.max_bytes:
        raise ConfigError(f"{table.key('max_files')} and {table.key('max_bytes')} cannot both be set; leave one out")
    if source.is_files and source.max_rows:
        raise ConfigError(f"{table.key('max_rows')} is for sources that are not files; use max_files or max_bytes")


def _parse_options(table: ConfigTable | None) -> dict[str, str]:
    """Return options as text, as Spark takes them; nested tables become dots in the name."""
    options: dict[str, str] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for subkey, nested in value.items():
                add(f"{name}.{subkey}" if name else subkey, nested)
        elif isinstance(value, (str, int, float)):
            options[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            assert table is not None
            raise ConfigError(f"{table.key(name)} is {format_value(value)}; write text, a number, true or false")

    for name, value in table.items() if table else ():
        add(name, value)
    return options


def _parse_keys(table: ConfigTable) -> tuple[str, ...]:
    value = table.get("keys")
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f'{table.key("keys")} is {format_value(value)}; write a list of columns, such as keys = ["endpoint"]'
        )
    return tuple(names)


def _parse_filters(table: ConfigTable) -> dict[str, str]:
    inner = table.table("filters", 'write filters = { errors = "status >= 500" }')
    filters = {}
    for name, text in inner.items() if inner else ():
        if not FILTER_NAME.fullmatch(name):
            raise ConfigError(f"{table.key('filters')}.{name}: a filter's name has letters, digits and _; rename it")
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(
                f'{table.key("filters")}.{name} is {format_value(text)}; write a condition: "status >= 500"'
            )
        filters[name] = text
    return filters


def _parse_step(table: ConfigTable) -> Step:
    value = table.get("step")
    if value is None:
        return StreamConfig.step
    if isinstance(value, dict):
        return Step(None, _parse_count(value, table.key("step"), "rows", "{ rows = 10_000_000 }"))
    return Step(table.parse("step", read_span, '"1 hour", or step = { rows = 10_000_000 }'))


def _parse_count(values: dict[str, Any], key: str, name: str, example: str) -> int:
    """Return the number in a table that contains only one key."""
    inner = ConfigTable(values, key, "")
    count = inner.count(name, f"{key.rpartition('.')[2]} = {example}")
    inner.reject_unknown_keys()
    if count is None:
        raise ConfigError(f"{key} is empty; write {example}")
    return count


def _parse_retention(table: ConfigTable, step: Step) -> int | None:
    """Return the retention in steps; a length of time is rounded up to full steps."""
    value = table.get("retention")
    if isinstance(value, dict):
        return _parse_count(value, table.key("retention"), "steps", "{ steps = 400 }")
    span = table.parse("retention", read_span, '"400 days", or retention = { steps = 400 }')
    if span is None:
        return None
    if step.seconds is None:
        raise ConfigError(
            f"{table.key('retention')} is a length of time, and {table.key('step')} counts rows; write "
            "retention = { steps = 400 }"
        )
    if span < step.seconds:
        raise ConfigError(
            f"{table.key('retention')} is shorter than a step of {show_span(step.seconds)}; make it longer"
        )
    return math.ceil(Fraction(span) / step.seconds)
