"""Source of a stream in a configuration file: its keys, and the combinations that are refused."""

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from quantide.config.kafka_source import (
    DATA_LOSS,
    EARLIEST,
    KAFKA,
    parse_decode,
    parse_kafka_options,
    parse_start,
    take_former_options,
)
from quantide.config.storage_options import check_uri, resolve_option
from quantide.config.stream_config import FILES, OBJECT_SCHEMES, TABLES, Source
from quantide.config.toml_table import ConfigTable, format_value
from quantide.errors import ConfigError, InvalidArgumentError
from quantide.store.store_settings import parse_size
from quantide.windows.time_clock import read_span

SCHEMA_NEEDED = set(FILES) - {"parquet", "orc", "avro", "text"}  # formats whose files do not contain their columns
RESERVED_OPTIONS = {"path": "path", "maxFilesPerTrigger": "max_files", "maxBytesPerTrigger": "max_bytes"}
QUARANTINE_OPTIONS = {  # options of Spark that would hide bad records from the quarantine
    "mode": "lines that Spark cannot read go to the quarantine; streams.NAME.bad_records decides about them",
    "columnnameofcorruptrecord": "the quarantine needs that column",
    "ignorecorruptfiles": "files that Spark cannot read go to the quarantine",
}
OBJECT_URIS = tuple(f"{scheme}://" for scheme in OBJECT_SCHEMES)
_VERSION = re.compile(r"[0-9]{1,19}")


def parse_source(table: ConfigTable, base: str, defaults: Mapping[str, str]) -> Source:
    """Return the source of a stream; `defaults` are the storage options of the configuration."""
    name = table.text("format", '"parquet"', needed=True) or ""
    source_format = name if "." in name else name.lower()  # class names are case-sensitive
    has_path = source_format in FILES or source_format == "delta"
    path = table.text("path", '"incoming/latency"', needed=has_path)
    schema = table.text("schema", '"ts TIMESTAMP, latency_ms DOUBLE"', needed=source_format in SCHEMA_NEEDED)
    options = parse_options(table.table("options", "write Spark's options of that source, such as { host = '::1' }"))
    source = Source(
        format=source_format,
        path=None if path is None else _resolve_path(table.key("path"), path, base),
        schema=schema,
        **_parse_kind(table, source_format, options, base),
        max_files=table.count("max_files", "max_files = 100"),
        max_bytes=table.parse("max_bytes", partial(parse_size, name="max_bytes"), '"1 GB"'),
        max_rows=table.count("max_rows", "max_rows = 1_000_000"),
        settle=table.parse("settle", read_span, '"5 s"') or Source.settle,
        listing=table.choice("listing", ("spark", "direct")),
        ordered=table.flag("ordered"),
        after=table.choice("after", ("keep", "delete")),
        on_change=table.choice("on_change", ("fail", "skip")),
        table=table.text("table", '"sales.latency"'),
        catalog=_resolve_options(table, "catalog"),
        storage_options=_resolve_options(table, "storage_options") or dict(defaults),
    )
    table.reject_unknown_keys("; options of Spark's own go into options = { ... }")
    _check_limits(source, table)
    _check_kind(source, table)
    return source


def _parse_kind(table: ConfigTable, source_format: str, options: dict[str, str], base: str) -> dict[str, Any]:
    """Return the settings whose form depends on the kind of source."""
    if source_format != KAFKA:
        start = table.parse("start", _parse_start, '"all", "new", or the number of a version')
        return {"options": options, "start": start or Source.start}
    example = '{ format = "json", schema = "latency_ms DOUBLE, ts TIMESTAMP" }'
    former = take_former_options(options)
    given = {
        "options": parse_kafka_options(table, options),
        "decode": parse_decode(table.table("decode", f"write decode = {example}"), base, parse_options),
        "start": table.parse("start", parse_start, '"earliest"') or EARLIEST,
        "on_data_loss": table.choice("on_data_loss", DATA_LOSS),
    }
    return {**given, **former}


def _resolve_path(key: str, path: str, base: str) -> str:
    if "://" not in path:
        return os.path.normpath(os.path.join(base, path))
    is_pattern = re.search(r"[*?\[{]", path) and not re.search(r"\?.*=", path)  # else it is a query
    return check_uri(key, path) if path.startswith(OBJECT_URIS) and not is_pattern else path


