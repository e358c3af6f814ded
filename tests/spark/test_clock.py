"""A stream with a wrong clock loses nothing and reports it; after a long pause an operator lets it catch up."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.cli import main
from quantide.windows.wall_clock import VARIABLE
from tests.spark.streams import Feed

HOUR, DAY = 3600, 24 * 3600
STEP = 6 * HOUR


class Machine:
    """A stream with four steps a day and a retention of ten days, on a machine whose clock a test moves."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.feed = Feed(folder, 'step = "6 hours"\nretention = "10 days"')
        self._move, self.store = monkeypatch.setenv, str(self.feed.store)

    def ingest(self, offset: float) -> dict[str, Any]:
        """Take in one more file by a clock that is so far ahead; the stream's last line."""
        self._move(VARIABLE, str(offset))
        self.feed.write(f"{len(self.feed.values)}.parquet", rows=100)
        line: dict[str, Any] = json.loads(self.feed.ingest(json=True).splitlines()[-1])
        return line

    @property
    def steps(self) -> int:
        return int(History(self.store).stats()["steps"])

    @property
    def values(self) -> int:
        return sum(map(len, self.feed.values))


def test_a_clock_sixty_days_ahead(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch)
    for turn in range(3):
        assert machine.ingest(turn * STEP)["clock_problem"] is None
    assert machine.steps == 2
    for _ in range(2):
        line = machine.ingest(60 * DAY)
        assert "ahead of the open step" in line["clock_problem"]
        assert History(machine.store).stats()["clock_problem"] == line["clock_problem"]
        assert (machine.steps, History(machine.store).n) == (3, machine.values)
        assert not (machine.feed.store / "_quantide/retired").exists()
    assert machine.ingest(4 * STEP)["clock_problem"] is None, "after a correction it continues"
    assert History(machine.store).stats()["clock_problem"] is None
    assert machine.steps == 4
    machine.feed.check()


def test_a_pause_of_sixty_days(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a pause is implausible until an operator accepts the clock; what expired can be brought back."""
    machine = Machine(tmp_path, monkeypatch)
    for turn in range(2):
        machine.ingest(turn * STEP)
    before = machine.values
    assert "ahead of the open step" in machine.ingest(60 * DAY)["clock_problem"]
    assert machine.steps == 2, "rows after the pause are in a step of their own"
    assert main(["history", "clock", machine.store]) == 0
    assert "problem: the clock of this machine is" in capsys.readouterr().out
    assert main(["history", "clock", machine.store, "--accept"]) == 0
    for _ in range(8):
        line = machine.ingest(60 * DAY)
        assert line["clock_problem"] is None
        if machine.steps >= 240:
            break
    assert machine.steps == 240
    assert History(machine.store).n == machine.values - before, "what is older than ten days has expired"
    assert main(["history", "restore", machine.store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["values"] == before
    machine.ingest(60 * DAY + STEP)
    assert machine.steps == 241
    machine.feed.check()
