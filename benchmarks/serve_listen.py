"""`python -m benchmarks.serve_listen`: many clients of the event stream, in a process of their own.

Reads a line of JSON: port, labels (one connection each). Writes a line when all are connected and have been told how
things are. When standard input ends, writes JSON: for each version, when each client was told of it and how many
changes there were; and the changes that were out of order, which must be none.
"""

import asyncio
import json
import re
import sys
import time
from typing import Any

import uvloop

VERSION = re.compile(rb'"version":([0-9]+)')
EACH = b'"state":"value"'
AT_ONCE = 50  # connections that are made together


class Listeners:
    def __init__(self, port: int, labels: list[str]) -> None:
        self._port, self._labels = port, labels
        self.told: dict[int, list[float]] = {}
        self.changes: dict[int, int] = {}
        self.backwards = 0
        self.begun = 0
        self.failed: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()  # a task that nobody holds may vanish
        self.all_begun = asyncio.Event()

    async def run(self) -> None:
        for start in range(0, len(self._labels), AT_ONCE):
            for label in self._labels[start : start + AT_ONCE]:
                task = asyncio.create_task(self._listen(label))
                task.add_done_callback(self._ended)
                self._tasks.add(task)
            await asyncio.sleep(0.02)

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failed.append(repr(task.exception()))

    async def _listen(self, label: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        head = f"GET /api/events?label={label} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer[:20]:
            raise RuntimeError(f"refused: {answer[:200]!r}")
        newest, first = 0, True
        while True:
            event = await reader.readuntil(b"\n\n")
            if b"data:" not in event:
                continue
            now, found = time.time(), VERSION.search(event, event.rfind(b'"version":'))
            if found is None:
                continue
            version = int(found[1])
            self.backwards += version < newest
            newest = max(version, newest)
            self.told.setdefault(version, []).append(now)
            self.changes[version] = self.changes.get(version, 0) + event.count(EACH)
            if first:
                first, self.begun = False, self.begun + 1
                if self.begun == len(self._labels):
                    self.all_begun.set()


async def main() -> None:
    loop = asyncio.get_running_loop()
    asked: dict[str, Any] = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    listeners = Listeners(asked["port"], asked["labels"])
    await listeners.run()
    try:
        await asyncio.wait_for(listeners.all_begun.wait(), 60)
    except TimeoutError:
        sys.exit(f"{listeners.begun} of {len(asked['labels'])} were told something; {listeners.failed[:3]}")
    print(json.dumps({"begun": time.time()}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    listeners.end()
    found = {"told": listeners.told, "changes": listeners.changes, "backwards": listeners.backwards}
    print(json.dumps(found | {"failed": listeners.failed[:10], "failures": len(listeners.failed)}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