def _resolve_options(table: ConfigTable, name: str) -> dict[str, str]:
    """Return options of an object store or a catalog; credentials come from environment variables."""
    inner = table.table(name, f"write its options, such as {name} = {{ ... }}")
    return {option: resolve_option(f"{table.key(name)}.{option}", option, value) for option, value in _flatten(inner)}


def _flatten(table: ConfigTable | None) -> list[tuple[str, Any]]:
    """Return options with dots in their names, which TOML reads as tables within tables."""
    options: list[tuple[str, Any]] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for subkey, nested in value.items():
                add(f"{name}.{subkey}" if name else subkey, nested)
        else:
            options.append((name, value))

    for name, value in table.items() if table else ():
        add(name, value)
    return options


def _parse_start(value: Any) -> str:
    """Return "all", "new", or a number as text."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not (text in ("all", "new") or _VERSION.fullmatch(text)):
        raise InvalidArgumentError("a table is read from its beginning, from now on, or from a version")
    return text


def _check_limits(source: Source, table: ConfigTable) -> None:
    for option in source.options:
        if source.is_files and option.lower() in QUARANTINE_OPTIONS:
            raise ConfigError(f"{table.key('options')}.{option}: {QUARANTINE_OPTIONS[option.lower()]}; leave it out")
    for option, key in RESERVED_OPTIONS.items():
        if option in source.options:
            raise ConfigError(f"{table.key('options')}.{option} is set by {table.key(key)}; write it there")
    if "cleanSource" in source.options:
        raise ConfigError(
            f"{table.key('options')}.cleanSource would take away files that will be retried; set "
            f'{table.key("after")} = "delete" to remove files once the store has them'
        )
    if source.max_files and source.max_bytes:
        raise ConfigError(f"{table.key('max_files')} and {table.key('max_bytes')} cannot both be set; leave one out")
    if source.is_files and source.max_rows:
        raise ConfigError(f"{table.key('max_rows')} is for sources that are not files; use max_files or max_bytes")


def _check_kind(source: Source, table: ConfigTable) -> None:
    """Reject keys that the kind of source does not have."""
    if source.is_table:
        for key, is_set in (("after", source.after != "keep"), ("ordered", source.ordered), ("schema", source.schema)):
            if is_set:
                raise ConfigError(f"{table.key(key)} is for folders, and the source is a table; leave it out")
    else:
        has_start = source.start != Source.start and source.format != KAFKA
        for key, is_set in (("start", has_start), ("on_change", source.on_change != "fail")):
            if is_set:
                raise ConfigError(f"{table.key(key)} is for tables: {', '.join(TABLES)}; leave it out")
    if not source.is_files and (source.after != "keep" or source.listing != "spark"):
        key = table.key("after" if source.after != "keep" else "listing")
        raise ConfigError(f"{key} is for folders of files, and the source is {source.format}; leave it out")
    if source.ordered and not source.is_remote:
        raise ConfigError(
            f"{table.key('ordered')} is for folders in object storage; leave it out. In a local folder, "
            f'{table.key("listing")} = "direct" finds new names without listing old files'
        )
    if source.format != "iceberg" and (source.table or source.catalog):
        raise ConfigError(f"{table.key('table' if source.table else 'catalog')} is for Iceberg tables; leave it out")
    if source.format == "iceberg" and (source.path is None) == (source.table is None):
        raise ConfigError(
            f"{table.key('path')} or {table.key('table')} names an Iceberg table: write the location of the table, or "
            'its name with catalog = { uri = "..." }'
        )
    if source.table and not source.catalog:
        raise ConfigError(f'{table.key("catalog")} is missing; write its settings, such as catalog = {{ uri = "..." }}')


def parse_options(table: ConfigTable | None) -> dict[str, str]:
    """Return options as text, as Spark takes them; nested tables become dots in the name."""
    options: dict[str, str] = {}
    for name, value in _flatten(table):
        if not isinstance(value, (str, int, float)):
            assert table is not None
            raise ConfigError(f"{table.key(name)} is {format_value(value)}; write text, a number, true or false")
        options[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return options
