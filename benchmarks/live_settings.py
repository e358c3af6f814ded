"""How much is measured about live readers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """`steps`, `step_rows`, `open_chunks`, `chunk_rows`: the stores that are asked; their rows are `second_rows` a
    second. `repeats`, `phis`, `commits`: questions repeated, with a phi of their own, and first ones after a commit.

    `keys`, `day_seconds`, `day_rows`, `day_chunk`: a day of many keys, appended by large chunks; `cold` keys are asked.
    `small_marks`: how many real commits of a second each an open step has when it is looked at.
    `follow_seconds`, `follow_every`, `follow_rows`, `follow_keys`: what is followed; `asking_seconds`: while asking.
    `ages`, `age_step`, `vacuum_every`: commits a stream has when it is opened, commits a step, steps between vacuums.
    `year_steps`: steps of a year, each with a row of every key. `patience`: seconds after which a stream that takes
    long to make is taken as it is. `appends`: how often an append is timed.
    """

    eps: float = 0.001
    steps: int = 20
    step_rows: int = 400_000
    open_chunks: int = 50
    chunk_rows: int = 10_000
    second_rows: int = 100
    endpoints: int = 100
    repeats: int = 20_000
    phis: int = 2_000
    commits: int = 100
    keys: int = 100_000
    day_seconds: int = 86_400
    day_rows: int = 250
    day_chunk: int = 3_600
    cold: int = 300
    small_marks: tuple[int, ...] = (100, 1_000, 3_000)
    follow_seconds: float = 60.0
    follow_every: float = 0.1
    follow_rows: tuple[int, ...] = (100, 10_000)
    follow_keys: int = 1_000
    asking_seconds: float = 20.0
    ages: tuple[int, ...] = (10, 100, 1_000, 10_000)
    age_step: int = 100
    vacuum_every: int = 10
    openings: int = 7
    year_steps: int = 365
    patience: float = 180.0
    appends: int = 20


HOUR = Settings(follow_seconds=20.0, asking_seconds=10.0, ages=(10, 100, 1_000), year_steps=60, patience=60.0)
QUICK = Settings(
    steps=3,
    step_rows=4_000,
    open_chunks=3,
    chunk_rows=500,
    second_rows=10,
    endpoints=5,
    repeats=200,
    phis=20,
    commits=3,
    keys=500,
    day_seconds=7_200,
    day_rows=5,
    day_chunk=1_800,
    cold=5,
    small_marks=(5, 12),
    follow_seconds=2.0,
    follow_rows=(20, 200),
    follow_keys=10,
    asking_seconds=1.0,
    ages=(5, 12, 25),
    age_step=10,
    vacuum_every=1,
    openings=2,
    year_steps=13,
    appends=2,
)
