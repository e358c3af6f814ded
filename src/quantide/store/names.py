"""The names of files: a name tells which run a file is part of, and that nobody else can have written it.

Names carry the writer's epoch, which no two writers share, and a number that grows: a fenced writer that is still
running cannot touch a file of its successor.
"""

import re
from dataclasses import dataclass
from uuid import uuid4

DATA, SIDE, RECENT = "runs", "_quantide/side", "_quantide/recent"
LOCK = "_quantide/writer.lock"
RECORDS, QUARANTINE = "_quantide/sources", "_quantide/quarantine"
CHECKPOINTS, STAGING = "_quantide/checkpoints", "_quantide/staging"
RETIRED = "_quantide/retired"
CLOCK_PROBLEM, CLOCK_ACCEPTED = "_quantide/clock_problem.json", "_quantide/clock_accepted.json"
FOLDERS = ("_delta_log", DATA, "_quantide", SIDE, RECENT, RECORDS, QUARANTINE, CHECKPOINTS, STAGING, RETIRED)

# A number has one spelling: ASCII digits without leading zeros, few enough for 64 bits. So a name that is read and the
# path that is built from its numbers are the same, and no name leads out of the store.
_N = "(0|[1-9][0-9]{0,17})"
_SPARE = re.compile(r"\.[0-9a-f]{32}\.tmp")
_NAME = re.compile(rf"runs/L{_N}-S{_N}-{_N}-E{_N}-{_N}-P{_N}\.parquet")
_RECENT = re.compile(rf"_quantide/recent/E{_N}-{_N}\.(recent|manifest)")
_HELD = re.compile(rf"[a-z0-9]{{1,64}}-{_N}-{_N}-{_N}\.parquet")


@dataclass(frozen=True, order=True)
class RunId:
    """A run: the steps it covers, its level, and who wrote it when."""

    first: int
    last: int
    level: int
    epoch: int
    serial: int


@dataclass(frozen=True, order=True)
class FileName:
    """A part of a run; parts follow each other in the order of (key, value)."""

    run: RunId
    part: int

    @property
    def stem(self) -> str:
        run = self.run
        return f"L{run.level}-S{run.first}-{run.last}-E{run.epoch}-{run.serial}-P{self.part}"

    @property
    def data(self) -> str:
        """Where the data lies, within the store."""
        return f"{DATA}/{self.stem}.parquet"

    @property
    def side(self) -> str:
        """Where the side file lies: in a folder that starts with _, which readers of the table pass by."""
        return f"{SIDE}/{self.stem}.side"

    @classmethod
    def parse(cls, data: str) -> "FileName | None":
        """The name behind a path within the store; None for what is not ours."""
        found = _NAME.fullmatch(data)
        if found is None:
            return None
        level, first, last, epoch, serial, part = map(int, found.groups())
        return cls(RunId(first, last, level, epoch, serial), part) if first <= last else None

    @classmethod
    def parse_side(cls, side: str) -> "FileName | None":
        return cls.parse(f"{DATA}/{side.removeprefix(SIDE + '/').removesuffix('.side')}.parquet")


File = tuple[FileName, int, int]  # as a commit takes it: its name, size and rows


def recent_name(epoch: int, serial: int) -> str:
    """Where a recent file lies, within the store."""
    return f"{RECENT}/E{epoch}-{serial}.recent"


def manifest_name(number: int) -> str:
    """Where the manifest of a number lies: the number has the writer's epoch in its upper half."""
    return f"{RECENT}/E{number >> 32}-{number & 0xFFFFFFFF}.manifest"


def recent_epoch(name: str) -> int | None:
    """The epoch of who wrote a recent file or a manifest; None for what is not ours."""
    found = _RECENT.fullmatch(name)
    return int(found[1]) if found else None


def is_recent_file(name: str) -> bool:
    """Return True if this is the name of a recent file, and of nothing outside their folder."""
    found = _RECENT.fullmatch(name)
    return found is not None and found[3] == "recent"


def is_held_file(name: str) -> bool:
    """Return True if this is the name of a file of the quarantine, within its folder."""
    return _HELD.fullmatch(name) is not None


def data_epoch(name: str) -> int | None:
    """The epoch of the writer of a data file; None for a name of another kind."""
    found = FileName.parse(name)
    return None if found is None else found.run.epoch


def spare_of(path: str) -> str:
    """A name of its own for a file that is being written."""
    return f"{path}.{uuid4().hex}.tmp"


def without_spare(name: str) -> str:
    """The name that a file will have when it is whole."""
    return _SPARE.sub("", name)
