"""Webhooks: the URLs that may receive alarms, the secret, and the signature of a body."""

import hmac
import os
import re
import stat

from quantide.config.server_config import Webhooks
from quantide.errors import ConfigError, InvalidArgumentError

MAX_URL = 2_000  # characters
MIN_SECRET, MAX_SECRET = 16, 4_096  # bytes
URL = re.compile(r"(https?://[!-~]+?)(?:[/?][!-~]*)?", re.IGNORECASE)
FORBIDDEN = re.compile(r"[\\#]|^[^/]*//[^/?]*@")  # parsers of URLs disagree about these
CREATE_SECRET = "for instance with: umask 077; openssl rand -hex 32 > {}"


def check_url(url: str, allow: tuple[str, ...]) -> str:
    """Return the origin of a URL; raise if the configuration does not allow it.

    The part up to the path is compared as text, ignoring case, with the configured origins. So no parser has to decide
    what another spelling of a host, a port or a user means.
    """
    match = URL.fullmatch(url) if len(url) <= MAX_URL else None
    origin = "" if match is None else match[1].lower()
    if match is None or FORBIDDEN.search(url):
        raise InvalidArgumentError(
            f"a webhook is a URL such as https://hooks.example.com/path of at most {MAX_URL:,} plain characters, "
            "without a user, a backslash or a #"
        )
    if origin not in {allowed.lower() for allowed in allow}:
        raise InvalidArgumentError(
            f'webhooks to {origin[:200]} are not allowed; add "{origin[:200]}" to allow under [server.webhooks], '
            "or spell it as there"
        )
    return origin


def read_secret(webhooks: Webhooks) -> bytes:
    """Return the secret, without surrounding blanks; empty if no webhook is allowed."""
    if not webhooks.allow:
        return b""
    path = webhooks.secret_file
    if path is None:
        raise ConfigError('server.webhooks.secret_file is missing; add secret_file = "webhook.secret"')
    advice = CREATE_SECRET.format(path)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(f"server.webhooks.secret_file: {path} is not a file; make one, {advice}")
        if mode & 0o027:
            raise ConfigError(
                f"server.webhooks.secret_file: others can read or change {path}; run chmod 600 {path}, "
                "and write another secret if they may have read it"
            )
        with open(path, "rb") as file:
            secret = file.read(MAX_SECRET + 1).strip()
    except OSError as error:
        raise ConfigError(
            f"server.webhooks.secret_file: {path} cannot be read ({error.strerror}); make it, {advice}"
        ) from error
    if not MIN_SECRET <= len(secret) <= MAX_SECRET:
        raise ConfigError(
            f"server.webhooks.secret_file: {path} has {len(secret)} bytes; a secret has {MIN_SECRET} to "
            f"{MAX_SECRET:,}: make one, {advice}"
        )
    return secret


def signed(secret: bytes, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers by which a receiver verifies the sender and the time of a body."""
    code = hmac.new(secret, f"{timestamp}.".encode() + body, "sha256").hexdigest()
    return {"Quantide-Timestamp": str(timestamp), "Quantide-Signature": f"sha256={code}"}
