"""API documentation at /docs: it describes every route, and loads nothing from other servers."""

import re
from typing import Any

import httpx

LOADED = re.compile(r"(?:src|href|action)\s*=\s*[\"']?(?:https?:)?//|url\(\s*[\"']?(?:https?:)?//|@import")
FOREIGN = re.compile(LOADED.pattern + "|https?://")  # pictures and code name standards by URLs that are never requested


def test_the_page_loads_nothing_from_other_servers(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert not FOREIGN.search(page.text)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert policy.count("img-src 'self' data:;") == 1, "pictures of the style sheet are in it"
    parts = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
    assert len(parts) == 3
    for part in parts:
        response = client.get(part)
        assert response.status_code == 200
        assert response.headers["content-type"].split(";")[0] == (
            "text/css" if part.endswith("css") else "text/javascript"
        )
        if "bundle" not in part:
            assert not LOADED.search(response.text)
    assert 'url: "/openapi.json"' in client.get("/docs/start.js").text
    assert "validatorUrl: null" in client.get("/docs/start.js").text


def test_no_other_file_is_served(client: httpx.Client) -> None:
    for name in ("x", "%2e%2e", "..%2f__init__.py", "%2fetc%2fpasswd", "index.html", "swagger-ui.css%00"):
        response = client.get(f"/docs/{name}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


def test_the_description(client: httpx.Client) -> None:
    response = client.get("/openapi.json")
    assert response.status_code == 200
    assert not FOREIGN.search(response.text.replace('"https://hooks.example.com', '"'))
    paths: dict[str, dict[str, Any]] = response.json()["paths"]
    for path, methods in paths.items():
        for method, described in methods.items():
            assert described["summary"], (method, path)
            assert {"400", "404", "503"} <= set(described["responses"]), (method, path)
            for parameter in described.get("parameters", ()):
                assert parameter["in"] == "path" or parameter.get("description"), (path, parameter["name"])


def test_examples_have_the_shape_of_answers(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()["components"]["schemas"]
    result = {
        "QuantilesModel": "/api/streams/latency/quantiles?phi=0.5&key=/pay&window=within:5s",
        "RanksModel": "/api/streams/latency/rank?value=5&key=/pay&window=within:5s",
        "CurveModel": "/api/streams/latency/cdf?points=2&key=/pay&window=within:5s",
        "TimeSeriesListModel": "/api/streams/latency/lines?phi=0.5&key=/pay&window=within:5s&over=5s&points=2",
        "ComparisonModel": "/api/streams/latency/compare?key=/pay&window=within:5s&against=latency:/pay",
        "QQPlotModel": "/api/qq?x=latency:/pay@within:5s&y=latency:/pay&points=2",
    }
    for name, address in result.items():
        assert _shape(described[name]["example"]) == _shape(client.get(address).json()), name


def _shape(body: Any) -> Any:
    """Return the names in a body, without null fields, which examples in the description cannot have."""
    if isinstance(body, list):
        return [_shape(body[0])]
    return {name: _shape(part) for name, part in body.items() if part is not None} if isinstance(body, dict) else None
