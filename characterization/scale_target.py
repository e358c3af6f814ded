"""A size that is asked for, and a limit that it may exceed."""

from dataclasses import dataclass

YEAR = 365


@dataclass(frozen=True)
class Target:
    """What is asked for. `every`: seconds from one commit of a table to the next; `step` and `window` in seconds.

    Of each interval between commits a table's writer and its reader may spend `share` on the log; a merge may use
    `cores` for a table; a process has `memory` bytes.
    """

    values: float
    keys: int = 10**6
    clients: int = 10**5
    queries: int = 5
    days: int = YEAR
    every: int = 10
    step: int = 3_600
    window: int = 300
    kappa: int = 10
    eps: float = 0.01
    share: float = 0.1
    cores: int = 8
    memory: float = 16e9


@dataclass(frozen=True)
class Limit:
    """Something of which one can carry only so much: `one` is what one carries, `asked` what is asked for."""

    name: str
    unit: str
    one: float
    asked: float
    remedy: str
    setting: bool = False  # whether it is as it is only because it is set so

    @property
    def times(self) -> float:
        """How many times over; as many of it would be needed."""
        return self.asked / self.one
