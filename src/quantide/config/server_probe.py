"""Server probe: finds out whether a Quantide server answers at a configured address."""

import http.client
import json
import ssl

from quantide.config.server_config import ServerConfig

REQUEST_TIMEOUT = 3.0
LOCAL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # to reach a server that listens on all


def is_quantide(server: ServerConfig) -> bool:
    """Return True if GET /healthz gets the response of a Quantide server."""
    host = LOCAL_ADDRESSES.get(server.host, server.host)
    connection: http.client.HTTPConnection
    if server.tls_cert is None:
        connection = http.client.HTTPConnection(host, server.port, timeout=REQUEST_TIMEOUT)
    else:
        unchecked = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(host, server.port, timeout=REQUEST_TIMEOUT, context=unchecked)
    try:
        connection.request("GET", "/healthz")
        body = json.loads(connection.getresponse().read(1000))
        return bool(body == {"status": "ok"})
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()
