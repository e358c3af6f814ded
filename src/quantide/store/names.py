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
_SPARE = re.compile(r"\.[0-9a-f]{32}\.tmp")
_NAME = re.compile(r"runs/L(\d+)-S(\d+)-(\d+)-E(\d+)-(\d+)-P(\d+)\.parquet")
_RECENT = re.compile(r"_quantide/recent/E(\d+)-\d+\.(?:recent|manifest)")


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
        return cls(RunId(first, last, level, epoch, serial), part)

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


def spare_of(path: str) -> str:
    """A name of its own for a file that is being written."""
    return f"{path}.{uuid4().hex}.tmp"


def without_spare(name: str) -> str:
    """The name that a file will have when it is whole."""
    return _SPARE.sub("", name)
