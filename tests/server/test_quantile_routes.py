"""Queries over HTTP: every answer against all rows, every invalid query rejected with a reason."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import Summary
from quantide.live import LiveStream
from tests.oracle import count_at_most, exact_quantile, summary_faults
from tests.server.exact_streams import EPS, STREAMS, TEN, Served
from tests.server.running_server import run_server

ONE_SECOND = np.timedelta64(1, "s")
PHIS = [0.0, 1e-320, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0]
WINDOWS: list[tuple[str, dict[str, Any]]] = [
    ("all", {}),
    ("steps:0", {"steps": 0}),
    ("steps:1", {"steps": 1}),
    ("steps:99", {"steps": 99}),
    ("last:1", {"last": 1}),
    ("last:700", {"last": 700}),
    ("last:999999999999999", {"last": 10**15 - 1}),
    ("within:7s", {"within": 7.0}),
    ("within:1 min", {"within": 60.0}),
    ("last:500,within:3 s", {"last": 500, "within": 3.0}),
]
VALUES = {
    "latency": ["-1", "20.5", "1e300", "inf", "-inf"],
    "plain": ["-inf", "0", "20.5", "inf"],
    "counts": ["-51", "-0.5", "0", "12", "1e30"],
    "moments": ["2025-12-31", "2026-01-01T00:05:00", "2026-01-01T00:05:00.123456"],
    "zoned": ["2025-12-31", "2026-01-01T00:05:00Z", "2026-01-01T00:05:00.5"],
    "spans": ["1 ms", "5 s", "1 h"],
    "prices": ["-1", "0", "24.99", "24.995", "inf"],
}
KEYS: dict[str, Any] = {"latency": [None, "/pay", "@last:5"], "prices": [None, ("eu", 1)]}


def parts(key: Any) -> Any:
    """Return a key as parameters."""
    return [] if key is None else [str(part) for part in (key if isinstance(key, tuple) else (key,))]


def read(client: httpx.Client, stream: str, what: str, **parameters: Any) -> Any:
    response = client.get(f"/api/streams/{stream}/{what}", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("window", "scope"), WINDOWS)
def test_answers_are_true(client: httpx.Client, served: Served, stream: str, window: str, scope: Any) -> None:
    rows = served.rows[stream]
    for key in KEYS.get(stream, [None]):
        data, about = rows.chosen(key, **scope), {"key": parts(key), "window": window}
        for mode, eps in (("quick", EPS), ("accurate", EPS), ("exact", 0.0)):
            result = read(client, stream, "quantiles", phi=PHIS, mode=mode, **about)
            assert (result["n"], result["mode"], result["window"]) == (len(data), mode, window)
            assert [fault for answer in result["answers"] for fault in rows.faults(data, answer, eps)] == []
            banded = read(client, stream, "quantiles", phi=PHIS, mode=mode, band="true", **about)
            for answer, one in zip(result["answers"], banded["answers"], strict=True):
                low, high = rows.read(one.pop("low")), rows.read(one.pop("high"))
                assert low <= data[one["target"] - 1] <= high
                assert one == answer, "a band changes nothing else"
            result = read(client, stream, "rank", value=VALUES[stream], mode=mode, **about)
            assert [fault for rank in result["ranks"] for fault in rows.rank_faults(data, rank, eps)] == []
            below = read(client, stream, "rank", value=VALUES[stream], mode=mode, inclusive="false", **about)
            for rank, at_most in zip(below["ranks"], result["ranks"], strict=True):
                true = bisect_left(data, rows.read(rank["value"]))
                assert rank["rank_lo"] <= true <= rank["rank_hi"] <= at_most["rank_hi"]


@pytest.mark.parametrize("stream", STREAMS)
def test_curves_are_true(client: httpx.Client, served: Served, stream: str) -> None:
    rows = served.rows[stream]
    data = rows.chosen(last=700)
    results: list[dict[str, Any]] = [{"points": 9}, {"value": VALUES[stream]}, {}]
    for result in results:
        actual = read(client, stream, "cdf", window="last:700", **result)
        for point in actual["points"]:
            true = count_at_most(data, rows.read(point["value"])) / len(data)
            assert point["lo"] <= true <= point["hi"]
            assert point["lo"] <= point["fraction"] <= point["hi"]
            assert point["hi"] - point["lo"] <= 2 * EPS
        if "value" not in result:
            shown = [rows.read(point["value"]) for point in actual["points"]]
            assert (shown[0], shown[-1]) == (min(data), max(data)), "a curve has both ends"
            assert all(a < b for a, b in pairwise(shown))
            assert len(shown) <= result.get("points", 100)


@pytest.mark.parametrize("stream", STREAMS)
def test_a_summary_can_be_taken_away(client: httpx.Client, served: Served, stream: str) -> None:
    rows = served.rows[stream]
    for window, scope in WINDOWS:
        response = client.get(f"/api/streams/{stream}/summary", params={"window": window})
        assert summary_faults(Summary.from_bytes(response.content), rows.chosen(**scope)) == []


def test_a_filter(client: httpx.Client, served: Served) -> None:
    rows = served.rows["latency"]
    windows: list[tuple[str, dict[str, Any]]] = [
        ("all", {}),
        ("last:300", {"last": 300}),
        ("within:9s", {"within": 9.0}),
    ]
    for window, scope in windows:
        data = rows.chosen("/pay", errors=True, **scope)
        result = read(client, "latency", "quantiles", phi=PHIS, key="/pay", window=window, filter="errors")
        assert result["filter"] == "errors"
        assert [fault for answer in result["answers"] for fault in rows.faults(data, answer)] == []


@pytest.mark.parametrize(
    ("stream", "now"),
    [
        ("latency", "25.5"),
        ("moments", f"{TEN[:-2]}25.5"),
        ("prices", f"{TEN[:-2]}25.5Z"),
        ("prices", f"{TEN[:-2]}25.5"),
    ],
)
def test_a_window_that_ends_earlier(client: httpx.Client, served: Served, stream: str, now: str) -> None:
    """Query windows that end earlier, for every clock: seconds, timestamps, timestamps with a zone."""
    rows = served.rows[stream]
    data = rows.chosen(within=7.0, now=25.5)
    result = read(client, stream, "quantiles", phi=PHIS, window="within:7s", now=now)
    assert [fault for answer in result["answers"] for fault in rows.faults(data, answer)] == []
    span = result["answers"][0]["span"]
    assert {str(span["until"])[:22], str(span["until"])} & {now.removesuffix("Z") + "0", now.removesuffix("Z"), now}


@pytest.mark.parametrize("stream", STREAMS)
def test_lines_are_true(client: httpx.Client, served: Served, stream: str) -> None:
    rows = served.rows[stream]
    for key in KEYS.get(stream, [None]):
        result = read(client, stream, "lines", phi=PHIS, key=parts(key), window="within:7s", over="1 min", points=9)
        assert len(result["times"]) == len(result["n"]) == 9
        newest = read(client, stream, "quantiles", phi=1.0, window="within:1s")["answers"][0]["span"]["until"]
        assert result["times"][-1] == newest
        assert 0 in result["n"], "before anything came"
        for j, moment in enumerate(result["times"]):
            now = moment if isinstance(moment, float) else (np.datetime64(moment) - np.datetime64(TEN)) / ONE_SECOND
            data = rows.chosen(key, within=7.0, now=now)
            assert result["n"][j] == len(data)
            for phi, line in zip(PHIS, result["lines"], strict=True):
                assert line["phi"] == phi
                results = [line[name][j] for name in ("low", "value", "high")]
                if not len(data):
                    assert results == [None] * 3
                    continue
                low, value, high = map(rows.read, results)
                assert low <= exact_quantile(data, phi) <= high
                assert low <= value <= high


@pytest.mark.parametrize(
    "parameters",
    [
        {"window": "last:5", "over": "1 min"},
        {"window": "within:5s,last:5", "over": "1 min"},
        {"window": "last:5,within:5s", "over": "1 min"},
        {"window": "all", "over": "1 min"},
        {"window": "within:5s"},
        {"over": "1 min"},
        {"window": "within:5s", "over": "soon"},
        {"window": "within:5s", "over": "1 min", "points": "1"},
        {"window": "within:5s", "over": "1 min", "points": "2001"},
        {"window": "within:5s", "over": "1 min", "points": "2000", "phi": ["0.5"] * 11},
        {"window": "within:5s", "over": "1 min", "now": "5"},
        {"window": "within:2 h", "over": "1 min"},
        {"window": "within:5s", "over": "1 min", "filter": "unheard"},
    ],
)
def test_invalid_time_series_are_rejected(client: httpx.Client, parameters: dict[str, Any]) -> None:
    response = client.get("/api/streams/plain/lines", params={"phi": "0.5"} | parameters)
    assert response.status_code == 400, response.text


def test_answers_equal_those_of_the_reader(client: httpx.Client, served: Served) -> None:
    result = read(client, "latency", "quantiles", phi=[0.5, 0.99], key="/pay")
    with LiveStream(served.stores["latency"].path, follow=False) as live:
        expected = live.answers([0.5, 0.99], key="/pay")
    assert [one["value"] for one in result["answers"]] == [float(a.value) for a in expected]
    assert [one["rank_lo"] for one in result["answers"]] == [a.rank_lo for a in expected]
    assert result["version"] == expected[0].version


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Served]:
    result = Served(tmp_path)
    result.fill(steps=1, count=100)
    yield result
    result.close()


def test_answers_while_values_arrive(growing: Served) -> None:
    """Each answer is true of the rows of its version, whatever was appended since; and versions increase."""
    result = {name: {growing.stores[name].stats()["version"]: len(growing.rows[name].values)} for name in STREAMS}
    with run_server(growing.config) as client:
        for turn in range(6):
            for name in STREAMS:
                growing.append(name, 50)
                if turn == 3:
                    growing.end_step(name)
                for _ in range(200):
                    actual = read(client, name, "quantiles", phi=PHIS, mode="quick")
                    rows = growing.rows[name]
                    assert actual["n"] <= len(rows.values)
                    data = rows.in_order(rows.values[: actual["n"]])
                    assert [fault for answer in actual["answers"] for fault in rows.faults(data, answer)] == []
                    assert result[name].setdefault(actual["version"], actual["n"]) == actual["n"], (
                        "one version, one stream"
                    )
                    if actual["n"] == len(rows.values):
                        break
                else:
                    pytest.fail("what was appended is never seen")
    assert all(len(versions) >= 6 for versions in result.values())
    for versions in result.values():
        assert sorted(versions.values()) == [versions[version] for version in sorted(versions)]


WRONG: list[tuple[str, int, str]] = [
    ("/api/streams/latency/quantiles", 400, "phi"),
    ("/api/streams/latency/quantiles?phi=", 400, "phi"),
    ("/api/streams/latency/quantiles?phi=-0.1", 400, "phi must be in [0, 1], not -0.1"),
    ("/api/streams/latency/quantiles?phi=-0.5", 400, "phi must be in [0, 1], not -0.5"),
    ("/api/streams/latency/quantiles?phi=1.0000001", 400, "phi must be in [0, 1], not 1.0000001"),
    ("/api/streams/latency/quantiles?phi=99", 400, "phi must be in [0, 1], not 99.0; for p99 write 0.99"),
    ("/api/streams/latency/quantiles?phi=p99.9", 400, "not 'p99.9'; for p99.9 write 0.999"),
    ("/api/streams/latency/worst-keys?phi=99", 400, "for p99 write 0.99"),
    ("/api/streams/latency/compare?phi=95&against=all", 400, "for p95 write 0.95"),
    ("/api/streams/latency/quantiles?phi=nan", 400, "phi"),
    ("/api/streams/latency/quantiles?phi=inf", 400, "phi"),
    ("/api/streams/latency/quantiles?phi=median", 400, "number"),
    ("/api/streams/latency/quantiles?" + "phi=0.5&" * 1001, 400, "at most 1,000"),
    ("/api/streams/latency/quantiles?phi=0.5&ph=0.5", 400, "there are key, window"),
    ("/api/streams/latency/quantiles?phi=0.5&window=all&window=last:5", 400, "give it once"),
    ("/api/streams/latency/quantiles?phi=0.5&window=", 400, "write last:10000"),
    ("/api/streams/latency/quantiles?phi=0.5&window=last:0", 400, "at least 1"),
    ("/api/streams/latency/quantiles?phi=0.5&window=last:-5", 400, "write last:10000"),
    ("/api/streams/latency/quantiles?phi=0.5&window=last:9999999999999999", 400, "write last:10000"),
    ("/api/streams/latency/quantiles?phi=0.5&window=last:\u0665", 400, "write last:10000"),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:0", 400, "length of time"),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:0s", 400, "above zero"),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:1e999s", 400, "length of time"),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:soon", 400, "length of time"),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:5m,last:7", 400, "length of time"),
    (f"/api/streams/latency/quantiles?phi=0.5&window=within:{'9' * 55}w", 400, "reaches back beyond"),
    (f"/api/streams/latency/quantiles?phi=0.5&window=within:{'9' * 900}w", 400, "at most 100"),
    ("/api/streams/latency/quantiles?phi=0.5&window=steps:few", 400, "write last:10000"),
    ("/api/streams/latency/quantiles?phi=0.5&window=steps:1&filter=errors", 400, "one of the two"),
    ("/api/streams/latency/quantiles?phi=0.5&filter=nope", 400, "declared are errors"),
    ("/api/streams/plain/quantiles?phi=0.5&filter=errors", 400, "none is declared"),
    ("/api/streams/latency/quantiles?phi=0.5&now=5", 400, "together with within="),
    ("/api/streams/latency/quantiles?phi=0.5&window=last:5&now=5", 400, "together with within="),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:5s&now=nan", 400, "numbers"),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:5s&now=now", 400, "write seconds"),
    ("/api/streams/moments/quantiles?phi=0.5&window=within:5s&now=today", 400, "2026-01-31T12:00:00"),
    ("/api/streams/moments/quantiles?phi=0.5&window=within:5s&now=9999-01-01", 400, "2026-01-31T12:00:00"),
    ("/api/streams/moments/quantiles?phi=0.5&window=within:5s&now=2026-01-31T12:00Z", 400, "have none"),
    ("/api/streams/moments/quantiles?phi=0.5&window=within:5s&now=5", 400, "one kind of time"),
    ("/api/streams/latency/quantiles?phi=0.5&mode=fast", 400, "'quick', 'accurate' or 'exact'"),
    ("/api/streams/latency/quantiles?phi=0.5&key=nobody", 404, "nobody"),
    ("/api/streams/latency/quantiles?phi=0.5&key=", 404, "key ''"),
    ("/api/streams/latency/quantiles?phi=0.5&key=%00", 404, "x00"),
    ("/api/streams/latency/quantiles?phi=0.5&key=%ff%fe", 404, "key"),
    ("/api/streams/latency/quantiles?phi=0.5&key=/pay&key=/cart", 400, "1 part: endpoint"),
    ("/api/streams/prices/quantiles?phi=0.5&key=eu", 400, "2 parts: region, symbol"),
    ("/api/streams/prices/quantiles?phi=0.5&key=eu&key=one", 404, "string, int64"),
    ("/api/streams/plain/quantiles?phi=0.5&key=x", 400, "leave key out"),
    (f"/api/streams/latency/quantiles?phi=0.5&key={'k' * 1001}", 400, "1000 characters"),
    ("/api/streams/latency/quantiles?phi=0.5&" + "key=k&" * 17, 400, "at most 16"),
    ("/api/streams/latency/quantiles?phi=0.5&window=within:1ms&now=1000000", 404, "ask for a longer one"),
    ("/api/streams/latency/rank", 400, "value"),
    ("/api/streams/latency/rank?value=", 400, "cannot be compared"),
    ("/api/streams/latency/rank?value=nan", 400, "has no rank"),
    ("/api/streams/latency/rank?value=slow", 400, "cannot be compared"),
    ("/api/streams/counts/rank?value=nan", 400, ""),
    ("/api/streams/counts/rank?value=snan", 400, ""),
    ("/api/streams/moments/rank?value=250", 400, ""),
    ("/api/streams/moments/rank?value=now", 400, ""),
    ("/api/streams/moments/rank?value=", 400, ""),
    ("/api/streams/moments/rank?value=99999-01-01", 400, ""),
    ("/api/streams/latency/rank?" + "value=1&" * 1001, 400, "at most 1,000"),
    ("/api/streams/latency/cdf?points=1", 400, "greater than or equal to 2"),
    ("/api/streams/latency/cdf?points=2001", 400, "at most 2,000"),
    ("/api/streams/latency/cdf?points=1e3", 400, "integer"),
    ("/api/streams/latency/cdf?points=7&value=5", 400, "leave one out"),
    ("/api/streams/latency/summary?mode=exact", 400, "'mode' is not a parameter"),
    ("/api/streams/latency/summary?key=nobody", 404, "nobody"),
    ("/api/streams/latency/summary?window=last:5&key=nobody", 404, "nobody"),
    ("/api/streams/nothing/quantiles?phi=0.5", 404, "there are latency"),
    ("/api/streams/%2e%2e/quantiles?phi=0.5", 404, "there are latency"),
    ("/api/streams/..%2f..%2fetc%2fpasswd/quantiles?phi=0.5", 404, "/docs"),
    ("/api/streams/latency%2fquantiles?phi=-0.1", 400, "phi must be in [0, 1], not -0.1"),
    ("/api/streams/late%00ncy/quantiles?phi=0.5", 404, ""),
    ("/api/streams/%e2%82%ac%f0%9f%98%80/quantiles?phi=0.5", 404, "there are latency"),
    (f"/api/streams/{'x' * 5000}/quantiles?phi=0.5", 404, "there are latency"),
    ("/api/streams//quantiles?phi=0.5", 404, "/docs"),
    ("/api/streams/latency/quantiles/?phi=0.5", 404, "/docs"),
    ("/api/streams/latency/median", 404, "/docs"),
]


def check_refusal(found: httpx.Response) -> str:
    """Check the body of an error response; return its message."""
    assert found.headers["content-type"] == "application/json"
    assert 400 <= found.status_code < 500
    body = found.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message"]
    message: str = body["error"]["message"]
    assert len(message) > 10
    assert not any(word in found.text for word in ("Traceback", "quantide/", ".py", "/tmp/"))
    return message


@pytest.mark.parametrize(("address", "status", "expected"), WRONG, ids=[one[0][12:90] for one in WRONG])
def test_invalid_queries_are_rejected(client: httpx.Client, address: str, status: int, expected: str) -> None:
    response = client.get(address)
    message = check_refusal(response)
    assert (response.status_code, expected in message) == (status, True), message


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_refused(client: httpx.Client, method: str) -> None:
    response = client.request(method, "/api/streams/latency/quantiles?phi=0.5", json={})
    assert response.status_code == 405
    assert "GET" in check_refusal(response)


NUMBERS = st.one_of(
    st.floats(allow_subnormal=True).map(repr),
    st.integers(-(10**40), 10**40).map(str),
    st.sampled_from(
        ["", " ", "0", "1", "0.5", "1e-320", "1e400", "-0", "0x1", "1_0", "\u0665", "null", "[0.5]", "0.5\n"]
    ),
    st.sampled_from(["1e99999999", "-1e-99999999", "0e999999999", "inf", "-inf", "nan", "sNaN", "+.5", "."]),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["/pay", "eu", "1", "@last:5", "", "[1,2]", '["eu",1]', "\x00", "a" * 400, "' OR 1=1 --", "%s%n", "{}"]
    ),
)
SPANS = st.one_of(
    st.sampled_from(
        ["all", "last:10", "within:5s", "steps:1", "steps:2", "last:5,within:1 s", "", "last", "within:", ":"]
    ),
    st.builds("{}:{}".format, st.sampled_from(["last", "within", "steps", "all", "first"]), NUMBERS | TEXTS),
    st.builds("last:{},within:{}{}".format, NUMBERS, NUMBERS, st.sampled_from(["s", "ms", "w", "y", ""])),
)
TIMES = st.one_of(
    NUMBERS, TEXTS, st.datetimes().map(lambda moment: moment.isoformat()), st.just("2026-01-31T10:00:09Z")
)
TEXT_OF: dict[str, st.SearchStrategy[str]] = {
    "phi": NUMBERS,
    "value": NUMBERS | TIMES,
    "key": TEXTS,
    "window": SPANS,
    "filter": st.just("errors") | TEXTS,
    "mode": st.sampled_from(["quick", "accurate", "exact", "", "Exact"]),
    "now": TIMES,
    "points": NUMBERS,
    "x": st.sampled_from(list(STREAMS)) | TEXTS,
    "contains": TEXTS,
    "limit": NUMBERS,
}
PARAMETERS = st.lists(
    st.sampled_from(list(TEXT_OF)).flatmap(lambda name: st.tuples(st.just(name), TEXT_OF[name])), max_size=6
)
LIKELY = st.builds(
    lambda some, more: some + more,
    st.sampled_from([[("phi", "0.5")], [("phi", "0.5"), ("phi", "1")], [("value", "12")], [("points", "7")], []]),
    PARAMETERS,
)


@given(
    stream=st.sampled_from([*STREAMS, *STREAMS, "nobody"]),
    what=st.sampled_from(["quantiles", "rank", "cdf", "summary", "keys"]),
    parameters=LIKELY,
)
def test_any_query_is_answered_or_rejected(client: httpx.Client, stream: str, what: str, parameters: Any) -> None:
    pairs = "&".join(f"{quote(name)}={quote(text, safe='')}" for name, text in parameters)
    response = client.get(f"/api/streams/{stream}/{what}?{pairs}")
    if response.status_code != 200:
        check_refusal(response)
    elif what == "summary":
        assert Summary.from_bytes(response.content).n
    else:
        assert json.loads(response.content, parse_constant=pytest.fail), "infinities are text: JSON has none"


def test_values_are_shown_as_json_has_them(client: httpx.Client) -> None:
    result = read(client, "plain", "quantiles", phi=[0.01, 0.5, 1.0])
    assert [type(one["value"]) for one in result["answers"]] == [str, float, str]
    assert (result["answers"][0]["value"], result["answers"][2]["value"]) == ("-inf", "inf")
    assert isinstance(read(client, "counts", "quantiles", phi=0.5)["answers"][0]["value"], int)
    assert np.datetime64(read(client, "moments", "quantiles", phi=0.5)["answers"][0]["value"]).dtype == "M8[us]"
    assert read(client, "prices", "quantiles", phi=0.5)["answers"][0]["value"].count(".") == 1


def test_worst_keys_refuse_a_number_of_values_beyond_that_of_any_stream(client: httpx.Client) -> None:
    found = client.get("/api/streams/latency/worst-keys", params={"phi": 0.5, "min_n": 10**30})
    assert check_refusal(found).startswith("min_n is")
