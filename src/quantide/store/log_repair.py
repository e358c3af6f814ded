"""Repair of the log: sets torn entries and damaged checkpoints aside, so that a writer can continue before them.

A torn entry does not show what its commit did. The data files that its readable part names, or else the newest data
files that belong to no version, are linked beside it: `History.append_files` adds their rows again.
"""

import math
import re
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass

from quantide.errors import CorruptBytesError
from quantide.store.delta_log import DeltaLog, LogSurvey
from quantide.store.file_names import DATA, HINT, LOG, FileName, checkpoint_name, entry_name
from quantide.store.index_file import IndexFile
from quantide.store.log_entry import LogEntry
from quantide.store.storage import Storage

ASIDE = "_quantide/aside"
MAX_CLOCK_DIFFERENCE = 600.0  # seconds between a writer's clock and its file system's; beyond it the store is a copy
_ENTRY = re.compile(rf"{LOG}/\d{{20}}\.json")


@dataclass(frozen=True)
class DamageEvidence:
    """Data files that a torn commit may have added: names, number of rows, and ids of their batches."""

    names: tuple[FileName, ...] = ()
    rows: int = 0
    batches: tuple[str, ...] = ()
    is_merge: bool = False  # a merge loses nothing: its inputs are active again


def move_aside(storage: Storage, file: str) -> str:
    """Move a file out of the log; return its new name within the store."""
    base, name, number = file.rpartition("/")[2], "", 0
    while not name or storage.exists(name):
        name, number = f"{ASIDE}/{base}" + (f".{number}" if number else ""), number + 1
    storage.move(file, name)
    return name


def count_aside(storage: Storage) -> int:
    """Return the number of files of the log that were set aside."""
    return sum(file.name.startswith(f"{ASIDE}/0") for file in storage.list_files(ASIDE))


def find_evidence(storage: Storage, version: int, active: Container[FileName], step: int) -> DamageEvidence:
    """Find the data files of a torn entry; `active` and `step` are of the version before it.

    Files that older entries added are excluded whatever their times, because copying a store changes times.
    """
    readable = LogEntry.read(storage.read(entry_name(version)))
    if any("remove" in action for action in readable.actions):
        return DamageEvidence(is_merge=True)
    names = [name for path in readable.added_paths if (name := FileName.parse(path)) is not None]
    if not names:
        committed = _find_added_before(storage, version)
        orphans = _find_orphans(storage, version - 1, active)
        names = [name for name in orphans if name.run.first >= step and name not in committed]
    intact: list[FileName] = []
    rows, batches = 0, set()
    for name in names:
        with suppress(FileNotFoundError, CorruptBytesError):
            info = IndexFile(storage.map(name.index), name.index).info
            if name.run.level > 0 or len(info.sources) > 1:
                continue  # written by a merge, whose inputs are active
            if storage.stat(name.data).size == info.data_size:
                intact.append(name)
                rows += info.rows
                batches.update(info.sources)
    return DamageEvidence(tuple(intact), rows, tuple(sorted(batches)))


def keep_data(storage: Storage, evidence: DamageEvidence) -> None:
    """Give data files a second name in the folder of files set aside, where vacuum does not remove them."""
    for name in evidence.names:
        storage.copy(name.data, f"{ASIDE}/{name.stem}.parquet")
    storage.sync(ASIDE)


def _find_added_before(storage: Storage, version: int) -> set[FileName]:
    """Return the data files that earlier entries of the log added."""
    added: set[FileName] = set()
    for file in storage.list_files(LOG):
        if _ENTRY.fullmatch(file.name) and file.name < entry_name(version):
            paths = LogEntry.read(storage.read(file.name)).added_paths
            added.update(parsed for path in paths if (parsed := FileName.parse(path)) is not None)
    return added


def _find_orphans(storage: Storage, before: int, active: Container[FileName]) -> list[FileName]:
    """Return data files of no version that are newer than an entry, or all of no version if the store is a copy."""
    try:
        since = -math.inf if _is_copied(storage, before) else storage.stat(entry_name(before)).modified
    except FileNotFoundError:
        return []
    names = [FileName.parse(file.name) for file in storage.list_files(DATA) if file.modified >= since]
    return sorted(name for name in names if name is not None and name not in active)


