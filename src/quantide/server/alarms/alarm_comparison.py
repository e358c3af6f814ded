"""Alarm comparison: the KS distance between two windows of a stream, for alarms on it."""

import time
from typing import Any

from quantide.errors import NotReadyError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.server.alarms.alarm_setting import KS, AlarmSetting
from quantide.server.alarms.alarm_window import CERTAIN, NO, NO_ANSWER, POSSIBLE, AlarmWindow, explain_empty
from quantide.summary.comparison import Comparison
from quantide.summary.summary import Summary
from quantide.summary.value_json import encode_interval

ATTEMPTS, PAUSE = 50, 0.02  # to read both windows as of one commit, and seconds between two attempts
STATES: dict[bool | None, str] = {True: CERTAIN, False: NO, None: POSSIBLE}


class ComparisonAlarmWindow(AlarmWindow):
    """A window and its reference, `against`, both as of one commit. Its conditions are limits of the KS distance."""

    def __init__(self, live: LiveStream, scope: QueryScope, against: QueryScope) -> None:
        super().__init__(live)
        self.scope, self.against = scope, against
        self._comparison: Comparison | None = None  # None if one of the windows is empty
        self._refresh()

    def add_conditions(self, setting: AlarmSetting) -> tuple[float, float]:
        return setting.distances()

    def precision(self, conditions: tuple[float, float]) -> None:
        return None

    def state(self, condition: float) -> str:
        if self.reason is not None or self._comparison is None:
            return POSSIBLE
        return STATES[self._comparison.proves_above(KS, condition)]

    def encode_value(self, setting: AlarmSetting) -> dict[str, Any]:
        assert self._comparison is not None  # or there is a reason
        own, other = self._comparison.a, self._comparison.b
        value = {"value": encode_interval(self._comparison.ks), "n": own.n, "against_n": other.n}
        return NO_ANSWER | value | {"version": self.version}

    def _refresh(self) -> None:
        version, own, other = self._pull()
        if version == self.version and self._current:
            return
        empty = next((scope for scope, side in ((self.scope, own), (self.against, other)) if not side.n), None)
        self.version, self._comparison = version, Comparison(own, other) if empty is None else None
        where = " to compare with" if own.n else ""
        self.reason, self._current = None if empty is None else explain_empty(empty) + where, True

    def _pull(self) -> tuple[int, Summary, Summary]:
        """Return a version and both summaries as of it."""
        for _ in range(ATTEMPTS):
            version, own = self.live.pull(self.scope)
            other_version, other = self.live.pull(self.against)
            if version == other_version:
                return version, own, other
            time.sleep(PAUSE)  # there was a commit in between
        raise NotReadyError("commits arrive faster than both windows can be read as of one of them; try it again")

    def __str__(self) -> str:
        return f"{self.scope} against {self.against}"
