"""HTTP requests to one server: its address, its token, and its error responses as named exceptions."""

import json
import math
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from quantide import errors
from quantide.errors import BacklogError, InvalidArgumentError, QuantideError, ServerError
from quantide.summary.copying import NotCopied

DEFAULT_ADDRESS = "http://127.0.0.1:8642"
TOKEN = re.compile(r"[!-~]{1,1000}")
KEEPALIVE_SECONDS = 4.0  # idle connections are reused for less than the 5 s after which servers close them
BROKEN_CONNECTION = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError, httpx.CloseError)
NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout)
MAX_RETRY_AFTER = 600  # seconds
MAX_MESSAGE_LENGTH = 2_000  # characters shown of a server's error message
ERROR_TYPES: dict[str, type[QuantideError]] = {
    error_type.code: error_type
    for error_type in vars(errors).values()
    if isinstance(error_type, type) and issubclass(error_type, QuantideError)
}


class Connection(NotCopied):
    """Base class of the client's method groups: sends requests and raises named errors.

    Redirects are not followed: the token is sent to the given address only. Proxies from the environment (HTTPS_PROXY,
    NO_PROXY) are used for https only, which they cannot read, and never for a loopback address.
    """

    REOPEN = "it holds connections, perhaps a token; pass its address, and make a Client(address) where it is needed"

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        token: str | None = None,
        timeout: float = 10.0,
        ca: str | None = None,
    ) -> None:
        self.address = parse_address(address)
        self.timeout = check_seconds("timeout", timeout)
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {check_token(token, self.address)}"
        encrypted = self.address.startswith("https:")
        self._open_http: Callable[[], httpx.Client] = lambda: httpx.Client(
            base_url=self.address,
            headers=headers,
            timeout=self.timeout,
            verify=_create_ssl_context(ca) if encrypted else True,
            trust_env=encrypted and not is_loopback(self.address),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_SECONDS),
        )
        self._http = self._open_http()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def reconnect(self) -> None:
        """Open new connections and leave the old ones alone: a process that was forked shares them with its parent."""
        self._http = self._open_http()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    # Requests

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Send a GET request and return its JSON object; retry once if the connection breaks."""
        return self._parse_json(self.get_bytes(path, **parameters))

    def get_bytes(self, path: str, **parameters: Any) -> bytes:
        """Send a GET request and return its body; retry once if the connection breaks."""
        try:
            return self._send("GET", path, params=parameters)
        except ServerError as error:
            if not isinstance(error.__cause__, BROKEN_CONNECTION):
                raise
        return self._send("GET", path, params=parameters)

    def change(self, method: str, path: str, body: Any = None, **parameters: Any) -> dict[str, Any]:
        """Send a request that changes state. Never retried: the first attempt may have arrived."""
        options: dict[str, Any] = {"params": parameters}
        if body is not None:
            options |= {"content": _encode_json(body), "headers": {"Content-Type": "application/json"}}
        content = self._send(method, path, **options)
        return self._parse_json(content) if content else {}

    def send_rows(self, path: str, content_type: str, content: bytes, key: str) -> dict[str, Any]:
        """Send rows; retry once if the connection breaks, which the idempotency key makes harmless."""
        options: dict[str, Any] = {"content": content}
        options["headers"] = {"Content-Type": content_type, "Idempotency-Key": key}
        try:
            return self._parse_json(self._send("POST", path, **options))
        except ServerError as error:
            if not isinstance(error.__cause__, BROKEN_CONNECTION):
                raise
        return self._parse_json(self._send("POST", path, **options))

    def open_event_stream(self, path: str, parameters: Any, headers: Any, read_timeout: float) -> httpx.Response:
        """Return an open event-stream response; reading it fails after `read_timeout` seconds without a byte."""
        with self.translate_errors():
            timeout = httpx.Timeout(self.timeout, read=read_timeout)
            request = self._http.build_request("GET", path, params=parameters, headers=headers, timeout=timeout)
            response = self._http.send(request, stream=True)
            if not response.is_success:
                response.read()
        try:
            self.raise_for_status(response)
            if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "text/event-stream":
                raise malformed_response(self.address, "these are not events")
        except BaseException:
            response.close()
            raise
        return response

    @contextmanager
    def translate_errors(self, changes_state: bool = False) -> Iterator[None]:
        """Raise httpx's errors as ServerError, and the use of a closed client as InvalidArgumentError."""
        try:
            yield
        except httpx.HTTPError as error:
            is_unsure = changes_state and not isinstance(error, httpx.ConnectError)
            unsure = "; it may have been carried out: look before you send it again" if is_unsure else ""
            failure = ServerError(_describe_failure(error, self.address) + unsure)
            if isinstance(error, NOT_CONNECTED):
                raise failure from None  # its message has the cause; tracebacks of httpx would bury it
            raise failure from error
        except RuntimeError as error:
            if self._http.is_closed:
                raise InvalidArgumentError("this client is closed; make another one") from error
            raise

    def raise_for_status(self, response: httpx.Response) -> None:
        """Raise the named error of a response, already read, that is not a success."""
        if response.is_success:
            return
        if response.has_redirect_location:
            target = response.headers["Location"][:200]
            raise ServerError(f"{self.address} redirects to {target!r}; if you trust that, give it as the address")
        error = parse_error(response.status_code, response.content, self.address)
        if isinstance(error, ServerError):
            error.status = response.status_code
        if isinstance(error, BacklogError) and response.headers.get("Retry-After", "").isdigit():
            error.retry_after = min(int(response.headers["Retry-After"]), MAX_RETRY_AFTER)
        raise error

    def _send(self, method: str, path: str, **options: Any) -> bytes:
        with self.translate_errors(changes_state=method != "GET"):
            response = self._http.request(method, path, **options)
        self.raise_for_status(response)
        return response.content

    def _parse_json(self, content: bytes) -> dict[str, Any]:
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise malformed_response(self.address, "it is not JSON") from error
        if not isinstance(body, dict):
            raise malformed_response(self.address, "it is not a JSON object")
        return body


