"""docs/api.md describes every route, parameter, error and setting; its examples are real responses."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from quantide.config import read_config
from quantide.config.server_config import Limits, ServerConfig, Webhooks
from quantide.server.app import make_app
from quantide.server.http.response_json import ERROR_STATUS, PROBLEM_STATUS
from tests.server.running_server import configure, make_store, run_server
from tests.shapes import shape

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "api.md").read_text(encoding="utf-8")
SECTIONS = {
    f"{method} {path}": text
    for method, path, text in re.findall(r"^### `([A-Z]+) ([^`]+)`\n(.*?)(?=^##|\Z)", TEXT, re.S | re.M)
}
EXAMPLES = re.findall(r"^```bash\n(curl .*?)```\n+(?:```(?:json|text)\n(.*?)```)?", TEXT, re.S | re.M)
ADDRESS = "http://127.0.0.1:8642"
UNLISTED = ("/", "/page/{name}", "/docs", "/docs/start.js", "/docs/{name}", "/openapi.json")  # for browsers


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The store of the examples: ten minutes of two pages, and a year before."""
    folder, rng = tmp_path_factory.mktemp("shop"), np.random.default_rng(9)
    with make_store(folder, eps=0.005) as store:
        for day, minutes in (("2025-06-01", 60), ("2026-01-31", 10)):
            rows = minutes * 60
            moments = np.datetime64(f"{day}T11:50:00", "us") + rng.integers(0, minutes * 6 * 10**7, rows).astype(
                "m8[us]"
            )
            store.append(
                np.round(rng.lognormal(3, 1, rows), 1),
                key=rng.choice(["/cart", "/pay"], rows),
                times=pa.array(moments).cast(pa.timestamp("us", "UTC")),
                filters={"errors": rng.random(rows) < 0.02},
            )
            if day < "2026":
                store.end_step()
        with run_server(configure(folder)) as result:
            yield result


def parse_curl(command: str) -> tuple[str, str, dict[str, str], str | None]:
    """Parse a curl command: method, URL, headers, body."""
    words = shlex.split(command.replace("\\\n", " "))
    headers, body, method, address = {}, None, None, ""
    rest = iter(words[1:])
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(rest)
        elif word == "-X":
            method = next(rest)
        elif not word.startswith("-"):
            address = word
    assert address.startswith(ADDRESS), command
    return method or ("GET" if body is None else "POST"), address.removeprefix(ADDRESS), headers, body


