"""Alarms and a row dated in the future: they fire on later rows, at once or after the repair."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from quantide import History
from quantide.errors import FutureTimeError
from quantide.history.future_rows import repair_future_rows
from tests.server.alarm_stage import Stage

WRONG = 3_786_912_000.0  # 2090


def test_an_alarm_fires_on_rows_after_a_refused_one(tmp_path: Path) -> None:
    now = time.time() - 900
    with Stage(tmp_path) as stage:
        stage.append(np.full(1000, 1.0), times=now + np.arange(1000) / 10)
        alarm = stage.set(window="within:5m", phi=0.5)
        with pytest.raises(FutureTimeError):
            stage.append([1.0], times=WRONG)
        assert not stage.state_of(alarm)[1]
        stage.append(np.full(6000, 200.0), times=now + 100 + np.arange(6000) / 10)
        assert stage.state_of(alarm)[1]
        live = stage.service.streams.live("latency")
        assert live.stats()["clock_problem"] is None


def test_an_alarm_fires_again_after_the_repair(tmp_path: Path) -> None:
    """The alarm fires again after the repair of a store like those of 0.1, while the server keeps running."""
    now = time.time() - 900
    with Stage(tmp_path, max_ahead="off") as stage:
        stage.append(np.full(1000, 1.0), times=now + np.arange(1000) / 10)
        stage.append([1.0], times=WRONG)
        alarm = stage.set(window="within:5m", phi=0.5)
        stage.append(np.full(6000, 200.0), times=now + 100 + np.arange(6000) / 10)
        assert not stage.state_of(alarm)[1]
        stage.history.close()
        stage.history = History(stage.history.path, max_ahead="1 hour")
        stage.history.open()
        stage.move()
        live = stage.service.streams.live("latency")
        assert live.lag is not None
        assert live.lag < 0
        assert "years ahead of this machine's clock" in str(live.clock_problem)
        stage.history.close()
        assert repair_future_rows(stage.history.path, "redate").rows == 1
        stage.move()
        assert live.clock_problem is None
        assert live.lag > 0
        assert stage.state_of(alarm)[1]
