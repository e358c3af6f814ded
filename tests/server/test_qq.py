"""Q-Q plots: true along both axes, finer in smaller ranges."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import History
from tests.oracle import target_rank
from tests.server.exact_streams import EPS, STREAMS, Served
from tests.server.running_server import configure, run_server
from tests.server.test_quantile_routes import check_refusal


def plot(client: httpx.Client, **parameters: Any) -> Any:
    response = client.get("/api/qq", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def far(data: Any, value: Any, phi: float) -> float:
    """Return the distance of a value from the target rank of phi, as a fraction of n."""
    first, last = np.searchsorted(data, value, "left") + 1, np.searchsorted(data, value, "right")
    target = target_rank(phi, len(data))
    return float(max(0, first - target, target - last)) / len(data)


@pytest.mark.parametrize("stream", sorted(set(STREAMS) - {"prices"}))
def test_points_are_true_of_both(client: httpx.Client, served: Served, stream: str) -> None:
    result = plot(client, x=f"{stream}@last:700", y="plain", points=41)
    sides = {"x": (served.rows[stream], {"last": 700}), "y": (served.rows["plain"], {})}
    assert [result[axis]["n"] for axis in "xy"] == [700, len(served.rows["plain"].values)]
    for axis, (rows, scope) in sides.items():
        data = rows.chosen(**scope)
        shown = [rows.read(point[axis]) for point in result["points"]]
        assert (shown[0], shown[-1]) == (data[0], data[-1]), "both ends"
        assert all(a <= b for a, b in pairwise(shown)), "monotone"
        for point, value in zip(result["points"], shown, strict=True):
            assert far(data, value, point["phi"]) <= point[f"{axis}_error"] + 1e-12
        assert max(point[f"{axis}_error"] for point in result["points"]) == result[axis]["error"] <= EPS


def test_of_keys_and_of_windows(client: httpx.Client, served: Served) -> None:
    latency, prices = served.rows["latency"], served.rows["prices"]
    result = plot(client, x="latency:@last:5@all", y="latency:/pay@last:100,within:20 s", points=2)
    assert (result["x"]["key"], result["x"]["window"], result["x"]["n"]) == (
        "@last:5",
        "all",
        len(latency.chosen("@last:5")),
    )
    assert (result["y"]["key"], result["y"]["n"]) == ("/pay", len(latency.chosen("/pay", last=100, within=20.0)))
    assert result["y"]["window"] == "last:100,within:20 s"
    result = plot(client, x='prices:["eu",1]', y='prices:["us","2"]', points=2)
    assert (result["x"]["key"], result["x"]["n"]) == (["eu", 1], len(prices.chosen(("eu", 1))))
    assert result["y"]["n"] == len(prices.chosen(("us", 2)))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("large")
    config = configure(folder, streams='[streams.one]\nsource = { format = "parquet", path = "in" }\nvalue = "v"\n')
    values = np.random.default_rng(3).permutation(40_000).astype(np.float64)
    with History(folder / "data" / "one", eps=0.05) as store:
        for part in np.split(values, 4):
            store.append(part)
            store.end_step()
        with run_server(config) as result:
            yield result


def test_smaller_ranges_are_finer(large: httpx.Client) -> None:
    """The whole range shows a part of all values; a ten-thousandth of it shows every one."""
    before, errors = 0.0, []
    for width, begin in ((1.0, 0.0), (0.1, 0.5), (0.01, 0.5), (0.001, 0.5)):
        result = plot(large, x="one", y="one", **{"from": begin, "to": begin + width, "points": 101})
        shown = [point["x"] for point in result["points"]]
        inside = len(set(shown)) / (width * 40_000)  # the share of values that is shown
        assert inside > before
        assert sorted(shown) == shown
        before = inside
        errors.append(result["x"]["error"])
        assert result["x"]["error"] <= max(width / 100, 1 / 40_000)
    assert errors == sorted(errors, reverse=True)
    assert (errors[0] > 0, errors[-1]) == (True, 0.0)
    assert before == 1.0 + 1 / 40, "both ends, and all between"


def test_of_one_value_and_of_none(tmp_path: Path) -> None:
    streams = "".join(
        f'[streams.{name}]\nsource = {{ format = "parquet", path = "in" }}\nvalue = "v"\n' for name in ("one", "none")
    )
    config = configure(tmp_path, streams=streams)
    with History(tmp_path / "data" / "one") as one, History(tmp_path / "data" / "none"):
        one.append([7.5])
        with run_server(config) as client:
            result = plot(client, x="one", y="one@last:1", points=3)
            assert [(point["phi"], point["x"], point["y"]) for point in result["points"]] == [
                (0.0, 7.5, 7.5),
                (0.5, 7.5, 7.5),
                (1.0, 7.5, 7.5),
            ]
            assert (result["x"]["n"], result["x"]["error"]) == (1, 0.0)
            assert client.get("/api/qq?x=none&y=one").status_code == 404


PLACES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["latency", "prices", "counts", "zoned", "nobody", "", "latency "]),
    st.sampled_from(["", ":/pay", ":@last:5", ':["eu",1]', ':["eu","2"]', ":[[", ":[null]"])
    | st.text(max_size=9).map(":".__add__),
    st.sampled_from(["", "@all", "@last:5", "@last:5,within:2 s", "@within:1 h", "@steps:1", "@within:9 w"])
    | st.text(max_size=9).map("@".__add__),
)


@given(x=PLACES, y=PLACES, begin=st.floats(-0.1, 1), width=st.floats(0, 1), points=st.integers(1, 9))
def test_any_plot_is_drawn_or_refused(
    client: httpx.Client, x: str, y: str, begin: float, width: float, points: int
) -> None:
    result = {"x": x, "y": y, "from": repr(begin), "to": repr(begin + width), "points": str(points)}
    response = client.get("/api/qq", params=result)
    if response.status_code != 200:
        check_refusal(response)
    else:
        body = response.json()
        assert len(body["points"]) == points
        for axis in "xy":
            assert max(point[f"{axis}_error"] for point in body["points"]) <= max(EPS, width / (points - 1))


@pytest.mark.parametrize(
    ("query", "status", "expected"),
    [
        ("", 400, "x"),
        ("x=latency", 400, "y"),
        ("x=latency&x=plain&y=plain", 400, "give it once"),
        ("x=latency&y=nobody", 404, "there are latency"),
        ("x=latency&y=", 400, "write stream"),
        ("x=latency&y=latency:nobody", 404, "nobody"),
        ("x=latency&y=latency@last:0", 400, "at least 1"),
        ("x=latency&y=latency@last:99999999999999999", 400, "write last"),
        ("x=latency&y=latency@within:soon", 400, "length of time"),
        ("x=latency&y=latency:[]", 400, "1 part:"),
        ('x=latency&y=latency:["%5Cud800"]', 404, "key"),
        ("x=latency&y=latency:[1e999]", 404, "key"),
        ("x=latency&y=latency:[1e99,2]", 400, "1 part:"),
        (f"x=latency&y=latency:{'[' * 1900}", 404, "key"),
        (f"x=latency&y={'x' * 3000}", 400, "at most 2000"),
        ("x=latency&y=plain&from=nan", 400, "from"),
        ("x=latency&y=plain&from=1", 400, "less than 1"),
        ("x=latency&y=plain&to=0", 400, "greater than 0"),
        ("x=latency&y=plain&from=0.5&to=0.5", 400, "below"),
        ("x=latency&y=plain&from=0.9&to=0.1", 400, "below"),
        ("x=latency&y=plain&points=1", 400, "greater than or equal to 2"),
        ("x=latency&y=plain&points=2001", 400, "at most 2,000"),
        ("x=latency&y=plain&start=0.5", 400, "there are x, y, from, to, points"),
    ],
)
def test_invalid_queries_are_rejected(client: httpx.Client, query: str, status: int, expected: str) -> None:
    response = client.get(f"/api/qq?{query}")
    message = check_refusal(response)
    assert (response.status_code, expected in message) == (status, True), message
