"""Alarm windows: the values behind alarms as of one commit, and the states that these prove."""

import logging
from abc import ABC, abstractmethod
from typing import Any

from quantide.errors import QuantideError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.server.alarms.alarm_setting import AlarmSetting
from quantide.server.http.response_json import encode_answer
from quantide.summary.value_types import type_named

LOG = logging.getLogger("quantide.server")
NO, POSSIBLE, CERTAIN = "no", "possible", "certain"  # states of a condition, as bounds prove it
NO_ANSWER = dict.fromkeys(("value", "rank_lo", "rank_hi", "target", "n", "error", "version"))


class AlarmWindow(ABC):
    """Values behind alarms as of one commit, `version`. `reason` explains why no condition can be evaluated."""

    def __init__(self, live: LiveStream) -> None:
        self.live, self.version = live, -1
        self.reason: str | None = None
        self.alarms = 0  # number of alarms over it
        self._current = False  # all conditions are evaluated as of this version

    @abstractmethod
    def add_conditions(self, setting: AlarmSetting) -> tuple[Any, Any]:
        """Watch the threshold of an alarm and its clear limit; return a name for each of both conditions."""

    def drop_conditions(self, conditions: tuple[Any, Any]) -> None:  # noqa: B027
        """Drop the conditions of an alarm."""

    @abstractmethod
    def precision(self, conditions: tuple[Any, Any]) -> float | None:
        """Return the precision in force; None if alarms over this window have none."""

    def evaluate(self) -> None:
        """Evaluate all conditions as of the newest commit."""
        try:
            self._refresh()
        except QuantideError as error:
            self.reason, self._current = str(error), False
        except Exception:
            LOG.exception("the window of an alarm cannot be read: %s", self)
            self.reason, self._current = "the window cannot be read; see the server's log", False

    @abstractmethod
    def _refresh(self) -> None:
        """Read the newest commit; if it is another one than before, evaluate all conditions, and set `reason`."""

    @abstractmethod
    def state(self, condition: Any) -> str:
        """Return the state of a condition: "no", "possible" or "certain"."""

    @abstractmethod
    def encode_value(self, setting: AlarmSetting) -> dict[str, Any]:
        """Return the fields of the measured value as of this version; call it only without a `reason`."""


class QuantileAlarmWindow(AlarmWindow):
    """Conditions on quantiles of a window, all evaluated from the same summary.

    Its monitor is not shared: it evaluates the summary that evaluate() has fetched. So the states of all conditions and
    the answers shown with them are as of one commit.
    """

    def __init__(self, live: LiveStream, scope: QueryScope) -> None:
        super().__init__(live)
        self.scope = scope
        self.version, self._summary = live.pull(scope)
        self._monitor = live.new_monitor(scope, lambda: (self.version, self._summary))
        self._states: dict[int, str] = {}

    def add_conditions(self, setting: AlarmSetting) -> tuple[int, int]:
        """Watch a quantile against its threshold and its clear limit; return the ids of both conditions."""
        limits = setting.limits(type_named(self.live.settings.value_type))
        side = "above" if setting.above else "below"
        first, second = (self._monitor.watch(setting.quantile, setting.eps, **{side: limit}) for limit in limits)
        self._current = False
        return first, second

    def drop_conditions(self, conditions: tuple[int, int]) -> None:
        for id in conditions:
            self._monitor.drop(id)
            self._states.pop(id, None)

    def precision(self, conditions: tuple[int, int]) -> float:
        """Return the precision in force: a count further than that from its target is decided correctly."""
        return self._monitor.query(conditions[0]).eps

    def _refresh(self) -> None:
        version, self._summary = self.live.pull(self.scope)
        if version != self.version or not self._current:
            self.version = version
            self._states.update(self._monitor.changes().conditions)
            self.reason, self._current = None if self._summary.n else explain_empty(self.scope), True

    def state(self, condition: int) -> str:
        return POSSIBLE if self.reason is not None else self._states.get(condition, POSSIBLE)

    def encode_value(self, setting: AlarmSetting) -> dict[str, Any]:
        return encode_answer(self._summary.answer(setting.quantile)) | {"version": self.version}

    def __str__(self) -> str:
        return str(self.scope)


def explain_empty(scope: QueryScope) -> str:
    """Return the reason why a window without values has no answer."""
    key = "" if scope.key is None else f" of the key {scope.key!r}"
    return f"there is no value{key} in this window"
