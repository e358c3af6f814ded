"""A history for people: answers in a table, runs as a picture in the terminal."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from quantide.history.future_rows import REDATE, FutureRows, repair_future_rows
from quantide.history.reader import HistoryReader
from quantide.history.repair import repair
from quantide.history.verify import check_log
from quantide.summary import shown

WIDTH = 60


def show_answers(
    out: TextIO,
    path: str,
    phis: Sequence[float],
    mode: str,
    last_steps: int | None,
    widen: bool,
    key: Sequence[str] | None,
    json: bool = False,
) -> None:
    """A line for each phi: the value, the ranks it is proved to have, how far off it can be."""
    history = HistoryReader(path)
    asked: Any = None if key is None else key[0] if len(key) == 1 else tuple(key)
    answers = [history.answer(phi, mode, last_steps, asked, widen) for phi in phis]
    first = answers[0]
    if json:
        body = {"path": path, "key": shown.key(asked), "mode": mode, "value_type": history.settings.value_type}
        covered = {name: getattr(first, name) for name in ("n", "stream_n", "last_steps", "widened")}
        found = [shown.answer(a) | {"blocks_read": a.blocks_read} for a in answers]
        shown.write_line(out, body | {"version": history.version} | covered | {"answers": found})
        return
    out.write(f"{'phi':>8}  {'value':>24}  {'rank, proved':>31}  {'off by at most':>14}  blocks read\n")
    for a in answers:
        ranks = f"{a.rank_lo:,} to {a.rank_hi:,}"
        out.write(f"{a.phi:>8g}  {a.value!s:>24}  {ranks:>31}  {a.error:>14.7%}  {a.blocks_read}\n")
    steps = f"{first.last_steps:,} steps and the open one"
    more = " (more than asked: a run would be cut)" if first.widened else ""
    out.write(f"{first.n:,} values of {steps}{more}, {first.stream_n:,} of them in the open step; mode {first.mode}\n")


def show_history(out: TextIO, path: str, json: bool = False) -> None:
    """A bar for each run, as long as the steps it covers, level by level."""
    history = HistoryReader(path)
    stats, runs = history.stats(), history.runs()
    if json:
        shown.write_line(out, _history(path, history))
        return
    out.write(
        f"{stats['values']:,} values in {stats['steps']:,} steps, {stats['runs']:,} runs, {stats['files']:,} files, "
        f"{stats['bytes'] / 1e6:,.1f} MB; {stats['stream_values']:,} values in the open step\n"
    )
    steps = max(1, stats["steps"])
    for level in sorted({run.id.level for run in runs}, reverse=True):
        line = [" "] * WIDTH
        for run in runs:
            if run.id.level == level:
                start = (run.id.first - 1) * WIDTH // steps
                end = max(start + 1, run.id.last * WIDTH // steps)
                line[start:end] = "[" + "=" * (end - start - 2) + "]" if end - start > 1 else "|"
        held = [run for run in runs if run.id.level == level]
        out.write(f"level {level}  {''.join(line[:WIDTH])}  {len(held)} runs, {sum(r.rows for r in held):,} values\n")
    out.write(f"step     {'1':<{WIDTH - len(str(steps))}}{steps}\n")
    spans = ", ".join(str(span.last_steps) for span in history.spans())
    out.write(f"last_steps that can be asked about: {spans or 'none yet'}\n")


def show_verified(out: TextIO, path: str, json: bool = False) -> bool:
    """Read all of it again, and say whether every file is as it was written."""
    history = HistoryReader(path)
    try:
        found = history.verify()
        check_log(path)
    except ValueError as error:  # CorruptBytesError is one, and so are Arrow's own
        said = f"damaged: {error}"
        body = {"ok": False, "damaged": str(error)}
    else:
        said = f"all right: {found.files:,} files, {found.values:,} values"
        body = {"ok": True, "files": found.files, "values": found.values}
    if json:
        shown.write_line(out, {"path": path} | body)
    else:
        out.write(f"{path} is {said}\n")
    return bool(body["ok"])


def show_repaired(
    out: TextIO, path: str, dry_run: bool, roll_back: bool, future: tuple[str, Any] | None = None, json: bool = False
) -> bool:
    """Repair a store and list what was found, with what was done about each; return True if nothing is lost.

    `future` is what to do with recent rows dated too far ahead, and the time after which they are.
    """
    found = repair(path, dry_run, roll_back)
    ok = not any(finding.lost for finding in found)
    rows = None if not ok else _future_rows(path, future, dry_run)
    if json:
        listed = {"findings": [asdict(one) for one in found], "future": None if rows is None else rows.to_json()}
        shown.write_line(out, {"path": path, "ok": ok, "dry_run": dry_run} | listed)
        return ok
    if rows is not None:
        out.write(f"{rows}\n" + ("" if future else "Add --future redate, or --future remove, to do so\n"))
    for finding in found:
        out.write(f"{finding.kind}: {finding}\n")
    lost = sum(finding.lost for finding in found)
    state = "is in order" if not found else "is in order now" if ok and not dry_run else "can be put in order"
    out.write(f"{path} {state}\n" if ok else f"{path}: {lost} of {len(found)} findings are losses\n")
    return ok


def _future_rows(path: str, future: tuple[str, Any] | None, dry_run: bool) -> FutureRows | None:
    """Repair rows dated ahead as asked; unasked, only look for them. None when there are none to tell of."""
    if future is not None:
        return repair_future_rows(path, *future, dry_run)
    if HistoryReader(path).settings.ahead is None:
        return None
    found = repair_future_rows(path, REDATE, dry_run=True)
    return found if found.rows else None


def _history(path: str, history: HistoryReader) -> dict[str, Any]:
    """The same for programs."""
    settings = history.settings
    about = {"path": path, "eps": settings.eps, "value_type": settings.value_type, "keys": list(settings.keys)}
    runs = [
        {"level": run.id.level, "first_step": run.id.first, "last_step": run.id.last, "values": run.rows}
        for run in history.runs()
    ]
    spans = [span.last_steps for span in history.spans()]
    return about | history.stats() | {"runs": runs, "last_steps": spans}
