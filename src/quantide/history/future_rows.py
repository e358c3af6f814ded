"""Future rows: recent rows dated too far ahead of the clock; found, removed or redated.

A store of version 0.1, or one with max_ahead = "off", may have them: one such row moves all time windows away from now.
Only recent files are rewritten. Runs store values without times, so history keeps every value.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.history.recent_writer import RecentWriter
from quantide.store.location import open_storage, translate_log_errors
from quantide.store.recent_manifest import ManifestEntry, RecentManifest
from quantide.store.stored_rows import RecentRows
from quantide.store.writable_table import WritableTable
from quantide.summary.value_json import count
from quantide.windows.time_clock import NANOSECONDS, TimeClock, TimeHorizon

REMOVE, REDATE = "remove", "redate"


@dataclass(frozen=True)
class FutureRows:
    """Report of a repair: `rows` rows in `files` were dated after `latest`; the newest time has changed.

    `lost` files have such rows as well but are unreadable: windows that may contain some are refused until these are
    old.
    """

    action: str
    latest: Any
    rows: int = 0
    files: tuple[str, ...] = ()
    newest_before: Any = None
    newest_after: Any = None
    lost: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        if self.newest_before == self.newest_after:
            return f"no recent row is dated after {self.latest}; nothing was changed"
        outcome = "removed from windows; history keeps their values" if self.action == REMOVE else "dated anew"
        verb = "would be" if self.dry_run else "is" if self.rows == 1 else "are"
        refused = f". Windows are refused while they may need files that cannot be read: {', '.join(self.lost)}"
        return (
            f"{count(self.rows, 'recent row')} in {count(len(self.files), 'file')} dated after {self.latest} {verb} "
            f"{outcome}. The newest time was {self.newest_before}, and {'would be' if self.dry_run else 'is'} "
            f"{self.newest_after}{refused if self.lost else ''}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report for programs; times as text."""
        times = {name: str(getattr(self, name)) for name in ("latest", "newest_before", "newest_after")}
        return asdict(self) | times


