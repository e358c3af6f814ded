"""Settings of a store: chosen at its creation, stored in the table, checked whenever it is opened."""

import json
import math
import re
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple

from quantide.errors import CorruptBytesError, InvalidArgumentError, SettingsError, TypeMismatchError
from quantide.store.json_fields import MAX_INT, Fields, Read, integer, number, optional, parse_json, sequence, text
from quantide.summary.ranks import DEFAULT, check_eps, check_size, check_tail
from quantide.summary.value_types import type_named
from quantide.windows.time_clock import MAX_SPAN, OFF, read_ahead, read_span

VERSION = 4
READABLE_VERSIONS = (1, 2, 3, 4)  # version 1 has no recent files, version 2 no max_ahead, version 3 no tail
PROPERTY = "quantide.settings"
VALUE = "value"  # name of the column of values
FORBIDDEN = " ,;{}()\n\t=\0"
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
TUPLE_BYTES = 24
MERGED_BYTES = 32  # for each tuple of the summary of all runs: a fourth is left for other data about the runs
STREAM_ROWS = 10  # of tuples in a sketch; six were the most in tests
MIN_RUN_EPS = 1e-5  # of the summaries of runs in files, for a number of bytes
MAX_SHARED_EPS = 0.25
MAX_MEMORY = 10**15
MAX_FILTERS = 16
MAX_SETTINGS_BYTES = 1 << 20  # bytes of settings
DEFAULT_WINDOW = "24 hours"
DEFAULT_MAX_AHEAD = "3600"
CHANGEABLE = ("max_ahead",)  # settings that may differ when a store is opened again
_SECONDS = re.compile(r"[1-9][0-9]{0,400}(/[1-9][0-9]{0,400})?")  # stored form of a length of time


class ErrorProfile(NamedTuple):
    """Largest error of a summary: eps as a fraction of its values, tail as one of the distance from either end."""

    eps: float
    tail: float | None


