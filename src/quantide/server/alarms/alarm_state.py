"""Alarm state: an alarm, and the rule that decides when it fires.

An evaluation yields two facts, each proved by bounds ("certain", "no") or left open ("possible"): the quantile, or the
KS distance, is beyond the threshold, and it is beyond the limit at which the alarm clears. An alarm

    starts    when every evaluation for `hold` seconds was certain: beyond the threshold
    stops     when every evaluation for `hold` seconds was certain: not beyond the clear limit

"possible" does neither, and restarts the hold time. docs/alarms.md has the rules and the proof.
"""

import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from quantide.server.alarms.alarm_setting import KS, AlarmSetting
from quantide.server.alarms.alarm_transitions import Transition
from quantide.server.alarms.alarm_window import CERTAIN, NO, NO_ANSWER, POSSIBLE, AlarmWindow
from quantide.server.http.response_json import format_time


@dataclass(frozen=True)
class AlarmStateMachine:
    """Pure state machine of an alarm.

    `state` is the last evaluation of the threshold; `hold_start` is the time since which all evaluations were in favour
    of a change, None if the last one was not.

    >>> calm = AlarmStateMachine(hold=30)
    >>> high = calm.evaluate(0, beyond="certain", uncleared="certain")
    >>> high.firing, high.is_due(29), high.is_due(30)
    (False, False, True)
    >>> high.evaluate(20, "possible", "certain").hold_start, high.evaluate(30, "certain", "certain").firing
    (None, True)
    """

    hold: float
    firing: bool = False
    state: str = POSSIBLE
    hold_start: float | None = None

    def evaluate(self, now: float, beyond: str, uncleared: str) -> "AlarmStateMachine":
        """Return the state after an evaluation.

        `now` is in seconds of any clock; a clock that was set back restarts the hold time.
        """
        in_favour = uncleared == NO if self.firing else beyond == CERTAIN
        if not in_favour:
            return replace(self, state=beyond, hold_start=None)
        start = now if self.hold_start is None else min(self.hold_start, now)
        if now - start < self.hold:
            return replace(self, state=beyond, hold_start=start)
        return replace(self, state=beyond, firing=not self.firing, hold_start=None)

    def is_due(self, now: float) -> bool:
        """Return True if another evaluation with the same result would change `firing`."""
        return self.hold_start is not None and now - self.hold_start >= self.hold


@dataclass
class AlarmState:
    """An alarm: its setting, its state machine, and its window, which is None while it cannot be read.

    `since` is the time at which it last began or ceased to fire, or was created.
    """

    id: int
    setting: AlarmSetting
    machine: AlarmStateMachine
    since: float
    window: AlarmWindow | None = None
    conditions: tuple[Any, Any] = (None, None)  # beyond the threshold; beyond the clear limit
    reason: str | None = "it was not evaluated yet"
    unit: str | None = None  # of the values of the stream

    @classmethod
    def of(cls, row: sqlite3.Row) -> "AlarmState":
        setting = AlarmSetting.of(row)
        return cls(row["id"], setting, AlarmStateMachine(setting.hold, bool(row["firing"]), row["state"]), row["since"])

    def evaluate(self, now: float) -> AlarmStateMachine:
        """Return the state machine after an evaluation of the window."""
        if self.window is None:
            return self.machine.evaluate(now, POSSIBLE, POSSIBLE)
        return self.machine.evaluate(now, *map(self.window.state, self.conditions))

    def is_transition(self, after: AlarmStateMachine) -> bool:
        return (after.state, after.firing) != (self.machine.state, self.machine.firing)

    def transition(self, after: AlarmStateMachine, now: float) -> Transition:
        """Return the transition to a state; only one that begins or ceases to fire is sent to the webhook."""
        turned = after.firing != self.machine.firing
        since = now if turned else self.since
        body = self._fields() | self.status(after, since) | {"at": format_time(now)}
        return Transition(self.id, self.setting.webhook if turned else None, after.firing, since, body)

    def event(self) -> dict[str, Any]:
        """Return the current state, as a new subscriber receives it."""
        return self._fields() | self.status(self.machine, self.since)

    def _fields(self) -> dict[str, Any]:
        return {"alarm": self.id} | self.setting.to_json()

    def status(self, machine: AlarmStateMachine, since: float) -> dict[str, Any]:
        """Return the fields of a state, with the answer it is based on."""
        fields = {"state": machine.state, "firing": machine.firing, "since": format_time(since)}
        if self.window is None:
            return fields | {"why": self.reason} | NO_ANSWER
        fields["value_type"] = self.window.live.settings.value_type
        fields["unit"] = None if self.setting.measure == KS else self.unit
        details = NO_ANSWER if self.window.reason is not None else self.window.encode_value(self.setting)
        return fields | {"why": self.window.reason} | details
