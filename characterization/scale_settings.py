"""How much is measured: three sizes of each cost, and how many steps and clients are simulated."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Appends of `values` rows of `keys` keys; summaries of `summarized` keys with `each_key` values; stores of `files`
    files; questions about `runs` runs of `run_values` each; `readers` of one log.

    Simulated: `steps` steps for each of `kappas`, drawn at `points`; an open step of `appends` appends of
    `append_rows`; `crowds` of clients, and the windows that these listen to, with `each` queries a client.
    """

    eps: float = 0.01
    values: tuple[int, ...] = (65_536, 524_288, 2_097_152)
    keys: tuple[int, ...] = (100, 10_000, 100_000)
    epsilons: tuple[float, ...] = (0.01, 0.001)
    each_key: tuple[int, ...] = (10, 100, 1_000)
    summarized: int = 5_000
    files: tuple[int, ...] = (50, 200, 600)
    runs: tuple[int, ...] = (4, 12, 36)
    run_values: int = 131_072
    readers: tuple[int, ...] = (1, 4, 16)
    rounds: int = 5
    commit_rounds: int = 10  # as many as there are from one checkpoint to the next
    kappas: tuple[int, ...] = (3, 10, 30)
    steps: tuple[int, ...] = (100, 1_000, 8_760)
    points: int = 60
    appends: int = 360  # one in ten seconds
    append_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    crowds: tuple[tuple[int, int], ...] = ((1_000, 100), (10_000, 300), (100_000, 1_000))
    each: int = 2
    commits: int = 2


HOUR = Settings()
QUICK = Settings(
    values=(1_000, 4_000, 16_000),
    keys=(4, 16, 64),
    each_key=(2, 20, 200),
    summarized=20,
    files=(2, 4, 8),
    runs=(2, 3, 4),
    run_values=1_000,
    readers=(1, 2, 3),
    rounds=1,
    commit_rounds=2,
    kappas=(2, 10),
    steps=(10, 100, 8_760),
    crowds=((10, 2), (20, 3), (40, 5)),
    commits=1,
)
