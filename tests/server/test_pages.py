"""The files of the page: who may have them, how they travel, and that nothing else is given away."""

import gzip
import hashlib
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from quantide.server import pages
from quantide.server.registry import Registry
from quantide.server.tokens import create_token
from tests.server.serving import configure, serving

STATIC = Path(pages.__file__).parent / "static"
CHARTS = f"/page/{pages.CHARTS}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a server that needs tokens, without one."""
    config = configure(tmp_path_factory.mktemp("pages"))
    registry = Registry(config.server.state)
    create_token(registry, "someone", "reader")
    registry.close()
    pages.part.cache_clear()
    with serving(config) as found:
        yield found


def test_the_page_needs_no_token_and_what_it_shows_does(client: httpx.Client) -> None:
    assert client.get("/api/streams").status_code == 401
    for path in ("/", CHARTS, *(f"/page/{file.name}" for file in STATIC.iterdir())):
        assert client.get(path).status_code == 200, path
    assert client.post("/", headers={"content-type": "application/json"}).status_code == 401


def test_every_file_is_what_it_is(client: httpx.Client) -> None:
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for file in STATIC.iterdir():
        found = client.get(f"/page/{file.name}")
        assert found.content == file.read_bytes()
        assert found.headers["content-type"].split(";")[0] == kinds[file.suffix[1:]], file.name
    page = client.get("/")
    assert page.content == (STATIC / "index.html").read_bytes()
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; img-src 'self' data:;")
    assert "unsafe" not in policy


def test_long_files_are_packed_for_those_who_can_unpack(client: httpx.Client) -> None:
    data = files("plotly").joinpath("package_data", pages.CHARTS).read_bytes()
    with client.stream("GET", CHARTS, headers={"accept-encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert len(raw) < len(data) / 2
    assert hashlib.sha256(gzip.decompress(raw)).digest() == hashlib.sha256(data).digest()
    plain = client.get(CHARTS, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == data


def test_what_a_browser_has_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/")
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    policy = "content-security-policy"  # what a browser has takes the headers of this answer
    assert again.headers[policy] == first.headers[policy]
    assert first.headers["cache-control"] == "no-cache"  # it asks, and is told at once of a newer one
    assert client.get("/", headers={"if-none-match": '"other"'}).status_code == 200
    assert client.get(CHARTS).headers["etag"] != first.headers["etag"]


def test_head_tells_without_sending(client: httpx.Client) -> None:
    for path in ("/", CHARTS):
        found = client.head(path)
        assert (found.status_code, found.content) == (200, b"")
        assert found.headers["etag"] == client.get(path).headers["etag"]


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
def test_nothing_else_is_given_away(client: httpx.Client, name: str) -> None:
    found = client.get(f"/page/{name}")
    assert (found.status_code, found.json()["error"]["code"]) == (404, "not_found")


def test_charts_are_packed_before_anyone_asks(tmp_path: Path) -> None:
    pages.part.cache_clear()
    with serving(configure(tmp_path)):
        ended = time.monotonic() + 60
        while not pages.part.cache_info().currsize and time.monotonic() < ended:
            time.sleep(0.01)
        assert pages.part.cache_info().currsize == 1
