"""Status of streams, one line each: rows a second, lag, time of a batch, steps, runs."""

import shutil
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from quantide.store.ingest_log import BatchRecord
from quantide.store.ingest_status import IngestStatus
from quantide.summary.value_json import count, write_line
from quantide.windows.wall_clock import wall_clock

RATE_SPAN = 10.0  # seconds over which rows a second are averaged
LINE_INTERVAL = 10.0  # seconds between two lines without a terminal
UP, CLEAR = "\x1b[{}A", "\x1b[K"


class StreamStatus:
    """Counters of a stream's ingestion, and its last error."""

    def __init__(self, name: str, rows: int, bad: int, ahead: int = 0, lost: int = 0, unit: str | None = None) -> None:
        self.name, self.unit = name, unit
        self.rows, self.bad, self.ahead, self.lost = rows, bad, ahead, lost
        self.batches, self.running = 0, True
        self.seconds = self.lag = 0.0
        self.waiting_files = self.quarantined_files = self.changed_files = 0
        self.last_error = self.note = self.clock_problem = ""
        self.stats: dict[str, Any] = {"steps": 0, "runs": 0, "chunks": 0}
        self._recent: deque[tuple[float, int]] = deque()
        self._began = time.monotonic()

    def add_batch(self, record: BatchRecord, seconds: float) -> None:
        """Add a committed batch; lag is the time that the oldest of its files waited."""
        now = time.time()
        times = [entry.file.modified / 1000 for entry in record.entries]
        self.lag = max(0.0, now - min(times, default=now - seconds))
        self.seconds, self.last_error = seconds, ""
        self.rows, self.bad, self.batches = self.rows + record.rows, self.bad + record.bad, self.batches + 1
        self.ahead, self.lost = self.ahead + record.ahead, self.lost + record.lost
        self._recent.append((time.monotonic(), record.rows))

    @property
    def rate(self) -> float:
        """Rows a second, over the last RATE_SPAN seconds."""
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - RATE_SPAN:
            self._recent.popleft()
        since = min(RATE_SPAN, max(now - self._began, 1e-3))
        return sum(rows for _, rows in self._recent) / since

    def to_ingest_status(self, running: bool) -> IngestStatus:
        """Return the status for readers of the store."""
        return IngestStatus(
            time=wall_clock(),
            running=running,
            rows=self.rows,
            bad_rows=self.bad,
            held_files=self.quarantined_files,
            waiting_files=self.waiting_files,
            problem=self.last_error,
            clock_problem=self.clock_problem,
            unit=self.unit,
        )

    def to_line(self) -> str:
        """Return the name and the rate, problems, then the rest: a narrow terminal shows the beginning of a line.

        Before the first batch no rate, lag or time of a batch is known: zeros would look healthy.
        """
        if self.batches:
            rate = f"{self.rate:>12,.0f} rows/s"
            speed = [f"lag {self.lag:>6.1f} s", f"batch {self.seconds * 1000:>6,.0f} ms"]
        else:
            rate, speed = "waiting for the first batch" if self.running else "no new batch", []
        return "  ".join(
            [
                f"{self.name:<16}",
                rate,
                *self._problems(),
                *speed,
                count(self.rows, "row"),
                count(self.stats["steps"], "step"),
                count(self.stats["runs"], "run"),
                count(self.stats["chunks"], "chunk"),
            ]
        )

    def _problems(self) -> list[str]:
        """Return what an operator has to know, in the order of its urgency."""
        parts = [text for text in (self.last_error, self.clock_problem) if text]
        if self.bad:
            parts.append(f"{self.bad:,} bad" + (f", {self.ahead:,} ahead of the clock" if self.ahead else ""))
        if self.lost:
            parts.append(f"{count(self.lost, 'offset')} lost")
        if self.quarantined_files:
            parts.append(f"{count(self.quarantined_files, 'file')} in quarantine")
        if self.waiting_files:
            parts.append(f"{count(self.waiting_files, 'file')} waiting")
        if self.changed_files:
            parts.append(f"{count(self.changed_files, 'file')} changed after ingestion")
        if self.note:
            parts.append(self.note)
        return parts

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON; lag and the time of a batch are in seconds."""
        return {
            "stream": self.name,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "rows_per_second": self.rate,
            "lag": self.lag,
            "batch": self.seconds,
            "batches": self.batches,
            "rows": self.rows,
            "steps": self.stats["steps"],
            "runs": self.stats["runs"],
            "chunks": self.stats["chunks"],
            "bad": self.bad,
            "ahead": self.ahead,
            "lost": self.lost,
            "quarantined_files": self.quarantined_files,
            "waiting_files": self.waiting_files,
            "changed_files": self.changed_files,
            "note": self.note or None,
            "problem": self.last_error or None,
            "clock_problem": self.clock_problem or None,
        }


class StatusBoard:
    """Shows one line for each stream: redrawn in a terminal, printed now and then elsewhere, or as JSON."""

    def __init__(self, out: TextIO, json: bool = False) -> None:
        self._out, self._json, self._live = out, json, out.isatty() and not json
        self._drawn, self._last = 0, time.monotonic()

    def show(self, streams: Sequence[StreamStatus], last: bool = False) -> None:
        if not self._live and not last and time.monotonic() - self._last < LINE_INTERVAL:
            return
        self._last = time.monotonic()
        if self._json:
            for stream in streams:
                write_line(self._out, stream.to_json())
            return
        lines = [stream.to_line() for stream in streams]
        if self._live:
            width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be redrawn
            up = UP.format(self._drawn) if self._drawn else ""
            lines, self._drawn = [line[:width] + CLEAR for line in lines], len(lines)
            self._out.write(up)
        self._out.write("".join(line + "\n" for line in lines))
        self._out.flush()
