"""Reports of a history for people and programs: answers, runs, verification, repair, clock, restored and deleted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from quantide.errors import InvalidArgumentError
from quantide.history.deletion import DeleteResult
from quantide.history.future_rows import REDATE, FutureRows, repair_future_rows
from quantide.history.history import History
from quantide.history.history_reader import HistoryReader
from quantide.history.store_repair import repair
from quantide.history.verify import check_log
from quantide.store.ingest_status import accept_clock, read_unit
from quantide.store.retired_files import RetiredFiles
from quantide.summary import value_json
from quantide.summary.answer import format_error
from quantide.summary.value_json import count, name_with_unit, write_line
from quantide.summary.value_types import type_named
from quantide.windows.wall_clock import wall_clock

KIND_NAMES = {"side file": "index file"}  # of findings; JSON has the former name
WIDTH = 60

Options = Mapping[str, str] | None  # of an object store


def show_answers(
    out: TextIO,
    path: str,
    phis: Sequence[float],
    mode: str,
    last_steps: int | None,
    widen: bool,
    key: Sequence[str] | None,
    json: bool = False,
    storage_options: Options = None,
) -> None:
    """Write a line for each phi: the value, its certified ranks, and its error bound."""
    history = HistoryReader(path, storage_options=storage_options)
    key_value: Any = None if key is None else key[0] if len(key) == 1 else tuple(key)
    answers = [history.answer(phi, mode, last_steps, key_value, widen) for phi in phis]
    value_type = history.settings.value_type
    first, unit = answers[0], read_unit(history.table.storage, type_named(value_type))
    if json:
        body = {
            "path": path,
            "key": value_json.encode_key(key_value),
            "mode": mode,
            "value_type": value_type,
            "unit": unit,
        }
        covered = {name: getattr(first, name) for name in ("n", "stream_n", "last_steps", "widened")}
        items = [value_json.encode_answer(a) | {"blocks_read": a.blocks_read, "requests": a.requests} for a in answers]
        value_json.write_line(out, body | {"version": history.version} | covered | {"answers": items})
        return
    header = name_with_unit("value", unit)
    width = max(24, len(header))
    out.write(f"{'phi':>8}  {header:>{width}}  {'rank, proved':>31}  {'off by at most':>26}  blocks read\n")
    for a in answers:
        ranks = f"{a.rank_lo:,} to {a.rank_hi:,}"
        out.write(
            f"{a.phi:>8g}  {a.value!s:>{width}}  {ranks:>31}  {format_error(a.error, a.n):>26}  {a.blocks_read}\n"
        )
    steps = f"{count(first.last_steps, 'step')} and the open one"
    note = " (more than asked: a run would be cut)" if first.widened else ""
    of_open = f"{first.stream_n:,} of them in the open step"
    out.write(f"{count(first.n, 'value')} of {steps}{note}, {of_open}; mode {first.mode}\n")


def show_history(out: TextIO, path: str, json: bool = False, storage_options: Options = None) -> None:
    """Write a bar for each run, as long as the steps it covers, level by level."""
    history = HistoryReader(path, storage_options=storage_options)
    stats, runs = history.stats(), history.runs()
    if json:
        value_json.write_line(out, _history_json(path, history))
        return
    out.write(
        f"{value_json.count(stats['values'], 'value')} in {value_json.count(stats['steps'], 'step')}, "
        f"{value_json.count(stats['runs'], 'run')}, {value_json.count(stats['files'], 'file')}, "
        f"{stats['bytes'] / 1e6:,.1f} MB; {value_json.count(stats['stream_values'], 'value')} in the open step\n"
    )
    steps = max(1, stats["steps"])
    for level in sorted({run.id.level for run in runs}, reverse=True):
        line = [" "] * WIDTH
        for run in runs:
            if run.id.level == level:
                start = (run.id.first - 1) * WIDTH // steps
                end = max(start + 1, run.id.last * WIDTH // steps)
                line[start:end] = "[" + "=" * (end - start - 2) + "]" if end - start > 1 else "|"
        rows = [run.rows for run in runs if run.id.level == level]
        out.write(f"level {level}  {''.join(line[:WIDTH])}  {count(len(rows), 'run')}, {count(sum(rows), 'value')}\n")
    out.write(f"step     {'1':<{WIDTH - len(str(steps))}}{steps}\n")
    spans = ", ".join(str(span.last_steps) for span in history.spans())
    out.write(f"last_steps that can be asked about: {spans or 'none yet'}\n")


def show_verified(out: TextIO, path: str, json: bool = False, storage_options: Options = None) -> bool:
    """Read all files again, and report damage; return True if there is none."""
    history = HistoryReader(path, storage_options=storage_options)
    try:
        result = history.verify()
        check_log(history.table.storage)
    except ValueError as error:  # CorruptBytesError and Arrow's errors
        state = f"damaged: {error}"
        body = {"ok": False, "damaged": str(error)}
    else:
        state = f"all right: {value_json.count(result.files, 'file')}, {value_json.count(result.values, 'value')}"
        body = {"ok": True, "files": result.files, "values": result.values}
    if json:
        value_json.write_line(out, {"path": path} | body)
    else:
        out.write(f"{path} is {state}\n")
    return bool(body["ok"])


def show_repaired(
    out: TextIO,
    path: str,
    dry_run: bool,
    roll_back: bool,
    future: tuple[str, Any] | None = None,
    json: bool = False,
    storage_options: Options = None,
) -> bool:
    """Repair a store and list the findings with what was done about each; return True if nothing is lost.

    `future` is the action for recent rows dated too far ahead, and the time after which they are.
    """
    findings = repair(path, dry_run, roll_back, storage_options)
    ok = not any(finding.lost for finding in findings)
    future_rows = None if not ok else _future_rows(path, future, dry_run, storage_options)
    if json:
        details = {
            "findings": [asdict(finding) for finding in findings],
            "future": None if future_rows is None else future_rows.to_json(),
        }
        value_json.write_line(out, {"path": path, "ok": ok, "dry_run": dry_run} | details)
        return ok
    if future_rows is not None:
        out.write(f"{future_rows}\n" + ("" if future else "Add --future redate, or --future remove, to do so\n"))
    for finding in findings:
        out.write(f"{KIND_NAMES.get(finding.kind, finding.kind)}: {finding}\n")
    lost = sum(finding.lost for finding in findings)
    state = "is in order" if not findings else "is in order now" if ok and not dry_run else "can be put in order"
    out.write(f"{path} {state}\n" if ok else f"{path}: {lost} of {len(findings)} findings are losses\n")
    return ok


def _future_rows(
    path: str, future: tuple[str, Any] | None, dry_run: bool, storage_options: Options
) -> FutureRows | None:
    """Repair rows dated too far ahead if an action is given, else only search for them; None if there are none."""
    if future is not None:
        return repair_future_rows(path, *future, dry_run, storage_options)
    if HistoryReader(path, storage_options=storage_options).settings.ahead is None:
        return None
    report = repair_future_rows(path, REDATE, dry_run=True, storage_options=storage_options)
    return report if report.rows else None


def _history_json(path: str, history: HistoryReader) -> dict[str, Any]:
    """Return the report of a history for programs."""
    settings = history.settings
    about: dict[str, Any] = {"path": path, "eps": settings.eps, "tail": settings.tail}
    about |= {"value_type": settings.value_type, "keys": list(settings.keys)}
    runs = [
        {"level": run.id.level, "first_step": run.id.first, "last_step": run.id.last, "values": run.rows}
        for run in history.runs()
    ]
    spans = [span.last_steps for span in history.spans()]
    return about | history.stats() | {"runs": runs, "last_steps": spans}


def show_clock(out: TextIO, path: str, accept: bool, json: bool = False, storage_options: Options = None) -> None:
    """Show the clock, the problem that ingestion has with it, and how many runs can be restored; accept the clock."""
    reader = HistoryReader(path, storage_options=storage_options)
    steps = int(reader.stats()["steps"])
    if accept:
        accept_clock(reader.table.storage, steps + 1)
    problem = reader.stats()["clock_problem"]
    runs = len({name.run for name in RetiredFiles(reader.table.storage).list_files()})
    now = datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds")
    if json:
        body = {"path": path, "clock": now, "problem": problem, "accepted": accept, "steps": steps}
        write_line(out, body | {"restorable_runs": runs})
        return
    out.write(f"clock of this machine: {now}; {count(steps, 'ended step')}\n")
    if accept:
        out.write("accepted: ingestion goes by this clock from now on, or from its next start on\n")
    elif problem is not None:
        out.write(f"problem: {problem}\n")
    else:
        out.write("ingestion has no problem with it\n")
    out.write(f"{count(runs, 'expired run')} can be restored: quantide history restore {path}\n")


def show_restored(out: TextIO, path: str, json: bool = False, storage_options: Options = None) -> None:
    """Restore dropped runs, and report how many values they have."""
    HistoryReader(path, storage_options=storage_options)  # restore makes no new store
    with History(path, storage_options=storage_options) as history:
        restored = history.restore()
    if json:
        write_line(out, {"path": path, "files": restored.files, "values": restored.values})
    else:
        out.write(f"{path}: {count(restored.files, 'file')} with {count(restored.values, 'value')} restored\n")


def show_deleted(
    out: TextIO,
    path: str,
    key: Sequence[str] | None,
    before: str | None,
    dry_run: bool = False,
    remove: bool = False,
    json: bool = False,
    storage_options: Options = None,
    confirm: Callable[[str], bool] | None = None,
) -> None:
    """Delete the rows of a key or the oldest steps, and report how many; `remove` also removes the files from disk.

    `confirm` gets a question that names the rows, unless there are none; if it returns False, nothing is deleted.
    """
    HistoryReader(path, storage_options=storage_options)  # a deletion makes no new store
    key_value: Any = None if key is None else key[0] if len(key) == 1 else tuple(key)
    with History(path, storage_options=storage_options) as history:
        if confirm is not None and not dry_run:
            planned = history.delete(key_value, before, dry_run=True)
            question = f"{path}: {_describe_rows(planned)} would be deleted for good. Delete them?"
            if planned.files and not confirm(question):
                raise InvalidArgumentError("nothing was deleted, because the answer was not yes; --yes does not ask")
        deleted = history.delete(key_value, before, dry_run)
        removed = history.vacuum(0) if remove and not dry_run else None
    if json:
        body = {"path": path, "key": value_json.encode_key(key_value), "before": before, "dry_run": dry_run}
        write_line(out, body | asdict(deleted) | {"removed_files": 0 if removed is None else removed.files})
        return
    verb = "would be deleted" if dry_run else "deleted"
    out.write(f"{path}: {_describe_rows(deleted)} {verb}\n")
    if removed is not None:
        out.write(f"{count(removed.files, 'file')} of {removed.bytes:,} bytes removed from disk\n")
    elif deleted.files and not dry_run:
        out.write("the next vacuum removes the files from disk, an hour from now or later; --vacuum does so at once\n")
    out.writelines(f"may have such rows, and was not changed: {name}\n" for name in deleted.unchecked)


def _describe_rows(deleted: DeleteResult) -> str:
    return f"{count(deleted.rows, 'row')} in {count(deleted.files, 'file')} of {deleted.bytes:,} bytes"
