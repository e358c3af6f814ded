"""How much is measured about the server."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Questions: `rate` a second for `seconds`, over `connections`, about a stream of `keys` keys and `history_rows`
    rows, while files of `file_rows` rows come every `file_every` seconds, for `warm` seconds before. Events: `queries`
    standing queries, those of a listener with one label, over `query_keys` keys; `listeners`; `commits` of
    `commit_rows` rows, `commit_every` seconds apart.
    """

    eps: float = 0.001
    rate: float = 1_000.0
    seconds: float = 20.0
    connections: int = 64
    keys: int = 200
    history_rows: int = 10_000_000
    file_rows: int = 20_000
    file_every: float = 1.0
    warm: float = 60.0
    queries: int = 100_000
    query_keys: int = 100
    listeners: int = 1_000
    commits: int = 30
    commit_rows: int = 20_000
    commit_every: float = 2.0


HOUR = Settings(warm=30.0, commits=15)
QUICK = Settings(
    eps=0.01,
    rate=50.0,
    seconds=2.0,
    connections=4,
    keys=5,
    history_rows=20_000,
    file_rows=500,
    file_every=0.3,
    warm=1.0,
    queries=200,
    query_keys=4,
    listeners=10,
    commits=3,
    commit_rows=1_000,
    commit_every=0.3,
)