def repair_future_rows(
    path: Any,
    action: str,
    newer_than: Any = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> FutureRows:
    """Remove rows dated too far ahead from the recent files of a store, or redate them, in one commit.

    Too far is later than now by more than the store's max_ahead; or later than `newer_than`, which is required where
    max_ahead is "off": a time, or its text. A row gets the newest plausible time of its file, or of the files before.
    With `dry_run` nothing changes, and no lease is needed.
    """
    if action not in (REMOVE, REDATE):
        raise InvalidArgumentError(f'{action!r} is no way to repair rows; use "{REMOVE}" or "{REDATE}"')
    table = WritableTable.open(open_storage(path, storage_options, durable=True))
    if table is None:
        raise InvalidArgumentError(f"there is no store at {path}")
    with translate_log_errors(table.path, "the repair stopped"):
        if dry_run:
            return _repair(table, action, newer_than, dry_run=True)
        lease = table.storage.acquire_lease()
        try:
            table.take_over()
            return _repair(table, action, newer_than, dry_run=False)
        finally:
            lease.release()


def _repair(table: WritableTable, action: str, newer_than: Any, dry_run: bool) -> FutureRows:
    manifest = table.current_manifest()
    if manifest.clock is None:
        return FutureRows(action, None)
    clock = TimeClock(manifest.clock)
    latest, now = _latest(table, clock, newer_than)
    late_entries = [entry for entry in manifest.entries if entry.newest > latest]
    if not late_entries and manifest.newest <= latest:
        newest = clock.show(manifest.newest)
        return FutureRows(action, clock.show(latest), 0, (), newest, newest, (), dry_run)
    writer, counts, plausible = RecentWriter(table), dict[str, int](), dict[int, Any]()

    def edit(entry: ManifestEntry, rows: RecentRows) -> RecentRows | None:
        is_late = rows.times > latest
        counts[entry.name] = int(np.count_nonzero(is_late))
        if action == REMOVE:
            return rows.select(~is_late) if not is_late.all() else None
        times = _new_times(manifest, entry, rows.times, latest, plausible, now)
        return replace(rows, times=np.where(is_late, times, rows.times))

    written = writer.rewrite(late_entries, edit, dry_run)
    lost = {entry.name for entry in late_entries if entry.name not in counts}
    after = _rewritten(manifest, written, lost, now).newest
    if not dry_run:
        unlisted = sum(counts.values()) if action == REMOVE else 0
        change = partial(_rewritten, written=written, lost=lost, now=now)
        removed = table.commit(change_manifest=change, unlisted=unlisted)
        writer.finish([entry for entry in written.values() if entry is not None], removed)
    return FutureRows(
        action,
        clock.show(latest),
        sum(counts.values()),
        tuple(counts),
        clock.show(manifest.newest),
        None if after is None else clock.show(after),
        tuple(sorted(lost)),
        dry_run,
    )


def _latest(table: WritableTable, clock: TimeClock, newer_than: Any) -> tuple[Any, Any]:
    """Return the latest plausible time, and a default for rows about which nothing else is known."""
    if newer_than is not None:
        return (_read_moment(clock, newer_than),) * 2
    ahead = table.settings.ahead
    if ahead is None:
        raise InvalidArgumentError(
            'this store has max_ahead = "off": its times are not of the wall clock; say with --newer-than '
            "(newer_than=) after which time rows are wrong"
        )
    horizon = TimeHorizon.of(ahead)
    return horizon.latest(clock), horizon.now / NANOSECONDS if clock.kind == "seconds" else horizon.now


def _read_moment(clock: TimeClock, time: Any) -> Any:
    if not isinstance(time, str):
        return clock.moment(time)
    try:
        return _finite(float(time)) if clock.kind == "seconds" else _nanoseconds(np.datetime64(time))
    except ValueError as error:
        kind = "a number of seconds" if clock.kind == "seconds" else 'a time in UTC, such as "2026-03-01T12:00:00"'
        raise InvalidArgumentError(f"{time!r} is no time of this store; write {kind}") from error


def _finite(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError("it is not finite")
    return seconds


def _nanoseconds(time: np.datetime64) -> int:
    if np.isnat(time) or not 1678 <= int(time.astype("datetime64[Y]").astype(int)) + 1970 <= 2261:
        raise ValueError("nanoseconds cannot count it")
    return int(time.astype("datetime64[ns]").astype(np.int64))


def _new_times(
    manifest: RecentManifest, entry: ManifestEntry, times: Any, latest: Any, plausible: dict[int, Any], now: Any
) -> Any:
    """Return plausible times for the rows of a file: their arrival if known, else the newest plausible time of the file
    or of those before it. `plausible` has that time of files with future rows, by their first rows.
    """
    if not manifest.given and manifest.ahead and entry.newest - manifest.ahead <= latest:
        return times - manifest.ahead
    plausible_times = times[times <= latest]
    if len(plausible_times):
        plausible[entry.first] = plausible_times.max()
        return plausible_times.max()
    newest_by_row = {other.first: other.newest for other in manifest.entries if other.newest <= latest} | plausible
    return max((newest for first, newest in newest_by_row.items() if first < entry.first), default=now)


def _rewritten(
    manifest: RecentManifest, written: dict[str, ManifestEntry | None], lost: set[str], now: Any
) -> RecentManifest:
    """Return the manifest with rewritten entries.

    Rows are numbered as if removed ones had never arrived; a lost file may have rows of any time up to the newest.
    """
    entries: list[ManifestEntry] = []
    removed = 0
    for entry in manifest.entries:
        replacement = entry if entry.name in lost else written.get(entry.name, entry)
        if replacement is not None:
            entries.append(replace(replacement, first=entry.first - removed))
        removed += entry.rows - (0 if replacement is None else replacement.rows)
    if not entries:
        return RecentManifest(manifest.arrived - removed)
    newest = max((entry.newest for entry in entries if entry.name not in lost), default=now)
    entries = [_undated(entry, newest) if entry.name in lost else entry for entry in entries]
    return RecentManifest(manifest.arrived - removed, manifest.clock, manifest.given, newest, tuple(entries))


def _undated(entry: ManifestEntry, newest: Any) -> ManifestEntry:
    return replace(entry, oldest=min(entry.oldest, newest), newest=newest, median=None)
