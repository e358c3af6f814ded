"""The demo: its market, backfill, files, frames and terminal; and a complete run through Spark."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from bench.processes import ROOT, family
from quantide.cli import main
from quantide.client import Client
from quantide.config import Config
from quantide.config.server_config import PORT
from quantide.demo import demo_run, demo_setup, market, terminal_frame, terminal_view
from quantide.demo.background_tasks import FILE_SECONDS, Feeder
from quantide.demo.demo_run import DemoOptions
from quantide.demo.demo_setup import ALARMS, QUERIES
from quantide.demo.market import DAY, HOUR, SYMBOLS, Market
from quantide.demo.shutdown import sigterm_as_interrupt
from quantide.demo.terminal_frame import AlarmRow, FrameState, KeyRow, TerminalStyle, draw_sparkline
from quantide.errors import InvalidArgumentError
from quantide.history.history import History
from quantide.live import LiveStream
from tests.spark.process_groups import running, tail, wait_until

START = 1_750_000_000_000_000
MARKET = Market(seed=7, start=START)

ROW = KeyRow("DUNE", 1.5, 2.25, 12.345, 59_990, 60_010, 60_601, 0.0002, (1.0, 3.0, 2.0))
STATE = FrameState(
    address="http://127.0.0.1:8642",
    seconds=12.3,
    n=61_000_000,
    rate=2_012.4,
    lag=0.64,
    window="1 min",
    rows=(ROW, replace(ROW, symbol="ECHO")),
    alarms=(
        AlarmRow("ECHO is wide", 0.99, 30.0, 75.5, True, "certain"),
        AlarmRow("late", 0.9, 5e3, None, False, "possible"),
    ),
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


def column_of(ticks: pa.Table, symbol: str, column: str = "spread_bps") -> NDArray[np.float64]:
    return np.asarray(ticks.filter(pc.equal(ticks["symbol"], symbol))[column])


# --- the market


def test_the_same_seed_and_times_give_the_same_ticks() -> None:
    ticks = MARKET.ticks(3.0, 3.5)
    assert ticks.equals(Market(7, START).ticks(3.0, 3.5))
    assert not ticks.equals(Market(8, START).ticks(3.0, 3.5))
    assert MARKET.ticks(3.5, 4.0)["spread_bps"] != ticks["spread_bps"]


def test_ticks_lie_between_their_moments_in_order() -> None:
    for since, until in ((-2.0, 0.0), (3.0, 3.5)):
        ticks = MARKET.ticks(since, until)
        assert ticks.schema == market.SCHEMA
        times = np.asarray(ticks["ts"].cast(pa.int64()))
        assert (np.diff(times) >= 0).all()
        assert START + 1e6 * since <= times[0] <= times[-1] < START + 1e6 * until
        assert set(ticks["symbol"].to_pylist()) == set(SYMBOLS)


def test_ticks_arrive_in_bursts_and_at_the_given_rate() -> None:
    ticks = MARKET.ticks(0.0, 60.0)
    assert abs(len(ticks) / 60 / market.RATE - 1) < 0.1
    slots = (np.asarray(ticks["ts"].cast(pa.int64())) - START) // 10_000
    counts = np.bincount(slots, minlength=6_000)
    assert counts.var() > 10 * counts.mean()  # independent ticks would have about the same


def test_every_symbol_has_a_level_of_its_own_and_a_heavy_tail() -> None:
    ticks = MARKET.ticks(-HOUR - DAY, -HOUR, rate=3.0)
    for index, symbol in enumerate(SYMBOLS):
        for column, level in (("spread_bps", market.SPREAD[index]), ("latency_us", market.LATENCY[index])):
            p50, p90, p9999 = np.quantile(column_of(ticks, symbol, column), [0.5, 0.9, 0.9999])
            assert abs(p50 / level - 1) < 0.2
            assert p9999 / p50 > 3 * p90 / p50


def test_only_dune_drifts() -> None:
    before = MARKET.ticks(-HOUR - DAY, -HOUR, rate=3.0)
    now, later = MARKET.ticks(0.0, 20.0), MARKET.ticks(1_800.0, 1_830.0)
    for symbol in SYMBOLS:
        medians = [np.median(column_of(ticks, symbol)) for ticks in (before, now, later)]
        if symbol == "DUNE":
            assert 1.5 * medians[0] < medians[1] < medians[2] / 1.3
        else:
            assert abs(medians[1] / medians[0] - 1) < 0.1
            assert abs(medians[2] / medians[0] - 1) < 0.1


def test_only_echo_has_incidents() -> None:
    calm, during, after = (MARKET.ticks(since, since + 20) for since in (5.0, 35.0, 75.0))
    for symbol in SYMBOLS:
        low, high, low_again = (np.median(column_of(ticks, symbol)) for ticks in (calm, during, after))
        assert abs(low_again / low - 1) < 0.15
        assert abs(high / low / (8 if symbol == "ECHO" else 1) - 1) < 0.15
    again = column_of(MARKET.ticks(215.0, 235.0), "ECHO")
    assert np.median(again) > 6 * np.median(column_of(calm, "ECHO"))


def test_the_alarm_is_certain_in_an_incident_and_out_of_it() -> None:
    alarm = ALARMS["ECHO spreads are wide"]
    for since, until in ((-80.0, -50.0), (0.0, 30.0), (110.0, 140.0)):
        assert np.quantile(column_of(MARKET.ticks(since, until), "ECHO"), 0.985) < alarm["clear"]  # type: ignore[operator]
        assert np.quantile(column_of(MARKET.ticks(since, until), "ECHO"), 0.995) < alarm["above"]  # type: ignore[operator]
    assert np.quantile(column_of(MARKET.ticks(3.0, 33.0), "ECHO"), 0.985) > alarm["above"]  # type: ignore[operator]


# --- its backfill


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """A demo with a short history."""
    monkeypatch.setattr(demo_setup, "DAYS", 3)
    monkeypatch.setattr(demo_setup, "DAY_RATE", 4_000 / DAY)
    monkeypatch.setattr(demo_setup, "RATE", 20.0)
    return demo_setup.prepare_folder(tmp_path, 0)


def all_ticks() -> pa.Table:
    """Return all ticks of the backfill."""
    return pa.concat_tables(
        [*(demo_setup.generate_day(MARKET, step) for step in (1, 2, 3)), demo_setup.generate_last_hour(MARKET)]
    )


def check_store(config: Config, name: str, ticks: pa.Table) -> None:
    """Compare the answers of a store with the sorted values."""
    stream = config.streams[name]
    with History(stream.folder) as history:
        assert history.step == 4
        assert history.n == len(ticks)
        for symbol in SYMBOLS:
            exact = np.sort(column_of(ticks, symbol, stream.value))
            answer = history.answer(0.9, key=symbol, mode="exact")
            assert (answer.n, answer.value) == (len(exact), exact[answer.target - 1])
    with LiveStream(stream.folder, follow=False) as live:
        times = np.asarray(ticks["ts"].cast(pa.int64()))
        recent = ticks.filter(pa.array(times > times.max() - 1_800_000_000))
        exact = np.sort(column_of(recent, "ECHO", stream.value))
        median = live.answer(0.5, key="ECHO", within="30 min", mode="exact")
        assert (median.n, median.value) == (len(exact), exact[median.target - 1])
        [(name_of_filter, condition)] = stream.filters.items()
        limit = float(condition.split(">= ")[1])
        assert (
            live.summary(filter=name_of_filter, within="30 min").n
            == (np.asarray(recent[stream.value]) >= limit).sum()
            > 0
        )


def test_the_stores_have_every_tick_of_the_backfill_once(small: Config) -> None:
    values = demo_setup.backfill(list(small.streams.values()), MARKET)
    ticks = all_ticks()
    assert values == 2 * len(ticks)
    for name in small.streams:
        check_store(small, name, ticks)
    assert demo_setup.backfill(list(small.streams.values()), MARKET) == values


@pytest.mark.parametrize("fails_at", ["append", "end_step"])
def test_an_interrupted_backfill_is_completed(fails_at: str, small: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [0]
    true: Callable[..., Any] = getattr(History, fails_at)

    def fail(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return true(*args, **named)

    streams = list(small.streams.values())
    with monkeypatch.context() as patch:
        patch.setattr(History, fails_at, fail)
        with pytest.raises(KeyboardInterrupt):
            demo_setup.backfill(streams, MARKET)
    demo_setup.backfill(streams, MARKET)
    for name in small.streams:
        check_store(small, name, all_ticks())


# --- its files


class FakeClient:
    """Client that reports how far the streams are."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def streams(self) -> list[dict[str, Any]]:
        newest = np.datetime64(START, "us") + np.timedelta64(round(1e6 * self.seconds), "us")
        return [{"ready": True, "newest": newest}, {"ready": True, "newest": newest + np.timedelta64(9, "s")}]


