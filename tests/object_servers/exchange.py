"""One request that passes the proxy, and its answer."""

import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from urllib.parse import unquote

from tests.object_servers.bulk_delete import deleted_paths

Headers = list[tuple[str, str]]
CONNECTION_HEADERS = {"connection", "keep-alive", "transfer-encoding", "expect"}  # of a connection, not of a request
SERVER_TIMEOUT = 60.0  # seconds


@dataclass
class Request:
    """Request of a client, as the log shows it. `status` remains None if it is not answered.

    A delete of many objects has the method DELETE, and their paths one per line.
    """

    method: str
    path: str  # decoded, without the query
    query: str
    range: str | None
    sent: int  # bytes of its body
    status: int | None = None
    received: int = 0  # bytes of the answer's body


class Answer(NamedTuple):
    """Answer of the server, or of the proxy instead of it."""

    status: int
    headers: Headers
    body: bytes


class Exchange:
    """Request with its two connections: to the client and to the server. A fault decides how they are used."""

    def __init__(self, client: BaseHTTPRequestHandler, server_port: int, closed: threading.Event) -> None:
        self._client, self._server_port, self.closed = client, server_port, closed
        assert "Transfer-Encoding" not in client.headers, "the proxy reads no chunked requests; obstore sends none"
        length = int(client.headers.get("Content-Length", 0))
        self.body = client.rfile.read(length)
        if len(self.body) < length:
            raise ConnectionAbortedError("the client disconnected")
        encoded_path, _, query = client.path.partition("?")
        method, path = client.command, unquote(encoded_path)
        self.deleted = deleted_paths(method, path, query, self.body)
        if self.deleted:
            method, path = "DELETE", "\n".join(self.deleted)
        self.request = Request(method, path, query, client.headers.get("Range"), length)

    def forward(self) -> Answer:
        """Send the request to the server and return its answer."""
        with closing(self._connect()) as server:
            with suppress(ConnectionError):  # the server may answer before it has read the body
                server.send(self.body)
            response = server.getresponse()
            return Answer(response.status, response.getheaders(), response.read())

    def forward_half(self) -> None:
        """Send half of the request's body to the server, then disconnect."""
        with closing(self._connect()) as server:
            server.send(self.body[: len(self.body) // 2])

    def reply(self, answer: Answer) -> None:
        """Send an answer to the client."""
        self._start_reply(answer)
        self._client.wfile.write(answer.body)
        self.request.received = len(answer.body)

    def reply_half(self, answer: Answer) -> None:
        """Send half of an answer's body to the client, then disconnect."""
        self._start_reply(answer)
        self._client.wfile.write(answer.body[: len(answer.body) // 2])
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection to the client after this request."""
        self._client.close_connection = True

    def _connect(self) -> HTTPConnection:
        """Connect to the server and send the head of the request; signatures cover the path and the headers."""
        server = HTTPConnection("127.0.0.1", self._server_port, timeout=SERVER_TIMEOUT)
        server.putrequest(self._client.command, self._client.path, skip_host=True, skip_accept_encoding=True)
        for name, value in _without(self._client.headers.items(), CONNECTION_HEADERS):
            server.putheader(name, value)
        server.endheaders()
        return server

    def _start_reply(self, answer: Answer) -> None:
        self.request.status = answer.status
        self._client.send_response_only(answer.status)
        is_empty = self.request.method == "HEAD" or answer.status in (204, 304)  # has the length of what it describes
        replaced = CONNECTION_HEADERS if is_empty else CONNECTION_HEADERS | {"content-length"}
        for name, value in _without(answer.headers, replaced):
            self._client.send_header(name, value)
        if not is_empty:
            self._client.send_header("Content-Length", str(len(answer.body)))
        self._client.end_headers()


def _without(headers: Headers, names: set[str]) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in names]
