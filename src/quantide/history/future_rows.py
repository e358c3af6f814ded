"""Future rows: recent rows dated further ahead of the clock than is plausible, found, removed or dated anew.

A store of 0.1, or one with max_ahead = "off", may have them: one is enough to move all windows of time away from now.
Only recent files are rewritten. Runs hold values without times, so history keeps every value.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.history.recent import RecentLog
from quantide.store.commits import WritableTable
from quantide.store.lease import Lease
from quantide.store.manifest import Entry, Manifest
from quantide.store.place import Folder, folder_of
from quantide.store.recent import RecentRows
from quantide.windows.ahead import Horizon
from quantide.windows.clock import NANOSECONDS, Clock

REMOVE, REDATE = "remove", "redate"


@dataclass(frozen=True)
class FutureRows:
    """Report of a repair: `rows` rows in `files` were dated after `latest`, and the newest time was moved.

    `lost` files have such rows, too, and cannot be read: windows that may hold some are refused until they are old.
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
        done = "removed from windows; history keeps their values" if self.action == REMOVE else "dated anew"
        now = "would be" if self.dry_run else "are"
        lost = f". Windows are refused while they may need files that cannot be read: {', '.join(self.lost)}"
        return (
            f"{self.rows:,} recent rows in {len(self.files):,} files were dated after {self.latest}, and {now} {done}. "
            f"The newest time was {self.newest_before}, and {'would be' if self.dry_run else 'is'} "
            f"{self.newest_after}{lost if self.lost else ''}"
        )

    def to_json(self) -> dict[str, Any]:
        """The report for programs; times as text."""
        times = {name: str(getattr(self, name)) for name in ("latest", "newest_before", "newest_after")}
        return asdict(self) | times


def repair_future_rows(path: Any, action: str, newer_than: Any = None, dry_run: bool = False) -> FutureRows:
    """Remove rows dated too far ahead from the recent files of a store, or date them anew, in one commit.

    Too far is later than now by more than the store's max_ahead; or later than `newer_than`, which is needed where
    max_ahead is "off": a time, or its text. A row is dated anew at the newest plausible time of its file, or of the
    files before it. With `dry_run` nothing is changed, and no lease is needed.
    """
    if action not in (REMOVE, REDATE):
        raise InvalidArgumentError(f'{action!r} is no way to repair rows; use "{REMOVE}" or "{REDATE}"')
    table = WritableTable.open(Folder(folder_of(path)))
    if table is None:
        raise InvalidArgumentError(f"there is no store at {path}")
    if dry_run:
        return _repair(table, action, newer_than, dry_run=True)
    lease = Lease(table.path)
    try:
        table.take_over()
        table.durable = True
        return _repair(table, action, newer_than, dry_run=False)
    finally:
        lease.release()


def _repair(table: WritableTable, action: str, newer_than: Any, dry_run: bool) -> FutureRows:
    manifest = table.own_manifest()
    if manifest.clock is None:
        return FutureRows(action, None)
    clock = Clock(manifest.clock)
    latest, now = _latest(table, clock, newer_than)
    wrong = [entry for entry in manifest.entries if entry.newest > latest]
    if not wrong and manifest.newest <= latest:
        shown = clock.show(manifest.newest)
        return FutureRows(action, clock.show(latest), 0, (), shown, shown, (), dry_run)
    log, counts, plausible = RecentLog(table), dict[str, int](), dict[int, Any]()

    def edit(entry: Entry, rows: RecentRows) -> RecentRows | None:
        late = rows.times > latest
        counts[entry.name] = int(np.count_nonzero(late))
        if action == REMOVE:
            return rows.selected(~late) if not late.all() else None
        times = _new_times(manifest, entry, rows.times, latest, plausible, now)
        return replace(rows, times=np.where(late, times, rows.times))

    written = log.rewrite(wrong, edit, dry_run)
    lost = {entry.name for entry in wrong if entry.name not in counts}
    after = _rewritten(manifest, written, lost, now).newest
    if not dry_run:
        gone = table.commit(recent=lambda known: _rewritten(known, written, lost, now))
        log.done([entry for entry in written.values() if entry is not None], gone)
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


def _latest(table: WritableTable, clock: Clock, newer_than: Any) -> tuple[Any, Any]:
    """The latest plausible time, and one for rows of which nothing else is known."""
    if newer_than is not None:
        return (_read_moment(clock, newer_than),) * 2
    ahead = table.settings.ahead
    if ahead is None:
        raise InvalidArgumentError(
            'this store has max_ahead = "off": its times are not of the wall clock; say with --newer-than '
            "(newer_than=) after which time rows are wrong"
        )
    horizon = Horizon.of(ahead)
    return horizon.latest(clock), horizon.now / NANOSECONDS if clock.kind == "seconds" else horizon.now


def _read_moment(clock: Clock, time: Any) -> Any:
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


def _new_times(manifest: Manifest, entry: Entry, times: Any, latest: Any, plausible: dict[int, Any], now: Any) -> Any:
    """Plausible times for the rows of a file: when they came, if that is known; else the newest plausible time of the
    file or of those before it. `plausible` has that time of files with rows of the future, by their first rows."""
    if not manifest.given and manifest.ahead and entry.newest - manifest.ahead <= latest:
        return times - manifest.ahead
    own = times[times <= latest]
    if len(own):
        plausible[entry.first] = own.max()
        return own.max()
    right = {one.first: one.newest for one in manifest.entries if one.newest <= latest} | plausible
    return max((newest for first, newest in right.items() if first < entry.first), default=now)


def _rewritten(known: Manifest, written: dict[str, Entry | None], lost: set[str], now: Any) -> Manifest:
    """The manifest with other files in the place of some. Rows are numbered as if those removed had not come; a lost
    file may have rows of any time up to the newest."""
    entries: list[Entry] = []
    removed = 0
    for entry in known.entries:
        new = entry if entry.name in lost else written.get(entry.name, entry)
        if new is not None:
            entries.append(replace(new, first=entry.first - removed))
        removed += entry.rows - (0 if new is None else new.rows)
    if not entries:
        return Manifest(known.arrived - removed)
    newest = max((entry.newest for entry in entries if entry.name not in lost), default=now)
    entries = [_undated(entry, newest) if entry.name in lost else entry for entry in entries]
    return Manifest(known.arrived - removed, known.clock, known.given, newest, tuple(entries))


def _undated(entry: Entry, newest: Any) -> Entry:
    return replace(entry, oldest=min(entry.oldest, newest), newest=newest, median=None)
