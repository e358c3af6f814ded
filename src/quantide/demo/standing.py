"""What the server is asked from the start: standing queries and alarms, so that no part of the page is empty."""

import numpy as np

from quantide.client import Client
from quantide.demo.market import SHARE, SYMBOLS

LABEL = "demo"
QUERIES = 2_000
WINDOWS: tuple[dict[str, object], ...] = ({}, {"last": 20_000}, {"within": "5 min"})
PHIS = (0.5, 0.9, 0.95, 0.99)  # that people ask about, or near it
PRECISION = (0.005, 0.01, 0.02, 0.05)
ALARMS = {
    "ECHO spreads are wide": {
        "stream": "spread",
        "phi": 0.99,
        "key": "ECHO",
        "within": "30 s",
        "above": 30.0,
        "clear": 20.0,
        "hold": "2 s",
    },
    "HALO ticks are late": {  # it never is
        "stream": "latency",
        "phi": 0.9,
        "key": "HALO",
        "within": "1 min",
        "above": 5_000.0,
        "clear": 4_000.0,
        "hold": "5 s",
    },
}


def register(client: Client) -> None:
    """Whatever is not there yet: a folder that is used again has them."""
    if next(iter(client.queries(label=LABEL)), None) is None:
        client.register_many(queries(np.random.default_rng(1)))
    there = {alarm["name"] for alarm in client.alarms()}
    for name, words in ALARMS.items():
        if name not in there:
            client.alarm(name=name, **words)  # type: ignore[arg-type]


def queries(random: np.random.Generator) -> list[dict[str, object]]:
    """What clients watch who each chose for themselves: a symbol, a window, a quantile, how precise it must be."""
    phis = random.choice(PHIS, QUERIES) + random.uniform(-0.004, 0.004, QUERIES).round(4)
    each = zip(
        random.choice(SYMBOLS, QUERIES, p=SHARE).tolist(),
        (WINDOWS[number] for number in random.integers(0, len(WINDOWS), QUERIES)),
        phis.tolist(),
        random.choice(PRECISION, QUERIES).tolist(),
        strict=True,
    )
    return [
        {"stream": "spread", "label": LABEL, "key": symbol, **window, "phi": phi, "eps": eps}
        for symbol, window, phi, eps in each
    ]
