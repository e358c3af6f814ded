"""HTTP proxy between a client and an object store: logs requests, and injects faults into those that a test chooses."""

import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.object_servers.exchange import Exchange, Request
from tests.object_servers.faults import Fault
from tests.object_servers.late_deletes import LateDeletes
from tests.object_servers.object_location import ObjectLocation


@dataclass
class _Rule:
    fault: Fault
    method: str | None
    path: str
    skip: int
    times: int | None

    def applies(self, request: Request) -> bool:
        """Return True if the request gets the fault; count it."""
        if self.times == 0 or not _matches(request, self.method, self.path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class FaultProxy:
    """Proxy at a free port of loopback. It forwards every request to which no rule applies."""

    def __init__(self, server_port: int) -> None:
        self.log: list[Request] = []
        self.closed = threading.Event()
        self._server_port = server_port
        self._rules: list[_Rule] = []
        self._late_deletes: list[LateDeletes] = []
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._listener = _Listener(self)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> "FaultProxy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
        if self._errors:
            raise self._errors[0]

    def redirect(self, location: ObjectLocation) -> ObjectLocation:
        """Return a location with the endpoint of this proxy instead of the server's."""
        server, proxy = f"//127.0.0.1:{self._server_port}", f"//127.0.0.1:{self._listener.server_port}"
        endpoint = location.options["endpoint"]
        assert server in endpoint, f"this proxy belongs to another server than {location.uri}"
        return location._replace(options=location.options | {"endpoint": endpoint.replace(server, proxy)})

    def inject(
        self, fault: Fault, method: str | None = None, path: str = "", *, skip: int = 0, times: int | None = 1
    ) -> None:
        """Inject a fault into the next requests with this method and this part of the path.

        The first `skip` of them pass, the next `times` get the fault; None means all. The rule that was added first
        and applies decides.
        """
        with self._lock:
            self._rules.append(_Rule(fault, method, path, skip, times))

    def delay_deletes(self, reads: int, path: str = "") -> None:
        """Answer `reads` reads of each object with this part of the path after its delete.

        Applies to objects that are written from now on, in one request each.
        """
        self._late_deletes.append(LateDeletes(reads, path))

    def clear(self) -> None:
        """Remove all rules and forget all requests."""
        with self._lock:
            self._rules.clear()
            self._late_deletes.clear()
            self.log.clear()

    def count(self, method: str | None = None, path: str = "") -> int:
        """Return the number of requests with this method and this part of the path."""
        with self._lock:
            return sum(_matches(request, method, path) for request in self.log)

    def handle(self, exchange: Exchange) -> None:
        """Answer a request, or let a fault do so."""
        with self._lock:
            self.log.append(exchange.request)
            fault = next((rule.fault for rule in self._rules if rule.applies(exchange.request)), self._forward)
        fault(exchange)

    def _forward(self, exchange: Exchange) -> None:
        for late in self._late_deletes:
            if copy := late.answer(exchange):
                exchange.reply(copy)
                return
        answer = exchange.forward()
        for late in self._late_deletes:
            late.record(exchange, answer)
        exchange.reply(answer)

    def new_exchange(self, client: BaseHTTPRequestHandler) -> Exchange:
        """Read a request of a client."""
        if self.closed.is_set():
            raise ConnectionAbortedError("a client uses a connection to a proxy that is closed")
        return Exchange(client, self._server_port, self.closed)

    def report(self, error: BaseException | None) -> None:
        """Record an error of the proxy, raised at its end; a connection that breaks is none."""
        if error and not isinstance(error, ConnectionError):
            self._errors.append(error)


def _matches(request: Request, method: str | None, path: str) -> bool:
    return method in (None, request.method) and path in request.path


class _Listener(ThreadingHTTPServer):
    daemon_threads, block_on_close, request_queue_size = True, False, 128

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.proxy.report(sys.exception())


class _Handler(BaseHTTPRequestHandler):
    """Connection of a client."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    server: _Listener

    def _handle(self) -> None:
        self.server.proxy.handle(self.server.proxy.new_exchange(self))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the proxy has its own log."""
