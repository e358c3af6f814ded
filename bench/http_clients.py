"""Clients of a server, run in their own process: a load at a fixed rate, and subscribers of event streams."""

import asyncio
import re
import threading
import time
from collections import Counter

import uvloop

CHANGE = re.compile(rb'{"id":([0-9]+),"state":"value"[^}]*"version":([0-9]+)}')
Queue = asyncio.Queue[tuple[float, str] | None]
Loaded = tuple[float, list[float], list[str]]  # seconds of all, latencies, failures
Event = tuple[int, int, float, int]  # client, version, time of arrival, changed values of this version
_events: list[tuple[int, float, bytes]] = []  # client, time of arrival, text


def load(port: int, paths: list[str], rate: float, seconds: float, connections: int) -> Loaded:
    """Send requests at a fixed rate, whether the server keeps up or not, over connections that share one queue."""
    took, failed = list[float](), list[str]()

    async def work(queue: Queue) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (request := await queue.get()) is not None:
            due, path = request
            writer.write(_request(port, path))
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(re.findall(rb"content-length: *(\d+)", head.lower())[0]))
            took.append(time.perf_counter() - due)
            if b" 200 " not in head[:20]:
                failed.append(f"{path}: {body[:200]!r}")

    async def run() -> float:
        queue, begun = Queue(), time.perf_counter() + 0.5
        workers = [asyncio.create_task(work(queue)) for _ in range(connections)]
        for number in range(int(rate * seconds)):
            due = begun + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            queue.put_nowait((due, paths[number % len(paths)]))
        for _ in workers:
            queue.put_nowait(None)
        await asyncio.gather(*workers)
        return time.perf_counter() - begun

    return uvloop.run(run()), took, failed


def _request(port: int, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()


def subscribe(port: int, labels: list[str]) -> float:
    """Open an event stream for each label; return the seconds until every client has received an event."""

    async def follow(client: int, label: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        writer.write(_request(port, f"/api/events?label={label}"))
        while event := await reader.readuntil(b"\n\n"):
            if b'"state":"value"' in event:
                _events.append((client, time.time(), event))

    async def run() -> None:
        await asyncio.gather(*(follow(*one) for one in enumerate(labels)))

    begun, thread = time.perf_counter(), threading.Thread(target=lambda: uvloop.run(run()), daemon=True)
    thread.start()
    while len({client for client, *_ in list(_events)}) < len(labels):
        if not thread.is_alive() or time.perf_counter() > begun + 60:
            raise RuntimeError("some clients received no event")
        time.sleep(0.01)
    return time.perf_counter() - begun


def received() -> tuple[list[Event], int]:
    """Return all events of this process's subscribers, and how many changes were older than one before of their query.

    An event with changes of several versions is one event for each: windows are evaluated one after another.
    """
    events, backwards = list[Event](), 0
    newest: dict[tuple[int, bytes], int] = {}
    for client, arrived, text in _events[:]:
        changes = [((client, id), int(version)) for id, version in CHANGE.findall(text)]
        backwards += sum(version < newest.get(query, 0) for query, version in changes)
        newest.update(changes)
        counts = Counter(version for _, version in changes)
        events += [(client, version, arrived, changed) for version, changed in counts.items()]
    return events, backwards