@dataclass(frozen=True)
class StoreSettings:
    """Settings: `eps` of the stream and of quick answers, `run_eps` of the summaries of runs, `retention` in steps.

    `tail` is the largest error as a fraction of the distance from either end; None if eps alone limits it.

    `window` is the span of recent values that can be queried, in seconds, as text; None without recent files.
    `filters` are names of predicates over rows. `max_ahead` is the number of seconds that a time may be ahead of the
    wall clock, as text, or "off".
    """

    eps: float
    run_eps: float
    kappa: int
    value_type: str
    keys: tuple[str, ...]
    memory: int | None = None
    retention: int | None = None
    window: str | None = None
    filters: tuple[str, ...] = ()
    max_ahead: str = DEFAULT_MAX_AHEAD
    tail: float | None = None

    @classmethod
    def of(
        cls,
        eps: float = 0.001,
        kappa: int = 10,
        memory: Any = None,
        keys: Any = None,
        value_type: str = "float64",
        retention: int | None = None,
        window: Any = DEFAULT_WINDOW,
        filters: Any = None,
        max_ahead: Any = DEFAULT_MAX_AHEAD,
        tail: Any = DEFAULT,
    ) -> "StoreSettings":
        """Check the arguments of a user and derive settings from them."""
        names = _read_names("keys", keys)
        for name in names:
            if not isinstance(name, str) or not name or name.lower() == VALUE:
                raise InvalidArgumentError(f"keys are names of columns other than {VALUE!r}, not {name!r}")
            if set(name) & set(FORBIDDEN):
                raise InvalidArgumentError(
                    f"a column's name in a store can have none of {FORBIDDEN!r}, and {name!r} has one"
                )
        if len({name.lower() for name in names}) < len(names):
            raise InvalidArgumentError(f"keys must differ by more than upper and lower case, and do not in {names!r}")
        kappa = check_size("kappa", kappa, 1, MAX_INT)
        if retention is not None:
            retention = check_size("retention", retention, 1, MAX_INT)
        kind, budget = type_named(value_type).name, None if memory is None else parse_size(memory)
        errors = (check_eps(eps), check_eps(eps) / 4) if budget is None else share_memory(budget, kappa, bool(names))
        if budget is not None:
            if tail is not DEFAULT and tail is not None:
                raise InvalidArgumentError(
                    "memory chooses the smallest eps without a tail; give eps and tail instead, or leave out tail"
                )
            tail = None
        recent = _read_window(window), _read_filters(filters, window)
        ahead, tail = format_max_ahead(max_ahead), check_tail(tail, errors[0])
        return cls(*errors, kappa, kind, names, budget, retention, *recent, ahead, tail)

    @property
    def span(self) -> Fraction | None:
        """Length of the window in seconds; None without recent files."""
        return None if self.window is None else Fraction(self.window)

    @property
    def ahead(self) -> Fraction | None:
        """Seconds that a time may be ahead of the wall clock; None for "off"."""
        return None if self.max_ahead == OFF else Fraction(self.max_ahead)

    @property
    def chunk_eps(self) -> float:
        """Error of the summaries of chunks, which are merged into the summary of the open step."""
        return min(self.run_eps, self.eps / 16)

    @property
    def profile(self) -> ErrorProfile:
        """Error of the open step, of windows and of quick answers."""
        return ErrorProfile(self.eps, self.tail)

    @property
    def quick_profile(self) -> ErrorProfile:
        """Error to which quick answers compress the summaries of runs."""
        return ErrorProfile(self.run_eps, self.tail)

    @property
    def merged_tuples(self) -> int | None:
        """Most tuples of the summary of all runs; None if the summaries of runs are small enough to be merged as they
        are: without `memory`, with keys, and in stores of version 0.2.
        """
        if self.memory is None or self.run_eps >= _share_runs(self.memory, self.kappa):
            return None
        return max(2, self.memory // 2 // MERGED_BYTES)

    @property
    def quick_eps(self) -> float:
        """Error of quick answers over ended steps. The total over keys of a run may have twice that of each key."""
        runs = 2 * self.run_eps if self.keys else self.run_eps
        return runs + (0.0 if self.merged_tuples is None else 1 / (2 * (self.merged_tuples - 1)))

    @property
    def run_profile(self) -> ErrorProfile:
        """Error of the summaries of runs: half the tail is left for totals over keys and for compression."""
        return ErrorProfile(self.run_eps, None if self.tail is None else self.tail / 2)

    @property
    def chunk_profile(self) -> ErrorProfile:
        """Error of the summaries of chunks: a sketch takes summaries with half its tail."""
        return ErrorProfile(self.chunk_eps, None if self.tail is None else self.tail / 4)

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "StoreSettings":
        try:
            fields = Fields(parse_json(text, MAX_SETTINGS_BYTES))
            version = fields.take("version", integer())
            if version not in READABLE_VERSIONS:
                raise SettingsError(f"a store of version {version}; this Quantide reads version {VERSION}: upgrade it")
            return _read_settings(fields)
        except (ValueError, TypeMismatchError) as error:
            if isinstance(error, SettingsError):
                raise
            raise CorruptBytesError(
                f"the settings of this store cannot be read: {error}; restore its _delta_log from a copy"
            ) from error

    def check_equal(self, arguments: dict[str, Any]) -> None:
        """Raise SettingsError if arguments of an opening differ from these settings, except for CHANGEABLE ones."""
        stored = self.arguments()
        for name, alternative in (("eps", "memory"), ("memory", "eps")):
            if name in arguments:
                stored.pop(alternative, None)
        if "memory" in arguments:
            stored.pop("tail")
        requested = StoreSettings.of(**{**stored, **arguments})
        derived = ("eps", "run_eps") if self.memory is not None and self.memory == requested.memory else ()
        for field in fields(self):
            if field.name in CHANGEABLE or field.name in derived:  # other versions share memory differently
                continue
            own, other = getattr(self, field.name), getattr(requested, field.name)
            if own != other:
                raise SettingsError(
                    f"this store was made with {field.name}={own!r} and is opened with {other!r}; leave it out to "
                    "open the store as it is, or build a new store with the other settings (quantide history build)"
                )

    def with_changes(self, changes: dict[str, Any]) -> "StoreSettings":
        """Return these settings with other values of CHANGEABLE ones."""
        changed = StoreSettings.of(**{**self.arguments(), **changes})
        return replace(self, **{name: getattr(changed, name) for name in changes})

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `of` that result in these settings."""
        size = {"eps": self.eps} if self.memory is None else {"memory": self.memory}
        others = {"kappa": self.kappa, "keys": self.keys, "value_type": self.value_type, "retention": self.retention}
        recent = {"window": self.window or 0, "filters": self.filters, "max_ahead": self.max_ahead}
        return size | others | recent | {"tail": self.tail}


def _read_settings(fields: Fields) -> StoreSettings:
    """Parse stored settings; check each like an argument of a user."""
    reads: dict[str, Read[Any]] = {
        "eps": number,
        "run_eps": lambda value: check_eps(number(value)),
        "kappa": integer(1),
        "value_type": text,
        "keys": sequence(text),
        "memory": optional(integer(1, MAX_MEMORY)),
        "retention": optional(integer(1)),
        "window": optional(_read_span),
        "filters": sequence(text),
        "max_ahead": _read_stored_ahead,
        "tail": optional(number),
    }
    values = fields.take_all(reads, ("memory", "retention", "window", "filters", "max_ahead", "tail"))
    values.setdefault("tail", None)
    derived = {name: values.pop(name, None) for name in ("run_eps", "memory")}
    return replace(StoreSettings.of(**values | {"window": values.get("window") or 0}), **derived)


def _read_span(value: Any) -> str:
    """Check a stored length of time: a whole number or a fraction of seconds."""
    if not _SECONDS.fullmatch(text(value)) or Fraction(value) > MAX_SPAN:
        raise ValueError(f"{value[:80]!r} is not a number of seconds")
    return str(value)


def _read_stored_ahead(value: Any) -> Any:
    return OFF if value == OFF else Fraction(_read_span(value))


def _read_names(argument: str, names: Any) -> tuple[Any, ...]:
    if names is not None and not isinstance(names, (str, list, tuple)):
        raise InvalidArgumentError(f"{argument} are a name or a list of names, not {names!r}")
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _read_window(window: Any) -> str | None:
    if isinstance(window, (int, float)) and not isinstance(window, bool) and window == 0:
        return None
    if isinstance(window, str) and _SECONDS.fullmatch(window):
        return window
    return str(read_span(window))


def format_max_ahead(max_ahead: Any) -> str:
    """Return the stored form of `max_ahead`: seconds as text, or "off".

    >>> format_max_ahead("1 hour"), format_max_ahead("off")
    ('3600', 'off')
    """
    if isinstance(max_ahead, str) and _SECONDS.fullmatch(max_ahead):
        return max_ahead
    ahead = read_ahead(max_ahead)
    return OFF if ahead is None else str(ahead)


def _read_filters(filters: Any, window: Any) -> tuple[str, ...]:
    names = _read_names("filters", filters)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"filters are names, not {name!r}")
    if len(set(names)) < len(names) or len(names) > MAX_FILTERS:
        raise InvalidArgumentError(f"filters have different names and are at most {MAX_FILTERS}, not {names!r}")
    if names and _read_window(window) is None:
        raise InvalidArgumentError("filters are for windows; give a window, too")
    return names


def parse_size(text: Any, name: str = "memory") -> int:
    """Return a number of bytes, given as a number or as text such as "250 MB"; `name` is for error messages.

    >>> parse_size("250 MB")
    250000000
    """
    size = text
    if isinstance(text, str):
        match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]*)?) *([KMGT]?B)", text.strip().upper())
        if match is None:
            raise InvalidArgumentError(f"{name}={text!r} is not a size; write it as '250 MB'")
        size = int(float(match[1]) * UNITS[match[2]])
    size = check_size(name, size, 1)
    if size > MAX_MEMORY:
        raise InvalidArgumentError(f"{name}={text!r} is more than there is; write it as '250 MB'")
    return size


def share_memory(budget: int, kappa: int, keyed: bool = False) -> tuple[float, float]:
    """Return eps of the stream and of the summaries of runs for a number of bytes, half for each.

    A summary within e has about 1/(2*e) tuples of the stream in each of at most STREAM_ROWS rows of its levels, and
    1/(2*e) + 1 of a run. Summaries of runs are in files; in memory is one of all runs, with MERGED_BYTES for a tuple.
    Those in files are a third as coarse, but not finer than MIN_RUN_EPS: they are read to make the one in memory. With
    keys, finer summaries of every key would be as large as the data, so that all runs share the half.
    """
    half, shared = budget / 2, _share_runs(budget, kappa)
    stream = STREAM_ROWS * TUPLE_BYTES / 2 / half
    runs = shared if keyed else min(shared, max(MERGED_BYTES / 2 / 3 / half, MIN_RUN_EPS))
    if max(stream, shared) >= MAX_SHARED_EPS:
        least = max(STREAM_ROWS * TUPLE_BYTES, _share_runs(2, kappa) * 2) / MAX_SHARED_EPS
        raise InvalidArgumentError(
            f"memory of {budget:,} bytes is too little for any summary with kappa={kappa}; give at least "
            f"{math.floor(least) + 1:,} bytes"
        )
    return check_eps(stream), check_eps(runs)


def _share_runs(budget: int, kappa: int) -> float:
    """Return eps of the summaries of runs if all of them are in memory, in half of a number of bytes.

    There are at most kappa runs per level, and as many levels as a million steps need.
    """
    return kappa * math.ceil(math.log(1e6) / math.log(kappa + 1)) * TUPLE_BYTES / 2 / (budget / 2)
