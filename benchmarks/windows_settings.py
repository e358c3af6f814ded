"""How much is measured about windows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """`size`: values of a window that is fed and asked; `values`, `singles`: what it is fed, in blocks and one by one.

    `space_size`, `space_values`: the window whose tuples are counted, and what it is fed. `peer_sizes`: windows beside
    the peers, each of which gets as many values as take `seconds`, river `slow_seconds`; those that take a whole column
    get one of at least `column` values; river and pandas get windows up to `slow_size`.
    """

    size: int = 1_000_000
    block: int = 65_536
    values: int = 16_777_216
    singles: int = 2_000_000
    rounds: int = 4
    epsilons: tuple[float, ...] = (0.01, 0.001)
    spans: tuple[int, ...] = (1_000, 10_000, 100_000, 300_000, 1_000_000)
    questions: int = 100
    space_size: int = 100_000_000
    space_values: int = 250_000_000
    space_spans: tuple[int, ...] = (1_000_000, 10_000_000, 100_000_000)
    peer_sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    slow_size: int = 1_000_000
    peer_eps: float = 0.01
    peer_rounds: int = 2
    seconds: float = 1.0
    slow_seconds: float = 5.0
    column: int = 1_000_000
    checked: int = 20


HOUR = Settings(
    space_size=10_000_000,
    space_values=25_000_000,
    space_spans=(1_000_000, 10_000_000),
    peer_sizes=(1_000, 100_000, 1_000_000),
    peer_rounds=1,
)
QUICK = Settings(
    size=200_000,
    block=16_384,
    values=400_000,
    singles=2_000,
    rounds=1,
    epsilons=(0.01,),
    spans=(1_000, 200_000),
    questions=3,
    space_size=400_000,
    space_values=900_000,
    space_spans=(100_000, 400_000),
    peer_sizes=(1_000, 150_000),
    peer_rounds=1,
    seconds=0.02,
    slow_seconds=0.02,
    column=50_000,
    checked=3,
)
