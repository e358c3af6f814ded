"""When an alarm starts and stops: a pure function of what was looked at, and when.

A look says two things, each proved by rank bounds ("certain", "no") or left open ("possible"): whether the quantile is
beyond the threshold, and whether it is beyond the limit at which the alarm clears.

    starts    when every look for `hold` seconds has said: certainly beyond the threshold
    stops     when every look for `hold` seconds has said: certainly not beyond the clear limit

"possible" does neither, and breaks a run of such looks. docs/alarms.md has the rules and the proof.
"""

from dataclasses import dataclass, replace

NO, POSSIBLE, CERTAIN = "no", "possible", "certain"


@dataclass(frozen=True)
class Alarm:
    """Whether it fires; `state`, what the last look said of the threshold; `run`, since when looks ask for a change.

    >>> calm = Alarm(hold=30)
    >>> high = calm.looked(0, beyond="certain", uncleared="certain")
    >>> high.firing, high.is_due(29), high.is_due(30)
    (False, False, True)
    >>> high.looked(20, "possible", "certain").run, high.looked(30, "certain", "certain").firing
    (None, True)
    """

    hold: float
    firing: bool = False
    state: str = POSSIBLE
    run: float | None = None

    def looked(self, now: float, beyond: str, uncleared: str) -> "Alarm":
        """This alarm after a look. `now` is seconds of any clock; one that was set back begins the run anew."""
        asks = uncleared == NO if self.firing else beyond == CERTAIN
        if not asks:
            return replace(self, state=beyond, run=None)
        run = now if self.run is None else min(self.run, now)
        if now - run < self.hold:
            return replace(self, state=beyond, run=run)
        return replace(self, state=beyond, firing=not self.firing, run=None)

    def is_due(self, now: float) -> bool:
        """Whether a look that says the same as the last would change it."""
        return self.run is not None and now - self.run >= self.hold
