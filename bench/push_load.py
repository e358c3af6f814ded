"""Rows pushed over HTTP: acknowledged rows a second of many clients with Spark beside, from a push to an answer, and
the cost of a call of the client."""

import http.client
import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.ipc

from bench.collection import Subject
from bench.inputs import Floats
from bench.processes import PATIENCE, Child
from bench.report import Row, show, sized
from bench.timing import scratch, spread
from quantide.client import BufferedPusher

CONFIG = """store = "data"
[streams.s]
source = "push"
keys = ["endpoint"]
[server]
port = 0
"""
ENDPOINTS = ["/pay", "/cart", "/home", "/search"]
FORMATS = {"JSON lines": "application/x-ndjson", "Arrow": "application/vnd.apache.arrow.stream"}


@dataclass(frozen=True)
class Settings:
    """`clients` that push `rows` rows in each request for `seconds`; pushes of `lag_rows` rows, one after the other."""

    cores: int = 2
    clients: int = sized(20, quick=4)
    rows: int = 1_000
    seconds: float = sized(30.0, 15.0, 2.0)
    lag_pushes: int = sized(60, 30, 3)
    lag_rows: int = sized(100, quick=10)
    pause: tuple[float, float] = sized((0.3, 0.8), quick=(0.05, 0.1))
    calls: int = sized(1_000_000, quick=10_000)


@contextmanager
def running(folder: Path, cores: int) -> Iterator[tuple[Child, str]]:
    """Run `quantide run`, the server and Spark beside it; yield the process and the address of the server."""
    (folder / "quantide.toml").write_text(CONFIG, encoding="utf-8")
    log = folder / "log.out"
    arguments = ("quantide", "run", str(folder / "quantide.toml"), "--master", f"local[{cores}]")
    with Child(log, *arguments) as child:

        def address() -> str:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            return next((line for line in lines if line.startswith("http://")), "")

        child.wait_for(address)
        url = address()
        push(url, encode(np.ones(1), "JSON lines"), "JSON lines")
        child.wait_for(lambda: count(url) == 1)  # Spark has started
        yield child, url


def encode(values: Floats, form: str) -> bytes:
    """Return rows with a key as the body of a request."""
    names = [ENDPOINTS[i % len(ENDPOINTS)] for i in range(len(values))]
    if form == "JSON lines":
        rows = zip(values.tolist(), names, strict=True)
        return b"\n".join(orjson.dumps({"value": value, "endpoint": name}) for value, name in rows)
    table, sink = pa.table({"value": values, "endpoint": names}), io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def push(url: str, body: bytes, form: str) -> None:
    httpx.post(f"{url}/api/streams/s/rows", content=body, headers={"Content-Type": FORMATS[form]}).raise_for_status()


def count(url: str) -> int:
    """Return the number of values in answers of the server."""
    response = httpx.get(f"{url}/api/streams/s/quantiles", params={"phi": 0.5})
    return int(response.json()["n"]) if response.is_success else 0


def rate(s: Settings) -> list[Row]:
    """Measure clients that push as fast as they can, in each format, and count every row afterwards."""
    return [_rate(form, s) for form in FORMATS]


def _rate(form: str, s: Settings) -> Row:
    show(f"push: {s.clients} clients, {form}, {s.seconds:g} s")
    body = encode(np.random.default_rng(3).lognormal(3, 1, s.rows), form)
    with scratch() as folder, running(folder, s.cores) as (child, url):
        before, begun = count(url), time.monotonic()
        taken, refused = _load(url, body, form, s)
        ended = time.monotonic()
        expected = before + len(taken) * s.rows
        child.wait_for(lambda: count(url) >= expected)
        drained = time.monotonic()
        row = {"form": form, "requests": len(taken), "rows": len(taken) * s.rows, "refused": refused}
        row |= {"rate": len(taken) * s.rows / (ended - begun), "drain": drained - ended}
        row |= {"stored": len(taken) * s.rows / (drained - begun), "holds": count(url) == expected}
        return row | spread(taken)


def _load(url: str, body: bytes, form: str, s: Settings) -> tuple[list[float], int]:
    """Return the seconds of acknowledged requests, and the number of those that were refused for a backlog."""
    taken, refused, stop = list[float](), list[int](), time.monotonic() + s.seconds
    errors = list[Exception]()

    def client() -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            while (begun := time.monotonic()) < stop:
                connection.request("POST", "/api/streams/s/rows", body, {"Content-Type": FORMATS[form]})
                response = connection.getresponse()
                response.read()
                if response.status == 201:
                    taken.append(time.monotonic() - begun)
                elif response.status == 429:
                    refused.append(1)
                    time.sleep(float(response.headers["Retry-After"]))
                else:
                    raise RuntimeError(f"a push was answered with {response.status}")
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=client) for _ in range(s.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return taken, len(refused)


def latency(s: Settings) -> list[Row]:
    """Measure pushes, each after a pause: from the request to the first answer of the server that includes it."""
    show(f"push: {s.lag_pushes} pushes of {s.lag_rows} rows to answers")
    lags, acknowledged, rng = list[float](), list[float](), np.random.default_rng(5)
    with scratch() as folder, running(folder, s.cores) as (child, url), httpx.Client(base_url=url) as client:

        def total() -> int:
            return int(client.get("/api/streams/s/quantiles", params={"phi": 0.5}).json()["n"])

        expected = total()
        for _ in range(s.lag_pushes + 5):
            time.sleep(float(rng.uniform(*s.pause)))
            body, begun = encode(rng.lognormal(3, 1, s.lag_rows), "JSON lines"), time.monotonic()
            response = client.post("/api/streams/s/rows", content=body, headers={"Content-Type": FORMATS["JSON lines"]})
            response.raise_for_status()
            acknowledged.append(time.monotonic() - begun)
            expected += s.lag_rows
            while total() < expected:
                child.check()
                time.sleep(0.002)
            lags.append(time.monotonic() - begun)
    return [{"pushes": s.lag_pushes} | spread(acknowledged[5:], "acknowledged_") | spread(lags[5:])]


class NullSender:
    """Client that sends nothing."""

    def push_encoded(self, stream: str, content_type: str, content: bytes, idempotency_key: str) -> None:
        pass

    def reconnect(self) -> None:
        pass


def calls(s: Settings) -> list[Row]:
    """Measure the cost of one call in a program, without and with the thread that encodes batches."""
    show(f"push: {s.calls:,} calls")
    rows = list[Row]()
    for name in ("add", "timed"):
        with BufferedPusher(NullSender(), "s", max_rows=10 * s.calls) as pusher:
            begun = time.perf_counter()
            if name == "add":
                for _ in range(s.calls):
                    pusher.add(12.5, endpoint="/pay")
            else:
                for _ in range(s.calls):
                    with pusher.timed(endpoint="/pay"):
                        pass
            called = time.perf_counter() - begun
            pusher.flush()
            done = time.perf_counter() - begun
            each = 1e6 / s.calls
            rows.append({"call": name, "calls": s.calls, "microseconds": called * each, "with_encoding": done * each})
    return rows


PARTS = {"rate": rate, "latency": latency, "calls": calls}
SUBJECT = Subject("rows pushed over HTTP: acknowledged rows a second, and from a push to an answer", Settings, PARTS)
