"""Quantide embedded in a Python program that monitors the latency of a shop's pages, without a server or Spark.

    python examples/embedded.py

The program creates a store in a temporary folder and writes a week of history. It then simulates ten minutes of
traffic, during which one page becomes slow and recovers. A live reader compares the last five minutes with all of
history.
"""

import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from quantide import History
from quantide.live import LiveStream

PAGES = {"/": 20.0, "/cart": 45.0, "/pay": 80.0, "/search": 60.0}  # typical latency in milliseconds
NOON = datetime(2026, 6, 8, 12)
EVERY = timedelta(seconds=10)  # duration of a batch
ILL = range(18, 36)  # batches in which /pay is five times as slow
LIMIT = 1_500.0  # threshold for p99 of /pay, in milliseconds
BAR = 30  # characters in the longest bar


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="quantide-example-") as folder:
        store = Path(folder) / "latency"
        with History(store, eps=0.005, keys="page", filters=["failed"], window="1 hour") as history:
            week(history)
            with LiveStream(store, follow=False) as live:  # with follow=True, a thread polls
                noon(history, live)
                report(live)


def week(history: History) -> None:
    """Write seven days of history; each day is one step."""
    rng = np.random.default_rng(1)
    for day in range(7):
        begin = NOON - timedelta(days=7 - day)
        for part in range(3):
            feed(history, rng, 20_000, begin + timedelta(hours=part), timedelta(hours=1))
        history.end_step()
    stats = history.stats()
    print(f"A week of history: {stats['values']:,} requests in {stats['runs']} sorted runs.\n")


def noon(history: History, live: LiveStream) -> None:
    """Simulate ten minutes of traffic while a continuous query and a condition watch /pay."""
    rng, changes = np.random.default_rng(2), []
    watched = live.monitor(key="/pay", within="5 min", eps=0.01)
    watched.register(0.99, eps=0.05, on_change=lambda _, value: changes.append(value))
    watched.watch(0.99, eps=0.02, above=LIMIT, on_change=lambda _, state: print(f"          -> {alarm(state)}"))
    print("time      p99 of /pay, the last five minutes")
    for batch in range(60):
        begin = NOON + batch * EVERY
        feed(history, rng, 400, begin, EVERY, slow=5.0 if batch in ILL else 1.0)
        live.poll()  # reads the commit and calls the functions above
        if batch % 6 == 5:
            p99 = float(live.quantile(0.99, key="/pay", within="5 min"))
            print(f"{begin + EVERY:%H:%M:%S}  {p99:7,.0f} ms  {'#' * round(BAR * min(1, p99 / 3_000))}")
    print(f"\n{len(changes)} of 60 batches changed the continuous p99 query (precision: 5% of ranks).\n")


def report(live: LiveStream) -> None:
    """Compare the last five minutes with all of history, page by page; then report failed requests."""
    print("page      p50 now, ever         p99 now, ever         rank of p99 now in all of history")
    pages = live.keys()
    for page in pages:
        median, tail = live.compare([0.5, 0.99], key=page, within="5 min", against={"key": page})
        low, high = tail.place
        both = "  ".join(f"{one.value.value:7,.1f} {one.against.value:7,.1f} ms" for one in (median, tail))
        print(f"{page:8}{both}    p{100 * low:.2f} to p{100 * high:.2f}, proved")
    failed = live.answer(0.99, filter="failed", within="5 min")
    print(f"\n{failed.n} requests failed in the last five minutes. Their p99 is {failed.value:,.0f} ms, which has rank")
    print(
        f"{failed.rank_lo} to {failed.rank_hi} among them. Window up to {failed.until}, as of commit {failed.version}."
    )
    stats = live.stats()
    print(f"The reader serves {stats['values']:,} requests and uses {stats['memory'] / 1e6:.1f} MB.")


def feed(
    history: History, rng: np.random.Generator, count: int, begin: datetime, span: timedelta, slow: float = 1.0
) -> None:
    """Append `count` requests of all pages, spread over `span`, in one commit."""
    page = rng.choice(list(PAGES), count)
    usual = np.array([PAGES[name] * (slow if name == "/pay" else 1.0) for name in page])
    after = (rng.random(count) * span.total_seconds() * 1e9).astype("m8[ns]")  # unsorted
    times = np.datetime64(begin, "ns") + after
    took = usual * rng.lognormal(0, 0.8, count)
    history.append(took, key=page, times=times, filters={"failed": rng.random(count) < 0.02})


def alarm(state: str) -> str:
    text = {"certain": "ALARM: it is above", "possible": "it may be above", "no": "it is below"}
    return f"{text[state]} {LIMIT:,.0f} ms, proved" if state != "possible" else f"{text[state]} {LIMIT:,.0f} ms"


if __name__ == "__main__":
    main()
