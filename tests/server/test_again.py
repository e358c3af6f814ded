"""Responses that are told again: never an old one, never another's, and nobody waits for nothing."""

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
from quantide.server import again
from quantide.server.again import Again, as_of
from tests.server.serving import configure, make_store, serving, traffic

Handler = Callable[[Scope, Send], Awaitable[None]]


class Streams:
    """Streams whose versions a test moves on."""

    def __init__(self) -> None:
        self.lives = {name: SimpleNamespace(version=1, trouble=None) for name in ("one", "two")}

    @property
    def versions(self) -> dict[str, int]:
        return {name: live.version for name, live in self.lives.items()}

    def live(self, name: str) -> Any:
        if name not in self.lives:
            raise NotReadyError(name)
        return self.lives[name]


class Bench:
    """An application behind Again that answers with how often it was asked."""

    def __init__(self) -> None:
        self.streams, self.calls, self.status, self.tells_version = Streams(), 0, 200, True
        self.gate: asyncio.Event | None = None
        self.size = 0
        self.again = Again(self.app, self.streams)  # type: ignore[arg-type]

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        call, version = self.calls, self.streams.lives["one"].version
        if self.gate is not None:
            await self.gate.wait()
        if self.tells_version:
            as_of(Request(scope), ("one", version))
        body = f"{call} {scope['query_string'].decode()} {scope['path']} ".encode() + b"x" * self.size
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": body})

    async def ask(self, query: bytes = b"phi=1", path: str = "/q", method: str = "GET") -> str:
        told: list[Message] = []

        async def send(message: Message) -> None:
            told.append(message)

        scope = {"type": "http", "method": method, "path": path, "query_string": query}
        await self.again(scope, _nothing, send)
        assert [message["type"] for message in told] == ["http.response.start", "http.response.body"]
        return str(told[1]["body"].decode()).split("  ")[0].rstrip("x")


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(20):
            await test(Bench())

    asyncio.run(within())


def test_it_is_told_again_until_something_comes() -> None:
    async def test(bench: Bench) -> None:
        assert [await bench.ask(), await bench.ask()] == ["1 phi=1 /q ", "1 phi=1 /q "]
        bench.streams.lives["two"].version = 2
        assert await bench.ask() == "1 phi=1 /q ", "of another stream"
        bench.streams.lives["one"].version = 2
        assert [await bench.ask(), await bench.ask()] == ["2 phi=1 /q ", "2 phi=1 /q "]
        bench.streams.lives["one"].trouble = OSError()
        assert await bench.ask() == "3 phi=1 /q ", "a stream that cannot be followed says so"
        del bench.streams.lives["two"]
        assert bench.again.nbytes > 0

    run(test)


def test_headers_do_not_grow() -> None:
    """Whoever sends a response on, the gate for one, adds its own to them."""

    async def test(bench: Bench) -> None:
        seen: list[int] = []

        async def send(message: Message) -> None:
            if "headers" in message:
                message["headers"].append((b"x", b"y"))
                seen.append(len(message["headers"]))

        for _ in range(4):
            await bench.again({"type": "http", "method": "GET", "path": "/", "query_string": b"a"}, _nothing, send)
        assert (bench.calls, seen) == (1, [2, 2, 2, 2])

    run(test)


def test_other_questions_have_other_answers() -> None:
    async def test(bench: Bench) -> None:
        bench.gate = asyncio.Event()
        asked = [(b"phi=1", "/q"), (b"phi=2", "/q"), (b"phi=1", "/r"), (b"phi=1&", "/q"), (b"phi=%31", "/q")]
        waiting = [asyncio.create_task(bench.ask(query, path)) for query, path in asked * 3]
        await asyncio.sleep(0.01)
        bench.gate.set()
        for (query, path), told in zip(asked * 3, await asyncio.gather(*waiting), strict=True):
            assert told.split(" ", 1)[1] == f"{query.decode()} {path} "
        assert bench.calls == len(asked)

    run(test)


