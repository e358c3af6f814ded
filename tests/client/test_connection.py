"""Addresses, tokens, and servers that answer what they should not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quantide import errors
from quantide.client import Client
from quantide.client.problems import KINDS
from quantide.errors import InvalidArgumentError, LimitError, QuantideError, ServerError, TokenError
from tests.client.raw import HOLD, raw, response

SECRET = "qt_0123456789abcdef"
STREAMS = response(b'{"streams": []}')


def everything(error: BaseException) -> str:
    """All that an error shows, with what caused it."""
    said = [repr(error), str(error)]
    return " ".join(said + [everything(cause) for cause in (error.__cause__, error.__context__) if cause is not None])


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1:8642", "ftp://host", "http://", "http://host:0", "http://host:99999", "http://a b", "http://h?x=1",
     "http://h/#here", "http://name:secret@host", "http://secret@host", "http://host\\x", None, 8642],
)  # fmt: skip
def test_addresses_that_are_none(address: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Client(address)
    assert "secret" not in everything(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "with\nnewline", "ümlaut", "x" * 2000, 7, b"bytes"])
def test_tokens_that_are_none(token: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="not a token") as caught:
        Client("http://127.0.0.1:1", token=token)
    assert str(token) not in str(caught.value) or token == ""


@pytest.mark.parametrize("address", ["http://example.com", "http://10.0.0.7:8642", "http://localhost.example.com"])
def test_a_token_does_not_leave_the_machine_unencrypted(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="https") as caught:
        Client(address, token=SECRET)
    assert SECRET not in everything(caught.value)


@pytest.mark.parametrize("address", ["https://example.com", "http://localhost:1", "http://127.0.0.9", "http://[::1]:1"])
def test_a_token_may_go_there(address: str) -> None:
    with Client(address, token=SECRET) as client:
        assert SECRET not in repr(client)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "10", True, None])
def test_timeouts_that_are_none(timeout: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout"):
        Client(timeout=timeout)


def test_a_file_of_certificates_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(InvalidArgumentError, match="certificates"):
            Client("https://localhost", ca=str(tmp_path / name))


def test_the_token_is_in_a_header_and_nowhere_else() -> None:
    told = response(b'{"error": {"code": "token", "message": "it has expired"}}', status="401 Unauthorized")
    with raw([told]) as server, Client(server.address, token=SECRET) as client:
        with pytest.raises(TokenError, match="expired") as caught:
            client.streams()
        assert SECRET not in everything(caught.value)
        head, *_ = server.requests
        assert f"authorization: bearer {SECRET}" in head.decode().lower()
        assert SECRET not in head.decode().splitlines()[0]


def test_redirects_are_not_followed() -> None:
    with raw([STREAMS]) as other:
        told = response(b"", status="307 Temporary Redirect", more=[f"Location: {other.address}/api/streams"])
        with (
            raw([told]) as server,
            Client(server.address, token=SECRET) as client,
            pytest.raises(ServerError, match="sends on to"),
        ):
            client.streams()
        assert other.requests == []


def test_proxies_of_the_environment_are_not_used_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw([STREAMS]) as server, raw([STREAMS]) as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.address)
        with Client(server.address, token=SECRET) as client:
            assert client.streams() == []
        assert proxy.requests == []


@pytest.mark.parametrize("code", sorted(KINDS))
def test_every_code_is_the_error_of_that_name(code: str) -> None:
    body = json.dumps({"error": {"code": code, "message": "so it is"}}).encode()
    with (
        raw([response(body, status="400 Bad Request")]) as server,
        Client(server.address) as client,
        pytest.raises(QuantideError, match="so it is") as caught,
    ):
        client.streams()
    assert type(caught.value) is KINDS[code]


def test_codes_are_those_of_all_errors() -> None:
    named = [kind for name, kind in vars(errors).items() if name.endswith("Error")]
    assert set(KINDS.values()) == set(named)
    assert KINDS["limit"] is LimitError


@pytest.mark.parametrize(
    ("answer", "says"),
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
        (b"SSH-2.0-OpenSSH_9.6\r\n", "cannot be asked|broke"),
        (b"", "broke"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "broke"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"str\r\n", "broke"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "broke"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "cannot be asked"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error_of_the_server(answer: bytes, says: str) -> None:
    with raw([answer]) as server, Client(server.address) as client, pytest.raises(ServerError, match=says):
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
def test_answers_that_make_no_sense(answers: bytes) -> None:
    with (
        raw([response(ANSWERS % answers)]) as server,
        Client(server.address) as client,
        pytest.raises(ServerError, match="not understood"),
    ):
        client.quantile("latency", 0.5)


def test_a_server_that_never_answers() -> None:
    with raw([HOLD]) as server, Client(server.address, timeout=0.1) as client:
        with pytest.raises(ServerError, match="in time"):
            client.streams()
        assert len(server.requests) == 1


def test_a_server_that_is_not_there() -> None:
    with raw([HOLD]) as server:
        address = server.address
    with Client(address) as client, pytest.raises(ServerError, match="cannot be reached"):
        client.streams()


def test_a_question_is_asked_again_when_the_connection_broke() -> None:
    with raw([b""], [STREAMS]) as server, Client(server.address) as client:
        assert client.streams() == []
        assert len(server.requests) == 2


def test_a_change_is_never_sent_twice() -> None:
    with raw([b""], [response(b"{}")]) as server, Client(server.address) as client:
        with pytest.raises(ServerError, match="look before"):
            client.change("POST", "/api/queries", {})
        assert len(server.requests) == 1


def test_httpx_is_imported_when_it_is_used_and_missed_by_name() -> None:
    check = (
        "import sys, quantide; assert 'httpx' not in sys.modules; sys.modules['httpx'] = None\n"
        "try: import quantide.client\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert 'pip install "quantide[client]"' in done.stdout
