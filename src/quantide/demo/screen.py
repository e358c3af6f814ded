"""Where frames go: a terminal that is drawn over in place, or a file that they are printed to one by one."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Protocol, TextIO

from quantide.demo.ending import ended_by_sigterm
from quantide.demo.frame import Look, State, render
from quantide.summary.shown import write_line

OPEN = "\x1b[?1049h\x1b[?25l\x1b[2J"  # the other screen, without a cursor, cleared
CLOSE = "\x1b[?25h\x1b[?1049l"
HINT = "  Ctrl-C ends"
HOME, LINE_END, BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen(Protocol):
    every: float
    """Seconds between frames."""

    def show(self, state: State) -> None: ...
    def close(self) -> None: ...


class Terminal:
    """Draws every frame over the one before, and leaves the terminal as it was."""

    every = 0.4

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: Sequence[str] = ()
        stream.write(OPEN)

    def look(self) -> Look:
        width = shutil.get_terminal_size().columns
        return Look(width, color="NO_COLOR" not in os.environ, blocks=can_blocks(self._stream))

    def show(self, state: State) -> None:
        self.draw(render(state, self.look()))

    def draw(self, lines: Sequence[str]) -> None:
        self._last = lines
        height = shutil.get_terminal_size().lines
        shown = f"{LINE_END}\r\n".join([*lines, "", HINT][:height])
        self._stream.write(f"{HOME}{shown}{LINE_END}{BELOW}")
        self._stream.flush()

    def close(self) -> None:
        """Back to the ordinary screen, where the last frame stays."""
        self._stream.write(CLOSE + "".join(f"{line}\n" for line in self._last))
        self._stream.flush()


class Paper:
    """Prints a fresh frame every few seconds."""

    every = 2.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def look(self) -> Look:
        return Look(width=100, blocks=can_blocks(self._stream))

    def show(self, state: State) -> None:
        self.draw(render(state, self.look()))

    def draw(self, lines: Sequence[str]) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines) + "\n")
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()


class Lines:
    """Writes each frame as a line of JSON."""

    every = 2.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, state: State) -> None:
        write_line(self._stream, asdict(state))

    def close(self) -> None:
        self._stream.flush()


@contextmanager
def open_screen(stream: TextIO, json: bool = False) -> Iterator[Screen]:
    """The screen that suits `stream`; closed whatever happens, also when the process is told to end."""
    with ended_by_sigterm():
        screen: Screen = Lines(stream) if json else Terminal(stream) if is_terminal(stream) else Paper(stream)
        try:
            yield screen
        finally:
            screen.close()


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def can_blocks(stream: TextIO) -> bool:
    """Whether block characters can be written at all."""
    return (stream.encoding or "").lower().replace("-", "") == "utf8"
