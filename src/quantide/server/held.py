"""An alarm as a server holds it: what it was set to, how it stands, and where that is seen."""

import sqlite3
from dataclasses import dataclass
from typing import Any

from quantide.server import shown
from quantide.server.alarm import POSSIBLE, Alarm
from quantide.server.alarm_setting import AlarmSetting
from quantide.server.transitions import Changed
from quantide.server.watched import Watched

NOTHING = dict.fromkeys(("value", "rank_lo", "rank_hi", "target", "n", "error", "version"))


@dataclass
class Held:
    """`since` is when it last began or ceased to fire, or was set; `window` is None while it cannot be read."""

    id: int
    setting: AlarmSetting
    alarm: Alarm
    since: float
    window: Watched | None = None
    conditions: tuple[int, int] = (-1, -1)  # beyond the threshold; beyond the clear limit
    why: str | None = "it was not looked at yet"

    @classmethod
    def of(cls, row: sqlite3.Row) -> "Held":
        setting = AlarmSetting.of(row)
        return cls(row["id"], setting, Alarm(setting.hold, bool(row["firing"]), row["state"]), row["since"])

    def looked(self, now: float) -> Alarm:
        """How it stands after a look at its window."""
        if self.window is None:
            return self.alarm.looked(now, POSSIBLE, POSSIBLE)
        return self.alarm.looked(now, *map(self.window.state, self.conditions))

    def differs(self, after: Alarm) -> bool:
        """Whether that is a transition."""
        return (after.state, after.firing) != (self.alarm.state, self.alarm.firing)

    def change(self, after: Alarm, at: float) -> Changed:
        """A transition, as it is written; only one that begins or ceases to fire is sent."""
        turned = after.firing != self.alarm.firing
        since = at if turned else self.since
        body = {"alarm": self.id} | self.setting.shown() | self.standing(after, since) | {"at": shown.moment(at)}
        return self.id, self.setting.webhook if turned else None, after.firing, since, body

    def now(self) -> dict[str, Any]:
        """As one is told who begins to listen."""
        return {"alarm": self.id} | self.setting.shown() | self.standing(self.alarm, self.since)

    def standing(self, alarm: Alarm, since: float) -> dict[str, Any]:
        """How it stands, with the answer that goes with it."""
        said = {"state": alarm.state, "firing": alarm.firing, "since": shown.moment(since)}
        if self.window is None:
            return said | {"why": self.why} | NOTHING
        said["value_type"] = self.window.live.settings.value_type
        answer = self.window.answer(self.setting.phi)
        found = NOTHING if answer is None else shown.answer(answer) | {"version": self.window.version}
        return said | {"why": self.window.why} | found
