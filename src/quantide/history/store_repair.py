"""Repair of a damaged store: fix everything that can be fixed, and report the rest.

Only files that no version needs are removed: damaged log files are set aside, other damaged files stay.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history.file_rebuild import read_sorted_rows, rebuild_manifest, replace_index
from quantide.history.vacuum import vacuum
from quantide.history.verify import check_run_file
from quantide.store.checkpoint_file import is_loadable
from quantide.store.delta_log import LogSurvey, survey_log
from quantide.store.file_names import FileName, entry_name, manifest_name
from quantide.store.index_file import IndexFile
from quantide.store.location import compute_checksum, open_storage, translate_log_errors, verify_checksum
from quantide.store.log_repair import LogFinding, LogRepair
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import ManifestEntry
from quantide.store.storage import Storage
from quantide.store.writable_table import WritableTable
from quantide.summary.value_json import count
from quantide.windows.time_clock import TimeClock

UNUSED_HOURS = 1.0  # before a file that no version needs is removed


def repair(
    path: str | os.PathLike[str],
    dry_run: bool = False,
    roll_back: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> list[LogFinding]:
    """Repair a store; return all findings. With `dry_run` nothing changes, and no lease is needed.

    `roll_back` sets aside intact commits after a torn or missing one, which cannot be read without it.
    """
    storage = open_storage(path, storage_options, durable=True)
    with translate_log_errors(storage.path, "the repair stopped"):
        survey = survey_log(storage, is_loadable)
        if survey.is_empty:
            raise StorageError(f"there is no history in {storage.path}, and nothing to repair")
        if survey.version is None or (survey.stranded and not roll_back):
            return _describe_broken(storage, survey)
        if dry_run:
            return _repair(storage, survey, dry_run=True)
        with _lease(storage):
            return _repair(storage, survey, dry_run=False)


def _repair(storage: Storage, survey: LogSurvey, dry_run: bool) -> list[LogFinding]:
    table = _open(storage)
    if dry_run:
        findings = LogRepair(storage, survey, set(table.files()), table.step, dry_run=True).run()
    else:
        log_repair = LogRepair(storage, survey, set(table.files()), table.step)
        findings = log_repair.run() if survey.stranded else []
        table.reload()
        table.take_over()
        findings += table.repairs
    findings += _manifest(table, dry_run)
    sizes = table.sizes()
    parts = (_part(table, name, sizes[name.data], dry_run) for name in table.files())
    findings += [finding for finding in parts if finding is not None]
    findings += _recent(table)
    return findings if dry_run else findings + _garbage(table)


def _open(storage: Storage) -> WritableTable:
    table = WritableTable.open(storage)
    if table is None:
        raise StorageError(f"there is no history in {storage.path}, and nothing to repair")
    return table


@contextmanager
def _lease(storage: Storage) -> Iterator[None]:
    lease = storage.acquire_lease()
    try:
        yield
    finally:
        lease.release()


def _describe_broken(storage: Storage, survey: LogSurvey) -> list[LogFinding]:
    """Report why the log is unreadable; only a copy of it, or rolling back, helps."""
    if survey.version is None:
        text = "restore _delta_log from a copy of the store; its data files are as they were"
        return [LogFinding("log", "_delta_log", "has no checkpoint that can be read, and no first entry", text, True)]
    table = _open(storage)
    rolled = LogRepair(storage, survey, set(table.files()), table.step, dry_run=True).run()
    rows = sum(finding.rows or 0 for finding in rolled)
    missing = entry_name(survey.version + 1).removeprefix("_delta_log/")
    problem = f"is torn or missing, and {len(survey.stranded)} whole commits come after it, with up to {rows:,} rows"
    action = f"restore it from a copy, or go back to version {survey.version} with --roll-back, which sets them aside"
    return [LogFinding("log entry", missing, problem, action, True, rows)]


def _manifest(table: WritableTable, dry_run: bool) -> list[LogFinding]:
    """Write a new manifest if the current one is lost and the log has no copy."""
    number = table.manifest_number
    if number is None or not (problem := _problem(partial(table.read_manifest, number))):
        return []
    if dry_run and table.find_manifest_copy(number) is not None:
        return [
            LogFinding("manifest", manifest_name(number), problem, "it would be written again from its copy in the log")
        ]
    manifest, finding = rebuild_manifest(table)
    if not dry_run:
        table.replace_manifest(manifest)
    return [finding]


def _part(table: WritableTable, name: FileName, expected: tuple[int, int], dry_run: bool) -> LogFinding | None:
    """Check a data file and its index file; rebuild the index file if the data is intact.

    `expected` are the size and the rows of the data file in the log.
    """
    index, problem = _read_index(table, name)
    damage = _problem(partial(_check_data, table, name, index, expected))
    if damage:
        run, rows = name.run, expected[1]
        steps = f"step {run.first}" if run.first == run.last else f"steps {run.first} to {run.last}"
        text = f"{rows:,} rows of {steps} are lost; restore it from a copy of the store"
        return LogFinding("data file", name.data, damage, text, True, rows)
    if index is not None:
        problem = _problem(partial(check_run_file, table.storage, name, table.settings))
    if not problem:
        return None
    if not dry_run:
        replace_index(table.storage, name, table.settings)
    return LogFinding(
        "side file", name.index, problem, f"it {'would be' if dry_run else 'is'} rebuilt from its data file"
    )


def _read_index(table: WritableTable, name: FileName) -> tuple[IndexFile | None, str]:
    """Return the index file of a data file; None, and the problem, if it is unreadable."""
    indexes: list[IndexFile] = []

    def read() -> None:
        index = IndexFile(table.storage.uncached().map(name.index), name.index)
        index.check()
        indexes.append(index)

    problem = _problem(read)
    return (None, problem) if problem else (indexes[0], "")


def _check_data(table: WritableTable, name: FileName, index: IndexFile | None, expected: tuple[int, int]) -> None:
    """Compare a data file with its index file, or else with the log."""
    storage = table.storage.uncached()
    if index is not None:
        verify_checksum(storage, name.data, index.info.data_size, index.info.data_crc)
        return
    size, rows = compute_checksum(storage, name.data)[0], read_sorted_rows(storage, name.data, table.settings)
    if (size, sum(map(len, rows))) != expected:
        raise CorruptBytesError(f"{name.data} is damaged: it is not as long as it was")


def _recent(table: WritableTable) -> list[LogFinding]:
    """Report unreadable recent files: nothing else has their times."""
    try:
        manifest = table.load_manifest(table.manifest_number)
    except (FileNotFoundError, CorruptBytesError):
        return []  # in a dry run, which did not replace it
    findings = []
    for entry in manifest.entries:
        problem = _problem(partial(_check_recent, table, entry.name))
        if problem:
            findings.append(_lost_recent(entry, problem, TimeClock(manifest.clock or "seconds")))
    return findings


def _check_recent(table: WritableTable, name: str) -> None:
    RecentFile(table.storage.uncached().map(name), name).check()


def _lost_recent(entry: ManifestEntry, problem: str, clock: TimeClock) -> LogFinding:
    times = f"{clock.show(entry.oldest)} to {clock.show(entry.newest)}"
    text = f"windows over its {entry.rows:,} rows, of times {times}, are refused; the table has the rows themselves"
    return LogFinding("recent file", entry.name, problem, text, True, entry.rows)


def _garbage(table: WritableTable) -> list[LogFinding]:
    removed = vacuum(table, (), (), UNUSED_HOURS)
    text = f"{count(removed.files, 'file')} of {removed.bytes:,} bytes that no version needs"
    return [LogFinding("garbage", table.path, f"has {text}", "removed")] if removed.files else []


def _problem(check: Callable[[], Any]) -> str:
    """Return the problem that a check raises; an empty text if there is none."""
    try:
        check()
    except FileNotFoundError:
        return "is missing"
    except (InvalidArgumentError, ValueError) as error:
        return f"is damaged ({error})"
    return ""
