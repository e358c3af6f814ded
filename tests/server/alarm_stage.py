"""Alarms over a store, with a clock that the test sets."""

from pathlib import Path
from typing import Any

import numpy as np

from quantide.server.alarms.alarm_setting import AlarmSetting
from quantide.server.service import Service
from tests.server.running_server import configure, make_store


class Stage:
    """A store, a service over it that is not started, and a clock."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.now = folder, 1_000_000.0
        self.history = make_store(folder, **{"keys": None, "filters": []} | settings)
        self.service = self.begin()

    def begin(self) -> Service:
        service = Service(configure(self.folder))
        service.alarms._clock = service.alarms._timer = lambda: self.now
        self.service = service
        return service

    def end(self) -> None:
        self.service.close()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.history.close()

    def append(self, values: Any, **more: Any) -> None:
        self.history.append(np.asarray(values, dtype=float), **more)
        self.move()

    def move(self) -> None:
        live = self.service.streams.live("latency")
        live.poll()
        self.service.alarms.on_commit("latency", live)
        self.service.alarms.tick()

    def set(self, **fields: Any) -> int:
        return self.service.alarms.add(setting(**fields)).id

    def precision(self, id: int) -> float:
        alarm = self.service.alarms.get(id)
        assert alarm.window is not None
        precision = alarm.window.precision(alarm.conditions)
        assert precision is not None
        return precision

    def state_of(self, id: int) -> tuple[str, bool]:
        alarm = self.service.alarms.get(id)
        return alarm.machine.state, alarm.machine.firing


def setting(**fields: Any) -> AlarmSetting:
    chosen: dict[str, Any] = {
        "name": None, "stream": "latency", "key": None, "window": "all", "filter": None, "phi": 0.5, "eps": None,
        "above": True, "threshold": 100, "hold": 0.0, "webhook": None, "owner": "local", "created": 0.0,
    }  # fmt: skip
    chosen |= fields
    return AlarmSetting(**{"clear": chosen["threshold"]} | chosen)
