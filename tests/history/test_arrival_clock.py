"""Times of rows without times: correct windows whatever happens to the machine's clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import History
from quantide.history import recent_writer
from quantide.history.future_rows import repair_future_rows
from quantide.history.recent_writer import ArrivalClock
from quantide.live import LiveStream
from quantide.store.recent_manifest import RecentManifest
from quantide.windows.wall_clock import VARIABLE

SECOND, MINUTE, DAY = 10**9, 60 * 10**9, 86_400 * 10**9
NOON = 1_767_268_800 * SECOND


class World:
    """Machine: time passes, and its wall clock can be set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.passed, self.offset = 0, 0
        patch.setattr(recent_writer, "wall_clock_ns", lambda: NOON + self.passed + self.offset)
        patch.setattr(recent_writer, "ticks_ns", lambda: self.passed)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def values_in(path: Path, **scope: Any) -> list[float]:
    live = LiveStream(path, follow=False)
    n = live.summary(**scope).n
    return [float(answer.value) for answer in live.answers([(i + 1) / n for i in range(n)], mode="exact", **scope)]


@pytest.mark.parametrize("jump", [60 * DAY, 30 * MINUTE, -60 * DAY, -MINUTE])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_jump_that_is_undone(tmp_path: Path, world: World, jump: int, restarts: bool) -> None:
    """With one row a minute, a window of five minutes has the rows of the last five minutes soon after the jump."""
    history = History(tmp_path)
    for minute in range(40):
        world.passed = minute * MINUTE
        world.offset = jump if 10 <= minute < 20 else 0
        history.append([float(minute)])
        if restarts and minute % 5 == 2:
            history.close()
            history = History(tmp_path)
        values = values_in(tmp_path, within="5 min")
        assert values[-1] == minute
        assert len(values) <= 8  # never for days, and never frozen
        if minute >= 30 or minute < 10 or (not restarts and abs(jump) > 30 * MINUTE and minute > 5):
            assert values == [float(minute - back) for back in range(min(minute, 4), -1, -1)]
    history.close()


def test_a_jump_of_days_that_is_undone_leaves_no_trace(tmp_path: Path, world: World) -> None:
    with History(tmp_path) as history:
        for passed, offset, value in ((0, 0, 1.0), (MINUTE, 60 * DAY, 2.0), (2 * MINUTE, 0, 3.0)):
            world.passed, world.offset = passed, offset
            history.append([value])
        assert values_in(tmp_path, within="5 min") == [1.0, 2.0, 3.0]
        assert LiveStream(tmp_path, follow=False).newest == np.datetime64(NOON + 2 * MINUTE, "ns")


def test_a_step_forward_that_lasts_is_followed(tmp_path: Path, world: World) -> None:
    """Windows follow a step forward that lasts, as when a wrong clock is corrected."""
    with History(tmp_path) as history:
        for minute in range(80):
            world.passed, world.offset = minute * MINUTE, DAY if minute >= 5 else 0
            history.append([float(minute)])
            expected = NOON + minute * MINUTE + (DAY if minute >= 65 else 0)
            assert LiveStream(tmp_path, follow=False).newest == np.datetime64(expected, "ns")


def test_a_writer_that_comes_back_under_a_clock_that_went_back(tmp_path: Path, world: World) -> None:
    """Undo a jump after a restart, then wait a day without a writer: that day has passed for windows, too."""
    with History(tmp_path) as history:
        history.append([1.0])
    world.offset = 60 * DAY
    with History(tmp_path) as history:
        history.append([2.0])
    world.offset, world.passed = 0, MINUTE
    with History(tmp_path) as history:
        history.append([3.0])
        assert history.table.current_manifest().ahead == 60 * DAY - MINUTE
    world.passed = DAY
    with History(tmp_path) as history:
        history.append([4.0])
        assert values_in(tmp_path, within="5 min") == [4.0]
        assert values_in(tmp_path, within="24 hours") == [2.0, 3.0, 4.0]


def test_the_repair_brings_times_of_arrival_back(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that arrived under a clock that is ahead get the time of their arrival."""
    world.offset = 60 * DAY
    with History(tmp_path) as history:
        history.append([1.0])
        world.offset, world.passed = 0, 2 * MINUTE
        history.append([2.0])
        world.passed = 3 * MINUTE
        history.append([3.0])
    monkeypatch.setattr("quantide.windows.time_clock.wall_clock_ns", lambda: NOON + 3 * MINUTE)
    report = repair_future_rows(tmp_path, "redate")
    assert (report.rows, report.newest_after) == (3, np.datetime64(NOON + 3 * MINUTE, "ns"))
    world.passed = 4 * MINUTE
    with History(tmp_path) as history:
        history.append([4.0])
        assert history.table.current_manifest().ahead == 0
    assert values_in(tmp_path, within="90 s") == [3.0, 4.0]


@given(
    st.lists(
        st.tuples(st.integers(0, 3 * MINUTE), st.sampled_from([0, 0, 0, DAY, -DAY, 5 * MINUTE]), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_it_never_goes_back_nor_stands_still(steps: list[tuple[int, int, bool]]) -> None:
    """Within one writer it advances as much as time has passed, or to the wall clock; the next writer lets it
    advance by as much as the wall clock did, at most.
    """
    with pytest.MonkeyPatch.context() as patch:
        world, clock, manifest, last, last_wall = World(patch), ArrivalClock(), RecentManifest(), NOON, NOON
        for passed, offset, restart in steps:
            world.passed, world.offset = world.passed + passed, offset
            clock = ArrivalClock() if restart else clock
            now, ahead = clock.now(manifest)
            wall = NOON + world.passed + world.offset
            assert ahead == max(0, now - wall)
            if manifest.newest is not None:
                moved = max(0, wall - last_wall) if restart else passed
                assert last + (0 if restart else passed) <= now <= max(wall, last + moved)
            last, last_wall, manifest = now, wall, RecentManifest(newest=now, clock="timestamp with zone", ahead=ahead)


def test_the_clock_that_tests_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds, or a file with seconds, move the wall clock of the whole program."""
    offset = tmp_path / "offset"
    monkeypatch.setenv(VARIABLE, str(offset))
    offset.write_text("0")
    with History(tmp_path / "store") as history:
        history.append([1.0])
        offset.write_text(str(60 * 86_400))
        history.append([2.0])
        offset.write_text("")
        history.append([3.0])
    assert values_in(tmp_path / "store", within="5 min") == [1.0, 2.0, 3.0]
    monkeypatch.setenv(VARIABLE, "86400")
    with History(tmp_path / "store") as history:
        history.append([4.0])
    assert values_in(tmp_path / "store", within="5 min") == [4.0]
