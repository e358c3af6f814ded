"""Client of event streams for tests, and a naive model of the values."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import numpy as np
from numpy.typing import NDArray

from quantide import History
from tests.server.running_server import ENDPOINTS


class Event(NamedTuple):
    name: str
    id: str | None
    data: Any


class EventClient:
    """Iterator over events."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        result: dict[str, str] = {}
        for line in self._lines:
            if line and not line.startswith(":"):
                field, _, content = line.partition(": ")
                result[field] = content
            elif "data" in result:
                return Event(result["event"], result.get("id"), json.loads(result["data"]))
            elif not line:
                result = {}
        raise StopIteration

    def changes(self, count: int) -> dict[int, Any]:
        """Return the next changes, until those of `count` queries were received."""
        result: dict[int, Any] = {}
        for event in self:
            if event.name == "queries":
                result |= {one["id"]: one for one in event.data["changes"]}
            if len(result) >= count:
                return result
        raise AssertionError(f"the stream ended after {len(result)} of {count}")

    def lines(self, count: int) -> list[str]:
        """Return the next lines that are not empty."""
        return [line for line, _ in zip((line for line in self._lines if line), range(count), strict=False)]

    def until_id(self) -> str:
        """Read until an event with an id; return the id."""
        return next(event.id for event in self if event.id is not None)


@contextmanager
def open_events(client: httpx.Client, last: str | None = None, **chosen: Any) -> Iterator[EventClient]:
    """Open an event stream."""
    headers = {} if last is None else {"last-event-id": last}
    with client.stream("GET", "/api/events", params=chosen, headers=headers) as response:
        assert response.status_code == 200, response.read()
        yield EventClient(response)


class Truth:
    """All appended values, to check any answer against them."""

    def __init__(self, history: History, seed: int = 3) -> None:
        self._history, self._rng = history, np.random.default_rng(seed)
        self.values: NDArray[np.float64] = np.empty(0)
        self.keys: NDArray[np.str_] = np.empty(0, dtype="U10")

    def append(self, rows: int, slow: float = 1.0, keys: list[str] = ENDPOINTS, start: float = 0.0) -> None:
        """Append distinct values of some keys, within ten seconds."""
        values, of = self._rng.lognormal(3, 1, rows) * slow, self._rng.choice(keys, rows)
        times = start + np.sort(self._rng.uniform(0, 10, rows))
        self._history.append(values, key=of, times=times, filters={"errors": values > 100})
        self.values, self.keys = np.concatenate((self.values, values)), np.concatenate((self.keys, of))

    def check(self, change: dict[str, Any], phi: float, eps: float, key: str | None = None) -> None:
        """Check a value against the n values it covers, the first ones of its key."""
        mine = self.values if key is None else self.values[self.keys == key]
        check_value(change, mine[: change["n"]], phi, eps)


def check_value(change: dict[str, Any], values: NDArray[np.float64], phi: float, eps: float) -> None:
    """Check that the rank of a published value among the values it covers is within its bounds and near its target."""
    n = len(values)
    assert n == change["n"] > 0
    assert change["value"] in values
    rank, target = int((values <= change["value"]).sum()), max(1, math.ceil(phi * n - 1e-9))
    assert change["rank_lo"] <= rank <= change["rank_hi"]
    assert max(target - change["rank_lo"], change["rank_hi"] - target) == round(change["error"] * n)
    assert abs(rank - target) <= change["error"] * n + 1e-6 <= eps * n + 1 + 1e-6
