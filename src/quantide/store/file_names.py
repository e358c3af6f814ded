"""Names of files: the run that a file is part of, and its writer.

Names contain the writer's epoch, which no two writers share, and a growing number: a fenced writer that still runs
cannot overwrite a file of its successor.
"""

import re
from dataclasses import dataclass
from uuid import uuid4

DATA, INDEXES, RECENT = "runs", "_quantide/side", "_quantide/recent"
LOCK = "_quantide/writer.lock"
RECORDS, QUARANTINE = "_quantide/sources", "_quantide/quarantine"
CHECKPOINTS, STAGING = "_quantide/checkpoints", "_quantide/staging"
RETIRED = "_quantide/retired"
LANDING, PUSH_KEYS = "_quantide/landing", "_quantide/push_keys"
CLOCK_PROBLEM, CLOCK_ACCEPTED = "_quantide/clock_problem.json", "_quantide/clock_accepted.json"
FOLDERS = (
    "_delta_log",
    DATA,
    "_quantide",
    INDEXES,
    RECENT,
    RECORDS,
    QUARANTINE,
    CHECKPOINTS,
    STAGING,
    RETIRED,
    LANDING,
    PUSH_KEYS,
)

# A number has one spelling: ASCII digits without leading zeros, few enough for 64 bits. So parsing a name and building
# the path from its numbers returns the same name, and no name leads out of the store.
_N = "(0|[1-9][0-9]{0,17})"
_TEMPORARY = re.compile(r"\.[0-9a-f]{32}\.tmp")
_NAME = re.compile(rf"runs/L{_N}-S{_N}-{_N}-E{_N}-{_N}-P{_N}(?:-E([1-9][0-9]{{0,17}})-{_N})?\.parquet")
_RECENT = re.compile(rf"_quantide/recent/E{_N}-{_N}\.(recent|manifest)")
_QUARANTINE = re.compile(rf"[a-z0-9]{{1,64}}-{_N}-{_N}-{_N}\.parquet")


@dataclass(frozen=True, order=True)
class RunId:
    """Identity of a run: the steps it covers, its level, and the epoch and number of its writer."""

    first: int
    last: int
    level: int
    epoch: int
    serial: int


@dataclass(frozen=True, order=True)
class FileName:
    """Name of one part of a run; parts are ordered by (key, value).

    A deletion writes a part again without some rows: `rewrite` is the epoch and the number of its writer.
    """

    run: RunId
    part: int
    rewrite: tuple[int, int] | tuple[()] = ()

    @property
    def stem(self) -> str:
        run, rewrite = self.run, self.rewrite
        suffix = f"-E{rewrite[0]}-{rewrite[1]}" if rewrite else ""
        return f"L{run.level}-S{run.first}-{run.last}-E{run.epoch}-{run.serial}-P{self.part}{suffix}"

    @property
    def epoch(self) -> int:
        """Epoch of the writer of the file."""
        return self.rewrite[0] if self.rewrite else self.run.epoch

    @property
    def data(self) -> str:
        """Path of the data file within the store."""
        return f"{DATA}/{self.stem}.parquet"

    @property
    def index(self) -> str:
        """Path of the index file: in a folder that starts with _, which readers of the table ignore."""
        return f"{INDEXES}/{self.stem}.side"

    @classmethod
    def parse(cls, data: str) -> "FileName | None":
        """Parse the path of a data file within the store; return None for other paths."""
        match = _NAME.fullmatch(data)
        if match is None:
            return None
        level, first, last, epoch, serial, part, *rewrite = (int(group) for group in match.groups() if group)
        if first > last:
            return None
        return cls(RunId(first, last, level, epoch, serial), part, (rewrite[0], rewrite[1]) if rewrite else ())

    @classmethod
    def parse_index(cls, index: str) -> "FileName | None":
        return cls.parse(f"{DATA}/{index.removeprefix(INDEXES + '/').removesuffix('.side')}.parquet")


LOG = "_delta_log"
HINT = f"{LOG}/_last_checkpoint"  # the file that names the last checkpoint


def entry_name(version: int) -> str:
    """Return the path of an entry of the log within the store."""
    return f"{LOG}/{version:020}.json"


def checkpoint_name(version: int) -> str:
    """Return the path of a checkpoint of the log within the store."""
    return f"{LOG}/{version:020}.checkpoint.parquet"


AddedFile = tuple[FileName, int, int]  # of a commit: name, size and rows


def recent_name(epoch: int, serial: int) -> str:
    """Return the path of a recent file within the store."""
    return f"{RECENT}/E{epoch}-{serial}.recent"


def manifest_name(number: int) -> str:
    """Return the path of a manifest; the upper half of its number is the writer's epoch."""
    return f"{RECENT}/E{number >> 32}-{number & 0xFFFFFFFF}.manifest"


def recent_epoch(name: str) -> int | None:
    """Return the epoch of the writer of a recent file or manifest; None for other names."""
    match = _RECENT.fullmatch(name)
    return int(match[1]) if match else None


def is_recent_file(name: str) -> bool:
    """Return True if this is the name of a recent file in the folder of recent files."""
    match = _RECENT.fullmatch(name)
    return match is not None and match[3] == "recent"


def is_quarantine_file(name: str) -> bool:
    """Return True if this is the name of a file in the folder of the quarantine."""
    return _QUARANTINE.fullmatch(name) is not None


def data_epoch(name: str) -> int | None:
    """Return the epoch of the writer of a data file; None for other names."""
    parsed = FileName.parse(name)
    return None if parsed is None else parsed.epoch


def temporary_name(path: str) -> str:
    """Return a unique name for a file that is being written."""
    return f"{path}.{uuid4().hex}.tmp"


def final_name(name: str) -> str:
    """Return the name of a file once it is complete."""
    return _TEMPORARY.sub("", name)
