"""Quantide inside a plain Python program: a shop that watches how slow its pages are. No server, no Spark.

    python examples/embedded.py

It makes a store in a temporary folder, fills a week of history, plays ten minutes of traffic in which one page falls
ill and recovers, and watches it with a live reader: the last five minutes against everything that ever was.
"""

import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from quantide import History
from quantide.live import LiveStream

PAGES = {"/": 20.0, "/cart": 45.0, "/pay": 80.0, "/search": 60.0}  # a usual latency, in milliseconds
NOON = datetime(2026, 6, 8, 12)
EVERY = timedelta(seconds=10)  # a batch
ILL = range(18, 36)  # batches in which /pay is five times as slow
LIMIT = 1_500.0  # milliseconds that p99 of /pay should stay below
BAR = 30  # letters of the longest bar


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="quantide-example-") as folder:
        store = Path(folder) / "latency"
        with History(store, eps=0.005, keys="page", filters=["failed"], window="1 hour") as history:
            week(history)
            with LiveStream(store, follow=False) as live:  # follow=True: a thread polls, and nobody else has to
                noon(history, live)
                report(live)


def week(history: History) -> None:
    """Seven days that have ended; each is a step."""
    rng = np.random.default_rng(1)
    for day in range(7):
        begin = NOON - timedelta(days=7 - day)
        for part in range(3):
            feed(history, rng, 20_000, begin + timedelta(hours=part), timedelta(hours=1))
        history.end_step()
    stats = history.stats()
    print(f"A week of history: {stats['values']:,} requests in {stats['runs']} sorted runs.\n")


def noon(history: History, live: LiveStream) -> None:
    """Ten minutes, batch by batch, while standing queries and a condition watch /pay."""
    rng, told = np.random.default_rng(2), []
    watched = live.monitor(key="/pay", within="5 min", eps=0.01)
    watched.register(0.99, eps=0.05, on_change=lambda _, value: told.append(value))
    watched.watch(0.99, eps=0.02, above=LIMIT, on_change=lambda _, state: print(f"          -> {alarm(state)}"))
    print("time      p99 of /pay, the last five minutes")
    for batch in range(60):
        begin = NOON + batch * EVERY
        feed(history, rng, 400, begin, EVERY, slow=5.0 if batch in ILL else 1.0)
        live.poll()  # finds the commit, and calls the functions above
        if batch % 6 == 5:
            p99 = float(live.quantile(0.99, key="/pay", within="5 min"))
            print(f"{begin + EVERY:%H:%M:%S}  {p99:7,.0f} ms  {'#' * round(BAR * min(1, p99 / 3_000))}")
    print(f"\nOf 60 batches, {len(told)} changed the standing p99 (to within 5% of ranks) and were told.\n")


def report(live: LiveStream) -> None:
    """Now against all of history, page by page; then those that failed."""
    print("page      p50 now, ever         p99 now, ever         p99 now was, in all of history")
    pages = live.keys()
    for page in pages:
        median, tail = live.compare([0.5, 0.99], key=page, within="5 min", against={"key": page})
        low, high = tail.place
        both = "  ".join(f"{one.value.value:7,.1f} {one.against.value:7,.1f} ms" for one in (median, tail))
        print(f"{page:8}{both}    p{100 * low:.2f} to p{100 * high:.2f}, proved")
    failed = live.answer(0.99, filter="failed", within="5 min")
    print(
        f"\n{failed.n} requests failed in the last five minutes; their p99 is {failed.value:,.0f} ms, a value of rank"
    )
    print(f"{failed.rank_lo} to {failed.rank_hi} among them. Until {failed.until}, as of commit {failed.version}.")
    stats = live.stats()
    print(f"The reader answered about {stats['values']:,} requests and holds {stats['memory'] / 1e6:.1f} MB.")


def feed(
    history: History, rng: np.random.Generator, count: int, begin: datetime, span: timedelta, slow: float = 1.0
) -> None:
    """So many requests of all pages within a span of time, in one commit."""
    page = rng.choice(list(PAGES), count)
    usual = np.array([PAGES[name] * (slow if name == "/pay" else 1.0) for name in page])
    after = (rng.random(count) * span.total_seconds() * 1e9).astype("m8[ns]")  # in any order
    times = np.datetime64(begin, "ns") + after
    took = usual * rng.lognormal(0, 0.8, count)
    history.append(took, key=page, times=times, filters={"failed": rng.random(count) < 0.02})


def alarm(state: str) -> str:
    said = {"certain": "ALARM: it is above", "possible": "it may be above", "no": "it is below"}
    return f"{said[state]} {LIMIT:,.0f} ms, proved" if state != "possible" else f"{said[state]} {LIMIT:,.0f} ms"


if __name__ == "__main__":
    main()
