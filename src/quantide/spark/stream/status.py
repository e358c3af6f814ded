"""What a stream does, in one line: rows a second, lag, time of a batch, steps, runs."""

import shutil
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from quantide.store.ingest_status import IngestStatus
from quantide.store.ledger import Record
from quantide.summary.shown import write_line
from quantide.windows.wall_clock import wall_clock

SPAN = 10.0  # seconds that rows a second are counted over
PAPER = 10.0  # seconds between lines where there is no terminal
UP, CLEAR = "\x1b[{}A", "\x1b[K"


class Status:
    """Counts what was taken in."""

    def __init__(self, name: str, rows: int, bad: int, ahead: int = 0) -> None:
        self.name = name
        self.rows, self.bad, self.ahead = rows, bad, ahead
        self.batches = 0
        self.seconds = self.lag = 0.0
        self.waiting = self.held = self.changed = 0
        self.problem = self.note = self.clock_problem = ""
        self.stats: dict[str, Any] = {"steps": 0, "runs": 0, "chunks": 0}
        self._recent: deque[tuple[float, int]] = deque()
        self._began = time.monotonic()

    def took(self, record: Record, seconds: float) -> None:
        """A batch was committed; lag is how long the oldest of its files had to wait."""
        now = time.time()
        times = [entry.file.modified / 1000 for entry in record.entries]
        self.lag = max(0.0, now - min(times, default=now - seconds))
        self.seconds, self.problem = seconds, ""
        self.rows, self.bad, self.batches = self.rows + record.rows, self.bad + record.bad, self.batches + 1
        self.ahead += record.ahead
        self._recent.append((time.monotonic(), record.rows))

    @property
    def rate(self) -> float:
        """Rows a second, of late."""
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - SPAN:
            self._recent.popleft()
        since = min(SPAN, max(now - self._began, 1e-3))
        return sum(rows for _, rows in self._recent) / since

    def published(self, running: bool) -> IngestStatus:
        """Status for readers of the store."""
        return IngestStatus(
            time=wall_clock(),
            running=running,
            rows=self.rows,
            bad_rows=self.bad,
            held_files=self.held,
            waiting_files=self.waiting,
            problem=self.problem,
            clock_problem=self.clock_problem,
        )

    def line(self) -> str:
        parts = [
            f"{self.name:<16}",
            f"{self.rate:>12,.0f} rows/s",
            f"lag {self.lag:>6.1f} s",
            f"batch {self.seconds * 1000:>6,.0f} ms",
            f"{self.rows:,} rows",
            f"{self.stats['steps']:,} steps",
            f"{self.stats['runs'] + self.stats['chunks']:,} runs",
        ]
        if self.bad:
            parts.append(f"{self.bad:,} bad" + (f", {self.ahead:,} ahead of the clock" if self.ahead else ""))
        if self.held:
            parts.append(f"{self.held:,} files in quarantine")
        if self.waiting:
            parts.append(f"{self.waiting:,} files wait")
        if self.changed:
            parts.append(f"{self.changed:,} files changed after they were taken")
        if self.note:
            parts.append(self.note)
        if self.clock_problem:
            parts.append(self.clock_problem)
        if self.problem:
            parts.append(self.problem)
        return "  ".join(parts)

    def body(self) -> dict[str, Any]:
        """The same for programs; lag and the time of a batch are in seconds."""
        return {
            "stream": self.name,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "rows_per_second": self.rate,
            "lag": self.lag,
            "batch": self.seconds,
            "batches": self.batches,
            "rows": self.rows,
            "steps": self.stats["steps"],
            "runs": self.stats["runs"] + self.stats["chunks"],
            "bad": self.bad,
            "ahead": self.ahead,
            "quarantined_files": self.held,
            "waiting_files": self.waiting,
            "changed_files": self.changed,
            "note": self.note or None,
            "problem": self.problem or None,
            "clock_problem": self.clock_problem or None,
        }


class Board:
    """Shows a line a stream: drawn over in a terminal, printed now and then elsewhere, or as JSON."""

    def __init__(self, out: TextIO, json: bool = False) -> None:
        self._out, self._json, self._live = out, json, out.isatty() and not json
        self._drawn, self._last = 0, time.monotonic()

    def show(self, streams: Sequence[Status], last: bool = False) -> None:
        if not self._live and not last and time.monotonic() - self._last < PAPER:
            return
        self._last = time.monotonic()
        if self._json:
            for stream in streams:
                write_line(self._out, stream.body())
            return
        lines = [stream.line() for stream in streams]
        if self._live:
            width = shutil.get_terminal_size().columns - 1  # a line that wraps could not be drawn over
            up = UP.format(self._drawn) if self._drawn else ""
            lines, self._drawn = [line[:width] + CLEAR for line in lines], len(lines)
            self._out.write(up)
        self._out.write("".join(line + "\n" for line in lines))
        self._out.flush()
