"""Push source: a stream whose rows clients send to the server, which writes them to the store's landing folder.

Ingestion reads that folder like any folder of Parquet files. The landing files have the column of values in its type,
and always a column of times, so a push stream has event times even if its configuration names none.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from quantide.config.storage_options import is_uri
from quantide.config.stream_config import PUSH, PushSettings, Source, StreamConfig
from quantide.config.toml_table import ConfigTable, format_value
from quantide.errors import ConfigError
from quantide.store.file_names import LANDING
from quantide.store.store_settings import parse_size

PUSHED_VALUE, PUSHED_TIME = "value", "time"  # columns of a push stream that names none
COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
ONLY_LANDING_FILES = {"pathGlobFilter": "*.parquet"}  # not those that are being written, under temporary names


def is_push(source: Any) -> bool:
    """Return True if a source of a configuration, a table, is a push source."""
    return isinstance(source, Mapping) and str(source.get("format")).lower() == PUSH


def landing_source(table: ConfigTable, folder: str, options: Mapping[str, str]) -> Source:
    """Parse the settings of a push source; return the source that ingestion reads, in the stream's folder or URI.

    `options` are those of the store.
    """
    table.get("format")
    push = PushSettings(
        landing_bytes=table.parse("landing_bytes", partial(parse_size, name="landing_bytes"), '"1 GB"')
        or PushSettings.landing_bytes,
        landing_files=table.count("landing_files", "landing_files = 20_000") or PushSettings.landing_files,
    )
    source = Source(
        format="parquet",
        path=f"{folder}/{LANDING}" if is_uri(folder) else os.path.join(folder, LANDING),
        options=ONLY_LANDING_FILES,
        max_files=table.count("max_files", "max_files = 1_000"),
        max_bytes=table.parse("max_bytes", partial(parse_size, name="max_bytes"), '"1 GB"'),
        listing="direct",
        push=push,
        storage_options=options,
    )
    table.reject_unknown_keys("; rows of a push stream come over HTTP")
    if source.max_files and source.max_bytes:
        raise ConfigError(f"{table.key('max_files')} and {table.key('max_bytes')} cannot both be set; leave one out")
    return source


def resolve_columns(stream: StreamConfig, push: PushSettings) -> StreamConfig:
    """Return a push stream with its column of times: the server converts all times to timestamps in UTC."""
    names = {"value": stream.value, "time": stream.time or PUSHED_TIME}
    if stream.weight is not None:
        names["weight"] = stream.weight
    for key, name in names.items():
        if not COLUMN_NAME.fullmatch(name):
            raise ConfigError(
                f"{stream.key}.{key} is {format_value(name)}; a push stream needs the name of a column there, not an "
                "expression: let clients compute it before they push rows"
            )
    if len({*map(str.lower, (*names.values(), *stream.keys))}) < len(names) + len(stream.keys):
        raise ConfigError(f"{stream.key}: value, time, weight and keys must be different columns; rename one")
    settings = replace(push, own_time=stream.time is not None, time_unit=stream.time_unit or "s")
    return replace(stream, time=names["time"], time_unit=None, source=replace(stream.source, push=settings))
