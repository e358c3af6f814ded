"""Alarms: looks at what they watch after every commit, and remembers and tells what has changed."""

import logging
import time
from collections.abc import Callable, Hashable
from threading import Event, RLock, Thread
from typing import Any, TypeVar

from quantide.errors import ForbiddenError, LimitError, QuantideError, UnknownAlarmError
from quantide.live.stream import LiveStream
from quantide.server.alarm import POSSIBLE, Alarm
from quantide.server.alarm_setting import COLUMNS, AlarmSetting
from quantide.server.held import Held
from quantide.server.outbox import Outbox
from quantide.server.registry import Registry
from quantide.server.streams import Streams
from quantide.server.transitions import Transitions
from quantide.server.watched import Watched
from quantide.summary.types import type_named

LOG = logging.getLogger("quantide.server")
TICK = 0.1  # seconds between two looks at the clock
AGAIN = 1.0  # seconds before what failed is tried again
TOGETHER = 16  # windows that are looked at, and written, at once

Clock = Callable[[], float]
T = TypeVar("T")


class Alarms:
    """All alarms. A thread looks at them after commits, of which `moved` tells, and when a hold time has run out.

    What has changed is written before anybody hears of it. If that fails an alarm stands as before, and is looked at
    again. `clock` tells the time that is shown, `timer` measures hold times.
    """

    def __init__(
        self,
        registry: Registry,
        streams: Streams,
        outbox: Outbox,
        most: int,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
    ) -> None:
        self._registry, self._streams, self._most = registry, streams, most
        self._clock, self._timer = clock, timer
        self._lock, self._end, self._wake = RLock(), Event(), Event()
        self._thread: Thread | None = None
        self._listeners: list[Callable[[], None]] = []
        self._transitions = Transitions(registry, outbox)
        self._windows: dict[Hashable, Watched] = {}
        self._held = {row["id"]: Held.of(row) for row in registry.rows("SELECT * FROM alarms ORDER BY id")}
        self._running: set[int] = set()  # whose hold time runs
        self._unseen = set(self._held)  # that are to be looked at
        self._moved: set[str] = set()  # streams

    # Setting

    def add(self, setting: AlarmSetting) -> Held:
        """Set an alarm, and look at once."""
        with self._lock:
            live = self._streams.live(setting.stream)
            if len(self._held) >= self._most:
                raise LimitError(f"there are {len(self._held):,} alarms, as many as limits.alarms allows; drop some")
            held = Held(0, setting, Alarm(setting.hold), setting.created)
            self._attach(held, live)
            try:
                held.id = self._insert(setting)
            except QuantideError:
                self._detach(held)
                raise
            self._held[held.id] = held
        self._look([held])
        return held

    def drop(self, id: int, owner: str | None) -> None:
        """Forget an alarm, its history, and what was still to be sent of it. An `owner` drops only their own."""
        with self._lock:
            held = self.get(id)
            if owner not in (None, held.setting.owner):
                raise ForbiddenError(f"the alarm {id} was set by somebody else; they or an admin can drop it")
            with self._registry.change() as write:
                write.execute("DELETE FROM alarms WHERE id = ?", (id,))
                write.execute("DELETE FROM transitions WHERE alarm = ?", (id,))
                write.execute("DELETE FROM deliveries WHERE alarm = ?", (id,))
            del self._held[id]
            self._running.discard(id)
            self._unseen.discard(id)
            self._detach(held)

    def get(self, id: int) -> Held:
        found = self._held.get(id)
        if found is None:
            raise UnknownAlarmError(f"there is no alarm {id}; GET /api/alarms lists those there are")
        return found

    def all(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    def still(self, read: Callable[[], T]) -> T:
        """What a function gives while no alarm changes."""
        with self._lock:
            return read()

    # Following

    def moved(self, name: str, _live: LiveStream) -> None:
        """A stream has moved on: what is watched of it is looked at by the next tick, which is now."""
        self._moved.add(name)
        self._wake.set()

    def tick(self) -> None:
        """Look at streams that moved, at hold times that have run out, and at what could not be looked at before."""
        now = self._timer()
        with self._lock:
            names = {self._moved.pop() for _ in range(len(self._moved))}
            for name in names:
                self._unseen.update(held.id for held in self._held.values() if held.setting.stream == name)
            self._unseen.update(id for id in self._running if self._held[id].alarm.is_due(now))
            some = [self._held[id] for id in self._unseen]
        self._look(some)

    def start(self) -> None:
        self._streams.follow(self.moved)
        self._thread = Thread(target=self._run, name="quantide-alarms", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._end.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    # Telling

    def listen(self, listener: Callable[[], None]) -> None:
        """Let a function be called after transitions were written; it should be short."""
        self._listeners.append(listener)

    @property
    def last(self) -> int:
        """The number of the last transition; 0 before the first."""
        return self._transitions.last

    def transitions(self, after: int, ids: set[int] | None = None) -> list[dict[str, Any]]:
        """What has changed after a transition, of these alarms or of all, the oldest first."""
        return self._transitions.after(after, ids)

    def states(self, ids: set[int] | None = None) -> list[dict[str, Any]]:
        """How these alarms stand, or all: what one is told who begins to listen."""
        with self._lock:
            return [held.now() for held in self._held.values() if ids is None or held.id in ids]

    def history(self, id: int, before: int | None, most: int) -> list[dict[str, Any]]:
        """What has changed of one alarm before a transition, the newest first."""
        self.get(id)
        return self._transitions.of(id, before, most)

    @property
    def firing(self) -> int:
        """How many fire."""
        return sum(held.alarm.firing for held in self.all())

    # Inside

    def _run(self) -> None:
        while not self._end.is_set():
            self._wake.wait(TICK)
            self._wake.clear()
            try:
                self.tick()
            except Exception:
                LOG.exception("alarms could not be looked at; they will be again")
                self._end.wait(AGAIN)

    def _look(self, some: list[Held]) -> None:
        """Look at the windows of these alarms, a part of them at a time, and tell what has changed."""
        before = self.last
        with self._lock:
            self._unseen.update(held.id for held in some if held.id in self._held)
            groups: dict[Watched | None, list[Held]] = {}
            for held in some:
                groups.setdefault(self._window(held), []).append(held)
        parts = list(groups.items())
        try:
            for at in range(0, len(parts), TOGETHER):
                self._look_at(parts[at : at + TOGETHER])
        finally:
            if self.last > before:
                for listener in self._listeners:
                    listener()

    def _look_at(self, part: list[tuple[Watched | None, list[Held]]]) -> None:
        with self._lock:
            if self._end.is_set():
                return
            for window, _ in part:
                if window is not None:
                    window.look()
            self._judge([held for _, some in part for held in some if held.id in self._held])

    def _judge(self, some: list[Held]) -> None:
        """Let these alarms stand as their windows say, and write what has changed."""
        now, at = self._timer(), self._clock()
        looked = [(held, held.looked(now)) for held in some]
        changed = [held.change(after, at) for held, after in looked if held.differs(after)]
        if changed:
            self._transitions.write(changed, at)
        for held, after in looked:
            held.since = at if after.firing != held.alarm.firing else held.since
            held.alarm = after
            self._unseen.discard(held.id)
            (self._running.discard if after.run is None else self._running.add)(held.id)

    def _insert(self, setting: AlarmSetting) -> int:
        marks = ", ".join("?" * (len(setting.row) + 3))
        insert = f"INSERT INTO alarms ({COLUMNS}, state, firing, since) VALUES ({marks})"
        with self._registry.change() as write:
            return write.execute(insert, (*setting.row, POSSIBLE, 0, setting.created)).lastrowid or 0

    def _window(self, held: Held) -> Watched | None:
        """The window of an alarm; None, and `why`, while its stream or its window cannot be read."""
        if held.window is None and held.id in self._held:
            try:
                self._attach(held, self._streams.live(held.setting.stream))
                held.why = None
            except QuantideError as error:
                held.why = str(error)
        return held.window

    def _attach(self, held: Held, live: LiveStream) -> None:
        setting = held.setting
        limits = setting.limits(type_named(live.settings.value_type))
        name = setting.stream, setting.asked.words
        window = self._windows.get(name) or Watched(live, setting.asked)
        held.conditions = window.watch(setting.phi, setting.eps, setting.above, *limits)
        held.window = self._windows[name] = window
        window.alarms += 1

    def _detach(self, held: Held) -> None:
        window, held.window = held.window, None
        if window is not None:
            window.drop(held.conditions)
            window.alarms -= 1
            if not window.alarms:
                del self._windows[held.setting.stream, held.setting.asked.words]
