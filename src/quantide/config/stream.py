"""What a configuration says: where streams lie, where their data comes from, what is kept of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256

from quantide.config.server import ServerConfig

FILES = ("parquet", "json", "csv", "text", "orc", "avro", "xml")  # formats whose data lies in files of a folder
BUILT_IN = ("kafka", "rate", "rate-micro-batch", "rate-streaming", "socket")  # Spark's sources that are not files
COUNTED = ("kafka",)  # formats that number their rows: a new checkpoint can go on where the store ends


@dataclass(frozen=True)
class Source:
    """Where a stream comes from: a format of Spark's, its options, and how much of it makes a batch."""

    format: str
    path: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    settle: Fraction = Fraction(5)
    """Seconds after which a file that did not change is whole, and one that cannot be read is damaged."""

    @property
    def is_files(self) -> bool:
        return self.format in FILES

    @property
    def has_identity(self) -> bool:
        """Whether what was taken from it can be told again without Spark's checkpoint."""
        return self.is_files or self.format in COUNTED


@dataclass(frozen=True)
class Step:
    """When a step ends: after a length of time in seconds, or after a number of rows."""

    seconds: Fraction | None = None
    rows: int | None = None


@dataclass(frozen=True)
class StreamConfig:
    """A stream; `folder` is its store, `retention` counts steps. What is None is as the store has it."""

    name: str
    folder: str
    source: Source
    value: str
    time: str | None = None
    time_unit: str | None = None
    """The unit of times that are numbers; seconds unless it is given."""
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

    @property
    def key(self) -> str:
        """What errors call this stream."""
        return f"streams.{self.name}"

    @property
    def fingerprint(self) -> str:
        """Digest of the settings that decide which files can be read: held files are tried again when it changes."""
        source = (self.source.format, self.source.path, self.source.schema, sorted(self.source.options.items()))
        chosen = (self.value, self.time, self.time_unit, self.keys, sorted(self.filters.items()), self.schema_change)
        return sha256(repr((source, chosen)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Config:
    """All streams of a store, the server's settings, and those that Spark starts with."""

    path: str
    store: str
    streams: Mapping[str, StreamConfig]
    server: ServerConfig
    spark: Mapping[str, str] = field(default_factory=dict)