def test_every_tick_is_in_one_file_and_files_are_removed_once_ingested(tmp_path: Path) -> None:
    client = FakeClient()
    feeder = Feeder(MARKET, tmp_path, client)  # type: ignore[arg-type]
    for now in (0.2, 3.7, 3.9, 4.1, 40.0):
        feeder.feed(now)
    files = sorted(tmp_path.iterdir())
    ends = [3.5, 4.0, 40.0]
    assert [path.name for path in files] == [f"{START + round(1e6 * end)}.parquet" for end in ends]
    spans = zip([0.0, *ends], ends, strict=False)
    for path, (since, until) in zip(files, spans, strict=True):
        assert pq.read_table(path).equals(MARKET.ticks(since, until))
        assert until % FILE_SECONDS == 0
    client.seconds = 23.9
    feeder.sweep()
    assert sorted(tmp_path.iterdir()) == files[1:]
    client.seconds = 1_000.0
    feeder.sweep()
    assert not list(tmp_path.iterdir())


def test_a_failing_feeder_ends_the_demo(tmp_path: Path) -> None:
    feeder = Feeder(Market(7, START - 10**12), tmp_path / "missing", FakeClient())  # type: ignore[arg-type]
    with sigterm_as_interrupt(), pytest.raises(KeyboardInterrupt):
        feeder.run()
    assert isinstance(feeder.error, FileNotFoundError)


