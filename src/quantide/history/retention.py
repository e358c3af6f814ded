"""Retention for people: the state of the clock, the operator's word about it, and runs that are brought back."""

from datetime import UTC, datetime
from typing import TextIO

from quantide.history.history import History
from quantide.history.reader import HistoryReader
from quantide.store.clock_state import accept_clock
from quantide.store.retired import RetiredFiles
from quantide.summary.shown import write_line
from quantide.windows.wall_clock import wall_clock


def show_clock(out: TextIO, path: str, accept: bool, json: bool = False) -> None:
    """Show the clock, the problem that ingestion has with it, and how many runs can be restored; accept the clock."""
    reader = HistoryReader(path)
    steps = int(reader.stats()["steps"])
    if accept:
        accept_clock(reader.path, steps + 1)
    problem = reader.stats()["clock_problem"]
    runs = len({name.run for name in RetiredFiles(reader.path).names()})
    now = datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds")
    if json:
        body = {"path": path, "clock": now, "problem": problem, "accepted": accept, "steps": steps}
        write_line(out, body | {"restorable_runs": runs})
        return
    out.write(f"clock of this machine: {now}; {steps:,} steps have ended\n")
    if accept:
        out.write("accepted: ingestion goes by this clock from now on, or from its next start on\n")
    elif problem is not None:
        out.write(f"problem: {problem}\n")
    else:
        out.write("ingestion has no problem with it\n")
    out.write(f"{runs:,} runs that expired can be restored: quantide history restore {path}\n")


def show_restored(out: TextIO, path: str, json: bool = False) -> None:
    """Bring back what can be brought back, and report how much that was."""
    HistoryReader(path)  # restore makes no new store
    with History(path) as history:
        restored = history.restore()
    if json:
        write_line(out, {"path": path, "files": restored.files, "values": restored.values})
    else:
        out.write(f"{path}: {restored.files:,} files with {restored.values:,} values were restored\n")
