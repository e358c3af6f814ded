"""Repair: everything in a store that is damaged, mended where that can be done and named where it cannot.

Nothing is removed but files that no version needs: what is damaged in the log is set aside, other damaged files stay.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history.manifest_rebuild import rebuild_manifest
from quantide.history.rebuild import load, replace_side
from quantide.history.run import Part
from quantide.history.vacuum import vacuum
from quantide.history.verify import check_part
from quantide.store.commits import WritableTable
from quantide.store.lease import Lease
from quantide.store.log import Log
from quantide.store.log_repair import Finding, LogRepair
from quantide.store.manifest import Entry
from quantide.store.names import FileName, manifest_name
from quantide.store.place import Folder, check_whole, folder_of
from quantide.store.recent import RecentFile
from quantide.store.sidefile import SideFile
from quantide.store.survey import LogSurvey, survey_log
from quantide.windows.clock import Clock

HOURS = 1.0  # that files which no version needs are kept


def repair(path: str | os.PathLike[str], dry_run: bool = False, roll_back: bool = False) -> list[Finding]:
    """Mend a store; all that was found. With `dry_run` nothing is changed, and no lease is needed.

    `roll_back` sets aside whole commits that come after a torn or missing one, and cannot be read without it.
    """
    folder = folder_of(path)
    log = Log(folder)
    survey = survey_log(log.folder, deep=True) if log.is_same() else LogSurvey(None, None)
    if survey.is_empty:
        raise StorageError(f"there is no history in {folder}, and nothing to repair")
    if survey.version is None or (survey.stranded and not roll_back):
        return _describe_broken(folder, log, survey)
    if dry_run:
        return _repair(folder, survey, dry_run=True)
    with _lease(folder):
        return _repair(folder, survey, dry_run=False)


def _repair(folder: str, survey: LogSurvey, dry_run: bool) -> list[Finding]:
    table = _open(folder)
    if dry_run:
        found = LogRepair(folder, survey, set(table.files()), table.step, True, dry_run=True).run()
    else:
        found = LogRepair(folder, survey, set(table.files()), table.step, True).run() if survey.stranded else []
        table.durable = True
        table.reload()
        table.take_over()
        found += table.repaired
    found += _manifest(table, dry_run)
    sizes = table.sizes()
    parts = (_part(table, name, sizes[name.data], dry_run) for name in table.files())
    found += [finding for finding in parts if finding is not None]
    found += _recent(table)
    return found if dry_run else found + _garbage(table)


def _open(folder: str) -> WritableTable:
    table = WritableTable.open(Folder(folder))
    if table is None:
        raise StorageError(f"there is no history in {folder}, and nothing to repair")
    return table


@contextmanager
def _lease(folder: str) -> Iterator[None]:
    lease = Lease(folder)
    try:
        yield
    finally:
        lease.release()


def _describe_broken(folder: str, log: Log, survey: LogSurvey) -> list[Finding]:
    """Say what keeps the log from being read; only a copy of it, or going back, helps."""
    if survey.version is None:
        text = "restore _delta_log from a copy of the store; its data files are as they were"
        return [Finding("log", "_delta_log", "has no checkpoint that can be read, and no first entry", text, True)]
    table = _open(folder)
    rolled = LogRepair(folder, survey, set(table.files()), table.step, True, dry_run=True).run()
    rows = sum(finding.rows or 0 for finding in rolled)
    missing = os.path.basename(log.entry(survey.version + 1))
    problem = f"is torn or missing, and {len(survey.stranded)} whole commits come after it, with up to {rows:,} rows"
    action = f"restore it from a copy, or go back to version {survey.version} with --roll-back, which sets them aside"
    return [Finding("log entry", missing, problem, action, True, rows)]


def _manifest(table: WritableTable, dry_run: bool) -> list[Finding]:
    """Write a new manifest where the one that counts is lost, and the log has no copy."""
    number = table.recent
    if number is None or not (problem := _problem(partial(table.read_manifest, number))):
        return []
    if dry_run and table.manifest_copy(number) is not None:
        return [
            Finding("manifest", manifest_name(number), problem, "it would be written again from its copy in the log")
        ]
    manifest, finding = rebuild_manifest(table)
    if not dry_run:
        table.replace_manifest(manifest)
    return [finding]


def _part(table: WritableTable, name: FileName, known: tuple[int, int], dry_run: bool) -> Finding | None:
    """Check a data file and its side file; write the side file again where the data is whole.

    `known` are the size and the rows that the log has for the data file.
    """
    side, problem = _read_side(table, name)
    damage = _problem(partial(_check_data, table, name, side, known))
    if damage:
        run, rows = name.run, known[1]
        steps = f"step {run.first}" if run.first == run.last else f"steps {run.first} to {run.last}"
        text = f"{rows:,} rows of {steps} are lost; restore it from a copy of the store"
        return Finding("data file", name.data, damage, text, True, rows)
    if side is not None:
        part = Part(name, table.place.whole(name.data), side)
        problem = _problem(partial(check_part, table.place, part, table.settings))
    if not problem:
        return None
    if not dry_run:
        replace_side(table.place, name, table.settings, True)
    return Finding("side file", name.side, problem, f"it {'would be' if dry_run else 'is'} rebuilt from its data file")


def _read_side(table: WritableTable, name: FileName) -> tuple[SideFile | None, str]:
    """The side file of a data file; None, and its problem, when it cannot be read."""
    found: list[SideFile] = []

    def read() -> None:
        side = SideFile(table.place.mapped(name.side), name.side)
        side.check()
        found.append(side)

    problem = _problem(read)
    return (None, problem) if problem else (found[0], "")


def _check_data(table: WritableTable, name: FileName, side: SideFile | None, known: tuple[int, int]) -> None:
    """Compare a data file with what its side file tells of it, or else the log."""
    place, path = table.place, table.place.whole(name.data)
    if side is not None:
        check_whole(place, path, side.about.data_size, side.about.data_crc)
    elif (os.path.getsize(path), len(load(place, path, table.settings))) != known:
        raise CorruptBytesError(f"{name.data} is damaged: it is not as long as it was")


def _recent(table: WritableTable) -> list[Finding]:
    """Name recent files that cannot be read: nothing else has their times."""
    try:
        manifest = table.manifest(table.recent)
    except (FileNotFoundError, CorruptBytesError):
        return []  # of a dry run
    found = []
    for entry in manifest.entries:
        problem = _problem(partial(_check_recent, table, entry.name))
        if problem:
            found.append(_lost_recent(entry, problem, Clock(manifest.clock or "seconds")))
    return found


def _check_recent(table: WritableTable, name: str) -> None:
    RecentFile(table.place.mapped(name), name).check()


def _lost_recent(entry: Entry, problem: str, clock: Clock) -> Finding:
    times = f"{clock.show(entry.oldest)} to {clock.show(entry.newest)}"
    text = f"windows over its {entry.rows:,} rows, of times {times}, are refused; the table has the rows themselves"
    return Finding("recent file", entry.name, problem, text, True, entry.rows)


def _garbage(table: WritableTable) -> list[Finding]:
    gone = vacuum(table, (), (), HOURS)
    text = f"{gone.files:,} files of {gone.bytes:,} bytes that no version needs"
    return [Finding("garbage", table.path, f"has {text}", "they are removed")] if gone.files else []


def _problem(check: Callable[[], Any]) -> str:
    """What is wrong with a file, as its check has it; nothing when it is in order."""
    try:
        check()
    except FileNotFoundError:
        return "is missing"
    except (InvalidArgumentError, ValueError) as error:
        return f"is damaged ({error})"
    return ""