def test_what_many_ask_at_once_is_asked_once() -> None:
    async def test(bench: Bench) -> None:
        bench.gate = asyncio.Event()
        waiting = [asyncio.create_task(bench.ask()) for _ in range(50)]
        await asyncio.sleep(0.01)
        assert bench.calls == 1
        bench.gate.set()
        assert set(await asyncio.gather(*waiting)) == {"1 phi=1 /q "}

    run(test)


def test_nobody_is_told_what_is_older_than_the_question() -> None:
    async def test(bench: Bench) -> None:
        bench.gate = asyncio.Event()
        first = asyncio.create_task(bench.ask())
        await asyncio.sleep(0.01)
        bench.streams.lives["one"].version = 2  # a commit, which whoever asks now may know of
        late = [asyncio.create_task(bench.ask()) for _ in range(50)]
        await asyncio.sleep(0.01)
        bench.gate.set()
        assert await first == "1 phi=1 /q "
        assert set(await asyncio.gather(*late)) == {"2 phi=1 /q "}, "and they do not all compute it"

    run(test)


def test_who_comes_before_a_commit_may_be_told_what_was_true_then() -> None:
    """Else, where commits come faster than answers, everyone would wait for everyone else."""

    async def test(bench: Bench) -> None:
        bench.gate = asyncio.Event()
        waiting = [asyncio.create_task(bench.ask()) for _ in range(10)]
        await asyncio.sleep(0.01)
        bench.streams.lives["one"].version = 2
        bench.gate.set()
        assert set(await asyncio.gather(*waiting)) == {"1 phi=1 /q "}
        assert await bench.ask() == "2 phi=1 /q ", "but nobody after it"

    run(test)


def test_the_first_one_may_go_away() -> None:
    async def test(bench: Bench) -> None:
        bench.gate = asyncio.Event()
        first, *others = [asyncio.create_task(bench.ask()) for _ in range(5)]
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        bench.gate.set()
        assert {told.split(" ", 1)[1] for told in await asyncio.gather(*others)} == {"phi=1 /q "}
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await bench.ask(b"phi=2") == f"{bench.calls} phi=2 /q "

    run(test)


def test_one_of_those_who_wait_may_go_away() -> None:
    async def test(bench: Bench) -> None:
        bench.gate = asyncio.Event()
        waiting = [asyncio.create_task(bench.ask()) for _ in range(5)]
        await asyncio.sleep(0.01)
        waiting[2].cancel()
        await asyncio.sleep(0.01)
        bench.gate.set()
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in told] == [False, False, True, False, False]
        assert bench.calls == 1

    run(test)


def test_the_client_of_the_first_one_may_be_gone_when_it_is_told() -> None:
    async def test(bench: Bench) -> None:
        bench.gate = asyncio.Event()

        async def gone(_message: Message) -> None:
            raise OSError("gone")

        scope = {"type": "http", "method": "GET", "path": "/q", "query_string": b"phi=1"}
        first = asyncio.create_task(bench.again(scope, _nothing, gone))
        await asyncio.sleep(0.01)
        other = asyncio.create_task(bench.ask())
        await asyncio.sleep(0.01)
        bench.gate.set()
        with pytest.raises(OSError, match="gone"):
            await first
        assert (await other).split(" ", 1)[1] == "phi=1 /q "
        assert await bench.ask(b"phi=3") == f"{bench.calls} phi=3 /q "

    run(test)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_what_went_wrong_is_not_kept(status: int) -> None:
    async def test(bench: Bench) -> None:
        for tells in (True, False):
            bench.status, bench.tells_version, bench.gate = status, tells, asyncio.Event()
            waiting = [asyncio.create_task(bench.ask()) for _ in range(5)]
            await asyncio.sleep(0.01)
            bench.gate.set()
            assert len(set(await asyncio.gather(*waiting))) == 5, "each asks for itself"
        assert bench.again.nbytes == 0
        bench.status, bench.tells_version = 200, True
        assert (await bench.ask()).startswith("11 ")

    run(test)


def test_an_application_that_fails_holds_up_nobody() -> None:
    async def test(bench: Bench) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            bench.calls += 1
            await asyncio.sleep(0.01)
            raise RuntimeError("no")

        bench.again = Again(app, bench.streams)  # type: ignore[arg-type]
        told = await asyncio.gather(*(bench.ask() for _ in range(5)), return_exceptions=True)
        assert [str(one) for one in told] == ["no"] * 5
        with pytest.raises(RuntimeError):
            await bench.ask()
        assert bench.calls == 6

    run(test)


