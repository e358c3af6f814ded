"""Configuration of streams: sources, columns, steps, windows, retention."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from quantide.config.kafka_source import KAFKA, Decode, is_kafka_secret
from quantide.config.server_config import ServerConfig
from quantide.config.stream_metrics import StreamMetrics
from quantide.summary.ranks import DEFAULT

if TYPE_CHECKING:
    from quantide.store.storage import Storage

FILES = ("parquet", "json", "csv", "text", "orc", "avro", "xml")  # formats of files in a folder
BUILT_IN = ("kafka", "rate", "rate-micro-batch", "rate-streaming", "socket")  # Spark's sources other than files
PUSH = "push"  # a source of rows that clients send to the server; it is read as a folder of Parquet files
NUMBERED = ("kafka",)  # formats that number their rows: a new checkpoint can continue where the store ends
TABLES = ("delta", "iceberg")  # tables whose log names the files that were added
OBJECT_SCHEMES = ("s3", "s3a", "az", "azure", "abfs", "abfss", "adl", "gs")  # of URIs that are listed without Spark


@dataclass(frozen=True)
class PushSettings:
    """Settings of a stream that clients push rows to: limits of its landing folder, and how rows are read.

    Above a limit, the server refuses rows until ingestion has caught up.
    """

    landing_bytes: int = 10**9
    landing_files: int = 20_000
    own_time: bool = False
    """True if `time` is configured: then every row needs one. Otherwise a row without one gets its time of arrival."""
    time_unit: str = "s"
    """Unit of times that are numbers."""


@dataclass(frozen=True)
class Source:
    """Source of a stream: files of a folder, a table, or a format of Spark; its options, and the limits of a batch.

    With `push`, it is the landing folder of the stream's store, and `path` is the path or the URI of that folder.
    """

    format: str
    path: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    decode: Decode | None = None
    """Decoding of Kafka records; None for rows as Spark's source has them."""
    on_data_loss: str = "fail"
    """What missing records of Kafka do: "fail", or "continue" and count them."""
    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    settle: Fraction = Fraction(5)
    """Seconds without a change after which a file counts as complete, or as damaged if it cannot be read."""
    listing: str = "spark"
    """"direct": the driver lists a local folder itself. Object storage and tables are always read this way."""
    ordered: bool = False
    """True if names sort by time: most listings then begin after the last name."""
    after: str = "keep"
    """"delete": remove a file once its rows are committed."""
    start: str = "all"
    """Where a table is read from: "all", "new", or the number of a version or snapshot. Kafka: "earliest", "latest", or
    offsets."""
    on_change: str = "fail"
    """What a table's version does that removes or changes rows: "fail", or "skip"."""
    table: str | None = None
    """Name of an Iceberg table in its catalog."""
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    push: PushSettings | None = None

    @property
    def is_files(self) -> bool:
        return self.format in FILES or self.is_table

    @property
    def is_table(self) -> bool:
        """Return True for a table whose log names its files."""
        return self.format in TABLES

    @property
    def file_format(self) -> str:
        """Return the format of the files: data files of tables are Parquet."""
        return "parquet" if self.is_table else self.format

    @property
    def is_remote(self) -> bool:
        """Return True if the files lie in object storage."""
        scheme, mark, _ = (self.path or "").partition("://")
        return bool(mark) and scheme in OBJECT_SCHEMES

    @property
    def uses_options(self) -> bool:
        """Return True if reading the source needs options of an object store."""
        return self.is_remote or self.format == "iceberg"

    @property
    def is_listed(self) -> bool:
        """Return True if a lister finds the files; otherwise Spark does."""
        is_direct = self.is_remote or self.listing == "direct" or self.after == "delete"
        return self.is_table or (self.is_files and is_direct)

    @property
    def is_kafka(self) -> bool:
        return self.format == KAFKA

    @property
    def secrets(self) -> list[str]:
        """Values of options that no message may show."""
        return [value for name, value in self.options.items() if self.is_kafka and is_kafka_secret(name)]

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
    """A stream; `folder` is its store, `retention` counts steps. None means the store's setting, but for `tail`.

    `folder` may be a URI, and `storage_options` has its options.
    """

    name: str
    folder: str
    source: Source
    value: str
    time: str | None = None
    time_unit: str | None = None
    """Unit of numeric times; seconds by default."""
    weight: str | None = None
    """Column or expression of whole numbers: a row is stored as often as its weight says. None: once."""
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
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    metrics: StreamMetrics = field(default_factory=StreamMetrics)
    """Quantiles and windows for Prometheus."""
    unit: str | None = None
    """Unit of the values, such as "ms", that the page shows beside them."""

    def open_storage(self) -> "Storage":
        """Return the storage of the stream's store, which need not exist yet."""
        from quantide.store.location import open_storage

        return open_storage(self.folder, self.storage_options or None, self.durable)

    @property
    def key(self) -> str:
        """Return the stream's name in error messages."""
        return f"streams.{self.name}"

    @property
    def fingerprint(self) -> str:
        """Digest of the settings that decide which files can be read; if it changes, files on hold are retried."""
        source = (self.source.format, self.source.path, self.source.schema, sorted(self.source.options.items()))
        named = (self.source.table,) if self.source.table else ()
        columns = (self.value, self.time, self.time_unit, self.keys, sorted(self.filters.items()), self.schema_change)
        decode = () if self.source.decode is None else (self.source.decode,)
        weight = () if self.weight is None else (("weight", self.weight),)
        return sha256(repr((source, columns, *named, *decode, *weight)).encode()).hexdigest()[:16]


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
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
