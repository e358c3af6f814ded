"""Alarm state: the definition of an alarm, the window it is evaluated from, and the rule that decides when it fires.

An evaluation yields two facts, each proved by rank bounds ("certain", "no") or left open ("possible"): the quantile is
beyond the threshold, and it is beyond the limit at which the alarm clears. An alarm

    starts    when every evaluation for `hold` seconds was certain: beyond the threshold
    stops     when every evaluation for `hold` seconds was certain: not beyond the clear limit

"possible" does neither, and restarts the hold time. docs/alarms.md has the rules and the proof.
"""

import json
import logging
import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from quantide.errors import InvalidArgumentError, QuantideError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.server.alarms.alarm_transitions import Transition
from quantide.server.http.query_parameters import query_scope, read_value
from quantide.server.http.response_json import encode_answer, format_time
from quantide.summary.answer import Answer
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.value_types import ValueType

COLUMNS = "name, stream, key, window, filter, phi, eps, above, threshold, clear, hold, webhook, owner, created"
JSON_COLUMNS = ("key", "threshold", "clear")
LOG = logging.getLogger("quantide.server")
NO, POSSIBLE, CERTAIN = "no", "possible", "certain"  # states of a condition, as rank bounds prove it
NO_ANSWER = dict.fromkeys(("value", "rank_lo", "rank_hi", "target", "n", "error", "version"))


@dataclass(frozen=True)
class AlarmSetting:
    """Definition of an alarm. `key`, `threshold` and `clear` are JSON values; `above` is the side of the threshold on
    which it fires."""

    name: str | None
    stream: str
    key: Any
    window: str
    filter: str | None
    phi: float
    eps: float | None
    above: bool
    threshold: Any
    clear: Any
    hold: float
    webhook: str | None
    owner: str
    created: float

    @classmethod
    def of(cls, row: sqlite3.Row) -> "AlarmSetting":
        fields = {name: row[name] for name in COLUMNS.split(", ")}
        for name in JSON_COLUMNS:
            fields[name] = json.loads(fields[name])
        return cls(**fields | {"above": bool(fields["above"])})

    @property
    def row(self) -> tuple[Any, ...]:
        """Values of COLUMNS."""
        texts = {name: json.dumps(getattr(self, name)) for name in JSON_COLUMNS}
        return tuple(texts.get(name, getattr(self, name)) for name in COLUMNS.split(", "))

    @property
    def scope(self) -> QueryScope:
        key = tuple(self.key) if isinstance(self.key, list) else self.key
        return query_scope(key, self.window, self.filter)

    def limits(self, kind: ValueType) -> tuple[Any, Any]:
        """Return the threshold and the clear limit as values of the stream."""
        threshold, clear = read_limit(self.threshold, kind), read_limit(self.clear, kind)
        low, high = (clear, threshold) if self.above else (threshold, clear)
        if _comparable(low, kind) > _comparable(high, kind):
            side = ("above", "most") if self.above else ("below", "least")
            raise InvalidArgumentError(
                f"an alarm {side[0]} {self.threshold} clears at {self.threshold} or on its other side; "
                f"clear is {self.clear}, and may be {self.threshold} at {side[1]}"
            )
        return threshold, clear

    def to_json(self) -> dict[str, Any]:
        """Return the public fields; the owner and the webhook are not shown to every client."""
        return {
            "name": self.name,
            "stream": self.stream,
            "key": self.key,
            "window": self.window,
            "filter": self.filter,
            "phi": self.phi,
            "above" if self.above else "below": self.threshold,
            "clear": self.clear,
            "hold": self.hold,
        }


def read_limit(limit: Any, kind: ValueType) -> Any:
    """Return a limit in JSON, a number or text, as a value to compare with."""
    if kind.is_temporal and not isinstance(limit, str):
        raise InvalidArgumentError(f"a limit of {limit!r} among values of type {kind}; write it as text")
    value = read_value(limit if isinstance(limit, str) else repr(limit), kind)
    read_query_values(value, kind)  # raises if it has no rank
    return value


def _comparable(limit: Any, kind: ValueType) -> Any:
    """Return a number that orders limits."""
    return read_query_values(limit, kind)[0][0] if kind.is_temporal else limit


class AlarmWindow:
    """Conditions over a window, all evaluated from the same summary. `reason` explains why none can be evaluated.

    Its monitor is not shared: it evaluates the summary that evaluate() has fetched. So the states of all conditions and
    the answers shown with them are as of one commit, `version`.
    """

    def __init__(self, live: LiveStream, scope: QueryScope) -> None:
        self.live, self.scope = live, scope
        self.version, self._summary = live.pull(scope)
        self.reason: str | None = None
        self._monitor = live.new_monitor(scope, lambda: (self.version, self._summary))
        self._states: dict[int, str] = {}
        self._current = False  # all conditions are evaluated as of this version
        self.alarms = 0  # number of alarms over it

    def add_conditions(self, phi: float, eps: float | None, above: bool, threshold: Any, clear: Any) -> tuple[int, int]:
        """Watch a quantile against its threshold and its clear limit; return the ids of both conditions."""
        side = "above" if above else "below"
        first, second = (self._monitor.watch(phi, eps, **{side: limit}) for limit in (threshold, clear))
        self._current = False
        return first, second

    def drop_conditions(self, conditions: tuple[int, int]) -> None:
        for id in conditions:
            self._monitor.drop(id)
            self._states.pop(id, None)

    def precision(self, conditions: tuple[int, int]) -> float:
        """Return the precision in force: a count further than that from its target is decided correctly."""
        return self._monitor.query(conditions[0]).eps

    def evaluate(self) -> None:
        """Evaluate all conditions as of the newest commit."""
        try:
            version, self._summary = self.live.pull(self.scope)
            if version != self.version or not self._current:
                self.version = version
                self._states.update(self._monitor.changes().conditions)
                self.reason, self._current = None if self._summary.n else self._empty_reason(), True
        except QuantideError as error:
            self.reason, self._current = str(error), False
        except Exception:
            LOG.exception("the window of an alarm cannot be read: %s", self.scope)
            self.reason, self._current = "the window cannot be read; see the server's log", False

    def state(self, id: int) -> str:
        """Return the state of a condition: "no", "possible" or "certain"."""
        return POSSIBLE if self.reason is not None else self._states.get(id, POSSIBLE)

    def answer(self, phi: float) -> Answer | None:
        """Return the quantile as of this version; None if there is none."""
        return self._summary.answer(phi) if self.reason is None else None

    def _empty_reason(self) -> str:
        key = "" if self.scope.key is None else f" of the key {self.scope.key!r}"
        return f"there is no value{key} in this window"


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
        """Return the state after an evaluation. `now` is in seconds of any clock; a clock that was set back restarts
        the hold time."""
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
    conditions: tuple[int, int] = (-1, -1)  # beyond the threshold; beyond the clear limit
    reason: str | None = "it was not evaluated yet"

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
        answer = self.window.answer(self.setting.phi)
        details = NO_ANSWER if answer is None else encode_answer(answer) | {"version": self.window.version}
        return fields | {"why": self.window.reason} | details
