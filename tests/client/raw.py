"""A server that answers whatever a test wants: bytes for each connection, one after the other."""

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

HOLD = None  # in a script: say nothing more, and keep the connection open


class Raw:
    """What a server was sent, and where it is."""

    def __init__(self, scripts: Sequence[Sequence[bytes | None]], tls: ssl.SSLContext | None) -> None:
        self._scripts, self._end, self._tls = list(scripts), threading.Event(), tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"http{'s' if tls else ''}://127.0.0.1:{self._listening.getsockname()[1]}"
        self.requests: list[bytes] = []
        self.left = threading.Event()
        """Whether a client hung up while it was told nothing."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._end.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
            with connection, suppress(OSError):
                if self._tls is None:
                    self._play(connection, script)
                else:
                    with self._tls.wrap_socket(connection, server_side=True) as encrypted:
                        self._play(encrypted, script)

    def _play(self, connection: socket.socket, script: Sequence[bytes | None]) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            read = connection.recv(65536)
            if not read:
                return
            head += read
        self.requests.append(head)
        for piece in script:
            if piece is not HOLD:
                connection.sendall(piece)
            elif connection.recv(1) == b"":
                self.left.set()

    def close(self) -> None:
        self._end.set()
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join()


@contextmanager
def raw(*scripts: Sequence[bytes | None], tls: ssl.SSLContext | None = None) -> Iterator[Raw]:
    """A server that plays one script a connection, the last one again and again."""
    server = Raw(scripts, tls)
    try:
        yield server
    finally:
        server.close()


def response(body: bytes, kind: str = "application/json", status: str = "200 OK", more: Sequence[str] = ()) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close", *more]
    return "\r\n".join([*head, "", ""]).encode() + body


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"