def test_examples_are_real_responses(shop: httpx.Client) -> None:
    """Run the examples in the order of the page: each uses the results of those before."""
    done = 0
    for command, expected in EXAMPLES:
        method, address, headers, body = parse_curl(command)
        if "$TOKEN" in command:  # this server has no tokens; test_security.py has
            continue
        with shop.stream(method, address, headers=headers, content=body) as result:
            assert result.is_success, (command, result.read())
            if result.headers.get("content-type", "").startswith("text/event-stream"):
                assert expected, command
                lines = result.iter_lines()
                first = [line for line in expected.splitlines() if line.startswith("event:")]
                assert next(line for line in lines if line.startswith("event:")) == first[0]
                continue
            text = result.read().decode("utf-8", "replace")
        if expected and expected.lstrip().startswith("{"):
            assert shape(json.loads(text)) == shape(json.loads(expected)), command
        elif expected:
            assert expected.splitlines()[0] in text
        done += 1
    assert done > 15


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return every route of OpenAPI by its method and path."""
    app = make_app(configure(tmp_path_factory.mktemp("described")))
    manual = app.openapi()
    app.state.service.close()
    schemas = manual["components"]["schemas"]
    result = {}
    for path, methods in manual["paths"].items():
        for method, route in methods.items():
            names = {one["name"] for one in route.get("parameters", ())}
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            body = schemas[body["$ref"].split("/")[-1]] if "$ref" in body else body
            result[f"{method.upper()} {path}"] = {"names": names | set(body.get("properties", ()))}
    return result


def test_every_route_has_a_section_and_no_other_has(described: dict[str, Any]) -> None:
    assert set(SECTIONS) - {"GET /", "GET /docs", "GET /openapi.json"} == set(described)
    for path in UNLISTED:
        assert f"`{path}`" in TEXT or f"`GET {path}`" in TEXT


def test_every_route_is_documented(tmp_path: Path) -> None:
    """The page documents every route, including those outside OpenAPI."""
    app = make_app(configure(tmp_path))
    app.state.service.close()
    listed = {path.split(" ", 1)[1] for path in SECTIONS} | set(UNLISTED)
    result = set(paths_of(app.routes))
    assert {"/docs", "/api/events", "/openapi.json"} <= result <= listed


def paths_of(routes: Any) -> Iterator[str]:
    for route in routes:
        inner = getattr(getattr(route, "original_router", None), "routes", None)
        if inner is not None:
            yield from paths_of(inner)
        else:
            yield route.path


def test_every_parameter_is_in_its_section(described: dict[str, Any]) -> None:
    missing = [
        (route, name)
        for route, about in described.items()
        for name in about["names"]
        if not re.search(rf"`{re.escape(name)}`", SECTIONS[route])
    ]
    assert missing == []


def test_no_parameter_is_made_up(described: dict[str, Any]) -> None:
    for route, text in SECTIONS.items():
        table = re.search(r"^\| parameter \|.*?\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
        if table is not None:
            cells = [row.split("|")[1] for row in table[1].splitlines()]
            result = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
            assert result == described[route]["names"], route


def test_every_get_has_an_example() -> None:
    shown = {re.sub(r"\?.*", "", parse_curl(command)[1]) for command, _ in EXAMPLES}
    for route in SECTIONS:
        method, path = route.split(" ", 1)
        if method == "GET":
            pattern = re.compile(re.sub(r"\{[a-z]+\}", "[^/]+", re.sub(r"([.])", r"\\\1", path)))
            assert any(pattern.fullmatch(one) for one in shown), route


def test_every_metric_is_documented(shop: httpx.Client) -> None:
    there = set(re.findall(r"^# TYPE (quantide_\w+)", shop.get("/metrics").text, re.M))
    result = set(re.findall(r"`(quantide_\w+)`", SECTIONS["GET /metrics"]))
    assert {name for name in there if not name.endswith("_created")} == result


def test_every_error_is_documented_with_its_status() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \| (.+) \|$", TEXT, re.M)
    result = {kind.code: status for kind, status in ERROR_STATUS.items()} | PROBLEM_STATUS
    assert {code: int(status) for code, status, _ in rows} == result
    assert all(len(what) > 20 for _, _, what in rows)


def test_every_setting_is_documented_with_its_default() -> None:
    for kind, table in ((ServerConfig, "[server]"), (Limits, "[server.limits]"), (Webhooks, "[server.webhooks]")):
        text = re.search(rf"^\| `{re.escape(table)}` \|.*?(?=\n\n)", TEXT, re.M | re.S)
        assert text is not None, table
        rows = [row.split("|") for row in text[0].splitlines()[2:]]
        result = {name: row[2].strip() for row in rows for name in re.findall(r"`([a-z_]+)`", row[1])}
        assert list(result) == [field.name for field in fields(kind)]
        for name, default in vars(Limits()).items() if kind is Limits else ():
            assert result[name] in (f"{default:,}", f'`"{default // 10**6} MB"`'), name
    for shown in (f"`{ServerConfig.port}`", f'`"{ServerConfig.host}"`', f'`"{ServerConfig.memory // 10**9} GB"`'):
        assert shown in TEXT


def test_the_configuration_can_be_read(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", TEXT, re.S)
    (tmp_path / "quantide.toml").write_text(example)
    read = read_config(tmp_path / "quantide.toml").server
    assert (read.port, read.memory, read.limits.body, read.secure) == (8642, 4 * 10**9, 8 * 10**6, True)


def test_links_lead_somewhere() -> None:
    for name, _, part in re.findall(r"\]\(([a-z-]+\.md)?(#([a-z0-9-]+))?\)", TEXT):
        page = (DOCS / name).read_text(encoding="utf-8") if name else TEXT
        heads = [
            re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", page, re.M)
        ]
        assert not part or part in heads, (name, part)
