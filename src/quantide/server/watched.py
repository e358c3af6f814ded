"""One window that alarms watch: its summary as of one commit, and what that proves of every limit."""

import logging
from typing import Any

from quantide.errors import QuantideError
from quantide.live.asked import Asked
from quantide.live.stream import LiveStream
from quantide.queries.monitor import Monitor
from quantide.server.alarm import POSSIBLE
from quantide.summary.answer import Answer
from quantide.summary.summary import Summary

LOG = logging.getLogger("quantide.server")


class Watched:
    """Conditions over a window, all decided from one and the same summary. `why` tells why nothing can be said.

    It has a monitor of its own, which is given the summary that look() has fetched: so the states of all conditions
    and the answers that go with them are as of one commit, `version`.
    """

    def __init__(self, live: LiveStream, asked: Asked) -> None:
        self.live, self.asked = live, asked
        self.version, self._summary = live.pull(asked)
        self.why: str | None = None
        self._monitor = Monitor(live.finest(asked), pull=self._pull, value_type=live.settings.value_type)
        self._states: dict[int, str] = {}
        self._settled = False  # whether all conditions are decided as of this version
        self.alarms = 0  # that watch it

    def watch(self, phi: float, eps: float | None, above: bool, threshold: Any, clear: Any) -> tuple[int, int]:
        """Whether a quantile is beyond a threshold, and beyond a clear limit; the ids of both conditions."""
        beyond, precision = "above" if above else "below", self._monitor.eps if eps is None else eps
        first, second = (self._monitor.watch(phi, precision, **{beyond: limit}) for limit in (threshold, clear))
        self._settled = False
        return first, second

    def drop(self, conditions: tuple[int, int]) -> None:
        for id in conditions:
            self._monitor.drop(id)
            self._states.pop(id, None)

    def precision(self, conditions: tuple[int, int]) -> float:
        """The precision in force: where the count is further than that from its target, the state is the truth."""
        return self._monitor.query(conditions[0]).eps

    def look(self) -> None:
        """Let this be what there is now."""
        try:
            version, self._summary = self.live.pull(self.asked)
            if version != self.version or not self._settled:
                self.version = version
                self._states.update(self._monitor.changes().conditions)
                self.why, self._settled = None if self._summary.n else self._nothing(), True
        except QuantideError as error:
            self.why, self._settled = str(error), False
        except Exception:
            LOG.exception("a window that alarms watch cannot be read: %s", self.asked)
            self.why, self._settled = "the window cannot be read; the log of the server says why", False

    def state(self, id: int) -> str:
        """What is proved of a condition."""
        return POSSIBLE if self.why is not None else self._states.get(id, POSSIBLE)

    def answer(self, phi: float) -> Answer | None:
        """The quantile as of this version."""
        return self._summary.answer(phi) if self.why is None else None

    def _pull(self) -> tuple[int, Summary]:
        return self.version, self._summary

    def _nothing(self) -> str:
        key = "" if self.asked.key is None else f" of the key {self.asked.key!r}"
        return f"there is no value{key} in this window"
