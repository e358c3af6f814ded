"""Steps by a wrong clock: few end because of it, none stays open, and an operator decides."""

from fractions import Fraction
from pathlib import Path

import pytest

from quantide import History
from quantide.config import Source, Step, StreamConfig
from quantide.spark.stream import step_clock
from quantide.spark.stream.step_clock import MAX_STEPS, StepClock, StreamClock, grace_hours
from quantide.store.file_names import CLOCK_ACCEPTED, CLOCK_PROBLEM
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import IngestLog
from quantide.store.ingest_status import accept_clock

HOUR, DAY = 3600, 24 * 3600
START = 1_000_000 * HOUR
MONTH = 30 * 24  # steps


class Machine:
    """A stream's steps, on a machine whose wall clock and running time a test moves."""

    def __init__(self, retention: int | None = MONTH, step: int = HOUR) -> None:
        self.step, self.retention = Step(Fraction(step)), retention
        self.wall, self.running, self.open = float(START), 0.0, 1
        self.clock = StepClock(self.step, None, self.open, self.wall, self.running, retention)

    def restart(self) -> None:
        """Restart as another process, with the origin that batches recorded."""
        self.running = 5.0
        self.clock = StepClock(self.step, self.clock.origin, self.open, self.wall, self.running, self.retention)

    def end_due(self) -> int:
        due = self.clock.due(self.open, 0, self.wall, self.running)
        self.open += due
        return due

    def settle(self) -> int:
        """Observe the clocks until no step ends any more; return the number of steps that ended."""
        ended = 0
        while due := self.end_due():
            assert due <= MAX_STEPS
            ended += due
        return ended

    def run(self, hours: int) -> int:
        """Advance both clocks; return the number of steps that ended."""
        ended = 0
        for _ in range(hours):
            self.wall, self.running = self.wall + HOUR, self.running + HOUR
            ended += self.settle()
        return ended


def test_sixty_days_ahead_end_no_step() -> None:
    machine = Machine()
    assert machine.run(50) == 50
    machine.wall += 60 * DAY
    assert machine.settle() == 0
    assert machine.clock.deviation == pytest.approx(60 * DAY, abs=2 * HOUR)
    assert machine.run(48) == 48, "steps go on by running time"
    assert machine.clock.deviation is not None
    machine.wall -= 60 * DAY
    assert machine.settle() <= 1
    assert machine.clock.deviation is None
    assert machine.run(24) == 24
    assert machine.open == pytest.approx(1 + 50 + 48 + 24, abs=1)


@pytest.mark.parametrize("restarts", [1, 3])
def test_a_restart_makes_a_wrong_clock_no_better(restarts: int) -> None:
    machine = Machine()
    machine.run(10)
    machine.wall += 60 * DAY
    for _ in range(restarts):
        machine.restart()
        assert machine.settle() == 0
        assert machine.clock.deviation is not None
        assert machine.run(3) == 3


@pytest.mark.parametrize(
    ("retention", "pause", "ended"),
    [(MONTH, 7 * DAY, 7 * 24), (MONTH, 8 * DAY, 0), (None, 7 * DAY, 7 * 24), (None, 8 * DAY, 0), (40, 10 * HOUR, 10)],
)
def test_a_pause_that_is_short_beside_the_retention_ends_its_steps(
    retention: int | None, pause: int, ended: int
) -> None:
    machine = Machine(retention)
    machine.run(10)
    machine.wall += pause
    machine.restart()
    assert machine.settle() == ended
    assert (machine.clock.deviation is None) == (ended > 0)


def test_small_jumps_end_no_more_steps_than_one() -> None:
    """Small jumps of the clock, each a pause alone, together end at most a fourth of the retention."""
    machine = Machine(retention=40)
    ended = 0
    for _ in range(20):
        machine.wall += 9 * HOUR
        ended += machine.settle()
    assert ended <= 40 // 4 + 1
    assert machine.clock.deviation is not None


def test_a_clock_that_runs_fast_ends_no_more_steps() -> None:
    machine = Machine(retention=40)
    ended = 0
    for _ in range(24 * 60):
        machine.wall, machine.running = machine.wall + 24 * 60, machine.running + 60
        ended += machine.settle()
    assert ended <= 24 + 40 // 4 + 1


def test_a_clock_that_was_put_back_does_not_hold_a_step_for_ever() -> None:
    machine = Machine()
    machine.run(5)
    machine.wall += 6 * DAY
    assert machine.settle() == 6 * 24, "a pause, it seemed"
    machine.wall -= 6 * DAY
    assert machine.settle() == 0
    assert machine.clock.deviation == pytest.approx(-6 * DAY, abs=2 * HOUR)
    assert machine.run(48) == 48
    machine.clock.accept(machine.wall, machine.open, machine.open, machine.running)
    assert machine.settle() <= 1
    assert machine.clock.deviation is None
    assert machine.run(24) == 24


