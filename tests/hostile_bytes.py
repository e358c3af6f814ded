"""Bytes that a stranger would write: those of every class, altered, with all their checksums true again. A program.

`python -m tests.hostile_bytes SEED COUNT` reads so many. Each is refused by name, or is an object that can be asked,
fed and written with named errors alone. It ends with an error otherwise, or when memory rises by more than MOST.
Run with NUMBA_BOUNDSCHECK=1 it also finds numbers that lead kernels out of their arrays.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide import ConstrainedWindow, Monitor, RecentWindow, SlidingWindow, Summary, errors, last, where, within
from tests import oracle
from tests.test_bytes_fuzz import makers
from tests.windows.hostile_filters import peak

Rng = np.random.Generator

MOST = 100 << 20  # bytes that memory may rise by, whatever is read; the longest blob has some 20,000 bytes
FRAME = re.compile(rb"QT[SKGWRXM][\x01-\x03]")  # an inner one comes after its length, in 8 bytes
NUMBERS = (0, 1, 2, 7, 63, 64, 65, 255, 65_535, 65_536, 2**31 - 1, 2**32 - 1, 2**53, 2**53 + 1, 2**62, 2**63, 2**64 - 1)
FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e300, -1e300, 5e-324, 0.5, 1.0)


def monitors(rng: Rng) -> dict[str, Any]:
    """Return monitors of streams and windows, with clusters and conditions, after queries and changes."""
    made: dict[str, Any] = {"empty monitor": Monitor(0.1)}
    made["empty monitor"].register(0.5, 0.2)
    made["empty monitor"].watch(0.5, 0.2, above=3)
    for updates, clustering in (("triggers", "online"), ("together", "fewest")):
        monitor = Monitor(0.02, updates=updates, clustering=clustering)
        ids = monitor.register_many(1 - rng.random(12), rng.uniform(0.02, 0.2, 12))
        monitor.watch(0.5, 0.1, above=0.3)
        monitor.update(rng.random(600))
        monitor.changes()
        monitor.drop_many(ids[::3])
        monitor.update_summary(Summary.of(rng.random(30)))
        monitor.update(0.5)
        made[f"monitor, {updates}"] = monitor
    sliding, recent = SlidingWindow(50, 0.1), RecentWindow(0.1, max_age=60)
    made["monitor of a window"] = Monitor(0.2, window=sliding)
    made["monitor of a span"] = Monitor(0.2, window=recent, within=30)
    sliding.update(rng.random(90))
    recent.update(rng.random(20), times=np.arange(20.0))
    for monitor in (made["monitor of a window"], made["monitor of a span"]):
        monitor.register_many([0.1, 0.5, 0.9], 0.3)
        monitor.watch(0.5, 0.4, below=3)
        monitor.changes()
    return made


def constrained(rng: Rng) -> dict[str, Any]:
    """With filters of many types, with times and without."""
    source, number, text = pc.field("src"), pc.field("n"), pc.field("text")
    expressions = {
        "filters": (within("5 min") & where(source == "A")) | (last(30) & where(number > 2.5)),
        "no filter": last(9),
        "list": where(text.isin(["a", "b"])),
        "dictionary": where(text.isin(pa.array(["a", "b"]).dictionary_encode())),
        "types": where(number.cast(pa.int32()) < 3) | where(pc.field("at") > pa.scalar(5, pa.timestamp("us", "UTC"))),
    }
    made = {f"window, {name}": ConstrainedWindow(one, 0.5) for name, one in expressions.items()}
    for window in made.values():
        attempt(lambda window=window: window.update(rows(rng, 40)))  # type: ignore[misc]
    return made


def rows(rng: Rng, n: int, since: float = 0.0) -> pa.Table:
    columns = {"value": rng.normal(size=n), "time": since + np.arange(float(n)), "n": np.arange(float(n)) % 5}
    texts = {"src": (["A", "B"] * n)[:n], "text": (["a", "z", "b"] * n)[:n]}
    return pa.table(columns | texts | {"at": pa.array(range(n), pa.timestamp("us", "UTC"))})


def altered(blob: bytes, rng: Rng) -> bytes:
    """Some bytes changed, cut out or put in; numbers and floats replaced; all checksums true."""
    body = bytearray(blob)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3, 5]))):
        end = len(body) - 4
        at, size, way = int(rng.integers(max(1, end))), int(rng.integers(1, 9)), int(rng.integers(7))
        if way == 0:
            body[at] ^= 1 << int(rng.integers(8))
        elif way == 1:
            del body[at : min(at + size, end)]
        elif way == 2:
            body[at:at] = rng.bytes(size)
        elif way == 3:
            other = int(rng.integers(max(1, end)))
            body[at : min(at + 8 * size, end)] = body[other : min(other + 8 * size, end)]
        elif at + 8 <= end and way == 4:
            struct.pack_into("<d", body, at, float(rng.choice(FLOATS)))
        elif at + 8 <= end and way == 5:
            struct.pack_into("<Q", body, at, NUMBERS[int(rng.integers(len(NUMBERS)))])
        elif at + 8 <= end:
            old = struct.unpack_from("<Q", body, at)[0]
            struct.pack_into("<Q", body, at, (old + int(rng.integers(-3, 4))) % 2**64)
    return repaired(body)


def repaired(body: bytearray) -> bytes:
    """The same with true checksums, inner frames before those they are in."""
    for found in reversed(list(FRAME.finditer(bytes(body)))):
        at = found.start()
        size = struct.unpack_from("<Q", body, at - 8)[0] if at >= 8 else 0
        if 9 <= size <= len(body) - at:
            struct.pack_into("<I", body, at + size - 4, zlib.crc32(body[at : at + size - 4]))
    struct.pack_into("<I", body, len(body) - 4, zlib.crc32(body[:-4]))
    return bytes(body)


def attempt(action: Callable[[], Any]) -> Any:
    """Return the result of a call; None if it raises a named error."""
    try:
        return action()
    except errors.QuantideError:
        return None


def read_from(cls: Any, blob: bytes) -> Any:
    """An object of these bytes; None where they are refused by the one error that there is for it.

    There is another for a monitor that follows a source, since it needs the function that asks that.
    """
    try:
        return cls.from_bytes(blob)
    except errors.CorruptBytesError:
        return None
    except errors.InvalidArgumentError as error:
        if "give pull=" in str(error):
            return None
        raise


def use(made: Any, rng: Rng) -> None:
    """Query an object, write it, feed it and query it again."""
    again = type(made).from_bytes(made.to_bytes())
    if isinstance(made, Monitor):
        use_monitor(made, rng)
        use_monitor(again, rng)
        return
    summary = made if isinstance(made, Summary) else attempt(made.summary)
    if summary is not None:
        assert oracle.shape_faults(summary) == []
        Summary.merge(summary, summary).compress(3)
    ask(made)
    if isinstance(made, Summary):
        return
    for one in (made, again):
        feed(one, rng)
        ask(one)
        one.to_bytes()
    if hasattr(made, "merge"):
        attempt(lambda: made.merge(again))
        ask(made)


def ask(made: Any) -> None:
    for question in (lambda: made.answer(0.5), lambda: made.quantiles([0.1, 1]), lambda: made.rank(0), lambda: made.n):
        attempt(question)
    if isinstance(made, RecentWindow):
        attempt(lambda: made.answer(0.5, last=7))
        attempt(lambda: made.answer(0.5, within=3))
    repr(made)


def feed(one: Any, rng: Rng) -> None:
    if isinstance(one, ConstrainedWindow):
        attempt(lambda: one.update(rows(rng, 300, 900.0)))
        attempt(lambda: one.update(rows(rng, 9, 50.0), late="clamp"))
        return
    kind = one.type.dtype if one.type is not None and not one.type.is_decimal else np.dtype(np.float64)
    attempt(lambda: one.update(np.arange(3000).astype(kind)))
    attempt(lambda: one.update_summary(Summary.of(np.arange(2).astype(kind))))
    if isinstance(one, RecentWindow):
        attempt(lambda: one.update(np.arange(3000).astype(kind), np.linspace(1e5, 2e5, 3000)))


def use_monitor(made: Monitor, rng: Rng) -> None:
    active = made._evaluator.queries.ids(made._evaluator.queries.active())
    for values in (np.arange(7), rng.random(1500)):
        attempt(lambda: [*made.answers(active)])
        attempt(lambda: [*made.changes()])
        attempt(lambda: made.register(0.37, 0.5))
        attempt(lambda values=values: made.update(values))  # type: ignore[misc]
        attempt(lambda: made.update(np.arange(9.0), times=np.linspace(1e9, 2e9, 9)))
    attempt(lambda: made.drop_many(active[:1]))
    attempt(made.summary)
    attempt(lambda: [*made.answers(active[1:])])
    assert Monitor.from_bytes(made.to_bytes()).to_bytes() == made.to_bytes()


def main(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    made = makers() | monitors(rng) | constrained(rng)
    blobs = {name: one.to_bytes() for name, one in made.items()}
    for one in made.values():
        use(type(one).from_bytes(one.to_bytes()), rng)
    before, taken = peak(), 0
    for i, name in zip(range(count), list(made) * count, strict=False):
        blob = altered(blobs[name], rng)
        try:
            read = read_from(type(made[name]), blob)
            if read is not None:
                taken += 1
                use(read, rng)
        except BaseException:
            print(f"number {i}, {name}: {blob.hex()}", file=sys.stderr)
            raise
        if peak() - before > MOST:
            raise SystemExit(f"{len(blob)} bytes took {(peak() - before) >> 20} MB: {name}: {blob.hex()}")
    print("survived", count, "taken", taken)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
