"""Addresses, tokens, and malformed or failed responses."""

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from quantide import errors
from quantide.client import Client
from quantide.client.connection import ERROR_TYPES
from quantide.errors import InvalidArgumentError, LimitError, QuantideError, ServerError, TokenError
from tests.client.scripted_server import STAY_SILENT, response, scripted_server

SECRET = "qt_0123456789abcdef"
STREAMS = response(b'{"streams": []}')


def full_text(error: BaseException) -> str:
    """Return the full text of an error and its causes."""
    texts = [repr(error), str(error)]
    return " ".join(texts + [full_text(cause) for cause in (error.__cause__, error.__context__) if cause is not None])


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1:8642", "ftp://host", "http://", "http://host:0", "http://host:99999", "http://a b", "http://h?x=1",
     "http://h/#here", "http://name:secret@host", "http://secret@host", "http://host\\x", None, 8642],
)  # fmt: skip
def test_invalid_addresses(address: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Client(address)
    assert "secret" not in full_text(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "with\nnewline", "ümlaut", "x" * 2000, 7, b"bytes"])
def test_invalid_tokens(token: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="not a token") as caught:
        Client("http://127.0.0.1:1", token=token)
    assert str(token) not in str(caught.value) or token == ""


@pytest.mark.parametrize("address", ["http://example.com", "http://10.0.0.7:8642", "http://localhost.example.com"])
def test_a_token_does_not_leave_the_machine_unencrypted(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="https") as caught:
        Client(address, token=SECRET)
    assert SECRET not in full_text(caught.value)


@pytest.mark.parametrize("address", ["https://example.com", "http://localhost:1", "http://127.0.0.9", "http://[::1]:1"])
def test_a_token_may_be_sent_there(address: str) -> None:
    with Client(address, token=SECRET) as client:
        assert SECRET not in repr(client)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "10", True, None])
def test_invalid_timeouts(timeout: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout"):
        Client(timeout=timeout)


def test_invalid_certificate_files(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(InvalidArgumentError, match="certificates"):
            Client("https://localhost", ca=str(tmp_path / name))


def test_the_token_is_in_a_header_and_nowhere_else() -> None:
    unauthorized = response(b'{"error": {"code": "token", "message": "it has expired"}}', status="401 Unauthorized")
    with scripted_server([unauthorized]) as server, Client(server.address, token=SECRET) as client:
        with pytest.raises(TokenError, match="expired") as caught:
            client.streams()
        assert SECRET not in full_text(caught.value)
        head, *_ = server.requests
        assert f"authorization: bearer {SECRET}" in head.decode().lower()
        assert SECRET not in head.decode().splitlines()[0]


def test_redirects_are_not_followed() -> None:
    with scripted_server([STREAMS]) as other:
        redirect = response(b"", status="307 Temporary Redirect", more=[f"Location: {other.address}/api/streams"])
        with (
            scripted_server([redirect]) as server,
            Client(server.address, token=SECRET) as client,
            pytest.raises(ServerError, match="redirects to"),
        ):
            client.streams()
        assert other.requests == []


def test_proxies_of_the_environment_are_not_used_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server([STREAMS]) as server, scripted_server([STREAMS]) as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.address)
        with Client(server.address, token=SECRET) as client:
            assert client.streams() == []
        assert proxy.requests == []


@pytest.mark.parametrize("code", sorted(ERROR_TYPES))
def test_every_code_is_the_error_of_that_name(code: str) -> None:
    body = json.dumps({"error": {"code": code, "message": "so it is"}}).encode()
    with (
        scripted_server([response(body, status="400 Bad Request")]) as server,
        Client(server.address) as client,
        pytest.raises(QuantideError, match="so it is") as caught,
    ):
        client.streams()
    assert type(caught.value) is ERROR_TYPES[code]


def test_every_error_has_a_code() -> None:
    named = [kind for name, kind in vars(errors).items() if name.endswith("Error")]
    assert set(ERROR_TYPES.values()) == set(named)
    assert ERROR_TYPES["limit"] is LimitError


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (response(b'{"error": {"code": "wrong_host", "message": "not me"}}', status="421 No"), "not me .wrong_host."),
        (response(b"<html>Bad Gateway</html>", "text/html", "502 Bad Gateway"), "502"),
        (response(b'{"error": "no"}', status="500 No"), "500"),
        (response(b"[" * 100_000, status="500 No"), "500"),
        (response(b"<html>Welcome</html>", "text/html"), "not JSON"),
        (response(b'{"streams": ['), "not JSON"),
        (response(b"[" * 100_000), "not JSON"),
        (response(b"\xff\xfe\xff"), "not JSON"),
        (response(b"[]"), "not understood"),
        (response(b"{}"), "not understood"),
        (response(b'{"streams": 7}'), "not understood"),
        (response(b'{"streams": [{"ready": true, "value_type": "float128"}]}'), "not understood"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "request to .* failed|broke"),
        (b"", "broke"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "broke"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"str\r\n", "broke"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "broke"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "request to .* failed"),
    ],
)  # fmt: skip
def test_malformed_responses_are_server_errors(answer: bytes, message: str) -> None:
    with (
        scripted_server([answer]) as server,
        Client(server.address) as client,
        pytest.raises(ServerError, match=message),
    ):
        client.streams()