def test_a_clock_that_starts_in_1970_and_is_set_later() -> None:
    machine = Machine()
    machine.run(5)
    now, machine.wall = machine.wall + 2 * HOUR, 100.0
    machine.restart()
    assert machine.run(3) == 3
    assert machine.clock.deviation is not None
    machine.wall = now + 3 * HOUR
    assert machine.settle() == 2, "the hours in which nothing ran"
    assert machine.clock.deviation is None


def test_an_operator_says_that_a_long_pause_was_true() -> None:
    machine = Machine()
    machine.run(5)
    machine.wall += 60 * DAY
    machine.restart()
    assert machine.settle() == 0
    machine.clock.accept(machine.wall, machine.open, machine.open, machine.running)
    assert machine.settle() == 60 * 24
    assert machine.clock.deviation is None
    assert machine.run(24) == 24
    machine.wall += 60 * DAY
    assert machine.settle() == 0, "consent to one pause does not cover the next"


@pytest.mark.parametrize(
    ("step", "retention", "hours"),
    [(HOUR, MONTH, 168), (HOUR, 48, 24), (60, 60, 0.5), (HOUR, None, None)],
)
def test_how_long_expired_runs_can_be_restored(step: int, retention: int | None, hours: float | None) -> None:
    assert grace_hours(Step(Fraction(step)), retention) == hours
    assert grace_hours(Step(None, 100), retention) is None


# What others see of it


def test_a_clock_that_goes_back_and_forth_ends_no_more_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"wall": float(START)}
    monkeypatch.setattr(step_clock, "wall_clock", lambda: now["wall"])
    monkeypatch.setattr(step_clock, "running_time", lambda: 0.0)
    with History(tmp_path, retention=40) as history:
        config = StreamConfig("s", str(tmp_path), Source("parquet", "in"), "v")
        clock = StreamClock(config, IngestLog(FolderStorage(str(tmp_path)), history.batch_seen), history)
        problems = 0
        for turn in range(80):
            now["wall"] = START + (turn % 2) * 60 * DAY
            for _ in range(clock.due(rows=1)):
                history._writer.end_step()
            problems += bool(clock.problem)
        assert problems >= 40
        assert history.step <= 4


def test_a_problem_is_published_and_accepted_through_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = {"wall": float(START), "running": 0.0}
    monkeypatch.setattr(step_clock, "wall_clock", lambda: now["wall"])
    monkeypatch.setattr("quantide.store.ingest_status.wall_clock", lambda: now["wall"])
    monkeypatch.setattr(step_clock, "running_time", lambda: now["running"])
    config = StreamConfig("s", str(tmp_path), Source("parquet", "in"), "v")
    history = History(tmp_path, retention=MONTH)
    history.append([1.0])
    ingest_log = IngestLog(FolderStorage(str(tmp_path)), history.batch_seen)
    clock = StreamClock(config, ingest_log, history)
    assert (clock.due(1), clock.problem, history.stats()["clock_problem"]) == (0, "", None)
    now["wall"] += 60 * DAY
    assert clock.due(1) == 1, "new rows are in a step of their own"
    for message in (clock.problem, history.stats()["clock_problem"], caplog.text):
        assert "60.0 days ahead" in message
        assert f"quantide history clock {tmp_path} --accept" in message
    history.end_step()
    history.append([2.0])
    assert clock.due(1) == 0
    ingest_log.origin = clock.origin
    now["running"] += 1.0
    second = StreamClock(config, ingest_log, history)
    assert second.due(1) == 0
    assert "days ahead of the open step" in second.problem
    (tmp_path / CLOCK_ACCEPTED).write_text('{"time": "soon"}')
    assert second.due(1) == 0
    assert second.problem, "an unreadable acceptance does not count"
    accept_clock(FolderStorage(str(tmp_path)), 2)
    assert second.due(1) == MAX_STEPS
    assert second.problem == ""
    assert not (tmp_path / CLOCK_PROBLEM).exists()
    assert "plausible again" in caplog.text
    third = StreamClock(config, ingest_log, history)
    ended = 0
    while due := third.due(0):
        for _ in range(due):
            history._writer.end_step()
        ended += due
    assert ended == 60 * 24 - 1, "the next process accepts it, too"
    for _ in range(5):
        history.end_step()
    assert (history.n, history.quantile(1)) == (1, 2.0), "the row of before the pause has expired, and no other"
    history.close()