def test_a_port_that_is_taken_is_skipped() -> None:
    free = demo_setup.choose_port(0)
    assert demo_setup.choose_port(free) == free
    with socket.create_server(("127.0.0.1", free)), pytest.raises(InvalidArgumentError, match=f"port {free} cannot"):
        demo_setup.choose_port(free)
    try:
        usual = socket.create_server(("127.0.0.1", PORT))
    except OSError:  # another program has it already
        assert demo_setup.choose_port(None) != PORT
        return
    with usual:
        assert demo_setup.choose_port(None) not in (PORT, 0)
    assert demo_setup.choose_port(None) == PORT


def test_one_demo_a_folder(tmp_path: Path) -> None:
    with (
        demo_setup.lock_folder(tmp_path),
        pytest.raises(InvalidArgumentError, match="another demo"),
        demo_setup.lock_folder(tmp_path),
    ):
        pass
    with demo_setup.lock_folder(tmp_path):
        pass


def test_invalid_seconds_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds in ("inf", "nan", "0", "1e300"):
        assert main(["demo", "--seconds", seconds]) == 2
        assert "seconds is" in capsys.readouterr().err


def test_a_run_without_java_ends_before_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "streams.toml").write_text(
        'store = "d"\n[streams.a]\nvalue = "v"\nsource = { format = "parquet", path = "in" }\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["run", "streams.toml"]) == 2
    out, error = capsys.readouterr()
    assert (out, "which needs Java: JAVA_HOME is /nowhere" in error) == ("", True)


def test_without_java_it_reports_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["demo", "--seconds", "1", "--json"]) == 2
    out, error = capsys.readouterr()
    body = json.loads(error)["error"]
    assert (out, body["code"]) == ("", "spark_setup")
    assert "JAVA_HOME is /nowhere" in body["message"]
    assert "install Java 17" in body["message"]


# --- frames


def test_a_frame_shows_quantiles_proved_ranks_and_alarms() -> None:
    shown = "\n".join(terminal_frame.render(STATE, TerminalStyle(width=120)))
    counts = ["61,000,000 values", "2,012 a second", "0.6 s ago", "last 1 min", STATE.address]
    rows = ["1.500", "2.250", "12.345", "59,990 to 60,010", "60,601", "0.02%", "▁█▅"]
    for part in [*counts, *rows, "FIRES   ECHO is wide: p99 is 75.50", "quiet   late: p90 is not known"]:
        assert part in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", [1, 5, 10, 20, 30, 40, 60, 80, 200])
