"""Named errors of Quantide.

Each also inherits the built-in error that a Python programmer expects. Its message states the problem, the value, and
what to do. An operation that raises one of these has changed nothing; the exception is CommitUncertainError, whose
message says how to find out.
"""

import re


class QuantideError(Exception):
    """Base of all errors here. `code` is the error's name for programs: "unknown_key" for UnknownKeyError."""

    code = "quantide"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", cls.__name__.removesuffix("Error")).lower()

    def __str__(self) -> str:  # that of KeyError would add quotes
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(QuantideError, ValueError):
    """An argument is outside its range, such as phi, eps or a count."""


class ConfigError(QuantideError, ValueError):
    """A configuration is invalid; the message names the key and a valid value."""


class MissingPackageError(QuantideError, ImportError):
    """A package of an extra is not installed; the message has the command that installs it."""

    @classmethod
    def of(cls, feature: str, package: str, extra: str) -> "MissingPackageError":
        """Return the error for a feature that needs a package of an extra.

        >>> str(MissingPackageError.of("quantide.spark", "pyspark", "spark"))
        'quantide.spark needs pyspark, which is not installed; run: pip install "quantide[spark]"'
        """
        return cls(f'{feature} needs {package}, which is not installed; run: pip install "quantide[{extra}]"')


class EmptyError(QuantideError, ValueError):
    """A query has no data to answer from."""


class NaNError(QuantideError, ValueError):
    """A value is NaN, which has no rank. Pass nan="skip" to skip and count NaN."""


class TypeMismatchError(QuantideError, TypeError):
    """Values have an unsupported type, or another type than those before."""


class UnprovedError(TypeMismatchError):
    """A structure with proved bounds was given data whose bounds are not proved, or not for single values."""


class HistogramError(QuantideError, ValueError):
    """A histogram contradicts itself, or its form is not supported. The message names the field."""


class CountOverflowError(QuantideError, OverflowError):
    """There are more than MAX_N values, the largest number for which ranks are exact."""


class CorruptBytesError(QuantideError, ValueError):
    """Bytes are truncated, altered, or of another format."""


class CopyError(QuantideError, TypeError):
    """An object cannot be copied or pickled because it has a lease, a thread, a connection or a function."""


class StorageError(QuantideError, OSError):
    """A file or an object store is not accessible: network, credentials, disk."""


class NoStoreError(StorageError):
    """Nothing was written to the path of a store yet."""


class AccessRefusedError(StorageError):
    """An object store refused the credentials, or they have expired: the request was not executed."""


class DiskFullError(StorageError):
    """The disk of a store is full, or a quota is used up. Nothing was written."""


class CommitUncertainError(StorageError):
    """The outcome of a commit is unknown: the log can currently be neither written nor read.

    Repeat the call with `batch_id=error.batch_id`, or on the same handle with the same data: rows that are already in
    the store are not added again.
    """

    batch_id: object = None
    reason = ""


class RepairWarning(UserWarning):
    """A store was damaged, for instance by a power loss, and opening it for writing repaired it."""


class WriterConflictError(QuantideError, RuntimeError):
    """Another writer has the lease of a store, or has taken it over from this one."""


class CheckpointError(QuantideError, RuntimeError):
    """Spark's checkpoint of a source is lost, or does not match the store. --reset starts a new one."""


class StreamError(QuantideError, RuntimeError):
    """A stream stopped for an external reason: Spark, its source, the network."""


class SourceTableError(QuantideError, RuntimeError):
    """A table that is the source of a stream cannot be followed: its rows changed, its log was trimmed, or the like."""


class SparkSetupError(QuantideError, RuntimeError):
    """There is no Spark session, Spark does not start, or its workers cannot import quantide."""


class ConnectorError(QuantideError, RuntimeError):
    """Spark's connector to Kafka is missing, or cannot be fetched."""


class DataLossError(QuantideError, RuntimeError):
    """A source deleted data before it was ingested; the message has the number of lost offsets."""


class SettingsError(QuantideError, ValueError):
    """A store was opened with settings other than those it was created with."""


class SpanError(QuantideError, ValueError):
    """A span cannot be answered: its steps do not end where runs end, or a window is finer than its blocks."""


class LateError(QuantideError, ValueError):
    """A time is before an earlier arrival's. Pass late="clamp" to count the value as arriving now."""


class FutureTimeError(QuantideError, ValueError):
    """A time is further ahead of the clock than max_ahead. Correct it or its unit, or set max_ahead="off"."""


class TooCoarseError(QuantideError, ValueError):
    """The certified error of a summary is too large for the sketch."""


class MergeError(QuantideError, ValueError):
    """Two sketches cannot be merged, for instance because their eps differ."""


class UnknownKeyError(QuantideError, KeyError):
    """A key has no summary."""


class UnknownQueryError(QuantideError, KeyError):
    """No continuous query has this id: it was dropped, or never registered with this monitor."""


class UnknownStreamError(QuantideError, KeyError):
    """A stream is not in the configuration of the server."""


class UnknownAlarmError(QuantideError, KeyError):
    """No alarm has this id: it was dropped, or never set."""


class NotReadyError(QuantideError, RuntimeError):
    """The data is not there yet: the store is empty. Retry later."""


class TokenError(QuantideError, PermissionError):
    """A token is missing, unknown, expired or revoked."""


class ForbiddenError(QuantideError, PermissionError):
    """The role of a token does not allow this."""


class LimitError(QuantideError, RuntimeError):
    """A limit of the server is exceeded: queries, connections, the size of a request."""


class BacklogError(LimitError):
    """Ingestion has not caught up with the rows that were pushed. Send these rows again after `retry_after` seconds."""

    retry_after = 1


class ServerError(QuantideError, RuntimeError):
    """A server cannot be reached, or its response is invalid. `status` is that of its response, if there was one."""

    status: int | None = None
