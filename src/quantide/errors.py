"""Every error Quantide raises on purpose.

Each one also inherits the built-in error a Python programmer would expect, says what was wrong with the
value itself, and what to do. An operation that raises one of these has changed nothing; the one exception is
CommitUncertainError, which says how to find out.
"""

import re


class QuantideError(Exception):
    """Base of every error named here. `code` is its name for programs: "unknown_key" of UnknownKeyError."""

    code = "quantide"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", cls.__name__.removesuffix("Error")).lower()

    def __str__(self) -> str:  # a KeyError's own would put quotes around it
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(QuantideError, ValueError):
    """An argument is outside its range: phi, eps, a number of tuples, a count."""


class ConfigError(QuantideError, ValueError):
    """A configuration that cannot be used; the message names the key and says what to write."""


class MissingPackageError(QuantideError, ImportError):
    """A package of an extra that is not installed; the message says which to install."""

    @classmethod
    def of(cls, who: str, package: str, extra: str) -> "MissingPackageError":
        """
        >>> str(MissingPackageError.of("quantide.spark", "pyspark", "spark"))
        'quantide.spark needs pyspark, which is not installed; run: pip install "quantide[spark]"'
        """
        return cls(f'{who} needs {package}, which is not installed; run: pip install "quantide[{extra}]"')


class EmptyError(QuantideError, ValueError):
    """A question was asked of no data at all."""


class NaNError(QuantideError, ValueError):
    """NaN among the values: it has no rank. Pass nan="skip" to skip and count them."""


class TypeMismatchError(QuantideError, TypeError):
    """Values of a type that is not supported, or that does not fit what is already held."""


class CountOverflowError(QuantideError, OverflowError):
    """More than MAX_N values, the largest number for which ranks are exact."""


class CorruptBytesError(QuantideError, ValueError):
    """Bytes that are cut short, altered, or not of this format."""


class CopyError(QuantideError, TypeError):
    """An object that cannot be copied or pickled: it holds a lease, a thread, a connection or a function."""


class StorageError(QuantideError, OSError):
    """A file or an object store that cannot be reached: the network, the credentials, the disk."""


class CommitUncertainError(StorageError):
    """A commit of which nothing is known: the log can neither be written nor read just now.

    Repeat the call with `batch_id=error.batch_id`, or on the same handle with the same data: rows that are in the
    store already are not added again.
    """

    batch_id: object = None
    reason = ""


class RepairWarning(UserWarning):
    """A store was damaged, by a loss of power for instance, and opening it for writing mended that."""


class WriterConflictError(QuantideError, RuntimeError):
    """A store has one writer: another one holds it, or has taken it over from this one."""


class CheckpointError(QuantideError, RuntimeError):
    """What Spark remembers of a source is lost, or does not fit the store. --reset begins anew."""


class StreamError(QuantideError, RuntimeError):
    """A stream stopped because of something outside: Spark, its source, the network."""


class SettingsError(QuantideError, ValueError):
    """A store was opened with other settings than it was made with."""


class SpanError(QuantideError, ValueError):
    """A span that cannot be answered: steps that do not end where runs end, a window finer than its blocks."""


class LateError(QuantideError, ValueError):
    """A time that lies before one that came earlier. Pass late="clamp" to count it as arriving now."""


class FutureTimeError(QuantideError, ValueError):
    """A time further ahead of the clock than max_ahead. Correct it or its unit, or set max_ahead="off"."""


class TooCoarseError(QuantideError, ValueError):
    """A summary whose certified error is too large for the sketch it is fed to."""


class MergeError(QuantideError, ValueError):
    """Two sketches that cannot be merged, for instance because their eps differ."""


class UnknownKeyError(QuantideError, KeyError):
    """A key that no summary is held for."""


class UnknownQueryError(QuantideError, KeyError):
    """An id of no standing query: it was dropped, or never registered with this monitor."""


class UnknownStreamError(QuantideError, KeyError):
    """A stream that the configuration of a server does not have."""


class UnknownAlarmError(QuantideError, KeyError):
    """An id of no alarm: it was dropped, or never set."""


class NotReadyError(QuantideError, RuntimeError):
    """What is asked about is not there yet: a store that nothing was written to. Ask again later."""


class TokenError(QuantideError, PermissionError):
    """No token was given where one is needed, or one that is not known, has expired or was revoked."""


class ForbiddenError(QuantideError, PermissionError):
    """The role of a token does not allow this."""


class LimitError(QuantideError, RuntimeError):
    """More than a server allows: queries, connections, the size of a request."""


class ServerError(QuantideError, RuntimeError):
    """A server that cannot be reached, or that answers what is not understood."""
