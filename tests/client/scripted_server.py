"""Server that sends scripted bytes: one script for each connection."""

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

STAY_SILENT = None  # in a script: send nothing more, and leave the connection open


class ScriptedServer:
    """Scripted server in a thread: its address and the requests it received."""

    def __init__(self, scripts: Sequence[Sequence[bytes | None]], tls: ssl.SSLContext | None) -> None:
        self._scripts, self._stopped, self._tls = list(scripts), threading.Event(), tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self.client_left = threading.Event()
        """Set when a client disconnects while the server stays silent."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
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
            chunk = connection.recv(65536)
            if not chunk:
                return
            head += chunk
        self.requests.append(head)
        for piece in script:
            if piece is not STAY_SILENT:
                connection.sendall(piece)
            elif connection.recv(1) == b"":
                self.client_left.set()

    def close(self) -> None:
        self._stopped.set()
        for connection in (self._listener, *self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._thread.join()


@contextmanager
def scripted_server(*scripts: Sequence[bytes | None], tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """Run a server that plays one script per connection and repeats the last one."""
    server = ScriptedServer(scripts, tls)
    try:
        yield server
    finally:
        server.close()


def response(body: bytes, kind: str = "application/json", status: str = "200 OK", more: Sequence[str] = ()) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close", *more]
    return "\r\n".join([*head, "", ""]).encode() + body


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"
