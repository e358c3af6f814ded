"""Alarm window: the summary of one window as of one commit, and the conditions evaluated from it."""

import logging
from typing import Any

from quantide.errors import QuantideError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.summary.answer import Answer

LOG = logging.getLogger("quantide.server")
NO, POSSIBLE, CERTAIN = "no", "possible", "certain"  # states of a condition, as rank bounds prove it


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
        side, precision = "above" if above else "below", self._monitor.eps if eps is None else eps
        first, second = (self._monitor.watch(phi, precision, **{side: limit}) for limit in (threshold, clear))
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
