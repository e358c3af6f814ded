"""Requests: one address, one token, errors with names."""

import json
import math
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote

import httpx

from quantide.client.address import EXAMPLE, check_token, is_loopback, read_address
from quantide.client.problems import error_of, not_understood
from quantide.errors import InvalidArgumentError, ServerError
from quantide.summary.copying import NotCopied

IDLE = 4.0  # seconds that a connection is kept for the next request; servers close theirs after 5
BROKEN = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError, httpx.CloseError)


class Connection(NotCopied):
    """What every part of a client sends its requests with.

    Redirects are not followed: a token goes to the address that was given and nowhere else. Proxies of the environment
    (HTTPS_PROXY, NO_PROXY) are used for https only, which they cannot read, and never towards this machine itself.
    """

    REOPEN = "it holds connections, perhaps a token; pass its address, and make a Client(address) where it is needed"

    def __init__(
        self,
        address: str = EXAMPLE,
        token: str | None = None,
        timeout: float = 10.0,
        ca: str | None = None,
    ) -> None:
        self.address = read_address(address)
        self.timeout = check_seconds("timeout", timeout)
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {check_token(token, self.address)}"
        encrypted = self.address.startswith("https:")
        self._http = httpx.Client(
            base_url=self.address,
            headers=headers,
            timeout=self.timeout,
            verify=_authorities(ca) if encrypted else True,
            trust_env=encrypted and not is_loopback(self.address),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=IDLE),
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    # Requests

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """What a route answers. Asked once more when the connection broke: a question changes nothing."""
        return self._json(self.get_bytes(path, **parameters))

    def get_bytes(self, path: str, **parameters: Any) -> bytes:
        try:
            return self._send("GET", path, params=parameters)
        except ServerError as error:
            if not isinstance(error.__cause__, BROKEN):
                raise
        return self._send("GET", path, params=parameters)

    def change(self, method: str, path: str, body: Any = None, **parameters: Any) -> dict[str, Any]:
        """Something other than a question. Never sent twice: the first may have arrived."""
        sent: dict[str, Any] = {"params": parameters}
        if body is not None:
            sent |= {"content": _json_bytes(body), "headers": {"Content-Type": "application/json"}}
        answer = self._send(method, path, **sent)
        return self._json(answer) if answer else {}

    def listen(self, path: str, parameters: Any, headers: Any, silence: float) -> httpx.Response:
        """A response that is read as it comes, and given up after so many seconds without a word."""
        with self.naming():
            waits = httpx.Timeout(self.timeout, read=silence)
            request = self._http.build_request("GET", path, params=parameters, headers=headers, timeout=waits)
            response = self._http.send(request, stream=True)
            if not response.is_success:
                response.read()
        try:
            self.check(response)
            if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "text/event-stream":
                raise not_understood(self.address, "these are not events")
        except BaseException:
            response.close()
            raise
        return response

    @contextmanager
    def naming(self, change: bool = False) -> Iterator[None]:
        """What goes wrong on the way, by its name."""
        try:
            yield
        except httpx.HTTPError as error:
            unsure = "; it may have been carried out: look before you send it again" if change else ""
            raise ServerError(_reason(error, self.address) + unsure) from error
        except RuntimeError as error:
            if self._http.is_closed:
                raise InvalidArgumentError("this client is closed; make another one") from error
            raise

    def check(self, response: httpx.Response) -> None:
        """Refuse a response, which has been read, that is not a success."""
        if response.is_success:
            return
        if response.has_redirect_location:
            there = response.headers["Location"][:200]
            raise ServerError(f"{self.address} sends on to {there!r}; if you trust that, give it as the address")
        raise error_of(response.status_code, response.content, self.address)

    def _send(self, method: str, path: str, **sent: Any) -> bytes:
        with self.naming(method != "GET"):
            response = self._http.request(method, path, **sent)
        self.check(response)
        return response.content

    def _json(self, content: bytes) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise not_understood(self.address, "it is not JSON") from error
        if not isinstance(found, dict):
            raise not_understood(self.address, "it is not an object in JSON")
        return found


def check_seconds(name: str, seconds: Any) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise InvalidArgumentError(f"{name} is a number of seconds above zero, not {seconds!r}")
    return float(seconds)


def path_of(*parts: Any) -> str:
    """A path of the API, each part of it quoted.

    >>> path_of("streams", "latency", "rank")
    '/api/streams/latency/rank'
    """
    return "/".join(["/api", *(quote(str(part), safe="") for part in parts)])


def named(words: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some parameters that were given."""
    return {name: value for name, value in words.items() if value is not None}


def _json_bytes(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"this cannot be sent as JSON: {error}") from error


def _authorities(ca: str | None) -> ssl.SSLContext:
    if ca is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, TypeError) as error:  # among them ssl.SSLError
        raise InvalidArgumentError(f"{ca!r} is not a file of certificates (PEM) that can be read: {error}") from error


def _reason(error: httpx.HTTPError, address: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return f"the certificate of {address} is not trusted ({error}); name the file of one that is, with ca="
    if "[SSL" in str(error):
        return f"{address} does not speak https, or no version that is safe ({error}); see whether it is http:// here"
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return f"{address} cannot be reached ({error}); see whether the server runs, and the address, port and firewall"
    if isinstance(error, httpx.TimeoutException):
        return f"{address} did not answer in time; see how busy the server is, or give the client a longer timeout="
    if isinstance(error, BROKEN):
        return f"the connection to {address} broke before all of an answer came ({error}); see the log of the server"
    return f"{address} cannot be asked ({type(error).__name__}: {error}); see the address, and proxies in between"
