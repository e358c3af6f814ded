"""Files of the page: public, compressed and cached; no other file is served."""

import gzip
import hashlib
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from quantide.server.http.tokens import create_token
from quantide.server.routes import page_routes
from quantide.server.server_registry import ServerRegistry
from tests.server.running_server import configure, run_server

STATIC = Path(page_routes.__file__).parent.parent / "static"
CHARTS = f"/page/{page_routes.PLOTLY}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client without a token, of a server that needs one."""
    config = configure(tmp_path_factory.mktemp("pages"))
    registry = ServerRegistry(config.server.state)
    create_token(registry, "someone", "reader")
    registry.close()
    page_routes.read_page_file.cache_clear()
    with run_server(config) as result:
        yield result


def test_the_page_needs_no_token_and_its_data_does(client: httpx.Client) -> None:
    assert client.get("/api/streams").status_code == 401
    for path in ("/", CHARTS, *(f"/page/{file.name}" for file in STATIC.iterdir())):
        assert client.get(path).status_code == 200, path
    assert client.post("/", headers={"content-type": "application/json"}).status_code == 401


def test_media_types(client: httpx.Client) -> None:
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    style = page_routes.find_map_style()  # an element of this id keeps plotly.js from adding a style
    assert len(style) == 64
    for file in STATIC.iterdir():
        response = client.get(f"/page/{file.name}")
        assert response.content.replace(style, b"map-style") == file.read_bytes()
        assert response.headers["content-type"].split(";")[0] == kinds[file.suffix[1:]], file.name
    page = client.get("/")
    assert b'id="%s"' % style in page.content
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; img-src 'self' data:;")
    assert "unsafe" not in policy


def test_long_files_are_compressed_for_clients_that_accept_it(client: httpx.Client) -> None:
    data = files("plotly").joinpath("package_data", page_routes.PLOTLY).read_bytes()
    with client.stream("GET", CHARTS, headers={"accept-encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert len(raw) < len(data) / 2
    assert hashlib.sha256(gzip.decompress(raw)).digest() == hashlib.sha256(data).digest()
    plain = client.get(CHARTS, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == data


def test_unchanged_files_are_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/")
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    policy = "content-security-policy"  # a browser applies the headers of this response to its copy
    assert again.headers[policy] == first.headers[policy]
    assert first.headers["cache-control"] == "no-cache"  # it revalidates, and gets a newer one at once
    assert client.get("/", headers={"if-none-match": '"other"'}).status_code == 200
    assert client.get(CHARTS).headers["etag"] != first.headers["etag"]


def test_head_sends_headers_only(client: httpx.Client) -> None:
    for path in ("/", CHARTS):
        response = client.head(path)
        assert (response.status_code, response.content) == (200, b"")
        assert response.headers["etag"] == client.get(path).headers["etag"]


@pytest.mark.parametrize(
    "name",
    [
        "x.js",
        "%2e%2e",
        "..%2fpages.py",
        "..%2f..%2fserver%2fstatic%2findex.html",
        "%2fetc%2fpasswd",
        "index.html%00",
        "INDEX.HTML",
        "",
        "package_data%2fplotly.min.js",
    ],
)
def test_no_other_file_is_served(client: httpx.Client, name: str) -> None:
    response = client.get(f"/page/{name}")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


def test_charts_are_compressed_before_the_first_request(tmp_path: Path) -> None:
    page_routes.read_page_file.cache_clear()
    with run_server(configure(tmp_path)):
        ended = time.monotonic() + 60
        while not page_routes.read_page_file.cache_info().currsize and time.monotonic() < ended:
            time.sleep(0.01)
        assert page_routes.read_page_file.cache_info().currsize == 1
