"""`python -m benchmarks.serve_load`: asks a server at a fixed rate, whether it keeps up or not.

Reads JSON from standard input: port, rate, seconds, connections, paths (asked one after the other, again and again).
Writes JSON: how long each answer took from the moment at which it was due, so that a stall counts for all that waited.
"""

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

SETTLE = 0.5  # seconds before the first question


class Load:
    """Connections that share one list of questions."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._port, self._paths = int(asked["port"]), asked["paths"]
        self._rate, self._count = float(asked["rate"]), int(asked["rate"] * asked["seconds"])
        self._connections = int(asked["connections"])
        self._due: asyncio.Queue[tuple[float, str] | None] = asyncio.Queue()
        self.took: list[float] = []
        self.failed: list[str] = []

    async def run(self) -> dict[str, Any]:
        workers = [asyncio.create_task(self._ask()) for _ in range(self._connections)]
        begun = time.perf_counter() + SETTLE
        for number in range(self._count):
            due = begun + number / self._rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._due.put_nowait((due, self._paths[number % len(self._paths)]))
        for _ in workers:
            self._due.put_nowait(None)
        await asyncio.gather(*workers)
        seconds = time.perf_counter() - begun
        return {"took": self.took, "failed": self.failed[:10], "failures": len(self.failed), "seconds": seconds}

    async def _ask(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while (question := await self._due.get()) is not None:
            due, path = question
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            self.took.append(time.perf_counter() - due)
            if b" 200 " not in head[:20]:
                self.failed.append(f"{path}: {body[:200]!r}")
        writer.close()


if __name__ == "__main__":
    json.dump(uvloop.run(Load(json.load(sys.stdin)).run()), sys.stdout)
