"""Terminal view: queries the running server, as any client would, and draws frames on a screen."""

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any, Protocol, TextIO

import numpy as np

from quantide.client import Client
from quantide.demo.background_tasks import BackgroundTask
from quantide.demo.market import SYMBOLS
from quantide.demo.shutdown import sigterm_as_interrupt
from quantide.demo.terminal_frame import AlarmRow, FrameState, KeyRow, TerminalStyle, render
from quantide.errors import EmptyError, ServerError
from quantide.summary.value_json import write_line

STREAM, WINDOW = "spread", "1 min"
PHIS = (0.5, 0.9, 0.99)
TRAIL_LENGTH = 200
RATE_SECONDS = 10.0  # that the rate of values is averaged over
IDLE_SECONDS = 1.0  # after which a frame is drawn even if nothing changed

OPEN = "\x1b[?1049h\x1b[?25l\x1b[2J"  # the alternate screen, cleared, without a cursor
CLOSE = "\x1b[?25h\x1b[?1049l"
HINT = "  Ctrl-C ends"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class TerminalView(BackgroundTask):
    """Draws a frame when the stream or an alarm changes, and now and then if nothing does."""

    def __init__(self, client: Client, screen: "Screen", wakeup: threading.Event) -> None:
        super().__init__("view")
        self._client, self._screen, self._wakeup = client, screen, wakeup
        self._start_time = time.monotonic()
        self._counts: deque[tuple[float, int]] = deque()
        self._units: dict[str, str] = {}
        self._trails: dict[str, deque[float]] = {symbol: deque(maxlen=TRAIL_LENGTH) for symbol in SYMBOLS}

    def work(self) -> None:
        while not self.stopping.is_set():
            self._wakeup.wait(IDLE_SECONDS)
            self._wakeup.clear()
            with suppress(ServerError):  # the server may be restarting: the last frame stays
                self._screen.show(self.query_state())
            self.stopping.wait(self._screen.interval)

    def wake(self) -> None:
        self._wakeup.set()

    def query_state(self) -> FrameState:
        """Query the server for the content of a frame."""
        stream = self._client.stream(STREAM)
        rows = tuple(row for symbol in SYMBOLS if (row := self._query_row(symbol)) is not None)
        return FrameState(
            address=self._client.address,
            seconds=time.monotonic() - self._start_time,
            n=stream["n"],
            rate=self._update_rate(stream["n"]),
            lag=time.time() - _to_seconds(stream["newest"]),
            window=WINDOW,
            rows=rows,
            alarms=tuple(self._alarm_row(alarm) for alarm in self._client.alarms() if alarm["phi"] is not None),
        )

    def _query_row(self, symbol: str) -> KeyRow | None:
        """Return a symbol's row; None while its window is empty."""
        try:
            answers = self._client.answers(STREAM, PHIS, key=symbol, within=WINDOW)
        except EmptyError:
            return None
        p50, p90, p99 = answers
        trail = self._trails[symbol]
        trail.append(float(p99.value))
        values = (float(p50.value), float(p90.value), float(p99.value))
        return KeyRow(symbol, *values, p99.rank_lo, p99.rank_hi, p99.n, p99.error, tuple(trail))

    def _alarm_row(self, alarm: dict[str, Any]) -> AlarmRow:
        value = None if alarm["value"] is None else float(alarm["value"])
        state = (alarm["firing"], alarm["state"])
        return AlarmRow(alarm["name"], alarm["phi"], float(alarm["above"]), value, *state, self._unit(alarm["stream"]))

    def _unit(self, stream: str) -> str:
        """Return the unit of a stream, which never changes; an empty text if it has none."""
        if stream not in self._units:
            self._units[stream] = self._client.stream(stream).get("unit") or ""
        return self._units[stream]

    def _update_rate(self, n: int) -> float:
        """Record the number of values and return their rate per second."""
        now = time.monotonic()
        self._counts.append((now, n))
        while len(self._counts) > 2 and self._counts[0][0] < now - RATE_SECONDS:
            self._counts.popleft()
        since, first = self._counts[0]
        return (n - first) / max(now - since, 1.0)


def _to_seconds(time: np.datetime64) -> float:
    return float(time.astype("M8[us]").astype(np.int64)) / 1e6


# Screens


class Screen(Protocol):
    """Output of frames."""

    interval: float
    """Seconds between frames."""

    def show(self, state: FrameState) -> None: ...
    def close(self) -> None: ...


class Terminal:
    """Terminal on which each frame replaces the last; restored at the end."""

    interval = 0.4

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: Sequence[str] = ()
        stream.write(OPEN)

    def detect_style(self) -> TerminalStyle:
        width = shutil.get_terminal_size().columns
        return TerminalStyle(width, color="NO_COLOR" not in os.environ, blocks=supports_blocks(self._stream))

    def show(self, state: FrameState) -> None:
        self.draw(render(state, self.detect_style()))

    def draw(self, lines: Sequence[str]) -> None:
        self._last = lines
        height = shutil.get_terminal_size().lines
        frame = f"{CLEAR_LINE}\r\n".join([*lines, "", HINT][:height])
        self._stream.write(f"{HOME}{frame}{CLEAR_LINE}{CLEAR_BELOW}")
        self._stream.flush()

    def close(self) -> None:
        """Return to the normal screen and leave the last frame there."""
        self._stream.write(CLOSE + "".join(f"{line}\n" for line in self._last))
        self._stream.flush()


class PrintedScreen:
    """Output that prints a new frame every few seconds."""

    interval = 2.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def detect_style(self) -> TerminalStyle:
        return TerminalStyle(width=100, blocks=supports_blocks(self._stream))

    def show(self, state: FrameState) -> None:
        self.draw(render(state, self.detect_style()))

    def draw(self, lines: Sequence[str]) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines) + "\n")
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()


class JsonScreen:
    """Output that writes each frame as a line of JSON."""

    interval = 2.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, state: FrameState) -> None:
        write_line(self._stream, asdict(state))

    def close(self) -> None:
        self._stream.flush()


@contextmanager
def open_screen(stream: TextIO, json: bool = False) -> Iterator[Screen]:
    """Open the screen that suits `stream`; close it on every exit, also on SIGTERM."""
    with sigterm_as_interrupt():
        screen: Screen = (
            JsonScreen(stream) if json else Terminal(stream) if is_terminal(stream) else PrintedScreen(stream)
        )
        try:
            yield screen
        finally:
            screen.close()


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def supports_blocks(stream: TextIO) -> bool:
    """Return True if the stream's encoding has block characters."""
    return (stream.encoding or "").lower().replace("-", "") == "utf8"