def _is_copied(storage: Storage, version: int) -> bool:
    """Return True if the time of an entry is far from the timestamp that its writer put into it."""
    timestamp = LogEntry.read(storage.read(entry_name(version))).info.get("timestamp")
    modified = storage.stat(entry_name(version)).modified
    return isinstance(timestamp, int) and abs(modified - timestamp / 1000) > MAX_CLOCK_DIFFERENCE


@dataclass(frozen=True)
class LogFinding:
    """Damage of a file: its problem, the action taken, and whether data is lost."""

    kind: str
    name: str
    problem: str
    action: str
    lost: bool = False
    rows: int | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.problem}; {self.action}"


class LogRepair:
    """Repair of a log according to its survey; `step` is the open step. With `dry_run` nothing is changed."""

    def __init__(
        self, storage: Storage, survey: LogSurvey, active: Iterable[FileName], step: int, dry_run: bool = False
    ) -> None:
        self._storage, self._survey, self._committed, self._step = storage, survey, set(active), step
        self._dry_run, self._log = dry_run, DeltaLog(storage)

    def run(self) -> list[LogFinding]:
        """Set aside all entries after the newest readable version, and damaged checkpoints."""
        survey = self._survey
        entries = sorted((*survey.torn, *survey.stranded), reverse=True)  # so an interrupted repair can start again
        for version in survey.stranded:
            self._committed.update(_read_names(self._log, version))
        findings = [self._repair_entry(version) for version in entries]
        findings += [self._repair_checkpoint(version) for version in survey.checkpoints]
        if survey.hint is not None:
            if not self._dry_run:
                self._storage.remove(HINT)
            findings.append(LogFinding("checkpoint", "_last_checkpoint", "names no checkpoint", "it is written again"))
        return findings

    def _repair_entry(self, version: int) -> LogFinding:
        name = entry_name(version)
        if version in self._survey.stranded:
            evidence, problem = self._read_stranded(version), "comes after an entry that is torn or missing"
        else:
            evidence = find_evidence(self._storage, version, self._committed, self._step)
            self._committed.update(evidence.names)
            problem = f"is torn: its {self._storage.stat(name).size:,} bytes are no whole commit"
        if not self._dry_run:
            keep_data(self._storage, evidence)
        action = f"{self._move(name)}; {_describe(evidence)}"
        return LogFinding("log entry", name.removeprefix(f"{LOG}/"), problem, action, evidence.rows > 0, evidence.rows)

    def _read_stranded(self, version: int) -> DamageEvidence:
        entry = LogEntry.read(self._log.read_entry(version))
        names = tuple(_read_names(self._log, version)) if entry.rows_added else ()
        return DamageEvidence(names, entry.rows_added, is_merge=not names)

    def _repair_checkpoint(self, version: int) -> LogFinding:
        name = checkpoint_name(version)
        action = f"{self._move(name)}; older entries contain the same"
        return LogFinding("checkpoint", name.removeprefix(f"{LOG}/"), "cannot be read", action)

    def _move(self, name: str) -> str:
        if self._dry_run:
            return "it would be set aside"
        return f"it is set aside as {move_aside(self._storage, name)}"


def _read_names(log: DeltaLog, version: int) -> list[FileName]:
    """Return the names of the data files that an entry adds."""
    paths = LogEntry.read(log.read_entry(version)).added_paths
    return [name for path in paths if (name := FileName.parse(path)) is not None]


def _describe(evidence: DamageEvidence) -> str:
    """Describe the data that a removed commit may have added."""
    if evidence.is_merge:
        return "it was a merge or changed no rows, and nothing is lost with it"
    if not evidence.rows:
        return "no data of it was found"
    batches = f", of the batches {', '.join(evidence.batches)}" if evidence.batches else ""
    return (
        f"{evidence.rows:,} rows{batches} may be lost: if their append returned and was not repeated, add them with "
        f"History.append_files from {', '.join(f'{name.stem}.parquet' for name in evidence.names)} beside it"
    )
