"""The Grafana dashboard of the examples: each query of it returns data of a real server."""

import json
import re
from pathlib import Path
from typing import Any

from tests.prometheus.conftest import Shop

DASHBOARD = json.loads((Path(__file__).parents[2] / "examples" / "grafana" / "latency.json").read_text("utf-8"))
VARIABLES = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]


def substitute(text: str, chosen: dict[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda match: chosen[match[1]], text)


def run(shop: Shop, chosen: dict[str, str]) -> dict[tuple[str, str], list[Any]]:
    """Return the series of each query, as Grafana requests them."""
    results = {}
    for title, target in TARGETS:
        form = {"query": substitute(target["expr"], chosen), "start": shop.now - 100, "end": shop.now, "step": 5}
        response = shop.client.post("/api/v1/query_range", data=form)
        assert response.status_code == 200, response.text
        results[title, target["refId"]] = response.json()["data"]["result"]
    return results


def test_every_query_returns_data(shop: Shop) -> None:
    windows = VARIABLES["window"]["query"].split(",")
    for window in [one for one in windows if one in ("1m", "5m")]:
        results = run(shop, {"endpoint": VARIABLES["endpoint"]["allValue"], "window": window})
        assert len(results) == len(TARGETS) >= 5
        for name, series in results.items():
            assert series, name
            assert all(len(one["values"]) == 21 for one in series), name
    sizes = [len(series) for series in results.values()]
    assert sizes == [9, 1, 1, 1, 3], "three quantiles of three endpoints, a band, three rates"


def test_the_variable_lists_endpoints_that_select(shop: Shop) -> None:
    match = re.fullmatch(r"label_values\((\w+), (\w+)\)", VARIABLES["endpoint"]["query"]["query"])
    assert match is not None
    values = shop.data(f"label/{match[2]}/values", **{"match[]": match[1]})
    assert values == ["/a.b", "/cart", "/pay"]
    chosen = "(" + "|".join(value.replace(".", "\\\\.") for value in values[:2]) + ")"  # as Grafana joins and escapes
    results = run(shop, {"endpoint": chosen, "window": "1m"})
    assert {one["metric"]["endpoint"] for one in next(iter(results.values()))} == set(values[:2])


def test_legends_name_labels_of_the_series(shop: Shop) -> None:
    results = run(shop, {"endpoint": ".+", "window": "1m"})
    for title, target in TARGETS:
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert all(label in one["metric"] for one in results[title, target["refId"]])
    assert {panel["datasource"]["type"] for panel in DASHBOARD["panels"]} == {"prometheus"}
