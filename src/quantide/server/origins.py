"""Where alarms may be sent, and the secret that signs what is sent."""

import os
import re
import stat

from quantide.config.server import Webhooks
from quantide.errors import ConfigError, InvalidArgumentError

LONGEST_URL = 2_000
SHORTEST_SECRET, LONGEST_SECRET = 16, 4_096  # bytes
URL = re.compile(r"(https?://[!-~]+?)(?:[/?][!-~]*)?", re.IGNORECASE)
FORBIDDEN = re.compile(r"[\\#]|^[^/]*//[^/?]*@")  # what readers of URLs differ about


def check_url(url: str, allow: tuple[str, ...]) -> str:
    """The origin of a URL that alarms may be sent to.

    The part up to the path is compared as text, but for its case, with what the configuration has: so nobody has to
    agree about what another spelling of a host, a port or a user would mean.
    """
    found = URL.fullmatch(url) if len(url) <= LONGEST_URL else None
    origin = "" if found is None else found[1].lower()
    if found is None or FORBIDDEN.search(url):
        raise InvalidArgumentError(
            f"a webhook is a URL such as https://hooks.example.com/path of at most {LONGEST_URL:,} plain characters, "
            "without a user, a backslash or a #"
        )
    if origin not in {one.lower() for one in allow}:
        raise InvalidArgumentError(
            f'webhooks to {origin[:200]} are not allowed; add "{origin[:200]}" to allow under [server.webhooks], '
            "or spell it as there"
        )
    return origin


def read_secret(webhooks: Webhooks) -> bytes:
    """The secret, without blanks around it; none is needed where nothing may be sent."""
    if not webhooks.allow:
        return b""
    path = webhooks.secret_file
    if path is None:
        raise ConfigError('server.webhooks.secret_file is missing; add secret_file = "webhook.secret"')
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(f"server.webhooks.secret_file: {path} is not a file; make one, {HOW.format(path)}")
        if mode & 0o027:
            raise ConfigError(
                f"server.webhooks.secret_file: others can read or change {path}; run chmod 600 {path}, "
                "and write another secret if they may have read it"
            )
        with open(path, "rb") as file:
            secret = file.read(LONGEST_SECRET + 1).strip()
    except OSError as error:
        raise ConfigError(
            f"server.webhooks.secret_file: {path} cannot be read ({error.strerror}); make it, {HOW.format(path)}"
        ) from error
    if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
        raise ConfigError(
            f"server.webhooks.secret_file: {path} has {len(secret)} bytes; a secret has {SHORTEST_SECRET} to "
            f"{LONGEST_SECRET:,}: make one, {HOW.format(path)}"
        )
    return secret


HOW = "for instance with: umask 077; openssl rand -hex 32 > {}"
