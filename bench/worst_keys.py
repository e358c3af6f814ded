"""Worst keys of 100,000: the seconds of a first query, and of one with the same phi. `python -m bench.worst_keys`."""

import argparse
import sys
import time
from typing import Any

import numpy as np

from bench.timing import clock, scratch
from quantide import History
from quantide.live import LiveStream

SCOPES: dict[str, dict[str, Any]] = {
    "within 5 min": {"within": 300},
    "within 10 min": {"within": 600},
    "last 1,000,000": {"last": 1_000_000},
    "everything": {},
}


def write(path: str, keys: int, rows: int, batches: int) -> None:
    """Append latencies of hosts: a minute in each batch, and two ended steps."""
    names = np.array([f"host-{i:06d}" for i in range(keys)])
    with History(path, eps=0.01, keys="host") as history:
        for batch in range(batches):
            rng = np.random.default_rng([21, batch])
            key = rng.integers(0, keys, rows)
            times = 60.0 * batch + np.sort(rng.uniform(0, 60, rows))
            history.append(rng.lognormal(3, 1, rows) * (1 + key / keys), key=names[key], times=times)
            if batch in (batches // 3, 2 * batches // 3):
                history.end_step()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=500_000, help="of a batch")
    parser.add_argument("--batches", type=int, default=10)
    args = parser.parse_args()
    with scratch() as path:
        write(str(path), args.keys, args.rows, args.batches)
        with LiveStream(str(path), follow=False) as live:
            live.worst_keys(0.9, within=60)  # loads compiled code
            live.worst_keys(0.9)
            for name, scope in SCOPES.items():
                began = time.process_time()
                first, ranking = clock(live.worst_keys, 0.99, **scope)
                used = time.process_time() - began
                again, _ = clock(live.worst_keys, 0.99, most=5, smallest=True, **scope)
                proved = sum(row.proved for row in ranking.listed)
                print(
                    f"{name:<16} {ranking.keys:>8,} keys  first {first:.3f} s ({used:.3f} s of processor time)  "
                    f"same phi again {again:.4f} s  proved {proved} of {len(ranking.listed)}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