ANSWERS = b'{"value_type": "float64", "version": 1, "mode": "quick", "answers": %b}'
ANSWER = (
    b'{"phi": 0.5, "value": %b, "target": 1, "rank_lo": 1, "rank_hi": 1, "n": 1, "error": 0, '
    b'"blocks_read": 0, "span": {}}'
)


@pytest.mark.parametrize(
    "answers",
    [b"[]", b"7", b"[7]", b"[{}]", b"[%b]" % (ANSWER % b'"much"'), b"[%b]" % (ANSWER % b"null"),
     b"[%b]" % (ANSWER % b"true"), b"[%b, %b]" % (ANSWER % b"1", ANSWER % b"2")],
)  # fmt: skip
def test_malformed_answers(answers: bytes) -> None:
    with (
        scripted_server([response(ANSWERS % answers)]) as server,
        Client(server.address) as client,
        pytest.raises(ServerError, match="not understood"),
    ):
        client.quantile("latency", 0.5)


def test_a_server_that_never_answers() -> None:
    with scripted_server([STAY_SILENT]) as server, Client(server.address, timeout=0.1) as client:
        with pytest.raises(ServerError, match="in time"):
            client.streams()
        assert len(server.requests) == 1


def test_a_server_that_is_not_there() -> None:
    with scripted_server([STAY_SILENT]) as server:
        address = server.address
    with (
        Client(address) as client,
        pytest.raises(ServerError, match=r"cannot be reached \(.*Connection refused") as error,
    ):
        client.streams()
    shown = "".join(traceback.format_exception(error.value))
    assert shown.count("Traceback") == 1, "tracebacks of httpx would bury the message"


def test_a_read_is_retried_when_the_connection_broke() -> None:
    with scripted_server([b""], [STREAMS]) as server, Client(server.address) as client:
        assert client.streams() == []
        assert len(server.requests) == 2


def test_a_change_is_never_sent_twice() -> None:
    with scripted_server([b""], [response(b"{}")]) as server, Client(server.address) as client:
        with pytest.raises(ServerError, match="look before"):
            client.change("POST", "/api/queries", {})
        assert len(server.requests) == 1


def test_httpx_is_imported_lazily_and_its_absence_names_the_extra() -> None:
    check = (
        "import sys, quantide; assert 'httpx' not in sys.modules; sys.modules['httpx'] = None\n"
        "try: import quantide.client\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert 'pip install "quantide[client]"' in done.stdout
