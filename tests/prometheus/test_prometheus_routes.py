"""Routes of the Prometheus API: labels, series, errors, limits, tokens, and what Grafana sends."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide.server.http.tokens import create_token
from quantide.server.server_registry import ServerRegistry
from tests.prometheus.conftest import Shop
from tests.server.running_server import STREAM, configure, make_store, run_server, traffic

TEXT = 'latency{endpoint="/pay",quantile="0.99",window="5m"}'


def refusal(response: httpx.Response, status: int = 400, kind: str = "bad_data") -> str:
    body = response.json()
    assert (response.status_code, body["status"], body["errorType"]) == (status, "error", kind)
    return str(body["error"])


def test_requests_of_grafana_that_test_a_connection(shop: Shop) -> None:
    assert shop.data("status/buildinfo")["version"].startswith("2.")
    for response in (
        shop.client.post("/api/v1/query", data={"query": "1+1", "time": "4"}),
        shop.client.get("/api/v1/query", params={"query": "1+1", "time": "4", "custom": "ignored"}),
    ):
        assert response.json() == {"status": "success", "data": {"resultType": "scalar", "result": [4.0, "2"]}} | (
            {"warnings": response.json()["warnings"]}
        )


def test_a_number_in_a_range_is_a_series_without_labels(shop: Shop) -> None:
    data = shop.data("query_range", query="-1.5e3", start="1970-01-01T00:00:01Z", end="4", step="1s")
    assert data["result"] == [{"metric": {}, "values": [[float(at), "-1500"] for at in (1, 2, 3, 4)]}]


def test_get_and_post_are_the_same(shop: Shop) -> None:
    parameters = {"query": TEXT, "start": str(shop.now - 100), "end": str(shop.now), "step": "10"}
    posted = shop.client.post("/api/v1/query_range", data=parameters).json()
    assert posted == shop.client.get("/api/v1/query_range", params=parameters).json()
    assert len(posted["data"]["result"][0]["values"]) == 11


def test_labels_and_their_values(shop: Shop) -> None:
    assert shop.data("labels") == ["__name__", "bound", "endpoint", "filter", "quantile", "stream", "window"]
    assert shop.data("labels", **{"match[]": "web_latency_2_rows_total"}) == ["__name__", "stream"]
    values = {name: shop.data(f"label/{name}/values") for name in ("__name__", "stream", "endpoint", "bound", "filter")}
    names = ["latency", "latency_rows_total", "web_latency_2", "web_latency_2_rows_total"]
    assert values == {
        "__name__": names,
        "stream": ["latency", "web.latency-2"],
        "endpoint": ["/a.b", "/cart", "/pay"],
        "bound": ["high", "low", "value"],
        "filter": ["errors"],
    }
    assert shop.data("label/quantile/values", **{"match[]": "latency"}) == ["0.5", "0.99"]
    assert shop.data("label/quantile/values", **{"match[]": "web_latency_2"}) == ["0.5", "0.9", "0.99"]
    assert shop.data("label/endpoint/values", **{"match[]": ['latency{endpoint=~"/.a.*"}', "web_latency_2"]}) == [
        "/cart",
        "/pay",
    ]
    assert shop.data("label/nothing/values") == []
    assert shop.data("label/endpoint/values", limit=2) == ["/a.b", "/cart"]
    for limit in (0, 10**9, "9" * 5_000):
        assert len(shop.data("label/endpoint/values", limit=limit)) == 3


def test_series_exist(shop: Shop) -> None:
    found = shop.data("series", **{"match[]": ['latency{endpoint=~"/p.*"}', 'latency{endpoint="/nobody"}']})
    assert [one["quantile"] for one in found] == ["0.5", "0.99"]
    assert all(one["endpoint"] == "/pay" and one["bound"] == "value" for one in found)
    assert shop.data("series", **{"match[]": '{__name__=~"latency.*",endpoint="/pay"}'})[-1]["__name__"] == (
        "latency_rows_total"
    )
    assert refusal(shop.client.get("/api/v1/series")).startswith("match[] is missing")


def test_selection_by_labels(shop: Shop) -> None:
    def endpoints(text: str) -> list[str]:
        result = shop.data("query", query=text, time=shop.now)["result"]
        return sorted({one["metric"].get("endpoint", "all") for one in result})

    assert endpoints("latency") == ["/a.b", "/cart", "/pay", "all"]
    assert endpoints('latency{endpoint=""}') == ["all"]
    assert endpoints('latency{endpoint!=""}') == ["/a.b", "/cart", "/pay"]
    assert endpoints('{__name__=~"lat.+",endpoint=~"(/a\\\\.b|/pay)"}') == ["/a.b", "/pay"]
    assert endpoints('latency{endpoint!~"/p.*|"}') == ["/a.b", "/cart"]
    assert endpoints('latency{endpoint="/pay",endpoint!="/pay"}') == []
    assert endpoints('latency{stream="latency",nothing=""}') == ["/a.b", "/cart", "/pay", "all"]
    assert endpoints('latency{nothing="x"}') == []
    assert endpoints('latency{filter="absent"}') == []
    assert endpoints('latency{endpoint="/nobody"}') == []
    assert endpoints('{stream="web.latency-2"}') == ["all"]
    assert endpoints("nothing") == []
    assert endpoints('rate(latency_rows_total{endpoint="/nobody"}[5m])') == []


def test_metadata(shop: Shop) -> None:
    found = shop.data("metadata")
    assert found["latency"][0]["type"] == "gauge"
    assert found["web_latency_2_rows_total"][0]["type"] == "counter"
    units = {name: entry[0]["unit"] for name, entry in found.items()}
    assert units == {"latency": "", "latency_rows_total": "", "web_latency_2": "ms", "web_latency_2_rows_total": ""}
    assert list(shop.data("metadata", metric="latency")) == ["latency"]


@pytest.mark.parametrize(
    ("path", "parameters", "named"),
    [
        ("query", {}, "query is missing"),
        ("query", {"query": ["1", "2"]}, "2 times"),
        ("query", {"query": "sum(latency)"}, "is not supported"),
        ("query", {"query": "latency_rows_total"}, r"rate(latency_rows_total[5m])"),
        ("query", {"query": "rate(latency[5m])"}, "counter of rows"),
        ("query", {"query": "latency + latency"}, "one side must be a number"),
        ("query", {"query": 'latency{quantile="p99"}'}, "is not a number from 0 to 1"),
        ("query", {"query": 'latency{quantile="2"}'}, "is not a number from 0 to 1"),
        ("query", {"query": 'latency{window="all"}'}, "is not a length of time"),
        ("query", {"query": 'latency{window="1w"}'}, "reaches back beyond"),
        ("query", {"query": "1", "time": "yesterday"}, "seconds since 1970"),
        ("query", {"query": "1", "time": "1e30"}, "seconds since 1970"),
        ("query", {"query": "1", "time": "2026-01-01T00:00:00"}, "seconds since 1970"),
        ("query_range", {"query": "1", "start": "5", "end": "1", "step": "1"}, "end is before start"),
        ("query_range", {"query": "1", "start": "0", "end": "1", "step": "0"}, "step is '0'"),
        ("query_range", {"query": "1", "start": "0", "end": "11000", "step": "1"}, "11,000 points"),
        ("query_range", {"query": "1", "start": "0", "end": "1", "step": "nan"}, "step is 'nan'"),
        ("query_range", {"query": "1", "start": "0", "end": "1"}, "step is missing"),
        ("labels", {"match[]": "1+1"}, "at character 1"),
        ("labels", {"match[]": ["x"] * 101}, "101 match[]"),
        ("labels", {"limit": "-1"}, "limit is '-1'"),
        ("labels", {"limit": "1e9"}, "limit is '1e9'"),
        ("series", {"match[]": "{}"}, "needs a name"),
    ],
)
def test_errors_have_the_shape_of_prometheus(shop: Shop, path: str, parameters: dict[str, Any], named: str) -> None:
    assert named in refusal(shop.client.get(f"/api/v1/{path}", params=parameters))


def test_a_stream_that_cannot_be_read_yet_is_a_warning(shop: Shop) -> None:
    body = shop.client.get("/api/v1/query", params={"query": "absent"}).json()
    assert body["data"]["result"] == []
    assert "the stream absent cannot be read yet" in body["warnings"][0]


def test_a_post_is_a_form(shop: Shop) -> None:
    response = shop.client.post("/api/v1/query", json={"query": "1"})
    assert (response.status_code, response.json()["error"]["code"]) == (415, "not_form")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert shop.client.post("/api/queries", content="a=1", headers=form).status_code == 415, "other routes take JSON"
    assert refusal(shop.client.post("/api/v1/query", content=b"query=\xff", headers=form)).startswith("the form is not")
    assert "at most 262,144" in refusal(
        shop.client.post("/api/v1/query", content="query=" + "%31" * 10**5, headers=form)
    )
    assert shop.client.post("/api/v1/metadata", content="", headers=form).status_code in (405, 415)


def test_limits_of_series(tmp_path: Path) -> None:
    with make_store(tmp_path, keys=["a", "n"], filters=None) as store:
        rows = 40
        store.append(np.arange(rows) * 1.0, key=[(f"k{i}", i) for i in range(rows)], times=1.7e9 + np.arange(rows))
        with run_server(
            configure(tmp_path, "limits = { series = 50 }", STREAM.replace('["endpoint"]', '["a", "n"]'))
        ) as client:

            def query(text: str) -> httpx.Response:
                return client.get("/api/v1/query", params={"query": text, "time": 1_700_000_040})

            assert "more than 50 series" in refusal(query("latency"))
            assert len(query('latency{quantile="0.5"}').json()["data"]["result"]) == 41
            [one] = query('latency{a="k7",n="7",quantile="1"}').json()["data"]["result"]
            assert (one["metric"]["n"], one["value"][1]) == ("7", "7")
            assert query('latency{a="k7",n="8"}').json()["data"]["result"] == []
            assert len(query("rate(latency_rows_total[5m])").json()["data"]["result"]) == 41
            assert "more than 50 series" in refusal(client.get("/api/v1/series", params={"match[]": "latency"}))


def test_roles_and_streams_of_tokens(tmp_path: Path) -> None:
    streams = STREAM + STREAM.replace("latency", "secret")
    config, rng = configure(tmp_path, streams=streams), np.random.default_rng(1)
    registry = ServerRegistry(config.server.state)
    tokens = {
        name: create_token(registry, name, role, streams=limited)[1]
        for name, role, limited in (("all", "reader", None), ("one", "reader", ["latency"]), ("push", "pusher", None))
    }
    registry.close()
    with make_store(tmp_path) as store, make_store(tmp_path, "secret") as secret:
        for one in (store, secret):
            traffic(one, rng, 100, 1.7e9)
        with run_server(config) as client:

            def post(path: str, token: str | None, **form: Any) -> httpx.Response:
                headers = {} if token is None else {"Authorization": f"Bearer {tokens[token]}"}
                return client.post(f"/api/v1/{path}", data=form, headers=headers)

            def names(token: str) -> set[str]:
                found = post("query", token, query='{__name__=~".+",endpoint=""}', time="1700000010").json()["data"][
                    "result"
                ]
                listed = post("series", token, **{"match[]": '{endpoint=~".+"}'}).json()["data"]
                return {one["metric"]["stream"] for one in found} | {one["stream"] for one in listed}

            assert post("query", None, query="1").status_code == 401
            assert post("query", "push", query="1").status_code == 403
            assert names("all") == {"latency", "secret"}
            assert names("one") == {"latency"}
            for token, expected in (("all", 1), ("one", 0), ("all", 1)):  # the cache must not mix them up
                query = {"query": 'secret{endpoint="",quantile="0.5"}', "time": "1700000010"}
                headers = {"Authorization": f"Bearer {tokens[token]}"}
                found = client.get("/api/v1/query", params=query, headers=headers).json()["data"]["result"]
                assert len(found) == expected


def test_a_cached_response_is_as_new_as_the_stream(tmp_path: Path) -> None:
    with make_store(tmp_path, filters=None) as store:
        store.append([1.0], key="/pay", times=[1.7e9])
        with run_server(configure(tmp_path)) as client:
            query = {"query": 'latency{endpoint="/pay",quantile="1"}', "time": "1700000010"}
            for value in (1.0, 5.0, 9.0):
                store.append([value], key="/pay", times=[1.7e9])
                version = store.stats()["version"]
                while client.get("/api/streams/latency").json()["version"] < version:
                    pass
                for _ in range(2):
                    [one] = client.get("/api/v1/query", params=query).json()["data"]["result"]
                    assert float(one["value"][1]) == value
