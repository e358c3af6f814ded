"""Repair of the log: torn entries and damaged checkpoints are set aside, so that what came before can be written to."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from quantide.store.aside import Evidence, find_evidence, keep_data, move_aside
from quantide.store.disk import remove
from quantide.store.entry import LogEntry
from quantide.store.log import Log
from quantide.store.names import FileName
from quantide.store.survey import LogSurvey


@dataclass(frozen=True)
class Finding:
    """Something that is not in order: the file, its problem, what was done about it, and whether data is lost."""

    kind: str
    name: str
    problem: str
    action: str
    lost: bool = False
    rows: int | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.problem}; {self.action}"


class LogRepair:
    """Repairs the log of a store as a survey found it; `step` is the open one. With `dry_run` it only finds."""

    def __init__(
        self, path: str, survey: LogSurvey, active: Iterable[FileName], step: int, durable: bool, dry_run: bool = False
    ) -> None:
        self._path, self._survey, self._known, self._step = path, survey, set(active), step
        self._durable, self._dry_run, self._log = durable, dry_run, Log(path)

    def run(self) -> list[Finding]:
        """Set aside all entries after the newest version that can be read, and damaged checkpoints."""
        survey = self._survey
        entries = sorted(
            (*survey.torn, *survey.stranded), reverse=True
        )  # the last first: what is left is the same case
        for version in survey.stranded:
            self._known.update(_names(self._log, version))
        found = [self._entry(version) for version in entries]
        found += [self._checkpoint(version) for version in survey.checkpoints]
        if survey.hint is not None:
            if not self._dry_run:
                remove(self._log.hint)
            found.append(Finding("checkpoint", "_last_checkpoint", "names no checkpoint", "it is written again"))
        return found

    def _entry(self, version: int) -> Finding:
        path = self._log.entry(version)
        if version in self._survey.stranded:
            evidence, problem = self._stranded(version), "comes after an entry that is torn or missing"
        else:
            evidence = find_evidence(self._path, path, self._log.entry(version - 1), self._known, self._step)
            self._known.update(evidence.names)
            problem = f"is torn: its {os.path.getsize(path):,} bytes are no whole commit"
        if not self._dry_run:
            keep_data(self._path, evidence, self._durable)
        action = f"{self._move(path)}; {_describe(evidence)}"
        return Finding("log entry", os.path.basename(path), problem, action, evidence.rows > 0, evidence.rows)

    def _stranded(self, version: int) -> Evidence:
        entry = LogEntry.read(self._log.read(version))
        names = tuple(_names(self._log, version)) if entry.rows_added else ()
        return Evidence(names, entry.rows_added, is_merge=not names)

    def _checkpoint(self, version: int) -> Finding:
        path = self._log.checkpoint(version)
        action = f"{self._move(path)}; older entries tell the same"
        return Finding("checkpoint", os.path.basename(path), "cannot be read", action)

    def _move(self, path: str) -> str:
        if self._dry_run:
            return "it would be set aside"
        return f"it is set aside as {move_aside(self._path, path, self._durable)}"


def _names(log: Log, version: int) -> list[FileName]:
    """The data files that an entry adds."""
    paths = LogEntry.read(log.read(version)).added
    return [name for path in paths if (name := FileName.parse(path)) is not None]


def _describe(evidence: Evidence) -> str:
    """Say what a commit that does not count any more may have held."""
    if evidence.is_merge:
        return "it was a merge or changed no rows, and nothing is lost with it"
    if not evidence.rows:
        return "no data of it was found"
    batches = f", of the batches {', '.join(evidence.batches)}" if evidence.batches else ""
    return (
        f"{evidence.rows:,} rows{batches} may be lost: if their append returned and was not repeated, add them with "
        f"History.append_files from {', '.join(f'{name.stem}.parquet' for name in evidence.names)} beside it"
    )
