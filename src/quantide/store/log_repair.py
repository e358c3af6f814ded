"""Repair of the log: sets torn entries and damaged checkpoints aside, so that a writer can continue before them.

A torn entry does not show what its commit did. The data files that its readable part names, or else the newest data
files that belong to no version, are linked beside it: `History.append_files` adds their rows again.
"""

import math
import os
import re
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass

from quantide.errors import CorruptBytesError
from quantide.store.delta_log import DeltaLog, LogSurvey
from quantide.store.durable_files import make_folder, move_file, remove, sync
from quantide.store.file_names import DATA, FileName
from quantide.store.index_file import IndexFile
from quantide.store.location import FolderLocation
from quantide.store.log_entry import LogEntry

ASIDE = "_quantide/aside"
MAX_CLOCK_DIFFERENCE = 600.0  # seconds between a writer's clock and its file system's; beyond it the store is a copy
_ENTRY = re.compile(r"\d{20}\.json")


@dataclass(frozen=True)
class DamageEvidence:
    """Data files that a torn commit may have added: names, number of rows, and ids of their batches."""

    names: tuple[FileName, ...] = ()
    rows: int = 0
    batches: tuple[str, ...] = ()
    is_merge: bool = False  # a merge loses nothing: its inputs are active again


def move_aside(path: str, file: str, durable: bool) -> str:
    """Move a file out of the log; return its new name within the store."""
    base, name, number = os.path.basename(file), "", 0
    while not name or os.path.exists(os.path.join(path, name)):
        name, number = f"{ASIDE}/{base}" + (f".{number}" if number else ""), number + 1
    move_file(file, os.path.join(path, name), durable)
    return name


def count_aside(path: str) -> int:
    """Return the number of files of the log that were set aside."""
    try:
        return sum(name.startswith("0") for name in os.listdir(os.path.join(path, ASIDE)))
    except FileNotFoundError:
        return 0


def find_evidence(path: str, entry: str, before: str, active: Container[FileName], step: int) -> DamageEvidence:
    """Find the data files of a torn entry; `before` is the entry before it, `active` and `step` are of that version.

    Files that older entries added are excluded whatever their times, because copying a store changes times.
    """
    with open(entry, "rb") as file:
        readable = LogEntry.read(file.read())
    if any("remove" in action for action in readable.actions):
        return DamageEvidence(is_merge=True)
    names = [name for path in readable.added_paths if (name := FileName.parse(path)) is not None]
    if not names:
        committed = _find_added_before(entry)
        orphans = _find_orphans(path, before, active)
        names = [name for name in orphans if name.run.first >= step and name not in committed]
    intact: list[FileName] = []
    rows, batches = 0, set()
    for name in names:
        with suppress(FileNotFoundError, CorruptBytesError):
            info = IndexFile(FolderLocation(path).map_file(name.index), name.index).info
            if name.run.level > 0 or len(info.sources) > 1:
                continue  # written by a merge, whose inputs are active
            if os.path.getsize(os.path.join(path, name.data)) == info.data_size:
                intact.append(name)
                rows += info.rows
                batches.update(info.sources)
    return DamageEvidence(tuple(intact), rows, tuple(sorted(batches)))


def link_data(path: str, evidence: DamageEvidence, durable: bool) -> None:
    """Link data files into the folder of files set aside, where vacuum does not remove them."""
    folder = os.path.join(path, ASIDE)
    make_folder(folder, durable)
    for name in evidence.names:
        with suppress(FileExistsError, FileNotFoundError):
            os.link(os.path.join(path, name.data), os.path.join(folder, f"{name.stem}.parquet"))
    if durable:
        sync(folder)


def _find_added_before(entry: str) -> set[FileName]:
    """Return the data files that earlier entries of the log added."""
    folder, last = os.path.split(entry)
    added: set[FileName] = set()
    for name in os.listdir(folder):
        if _ENTRY.fullmatch(name) and name < last:
            with open(os.path.join(folder, name), "rb") as file:
                paths = LogEntry.read(file.read()).added_paths
            added.update(parsed for path in paths if (parsed := FileName.parse(path)) is not None)
    return added


def _find_orphans(path: str, before: str, active: Container[FileName]) -> list[FileName]:
    """Return data files of no version that are newer than an entry, or all of no version if the store is a copy."""
    try:
        since = -math.inf if _is_copied(before) else os.path.getmtime(before)
        entries = [entry for entry in os.scandir(os.path.join(path, DATA)) if entry.stat().st_mtime >= since]
    except FileNotFoundError:
        return []
    names = [FileName.parse(f"{DATA}/{entry.name}") for entry in entries]
    return sorted(name for name in names if name is not None and name not in active)


def _is_copied(entry: str) -> bool:
    """Return True if the modification time of an entry is far from the timestamp that its writer put into it."""
    with open(entry, "rb") as file:
        timestamp = LogEntry.read(file.read()).info.get("timestamp")
    return isinstance(timestamp, int) and abs(os.path.getmtime(entry) - timestamp / 1000) > MAX_CLOCK_DIFFERENCE


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
        self, path: str, survey: LogSurvey, active: Iterable[FileName], step: int, durable: bool, dry_run: bool = False
    ) -> None:
        self._path, self._survey, self._committed, self._step = path, survey, set(active), step
        self._durable, self._dry_run, self._log = durable, dry_run, DeltaLog(path)

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
                remove(self._log.hint_path)
            findings.append(LogFinding("checkpoint", "_last_checkpoint", "names no checkpoint", "it is written again"))
        return findings

    def _repair_entry(self, version: int) -> LogFinding:
        path = self._log.entry_path(version)
        if version in self._survey.stranded:
            evidence, problem = self._read_stranded(version), "comes after an entry that is torn or missing"
        else:
            evidence = find_evidence(self._path, path, self._log.entry_path(version - 1), self._committed, self._step)
            self._committed.update(evidence.names)
            problem = f"is torn: its {os.path.getsize(path):,} bytes are no whole commit"
        if not self._dry_run:
            link_data(self._path, evidence, self._durable)
        action = f"{self._move(path)}; {_describe(evidence)}"
        return LogFinding("log entry", os.path.basename(path), problem, action, evidence.rows > 0, evidence.rows)

    def _read_stranded(self, version: int) -> DamageEvidence:
        entry = LogEntry.read(self._log.read_entry(version))
        names = tuple(_read_names(self._log, version)) if entry.rows_added else ()
        return DamageEvidence(names, entry.rows_added, is_merge=not names)

    def _repair_checkpoint(self, version: int) -> LogFinding:
        path = self._log.checkpoint_path(version)
        action = f"{self._move(path)}; older entries contain the same"
        return LogFinding("checkpoint", os.path.basename(path), "cannot be read", action)

    def _move(self, path: str) -> str:
        if self._dry_run:
            return "it would be set aside"
        return f"it is set aside as {move_aside(self._path, path, self._durable)}"


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
