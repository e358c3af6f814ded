"""Headers that every response has, so that a browser does nothing with it that was not meant."""

from collections.abc import Iterable

Header = tuple[bytes, bytes]

ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
NO_STORE: Header = (b"cache-control", b"no-store")
HTTPS_ONLY: Header = (b"strict-transport-security", b"max-age=31536000")
POLICY = b"content-security-policy"
NOTHING: Header = (POLICY, b"default-src 'none'; frame-ancestors 'none'")
OWN_PAGES: Header = (
    POLICY,
    b"default-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
)


def with_safe(headers: Iterable[Header], secure: bool) -> list[Header]:
    """Headers and the safe ones; a route may have chosen its own Cache-Control and Content-Security-Policy."""
    found = [*headers]
    said = dict(found)
    if b"cache-control" not in said:
        found.append(NO_STORE)
    if POLICY not in said:
        found.append(OWN_PAGES if said.get(b"content-type", b"").startswith(b"text/html") else NOTHING)
    if secure:
        found.append(HTTPS_ONLY)
    found.extend(ALWAYS)
    return found
