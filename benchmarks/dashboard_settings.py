"""How much is measured about the page."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """A stream of `keys` keys and `history_rows` rows. The page is opened `openings` times, each time by a browser that
    has not seen it; then commits come at `rate` a second for `seconds`; then at `calm_rate` for `calm_seconds`, and
    memory is looked at every `look_every` seconds. Each commit has `commit_rows` rows.
    """

    keys: int = 8
    history_rows: int = 2_000_000
    openings: int = 9
    rate: float = 60.0
    seconds: float = 20.0
    calm_rate: float = 5.0
    calm_seconds: float = 600.0
    look_every: float = 20.0
    commit_rows: int = 200


HOUR = Settings(openings=5, calm_seconds=60.0, look_every=5.0)
QUICK = Settings(history_rows=20_000, openings=1, seconds=2.0, calm_rate=10.0, calm_seconds=3.0, look_every=1.0)
