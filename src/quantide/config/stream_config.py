"""Configuration of streams: sources, columns, steps, windows, retention."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import Any

from quantide.config.server_config import ServerConfig
from quantide.summary.ranks import DEFAULT

FILES = ("parquet", "json", "csv", "text", "orc", "avro", "xml")  # formats of files in a folder
BUILT_IN = ("kafka", "rate", "rate-micro-batch", "rate-streaming", "socket")  # Spark's sources other than files
NUMBERED = ("kafka",)  # formats that number their rows: a new checkpoint can continue where the store ends


@dataclass(frozen=True)
class Source:
    """Source of a stream: a format of Spark, its options, and the limits of a batch."""

    format: str
    path: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    settle: Fraction = Fraction(5)
    """Seconds without a change after which a file counts as complete, or as damaged if it cannot be read."""

    @property
    def is_files(self) -> bool:
        return self.format in FILES

    @property
    def has_identity(self) -> bool:
        """Return True if ingested data can be recognized without Spark's checkpoint."""
        return self.is_files or self.format in NUMBERED


@dataclass(frozen=True)
class Step:
    """Length of a step: in seconds, or in rows."""

    seconds: Fraction | None = None
    rows: int | None = None


@dataclass(frozen=True)
class StreamConfig:
    """A stream; `folder` is its store, `retention` counts steps. None means the store's setting, but for `tail`."""

    name: str
    folder: str
    source: Source
    value: str
    time: str | None = None
    time_unit: str | None = None
    """Unit of numeric times; seconds by default."""
    keys: tuple[str, ...] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    value_type: str | None = None
    eps: float | None = None
    memory: int | None = None
    kappa: int | None = None
    step: Step = Step(Fraction(3600))
    window: Fraction = Fraction(24 * 3600)
    max_ahead: str | None = None
    retention: int | None = None
    nan: str = "refuse"
    bad_records: str = "quarantine"
    schema_change: str = "adapt"
    late: str = "keep"
    late_after: Fraction | None = None
    durable: bool = False
    tail: float | None = DEFAULT
    """Error towards the ends, as a fraction of the distance from the end; None for eps alone."""

    @property
    def key(self) -> str:
        """Return the stream's name in error messages."""
        return f"streams.{self.name}"

    @property
    def fingerprint(self) -> str:
        """Digest of the settings that decide which files can be read; if it changes, files on hold are retried."""
        source = (self.source.format, self.source.path, self.source.schema, sorted(self.source.options.items()))
        columns = (self.value, self.time, self.time_unit, self.keys, sorted(self.filters.items()), self.schema_change)
        return sha256(repr((source, columns)).encode()).hexdigest()[:16]


def tail_settings(tail: float | None) -> dict[str, Any]:
    """Return the keyword arguments of History for a tail: none for the default, which is then the store's."""
    return {} if tail is DEFAULT else {"tail": tail}


@dataclass(frozen=True)
class Config:
    """All streams of a store, the server's settings, and Spark's settings."""

    path: str
    store: str
    streams: Mapping[str, StreamConfig]
    server: ServerConfig
    spark: Mapping[str, str] = field(default_factory=dict)
