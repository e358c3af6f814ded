"""Reads a configuration file and checks all of it: an error names the key and says what to write instead."""

import math
import os
import re
import tomllib
from fractions import Fraction
from functools import partial
from typing import Any

from quantide.config.server import read_server
from quantide.config.stream import BUILT_IN, FILES, Config, Source, Step, StreamConfig
from quantide.config.table import Table, nearest, shown
from quantide.errors import ConfigError, InvalidArgumentError
from quantide.store.settings import Settings, read_bytes, show_ahead
from quantide.summary.ranks import check_eps
from quantide.summary.types import type_named
from quantide.windows.clock import read_span, show_span

SCHEMA_NEEDED = set(FILES) - {"parquet", "orc", "avro", "text"}  # formats whose files do not tell their columns
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
LATE = ("keep", "quarantine")
TIME_UNITS = ("s", "ms", "us", "ns")
RESERVED = {"path": "path", "maxFilesPerTrigger": "max_files", "maxBytesPerTrigger": "max_bytes"}
OWN_OPTIONS = {  # options of Spark's that would hide bad records from the quarantine
    "mode": "lines that Spark cannot read go to the quarantine; streams.NAME.bad_records decides about them",
    "columnnameofcorruptrecord": "the quarantine needs that column",
    "ignorecorruptfiles": "files that Spark cannot read go to the quarantine",
}
TIME_ZONE = "spark.sql.session.timeZone"
A_STREAM = "write its settings below a line [streams.latency]"


def read_config(path: str | os.PathLike[str]) -> Config:
    """The configuration in a file; paths in it begin where the file lies."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}; name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} is not TOML: {error}") from error
    try:
        return _config(Table(found, "", "write a TOML file"), os.path.abspath(name))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _config(top: Table, path: str) -> Config:
    base = os.path.dirname(path)
    store = os.path.normpath(os.path.join(base, top.text("store", '"data"', needed=True) or ""))
    tables = top.table("streams", A_STREAM)
    spark = _spark(top.table("spark", 'write settings of Spark, such as "spark.jars.packages" = "..."'))
    server = top.table("server", "write its settings below a line [server]")
    top.check_all_known()
    named = tables.items() if tables else []
    if tables is None or not named:
        raise ConfigError(f"streams is missing: there is nothing to do; {A_STREAM}")
    streams = {name: _stream(name, Table(found, f"streams.{name}", A_STREAM), store, base) for name, found in named}
    for stream in streams.values():
        _check_format(stream, spark)
    low = [name.lower() for name in streams]
    for name in streams:
        if low.count(name.lower()) > 1:
            raise ConfigError(f"streams.{name} differs from another stream by small and large letters only; rename it")

    def resolve(*parts: str) -> str:
        return os.path.normpath(os.path.join(base, *parts))

    return Config(path, store, streams, read_server(server, store, resolve), spark)


def _stream(name: str, table: Table, store: str, base: str) -> StreamConfig:
    if not NAME.fullmatch(name):
        raise ConfigError(f"{table.name}: a stream's name is that of a folder: letters, digits, _ . and -; rename it")
    source = table.table("source", 'write source = { format = "parquet", path = "incoming" }')
    if source is None:
        raise table.missing("source", '{ format = "parquet", path = "incoming" }')
    step = _step(table)
    stream = StreamConfig(
        name=name,
        folder=os.path.join(store, name),
        source=_source(source, base),
        value=table.text("value", '"latency_ms"', needed=True) or "",
        time=table.text("time", '"ts"'),
        time_unit=None if table.raw("time_unit") is None else table.choice("time_unit", TIME_UNITS),
        keys=_keys(table),
        filters=_filters(table),
        value_type=table.read("value_type", lambda x: type_named(x).name, '"float64"'),
        eps=table.read("eps", check_eps, "0.001"),
        memory=table.read("memory", read_bytes, '"250 MB"'),
        kappa=table.count("kappa", "kappa = 10"),
        step=step,
        window=table.read("window", read_span, '"24 hours"') or StreamConfig.window,
        max_ahead=table.read("max_ahead", show_ahead, '"1 hour", or "off"'),
        retention=_retention(table, step),
        nan=table.choice("nan", ("refuse", "skip")),
        bad_records=table.choice("bad_records", ("quarantine", "fail")),
        schema_change=table.choice("schema_change", ("adapt", "quarantine", "fail")),
        late=table.choice("late", LATE),
        late_after=table.read("late_after", read_span, '"1 hour"'),
        durable=table.flag("durable"),
    )
    table.check_all_known()
    _check_together(stream)
    return stream


def _check_together(stream: StreamConfig) -> None:
    """What one key says about another."""
    if stream.eps is not None and stream.memory is not None:
        raise ConfigError(f"{stream.key}.memory and {stream.key}.eps both say how accurate answers are; leave one out")
    if stream.late != "keep" and stream.time is None:
        raise ConfigError(f'{stream.key}.late is "{stream.late}" and no times are known; add time = "ts"')
    if stream.time_unit is not None and stream.time is None:
        raise ConfigError(f'{stream.key}.time_unit is "{stream.time_unit}" and no times are known; add time = "ts"')
    if stream.late_after is not None and stream.late == "keep":
        raise ConfigError(f'{stream.key}.late_after is of no use with late = "keep"; add late = "quarantine"')
    try:
        Settings.of(keys=stream.keys or None, memory=stream.memory)
    except InvalidArgumentError as error:
        key = "memory" if stream.memory and "memory" in str(error) else "keys"
        raise ConfigError(f"{stream.key}.{key}: {error}") from error


def _source(table: Table, base: str) -> Source:
    said = table.text("format", '"parquet"', needed=True) or ""
    kind = said if "." in said else said.lower()  # the name of a class has large letters
    path = table.text("path", '"incoming/latency"', needed=kind in FILES)
    schema = table.text("schema", '"ts TIMESTAMP, latency_ms DOUBLE"', needed=kind in SCHEMA_NEEDED)
    options = table.table("options", "write Spark's options of that source, such as { subscribe = 'latency' }")
    source = Source(
        format=kind,
        path=path if path is None or "://" in path else os.path.normpath(os.path.join(base, path)),
        schema=schema,
        options=_options(options),
        max_files=table.count("max_files", "max_files = 100"),
        max_bytes=table.read("max_bytes", partial(read_bytes, name="max_bytes"), '"1 GB"'),
        max_rows=table.count("max_rows", "max_rows = 1_000_000"),
        settle=table.read("settle", read_span, '"5 s"') or Source.settle,
    )
    table.check_all_known("; options of Spark's own go into options = { ... }")
    _check_limits(source, table)
    return source


def _spark(table: Table | None) -> dict[str, str]:
    """Settings of Spark's, less those that would change what data means."""
    spark = _options(table)
    for name, value in spark.items():
        if name.lower() == TIME_ZONE.lower() and value.upper() not in ("UTC", "Z", "ETC/UTC"):
            raise ConfigError(
                f"spark.{TIME_ZONE} is {shown(value)}; times without a zone are in UTC in every stream. Write the zone "
                f"where it is needed: time = \"to_utc_timestamp(ts, '{value}')\""
            )
    return spark


