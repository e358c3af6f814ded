"""The streams of a configuration: where they come from, and what is in their stores."""

import os
from collections.abc import Iterator

from quantide.config import Config, StreamConfig
from quantide.doctor.finding import FAILED, OK, Finding
from quantide.errors import QuantideError

GLOB = "*?[{"


def check_stores(config: Config | None = None) -> Iterator[Finding]:
    for stream in config.streams.values() if config else ():
        yield from check_source(stream)
        yield check_store(stream)


def check_source(stream: StreamConfig) -> Iterator[Finding]:
    path = stream.source.path
    if path is None or "://" in path or any(sign in path for sign in GLOB) or os.path.exists(path):
        return
    fix = f"mkdir -p {path}, or change source.path under [{stream.key}]"
    yield Finding(stream.name, FAILED, f"its source {path} is not there", fix)


def check_store(stream: StreamConfig) -> Finding:
    """Opened for reading only."""
    from quantide.history.reader import HistoryReader
    from quantide.store.lease import writer_of

    if not os.path.isdir(os.path.join(stream.folder, "_delta_log")):
        return Finding(stream.name, OK, f"nothing was taken in yet; it will lie in {stream.folder}")
    try:
        stats = HistoryReader(stream.folder).stats()
    except QuantideError as error:
        fix = f"quantide history verify {stream.folder} tells which files are damaged"
        return Finding(stream.name, FAILED, f"{stream.folder} cannot be read: {error}", fix)
    writer = writer_of(stream.folder)
    held = f"{writer} writes it" if writer else "nobody writes it now"
    found = f"{stats['values']:,} values in {stats['steps']:,} steps, version {stats['version']:,}; {held}"
    return Finding(stream.name, OK, found)
