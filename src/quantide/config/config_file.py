"""Configuration file: reading and checking all of it; errors name the key and say what to write instead."""

import math
import os
import re
import tomllib
from fractions import Fraction
from typing import Any

from quantide.config.push_source import PUSHED_VALUE, is_push, landing_source, resolve_columns
from quantide.config.server_config import parse_server
from quantide.config.source_config import parse_options, parse_source
from quantide.config.storage_options import SERVER_STATE, check_uri, is_uri, resolve_option, state_folder
from quantide.config.stream_config import BUILT_IN, FILES, PUSH, TABLES, Config, Source, Step, StreamConfig
from quantide.config.stream_metrics import METRICS_FIX, check_metrics, parse_metrics
from quantide.config.toml_table import ConfigTable, find_similar, format_value
from quantide.errors import ConfigError, InvalidArgumentError
from quantide.store.ingest_status import MAX_UNIT
from quantide.store.store_settings import StoreSettings, format_max_ahead, parse_size
from quantide.summary.ranks import DEFAULT, check_eps, check_tail
from quantide.summary.value_types import type_named
from quantide.windows.time_clock import read_span, show_span

STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
FILTER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
ERROR_LINE = re.compile(r"^(?:Invalid value|Expected newline).*\(at line ([0-9]+), column [0-9]+\)$")
BARE_TEXT = re.compile(r"""\s*([A-Za-z0-9_.-]+)\s*=\s*([^\s"'#=\[\]{}][^"'#=\[\]{}]*?)\s*(?:#.*)?""")
LATE_CHOICES = ("keep", "quarantine")
TIME_UNITS = ("s", "ms", "us", "ns")
TIME_ZONE = "spark.sql.session.timeZone"
SOURCE_HINT = 'write source = { format = "parquet", path = "incoming" }, or source = "push"'
STREAM_HINT = "write its settings below a line [streams.latency]"


LONG_INTEGER = "an integer of hundreds of digits; write one of at most 19 digits"
LONG_BITS = 1_000


def _has_long_integer(values: dict[str, Any]) -> bool:
    unchecked: list[Any] = [values]  # a dotted name may nest tables deeper than functions may call each other
    while unchecked:
        value = unchecked.pop()
        if isinstance(value, dict | list):
            unchecked.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and value.bit_length() > LONG_BITS:
            return True
    return False