@pytest.mark.parametrize("color", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, color: bool) -> None:
    lines = terminal_frame.render(STATE, TerminalStyle(width, color))
    assert max(len(plain(line)) for line in lines) <= width


def test_a_frame_fits_the_smallest_usual_terminal() -> None:
    rows = tuple(replace(ROW, symbol=symbol) for symbol in SYMBOLS)
    assert len(terminal_frame.render(replace(STATE, rows=rows), TerminalStyle())) <= 22


def test_narrow_tables_leave_out_the_least_important_columns_first() -> None:
    titles = [
        [column.title for column in terminal_frame.choose_columns(STATE.rows, TerminalStyle(width))]
        for width in (110, 80, 50, 20, 3)
    ]
    assert titles == [
        ["", "p50", "p90", "p99", "its rank, proved", "of", "off by at most", "recent p99"],
        ["", "p50", "p90", "p99", "off by at most", "recent p99"],
        ["", "p50", "p99", "recent p99"],
        ["", "p99"],
        [""],
    ]


def test_a_frame_before_the_first_tick() -> None:
    lines = terminal_frame.render(replace(STATE, rows=(), rate=0.0), TerminalStyle(100))
    assert "none arrived recently" in lines[1]
    assert "no ticks yet" in "\n".join(lines)


def test_a_newest_value_ahead_of_the_clock_is_shown_as_such() -> None:
    shown = "\n".join(terminal_frame.render(replace(STATE, lag=-3600.0), TerminalStyle(width=120)))
    assert "dated 3600.0 s ahead of the clock" in shown
    assert "arrived 0.0 s ago" in "\n".join(terminal_frame.render(replace(STATE, lag=-0.2), TerminalStyle(width=120)))


def test_color_changes_nothing_but_color() -> None:
    colored = terminal_frame.render(STATE, TerminalStyle(color=True))
    assert sum(line.startswith("\x1b[31m") for line in colored) == 1
    assert [plain(line) for line in colored] == terminal_frame.render(STATE, TerminalStyle())


def test_without_block_characters_a_frame_is_ascii() -> None:
    assert all(line.isascii() for line in terminal_frame.render(STATE, TerminalStyle(blocks=False)))


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0], [0.0, 5.0, 1.0], list(range(99))])
def test_sparklines_have_the_given_width(values: list[float]) -> None:
    assert len(draw_sparkline(values, 10)) == 10


# --- the terminal


def test_a_view_is_a_thread_that_can_start() -> None:
    """No attribute of a task may replace one that threads need."""
    view = terminal_view.TerminalView(cast(Any, None), cast(Any, None), threading.Event())
    assert not view.is_alive()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> FakeTerminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return FakeTerminal()


def test_a_terminal_is_drawn_in_place_and_restored(terminal: FakeTerminal) -> None:
    with terminal_view.open_screen(terminal) as opened:
        assert isinstance(opened, terminal_view.Terminal)
        assert opened.detect_style() == TerminalStyle(width=90, color=True, blocks=True)
        opened.draw(["one"])
        opened.draw(["two"])
    shown = terminal.shown()
    assert shown.startswith(terminal_view.OPEN)
    assert shown.count(terminal_view.HOME) == 2
    assert "Ctrl-C ends" in shown
    assert shown.endswith(terminal_view.CLOSE + "two\n")


def test_a_terminal_is_restored_after_an_error(terminal: FakeTerminal) -> None:
    with pytest.raises(ZeroDivisionError), terminal_view.open_screen(terminal):
        raise ZeroDivisionError
    assert terminal.shown().endswith(terminal_view.CLOSE)


def test_a_low_terminal_shows_the_upper_lines(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "2")
    with terminal_view.open_screen(terminal) as opened:
        assert isinstance(opened, terminal_view.Terminal)
        opened.draw(["first", "second", "third"])
        assert "third" not in terminal.shown()


