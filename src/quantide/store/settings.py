"""Settings of a store: made once, kept in the table, checked at every opening."""

import json
import math
import re
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any

from quantide.errors import CorruptBytesError, InvalidArgumentError, SettingsError, TypeMismatchError
from quantide.store.fields import Fields, Read, integer, number, optional, parse_json, sequence, text
from quantide.summary.ranks import check_eps, check_size
from quantide.summary.types import type_named
from quantide.windows.ahead import OFF, read_ahead
from quantide.windows.clock import LONGEST, read_span

VERSION = 3
READABLE = (1, 2, 3)  # stores of version 1 keep nothing for windows, those before version 3 no max_ahead
PROPERTY = "quantide.settings"
VALUE = "value"  # the name of the column of values
FORBIDDEN = " ,;{}()\n\t="
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES_A_TUPLE = 24
MOST_MEMORY = 10**15
MOST_FILTERS = 16
MOST_TEXT = 1 << 20  # bytes of settings
WINDOW = "24 hours"
AHEAD = "3600"
CHANGEABLE = ("max_ahead",)  # settings that another opening may change
_SECONDS = re.compile(r"[1-9][0-9]{0,400}(/[1-9][0-9]{0,400})?")  # a length of time as it is stored


@dataclass(frozen=True)
class Settings:
    """`eps` is for the stream (and quick answers), `run_eps` for the summaries of runs, `retention` is in steps.

    `window` is how far back questions about recent values reach, in seconds, as text; None when none are kept.
    `filters` are names of what rows are told apart by. `max_ahead` is how many seconds a time may be ahead of the wall
    clock, as text, or "off".
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
    max_ahead: str = AHEAD

    @classmethod
    def of(
        cls,
        eps: float = 0.001,
        kappa: int = 10,
        memory: Any = None,
        keys: Any = None,
        value_type: str = "float64",
        retention: int | None = None,
        window: Any = WINDOW,
        filters: Any = None,
        max_ahead: Any = AHEAD,
    ) -> "Settings":
        """Settings out of what a user says: checked, with what they imply."""
        names = _names("keys", keys)
        for name in names:
            if not isinstance(name, str) or not name or name.lower() == VALUE:
                raise InvalidArgumentError(f"keys are names of columns other than {VALUE!r}, not {name!r}")
            if set(name) & set(FORBIDDEN):
                raise InvalidArgumentError(
                    f"Delta allows none of {FORBIDDEN!r} in a column's name, and {name!r} has one"
                )
        if len({name.lower() for name in names}) < len(names):
            raise InvalidArgumentError(f"keys must differ by more than upper and lower case, and do not in {names!r}")
        kappa = check_size("kappa", kappa, 1)
        if retention is not None:
            retention = check_size("retention", retention, 1)
        kind, budget = type_named(value_type).name, None if memory is None else read_bytes(memory)
        both = (check_eps(eps), check_eps(eps) / 4) if budget is None else share_memory(budget, kappa)
        recent = _read_window(window), _read_filters(filters, window)
        return cls(*both, kappa, kind, names, budget, retention, *recent, show_ahead(max_ahead))

    @property
    def span(self) -> Fraction | None:
        """How far back questions about recent values reach, in seconds; None when none are kept."""
        return None if self.window is None else Fraction(self.window)

    @property
    def ahead(self) -> Fraction | None:
        """Seconds that times may be ahead of the wall clock; None for "off"."""
        return None if self.max_ahead == OFF else Fraction(self.max_ahead)

    @property
    def chunk_eps(self) -> float:
        """For the summaries of chunks, which the summary of the open step is made of."""
        return min(self.run_eps, self.eps / 16)

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        try:
            fields = Fields(parse_json(text, MOST_TEXT))
            version = fields.take("version", integer())
            if version not in READABLE:
                raise SettingsError(f"a store of version {version}; this Quantide reads version {VERSION}: upgrade it")
            return _read_settings(fields)
        except (ValueError, TypeMismatchError) as error:
            if isinstance(error, SettingsError):
                raise
            raise CorruptBytesError(
                f"the settings of this store cannot be read: {error}; restore its _delta_log from a copy"
            ) from error

    def check_same(self, asked: dict[str, Any]) -> None:
        """Refuse to open with settings other than these, but for CHANGEABLE ones; `asked` has those that were given."""
        mine = self.said()
        for one, other in (("eps", "memory"), ("memory", "eps")):
            if one in asked:
                mine.pop(other, None)
        wanted = Settings.of(**{**mine, **asked})
        for field in fields(self):
            if field.name in CHANGEABLE:
                continue
            own, theirs = getattr(self, field.name), getattr(wanted, field.name)
            if own != theirs:
                raise SettingsError(
                    f"this store was made with {field.name}={own!r} and is opened with {theirs!r}; leave it out to "
                    "open the store as it is, or build a new store with the other settings (quantide history build)"
                )

    def changed(self, given: dict[str, Any]) -> "Settings":
        """With other values of CHANGEABLE settings."""
        return Settings.of(**{**self.said(), **given}) if given else self

    def said(self) -> dict[str, Any]:
        """The arguments that make these settings."""
        size = {"eps": self.eps} if self.memory is None else {"memory": self.memory}
        same = {"kappa": self.kappa, "keys": self.keys, "value_type": self.value_type, "retention": self.retention}
        return size | same | {"window": self.window or 0, "filters": self.filters, "max_ahead": self.max_ahead}


def _read_settings(fields: Fields) -> Settings:
    """Settings as they are stored, each checked as if a user gave it."""
    reads: dict[str, Read[Any]] = {
        "eps": number,
        "run_eps": lambda found: check_eps(number(found)),
        "kappa": integer(1),
        "value_type": text,
        "keys": sequence(text),
        "memory": optional(integer(1, MOST_MEMORY)),
        "retention": optional(integer(1)),
        "window": optional(_stored_span),
        "filters": sequence(text),
        "max_ahead": _stored_ahead,
    }
    found = fields.take_all(reads, ("memory", "retention", "window", "filters", "max_ahead"))
    own = {name: found.pop(name, None) for name in ("run_eps", "memory")}
    return replace(Settings.of(**found | {"window": found.get("window") or 0}), **own)


def _stored_span(found: Any) -> str:
    """A length of time as it is stored: a whole number or a fraction of seconds."""
    if not _SECONDS.fullmatch(text(found)) or Fraction(found) > LONGEST:
        raise ValueError(f"{found[:80]!r} is not a number of seconds")
    return str(found)


def _stored_ahead(found: Any) -> Any:
    return OFF if found == OFF else Fraction(_stored_span(found))


def _names(what: str, given: Any) -> tuple[Any, ...]:
    if given is not None and not isinstance(given, (str, list, tuple)):
        raise InvalidArgumentError(f"{what} are a name or a list of names, not {given!r}")
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _read_window(window: Any) -> str | None:
    if isinstance(window, (int, float)) and not isinstance(window, bool) and window == 0:
        return None
    if isinstance(window, str) and _SECONDS.fullmatch(window):
        return window
    return str(read_span(window))


def show_ahead(max_ahead: Any) -> str:
    """How far times may be ahead of the clock, as it is stored: seconds as text, or "off".

    >>> show_ahead("1 hour"), show_ahead("off")
    ('3600', 'off')
    """
    if isinstance(max_ahead, str) and _SECONDS.fullmatch(max_ahead):
        return max_ahead
    ahead = read_ahead(max_ahead)
    return OFF if ahead is None else str(ahead)


def _read_filters(filters: Any, window: Any) -> tuple[str, ...]:
    names = _names("filters", filters)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"filters are names, not {name!r}")
    if len(set(names)) < len(names) or len(names) > MOST_FILTERS:
        raise InvalidArgumentError(f"filters have different names and are at most {MOST_FILTERS}, not {names!r}")
    if names and _read_window(window) is None:
        raise InvalidArgumentError("filters are for windows; give a window, too")
    return names


def read_bytes(text: Any, name: str = "memory") -> int:
    """A number of bytes, or text such as "250 MB"; errors call it by a name.

    >>> read_bytes("250 MB")
    250000000
    """
    size = text
    if isinstance(text, str):
        found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]*)?) *([KMGT]?B)", text.strip().upper())
        if found is None:
            raise InvalidArgumentError(f"{name}={text!r} is not a size; write it as '250 MB'")
        size = int(float(found[1]) * UNITS[found[2]])
    size = check_size(name, size, 1)
    if size > MOST_MEMORY:
        raise InvalidArgumentError(f"{name}={text!r} is more than there is; write it as '250 MB'")
    return size


def share_memory(budget: int, kappa: int) -> tuple[float, float]:
    """eps for the stream and for runs out of a number of bytes, half to each.

    A summary within e keeps about 1/(2*e) tuples of the stream in each of some twenty places of its ladder, and
    1/(2*e) + 1 of a run. There are at most kappa runs a level, and as many levels as a million steps need.
    """
    half, levels = budget / 2, math.ceil(math.log(1e6) / math.log(kappa + 1))
    stream = 20 * BYTES_A_TUPLE / 2 / half
    runs = kappa * levels * BYTES_A_TUPLE / 2 / half
    if max(stream, runs) >= 0.25:
        raise InvalidArgumentError(f"memory of {budget} bytes is too little for any summary; give at least 100 KB")
    return check_eps(stream), check_eps(runs)
