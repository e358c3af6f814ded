"""Webhooks against a real receiver on a socket: signed, in order, retried, and sent to allowed URLs only."""

import hashlib
import hmac
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide.config.server_config import Webhooks as Settings
from quantide.errors import ConfigError, InvalidArgumentError, StorageError
from quantide.server.alarms import webhook_delivery
from quantide.server.alarms.webhook_delivery import WebhookOutbox, WebhookSender
from quantide.server.server_registry import ServerRegistry
from quantide.server.webhooks import check_url, read_secret
from tests.server.running_server import configure, make_store, run_server

SECRET = b"0123456789abcdef-test"
PRIVATE = "what only the receiver knows"


class Receiver:
    """Responds with the given statuses, then repeats the last; None: no response."""

    def __init__(self) -> None:
        self.statuses: list[int | None] = [200]
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers.items()), body))
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                if status is None:
                    receiver.released.wait(30)
                    return
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Set-Cookie", "a=b")
                self.send_header("Content-Length", str(len(PRIVATE)))
                self.end_headers()
                self.wfile.write(PRIVATE.encode())

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that went away
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    result = Receiver()
    yield result
    result.close()


class Post:
    """A registry, an outbox, and a clock that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 1_000_000.0
        self.registry = ServerRegistry(str(folder))
        self.outbox = WebhookOutbox(self.registry)

    def put(self, url: str, alarm: int = 1, **body: Any) -> None:
        with self.registry.transaction() as write:
            self.outbox.put(write, alarm, url, body, self.now)

    @contextmanager
    def sending(self, *allow: str) -> Iterator[WebhookSender]:
        path = self.folder / "secret"
        path.write_bytes(SECRET + b"\n")
        path.chmod(0o600)
        result = WebhookSender(self.outbox, Settings(allow, str(path)), lambda: self.now)
        result.start()
        try:
            yield result
        finally:
            result.close()

    def last(self, alarm: int = 1) -> dict[str, Any]:
        row = self.outbox.last_of(alarm)
        return {} if row is None else dict(row)


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    result = Post(tmp_path)
    yield result
    result.registry.close()


def until(so: Callable[[], Any]) -> None:
    """Wait for a condition; fail after a time."""
    end = time.monotonic() + 20
    while not so():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


def test_a_delivery_is_signed(post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # the environment does not redirect alarms
    post.put(f"{receiver.origin}/hook?x=1", state="certain", firing=True)
    with post.sending(receiver.origin) as webhooks:
        until(lambda: post.last()["due"] is None)
        assert webhooks.delivered == 1
    [(path, headers, body)] = receiver.requests
    stamp = headers["Quantide-Timestamp"]
    expected = hmac.new(SECRET, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["Quantide-Signature"] == f"sha256={expected}"
    assert path == "/hook?x=1"
    assert stamp == "1000000"
    assert json.loads(body) == {"delivery": headers["Quantide-Delivery"], "state": "certain", "firing": True}
    assert post.last()["error"] is None


def test_a_delivery_is_retried_with_the_same_id(post: Post, receiver: Receiver) -> None:
    receiver.statuses = [500, 301, 200]
    post.put(receiver.origin)
    post.put(receiver.origin, second=True)
    with post.sending(receiver.origin):
        until(lambda: post.outbox.due(2e9)[0]["attempts"] == 1)
        assert post.outbox.due(post.now + 0.9) == []  # the second waits for the first
        post.now += 1
        until(lambda: post.outbox.due(2e9)[0]["attempts"] == 2)
        post.now += 2
        until(lambda: post.last()["due"] is None)
    names = [headers["Quantide-Delivery"] for _, headers, _ in receiver.requests]
    assert [path for path, _, _ in receiver.requests] == ["/"] * 4  # a redirect is not followed
    assert names[0] == names[1] == names[2] != names[3]
    assert [headers["Quantide-Timestamp"] for _, headers, _ in receiver.requests][:3] == [
        "1000000",
        "1000001",
        "1000003",
    ]
    assert "second" in json.loads(receiver.requests[3][2])
    assert "Cookie" not in receiver.requests[3][1]


@pytest.mark.parametrize("status", [302, 404, 500, 599])
def test_only_the_status_of_a_response_is_shown(post: Post, receiver: Receiver, status: int) -> None:
    receiver.statuses = [status]
    post.put(receiver.origin)
    with post.sending(receiver.origin) as webhooks:
        until(lambda: post.last()["attempts"])
        assert webhooks.failed == 1
    error = post.last()["error"]
    assert error.startswith(f"answered {status}")
    assert PRIVATE not in error


def test_a_response_that_is_not_http_is_not_shown(post: Post) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"-ERR secret of redis\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        post.put(origin)
        with post.sending(origin):
            until(lambda: post.last()["attempts"])
        thread.join()
    assert post.last()["error"] == "the connection broke, or the answer was not HTTP"


def test_a_receiver_that_is_not_there(post: Post) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        origin = f"http://127.0.0.1:{taken.getsockname()[1]}"
    post.put(origin)
    with post.sending(origin):
        until(lambda: post.last()["attempts"])
    assert post.last()["error"] == "no connection"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate")
def test_a_receiver_with_an_untrusted_certificate(post: Post, receiver: Receiver, tmp_path: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "crt")]
    subprocess.run([*command, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    origin = receiver.origin.replace("http:", "https:")
    post.put(origin)
    with post.sending(origin):
        until(lambda: post.last()["attempts"])
    assert post.last()["error"] == "no connection"
    assert receiver.requests == []


def test_a_receiver_that_hangs_delays_no_other(post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = Receiver()
    hanging.statuses = [None]
    for alarm in range(2 * webhook_delivery.AT_ONCE):
        post.put(hanging.origin, alarm)
    post.put(receiver.origin, 100)
    with post.sending(hanging.origin, receiver.origin):
        until(lambda: post.last(100)["due"] is None)
        until(lambda: len(hanging.requests) == webhook_delivery.AT_ONCE)
    # close() did not wait; the next start sends them
    assert post.outbox.count_pending() == 2 * webhook_delivery.AT_ONCE
    hanging.close()


def test_a_delivery_in_flight_is_not_sent_twice(post: Post, receiver: Receiver) -> None:
    hanging = Receiver()
    hanging.statuses = [None]
    post.put(hanging.origin)
    with post.sending(hanging.origin, receiver.origin) as webhooks:
        until(lambda: hanging.requests)
        for alarm in (2, 3, 4):  # the outbox is searched each time
            post.put(receiver.origin, alarm)
            webhooks.notify()
            until(lambda: not post.outbox.count_pending() - 1)
        assert len(hanging.requests) == 1
    hanging.close()


def test_a_receiver_that_drips_is_given_no_more_time(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", 0.3)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                while not ended.wait(0.02):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        post.put(origin)
        with post.sending(origin):
            until(lambda: post.last()["attempts"])
        ended.set()
        thread.join()
    assert post.last()["error"].startswith("no answer")


def test_deliveries_left_by_a_crash_are_sent_by_the_next_server(post: Post, receiver: Receiver) -> None:
    post.put(receiver.origin, number=7)
    again = Post(post.folder)  # the first never sent
    with again.sending(receiver.origin):
        until(lambda: again.last()["due"] is None)
    again.registry.close()
    assert [json.loads(body)["number"] for _, _, body in receiver.requests] == [7]


def test_urls_that_are_not_allowed_any_more_get_nothing(post: Post, receiver: Receiver) -> None:
    post.put(receiver.origin)
    with post.sending("https://hooks.example.com"):
        until(lambda: post.last()["attempts"])
    assert receiver.requests == []
    assert "configuration" in post.last()["error"]


def test_a_delivery_is_given_up_in_the_end(post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "MAX_ATTEMPTS", 2)
    receiver.statuses = [500, 500, 200]
    post.put(receiver.origin)
    post.put(receiver.origin, second=True)
    with post.sending(receiver.origin):
        until(lambda: len(receiver.requests) == 1 and post.outbox.due(2e9)[0]["attempts"] == 1)
        post.now += 1
        until(lambda: post.last()["due"] is None)
    assert post.outbox.given_up == 1
    assert len(receiver.requests) == 3


def test_a_day_of_attempts_and_then_no_more(post: Post) -> None:
    assert 0.9 < sum(webhook_delivery.retry_pause(n) for n in range(1, webhook_delivery.MAX_ATTEMPTS)) / 86_400 < 1.1
    assert webhook_delivery.retry_pause(10**6) == webhook_delivery.MAX_PAUSE


def test_a_clock_that_is_set_back_does_not_delay_deliveries(post: Post) -> None:
    post.put("http://a")
    assert len(post.outbox.due(post.now)) == 1
    post.outbox.record_failure(post.last()["id"], 1, "x", post.now)
    assert post.outbox.due(post.now) == post.outbox.due(post.now + 0.9) == []
    assert len(post.outbox.due(post.now + 1)) == 1
    assert len(post.outbox.due(post.now - 86_400)) == 1


def test_a_registry_that_cannot_be_written_loses_no_delivery(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "REGISTRY_RETRY", 0.01)
    broken, sent = [StorageError("the disk is full")], post.outbox.record_success

    def note(id: str) -> None:
        if broken:
            raise broken.pop()
        sent(id)

    monkeypatch.setattr(post.outbox, "record_success", note)
    post.put(receiver.origin)
    with post.sending(receiver.origin):
        until(lambda: post.last()["due"] is None)
    names = [headers["Quantide-Delivery"] for _, headers, _ in receiver.requests]
    assert len(names) == 2
    assert len(set(names)) == 1


def test_only_so_many_wait_for_one_alarm(post: Post) -> None:
    for number in range(webhook_delivery.MAX_PENDING + 5):
        post.put("http://a", number=number)
        post.put("http://a", alarm=2, number=number) if number < 3 else None
    waiting = post.registry.rows("SELECT body FROM deliveries WHERE alarm = 1 ORDER BY rowid")
    numbers = [json.loads(row["body"])["number"] for row in waiting]
    assert numbers == list(range(5, webhook_delivery.MAX_PENDING + 5))
    assert post.outbox.given_up == 5
    assert post.outbox.count_pending() == webhook_delivery.MAX_PENDING + 3


def test_only_the_last_delivery_is_stored(post: Post) -> None:
    for number in range(3):
        post.put("http://a", number=number)
        post.outbox.record_success(post.last()["id"])
    assert len(post.registry.rows("SELECT * FROM deliveries")) == 1
    assert post.last()["attempts"] == 1


ALLOW = ("https://hooks.example.com", "http://10.0.0.1:8080", "http://[::1]:9")


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "https://hooks.example.com/",
        "https://hooks.example.com?x=1",
        "https://HOOKS.Example.com/a/b?c=d&e=%20",
        "HTTPS://hooks.example.com/a",
        "https://hooks.example.com/@me?to=a@b",
        "http://10.0.0.1:8080/x",
        "http://[::1]:9/x",
    ],
)
def test_allowed_urls(url: str) -> None:
    assert check_url(url, ALLOW) in ALLOW


@pytest.mark.parametrize(
    "url",
    [
        "", "/", "hooks.example.com", "//hooks.example.com/", "https:hooks.example.com", "https:///hooks.example.com/",
        "http://hooks.example.com/", "https://hooks.example.com:443/", "https://hooks.example.com:8443/",
        "https://hooks.example.com./", "https://hooks.example.com.evil.org/", "https://evil.org/hooks.example.com",
        "https://hooks.example.com@evil.org/", "https://user:pw@hooks.example.com/", "https://@hooks.example.com/",
        "https://evil.org#https://hooks.example.com/", "https://hooks.example.com#x", "https://hooks.example.com/#x",
        "https://hooks.example.com\\@evil.org/", "https://evil.org\\hooks.example.com/", "https://hooks.example.com\\/",
        "https://hooks.example.com:@evil.org/", "https://hooks.example.com%2eevil.org/", "https://hooks%2eexample.com/",
        "https://hooks.example.com:/", "https://hooks.example.com:0443/", "https://hooks\u3002example.com/",
        "https://h\u043eoks.example.com/", "https://hooks.example.com/ü", "https://hooks.example.com/a b",
        "https://hooks.example.com/\r\nX: y", "https://hooks.example.com\t/", " https://hooks.example.com/",
        "https://hooks.example.com/\x00", "https://hooks.example.com/\x7f", "ftp://hooks.example.com/",
        "file:///etc/passwd", "gopher://hooks.example.com/", "javascript:alert(1)", "http://10.0.0.1/",
        "http://10.0.0.1:80800/", "http://010.0.0.1:8080/", "http://0x0a000001:8080/", "http://167772161:8080/",
        "http://[::ffff:10.0.0.1]:8080/", "http://[::1]/", "http://[0:0:0:0:0:0:0:1]:9/", "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data", "https://hooks.example.com/" + "a" * 2000, "https://", "https://?",
    ],
)  # fmt: skip
def test_forbidden_urls(url: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_url(url, ALLOW)


@given(st.text(st.characters(max_codepoint=0x2100), max_size=12), st.sampled_from(["", "/", "?", "//", "@", ":", "."]))
def test_allowed_urls_are_requested_at_their_origin(rest: str, between: str) -> None:
    url = f"https://hooks.example.com{between}{rest}"
    try:
        check_url(url, ALLOW)
    except InvalidArgumentError:
        return
    result = httpx.URL(url)
    assert (result.scheme, result.host, result.port, result.userinfo) == ("https", "hooks.example.com", None, b"")
    assert result.fragment == ""


def test_a_rejection_names_the_origin_to_add() -> None:
    with pytest.raises(InvalidArgumentError, match=r'add "https://evil.org" to allow'):
        check_url("https://evil.org/x", ())


@pytest.mark.parametrize(
    ("secret", "mode", "why"),
    [
        (None, 0o600, "cannot be read"),
        (b"", 0o600, "0 bytes"),
        (b"  short  \n", 0o600, "5 bytes"),
        (b"x" * 5000, 0o600, "bytes"),
        (SECRET, 0o644, "chmod 600"),
        (SECRET, 0o602, "chmod 600"),
        (SECRET, 0o620, "chmod 600"),
    ],
)
def test_a_secret_that_cannot_be_used(tmp_path: Path, secret: bytes | None, mode: int, why: str) -> None:
    path = tmp_path / "secret"
    if secret is not None:
        path.write_bytes(secret)
        path.chmod(mode)
    with pytest.raises(ConfigError, match=why) as raised:
        read_secret(Settings(("https://a",), str(path)))
    assert not secret or secret.decode().strip() not in str(raised.value)
    assert read_secret(Settings((), str(path))) == b""


def test_a_folder_is_no_secret(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    with pytest.raises(ConfigError, match="not a file"):
        read_secret(Settings(("https://a",), str(tmp_path)))


def test_a_secret_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o640)
    assert read_secret(Settings(("https://a",), str(path))) == SECRET


def test_an_alarm_is_sent_when_it_begins_and_ceases_to_fire(tmp_path: Path, receiver: Receiver) -> None:
    secret = tmp_path / "webhook.secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    allowed = f'[server.webhooks]\nallow = ["{receiver.origin}"]\nsecret_file = "webhook.secret"'
    result = {"stream": "latency", "phi": 0.5, "above": 100, "key": "/pay", "name": "slow"}
    hook = {"webhook": f"{receiver.origin}/path-of-mine"}
    config = configure(tmp_path, allowed)
    with make_store(tmp_path) as history:
        history.append([200.0] * 9, key="/pay", times=0.0, filters={"errors": [False] * 9})
        with run_server(config) as client:
            assert client.post("/api/alarms", json=result | {"webhook": "http://127.0.0.1/"}).status_code == 400
            id = client.post("/api/alarms", json=result | hook).json()["id"]
            until(lambda: client.get(f"/api/alarms/{id}").json()["delivery"]["status"] == "delivered")
        with run_server(config) as client:
            until(lambda: client.get(f"/api/alarms/{id}").json()["version"] is not None)
            assert client.get(f"/api/alarms/{id}").json()["firing"]
            history.append([1.0] * 90, key="/pay", times=1.0, filters={"errors": [False] * 90})
            until(lambda: not client.get("/api/alarms").json()["alarms"][0]["firing"])
            until(lambda: client.get(f"/api/alarms/{id}").json()["delivery"]["status"] == "delivered")
            data = client.get(f"/api/alarms/{id}/history").json()["transitions"]
    bodies = [json.loads(body) for _, _, body in receiver.requests]
    assert [(body["firing"], body["state"], body["alarm"]) for body in bodies] == [
        (True, "certain", id),
        (False, "no", id),
    ]
    assert [body["number"] for body in bodies] == [one["number"] for one in reversed(data)]
    assert bodies[0]["value"] == 200.0
    assert not any("path-of-mine" in json.dumps(body) for body in [*bodies, *data])
