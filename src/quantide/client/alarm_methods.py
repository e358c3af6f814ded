"""Client methods for alarms: set once, evaluated by the server."""

from collections.abc import Iterator
from typing import Any, Unpack

from quantide.client.connection import Connection, api_path, drop_none, parsing_response
from quantide.client.request_parameters import (
    ScopeParameters,
    check_id,
    format_duration,
    format_threshold,
    scope_fields,
)
from quantide.client.response_parsing import parse_alarm
from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_eps, check_phi


class AlarmMethods(Connection):
    """Alarms; the server stores them, also over a restart, until they are dropped."""

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
        **scope: Unpack[ScopeParameters],
    ) -> int:
        """Set an alarm on a quantile above, or below, a threshold and return its id.

        It fires once the condition has been proved for `hold` (seconds, a timedelta, or text such as "30 s"). It clears
        once the quantile has been proved not to be beyond `clear` (default: the threshold) for as long. `webhook` is a
        URL that the server notifies of both; the server's configuration lists the allowed ones.
        """
        if (above is None) == (below is None):
            raise InvalidArgumentError("an alarm has one threshold: give either above= or below=")
        fields = {
            "stream": stream,
            "phi": check_phi(phi),
            "above": format_threshold(above),
            "below": format_threshold(below),
            "clear": format_threshold(clear),
            "hold": format_duration(hold) if hold else None,
            "name": name,
            "webhook": webhook,
            "eps": None if eps is None else check_eps(eps),
        }
        body = self.change("POST", api_path("alarms"), drop_none(fields) | scope_fields(scope))
        with parsing_response(self.address):
            return check_id(body["id"])

    def alarms(self) -> list[dict[str, Any]]:
        """Return all alarms, each as alarm_state() returns it."""
        body = self.get(api_path("alarms"))
        with parsing_response(self.address):
            return [parse_alarm(alarm) for alarm in body["alarms"]]

    def alarm_state(self, id: int) -> dict[str, Any]:
        """Return an alarm: its settings; `state` ("no", "possible", "certain"), `firing`, and since when; the value
        that decides it, with its ranks; the outcome of the last message to its webhook."""
        body = self.get(api_path("alarms", check_id(id)))
        with parsing_response(self.address):
            return parse_alarm(body)

    def alarm_history(self, id: int) -> Iterator[dict[str, Any]]:
        """Yield the transitions of an alarm, newest first; fetched a page at a time."""
        before: int | None = None
        while True:
            body = self.get(api_path("alarms", check_id(id), "history"), **drop_none({"before": before}))
            with parsing_response(self.address):
                page = [parse_alarm(transition) for transition in body["transitions"]]
                previous, before = before, body["next"]
                if None not in (previous, before) and not before < previous:  # type: ignore[operator]
                    raise ValueError("a page that leads back")
            yield from page
            if before is None:
                return

    def drop_alarm(self, id: int) -> None:
        """Drop an alarm and its messages that were not sent yet."""
        self.change("DELETE", api_path("alarms", check_id(id)))