# Arguments


def parse_address(address: str) -> str:
    """Check a server's address and return it without trailing slashes.

    >>> parse_address("http://127.0.0.1:8642/")
    'http://127.0.0.1:8642'
    """
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (AttributeError, TypeError, ValueError):
        valid = False
    if not valid or re.search(r"[\s\\]", address):
        shown = _hide_password(address)
        raise InvalidArgumentError(f"{shown!r} is not the address of a server; give one such as {DEFAULT_ADDRESS}")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgumentError("the address contains a user name or a password; give a token with token= instead")
    if parts.query or parts.fragment:
        raise InvalidArgumentError(f"{_hide_password(address)!r} is the address of a page; write it without ? and #")
    return address.rstrip("/")


def is_loopback(address: str) -> bool:
    """Return True if requests to this address stay on this machine.

    >>> is_loopback("http://localhost:8642"), is_loopback("http://[::1]"), is_loopback("http://10.0.0.7")
    (True, True, False)
    """
    host = urlsplit(address).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: Any, address: str) -> str:
    """Return the token if it may be sent to this address: over https, or to this machine only."""
    if not isinstance(token, str) or not TOKEN.fullmatch(token):  # the message must not contain it
        raise InvalidArgumentError("that is not a token; give the text that `quantide token create` printed, all of it")
    if not address.startswith("https:") and not is_loopback(address):
        raise InvalidArgumentError(
            f"the token was not sent to {address}: plain http can be read on the way; use https, or a tunnel to this "
            "machine"
        )
    return token


def check_seconds(name: str, seconds: Any) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise InvalidArgumentError(f"{name} is a number of seconds above zero, not {seconds!r}")
    return float(seconds)


def api_path(*segments: Any) -> str:
    """Return a path of the API with every segment quoted.

    >>> api_path("streams", "latency", "rank")
    '/api/streams/latency/rank'
    """
    return "/".join(["/api", *(quote(str(segment), safe="") for segment in segments)])


def drop_none(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are not None."""
    return {name: value for name, value in parameters.items() if value is not None}


def _hide_password(address: object) -> object:
    """Return an address for a message, without the user name and password before an @."""
    return re.sub(r"//.*@", "//...@", address[:200], flags=re.DOTALL) if isinstance(address, str) else address


def _encode_json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"this cannot be sent as JSON: {error}") from error


def _create_ssl_context(ca: str | None) -> ssl.SSLContext:
    if ca is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, TypeError) as error:  # among them ssl.SSLError
        raise InvalidArgumentError(f"{ca!r} is not a file of certificates (PEM) that can be read: {error}") from error


# Error responses


def parse_error(status: int, body: bytes, address: str) -> QuantideError:
    """Return the exception that an error response describes.

    >>> parse_error(404, b'{"error": {"code": "unknown_stream", "message": "there is no stream"}}', "http://localhost")
    UnknownStreamError('there is no stream')
    """
    try:
        fields = json.loads(body)["error"]
        code, message = str(fields["code"]), str(fields["message"])[:MAX_MESSAGE_LENGTH]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ServerError(
            f"{address} answered with status {status} and no reason; check that this is the address of a Quantide "
            "server, and that no proxy in between answers for it"
        )
    error_type = ERROR_TYPES.get(code)
    return ServerError(f"{message} ({code[:80]})") if error_type is None else error_type(message)


@contextmanager
def parsing_response(address: str) -> Iterator[None]:
    """Raise ServerError if the block fails on a malformed response: the fault is the server's, not the caller's."""
    try:
        yield
    except ServerError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise malformed_response(address, f"{type(error).__name__}: {error}") from error


def malformed_response(address: str, reason: str) -> ServerError:
    return ServerError(
        f"the response of {address} is not understood ({reason[:200]}); check that this is the address of a Quantide "
        "server, and that it has the same version as this client"
    )


def _describe_failure(error: httpx.HTTPError, address: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return f"the certificate of {address} is not trusted ({error}); give the file of a trusted one with ca="
    if "[SSL" in str(error):
        return f"{address} does not offer https, or no safe version of it ({error}); check whether it is http:// here"
    if isinstance(error, NOT_CONNECTED):
        return f"{address} cannot be reached ({error}); check that the server runs, and the address, port and firewall"
    if isinstance(error, httpx.TimeoutException):
        return f"{address} did not answer in time; check the load of the server, or give the client a longer timeout="
    if isinstance(error, BROKEN_CONNECTION):
        return f"the connection to {address} broke before the answer was complete ({error}); check the server's log"
    return f"the request to {address} failed ({type(error).__name__}: {error}); check the address and any proxy"