def _check_format(stream: StreamConfig, spark: dict[str, str]) -> None:
    """Refuse a format that nothing brings along: a class has dots in its name, a package is named under [spark]."""
    kind, known = stream.source.format, (*FILES, *BUILT_IN)
    if kind in known or "." in kind or any(name.startswith("spark.jars") for name in spark):
        return
    near = nearest(kind, known, 0.6)
    fix = f"did you mean {shown(near)}?" if near else f"Spark itself has {', '.join(known)}."
    raise ConfigError(
        f"{stream.key}.source.format is {shown(kind)}, which Spark does not have; {fix} A format of another package "
        'needs [spark] "spark.jars.packages" = "group:artifact:version", or the full name of its class'
    )


def _check_limits(source: Source, table: Table) -> None:
    for option in source.options:
        if source.is_files and option.lower() in OWN_OPTIONS:
            raise ConfigError(f"{table.key('options')}.{option}: {OWN_OPTIONS[option.lower()]}; leave it out")
    for option, ours in RESERVED.items():
        if option in source.options:
            raise ConfigError(f"{table.key('options')}.{option} is set by {table.key(ours)}; write it there")
    if "cleanSource" in source.options:
        raise ConfigError(
            f"{table.key('options')}.cleanSource would take away files that are still to be tried again; remove files "
            "yourself once the store has them"
        )
    if source.max_files and source.max_bytes:
        raise ConfigError(f"{table.key('max_files')} and {table.key('max_bytes')} cannot both be set; leave one out")
    if source.is_files and source.max_rows:
        raise ConfigError(f"{table.key('max_rows')} is for sources that are not files; use max_files or max_bytes")


def _options(table: Table | None) -> dict[str, str]:
    """Options as Spark wants them: text. Tables within are dots in the name."""
    out: dict[str, str] = {}

    def add(name: str, found: Any) -> None:
        if isinstance(found, dict):
            for below, value in found.items():
                add(f"{name}.{below}" if name else below, value)
        elif isinstance(found, (str, int, float)):
            out[name] = str(found).lower() if isinstance(found, bool) else str(found)
        else:
            assert table is not None
            raise ConfigError(f"{table.key(name)} is {shown(found)}; write text, a number, true or false")

    for name, found in table.items() if table else ():
        add(name, found)
    return out


def _keys(table: Table) -> tuple[str, ...]:
    found = table.raw("keys")
    if found is None:
        return ()
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f'{table.key("keys")} is {shown(found)}; write a list of columns, such as keys = ["endpoint"]'
        )
    return tuple(names)


def _filters(table: Table) -> dict[str, str]:
    filters = table.table("filters", 'write filters = { errors = "status >= 500" }')
    out = {}
    for name, text in filters.items() if filters else ():
        if not IDENTIFIER.fullmatch(name):
            raise ConfigError(f"{table.key('filters')}.{name}: a filter's name has letters, digits and _; rename it")
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f'{table.key("filters")}.{name} is {shown(text)}; write a condition: "status >= 500"')
        out[name] = text
    return out


def _step(table: Table) -> Step:
    found = table.raw("step")
    if found is None:
        return StreamConfig.step
    if isinstance(found, dict):
        return Step(None, _only_count(found, table.key("step"), "rows", "{ rows = 10_000_000 }"))
    return Step(table.read("step", read_span, '"1 hour", or step = { rows = 10_000_000 }'))


def _only_count(found: dict[str, Any], key: str, name: str, example: str) -> int:
    """The one number of a table that has nothing else."""
    inner = Table(found, key, "")
    count = inner.count(name, f"{key.rpartition('.')[2]} = {example}")
    inner.check_all_known()
    if count is None:
        raise ConfigError(f"{key} is empty; write {example}")
    return count


def _retention(table: Table, step: Step) -> int | None:
    """In steps; a length of time is as many of them as it takes."""
    found = table.raw("retention")
    if isinstance(found, dict):
        return _only_count(found, table.key("retention"), "steps", "{ steps = 400 }")
    span = table.read("retention", read_span, '"400 days", or retention = { steps = 400 }')
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
