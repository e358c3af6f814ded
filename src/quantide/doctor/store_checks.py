"""Checks of a configuration's streams: their sources and their stores."""

import os
from collections.abc import Iterator

from quantide.config import Config, StreamConfig
from quantide.doctor.finding import FAILED, OK, Finding
from quantide.errors import QuantideError

GLOB_CHARACTERS = "*?[{"


def check_stores(config: Config | None = None) -> Iterator[Finding]:
    for stream in config.streams.values() if config else ():
        yield from check_source(stream)
        yield check_store(stream)


def check_source(stream: StreamConfig) -> Iterator[Finding]:
    path = stream.source.path
    if path is None or "://" in path or any(sign in path for sign in GLOB_CHARACTERS) or os.path.exists(path):
        return
    fix = f"mkdir -p {path}, or change source.path under [{stream.key}]"
    yield Finding(stream.name, FAILED, f"its source {path} does not exist", fix)


def check_store(stream: StreamConfig) -> Finding:
    """Open the store, for reading only."""
    from quantide.history.history_reader import HistoryReader
    from quantide.store.writer_lease import read_lease_holder

    if not os.path.isdir(os.path.join(stream.folder, "_delta_log")):
        return Finding(stream.name, OK, f"nothing was ingested yet; the store will be {stream.folder}")
    try:
        stats = HistoryReader(stream.folder).stats()
    except QuantideError as error:
        fix = f"quantide history verify {stream.folder} lists the damaged files"
        return Finding(stream.name, FAILED, f"{stream.folder} cannot be read: {error}", fix)
    writer = read_lease_holder(stream.folder)
    lease = f"{writer} writes it" if writer else "no process writes it now"
    text = f"{stats['values']:,} values in {stats['steps']:,} steps, version {stats['version']:,}; {lease}"
    return Finding(stream.name, OK, text)
