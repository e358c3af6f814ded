"""Reads of the client, over a real socket, compared with a reader in the same process."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import Answer, Summary
from quantide.client import Client, RemoteAnswer
from quantide.errors import (
    EmptyError,
    InvalidArgumentError,
    QuantideError,
    SpanError,
    UnknownKeyError,
    UnknownStreamError,
)
from quantide.live import LiveStream
from tests.server.running_server import configure, make_store, run_server, traffic

PLAIN = """
[streams.{0}]
source = {{ format = "parquet", path = "in" }}
value = "v"
"""
NOON, BERLIN = datetime(2026, 1, 31, 12, tzinfo=UTC), timezone(timedelta(hours=1))
TYPED: dict[str, tuple[str, Any, Any]] = {
    "float64": ("float64", [1.5, np.inf, -np.inf, 0.1, 3.0], [np.inf, -np.inf, 0.1, 7]),
    "float32": ("float32", np.array([0.1, 2.5, np.inf], dtype=np.float32), [np.float32(0.1), 0.1, Decimal("2.5")]),
    "int64": ("int64", [2**62 + 1, -(2**62) - 3, 5, 6], [2**62 + 1, 5.5, np.int64(5), np.inf]),
    "uint8": ("uint8", np.array([0, 255, 7], dtype=np.uint8), [7, -1, 300]),
    "decimal": ("decimal[2]", [Decimal("1.50"), Decimal("-0.01"), Decimal("99.99")], [Decimal("1.505"), 2]),
    "time_us": (
        "timestamp[us]",
        np.array(["2026-01-31T12:00:00.000001", "1969-12-31T23:59:59", "2026-02-01"], dtype="M8[us]"),
        [datetime(2026, 1, 31, 12, 0, 0, 1), np.datetime64("2026-01-31T12:00:00")],
    ),
    "time_zone": ("timestamp[ms, tz=UTC]", [NOON, NOON + timedelta(hours=1)], [NOON, NOON.astimezone(BERLIN)]),
    "date": ("date", np.array(["2026-01-31", "2026-02-01"], dtype="M8[D]"), [np.datetime64("2026-01-31")]),
    "duration": (
        "duration[ms]",
        np.array([1500, 20], dtype="m8[ms]"),
        [timedelta(seconds=1.5), np.timedelta64(1, "s")],
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("read")
    rng = np.random.default_rng(11)
    with make_store(folder) as history:
        for step in range(4):
            traffic(history, rng, 2000, step * 10.0)
            if step < 3:
                history.end_step()
    plain = {"keys": None, "filters": None, "window": "24 hours"}
    for name, (kind, values, _) in TYPED.items():
        with make_store(folder, name, **plain, value_type=kind) as history:
            history.append(values)
    with make_store(folder, "trades", keys=["region", "number"], filters=None) as history:
        history.append([1.0, 2.0, 3.0], key=[("eu", 1), ("eu", 2), ("us/x y&z", 1)], times=[0.0, 1.0, 2.0])
    with make_store(folder, "dated", filters=None) as history:
        times = np.array(["2026-01-31T12:00:00", "2026-01-31T12:10:00"], dtype="M8[us]")
        history.append([1.0, 2.0], key="/pay", times=times)
    with make_store(folder, "zoned", filters=None) as history:
        history.append([1.0, 2.0], key="/pay", times=[NOON, NOON + timedelta(minutes=10)])
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    names = [*TYPED, "trades", "dated", "zoned", "nothing"]
    stream = '[streams.latency]\nsource = { format = "parquet", path = "in" }\nvalue = "ms"\nkeys = ["endpoint"]\n'
    with (
        run_server(configure(folder, streams=stream + "".join(map(PLAIN.format, names)))) as server,
        Client(str(server.base_url)) as client,
    ):
        yield client


def live_of(folder: Path, name: str) -> LiveStream:
    return LiveStream(folder / "data" / name, follow=False)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"smallest": True, "min_n": 500},
        {"last": 500, "most": 2},
        {"within": "5 s", "filter": "errors"},
        {"within": 7.5, "now": 33.0, "mode": "exact"},
        {"last_steps": 1},
    ],
)
def test_worst_keys_are_those_of_a_reader(client: Client, folder: Path, parameters: dict[str, Any]) -> None:
    with live_of(folder, "latency") as live:
        expected = live.worst_keys(0.9, **parameters)
        for _ in range(2):  # the second is from the server's cache
            assert client.worst_keys("latency", 0.9, **parameters) == expected
    assert expected.listed


def test_worst_keys_of_several_columns_and_refusals(client: Client) -> None:
    assert [row.key for row in client.worst_keys("trades", 0.5).listed] == [("us/x y&z", 1), ("eu", 2), ("eu", 1)]
    for arguments in ({"key": "/pay"}, {"most": 0}, {"min_n": 0}, {"mode": "exact"}, {"most": 10**9}):
        with pytest.raises(InvalidArgumentError):
            client.worst_keys("latency", 0.5, **arguments)
    with pytest.raises(InvalidArgumentError, match="no keys"):
        client.worst_keys("float64", 0.5)
    with pytest.raises(EmptyError):
        client.worst_keys("latency", 0.5, within=1, now=-100.0)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"key": "/pay"},
        {"key": "/pay", "mode": "exact"},
        {"last": 500},
        {"key": "/cart", "within": "5 s"},
        {"within": 7.5, "now": 33.0},
        {"within": timedelta(seconds=8)},
        {"within": np.timedelta64(8000, "ms"), "filter": "errors"},
        {"last": 1000, "within": "5 s"},
        {"filter": "errors"},
        {"last": 1000, "filter": "errors", "key": "/home"},
        {"last_steps": 1, "key": "/pay"},
        {"mode": "quick", "last_steps": 1},
    ],
)
def test_the_same_parameters_give_the_answers_of_a_reader(
    client: Client, folder: Path, parameters: dict[str, Any]
) -> None:
    phis = [0.001, 0.5, 0.99, 1.0]
    with live_of(folder, "latency") as live:
        answers = live.answers(phis, **parameters)
        without_mode = {name: value for name, value in parameters.items() if name != "mode"}
        expected = [RemoteAnswer(*(getattr(a, name) for name in RemoteAnswer.__match_args__)) for a in answers]
        assert client.answers("latency", phis, **parameters) == expected
        assert client.quantiles("latency", np.reshape(phis, (2, 2)), **parameters).tolist() == (
            live.quantiles(np.reshape(phis, (2, 2)), **parameters).tolist()
        )
        assert client.rank("latency", 20.0, **parameters) == live.rank(20.0, **parameters)
        strictly: dict[str, Any] = {**parameters, "inclusive": False}
        assert client.rank("latency", 20.0, **strictly) == live.rank(20.0, **strictly)
        np.testing.assert_allclose(client.pmf("latency", [5.0, 20], **strictly), live.pmf([5.0, 20], **strictly))
        assert client.quantile("latency", 0, **parameters) == live.quantile(0, **parameters)
        np.testing.assert_array_equal(
            client.rank("latency", [5.0, 20], **parameters), live.rank([5.0, 20], **parameters)
        )
        np.testing.assert_allclose(
            client.cdf("latency", [5.0, 20], **parameters), live.cdf([5.0, 20], **parameters), rtol=1e-12
        )
        assert client.summary("latency", **without_mode) == live.summary(**without_mode)


def test_an_answer_is_an_answer(client: Client) -> None:
    answer = client.answer("latency", 0.99, key="/pay", within="5 s")
    assert isinstance(answer, Answer)
    assert (answer.mode, answer.since is not None, answer.last_steps) == ("accurate", True, None)
    assert client.quantile("latency", 0.99, key="/pay", within="5 s") == answer.value
    assert client.cdf("latency", answer.value, key="/pay", within="5 s") == pytest.approx(0.99, abs=0.02)


@pytest.mark.parametrize("name", TYPED)
def test_values_have_the_type_of_the_stream(client: Client, folder: Path, name: str) -> None:
    phis = [0.01, 0.5, 1.0]
    with live_of(folder, name) as live:
        expected = live.quantiles(phis)
        values = client.quantiles(name, phis)
        assert values.dtype == expected.dtype
        assert values.tolist() == expected.tolist()
        assert [type(one.value) for one in client.answers(name, phis)] == [type(a.value) for a in live.answers(phis)]
        for value in (*TYPED[name][2], live.quantile(0.5)):
            low, high = live.rank([value])  # in a list times may be of another unit
            assert client.rank(name, value) == (low[0], high[0])
        curve = client.curve(name, points=3)
        assert [point.value for point in curve] == list(dict.fromkeys(a.value for a in live.answers([1e-9, 0.5, 1.0])))
        assert curve[-1].hi == 1.0


def test_keys_of_several_columns(client: Client) -> None:
    assert client.quantile("trades", 1.0, key=("eu", 2)) == 2.0
    assert client.quantile("trades", 1.0, key=["us/x y&z", np.int64(1)]) == 3.0
    assert client.keys("trades") == [("eu", 1), ("eu", 2), ("us/x y&z", 1)]
    assert client.keys("trades", contains="US") == [("us/x y&z", 1)]
    assert client.stream("trades")["keys"] == client.keys("trades")
    with pytest.raises(UnknownKeyError):
        client.quantile("trades", 1.0, key=("eu", 3))
    with pytest.raises(InvalidArgumentError, match="2 parts"):
        client.quantile("trades", 1.0, key="eu")
    with pytest.raises(InvalidArgumentError, match="key_columns"):
        client.quantile("trades", 1.0, key={"region": "eu", "number": 1})


def test_streams_and_their_times(client: Client) -> None:
    streams = {one["name"]: one for one in client.streams()}
    assert streams["nothing"]["ready"] is False
    assert streams["latency"]["n"] == 8000
    assert streams["dated"]["newest"] == np.datetime64("2026-01-31T12:10:00")
    for stream, now in (
        ("dated", datetime(2026, 1, 31, 12, 2)),
        ("zoned", NOON.astimezone(BERLIN) + timedelta(minutes=2)),
    ):
        answer = client.answer(stream, 1.0, within="5 min", now=now)
        assert (answer.value, answer.n) == (1.0, 1)
        assert answer.until == np.datetime64("2026-01-31T12:02:00")
    with pytest.raises(InvalidArgumentError, match="zone"):
        client.answer("dated", 1.0, within="5 min", now=NOON)


def test_summaries_can_be_merged(client: Client) -> None:
    merged = Summary.merge(client.summary("latency", key="/pay"), client.summary("latency", key="/cart"))
    assert merged.n == client.answer("latency", 0.5, key="/pay").n + client.answer("latency", 0.5, key="/cart").n


def test_a_plot_of_two_scopes(client: Client) -> None:
    plot = client.qq("latency:/pay@within:5 s", "int64", start=0.25, end=1.0, points=4)
    assert [point.phi for point in plot] == [0.25, 0.5, 0.75, 1.0]
    assert plot[-1].x == client.quantile("latency", 1.0, key="/pay", within="5 s")
    assert plot[-1].y == np.int64(2**62 + 1)
    assert isinstance(plot[-1].y, np.int64)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.quantile("nowhere", 0.5), UnknownStreamError),
        (lambda c: c.quantile("../tokens", 0.5), UnknownStreamError),
        (lambda c: c.stream(""), UnknownStreamError),
        (lambda c: c.quantile("nothing", 0.5), QuantideError),
        (lambda c: c.quantile("latency", 0.5, key="/nowhere"), UnknownKeyError),
        (lambda c: c.quantile("latency", -0.1), InvalidArgumentError),
        (lambda c: c.answers("latency", []), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, within="soon"), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, within=np.timedelta64(1, "M")), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, within="400 days"), SpanError),
        (lambda c: c.quantile("latency", 0.5, within="1 s", now=1e6), EmptyError),
        (lambda c: c.quantile("latency", 0.5, last=10, last_steps=1), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, last_steps=1, filter="errors"), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, last=0), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, mode="best"), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, windw="5 s"), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, key=None, now=object(), within=5), InvalidArgumentError),
        (lambda c: c.quantile("latency", 0.5, key=b"\xff"), InvalidArgumentError),
        (lambda c: c.rank("latency", float("nan")), InvalidArgumentError),
        (lambda c: c.rank("latency", []), InvalidArgumentError),
        (lambda c: c.rank("latency", "much"), InvalidArgumentError),
        (lambda c: c.summary("latency", mode="exact"), InvalidArgumentError),
        (lambda c: c.curve("latency", points=10**9), InvalidArgumentError),
        (lambda c: c.qq("latency", "latency", start=0.5, end=0.5), InvalidArgumentError),
    ],
)
def test_errors_have_the_type_they_have_in_the_library(client: Client, call: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        call(client)
    assert str(caught.value)


def test_a_closed_client_raises(client: Client) -> None:
    other = Client(client.address)
    other.close()
    with pytest.raises(InvalidArgumentError, match="closed"):
        other.streams()