def read_config(path: str | os.PathLike[str]) -> Config:
    """Read and check a configuration file; relative paths in it start at its folder."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            text = file.read().decode()
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}; name a TOML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not TOML: {error}; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not TOML: {error}{_suggest_quotes(text, error)}") from error
    except ValueError as error:  # int() refuses more than 4,300 digits
        raise ConfigError(f"{name} has {LONG_INTEGER}") from error
    except RecursionError as error:
        raise ConfigError(f"{name} has a list or a table within hundreds of others; remove some levels") from error
    if _has_long_integer(values):  # in hexadecimal, which could not be shown in a message
        raise ConfigError(f"{name} has {LONG_INTEGER}")
    try:
        return _parse_config(ConfigTable(values, "", "write a TOML file"), os.path.abspath(name))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _suggest_quotes(text: str, error: tomllib.TOMLDecodeError) -> str:
    """Return the line of an error with quotes, if its value is text without them; empty otherwise."""
    place = ERROR_LINE.search(str(error))
    if place is None or int(place[1]) > text.count("\n") + 1:
        return ""
    line = BARE_TEXT.fullmatch(text.split("\n")[int(place[1]) - 1])
    return "" if line is None else f"; write text in quotes: {line[1]} = {format_value(line[2])}"


def _parse_config(top: ConfigTable, path: str) -> Config:
    base = os.path.dirname(path)
    store, options = _parse_store(top, base)
    tables = top.table("streams", STREAM_HINT)
    spark = _parse_spark(top.table("spark", 'write settings of Spark, such as "spark.jars.packages" = "..."'))
    server = top.table("server", "write its settings below a line [server]")
    top.reject_unknown_keys()
    named_tables = tables.items() if tables else []
    if tables is None or not named_tables:
        raise ConfigError(f"streams is missing: there is nothing to do; {STREAM_HINT}")
    streams = {
        name: _parse_stream(name, ConfigTable(values, f"streams.{name}", STREAM_HINT), store, options, base)
        for name, values in named_tables
    }
    for stream in streams.values():
        _check_format(stream, spark)
    if options and not is_uri(store) and not any(stream.source.uses_options for stream in streams.values()):
        raise ConfigError(
            f"storage_options are for object storage, and store is the folder {format_value(top.get('store'))}; leave "
            "them out, or change store or the path of a source"
        )
    lower_names = [name.lower() for name in streams]
    for name in streams:
        if lower_names.count(name.lower()) > 1:
            raise ConfigError(f"streams.{name} differs from another stream only in upper and lower case; rename it")

    def resolve(*parts: str) -> str:
        return os.path.normpath(os.path.join(base, *parts))

    state = state_folder(store, options) if is_uri(store) else resolve(store, SERVER_STATE)
    return Config(path, store, streams, parse_server(server, state, resolve), spark, options)


def _parse_store(top: ConfigTable, base: str) -> tuple[str, dict[str, str]]:
    """Return the folder or the URI of all streams, and the options of an object store."""
    store = top.text("store", '"data"', needed=True) or ""
    values = top.get("storage_options")
    if not isinstance(values, dict | None):
        raise ConfigError("storage_options is not a table; write its options below a line [storage_options]")
    options = {name: resolve_option(f"storage_options.{name}", name, value) for name, value in (values or {}).items()}
    if is_uri(store):
        return check_uri("store", store), options
    return os.path.normpath(os.path.join(base, store)), options


def _parse_stream(name: str, table: ConfigTable, store: str, options: dict[str, str], base: str) -> StreamConfig:
    if not STREAM_NAME.fullmatch(name):
        raise ConfigError(f"{table.name}: a stream's name is that of a folder: letters, digits, _ . and -; rename it")
    folder = f"{store}/{name}" if is_uri(store) else os.path.join(store, name)
    source = _parse_any_source(table, folder, base, options)
    push, time = source.push, table.text("time", '"ts"')
    step = _parse_step(table)
    time_unit = None if table.get("time_unit") is None else table.choice("time_unit", TIME_UNITS)
    stream = StreamConfig(
        name=name,
        folder=folder,
        storage_options=options if is_uri(store) else {},
        source=source,
        value=table.text("value", '"latency_ms"', needed=push is None) or PUSHED_VALUE,
        time=time,
        time_unit=time_unit,
        weight=table.text("weight", '"copies"'),
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
        durable=table.flag("durable", default=push is not None),
        unit=table.parse("unit", _parse_unit, '"ms"'),
        tail=DEFAULT if table.get("tail") is None else table.parse("tail", _parse_tail, '0.01, or "none"'),
        metrics=parse_metrics(table.table("metrics", METRICS_FIX)),
    )
    table.reject_unknown_keys()
    _check_combinations(stream)
    return stream if push is None else resolve_columns(stream, push)


def _parse_any_source(table: ConfigTable, folder: str, base: str, options: dict[str, str]) -> Source:
    """Parse the source of a stream: a table, or the text "push"."""
    value = table.get("source")
    if value is None:
        raise table.missing("source", '{ format = "parquet", path = "incoming" }, or source = "push"')
    if value == PUSH:
        return landing_source(ConfigTable({}, table.key("source"), ""), folder, options)
    source = ConfigTable(value, table.key("source"), SOURCE_HINT)
    return landing_source(source, folder, options) if is_push(value) else parse_source(source, base, options)


def _parse_unit(value: Any) -> str:
    """Return the unit of values; raise unless it is a short text."""
    if not isinstance(value, str) or not 0 < len(value.strip()) <= MAX_UNIT or not value.isprintable():
        raise ConfigError(f"a unit is a text of at most {MAX_UNIT} printable characters")
    return value.strip()


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
    if stream.late != "keep" and stream.time is None and stream.source.push is None:
        raise ConfigError(f'{stream.key}.late is "{stream.late}" and no times are known; add time = "ts"')
    if stream.time_unit is not None and stream.time is None and stream.source.push is None:
        raise ConfigError(f'{stream.key}.time_unit is "{stream.time_unit}" and no times are known; add time = "ts"')
    if stream.late_after is not None and stream.late == "keep":
        raise ConfigError(f'{stream.key}.late_after is of no use with late = "keep"; add late = "quarantine"')
    if stream.unit is not None and stream.value_type is not None and type_named(stream.value_type).is_temporal:
        raise ConfigError(f"{stream.key}.unit is of no use with values of type {stream.value_type}; leave it out")
    check_metrics(stream.metrics, stream.key, len(stream.keys), stream.window)
    given: dict[str, Any] = {"memory": stream.memory, "kappa": stream.kappa, "retention": stream.retention}
    given |= {"keys": stream.keys or None, "filters": list(stream.filters)}
    for name in ("memory", "kappa", "retention", "filters", "keys"):
        try:
            if given[name] is not None:
                StoreSettings.of(**{name: given[name]})
        except InvalidArgumentError as error:
            raise ConfigError(f"{stream.key}.{name}: {error}") from error


def _parse_spark(table: ConfigTable | None) -> dict[str, str]:
    """Return Spark's settings; reject those that would change the meaning of data."""
    spark = parse_options(table)
    for name, value in spark.items():
        if name.lower() == TIME_ZONE.lower() and value.upper() not in ("UTC", "Z", "ETC/UTC"):
            raise ConfigError(
                f"spark.{TIME_ZONE} is {format_value(value)}; times without a zone are in UTC in every stream. Write "
                f"the zone where it is needed: time = \"to_utc_timestamp(ts, '{value}')\""
            )
    return spark


def _check_format(stream: StreamConfig, spark: dict[str, str]) -> None:
    """Reject a format that is neither built in, nor a class (dots in its name), nor in a package under [spark]."""
    source_format, built_in = stream.source.format, (*FILES, *TABLES, *BUILT_IN)
    if source_format in built_in or "." in source_format or any(name.startswith("spark.jars") for name in spark):
        return
    similar = find_similar(source_format, built_in, 0.6)
    fix = f"did you mean {format_value(similar)}?" if similar else f"Spark itself has {', '.join(built_in)}."
    raise ConfigError(
        f"{stream.key}.source.format is {format_value(source_format)}, which Spark does not have; {fix} A format "
        'of another package needs [spark] "spark.jars.packages" = "group:artifact:version", or the full class name'
    )


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
