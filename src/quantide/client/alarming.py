"""Alarms: set once, watched by the server."""

import math
from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np

from quantide.client.connection import Connection, named, path_of
from quantide.client.ids import check_id
from quantide.client.problems import understood
from quantide.client.told import read_alarm
from quantide.client.values import text_of
from quantide.client.words import Words, body_of, span_text
from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_eps, check_phi


class Alarming(Connection):
    """Alarms that the server keeps, also when it starts anew, until they are dropped."""

    def alarm(
        self,
        stream: str,
        phi: float,
        above: Any = None,
        below: Any = None,
        clear: Any = None,
        hold: Any = 0,
        eps: float | None = None,
        name: str | None = None,
        webhook: str | None = None,
        **about: Unpack[Words],
    ) -> int:
        """Let the server watch whether a quantile is above, or below, a threshold; the id of the alarm.

        It fires when that has been proved for `hold` (seconds, a timedelta, or text such as "30 s"), and ceases when
        for as long it has been proved that the quantile is not beyond `clear`, or the threshold without it. `webhook`
        is an address that the server sends both to; its configuration says which may be.
        """
        if (above is None) == (below is None):
            raise InvalidArgumentError("an alarm has one threshold: give either above= or below=")
        said = {"stream": stream, "phi": check_phi(phi), "above": _limit(above), "below": _limit(below)}
        said |= {"clear": _limit(clear), "hold": span_text(hold) if hold else None, "name": name, "webhook": webhook}
        said |= {"eps": None if eps is None else check_eps(eps)}
        body = self.change("POST", path_of("alarms"), named(said) | body_of(about))
        with understood(self.address):
            return check_id(body["id"])

    def alarms(self) -> list[dict[str, Any]]:
        """All alarms, each as alarm_state() has it."""
        body = self.get(path_of("alarms"))
        with understood(self.address):
            return [read_alarm(one) for one in body["alarms"]]

    def alarm_state(self, id: int) -> dict[str, Any]:
        """An alarm: what it was set to; `state` ("no", "possible", "certain"), `firing`, and since when; the value that
        this is about, with its ranks; what became of the last message to its webhook."""
        body = self.get(path_of("alarms", check_id(id)))
        with understood(self.address):
            return read_alarm(body)

    def alarm_history(self, id: int) -> Iterator[dict[str, Any]]:
        """What has changed of an alarm, the newest first; fetched a page at a time."""
        before: int | None = None
        while True:
            body = self.get(path_of("alarms", check_id(id), "history"), **named({"before": before}))
            with understood(self.address):
                page = [read_alarm(one) for one in body["transitions"]]
                last, before = before, body["next"]
                if None not in (last, before) and not before < last:  # type: ignore[operator]
                    raise ValueError("a page that leads back")
            yield from page
            if before is None:
                return

    def drop_alarm(self, id: int) -> None:
        """Drop an alarm, and what was not sent of it yet."""
        self.change("DELETE", path_of("alarms", check_id(id)))


def _limit(value: Any) -> Any:
    """A threshold in a body: a number where JSON has it, else text."""
    plain = (
        value.item()
        if isinstance(value, (np.integer, np.floating)) and not isinstance(value, np.timedelta64)
        else value
    )
    if value is None or (isinstance(plain, (int, float)) and not isinstance(plain, bool) and math.isfinite(plain)):
        return plain
    return text_of(plain)
