"""Settings of a store: made once, kept in the table, checked at every opening."""

import json
import math
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from quantide.errors import CorruptBytesError, InvalidArgumentError, SettingsError
from quantide.summary.ranks import check_eps, check_size
from quantide.summary.types import type_named

VERSION = 1
PROPERTY = "quantide.settings"
VALUE = "value"  # the name of the column of values
FORBIDDEN = " ,;{}()\n\t="
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES_A_TUPLE = 24
MOST_MEMORY = 10**15


@dataclass(frozen=True)
class Settings:
    """`eps` is for the stream (and quick answers), `run_eps` for the summaries of runs, `retention` is in steps."""

    eps: float
    run_eps: float
    kappa: int
    value_type: str
    keys: tuple[str, ...]
    memory: int | None = None
    retention: int | None = None

    @classmethod
    def of(
        cls,
        eps: float = 0.001,
        kappa: int = 10,
        memory: Any = None,
        keys: Any = None,
        value_type: str = "float64",
        retention: int | None = None,
    ) -> "Settings":
        """Settings out of what a user says: checked, with what they imply."""
        if keys is not None and not isinstance(keys, (str, list, tuple)):
            raise InvalidArgumentError(f"keys are a name or a list of names of columns, not {keys!r}")
        names = () if keys is None else (keys,) if isinstance(keys, str) else tuple(keys)
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
        kind = type_named(value_type).name
        if memory is None:
            eps = check_eps(eps)
            return cls(eps, eps / 4, kappa, kind, names, None, retention)
        budget = read_bytes(memory)
        return cls(*share_memory(budget, kappa), kappa, kind, names, budget, retention)

    @property
    def chunk_eps(self) -> float:
        """For the summaries of chunks, which the summary of the open step is made of."""
        return min(self.run_eps, self.eps / 16)

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        try:
            held = json.loads(text)
            version = held.pop("version")
        except (ValueError, KeyError, AttributeError) as error:
            raise CorruptBytesError(f"the settings of this store cannot be read: {text[:80]!r}") from error
        if version != VERSION:
            raise SettingsError(f"a store of version {version}; this Quantide reads version {VERSION}: upgrade it")
        return cls(**{**held, "keys": tuple(held["keys"])})

    def check_same(self, asked: dict[str, Any]) -> None:
        """Refuse to open with settings other than these; `asked` has those that were said."""
        mine = self.said()
        for one, other in (("eps", "memory"), ("memory", "eps")):
            if one in asked:
                mine.pop(other, None)
        wanted = Settings.of(**{**mine, **asked})
        for field in fields(self):
            own, theirs = getattr(self, field.name), getattr(wanted, field.name)
            if own != theirs:
                raise SettingsError(
                    f"this store was made with {field.name}={own!r} and is opened with {theirs!r}; leave it out to "
                    "open the store as it is, or build a new store with the other settings (quantide history build)"
                )

    def said(self) -> dict[str, Any]:
        """The arguments that make these settings."""
        size = {"eps": self.eps} if self.memory is None else {"memory": self.memory}
        same = {"kappa": self.kappa, "keys": self.keys, "value_type": self.value_type, "retention": self.retention}
        return size | same


def read_bytes(text: Any) -> int:
    """A number of bytes, or text such as "250 MB".

    >>> read_bytes("250 MB")
    250000000
    """
    size = text
    if isinstance(text, str):
        found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]*)?) *([KMGT]?B)", text.strip().upper())
        if found is None:
            raise InvalidArgumentError(f"memory={text!r} is not a size; write it as '250 MB'")
        size = int(float(found[1]) * UNITS[found[2]])
    size = check_size("memory", size, 1)
    if size > MOST_MEMORY:
        raise InvalidArgumentError(f"memory={text!r} is more than there is; write it as '250 MB'")
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
