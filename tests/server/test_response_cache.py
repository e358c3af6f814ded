"""Response cache: never a stale response, never another request's, and no needless wait."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from quantide.errors import NotReadyError
from quantide.server.http import response_cache
from quantide.server.http.response_cache import ResponseCache, set_versions
from tests.server.running_server import configure, make_store, run_server, traffic

Handler = Callable[[Scope, Send], Awaitable[None]]


class Streams:
    """Streams whose versions the test sets."""

    def __init__(self) -> None:
        self.lives = {name: SimpleNamespace(version=1, last_error=None) for name in ("one", "two")}

    @property
    def versions(self) -> dict[str, int]:
        return {name: live.version for name, live in self.lives.items()}

    def live(self, name: str) -> Any:
        if name not in self.lives:
            raise NotReadyError(name)
        return self.lives[name]


class Bench:
    """An application behind the cache that responds with the number of its calls."""

    def __init__(self) -> None:
        self.streams, self.calls, self.status, self.sets_versions = Streams(), 0, 200, True
        self.barrier: asyncio.Event | None = None
        self.size = 0
        self.cache = ResponseCache(self.app, self.streams)  # type: ignore[arg-type]

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        call, version = self.calls, self.streams.lives["one"].version
        if self.barrier is not None:
            await self.barrier.wait()
        if self.sets_versions:
            set_versions(Request(scope), ("one", version))
        body = f"{call} {scope['query_string'].decode()} {scope['path']} ".encode() + b"x" * self.size
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": body})

    async def request(self, query: bytes = b"phi=1", path: str = "/q", method: str = "GET") -> str:
        results: list[Message] = []

        async def send(message: Message) -> None:
            results.append(message)

        scope = {"type": "http", "method": method, "path": path, "query_string": query}
        await self.cache(scope, receive_disconnect, send)
        assert [message["type"] for message in results] == ["http.response.start", "http.response.body"]
        return str(results[1]["body"].decode()).split("  ")[0].rstrip("x")


async def receive_disconnect() -> Message:
    return {"type": "http.disconnect"}


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(20):
            await test(Bench())

    asyncio.run(within())


def test_responses_are_cached_until_the_next_commit() -> None:
    async def test(bench: Bench) -> None:
        assert [await bench.request(), await bench.request()] == ["1 phi=1 /q ", "1 phi=1 /q "]
        bench.streams.lives["two"].version = 2
        assert await bench.request() == "1 phi=1 /q ", "of another stream"
        bench.streams.lives["one"].version = 2
        assert [await bench.request(), await bench.request()] == ["2 phi=1 /q ", "2 phi=1 /q "]
        bench.streams.lives["one"].last_error = OSError()
        assert await bench.request() == "3 phi=1 /q ", "a stream that cannot be followed says so"
        del bench.streams.lives["two"]
        assert bench.cache.nbytes > 0

    run(test)


def test_headers_do_not_grow() -> None:
    """Outer middleware, such as the security middleware, adds headers to the messages."""

    async def test(bench: Bench) -> None:
        header_counts: list[int] = []

        async def send(message: Message) -> None:
            if "headers" in message:
                message["headers"].append((b"x", b"y"))
                header_counts.append(len(message["headers"]))

        for _ in range(4):
            await bench.cache(
                {"type": "http", "method": "GET", "path": "/", "query_string": b"a"}, receive_disconnect, send
            )
        assert (bench.calls, header_counts) == (1, [2, 2, 2, 2])

    run(test)


def test_different_requests_have_different_responses() -> None:
    async def test(bench: Bench) -> None:
        bench.barrier = asyncio.Event()
        results = [(b"phi=1", "/q"), (b"phi=2", "/q"), (b"phi=1", "/r"), (b"phi=1&", "/q"), (b"phi=%31", "/q")]
        waiting = [asyncio.create_task(bench.request(query, path)) for query, path in results * 3]
        await asyncio.sleep(0.01)
        bench.barrier.set()
        for (query, path), text in zip(results * 3, await asyncio.gather(*waiting), strict=True):
            assert text.split(" ", 1)[1] == f"{query.decode()} {path} "
        assert bench.calls == len(results)

    run(test)


def test_identical_concurrent_requests_are_computed_once() -> None:
    async def test(bench: Bench) -> None:
        bench.barrier = asyncio.Event()
        waiting = [asyncio.create_task(bench.request()) for _ in range(50)]
        await asyncio.sleep(0.01)
        assert bench.calls == 1
        bench.barrier.set()
        assert set(await asyncio.gather(*waiting)) == {"1 phi=1 /q "}

    run(test)


def test_no_response_is_older_than_its_request() -> None:
    async def test(bench: Bench) -> None:
        bench.barrier = asyncio.Event()
        first = asyncio.create_task(bench.request())
        await asyncio.sleep(0.01)
        bench.streams.lives["one"].version = 2  # a commit, which the next client may have seen
        late = [asyncio.create_task(bench.request()) for _ in range(50)]
        await asyncio.sleep(0.01)
        bench.barrier.set()
        assert await first == "1 phi=1 /q "
        assert set(await asyncio.gather(*late)) == {"2 phi=1 /q "}, "and they do not all compute it"

    run(test)


def test_a_request_before_a_commit_may_get_the_older_response() -> None:
    """Otherwise, where commits are faster than answers, all requests would wait for each other."""

    async def test(bench: Bench) -> None:
        bench.barrier = asyncio.Event()
        waiting = [asyncio.create_task(bench.request()) for _ in range(10)]
        await asyncio.sleep(0.01)
        bench.streams.lives["one"].version = 2
        bench.barrier.set()
        assert set(await asyncio.gather(*waiting)) == {"1 phi=1 /q "}
        assert await bench.request() == "2 phi=1 /q ", "but nobody after it"

    run(test)


def test_the_first_client_may_disconnect() -> None:
    async def test(bench: Bench) -> None:
        bench.barrier = asyncio.Event()
        first, *others = [asyncio.create_task(bench.request()) for _ in range(5)]
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        bench.barrier.set()
        assert {result.split(" ", 1)[1] for result in await asyncio.gather(*others)} == {"phi=1 /q "}
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await bench.request(b"phi=2") == f"{bench.calls} phi=2 /q "

    run(test)


def test_a_waiting_client_may_disconnect() -> None:
    async def test(bench: Bench) -> None:
        bench.barrier = asyncio.Event()
        waiting = [asyncio.create_task(bench.request()) for _ in range(5)]
        await asyncio.sleep(0.01)
        waiting[2].cancel()
        await asyncio.sleep(0.01)
        bench.barrier.set()
        result = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in result] == [False, False, True, False, False]
        assert bench.calls == 1

    run(test)


def test_the_first_client_may_be_disconnected_when_the_response_is_sent() -> None:
    async def test(bench: Bench) -> None:
        bench.barrier = asyncio.Event()

        async def fail(_message: Message) -> None:
            raise OSError("gone")

        scope = {"type": "http", "method": "GET", "path": "/q", "query_string": b"phi=1"}
        first = asyncio.create_task(bench.cache(scope, receive_disconnect, fail))
        await asyncio.sleep(0.01)
        other = asyncio.create_task(bench.request())
        await asyncio.sleep(0.01)
        bench.barrier.set()
        with pytest.raises(OSError, match="gone"):
            await first
        assert (await other).split(" ", 1)[1] == "phi=1 /q "
        assert await bench.request(b"phi=3") == f"{bench.calls} phi=3 /q "

    run(test)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_errors_are_not_cached(status: int) -> None:
    async def test(bench: Bench) -> None:
        for sets_versions in (True, False):
            bench.status, bench.sets_versions, bench.barrier = status, sets_versions, asyncio.Event()
            waiting = [asyncio.create_task(bench.request()) for _ in range(5)]
            await asyncio.sleep(0.01)
            bench.barrier.set()
            assert len(set(await asyncio.gather(*waiting))) == 5, "each asks for itself"
        assert bench.cache.nbytes == 0
        bench.status, bench.sets_versions = 200, True
        assert (await bench.request()).startswith("11 ")

    run(test)


def test_an_application_that_fails_delays_no_other_request() -> None:
    async def test(bench: Bench) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            bench.calls += 1
            await asyncio.sleep(0.01)
            raise RuntimeError("no")

        bench.cache = ResponseCache(app, bench.streams)  # type: ignore[arg-type]
        result = await asyncio.gather(*(bench.request() for _ in range(5)), return_exceptions=True)
        assert [str(one) for one in result] == ["no"] * 5
        with pytest.raises(RuntimeError):
            await bench.request()
        assert bench.calls == 6

    run(test)


def test_event_streams_are_not_waited_for() -> None:
    """Open one URL twice: the second stream begins while the first continues."""

    async def test(bench: Bench) -> None:
        end, began = asyncio.Event(), []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"hello", "more_body": True})
            began.append(scope)
            await end.wait()
            await send({"type": "http.response.body", "body": b""})

        bench.cache = ResponseCache(app, bench.streams)  # type: ignore[arg-type]

        async def listen() -> list[Message]:
            results: list[Message] = []

            async def send(message: Message) -> None:
                results.append(message)

            scope = {"type": "http", "method": "GET", "path": "/api/events", "query_string": b"alarms=all"}
            await bench.cache(scope, receive_disconnect, send)
            return results

        listening = [asyncio.create_task(listen()) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert len(began) == 3
        end.set()
        assert [[one.get("body") for one in results] for results in await asyncio.gather(*listening)] == [
            [None, b"hello", b""]
        ] * 3
        assert bench.cache.nbytes == 0

    run(test)


def test_other_methods_and_requests_without_parameters_pass() -> None:
    async def test(bench: Bench) -> None:
        for call, (query, method) in enumerate([(b"", "GET"), (b"", "GET"), (b"a=1", "POST"), (b"a=1", "DELETE")], 1):
            assert (await bench.request(query, method=method)).split()[0] == str(call)
        assert bench.cache.nbytes == 0

    run(test)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "MAX_BYTES", 50_000)
    monkeypatch.setattr(response_cache, "MAX_RESPONSE", 10_000)

    async def test(bench: Bench) -> None:
        bench.size = 4_000
        for number in range(100):
            await bench.request(b"phi=%d" % number)
            await bench.request(b"phi=0")
            assert 0 < bench.cache.nbytes <= 50_000
        assert bench.calls == 100, "a response that is requested again and again stays"
        await bench.request(b"phi=5")
        assert bench.calls == 101, "others are evicted"
        bench.size, before = 20_000, bench.cache.nbytes
        await bench.request(b"large")
        await bench.request(b"large")
        assert (bench.calls, bench.cache.nbytes) == (103, before), "what is too long is not kept"
        for _ in range(3):
            bench.size = 4_000
            bench.streams.lives["one"].version += 1
            await bench.request(b"phi=0")
            assert bench.cache.nbytes <= 50_000

    run(test)


def test_no_answer_is_older_than_a_commit_that_was_seen(tmp_path: Path) -> None:
    """A real server: after a version was seen, on any route, no response is older."""
    rng = np.random.default_rng(2)
    with make_store(tmp_path) as store:
        traffic(store, rng, 100, 0.0)
        with run_server(configure(tmp_path)) as client:
            n = 100
            for turn in range(8):
                traffic(store, rng, 50, 10.0 * turn)
                n += 50
                while (status := client.get("/api/streams/latency").json())["n"] < n:
                    pass
                for address in (
                    "quantiles?phi=0.5",
                    "rank?value=20",
                    "cdf?points=5",
                    "quantiles?phi=0.5&window=last:70",
                ):
                    for _ in range(2):
                        body = client.get(f"/api/streams/latency/{address}").json()
                        assert body["version"] >= status["version"]
                        assert body["n"] == (70 if "last" in address else n)
                body = client.get("/api/qq?x=latency&y=latency@last:70&points=3").json()
                assert (body["x"]["n"], body["y"]["n"]) == (n, 70)


def test_clients_that_disconnect_do_no_harm(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    with make_store(tmp_path) as store:
        traffic(store, rng, 1000, 0.0)
        with run_server(configure(tmp_path)) as client:
            host, port = str(client.base_url.host), client.base_url.port or 0
            for turn in range(5):
                address = f"/api/streams/latency/quantiles?phi=0.5&mode=exact&window=last:{900 + turn}"
                for _ in range(10):
                    with socket.create_connection((host, port)) as raw:
                        raw.sendall(f"GET {address} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
                assert client.get(address).json()["n"] == 900 + turn