def test_no_color(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal_view.open_screen(terminal) as opened:
        assert isinstance(opened, terminal_view.Terminal)
        assert not opened.detect_style().color


def test_a_dumb_terminal_and_a_file_are_printed_to(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for stream in (terminal, io.TextIOWrapper(io.BytesIO(), encoding="latin-1")):
        with terminal_view.open_screen(stream) as opened:
            assert isinstance(opened, terminal_view.PrintedScreen)
            assert opened.detect_style().blocks == (stream is terminal)
            opened.show(STATE)
    assert "FIRES" in terminal.shown()
    assert "\x1b" not in terminal.shown()


def test_frames_for_programs() -> None:
    stream = io.StringIO()
    with terminal_view.open_screen(stream, json=True) as opened:
        opened.show(STATE)
    assert json.loads(stream.getvalue())["rows"][0]["rank_lo"] == ROW.rank_lo


# --- a complete run


def objects(log: Path) -> list[dict[str, Any]]:
    """Return the lines of a demo with --json; Spark writes elsewhere, so each is a JSON object."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def last_value(log: Path, field: str) -> Any:
    """Return the last value of a field; None while there is none."""
    return next((line[field] for line in reversed(objects(log)) if field in line), None)


@pytest.mark.slow
def test_the_demo_runs_is_killed_continues_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "market", tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "quantide", "demo", "--port", "0", "--json", "--terminal"]
    command += ["--folder", str(folder), "--seed", "5"]
    env = os.environ | {"TMPDIR": str(scratch)}

    first = tmp_path / "first"
    with running(command, first, env) as process:
        wait_until(lambda: last_value(first, "url") is not None, [process], first)
        with Client(last_value(first, "url")) as client:
            history = last_value(first, "history")
            assert sum(stream["n"] for stream in client.streams()) == history
            assert sum(1 for _ in client.queries(label="demo")) == QUERIES
            wide, late = client.alarms()
            assert not wide["firing"]
            wait_until(lambda: all(s["n"] > history / 2 for s in client.streams()), [process], first)
            wait_until(lambda: client.alarm_state(wide["id"])["firing"], [process], first)
            assert not client.alarm_state(late["id"])["firing"]
            n = client.streams()[0]["n"]
        wait_until(lambda: any(alarm["firing"] for alarm in last_value(first, "alarms")), [process], first)
        started = family(process.pid)
        process.kill()
        wait_until(lambda: not alive(started), [], first)

    second = tmp_path / "second"
    with running(command, second, env) as process:
        wait_until(lambda: last_value(second, "url") is not None, [process], second)
        with Client(last_value(second, "url")) as client:
            assert client.streams()[0]["n"] >= n
            assert sum(1 for _ in client.queries(label="demo")) == QUERIES
            assert len(client.alarms()) == len(ALARMS)
            for _ in range(3):  # as many commits change more continuous queries than there are
                wait_until(partial(has_more, client, client.streams()[0]["n"]), [process], second)
        started = family(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        wait_until(lambda: not alive(started - {process.pid}), [], second)
        wait_until(lambda: process.poll() is not None, [], second)
        assert process.returncode == 0, tail(second)
    assert last_value(second, "values") > 0
    assert last_value(second, "answered") > 0
    assert last_value(second, "changes") > QUERIES
    assert (folder / "spark.log").exists()
    names = {path.name for path in scratch.iterdir()} - {"hsperfdata_root"}
    assert not {name for name in names if name.startswith("quantide")}


def has_more(client: Client, n: int) -> bool:
    return bool(client.streams()[0]["n"] > n)


def alive(pids: set[int]) -> set[int]:
    """Return the processes that have not ended."""
    running = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.add(pid)
    return running


@pytest.mark.slow
def test_a_demo_with_seconds_ends_and_leaves_nothing(tmp_path: Path) -> None:
    """Runs it as a background job of a script, which ignores Ctrl-C."""
    demo = [sys.executable, "-m", "quantide", "demo", "--port", "0", "--seconds", "1"]
    command = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", *demo]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^Writing 30 days of history \.\.\. [\d,]+ values, [\d.]+ s$", done.stdout, re.M)
    assert re.search(r"^Open http://127\.0\.0\.1:\d+ in a browser", done.stdout, re.M)
    assert re.search(
        r"^Goodbye: [\d,]+ values ingested, \d+ queries answered, [\d,]+ changes sent\.$", done.stdout, re.M
    )
    wait_until(lambda: not list(tmp_path.glob("quantide-demo-*")), [], tmp_path / "demo.log")


def test_a_temporary_folder_is_removed(tmp_path: Path) -> None:
    with demo_run.open_folder(DemoOptions()) as folder:
        for number in range(100):
            (folder / f"-{number} x").mkdir()
    wait_until(lambda: not folder.exists(), [], tmp_path / "log")
