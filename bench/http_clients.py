"""Clients of a server in their own process, JSON in and out: `python -m bench.http_clients`.

A request with `paths` is a load at a fixed rate, whether the server keeps up or not; the latency of a response counts
from the moment at which it was due. A request with `labels` opens an event stream for each; when standard input ends,
the times at which each version reached the clients are written.
"""

import asyncio
import json
import re
import sys
import time
from typing import Any

import uvloop

VERSION = re.compile(rb'"version":([0-9]+)')
SETTLE, AT_ONCE = 0.5, 50  # seconds before the first request; connections made together


async def load(request: dict[str, Any]) -> dict[str, Any]:
    """Send requests over some connections that share one queue."""
    queue: asyncio.Queue[tuple[float, str] | None] = asyncio.Queue()
    took, failed = list[float](), list[str]()

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", request["port"])
        while (next_one := await queue.get()) is not None:
            due, path = next_one
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{request['port']}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
            took.append(time.perf_counter() - due)
            if b" 200 " not in head[:20]:
                failed.append(f"{path}: {body[:200]!r}")
        writer.close()

    workers = [asyncio.create_task(work()) for _ in range(request["connections"])]
    begun, paths = time.perf_counter() + SETTLE, request["paths"]
    for number in range(int(request["rate"] * request["seconds"])):
        due = begun + number / request["rate"]
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        queue.put_nowait((due, paths[number % len(paths)]))
    for _ in workers:
        queue.put_nowait(None)
    await asyncio.gather(*workers)
    seconds = time.perf_counter() - begun
    return {"took": took, "failed": failed[:10], "failures": len(failed), "seconds": seconds}


class Subscribers:
    """Event streams, one for each label."""

    def __init__(self, port: int, labels: list[str]) -> None:
        self._port, self._labels = port, labels
        self.reached, self.changes = dict[int, list[float]](), dict[int, int]()
        self.backwards, self.begun, self.failed = 0, 0, list[str]()
        self._tasks, self.all_begun = set[asyncio.Task[None]](), asyncio.Event()  # unreferenced tasks may vanish

    async def start(self) -> None:
        for start in range(0, len(self._labels), AT_ONCE):
            for label in self._labels[start : start + AT_ONCE]:
                task = asyncio.create_task(self._subscribe(label))
                task.add_done_callback(self._ended)
                self._tasks.add(task)
            await asyncio.sleep(0.02)
        await asyncio.wait_for(self.all_begun.wait(), 60)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failed.append(repr(task.exception()))

    async def _subscribe(self, label: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        writer.write(f"GET /api/events?label={label} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())
        response, newest, first = await reader.readuntil(b"\r\n\r\n"), 0, True
        if b" 200 " not in response[:20]:
            raise RuntimeError(f"refused: {response[:200]!r}")
        while True:
            event = await reader.readuntil(b"\n\n")
            if b"data:" not in event or (found := VERSION.search(event, event.rfind(b'"version":'))) is None:
                continue
            version, now = int(found[1]), time.time()
            self.backwards += version < newest
            newest = max(version, newest)
            self.reached.setdefault(version, []).append(now)
            self.changes[version] = self.changes.get(version, 0) + event.count(b'"state":"value"')
            if first:
                first, self.begun = False, self.begun + 1
                if self.begun == len(self._labels):
                    self.all_begun.set()


async def main() -> None:
    loop = asyncio.get_running_loop()
    request: dict[str, Any] = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    if "paths" in request:
        print(json.dumps(await load(request)), flush=True)
        return
    subscribers = Subscribers(request["port"], request["labels"])
    try:
        await subscribers.start()
    except TimeoutError:
        sys.exit(f"{subscribers.begun} of {len(request['labels'])} received an event; {subscribers.failed[:3]}")
    print(json.dumps({"begun": time.time()}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    subscribers.stop()
    found = {name: getattr(subscribers, name) for name in ("reached", "changes", "backwards")}
    print(json.dumps(found | {"failed": subscribers.failed[:10], "failures": len(subscribers.failed)}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
