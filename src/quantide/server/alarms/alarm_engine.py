"""Alarm engine: evaluates alarms after every commit, and records and publishes their transitions."""

import logging
import time
from collections.abc import Callable, Hashable
from threading import Event, RLock, Thread
from typing import Any, TypeVar

from quantide.errors import ForbiddenError, LimitError, QuantideError, UnknownAlarmError
from quantide.live.live_stream import LiveStream
from quantide.server.alarms.alarm_comparison import ComparisonAlarmWindow
from quantide.server.alarms.alarm_setting import COLUMNS, KS, AlarmSetting
from quantide.server.alarms.alarm_state import AlarmState, AlarmStateMachine
from quantide.server.alarms.alarm_transitions import AlarmTransitions
from quantide.server.alarms.alarm_window import POSSIBLE, AlarmWindow, QuantileAlarmWindow
from quantide.server.alarms.webhook_delivery import WebhookOutbox
from quantide.server.served_streams import ServedStreams
from quantide.server.server_registry import ServerRegistry
from quantide.summary.value_types import type_named

LOG = logging.getLogger("quantide.server")
TICK = 0.1  # seconds between two checks of hold times
RETRY = 1.0  # seconds before a failed evaluation is repeated
BATCH = 16  # windows that are evaluated, and written, together

Clock = Callable[[], float]
T = TypeVar("T")


