"""What the server is asked from the start: standing queries and alarms, so that no part of the page is empty."""

import numpy as np

from quantide.client import Client
from quantide.demo.market import SYMBOLS

LABEL = "demo"
QUERIES = 1_000
WINDOWS = ("1 min", "5 min")
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
        places = [(symbol, window) for symbol in SYMBOLS for window in WINDOWS]
        phis = np.linspace(0.01, 0.999, QUERIES // len(places) + 1).round(4).tolist()
        queries = [
            {"stream": "spread", "phi": phi, "eps": 0.005, "label": LABEL, "key": symbol, "within": window}
            for phi in phis
            for symbol, window in places
        ]
        client.register_many(queries[:QUERIES])
    there = {alarm["name"] for alarm in client.alarms()}
    for name, words in ALARMS.items():
        if name not in there:
            client.alarm(name=name, **words)  # type: ignore[arg-type]
