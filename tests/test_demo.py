"""The demo: its data, its truth, its frames, its terminal."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from quantide.demo import exact, frame, screen
from quantide.demo.chart import chart, spark
from quantide.demo.feed import ASKED, Feed
from quantide.demo.frame import Look, Row, State
from quantide.demo.show import UNWATCHED_SECONDS, length, run
from quantide.demo.traffic import TIMEOUT, Traffic

ROW = Row("p99", 12_345, 12_344, 1_000_000, 1_000_100, bound=0.0005, error=0.0001)
STATE = State(
    eps=0.001,
    seconds=12.3,
    n=61_000_000,
    arriving=5e6,
    sketching=120e6,
    nbytes=310_000,
    rows=(ROW, replace(ROW, label="max")),
    asked=160,
    broken=0,
    worst=0.0004,
    density=(0.1, 0.6, 0.3),
    medians=(900.0, 950.0),
    tails=(9000.0, 12_345.0),
)


class FakeTerminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


def plain(line: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", line)


# --- the data and the truth


def test_traffic_is_repeatable_and_within_its_range() -> None:
    one, other = Traffic(seed=7), Traffic(seed=7)
    for now in (0.0, 3.0, 6.5):
        block = one.block(10_000, now)
        np.testing.assert_array_equal(block, other.block(10_000, now))
        assert block.min() >= 1
        assert block.max() <= TIMEOUT


def test_traffic_moves() -> None:
    traffic = Traffic(seed=7)
    calm, drifted, burst = (np.quantile(traffic.block(50_000, now), [0.5, 0.9]) for now in (0.0, 5.5, 6.5))
    assert drifted[0] > 1.1 * calm[0]
    assert burst[1] > 2 * calm[1]


def test_counts_agree_with_sorting() -> None:
    values = np.random.default_rng(3).integers(0, 50, 400)
    counts = exact.Counts(largest=50)
    counts.update(values[:150])
    assert counts.value_at(150) == values[:150].max()
    counts.update(values[150:])
    ordered = np.sort(values)
    for rank in range(1, 401):
        assert counts.value_at(rank) == ordered[rank - 1]
    first, last = counts.ranks(17)
    assert (first, last) == ((values < 17).sum() + 1, (values <= 17).sum())
    assert [counts.distance(17, rank) for rank in (first - 2, first, last, last + 3)] == [2, 0, 0, 3]


def test_answers_keep_their_bounds_and_are_counted() -> None:
    feed = Feed(eps=0.01, rate=1e6, seed=5)
    for _ in range(10):
        feed.tick()
        state = feed.state(seconds=1.0)
    assert state.n == 500_000
    assert [row.label for row in state.rows] == list(ASKED)
    assert all(row.kept and row.bound <= 0.01 for row in state.rows)
    assert all(row.rank_lo <= row.rank_hi for row in state.rows)
    assert (state.asked, state.broken) == (10 * len(ASKED), 0)
    assert state.worst <= 0.01
    assert state.nbytes > 0
    assert len(state.medians) == len(state.tails) == 2
    assert state.rows[-1].answer == state.rows[-1].exact


def test_feeds_of_one_seed_answer_alike() -> None:
    def rows() -> tuple[Row, ...]:
        feed = Feed(eps=0.001, rate=1e6, seed=9)
        feed.tick()
        feed.tick()
        return feed.state(seconds=1.0).rows

    assert rows() == rows()


def test_the_block_is_limited() -> None:
    feed = Feed(eps=0.1, rate=float("inf"), seed=1)
    feed.tick()
    assert feed.sketch.n == 2_000_000


# --- frames


def test_a_frame_shows_answer_truth_and_bound() -> None:
    shown = "\n".join(frame.render(STATE, Look(width=100)))
    counts = ["61,000,000 values", "5.0 million", "120.0 million", "310.0 KB", "488.0 MB"]
    answers = ["12,345", "12,344", "1,000,000 to 1,000,100", "0.0500%", "0.0100%"]
    for part in [*counts, *answers, "all within their bounds"]:
        assert part in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", [1, 5, 10, 20, 30, 40, 60, 80, 200])
@pytest.mark.parametrize("color", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, color: bool) -> None:
    lines = frame.render(STATE, Look(width, color))
    assert max(len(plain(line)) for line in lines) <= width


def test_a_frame_fits_the_smallest_usual_terminal() -> None:
    rows = tuple(replace(ROW, label=label) for label in ASKED)
    assert len(frame.render(replace(STATE, rows=rows), Look())) <= 22


def test_narrow_tables_leave_out_the_least_important_columns_first() -> None:
    titles = [[column.title for column in frame.fitting(STATE.rows, width)] for width in (100, 60, 40, 20, 3)]
    assert titles == [
        ["", "answer", "exact", "certified ranks", "bound", "true error"],
        ["", "answer", "exact", "bound", "true error"],
        ["", "answer", "bound", "true error"],
        ["", "answer"],
        [""],
    ]


def test_a_broken_bound_is_said_loudly() -> None:
    broken = replace(STATE, rows=(replace(ROW, error=0.002),), broken=1)
    lines = frame.render(broken, Look(color=True))
    assert "BROKE" in lines[-1]
    assert sum(line.startswith("\x1b[31m") for line in lines) == 2


def test_color_changes_nothing_but_color() -> None:
    colored = frame.render(STATE, Look(color=True))
    assert any("\x1b" in line for line in colored)
    assert [plain(line) for line in colored] == frame.render(STATE, Look())


def test_without_block_characters_a_frame_is_ascii() -> None:
    assert all(line.isascii() for line in frame.render(STATE, Look(blocks=False)))


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0], [0.0, 5.0, 1.0], list(range(99))])
def test_charts_have_the_asked_size(values: list[float]) -> None:
    assert len(spark(values, 10)) == 10
    assert [len(line) for line in chart(values, rows=3, width=20)] == [20, 20, 20]


# --- the terminal


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> FakeTerminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return FakeTerminal()


def test_a_terminal_is_drawn_in_place_and_restored(terminal: FakeTerminal) -> None:
    with screen.open_screen(terminal) as opened:
        assert isinstance(opened, screen.Terminal)
        assert opened.look() == Look(width=90, color=True, blocks=True)
        opened.draw(["one"])
        opened.draw(["two"])
    shown = terminal.shown()
    assert shown.startswith(screen.OPEN)
    assert shown.count(screen.HOME) == 2
    assert "Ctrl-C ends" in shown
    assert shown.endswith(screen.CLOSE + "two\n")


def test_a_terminal_is_restored_after_an_error(terminal: FakeTerminal) -> None:
    with pytest.raises(ZeroDivisionError), screen.open_screen(terminal):
        raise ZeroDivisionError
    assert terminal.shown().endswith(screen.CLOSE)


def test_a_low_terminal_shows_the_upper_lines(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "2")
    with screen.open_screen(terminal) as opened:
        assert isinstance(opened, screen.Terminal)
        opened.draw(["first", "second", "third"])
        assert "third" not in terminal.shown()


def test_no_color(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with screen.open_screen(terminal) as opened:
        assert isinstance(opened, screen.Terminal)
        assert not opened.look().color


def test_a_dumb_terminal_and_a_file_are_printed_to(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for stream in (terminal, io.TextIOWrapper(io.BytesIO(), encoding="latin-1")):
        with screen.open_screen(stream) as opened:
            assert isinstance(opened, screen.Paper)
            assert opened.look().blocks == (stream is terminal)
    assert "\x1b" not in terminal.shown()


def test_without_a_terminal_it_ends_by_itself(terminal: FakeTerminal) -> None:
    assert length(screen.Paper(terminal), None) == UNWATCHED_SECONDS
    assert length(screen.Terminal(terminal), None) == float("inf")
    assert length(screen.Terminal(terminal), 3.0) == 3.0


def test_printed_frames() -> None:
    stream = io.StringIO()
    run(stream, eps=0.01, rate=1e5, seed=2, seconds=0.2)
    assert stream.getvalue().count("certified ranks") == 2
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_terminal_is_restored_when_the_demo_is_stopped(number: signal.Signals) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "quantide", "demo", "--rate", "100000"]
    with subprocess.Popen(command, stdout=theirs, env={**os.environ, "TERM": "xterm"}) as demo:
        os.close(theirs)
        before = read_terminal(ours, until=screen.BELOW)
        demo.send_signal(number)
        after = read_terminal(ours)
    os.close(ours)
    assert demo.returncode == 0
    assert screen.OPEN in before
    assert "p99.9" in before
    assert "p99.9" in after.split(screen.CLOSE)[1]


def read_terminal(terminal: int, until: str | None = None) -> str:
    """What a program writes to a terminal, up to a mark or to its end."""
    data = b""
    while until is None or until.encode() not in data:
        try:
            data += os.read(terminal, 4096)
        except OSError:  # the program has ended
            break
    return data.decode(errors="replace")