def test_streams_of_events_are_not_waited_for() -> None:
    """The same address twice: the second begins while the first goes on."""

    async def test(bench: Bench) -> None:
        end, began = asyncio.Event(), []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"hello", "more_body": True})
            began.append(scope)
            await end.wait()
            await send({"type": "http.response.body", "body": b""})

        bench.again = Again(app, bench.streams)  # type: ignore[arg-type]

        async def listen() -> list[Message]:
            told: list[Message] = []

            async def send(message: Message) -> None:
                told.append(message)

            scope = {"type": "http", "method": "GET", "path": "/api/events", "query_string": b"alarms=all"}
            await bench.again(scope, _nothing, send)
            return told

        listening = [asyncio.create_task(listen()) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert len(began) == 3
        end.set()
        assert [[one.get("body") for one in told] for told in await asyncio.gather(*listening)] == [
            [None, b"hello", b""]
        ] * 3
        assert bench.again.nbytes == 0

    run(test)


def test_changes_and_questions_without_parameters_pass() -> None:
    async def test(bench: Bench) -> None:
        for call, (query, method) in enumerate([(b"", "GET"), (b"", "GET"), (b"a=1", "POST"), (b"a=1", "DELETE")], 1):
            assert (await bench.ask(query, method=method)).split()[0] == str(call)
        assert bench.again.nbytes == 0

    run(test)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "MOST_BYTES", 50_000)
    monkeypatch.setattr(again, "LONGEST", 10_000)

    async def test(bench: Bench) -> None:
        bench.size = 4_000
        for number in range(100):
            await bench.ask(b"phi=%d" % number)
            await bench.ask(b"phi=0")
            assert 0 < bench.again.nbytes <= 50_000
        assert bench.calls == 100, "what is asked again and again stays"
        await bench.ask(b"phi=5")
        assert bench.calls == 101, "what is not goes"
        bench.size, before = 20_000, bench.again.nbytes
        await bench.ask(b"large")
        await bench.ask(b"large")
        assert (bench.calls, bench.again.nbytes) == (103, before), "what is too long is not kept"
        for _ in range(3):
            bench.size = 4_000
            bench.streams.lives["one"].version += 1
            await bench.ask(b"phi=0")
            assert bench.again.nbytes <= 50_000

    run(test)


def test_no_answer_is_older_than_a_commit_that_was_seen(tmp_path: Path) -> None:
    """A real server: whoever saw a version, on any route, is never told an older one."""
    rng = np.random.default_rng(2)
    with make_store(tmp_path) as store:
        traffic(store, rng, 100, 0.0)
        with serving(configure(tmp_path)) as client:
            n = 100
            for turn in range(8):
                traffic(store, rng, 50, 10.0 * turn)
                n += 50
                while (seen := client.get("/api/streams/latency").json())["n"] < n:
                    pass
                for address in (
                    "quantiles?phi=0.5",
                    "rank?value=20",
                    "cdf?points=5",
                    "quantiles?phi=0.5&window=last:70",
                ):
                    for _ in range(2):
                        told = client.get(f"/api/streams/latency/{address}").json()
                        assert told["version"] >= seen["version"]
                        assert told["n"] == (70 if "last" in address else n)
                told = client.get("/api/qq?x=latency&y=latency@last:70&points=3").json()
                assert (told["x"]["n"], told["y"]["n"]) == (n, 70)


def test_clients_that_hang_up_harm_nobody(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    with make_store(tmp_path) as store:
        traffic(store, rng, 1000, 0.0)
        with serving(configure(tmp_path)) as client:
            host, port = str(client.base_url.host), client.base_url.port or 0
            for turn in range(5):
                address = f"/api/streams/latency/quantiles?phi=0.5&mode=exact&window=last:{900 + turn}"
                for _ in range(10):
                    with socket.create_connection((host, port)) as raw:
                        raw.sendall(f"GET {address} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
                assert client.get(address).json()["n"] == 900 + turn