class AlarmEngine:
    """All alarms. A thread evaluates them after commits, which on_commit() announces, and when a hold time ends.

    Transitions are written before they are published. If writing fails, the alarm's state does not change, and it is
    evaluated again. `clock` gives the times that are shown, `timer` measures hold times.
    """

    def __init__(
        self,
        registry: ServerRegistry,
        streams: ServedStreams,
        outbox: WebhookOutbox,
        max_alarms: int,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
    ) -> None:
        self._registry, self._streams, self._max_alarms = registry, streams, max_alarms
        self._clock, self._timer = clock, timer
        self._lock, self._closing, self._wakeup = RLock(), Event(), Event()
        self._thread: Thread | None = None
        self._subscribers: list[Callable[[], None]] = []
        self._transitions = AlarmTransitions(registry, outbox)
        self._windows: dict[Hashable, AlarmWindow] = {}
        self._alarms = {row["id"]: AlarmState.of(row) for row in registry.rows("SELECT * FROM alarms ORDER BY id")}
        self._holding: set[int] = set()  # alarms whose hold time runs
        self._pending = set(self._alarms)  # alarms to evaluate
        self._committed: set[str] = set()  # streams with a new commit

    # Definition

    def add(self, setting: AlarmSetting) -> AlarmState:
        """Create an alarm, and evaluate it."""
        with self._lock:
            live = self._streams.live(setting.stream)
            if len(self._alarms) >= self._max_alarms:
                raise LimitError(f"there are {len(self._alarms):,} alarms, as many as limits.alarms allows; drop some")
            if setting.measure != KS:
                setting.check_limits(type_named(live.settings.value_type), self._streams.unit(setting.stream))
            alarm = AlarmState(0, setting, AlarmStateMachine(setting.hold), setting.created)
            self._attach(alarm, live)
            try:
                alarm.id = self._insert(setting)
            except QuantideError:
                self._detach(alarm)
                raise
            self._alarms[alarm.id] = alarm
        self._evaluate([alarm])
        return alarm

    def drop(self, id: int, owner: str | None) -> None:
        """Delete an alarm, its history and its deliveries. An `owner` can drop only their own."""
        with self._lock:
            alarm = self.get(id)
            if owner not in (None, alarm.setting.owner):
                raise ForbiddenError(f"the alarm {id} has another owner; its owner or an admin can drop it")
            with self._registry.transaction() as write:
                write.execute("DELETE FROM alarms WHERE id = ?", (id,))
                write.execute("DELETE FROM transitions WHERE alarm = ?", (id,))
                write.execute("DELETE FROM deliveries WHERE alarm = ?", (id,))
            del self._alarms[id]
            self._holding.discard(id)
            self._pending.discard(id)
            self._detach(alarm)

    def get(self, id: int) -> AlarmState:
        alarm = self._alarms.get(id)
        if alarm is None:
            raise UnknownAlarmError(f"there is no alarm {id}; GET /api/alarms lists all of them")
        return alarm

    def list_alarms(self) -> list[AlarmState]:
        with self._lock:
            return list(self._alarms.values())

    def read_consistent(self, read: Callable[[], T]) -> T:
        """Return the result of a function, during which no alarm changes."""
        with self._lock:
            return read()

    # Evaluation

    def on_commit(self, name: str, _live: LiveStream) -> None:
        """Evaluate the alarms of a stream at the next tick, which is now."""
        self._committed.add(name)
        self._wakeup.set()

    def tick(self) -> None:
        """Evaluate alarms of streams with new commits, those whose hold time ended, and those that failed before."""
        now = self._timer()
        with self._lock:
            names = {self._committed.pop() for _ in range(len(self._committed))}
            for name in names:
                self._pending.update(alarm.id for alarm in self._alarms.values() if alarm.setting.stream == name)
            self._pending.update(id for id in self._holding if self._alarms[id].machine.is_due(now))
            pending = [self._alarms[id] for id in self._pending]
        self._evaluate(pending)

    def start(self) -> None:
        self._streams.subscribe(self.on_commit)
        self._thread = Thread(target=self._run, name="quantide-alarms", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop evaluating."""
        self._closing.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join()

    # Publication

    def subscribe(self, on_transition: Callable[[], None]) -> None:
        """Call a short function after transitions were written."""
        self._subscribers.append(on_transition)

    @property
    def last_transition(self) -> int:
        """Number of the last transition; 0 before the first."""
        return self._transitions.last

    def transitions(self, after: int, ids: set[int] | None = None) -> list[dict[str, Any]]:
        """Return the transitions after a number, of these alarms or of all, oldest first."""
        return self._transitions.after(after, ids)

    def states(self, ids: set[int] | None = None) -> list[dict[str, Any]]:
        """Return the states of these alarms, or of all, as a new subscriber receives them."""
        with self._lock:
            return [alarm.event() for alarm in self._alarms.values() if ids is None or alarm.id in ids]

    def history(self, id: int, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the transitions of one alarm before a number, newest first."""
        self.get(id)
        return self._transitions.of_alarm(id, before, limit)

    @property
    def firing(self) -> int:
        """Number of alarms that fire."""
        return sum(alarm.machine.firing for alarm in self.list_alarms())

    # Internals

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wakeup.wait(TICK)
            self._wakeup.clear()
            try:
                self.tick()
            except Exception:
                LOG.exception("alarms could not be evaluated; this is repeated")
                self._closing.wait(RETRY)

    def _evaluate(self, alarms: list[AlarmState]) -> None:
        """Evaluate the windows of these alarms, a batch at a time, and publish transitions."""
        before = self.last_transition
        with self._lock:
            self._pending.update(alarm.id for alarm in alarms if alarm.id in self._alarms)
            groups: dict[AlarmWindow | None, list[AlarmState]] = {}
            for alarm in alarms:
                groups.setdefault(self._window(alarm), []).append(alarm)
        windows = list(groups.items())
        try:
            for start in range(0, len(windows), BATCH):
                self._evaluate_batch(windows[start : start + BATCH])
        finally:
            if self.last_transition > before:
                for on_transition in self._subscribers:
                    on_transition()

    def _evaluate_batch(self, batch: list[tuple[AlarmWindow | None, list[AlarmState]]]) -> None:
        with self._lock:
            if self._closing.is_set():
                return
            for window, _ in batch:
                if window is not None:
                    window.evaluate()
            self._apply([alarm for _, alarms in batch for alarm in alarms if alarm.id in self._alarms])

    def _apply(self, alarms: list[AlarmState]) -> None:
        """Write the transitions of alarms whose windows were evaluated, then change their states."""
        timer, now = self._timer(), self._clock()
        evaluated = [(alarm, alarm.evaluate(timer)) for alarm in alarms]
        transitions = [alarm.transition(after, now) for alarm, after in evaluated if alarm.is_transition(after)]
        if transitions:
            self._transitions.write(transitions, now)
        for alarm, after in evaluated:
            alarm.since = now if after.firing != alarm.machine.firing else alarm.since
            alarm.machine = after
            self._pending.discard(alarm.id)
            (self._holding.discard if after.hold_start is None else self._holding.add)(alarm.id)

    def _insert(self, setting: AlarmSetting) -> int:
        marks = ", ".join("?" * (len(setting.row) + 3))
        insert = f"INSERT INTO alarms ({COLUMNS}, state, firing, since) VALUES ({marks})"
        with self._registry.transaction() as write:
            return write.execute(insert, (*setting.row, POSSIBLE, 0, setting.created)).lastrowid or 0

    def _window(self, alarm: AlarmState) -> AlarmWindow | None:
        """Return the window of an alarm; None, with the reason in the alarm, while it cannot be read."""
        if alarm.window is None and alarm.id in self._alarms:
            try:
                self._attach(alarm, self._streams.live(alarm.setting.stream))
                alarm.reason = None
            except QuantideError as error:
                alarm.reason = str(error)
        return alarm.window

    def _attach(self, alarm: AlarmState, live: LiveStream) -> None:
        key = alarm.setting.window_key
        window = self._windows.get(key) or open_window(live, alarm.setting)
        alarm.conditions = window.add_conditions(alarm.setting)
        alarm.window = self._windows[key] = window
        alarm.unit = self._streams.unit(alarm.setting.stream)
        window.alarms += 1

    def _detach(self, alarm: AlarmState) -> None:
        window, alarm.window = alarm.window, None
        if window is not None:
            window.drop_conditions(alarm.conditions)
            window.alarms -= 1
            if not window.alarms:
                del self._windows[alarm.setting.window_key]


def open_window(live: LiveStream, setting: AlarmSetting) -> AlarmWindow:
    """Return a new window for an alarm; raise if it cannot be read."""
    against = setting.against_scope
    if against is None:
        return QuantileAlarmWindow(live, setting.scope)
    return ComparisonAlarmWindow(live, setting.scope, against)
