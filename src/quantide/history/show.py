"""A history for people: answers in a table, runs as a picture in the terminal."""

from collections.abc import Sequence
from typing import Any, TextIO

from quantide.history.reader import HistoryReader

WIDTH = 60


def show_answers(
    out: TextIO,
    path: str,
    phis: Sequence[float],
    mode: str,
    last_steps: int | None,
    widen: bool,
    key: Sequence[str] | None,
) -> None:
    """A line for each phi: the value, the ranks it is proved to have, how far off it can be."""
    history = HistoryReader(path)
    asked: Any = None if key is None else key[0] if len(key) == 1 else tuple(key)
    answers = [history.answer(phi, mode, last_steps, asked, widen) for phi in phis]
    out.write(f"{'phi':>8}  {'value':>24}  {'rank, proved':>31}  {'off by at most':>14}  blocks read\n")
    for a in answers:
        ranks = f"{a.rank_lo:,} to {a.rank_hi:,}"
        out.write(f"{a.phi:>8g}  {a.value!s:>24}  {ranks:>31}  {a.error:>14.7%}  {a.blocks_read}\n")
    a = answers[0]
    steps = f"{a.last_steps:,} steps and the open one" + (" (more than asked: a run would be cut)" if a.widened else "")
    out.write(f"{a.n:,} values of {steps}, {a.stream_n:,} of them in the open step; mode {a.mode}\n")


def show_history(out: TextIO, path: str) -> None:
    """A bar for each run, as long as the steps it covers, level by level."""
    history = HistoryReader(path)
    stats, runs = history.stats(), history.runs()
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
