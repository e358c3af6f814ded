"""Query parameters: windows, keys, values, times, series addresses."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide.errors import InvalidArgumentError
from quantide.live.value_parsing import read_value
from quantide.server.http.query_parameters import Selector, read_key, read_time, read_window
from quantide.summary.value_types import type_named


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("all", {}),
        ("last:1", {"last": 1}),
        ("last:007", {"last": 7}),
        ("steps:0", {"last_steps": 0}),
        ("within:5m", {"within": "5m"}),
        ("within:1 h 30 min", {"within": "1 h 30 min"}),
        ("last:1000,within:5m", {"last": 1000, "within": "5m"}),
    ],
)
def test_windows(text: str, scope: dict[str, Any]) -> None:
    assert read_window(text) == scope


NO_WINDOWS = """ALL last last: last:+1 within: within:5 within:0s all, last:1, last:1,within: last:1,last:2
within:5m,last:1 steps:1,within:5m last:\u0661 first:1 within:-5m last:1000000000000000"""


@pytest.mark.parametrize(
    "text",
    [*NO_WINDOWS.split(), "", "last:1 ", " last:1", "last:1\n", "within:5m\n", "within:5\x00m", "within:" + "1" * 61],
)
def test_invalid_windows(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"write|give|above zero"):
        read_window(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("latency", Selector("latency", None, "all")),
        ("latency:/pay", Selector("latency", "/pay", "all")),
        ("latency:", Selector("latency", "", "all")),
        ("latency@last:5", Selector("latency", None, "last:5")),
        ("latency:/pay@last:1000,within:5m", Selector("latency", "/pay", "last:1000,within:5m")),
        ("latency:/pay@last:5@all", Selector("latency", "/pay@last:5", "all")),
        ("latency:a:b@c", Selector("latency", "a:b@c", "all")),
        ("latency:last:5", Selector("latency", "last:5", "all")),
        ("latency:a\nb@steps:1", Selector("latency", "a\nb", "steps:1")),
        ('prices:["eu",1]@within:5 s', Selector("prices", ("eu", 1), "within:5 s")),
        ('latency:["[1]"]', Selector("latency", ("[1]",), "all")),
        ("latency:[1", Selector("latency", "[1", "all")),
        ('latency:[{"a":1}]', Selector("latency", '[{"a":1}]', "all")),
        ("latency:[]", Selector("latency", (), "all")),
        (f"latency:{'[' * 1900}", Selector("latency", "[" * 1900, "all")),
    ],
)
def test_series_addresses(text: str, place: Selector) -> None:
    assert Selector.read(text) == place


@pytest.mark.parametrize(
    "text", ["", ":", "@all", "/pay", "-latency", "a b", "..", "\x00", "l\n", "é", "x" * 101, "x:" + "k" * 2000]
)
def test_invalid_series_addresses(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="write stream"):
        Selector.read(text)


@given(st.text(max_size=30))
def test_any_key_has_an_address(key: str) -> None:
    """Write any key in an address: with @all behind it, and in a list if it resembles one."""
    if not key.startswith("["):
        assert Selector.read(f"latency:{key}@all").key == key
    assert Selector.read(f"latency:{json.dumps([key])}@all").key == (key,)


def test_keys() -> None:
    assert [read_key(None), read_key([]), read_key([""]), read_key(["a", "b"])] == [None, None, "", ("a", "b")]
    with pytest.raises(InvalidArgumentError, match="1000 characters"):
        read_key(["a" * 500, "b" * 501])


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("12.5", "float64", 12.5),
        ("-inf", "float32", -np.inf),
        ("2026-01-31", "date", np.datetime64("2026-01-31")),
        ("2026-01-31T12:00", "timestamp[s]", np.datetime64("2026-01-31T12:00:00")),
        ("2026-01-31T12:00Z", "timestamp[ms, tz=UTC]", np.datetime64("2026-01-31T12:00:00")),
        ("1.5 s", "duration[ms]", np.timedelta64(1500, "ms")),
    ],
)
def test_values(text: str, kind: str, value: Any) -> None:
    assert read_value(text, type_named(kind)) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *[(text, "float64") for text in ("x", "", "0x10", "1,5")],
        *[(text, "int64") for text in ("nan", "sNaN", "1e999999999", "-1e-999999999", "")],
        *[(text, "timestamp[s]") for text in ("now", "NaT", "", "250", "2026-01-31T12:00Z", "2026-02-30")],
        *[(text, "duration[s]") for text in ("5", "1 ns", "-5 s", "99999999999999 w")],
        ("9999-01-01", "timestamp[ns]"),
    ],
)
def test_invalid_values(text: str, kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot be compared with .*; write "):
        read_value(text, type_named(kind))


def test_times() -> None:
    noon = np.datetime64("2026-01-31T12:00:00.000000000")
    assert read_time(None, False) is None
    assert read_time("1.5e9", False) == 1.5e9
    assert read_time("2026-01-31T12:00", False) == noon
    for text in ("2026-01-31 12:00:00", "2026-01-31T12:00:00.000Z"):
        assert read_time(text, True) == pa.scalar(int(noon.astype(np.int64)), pa.timestamp("ns", "UTC"))


@pytest.mark.parametrize(
    "text", ["", "now", "today", "NaT", "noon", "2026-13-01", "0001-01-01", "2026-01-31T12:00+01:00"]
)
@pytest.mark.parametrize("zoned", [False, True])
def test_invalid_times(text: str, zoned: bool) -> None:
    """ "now" would be another time at every request, and responses are cached."""
    with pytest.raises(InvalidArgumentError, match="write seconds"):
        read_time(text, zoned)
